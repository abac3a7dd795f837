"""Test that both engines produce equal traces and summaries for random scenarios.

    python bench/engines_agree.py [--examples 400]

If the engines differ, hypothesis shrinks the scenario, and prints it with the first rows that differ.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from hypothesis import HealthCheck, Phase, assume, given, settings

from hearsay.core.language.identifiers import Micros
from hearsay.sim.array.engine import ArrayEngine
from hearsay.sim.plan.engines import unsupported
from hearsay.sim.plan.plan import Plan, make_plan
from hearsay.sim.recorder import Recorder
from hearsay.sim.reference.engine import ReferenceEngine
from hearsay.sim.scenario.reading import ScenarioError
from hearsay.sim.scenario.scenario_file import load_scenario
from hearsay.sim.summary import summarise
from hearsay.trace.compare_runs import diff_rows, render
from hearsay.trace.language.event_rows import Part
from hearsay.trace.language.rows import Rows, canonical, no_rows
from hearsay.trace.language.schema import TraceRow
from random_scenarios import even_scenario, scenario_texts

MOST_EVENTS = 30_000


def plan_of(text: str) -> Plan:
    with TemporaryDirectory() as folder:
        file = Path(folder, "scenario.toml")
        file.write_text(text, encoding="utf-8")
        return make_plan(load_scenario(file, None, ()))


def even_plan(number: int) -> tuple[str, Plan]:
    """Return text and plan of the first valid scenario for this number."""
    attempt = 0
    while True:
        text = even_scenario(f"{number} {attempt}")
        with suppress(ScenarioError):
            return text, plan_of(text)
        attempt += 1


def run_array(plan: Plan, threads: int = 1) -> tuple[Rows, dict[str, object]]:
    batches: list[Rows] = []
    engine = ArrayEngine(plan, lambda rows: batches.append(rows.copy()), threads)
    complete = engine.run()
    rows = np.concatenate(batches) if batches else no_rows()
    return canonical(rows), summarise(plan, engine.figures(), "", engine.now, complete).to_json()


class Storm(Exception):
    """A run has too many events for a comparison. If a seen cache forgets too soon, messages circulate for ever."""


class StormRecorder(Recorder):
    """A recorder that raises `Storm` after a number of events, also within one millisecond of simulated time."""

    def __init__(self, most_events: int, listener: Callable[[TraceRow], None] | None = None) -> None:
        super().__init__(listener=listener)
        self._most_events = most_events

    def record_part(self, now: Micros, source: int, part: Part) -> None:
        if self.events > self._most_events:
            raise Storm
        super().record_part(now, source, part)


def run_reference(plan: Plan, most_events: int = 1 << 62) -> tuple[Rows, dict[str, object]]:
    """Return rows and summary of a run on the reference engine. Raise `Storm` after `most_events` events."""
    listened: list[tuple[int, ...]] = []
    engine = ReferenceEngine(plan, StormRecorder(most_events, lambda row: listened.append(row.to_codes())))
    complete = engine.run()
    rows = np.array(listened, dtype=np.int64).reshape(-1, 13)
    return canonical(rows), summarise(plan, engine.figures(), "", engine.now, complete).to_json()


def difference_text(array: Rows, reference: Rows) -> str | None:
    """Return the first difference in the form of `hearsay trace diff`, or None."""
    difference = diff_rows(array, reference)
    return None if difference is None else f"A is the array engine, B the reference engine.\n{render(difference)}"


def check(text: str, threads: int = 1) -> None:
    """Raise AssertionError if the engines differ on a scenario. Hypothesis discards invalid scenarios and storms."""
    try:
        plan = plan_of(text)
    except ScenarioError:
        assume(False)
        raise
    assume(agree(plan, threads))


def agree(plan: Plan, threads: int = 1) -> bool:
    """Raise AssertionError if the engines differ. Return False for a storm, which is not compared, else True."""
    assert unsupported(plan.scenario) == []
    try:
        reference, reference_summary = run_reference(plan, MOST_EVENTS)
    except Storm:
        return False
    array, array_summary = run_array(plan, threads)
    difference = difference_text(array, reference)
    assert difference is None, difference
    assert array_summary == reference_summary
    untraced = ArrayEngine(plan, None, threads)  # without rows, other kernels build the network
    complete = untraced.run()
    assert summarise(plan, untraced.figures(), "", untraced.now, complete).to_json() == reference_summary
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=400)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    compared = 0

    @settings(
        max_examples=options.examples,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
    @given(scenario_texts())
    def agree(text: str) -> None:
        nonlocal compared
        check(text, options.threads)
        compared += 1

    agree()
    print(f"{compared} random scenarios: equal traces and summaries")


if __name__ == "__main__":
    main()
