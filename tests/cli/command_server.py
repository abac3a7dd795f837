"""A server process that has imported the modules of commands, and forks a process for each requested command.

Rules:

* A command is a process of its own: its arguments, folder, environment, standard streams and exit are those that a
  fresh Python would have. Only its imports are done before.
* A fork has only the thread that called it, so no import may start a thread.
* A keeper process between the server and the command waits for the command's end and reports it to the process that
  requested the command. The server waits for no process, and ends with the process that started it.

Started by `prepared_commands.py` as `command_server.py FD`, with the descriptor of the socket for requests.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import signal
import socket
import sys
import tempfile
from contextlib import suppress
from importlib import import_module
from io import RawIOBase, TextIOWrapper
from pathlib import Path

PREPARED = (
    "pyarrow.compute", "pyarrow.dataset", "pyarrow.parquet", "pyspark.sql", "hearsay.cli.analyze",
    "hearsay.cli.commands", "hearsay.cli.explain", "hearsay.cli.main", "hearsay.cli.node_terminal",
    "hearsay.cli.report", "hearsay.cli.simulate", "hearsay.cli.sweep", "hearsay.cli.trace",
    "hearsay.cli.tune", "hearsay.ingest.import_traces", "hearsay.ingest.source_record", "hearsay.node.node",
    "hearsay.pipeline.analyze", "hearsay.pipeline.run_facts",
    "hearsay.pipeline.output.hadoop_folder", "hearsay.pipeline.output.folders", "hearsay.report.explain_page",
    "hearsay.report.run_page", "hearsay.sim.array.engine", "hearsay.sim.simulate", "hearsay.studies.tuning.tune",
    "hearsay.trace.reader",
)  # fmt: skip
LONGEST_REQUEST = 1 << 20
STREAMS = 3


def prepare() -> None:
    for name in PREPARED:
        import_module(name)
    import_module("numba").njit(lambda number: number)(0)  # numba imports most of itself for its first function
    threads = os.listdir("/proc/self/task")
    assert len(threads) == 1, f"{len(threads)} threads after the imports"
    gc.collect()
    gc.freeze()


def next_command(requests: socket.socket) -> dict[str, object] | None:
    """Fork a process for each request. Return the request in each process that becomes a command, and None in the
    server when the socket is closed.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no process waits for keepers
    while True:
        request, given, _, _ = socket.recv_fds(requests, LONGEST_REQUEST, STREAMS + 1)
        if not request:
            return None
        if os.fork() == 0:
            requests.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            asked = socket.socket(fileno=given.pop())
            if is_command(asked, given):
                return {**json.loads(request), "streams": given}
        for number in given:
            os.close(number)


def is_command(asked: socket.socket, streams: list[int]) -> bool:
    """Fork again, and return True in the process that becomes the command. The keeper reports the command's pid and
    exit code, and ends.
    """
    pid = os.fork()
    if pid == 0:
        asked.close()
        return True
    for number in streams:
        os.close(number)
    with suppress(BrokenPipeError):  # the process that asked may have ended before the command
        asked.send(b"%d" % pid)
        _, status = os.waitpid(pid, 0)
        asked.send(b"%d" % os.waitstatus_to_exitcode(status))
    os._exit(0)


def become(arguments: list[str], folder: str, environment: dict[str, str], streams: list[int]) -> None:
    """Set the streams, folder, environment and arguments that the process would have inherited."""
    for number, given in enumerate(streams):
        os.dup2(given, number)
        os.close(given)
    open_streams()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None
    more = environment.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [entry for entry in more if entry and entry not in sys.path]
    sys.argv = [str(Path(sys.executable).with_name("hearsay")), *arguments]


def open_streams() -> None:
    """Open the standard streams again, because stream objects store whether they can seek."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        server: TextIOWrapper = getattr(sys, name)
        unbuffered = isinstance(server.buffer, RawIOBase)
        binary = os.fdopen(number, "wb" if number else "rb", 0 if unbuffered else -1, closefd=False)
        stream = TextIOWrapper(
            binary, server.encoding, server.errors, line_buffering=server.line_buffering,
            write_through=server.write_through,
        )  # fmt: skip
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


class LastExit:
    """Lets Python end as usual, but without destroying modules, which would take longer than most commands."""

    def __init__(self) -> None:
        """Register `leave` before all other exit functions, so that it is called last."""
        self.code = 1
        atexit.register(self.leave)

    def leave(self) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(self.code)


def run(last: LastExit) -> None:
    """Run the command as the console script does; record its exit code."""
    try:
        import_module("hearsay.cli.main").main()
    except SystemExit as ended:
        last.code = int(str(ended.code))
        raise


if __name__ == "__main__":
    sys.path[0] = str(Path(sys.executable).parent)
    last = LastExit()
    prepare()
    command = next_command(socket.socket(fileno=int(sys.argv[1])))
    if command is not None:
        become(**command)  # type: ignore[arg-type]
        run(last)
