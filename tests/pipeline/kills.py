"""`hearsay analyze` killed at chosen points: the driver, its JVM, or one of the Python workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from random import Random
from select import select
from time import monotonic

DRIVER, JVM, WORKER = "driver", "jvm", "worker"
VICTIMS = (DRIVER, JVM, WORKER)
LINES = {"batch": 3, "stream": 2}
"""Minimum number of lines of progress that an analysis prints before its last one, by mode."""
DELAY_S = {"batch": 2.0, "stream": 6.0}
"""Maximum seconds between a line of progress and the kill, by mode."""
_RUN_S = 240
LOOK_AGAIN_S = 0.02
"""Interval for looking for processes that another process starts, of which there is no notification."""


@dataclass(frozen=True, slots=True)
class Kill:
    mode: str
    """"batch", or "stream" for an analysis that follows its run."""
    victim: str
    line: int
    """Number of lines of progress before the kill."""
    delay_s: float
    """Seconds between that line and the kill."""


@dataclass(frozen=True, slots=True)
class Outcome:
    hit: bool
    """True if the victim was killed; False if the run ended before."""
    code: int
    errors: str


def seeded_kills(seed: int, count: int, mode: str) -> list[Kill]:
    """Return kills of all victims in turn, at random points of the run."""
    chance = Random(f"{mode} {seed}")
    return [
        Kill(mode, VICTIMS[number % len(VICTIMS)], chance.randint(1, LINES[mode]), chance.uniform(0, DELAY_S[mode]))
        for number in range(count)
    ]


def command(mode: str, run: Path, out: Path, *more: str) -> list[str]:
    follow = ("--follow", "--interval", "0.2") if mode == "stream" else ()
    return [sys.executable, "-m", "hearsay", "analyze", str(run), "--out", str(out), *follow, *more]


def environment() -> dict[str, str]:
    """Return the environment without the variables of a Spark session in this process."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_GATEWAY", "SPARK_"))}


def heed_signals() -> None:
    """Restore the handling of signals in a child process: in the background or under nohup, tests ignore them."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def analyze(mode: str, run: Path, out: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """Run an analysis without a kill."""
    return subprocess.run(
        command(mode, run, out, *more), capture_output=True, text=True, env=environment(), timeout=_RUN_S
    )


def analyze_and_kill(kill: Kill, run: Path, out: Path) -> Outcome:
    """Run an analysis to the point of the kill, kill, and wait until all its processes have ended."""
    process = subprocess.Popen(
        command(kill.mode, run, out), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment(),
        preexec_fn=heed_signals,
    )  # fmt: skip
    assert process.stderr is not None
    lines: list[str] = []
    enough = threading.Event()

    def listen() -> None:
        for line in process.stderr or ():
            lines.append(line)
            if sum(line.startswith("spark:") for line in lines) >= kill.line:
                enough.set()
        enough.set()

    listener = threading.Thread(target=listen)
    listener.start()
    assert enough.wait(_RUN_S), "".join(lines)
    ends_within(process.pid, kill.delay_s)
    victim = _wait_for(process, kill.victim)
    family = descendants(process.pid)
    if victim is not None:
        os.kill(victim, signal.SIGKILL)
    if kill.mode == "stream" and kill.victim == WORKER and victim is not None:
        _end_of(process, 20)
    code = _end_of(process, _RUN_S if victim is not None else 0)
    for pid in family:
        require_end(pid)
    listener.join(_RUN_S)
    process.stderr.close()
    return Outcome(victim is not None, code, "".join(lines))


def _end_of(process: subprocess.Popen[str], seconds: float) -> int:
    """Return the exit code; interrupt a process that still runs after `seconds`, as a user would by Ctrl-C."""
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        return process.wait(_RUN_S)


def _wait_for(process: subprocess.Popen[str], victim: str) -> int | None:
    """Return the victim's pid as soon as it exists; None if the run ends or takes too long before."""
    end = monotonic() + _RUN_S
    while process.poll() is None and monotonic() < end:
        found = find(process.pid, victim)
        if found is not None:
            return found
        ends_within(process.pid, LOOK_AGAIN_S)
    return None


def find(driver: int, victim: str) -> int | None:
    """Return the pid of the driver, its JVM or its newest Python worker; None if there is no such process. The daemon
    that forks the workers is not a worker.
    """
    if victim == DRIVER:
        return driver
    names = {pid: command_line(pid) for pid in descendants(driver)}
    if victim == JVM:
        return next((pid for pid, name in names.items() if "org.apache.spark.deploy.SparkSubmit" in name), None)
    workers = [pid for pid, name in names.items() if "pyspark.daemon" in name]
    return workers[-1] if len(workers) > 1 else None


def descendants(pid: int) -> list[int]:
    """Return the pids of all descendants of a process, parents first."""
    parents: dict[int, list[int]] = {}
    for each in all_processes():
        if status := read(each, "stat").decode():
            parents.setdefault(int(status.rpartition(")")[2].split()[1]), []).append(each)
    found: list[int] = []
    waiting = [pid]
    while waiting:
        children = sorted(parents.get(waiting.pop(0), []))
        found += children
        waiting += children
    return found


def all_processes() -> list[int]:
    return [int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdecimal()]


def read(pid: int, name: str) -> bytes:
    """Return the content of a file in /proc; empty if the process has ended or is another user's."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def command_line(pid: int) -> str:
    return read(pid, "cmdline").replace(b"\0", b" ").decode(errors="replace")


def kill_family(process: subprocess.Popen[str]) -> None:
    """Kill a process, and wait until the processes that it started have ended."""
    family = descendants(process.pid)
    process.kill()
    assert process.wait(60) == -signal.SIGKILL
    for pid in family:
        require_end(pid)


def require_end(pid: int) -> None:
    """Wait until a process ends by itself. After 30 s, kill it, because it would disturb the next run, and fail."""
    if not ends_within(pid, 30):
        name = command_line(pid)[:60]
        os.kill(pid, signal.SIGKILL)
        raise AssertionError(f"process {pid} ({name}) outlived its driver by 30 s")


def ends_within(pid: int, seconds: float) -> bool:
    """Wait for the end of any process, and return whether it has ended; a zombie has ended."""
    try:
        watched = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select([watched], [], [], seconds)[0])
    finally:
        os.close(watched)
