"""Missing deliveries: a search in all rows finds the same due nodes, and each provoked cause is found as a reason."""

from __future__ import annotations

import pytest
from explained_runs import KINDS, SMALL, load_kind, simulate, simulate_random
from profiles import examples

from hearsay.core.language.actions import Reason, Via
from hearsay.explain.message import Message, open_message
from hearsay.explain.missing import Why, explain_missing
from hearsay.sim.scenario.scenario_file import load_scenario
from hearsay.trace.language.schema import TraceEvent, TraceRow
from hearsay.trace.reader import iter_rows

REASONS_WITH_COPIES = (
    Why.REFUSED, Why.UNREAD, Why.UNKNOWN_OUTCOME, Why.UNDER_WAY, Why.LOST, Why.QUEUE_FULL, Why.UNWANTED
)  # fmt: skip


def eligible_nodes(rows: list[TraceRow], story: Message) -> set[int]:
    """Return the nodes that were in the topic from the publication to the end of the window and did not reject."""
    published_us, run = story.history.published_us, story.run
    window_end_us = min(published_us + run.window_us, run.end_us)
    since: dict[int | None, int] = {}
    ended: set[int | None] = set()
    ends = (TraceEvent.LEAVE, TraceEvent.NODE_DOWN)
    for row in sorted(rows, key=lambda row: (row.time_us, row.event not in ends)):
        if row.topic not in (None, story.history.topic) or row.event not in (TraceEvent.JOIN, *ends):
            continue
        if row.time_us <= published_us:
            since.pop(row.peer, None)
            if row.event is TraceEvent.JOIN:
                since[row.peer] = row.time_us
        elif row.time_us < window_end_us:
            ended.add(row.peer)
    of_message = [row for row in rows if row.message == story.name.number]
    received = {row.peer for row in of_message if row.event is TraceEvent.DELIVER}
    verdicts = (Reason.REJECTED, Reason.IGNORED)
    refused = {row.peer for row in of_message if row.event is TraceEvent.REJECT and row.reason in verdicts} - received
    accepted = any(
        row.event is TraceEvent.DELIVER and row.peer != story.history.publisher and row.via is not Via.INJECT
        for row in of_message
    )
    return {node for node in since.keys() - ended - refused if node is not None} if accepted or not refused else set()


def compare(run, messages):
    all_rows = list(iter_rows(run))
    for message in range(messages):
        try:
            story = open_message(run, str(message))
        except ValueError:
            continue
        answer = explain_missing(story)
        if answer.due is None:
            assert answer.unknown
            continue
        eligible = eligible_nodes(all_rows, story)
        assert answer.due == len(eligible)
        assert answer.got == len(eligible.intersection(story.history.deliveries.node.tolist()))
        assert len(answer.missing) == answer.due - answer.got
        for each in answer.missing:
            assert each.why is not Why.UNKNOWN
            assert bool(each.copies) == (each.why in REASONS_WITH_COPIES)


@pytest.mark.parametrize("kind", KINDS)
def test_due_nodes_are_those_of_a_search_in_all_rows(tmp_path, kind):
    run = simulate(load_kind(kind), tmp_path / "run")
    assert run is not None
    compare(run, 8)


@pytest.mark.parametrize("number", range(100, 100 + examples(0.5).max_examples))
def test_due_nodes_of_random_scenarios(tmp_path, number):
    run, scenario = simulate_random(number, tmp_path)
    compare(run, scenario.workload.messages)


FLOOD = [*SMALL, ("router.kind", "floodsub"), ("workload.inject", "1"), ("linger_s", "3")]


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ([*FLOOD, ("loss.rate", "0.9")], Why.LOST),
        ([*FLOOD, ("loss.rate", "0.9")], Why.NO_HOLDER),
        ([*FLOOD, ("network.degree", "0")], Why.ALONE),
        ([*FLOOD, ("links.uplink_mbit", "0.01"), ("links.uplink_queue_bytes", "300")], Why.QUEUE_FULL),
        ([*FLOOD, ("links.min_ms", "4000"), ("links.max_ms", "4000"), ("warmup_s", "20")], Why.UNDER_WAY),
        ([*SMALL, ("router.degree_lazy", "0"), ("router.degree", "1"), ("router.degree_low", "1"),
          ("router.degree_high", "2")], Why.NO_MESH),
        ([*SMALL, ("loss.rate", "0.85"), ("router.degree", "2"), ("router.degree_low", "1"),
          ("router.degree_high", "3")], Why.GOSSIP_LOST),
        ([*SMALL, ("router.validate", "true"), ("validation.delay_ms", "2000"), ("workload.interval_s", "0.1"),
          ("router.max_pending_validations", "1"), ("router.degree_lazy", "0")], Why.REFUSED),
    ],
)  # fmt: skip
def test_a_provoked_cause_is_found_as_a_reason(tmp_path, overrides, expected):
    scenario = load_scenario(None, "r1", overrides)
    run = simulate(scenario, tmp_path / "run")
    assert run is not None
    found = [each.why for message in range(8) for each in explain_missing(open_message(run, str(message))).missing]
    assert expected in found
