"""Runs in the copy of the package: the reference engine runs each scenario once, the array engine with each fault."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count as count_from
from itertools import islice
from multiprocessing import get_context
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path

from planted_kernels import ACTIVE_FAULT, Mutant, mutants

from corner_scenarios import corner_scenarios
from engines_agree import Storm, StormRecorder, even_plan, plan_of
from hearsay.sim.array.engine import ArrayEngine
from hearsay.sim.plan.plan import Plan
from hearsay.sim.reference.engine import ReferenceEngine
from hearsay.sim.summary import summarise

LONGEST_S = 10
"""Maximum seconds of one scenario, which usually takes a tenth of a second."""
SAME, DIFFERS, RAISED = 0, 3, 4
"""Exit codes of the process that runs a fault."""
FORK = get_context("fork")
_SEED_DISTANCE = 1_000_000
"""Difference between the first scenario numbers of successive seeds, so that two seeds have no scenario in common."""


@dataclass(frozen=True, slots=True)
class Case:
    text: str
    plan: Plan
    summary: dict[str, object]
    """The summary of the reference engine, which contains the hash of the trace."""


def cases(count: int, first_seed: int, most_events: int) -> Iterator[Case]:
    """Yield the corners and `count` random scenarios, each with the reference engine's summary."""
    numbers = count_from(first_seed * _SEED_DISTANCE)
    corners = (_case(text, plan_of(text), most_events) for text in corner_scenarios())
    yield from (case for case in corners if case is not None)
    found = (_case(*even_plan(number), most_events) for number in numbers)
    yield from islice((case for case in found if case is not None), count)


def _case(text: str, plan: Plan, most_events: int) -> Case | None:
    engine = ReferenceEngine(plan, StormRecorder(most_events))
    try:
        complete = engine.run()
    except Storm:
        return None
    return Case(text, plan, summarise(plan, engine.figures(), "", engine.now, complete).to_json())


def differs(number: int, case: Case) -> bool:
    """Run a case with the fault of this number (0: none); return whether the summary differs."""
    engine = ArrayEngine(case.plan, None)
    engine.arrays.world[ACTIVE_FAULT] = number
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
    """Return the number of scenarios until one showed the fault (None if none did), and the kind of its failure. A
    separate process runs the fault, because it may write to wrong addresses or run forever.
    """
    tried = FORK.Value("i", 0)
    process = FORK.Process(target=_try, args=(mutant, known, tried))
    process.start()
    before = -1
    while process.is_alive() and before < tried.value:
        before = tried.value
        process.join(LONGEST_S)
    if process.is_alive():
        process.kill()
        process.join()
        return before + 1, "no end"
    how = {SAME: "survives", DIFFERS: "differs", RAISED: "raises"}.get(process.exitcode or SAME, "dies")
    return None if process.exitcode == SAME else tried.value + 1, how


def _try(mutant: Mutant, known: list[Case], tried: Synchronized[int]) -> None:
    try:
        for case in known:
            if differs(mutant.number, case):
                sys.exit(DIFFERS)
            tried.value += 1
    except Exception:
        sys.exit(RAISED)
