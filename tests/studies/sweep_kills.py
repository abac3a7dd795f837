"""`hearsay sweep` killed at chosen points: the driver, its JVM, or one of the Python workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from random import Random
from time import monotonic

from kills import LOOK_AGAIN_S, VICTIMS, Outcome, descendants, ends_within, environment, find, require_end

_RUN_S = 300

STUDY = """
seeds = {seeds}
[base]
preset = "r1"
network.nodes = 80
workload.messages = 12
workload.interval_s = 0.2
[[axes]]
key = "loss.rate"
values = [0, 0.2, 0.4]
"""
LOSSES = 3
"""Number of values of the axis in `STUDY`."""


@dataclass(frozen=True, slots=True)
class Kill:
    victim: str
    results: int
    """Number of packs that the command stores before the kill."""
    delay_s: float
    """Seconds between the last of these packs and the kill."""


def seeded_kills(seed: int, count: int) -> list[Kill]:
    chance = Random(f"sweep {seed}")
    return [
        Kill(VICTIMS[number % len(VICTIMS)], chance.randint(0, 2), chance.uniform(0, 1.5)) for number in range(count)
    ]


def study(seeds: int) -> tuple[str, int]:
    """Return the text of a study, and the number of its runs."""
    return STUDY.format(seeds=seeds), LOSSES * seeds


def command(study: Path, out: Path) -> list[str]:
    return [sys.executable, "-m", "hearsay", "sweep", str(study), "--out", str(out)]


def sweep(study: Path, out: Path) -> subprocess.CompletedProcess[str]:
    """Run a sweep without a kill."""
    return subprocess.run(command(study, out), capture_output=True, text=True, env=environment(), timeout=_RUN_S)


def sweep_and_kill(kill: Kill, study: Path, out: Path) -> Outcome:
    """Run a sweep to the point of the kill, kill, and wait until all its processes have ended."""
    before = _stored_packs(out)
    with (out.parent / f"{out.name}.errors").open("w+") as errors:
        process = subprocess.Popen(
            command(study, out), stdout=subprocess.DEVNULL, stderr=errors, text=True, env=environment()
        )
        victim = _wait_for(process, kill, out, before)
        family = descendants(process.pid)
        if victim is not None:
            os.kill(victim, signal.SIGKILL)
        code = process.wait(_RUN_S)
        for pid in family:
            require_end(pid)
        errors.seek(0)
        return Outcome(victim is not None, code, errors.read())


def _wait_for(process: subprocess.Popen[str], kill: Kill, out: Path, before: int) -> int | None:
    """Return the victim's pid at the point of the kill; None if the sweep ends before."""
    end = monotonic() + _RUN_S
    reached: float | None = None
    while process.poll() is None and monotonic() < end:
        # Workers exist from the request for the number of slots on; the driver and the JVM can be killed earlier.
        victim = find(process.pid, kill.victim)
        if reached is None and victim is not None and _stored_packs(out) >= before + kill.results:
            reached = monotonic()
        if reached is not None and monotonic() >= reached + kill.delay_s and victim is not None:
            return victim
        ends_within(process.pid, LOOK_AGAIN_S)
    return None


def _stored_packs(out: Path) -> int:
    return len(list((out / "results").glob("*.parquet")))
