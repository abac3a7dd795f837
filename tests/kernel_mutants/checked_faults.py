"""Plants the faults of checked_faults.toml in one copy of the package, and runs scenarios there with the check of all
nodes.

As a script that imports the copy, it prints for each fault whether the check finds it. The exit code is 1 if a fault
is not found. The scenarios are those of `corner_scenarios.py` and random ones.
"""

from __future__ import annotations

import shutil
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from planted_kernels import ACTIVE_FAULT, SOURCE, Mutant, planted

from corner_scenarios import corner_scenarios
from engines_agree import Storm, even_plan, plan_of, run_reference
from hearsay.sim.array.engine import ArrayEngine
from hearsay.sim.array.rules import checks
from hearsay.sim.plan.plan import Plan
from hearsay.trace.language.rows import Rows

LIST = Path(__file__).with_name("checked_faults.toml")
RANDOM_SCENARIOS = 60
MOST_EVENTS = 15_000


def _faults() -> Iterator[Mutant]:
    entries = tomllib.loads(LIST.read_text(encoding="utf-8"))["faults"]
    for number, entry in enumerate(entries, start=1):
        file = f"sim/array/{entry['file']}.py"
        yield Mutant(number, entry["finds"], file, entry["in"], entry["text"], entry.get("becomes"), None, None)


FAULTS = tuple(_faults())
"""The planted faults; the name of a fault is the name of the finding that it must cause."""


def plant_faults(folder: Path) -> None:
    """Write a copy of the package with all faults, each inactive, into a folder for PYTHONPATH."""
    shutil.copytree(SOURCE, folder / "hearsay", ignore=shutil.ignore_patterns("__pycache__"))
    by_file: defaultdict[str, list[Mutant]] = defaultdict(list)
    for fault in FAULTS:
        by_file[fault.file].append(fault)
    for file, wanted in by_file.items():
        path = folder / "hearsay" / file
        path.write_text(planted(path.read_text(encoding="utf-8"), wanted), encoding="utf-8")


class FindingsOnly:
    """A check of a run that stores the findings about all nodes, and has no witnesses."""

    nodes: Sequence[int] = ()
    count = 0
    some: Sequence[Sequence[int]] = ()

    def take(self, rows: Rows) -> Rows:
        return rows

    def found(self, count: int, some: Sequence[Sequence[int]]) -> None:
        self.count, self.some = count, some


def findings(plan: Plan, fault: int = 0, threads: int = 1) -> FindingsOnly:
    """Run the array engine with the fault of this number, or with none if it is 0; return the findings."""
    checked = FindingsOnly()
    engine = ArrayEngine(plan, None, threads, checked)
    engine.arrays.world[ACTIVE_FAULT] = fault
    engine.run()
    return checked


def _plans() -> Iterator[Plan]:
    """Yield the plans of corner scenarios and of random scenarios, without storms."""
    yield from map(plan_of, corner_scenarios())
    for number in range(RANDOM_SCENARIOS):
        plan = even_plan(number)[1]
        with suppress(Storm):
            run_reference(plan, MOST_EVENTS)
            yield plan


def _kinds(plan: Plan, fault: int) -> set[int]:
    return {line[1] for line in findings(plan, fault).some}


def main() -> int:
    result = 0
    for fault in FAULTS:
        kind = getattr(checks, fault.name)
        plans = (plan for plan in _plans() if kind not in _kinds(plan, 0))
        is_found = any(kind in _kinds(plan, fault.number) for plan in plans)
        print(f"{fault.file} {fault.text}:{' found' if is_found else ' NOT FOUND'} as {fault.name}", flush=True)
        result |= not is_found
    return result


if __name__ == "__main__":
    sys.exit(main())
