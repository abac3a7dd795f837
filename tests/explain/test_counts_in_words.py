"""Summaries of the deliveries of a message and of its due nodes: their counts agree with each other."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import shutil
from itertools import count
from pathlib import Path

import pytest
from commands import hearsay
from explained_runs import SMALL, load_kind, simulate

from hearsay.core.language.actions import Deliver, MessagePublished, PeerAdded, TopicJoined
from hearsay.core.language.rpc import Message
from hearsay.explain.deliveries import explain_slowest
from hearsay.explain.message import open_message
from hearsay.explain.missing import explain_missing
from hearsay.explain.words import missing_summary, slow_summary
from hearsay.libp2p.names.keys import PrivateKey
from hearsay.libp2p.names.peer_id import peer_id_of
from hearsay.node.live_trace import LiveTrace
from hearsay.sim.scenario.scenario_file import load_scenario
from hearsay.trace.language.schema import TraceEvent
from hearsay.trace.reader import RowFilter, iter_rows

LIVE = Path(__file__).parents[1] / "ingest" / "data" / "go-0.16.json.gz"
PUBLISHER = "ACQIARIgAP2Ail7RJMxlnKKt6g3R738PVtDuRNYHhAWh3OtxVvc="

WITH_PUBLISHER = "that were due it got it, its publisher among them."


def summarise(run, message):
    story = open_message(run, str(message))
    return slow_summary(story, explain_slowest(story)), missing_summary(explain_missing(story))


@pytest.mark.parametrize(
    ("nodes", "got", "due"),
    [
        ("18", r"17 nodes got it besides its publisher, half of them", f"All 18 nodes {WITH_PUBLISHER}"),
        ("2", r"1 node got it besides its publisher, after [0-9.]+ ms\.", f"All 2 nodes {WITH_PUBLISHER}"),
        ("1", "Only its publisher got it.", "Only its publisher was due it, and got it."),
    ],
)
def test_the_publisher_is_counted_as_due_but_not_as_a_receiver(tmp_path, nodes, got, due):
    overrides = [*SMALL, ("workload.publishers", "subscribers"), ("network.nodes", nodes)]
    run = simulate(load_scenario(None, "r1", overrides), tmp_path / "run")
    found = summarise(run, 1)
    assert re.match(got, found[0].replace("\N{NO-BREAK SPACE}", " "))
    assert found[1].replace("\N{NO-BREAK SPACE}", " ") == due


def test_a_script_that_publishes_is_not_counted_as_a_node(tmp_path):
    run = simulate(load_scenario(None, "r1", SMALL), tmp_path / "run")
    found = [words.replace("\N{NO-BREAK SPACE}", " ") for words in summarise(run, 1)]
    assert found[0].startswith("50 nodes got it, half of them")
    assert found[1] == "All 50 nodes that were due it got it."


def test_receivers_that_were_not_due_are_counted(tmp_path):
    run = simulate(load_kind("churn"), tmp_path / "run")
    assert run is not None
    undue = 0
    for message in range(8):
        story = open_message(run, str(message))
        slow, missing = explain_slowest(story), explain_missing(story)
        got = slow.deliveries + slow.latecomers
        assert got == missing.got - missing.publisher_is_due + missing.got_undue
        undue += missing.got_undue
        if missing.got_undue > 1:
            assert missing_summary(missing).endswith(f": {missing.got_undue}\N{NO-BREAK SPACE}others that got it.")
    assert undue > 0
    found = json.loads(hearsay("explain", run, "--message", "7", "--missing", "--json").stdout)
    missing = explain_missing(open_message(run, "7"))
    assert (found["got_undue"], found["publisher_is_due"]) == (missing.got_undue, missing.publisher_is_due)
    assert found["why_due_is_unknown"] is None


def test_rejections_explain_why_only_the_publisher_got_it(tmp_path):
    overrides = [*SMALL, ("router.validate", "true"), ("validation.reject_share", "1")]
    overrides.append(("workload.publishers", "subscribers"))
    run = simulate(load_scenario(None, "r1", overrides), tmp_path / "run")
    got, due = summarise(run, 1)
    assert re.fullmatch(r"Only its publisher got it\. \d+\snodes refused it: the application rejected it\.", got)
    assert due == "It was not due at any node: every application that got it rejected it."


def test_a_message_in_a_topic_without_subscribers_is_due_at_no_node(tmp_path):
    file = tmp_path / "no_subscriber.toml"
    file.write_text('[[topics]]\nname = "empty"\nsubscribers_count = 0\n', encoding="utf-8")
    run = simulate(load_scenario(file, "r1", [*SMALL, ("workload.publishers", "any")]), tmp_path / "run")
    assert summarise(run, 1) == (
        "Only its publisher got it.",
        "It was not due at any node: no node was in the topic.",
    )


def test_an_imported_trace_of_one_node_tells_nothing_of_others(tmp_path):
    """Only the publisher's trace of a live network is imported."""
    with gzip.open(LIVE, "rt", encoding="utf-8") as lines:
        publisher_lines = [line for line in lines if json.loads(line)["peerID"] == PUBLISHER]
    (tmp_path / "one.json").write_text("".join(publisher_lines), encoding="utf-8")
    run = tmp_path / "run"
    assert hearsay("trace", "import", tmp_path / "one.json", "--out", run).returncode == 0
    numbers = [n for n in range(40) if (found := hearsay("explain", run, "--message", str(n))).returncode == 0
               and "No node that traced got it except its publisher." in found.stdout]  # fmt: skip
    assert numbers
    got, due = summarise(run, numbers[0])
    assert re.search(r" It was sent to (1\speer|\d+\speers) that did not trace\. This trace does not show", got)
    assert due == "The due nodes are unknown: only one node traced, and it does not know what other nodes got."


def test_a_missing_dictionary_of_peers_is_reported(tmp_path):
    run = simulate(load_scenario(None, "r1", SMALL), tmp_path / "run")
    assert run is not None
    copy = shutil.copytree(run, tmp_path / "copy")
    (copy / "dictionary" / "peers.parquet").unlink()
    done = hearsay("explain", copy, "--message", "1")
    assert done.returncode == 0
    assert "The run's dictionary of peers is missing" in done.stdout
    assert "dictionary of peers" not in hearsay("explain", run, "--message", "1").stdout


def test_a_live_trace_of_one_node_tells_nothing_of_others(tmp_path):
    """In a trace of `hearsay node --trace` peers have no role."""
    node, peer = (peer_id_of(PrivateKey.generate().public) for _ in range(2))
    message = Message(b"\x07" * 20, "news", b"hello", node, b"1")

    async def write_trace() -> None:
        trace = LiveTrace(tmp_path / "trace", node, count(1_000_000).__next__, "hearsay/test")
        for event in (TopicJoined("news"), PeerAdded(peer, "/meshsub/1.1.0"), MessagePublished(message)):
            trace.happened(event)
        trace.delivered(Deliver(message, None))
        await trace.close()

    asyncio.run(write_trace())
    (row,) = iter_rows(tmp_path / "trace", RowFilter(events=[TraceEvent.PUBLISH]))
    got, due = summarise(tmp_path / "trace", row.message)
    assert got == "No node that traced got it except its publisher. This trace does not show what other nodes got."
    assert due == "The due nodes are unknown: only one node traced, and it does not know what other nodes got."
