"""The command `hearsay` for tests: run to its end, or until a signal is sent.

A command is forked from a process that has its imports done (`prepared_commands.py`), unless the environment or an
option needs a fresh Python. `new_process=True` starts one, too: tests use it to measure the time, imports and
environment of a start, and to run each command once in a new process.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic
from typing import Any, TypeAlias

from kills import LOOK_AGAIN_S, descendants, ends_within, environment, require_end
from prepared_commands import Command, can_become

HEARSAY = Path(sys.executable).with_name("hearsay")
FORKED = {"cwd", "env", "stdin", "stdout", "stderr"}
"""The options of `subprocess.Popen` that a forked command accepts."""
_LONGEST_S = 900
Process: TypeAlias = "Command | subprocess.Popen[str]"


def started(*arguments: object, new_process: bool = False, **options: Any) -> Process:
    """Start a command; return its process."""
    given = [str(argument) for argument in arguments]
    if not new_process and options.keys() <= FORKED and can_become(options.get("env") or os.environ):
        return Command(given, **options)
    # pytest imports readline, which sets COLUMNS for child processes but not in os.environ. So `env` is always given.
    return subprocess.Popen([str(HEARSAY), *given], text=True, **{**options, "env": options.get("env") or os.environ})


def hearsay(
    *arguments: object, input: str | None = None, timeout: float = _LONGEST_S, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, with an empty stdin unless `input` is given; fail if it prints a traceback."""
    given = subprocess.DEVNULL if input is None else subprocess.PIPE
    streams = {"stdin": given, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = started(*arguments, **{**streams, **options})
    try:
        shown, error_text = process.communicate(input, timeout)
    finally:
        process.kill()
    assert "Traceback" not in (error_text or ""), error_text
    return subprocess.CompletedProcess(process.args, process.wait(), shown, error_text)


def signalled(
    arguments: Sequence[object], number: signal.Signals, moment: Callable[[Path, Path], bool], folder: Path
) -> subprocess.CompletedProcess[str]:
    """Run a command, send a signal when `moment` returns True, and wait until all processes that it started have
    ended.

    The arguments of `moment` are the file with the command's stderr, and the command's folder for temporary files,
    which must be empty at the end.
    """
    temporary = folder / "temporary"
    temporary.mkdir()
    error_file = folder / "stderr"
    with error_file.open("w") as errors:
        process = started(
            *arguments, stdout=subprocess.PIPE, stderr=errors, env={**environment(), "TMPDIR": str(temporary)}
        )
        end = monotonic() + _LONGEST_S
        while not moment(error_file, temporary):
            assert not ends_within(process.pid, LOOK_AGAIN_S), error_file.read_text()
            assert monotonic() < end, error_file.read_text()
        family = descendants(process.pid)
        process.send_signal(number)
        shown, _ = process.communicate(timeout=_LONGEST_S)
    for pid in family:
        require_end(pid)
    left = [str(path.relative_to(temporary)) for path in temporary.rglob("*")]
    assert not left, left
    return subprocess.CompletedProcess(process.args, process.returncode, shown, error_file.read_text())


def has_printed(text: str) -> Callable[[Path, Path], bool]:
    return lambda error_file, _: text in error_file.read_text()


def spark_opens_a_session(_: Path, temporary: Path) -> bool:
    """Return True if the JVM runs and opens the session."""
    return any(temporary.glob("hearsay-spark-*/blockmgr-*"))
