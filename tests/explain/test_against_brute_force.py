"""Paths and fastest paths are those of a search over all rows, on runs with loss, churn, queues and scores."""

from __future__ import annotations

from pathlib import Path

import pytest
from brute_force import Rows, cache_latencies
from explained_runs import KINDS, load_kind, read_all_rows, simulate, simulate_random
from profiles import examples

from hearsay.explain.copies import Fate
from hearsay.explain.deliveries import requested_paths
from hearsay.explain.fastest import Network, fastest_path
from hearsay.explain.message import Message, open_message
from hearsay.explain.path import Step
from hearsay.sim.scenario.scenario import Scenario


def compare(run: Path, scenario: Scenario) -> int:
    """Compare all copies, paths and fastest paths with those of the search; return the number of paths."""
    rows, compared = None, 0
    for message in range(scenario.workload.messages):
        try:
            story = open_message(run, str(message))
        except ValueError:
            continue  # no PUBLISH: the run ended before, or there was no node to publish the message
        if not story.history.published:
            continue
        assert story.model is not None
        cache_latencies(story.model.latency)
        rows = rows or read_all_rows(run, scenario, story.run.end_us)
        compare_copies(story, rows, message)
        for node in rows.receivers(message):
            compare_path(story, rows, message, node)
            compared += 1
        compare_fastest(story, rows, message)
    return compared


def compare_copies(story: Message, rows: Rows, message: int) -> None:
    explained = sorted(
        (each["from"], each["to"], each["sent"], each["arrived"], each["fate"].replace(" ", "_"))
        for each in rows.copies(message)
    )
    copies = story.history.copies
    found = [copies.at(place) for place in range(len(copies.sender))]
    sent_copies = [each for each in found if each.fate < Fate.QUEUE_FULL]
    assert (
        sorted(
            (each.sender, each.receiver, each.sent_us, each.arrived_us, each.fate.name.lower())
            for each in sent_copies
        )
        == explained
    )


def compare_path(story: Message, rows: Rows, message: int, node: int) -> None:
    path = requested_paths(story, [story.history.deliveries.of(node).start])[0]
    assert path.complete
    expected = rows.path(message, node)
    assert [
        (hop.copy and (hop.copy.sender, hop.receiver, hop.copy.sent_us, hop.copy.arrived_us)) for hop in path.hops
    ] == [
        (each["copy"]["from"], each["copy"]["to"], each["copy"]["sent"], each["copy"]["arrived"]) for each in expected
    ]
    assert [(hop.held_us, hop.delivered_us) for hop in path.hops] == [
        (each["had"], each["delivered"]) for each in expected
    ]
    assert (
        sum(spell.took_us for hop in path.hops for spell in hop.times)
        == path.delivered_us - story.history.published_us
    )
    for hop in path.hops:
        assert all(spell.took_us > 0 for spell in hop.times)
        assert hop.took(Step.UNKNOWN) == 0
        assert hop.copy is not None
        sent = hop.copy.arrived_us or 0, hop.copy.sent_us or 0
        assert hop.took(Step.QUEUE, Step.UPLINK, Step.LINE) == sent[0] - sent[1]


def compare_fastest(story: Message, rows: Rows, message: int) -> None:
    earliest_us = rows.fastest(message)
    deliveries = story.history.deliveries
    until = int(deliveries.time_us.max()) if len(deliveries.node) else 0
    network = Network(story, story.run.end_us)
    for node in rows.receivers(message):
        if node == story.history.publisher:
            continue
        found = fastest_path(network, node, max(until, earliest_us[node]))
        assert found is not None
        assert found.arrived_us == earliest_us[node]
        place = deliveries.of(node).start
        if len(rows.deliveries(message, node)) == 1 and all(
            len(rows.deliveries(message, each)) == 1 for each in requested_paths(story, [place])[0].nodes[1:-1]
        ):
            assert found.arrived_us <= deliveries.time_us[place]


QUICK_KINDS = ("queues", "churn")


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=() if kind in QUICK_KINDS else pytest.mark.thorough) for kind in KINDS]
)
def test_runs_of_every_kind(tmp_path, kind):
    scenario = load_kind(kind)
    run = simulate(scenario, tmp_path / "run")
    assert run is not None
    assert compare(run, scenario) > 40


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["churn", "queues"])
def test_runs_of_the_array_engine(tmp_path, kind):
    scenario = load_kind(kind)
    run = simulate(scenario, tmp_path / "run", "array")
    assert run is not None
    assert compare(run, scenario) > 40


@pytest.mark.parametrize("number", range(examples(0.4).max_examples))
def test_random_scenarios(tmp_path, number):
    run, scenario = simulate_random(number, tmp_path, most_nodes=60)
    compare(run, scenario)
