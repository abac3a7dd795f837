"""A process that keeps an embedded Spark session for the next commands.

    python -m hearsay.pipeline.spark.keeper MINUTES

Rules:

* It holds the JVM and tells commands of this user, in the same surroundings, where it listens and its secret
  (`kept_place`, `surroundings`). Commands are drivers of their own: they share the JVM, its context and its Python
  workers.
* It ends by itself: after so many minutes without a command, when it was asked to, when its JVM has ended, when its
  socket is gone (at the end of a login), and when it has served as many commands as it may (`lender`). Commands see
  that before their jobs fail.
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
from functools import partial
from pathlib import Path
from select import select
from typing import Any, NoReturn

from hearsay.pipeline.spark.kept_place import made_folder, socket_of_the_keeper
from hearsay.pipeline.spark.lender import MOST_AT_ONCE, Gateway, Lender
from hearsay.pipeline.spark.place import HEAP, SparkUnavailable, Where
from hearsay.pipeline.spark.ready_workers import OF_ANALYSES
from hearsay.pipeline.spark.session import jvm_is_running, spark_session
from hearsay.pipeline.spark.surroundings import surroundings

USUAL_HEAP = "1024m"
"""What runs of few rows need of the JVM, with room: their work is done in Python workers."""
_LOOK_EVERY_S = 1.0
_OF_STUDIES = ("hearsay.studies.packs",)


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
        spark_session(Where(), 0, lambda _: None, imports=(*OF_ANALYSES, *_OF_STUDIES)) as session,
    ):
        gateway = Gateway(int(os.environ["PYSPARK_GATEWAY_PORT"]), os.environ["PYSPARK_GATEWAY_SECRET"])
        lender = Lender(gateway, own, minutes, partial(_cancel, session))
        place.unlink(missing_ok=True)
        listener.bind(str(place))
        place.chmod(0o600)
        listener.listen(MOST_AT_ONCE)
        _warm(session)
        is_ready()
        try:
            while jvm_is_running() and not lender.is_over and (place.exists() or lender.is_used):
                if select([listener], [], [], _LOOK_EVERY_S)[0]:
                    lender.meet(listener.accept()[0])
        finally:
            place.unlink(missing_ok=True)
            lender.part()


def _cancel(session: Any, group: str) -> None:
    with suppress(Exception):  # the JVM may have ended
        session.sparkContext._jsc.sc().cancelJobGroupAndFutureJobs(group)


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
