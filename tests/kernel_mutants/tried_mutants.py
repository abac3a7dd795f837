"""Runs in the copy of the package: scenarios by the reference engine once, by the planted kernels often."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count as count_from
from itertools import islice
from pathlib import Path
from time import monotonic, sleep

from planted_kernels import PLACE, Mutant, mutants

from corner_scenarios import corner_scenarios
from engines_agree import even_plan, plan_of
from hearsay.sim.array.engine import ArrayEngine
from hearsay.sim.plan.plan import Plan
from hearsay.sim.reference.engine import ReferenceEngine
from hearsay.sim.results.recorder import Recorder
from hearsay.sim.results.summary import summarise

LONGEST_S = 10
"""For one scenario, which takes a tenth of a second."""
SAME, OTHER, RAISED = 0, 1, 2
_FAR_APART = 1_000_000
"""Two seeds have no scenario in common."""


@dataclass(frozen=True, slots=True)
class Case:
    text: str
    plan: Plan
    summary: dict[str, object]
    """The reference engine's; the hash of the trace is in it."""


def cases(count: int, first_seed: int, most_events: int) -> Iterator[Case]:
    """Yield the corners and `count` random scenarios, each with the reference engine's summary."""
    numbers = count_from(first_seed * _FAR_APART)
    corners = (_case(text, plan_of(text), most_events) for text in corner_scenarios())
    yield from (case for case in corners if case is not None)
    found = (_case(*even_plan(number), most_events) for number in numbers)
    yield from islice((case for case in found if case is not None), count)


def _case(text: str, plan: Plan, most_events: int) -> Case | None:
    engine = ReferenceEngine(plan, Recorder())

    def stop_storms(_now: int) -> None:
        engine.stop_requested = engine.recorder.events > most_events

    complete = engine.run(stop_storms)
    if not complete:
        return None
    return Case(text, plan, summarise(plan, engine.figures(), "", engine.now, complete).to_json())


def differs(number: int, case: Case) -> bool:
    engine = ArrayEngine(case.plan, None)
    engine.arrays.world[PLACE] = number
    complete = engine.run()
    return summarise(case.plan, engine.figures(), "", engine.now, complete).to_json() != case.summary


def try_all(count: int, first_seed: int, only: Sequence[str], most_events: int, json_file: Path | None) -> int:
    wanted = [mutant for mutant in mutants() if not only or any(word in mutant.name for word in only)]
    known = list(cases(count, first_seed, most_events))
    print(f"{len(known)} scenarios, seed {first_seed}", flush=True)
    for case in known:
        if differs(0, case):
            print(f"without any fault the engines differ:\n\n{case.text}")
            return 2
    took: dict[Mutant, int | None] = {}
    for mutant in wanted:
        took[mutant], how = _scenarios_until_seen(mutant, known)
        print(f"{took[mutant] or '':>8} {how:9} {mutant.file}  {mutant.name}", flush=True)
        if (place := took[mutant]) is not None:
            known.insert(0, known.pop(place - 1))
    if json_file:
        json_file.write_text(json.dumps({mutant.name: count for mutant, count in took.items()}), encoding="utf-8")
    return _report(took)


def _report(took: dict[Mutant, int | None]) -> int:
    survivors = [mutant for mutant, count in took.items() if count is None]
    needless = [mutant for mutant, count in took.items() if count is not None and mutant.unseen is not None]
    print(f"{len(took) - len(survivors)} of {len(took)} seen")
    for mutant in survivors:
        print(f"survives: {mutant.file} {mutant.name}: {mutant.unseen or 'NOT EXPLAINED'}")
    for mutant in needless:
        print(f"seen, though mutants.toml says that it cannot be: {mutant.name}")
    if needless:
        return 2
    return 1 if any(mutant.unseen is None for mutant in survivors) else 0


def _scenarios_until_seen(mutant: Mutant, known: list[Case]) -> tuple[int | None, str]:
    """A fault may write where it must not, or go on for ever: each is tried in a process of its own."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _try(mutant, known, lambda: os.write(writing, b"."))
    os.close(writing)
    os.set_blocking(reading, False)
    try:
        return _watch(pid, reading)
    finally:
        os.close(reading)


def _watch(pid: int, reading: int) -> tuple[int | None, str]:
    """The scenario that saw the fault, and by what."""
    tried = 0
    last = monotonic()
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        tried, last = _count(reading, tried, last)
        if done:
            code = os.waitstatus_to_exitcode(status)
            if code == SAME:
                return None, "survives"
            return tried + 1, {OTHER: "differs", RAISED: "raises"}.get(code, "dies")
        if monotonic() - last > LONGEST_S:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return tried + 1, "goes on"
        sleep(0.002)


def _count(reading: int, tried: int, last: float) -> tuple[int, float]:
    try:
        more = len(os.read(reading, 1 << 16))
    except BlockingIOError:
        return tried, last
    return (tried + more, monotonic()) if more else (tried, last)


def _try(mutant: Mutant, known: list[Case], tell: Callable[[], object]) -> None:
    """Does not return."""
    code = SAME
    try:
        for case in known:
            if differs(mutant.number, case):
                code = OTHER
                break
            tell()
    except BaseException:
        code = RAISED
    finally:
        sys.stdout.flush()
        os._exit(code)
