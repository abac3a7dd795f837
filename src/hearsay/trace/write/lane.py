"""Work that a thread does in the background, one task after the other.

Rules:

* numpy and pyarrow let go of the interpreter, so a lane uses a core of its own while its owner goes on.
* At most `ahead` tasks are unfinished; whoever gives one more waits. So what tasks hold stays bounded.
* The first error ends the lane: later tasks are not done, and the owner gets the error with the next call.
* With `ahead` 0 there is no thread: every task is done at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor


class Lane:
    def __init__(self, name: str, ahead: int) -> None:
        self.ahead = ahead
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name) if ahead else None
        self._unfinished: deque[Future[None]] = deque()
        self._ended = False

    def submit(self, task: Callable[[], None]) -> None:
        if self._thread is None:
            task()
            return
        while self._unfinished and (len(self._unfinished) >= self.ahead or self._unfinished[0].done()):
            self._unfinished.popleft().result()
        self._unfinished.append(self._thread.submit(self._do, task))

    def finish(self) -> None:
        """Wait until everything is done."""
        while self._unfinished:
            self._unfinished.popleft().result()

    def close(self) -> None:
        """Wait for the task that is being done; those that wait never are. For good; never raises."""
        self._ended = True
        if self._thread is not None:
            self._thread.shutdown(cancel_futures=True)

    def _do(self, task: Callable[[], None]) -> None:
        if self._ended:
            return
        try:
            task()
        except BaseException:
            self._ended = True
            raise
