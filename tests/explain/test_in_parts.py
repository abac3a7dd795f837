"""Explanations of messages in parts: each delivery has the copy of the part that completed the message."""

from __future__ import annotations

import re

import pytest
from commands import hearsay
from explained_runs import SMALL, simulate

from hearsay.core.language.rpc import PartKind
from hearsay.explain.deliveries import explain_node
from hearsay.explain.fastest import shortcut_of
from hearsay.explain.message import open_message
from hearsay.explain.missing import Why, explain_missing
from hearsay.explain.path import Step
from hearsay.sim.scenario.scenario_file import load_scenario
from hearsay.trace.language.schema import TraceEvent, TraceRow
from hearsay.trace.reader import RowFilter, iter_rows

SCENARIO = """
[router]
partial_messages = true
[[topics]]
name = "blocks"
[topics.partial]
parts = 16
known_parts = 12
asks = "one"
"""


def simulate_in_parts(path, *overrides):
    file = path / "parts.toml"
    file.write_text(SCENARIO, encoding="utf-8")
    return simulate(load_scenario(file, "r1", [*SMALL, ("network.nodes", "25"), *overrides]), path / "run")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return simulate_in_parts(tmp_path_factory.mktemp("parts"))


def test_each_delivery_has_the_part_that_arrived_then(run):
    parts = {
        (row.peer, row.remote, row.time_us + row.delay_us)
        for row in iter_rows(run, RowFilter(events=[TraceEvent.SEND_RPC]))
        if row.kind is PartKind.PARTIAL and row.remote is not None and row.delay_us is not None
    }
    explained = 0
    for message in range(8):
        story = open_message(run, str(message))
        for place in story.history.deliveries.first().tolist():
            answer = explain_node(story, int(story.history.deliveries.node[place]))
            assert answer is not None
            for hop in answer.path.hops:
                assert hop.copy is not None
                if hop.copy.in_parts:
                    assert (hop.sender, hop.receiver, hop.delivered_us) in parts
                    assert hop.took(Step.UNKNOWN) == 0
                    explained += 1
    assert explained > 100


def test_a_lost_part_completes_no_message(tmp_path):
    """With service times, the completing part is the last one that had arrived at the time of the delivery."""
    run = simulate_in_parts(tmp_path, ("loss.rate", "0.4"), ("service.time_ms", "3"))
    lost = {
        (row.peer, row.remote, row.time_us)
        for row in iter_rows(run, RowFilter(events=[TraceEvent.DROP_RPC]))
        if row.kind is PartKind.PARTIAL
    }
    assert lost
    explained = 0
    for message in range(8):
        for part in open_message(run, str(message)).history.last_parts.values():
            assert (part.sender, part.receiver, part.arrived_us) not in lost
            explained += 1
    assert explained > 50


def test_causes_that_the_rows_do_not_show_are_not_named(run):
    story = open_message(run, "2")
    place = max(story.history.deliveries.first().tolist(), key=lambda one: story.history.deliveries.time_us[one])
    node = int(story.history.deliveries.node[place])
    answer = explain_node(story, node)
    assert answer is not None
    assert shortcut_of(story, answer.path) == "messages of this topic are sent in parts on request"
    done = hearsay("explain", run, "--message", "2", "--node", node)
    assert (done.returncode, done.stderr) == (0, "")
    assert "had not sent its last part yet" in done.stdout
    assert "did not send it there" not in done.stdout
    assert "rows of parts name no message" in done.stdout
    slow = hearsay("explain", run, "--message", "2").stdout
    assert "not told" not in slow
    assert "the last part" in slow


REASONS_OF_PARTS = (Why.PARTS_LOST, Why.PARTS_NOT_ASKED, Why.PARTS_NOT_SENT, Why.UNKNOWN)


def search_reason(all_rows: list[TraceRow], story, node: int) -> tuple[Why, list[int]] | None:
    """Return the reason why a node lacks a part of a message, and the numbers of its explanation, by a search in all
    rows; None if no neighbour had the message.
    """
    start = story.history.published_us
    until = min(start + story.run.window_us, story.run.end_us)
    rows = [row for row in all_rows if row.remote is not None]
    had = {story.history.publisher: start}
    for row in all_rows:
        if row.event is TraceEvent.DELIVER and row.message == story.name.number:
            had.setdefault(row.peer, row.time_us)
    connected = {row.remote for row in rows if row.event is TraceEvent.ADD_PEER and row.peer == node}
    holders = connected & set(had)
    partial = [row for row in rows if row.kind is PartKind.PARTIAL and row.topic == story.history.topic]
    counts = []
    for to_node in (True, False):
        for event in (TraceEvent.SEND_RPC, TraceEvent.DROP_RPC):
            mine = [row for row in partial if row.event is event and (row.remote if to_node else row.peer) == node]
            others = [(row.peer if to_node else row.remote, row.time_us + (row.delay_us or 0)) for row in mine]
            counts.append(sum(other in holders and had[other] <= time <= until for other, time in others))
    sent_to, lost_to, sent_by, lost_by = counts
    if not holders:
        return None
    if lost_to or lost_by:
        return Why.PARTS_LOST, [len(holders), lost_to, lost_by]
    if not sent_by:
        return Why.PARTS_NOT_ASKED, [len(holders)]
    return (Why.UNKNOWN, [len(holders), sent_to]) if sent_to else (Why.PARTS_NOT_SENT, [len(holders), sent_by])


@pytest.mark.parametrize("overrides", [
    (("loss.rate", "0.9"), ("linger_s", "1")),
    (("linger_s", "0.05"), ("links.max_ms", "400"), ("links.min_ms", "300"), ("loss.rate", "0.2")),
    (("loss.rate", "0.7"), ("linger_s", "2")),
])  # fmt: skip
def test_reasons_of_missing_parts_agree_with_a_search_in_the_rows(tmp_path, overrides):
    run = simulate_in_parts(tmp_path, *overrides)
    rows = list(iter_rows(run))
    compared = 0
    for message in range(8):
        story = open_message(run, str(message))
        for each in explain_missing(story).missing:
            if each.copies or each.why in (Why.NO_HOLDER, Why.ALONE, Why.TOO_LATE):
                continue
            explained = search_reason(rows, story, each.node)
            assert explained is not None
            assert each.why in REASONS_OF_PARTS
            assert (each.why, [int(number) for number in re.findall(r"\d+", each.detail)]) == explained
            compared += 1
    assert compared > 5
