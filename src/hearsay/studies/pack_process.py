"""A process that executes packs of runs for its parent process (`processes.py`), one after the other.

    python -m hearsay.studies.pack_process

Rules:

* The process reads pickled packs from stdin and writes pickled answers to stdout. The answers to a pack are each
  `Made` of the pack, and then None or, if the pack fails, an error message. Text that routers print goes to stderr.
* The process ends at once when its stdin ends, even during a run; this happens when the parent ends. The process
  ignores Ctrl-C, which the parent handles.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
from collections.abc import Sequence
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hearsay.studies.packs import Made, Task


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    from hearsay.studies.packs import describe_error, make_pack

    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as answers:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        packs: SimpleQueue[Sequence[Task]] = SimpleQueue()
        Thread(target=_read, args=(packs,), daemon=True).start()
        while True:
            answer: Made | str | None = None
            try:
                for answer in make_pack(packs.get()):
                    pickle.dump(answer, answers)
                answer = None
            except Exception as error:
                answer = describe_error(error)
            pickle.dump(answer, answers)
            answers.flush()


def _read(packs: SimpleQueue[Sequence[Task]]) -> None:
    try:
        while True:
            packs.put(pickle.load(sys.stdin.buffer))
    finally:
        os._exit(0)


if __name__ == "__main__":
    main()
