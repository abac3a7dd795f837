"""Traces of real nodes: what their rows tell, and no more. Recorded from go-libp2p-pubsub, and rows made by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import hearsay

from hearsay.explain.books import Fate
from hearsay.explain.missing import Why, explain_missing
from hearsay.explain.one_node import asked_path, explain_node
from hearsay.explain.path import Step
from hearsay.explain.story import open_story
from hearsay.trace.language.schema import TraceEvent
from hearsay.trace.read.reader import iter_rows

DATA = Path(__file__).parents[1] / "ingest" / "data"


@pytest.fixture(scope="module", params=["go-0.16.json.gz", "go-0.16.pb.gz"])
def run(request, tmp_path_factory):
    out = tmp_path_factory.mktemp("imported") / "run"
    assert hearsay("trace", "import", DATA / request.param, "--out", out).returncode == 0
    return out


def test_paths_follow_the_deliveries_to_the_publisher(run):
    """Each hop is one that a delivery names, and each copy one that somebody received."""
    for message in range(10):
        story = open_story(run, str(message))
        rows = list(iter_rows(run, messages=[message]))
        delivered = {(row.peer, row.remote) for row in rows if row.event is TraceEvent.DELIVER}
        received = [row.time_us for row in rows if row.event is TraceEvent.RECV_RPC]
        for place in story.books.deliveries.first().tolist():
            path = asked_path(story, place)
            assert path.whole
            assert path.nodes[0] == story.books.publisher
            for hop in path.hops:
                assert (hop.receiver, hop.sender) in delivered
                assert hop.copy is not None
                assert hop.copy.arrived_us in received
                assert hop.took(Step.QUEUE, Step.UPLINK, Step.LINE) == 0
            took = sum(spell.took_us for hop in path.hops for spell in hop.spells)
            assert took == (path.delivered_us - story.books.published_us if path.hops else 0)


def test_all_that_was_received_is_in_the_books(run):
    story = open_story(run, "3")
    rows = iter_rows(run, messages=[3], events=[TraceEvent.RECV_RPC])
    expected = sorted((row.remote, row.peer, row.time_us) for row in rows)
    copies = [story.books.copies.at(place) for place in range(len(story.books.copies.sender))]
    arrived = [copy for copy in copies if copy.fate is Fate.ARRIVED]
    assert sorted((copy.sender, copy.receiver, copy.arrived_us) for copy in arrived) == expected


def test_what_cannot_be_known_is_said(run):
    done = hearsay("explain", run, "--message", "3", "--node", "4")
    assert done.returncode == 0
    assert "A trace of real nodes" in done.stdout
    assert "queues included" in done.stdout
    answer = explain_missing(open_story(run, "3"))
    assert answer.due == 10
    assert all(each.why is not Why.UNKNOWN for each in answer.missing)


def test_ids_are_found_by_their_beginning(run):
    story = open_story(run, "3")
    assert story.name.identifier is not None
    assert open_story(run, story.name.identifier).name == story.name
    done = hearsay("explain", run, "--message", story.name.identifier[:6])
    assert (done.returncode, done.stdout) == (2, "")
    assert "several messages begin so" in done.stderr
    node = story.names.peer(4)
    assert explain_node(story, 4) is not None
    assert hearsay("explain", run, "--message", "3", "--node", node[-8:]).returncode == 0
