"""A process that keeps an embedded Spark session for the next commands.

    python -m hearsay.pipeline.spark.keeper MINUTES

Rules:

* It holds the JVM and tells commands of this user, in the same surroundings, where it listens and its secret
  (`kept_place`). Commands are drivers of their own: they share the JVM, its context and its Python workers.
* A command is served as long as its connection is open. When it ends, however it ends, its jobs are cancelled.
* It ends by itself: after so many minutes without a command, when it was asked to, when its JVM has ended, and after
  `MOST_COMMANDS`, since each leaves a little in the JVM. `MOST_AT_ONCE` are served at once.
* One is kept at a time: the lock says which.
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from select import select
from threading import Lock, Thread
from time import monotonic
from typing import Any, NoReturn

from hearsay.pipeline.spark.kept_place import (
    is_of_this_user,
    made_folder,
    received,
    sent,
    socket_of_the_keeper,
    surroundings,
)
from hearsay.pipeline.spark.place import HEAP, SparkUnavailable, Where
from hearsay.pipeline.spark.ready_workers import OF_ANALYSES
from hearsay.pipeline.spark.session import jvm_is_running, spark_session

MOST_COMMANDS = 200
MOST_AT_ONCE = 8
USUAL_HEAP = "1024m"
"""What runs of few rows need of the JVM, with room: their work is done in Python workers."""
_LOOK_EVERY_S = 1.0
_ANSWER_S = 5.0


class Keeper:
    """The commands that are served, and until when others may come."""

    def __init__(self, session: Any, own: str, minutes: float) -> None:
        self._context = session.sparkContext
        self._own = own
        self._minutes = minutes
        self._lock = Lock()
        self._served = 0
        self._at_once = 0
        self._last = monotonic()
        self._asked_to_end = False

    @property
    def is_over(self) -> bool:
        with self._lock:
            unused = not self._at_once and monotonic() - self._last > self._minutes * 60
            return unused or self._asked_to_end or not jvm_is_running()

    def serve(self, there: socket.socket) -> None:
        """One connection, to its end."""
        with there, suppress(OSError):
            there.settimeout(_ANSWER_S)
            told = received(there) if is_of_this_user(there) else None
            match told and told.get("wants"):
                case "session":
                    self._lend(there, str(told and told.get("surroundings")))
                case "status":
                    sent(there, self._status())
                case "end":
                    sent(there, self._status())
                    self._asked_to_end = True
                    there.settimeout(None)
                    there.recv(1)  # whoever asked sees the end of this process as that of the connection
                case _:
                    pass

    def _lend(self, there: socket.socket, wanted: str) -> None:
        with self._lock:
            number = self._served
            problem = self._problem(wanted)
            if problem is None:
                self._served += 1
                self._at_once += 1
        if problem is not None:
            sent(there, {"refused": problem})
            return
        tag = f"command-{number}"
        try:
            sent(
                there,
                {
                    "port": int(os.environ["PYSPARK_GATEWAY_PORT"]),
                    "secret": os.environ["PYSPARK_GATEWAY_SECRET"],
                    "tag": tag,
                },
            )
            there.settimeout(None)
            there.recv(1)  # it says nothing more, and ends some time
        finally:
            with suppress(Exception):  # the JVM may have ended
                self._context.cancelJobsWithTag(tag)
            with self._lock:
                self._at_once -= 1
                self._last = monotonic()

    def _problem(self, wanted: str) -> str | None:
        if wanted != self._own:
            return "it was started by another version or with other settings"
        if self._at_once >= MOST_AT_ONCE:
            return f"{MOST_AT_ONCE} commands use it"
        if self._served >= MOST_COMMANDS:
            self._asked_to_end = not self._at_once
            return f"it has served {MOST_COMMANDS} commands, and ends"
        return None

    def _status(self) -> dict[str, Any]:
        with self._lock:
            left = self._minutes - (0 if self._at_once else (monotonic() - self._last) / 60)
            return {"pid": os.getpid(), "served": self._served, "now": self._at_once, "minutes_left": left}


def keep(minutes: float, is_ready: Callable[[], None]) -> None:
    """Keep a session until it is over."""
    made_folder()
    place = socket_of_the_keeper()
    lock = os.open(place.with_name("lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise SparkUnavailable("one is kept already") from None
    own = surroundings()  # before the session adds to them
    os.environ.setdefault(HEAP, USUAL_HEAP)
    with (
        socket.socket(socket.AF_UNIX) as listener,
        spark_session(Where(), 0, lambda _: None, imports=OF_ANALYSES) as session,
    ):
        keeper = Keeper(session, own, minutes)
        place.unlink(missing_ok=True)
        listener.bind(str(place))
        place.chmod(0o600)
        listener.listen(MOST_AT_ONCE)
        _warm(session)
        is_ready()
        try:
            _serve(listener, keeper)
        finally:
            place.unlink(missing_ok=True)


def _serve(listener: socket.socket, keeper: Keeper) -> None:
    while not keeper.is_over:
        if select([listener], [], [], _LOOK_EVERY_S)[0]:
            there, _ = listener.accept()
            Thread(target=keeper.serve, args=(there,), daemon=True).start()


def _warm(session: Any) -> None:
    """A task starts the daemon of the workers, which the first command would wait for."""
    session.sparkContext.parallelize(range(1), 1).collect()


def _tell(text: str) -> None:
    """To whoever started this, who waits for one line; nobody listens after that."""
    with suppress(OSError):
        os.write(1, f"{text}\n".encode())
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)


def _end(_number: int, _frame: object) -> NoReturn:
    sys.exit()


def main() -> None:
    signal.signal(signal.SIGTERM, _end)
    os.chdir(Path(os.sep))
    try:
        keep(float(sys.argv[1]), lambda: _tell("ready"))
    except Exception as error:
        _tell(str(error) or type(error).__name__)
        sys.exit(1)


if __name__ == "__main__":
    main()
