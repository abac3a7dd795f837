"""The real command for tests: run to its end, or watched and sent a signal on the way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic

from kills import LOOK_AGAIN_S, descendants, ends_within, environment, gone, heed_signals

HEARSAY = Path(sys.executable).with_name("hearsay")
_LONGEST_S = 300


def hearsay(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    """Run a command; it never shows a traceback."""
    command = [str(HEARSAY), *map(str, arguments)]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "timeout": _LONGEST_S, **options}
    done = subprocess.run(command, text=True, **options)  # type: ignore[call-overload]
    assert "Traceback" not in (done.stderr or "")
    return done


def signalled(
    arguments: Sequence[object], number: signal.Signals, moment: Callable[[Path, Path], bool], folder: Path
) -> subprocess.CompletedProcess[str]:
    """Run a command, send the signal once `moment` has come, and wait until all that it started has ended.

    `moment` sees the file with what was said on stderr so far, and the command's folder for temporary files.
    """
    temporary = folder / "temporary"
    temporary.mkdir()
    said = folder / "stderr"
    with said.open("w") as errors:
        process = subprocess.Popen(
            [str(HEARSAY), *map(str, arguments)],
            stdout=subprocess.PIPE, stderr=errors, text=True, preexec_fn=heed_signals,
            env={**environment(), "TMPDIR": str(temporary)},
        )  # fmt: skip
        end = monotonic() + _LONGEST_S
        while not moment(said, temporary):
            assert not ends_within(process.pid, LOOK_AGAIN_S), said.read_text()
            assert monotonic() < end, said.read_text()
        family = descendants(process.pid)
        process.send_signal(number)
        shown, _ = process.communicate(timeout=_LONGEST_S)
    for pid in family:
        gone(pid)
    assert os.listdir(temporary) == []
    return subprocess.CompletedProcess(process.args, process.returncode, shown, said.read_text())


def has_said(text: str) -> Callable[[Path, Path], bool]:
    return lambda said, _: text in said.read_text()


def spark_opens_a_session(_: Path, temporary: Path) -> bool:
    """The JVM listens, and its session is being made."""
    return any(file.stat().st_size for file in temporary.glob("hearsay-spark-*/gateway"))
