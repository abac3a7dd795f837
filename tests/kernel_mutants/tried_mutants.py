"""What runs in the copy of the package: scenarios by the reference engine once, by the planted kernels often."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic, sleep

from hypothesis import HealthCheck, Phase, given, seed, settings
from planted_kernels import PLACE, Mutant, mutants

from engines_agree import plan_of
from hearsay.sim.array.engine import ArrayEngine
from hearsay.sim.plan.plan import Plan
from hearsay.sim.reference.engine import ReferenceEngine
from hearsay.sim.results.recorder import Recorder
from hearsay.sim.results.summary import summarise
from hearsay.sim.scenario.scenario import ScenarioError
from random_scenarios import scenario_texts

SAME, OTHER, BROKEN = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Case:
    plan: Plan
    summary: dict[str, object]
    """Of the reference engine; the hash of the trace is in it."""


def cases(count: int, first_seed: int, most_events: int) -> list[Case]:
    """So many random scenarios of which the reference engine made a summary."""
    found: list[Case] = []

    @seed(first_seed)
    @settings(
        max_examples=4 * count, deadline=None, database=None, suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )  # fmt: skip
    @given(scenario_texts())
    def collect(text: str) -> None:
        if len(found) < count and (case := _case(text, most_events)) is not None:
            found.append(case)

    collect()
    return found


def _case(text: str, most_events: int) -> Case | None:
    try:
        plan = plan_of(text)
    except ScenarioError:
        return None
    engine = ReferenceEngine(plan, Recorder())

    def stop_storms(_now: int) -> None:
        engine.stop_requested = engine.recorder.events > most_events

    complete = engine.run(stop_storms)
    return Case(plan, summarise(plan, engine.figures(), "", engine.now, complete).to_json()) if complete else None


def differs(number: int, case: Case, threads: int = 1) -> bool:
    engine = ArrayEngine(case.plan, None, threads)
    engine.arrays.world[PLACE] = number
    complete = engine.run()
    return summarise(case.plan, engine.figures(), "", engine.now, complete).to_json() != case.summary


def try_all(count: int, first_seed: int, only: list[str], most_events: int, longest_s: float) -> int:
    known = cases(count, first_seed, most_events)
    print(f"{len(known)} scenarios, seed {first_seed}", flush=True)
    if different := [number for number, case in enumerate(known) if differs(0, case)]:
        print(f"without any fault the engines differ in scenarios {different}")
        return 1
    wanted = [mutant for mutant in mutants() if not only or mutant.name in only]
    survivors: list[Mutant] = []
    for mutant in wanted:
        took = _scenarios_until_seen(mutant, known, longest_s)
        print(f"{took or 'survives':>8}  {mutant.file}  {mutant.name}", flush=True)
        if took is None:
            survivors.append(mutant)
    unexplained = [mutant for mutant in survivors if mutant.unseen is None]
    needless = [mutant for mutant in wanted if mutant.unseen is not None and mutant not in survivors]
    print(f"{len(wanted) - len(survivors)} of {len(wanted)} seen")
    for mutant in survivors:
        print(f"survives: {mutant.file} {mutant.name}: {mutant.unseen or 'NOT EXPLAINED'}")
    for mutant in needless:
        print(f"seen, though mutants.toml says that it cannot be: {mutant.name}")
    return 1 if unexplained or needless else 0


def _scenarios_until_seen(mutant: Mutant, known: list[Case], longest_s: float) -> int | None:
    """A fault may write where it must not, or go on for ever: each is tried in a process of its own."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _try(mutant, known, lambda: os.write(writing, b"."))
    os.close(writing)
    tried = 0
    os.set_blocking(reading, False)
    last = monotonic()
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        tried, last = _count(reading, tried, last)
        if done:
            os.close(reading)
            same = os.WIFEXITED(status) and os.WEXITSTATUS(status) == SAME
            return None if same else tried + 1
        if monotonic() - last > longest_s:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(reading)
            return tried + 1
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
        code = BROKEN
    finally:
        sys.stdout.flush()
        os._exit(code)
