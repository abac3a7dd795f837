"""Samples of the scores of peers, taken every `scores.every_s` seconds and at the end of a run."""

from __future__ import annotations

from collections import Counter

import pytest

from engines_agree import agree
from hearsay.core.scores.named_sets import named_set
from hearsay.sim.plan.plan import make_plan
from hearsay.sim.scenario.scenario import Scenario
from hearsay.sim.simulate import Simulation
from hearsay.trace.language.schema import TraceEvent, TraceRow, number_of

SETTINGS = {
    "network": {"nodes": 12, "degree": 3},
    "workload": {"messages": 6, "publishers": "any"},
    "linger_s": 4,
    "ratings": [{"rating": -3, "listed": [4]}],
}
SCORES = {"score": named_set("rust").to_mapping()}


def run(**tables: object) -> tuple[list[TraceRow], str]:
    rows: list[TraceRow] = []
    simulation = Simulation(Scenario.model_validate({**SETTINGS, **tables}), listener=rows.append)
    return rows, simulation.run().summary.trace_hash


def scores(rows: list[TraceRow], event: TraceEvent) -> list[tuple[int, int | None, int | None, float]]:
    return [(row.time_us, row.peer, row.remote, number_of(row.bytes or 0)) for row in rows if row.event == event]


def test_a_sample_has_the_scores_of_all_connected_pairs():
    rows, _ = run(router=SCORES, scores={"every_s": 4})
    found = scores(rows, TraceEvent.SCORE)
    connections = sum(row.event == TraceEvent.ADD_PEER for row in rows)
    assert Counter(time for time, *_ in found) == dict.fromkeys(
        (4_000_000, 8_000_000, 12_000_000, 15_000_000), connections
    )
    assert found == sorted(found)


def test_the_parts_of_a_score_add_up():
    rows, _ = run(router=SCORES, scores={"every_s": 4})
    parts = [TraceEvent.SCORE_TOPICS, TraceEvent.SCORE_P5, TraceEvent.SCORE_P6, TraceEvent.SCORE_P7]
    summed: Counter[tuple[int, int | None, int | None]] = Counter()
    for part in parts:
        for time, peer, remote, number in scores(rows, part):
            summed[time, peer, remote] += number
    whole = scores(rows, TraceEvent.SCORE)
    assert any(number for *_, number in whole)
    assert all(summed[time, peer, remote] == number for time, peer, remote, number in whole)
    assert {number for _, _, remote, number in whole if remote == 4} == {-30.0}  # rust's weight of ratings is 10


def test_a_sample_changes_nothing_else():
    sampled, _ = run(router=SCORES, scores={"every_s": 4})
    plain, _ = run(router=SCORES)
    assert [row for row in sampled if row.event < TraceEvent.SCORE] == plain


def test_routers_without_scores_have_no_samples():
    population = [{"share": 0.5, "router": {}}]
    rows, _ = run(router=SCORES, population=population, scores={"every_s": 4})
    judging = {row.peer for row in rows if row.event == TraceEvent.SCORE}
    assert len(judging) == 6


@pytest.mark.parametrize("mesh_times", ["last-refresh", "now"])
def test_both_engines_sample_the_same(mesh_times):
    """With `mesh_times = "now"` the time in a mesh is counted until the sample, not until the last refresh."""
    score = {**named_set("rust").to_mapping(), "mesh_times": mesh_times}
    settings = {**SETTINGS, "ratings": [], "router": {"score": score}, "scores": {"every_s": 2.3}}
    assert agree(make_plan(Scenario.model_validate(settings)))
