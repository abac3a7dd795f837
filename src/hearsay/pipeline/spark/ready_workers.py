"""Python workers of an embedded session, forked from a process that did their imports while the JVM started.

    python -m hearsay.pipeline.spark.ready_workers SOCKET MODULE...

Rules:

* It imports the modules that tasks will need, once for all workers, and waits for `worker_daemon`, which the JVM
  starts as the daemon of its workers. That hands over its streams, its environment and its arguments; from then on
  Spark's own daemon runs here, unchanged.
* It ends when nobody can come any more: with the process that started it, later with the JVM.
* Nothing depends on it: where it is not there in time, Spark's daemon starts as it always does.
"""

from __future__ import annotations

import gc
import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from select import select

from hearsay.own_process import claim_process

DAEMON = "hearsay.pipeline.spark.worker_daemon"
"""What the JVM shall start as the daemon of its workers."""
OF_ANALYSES = ("hearsay.pipeline.run_tasks", "hearsay.pipeline.scan")
"""What the tasks of an analysis import."""
PLACE = "HEARSAY_READY_WORKERS"
"""The environment variable with the socket's path."""
TAKEN = b"+"
STREAMS = (0, 1, 2)
_MOST_BYTES = 1 << 20


def start_ready_workers(
    folder: Path, environment: Mapping[str, str], modules: Sequence[str], lock: int
) -> subprocess.Popen[bytes]:
    """Start the process; its socket lies in `folder`, which nobody else may read, and whose `lock` it has."""
    return subprocess.Popen(
        [sys.executable, "-m", __name__, str(place_in(folder)), *modules],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        env={"PYTHONHASHSEED": "0", **environment, "OMP_NUM_THREADS": "1"},
        pass_fds=(lock,),
        process_group=0,  # Ctrl-C is not for it; a session of its own would not let Spark's daemon have a group
    )


def place_in(folder: Path) -> Path:
    return folder / "workers"


def main(place: str, modules: Sequence[str]) -> None:
    claim_process()
    with socket.socket(socket.AF_UNIX) as listener:
        try:
            listener.bind(place)
        except OSError:  # a path that is too long for a socket
            return
        listener.listen(1)
        for module in ("pyspark.daemon", "pyspark.worker", *modules):
            with suppress(ImportError):  # the task that needs it says so
                import_module(module)
        gc.collect()
        gc.freeze()
        if listener not in select([sys.stdin, listener], [], [])[0]:
            return
        asked, _ = listener.accept()
    os.unlink(place)
    if _has_taken_over(asked):
        import_module("pyspark.daemon").manager()


def _has_taken_over(asked: socket.socket) -> bool:
    """Become what the one who asks was started as."""
    told, streams, _, _ = socket.recv_fds(asked, _MOST_BYTES, len(STREAMS))
    while more := asked.recv(_MOST_BYTES):
        told += more
    if len(streams) != len(STREAMS):
        return False
    for given, own in zip(streams, STREAMS, strict=True):
        os.dup2(given, own)
        os.close(given)
    sys.argv, environment = json.loads(told)
    os.environ.clear()
    os.environ.update(environment)
    asked.sendall(TAKEN)
    return True


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
