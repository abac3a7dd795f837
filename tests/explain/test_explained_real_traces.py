"""Explanations of traces recorded from go-libp2p-pubsub, whose rows tell less than those of a simulation."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import hearsay

from hearsay.explain.copies import Fate
from hearsay.explain.deliveries import explain_node, requested_paths
from hearsay.explain.fastest import shortcut_of
from hearsay.explain.message import NotInThisRun, latest_messages, latest_text, open_message
from hearsay.explain.missing import Why, explain_missing
from hearsay.explain.path import Path as MessagePath
from hearsay.explain.path import Step
from hearsay.trace.language.schema import TraceEvent
from hearsay.trace.reader import RowFilter, iter_rows

DATA = Path(__file__).parents[1] / "ingest" / "data"


@pytest.fixture(scope="module", params=["go-0.16.json.gz", "go-0.16.pb.gz"])
def run(request, tmp_path_factory):
    out = tmp_path_factory.mktemp("imported") / "run"
    assert hearsay("trace", "import", DATA / request.param, "--out", out).returncode == 0
    return out


def test_paths_follow_the_deliveries_to_the_publisher(run):
    """Each hop has a delivery, and each of its copies was received."""
    for message in range(10):
        story = open_message(run, str(message))
        rows = list(iter_rows(run, RowFilter(messages=[message])))
        delivered = {(row.peer, row.remote) for row in rows if row.event is TraceEvent.DELIVER}
        received = [row.time_us for row in rows if row.event is TraceEvent.RECV_RPC]
        for place in story.history.deliveries.first().tolist():
            path = requested_paths(story, [place])[0]
            assert path.complete
            assert path.nodes[0] == story.history.publisher
            for hop in path.hops:
                assert (hop.receiver, hop.sender) in delivered
                assert hop.copy is not None
                assert hop.copy.arrived_us in received
                assert hop.took(Step.QUEUE, Step.UPLINK, Step.LINE) == 0
            took = sum(spell.took_us for hop in path.hops for spell in hop.times)
            assert took == (path.delivered_us - story.history.published_us if path.hops else 0)


def test_a_delivery_from_an_unknown_peer_is_not_a_publication(run):
    story = open_message(run, "3")
    published = next(iter_rows(run, RowFilter(messages=[3], events=[TraceEvent.PUBLISH])))
    assert published.peer is not None
    own = MessagePath(published.peer, published.time_us, (), complete=True)
    assert shortcut_of(story, own) == "the node published it itself"
    other = MessagePath(published.peer + 1, published.time_us, (), complete=False)
    assert shortcut_of(story, other) == "the trace does not show how the message got here from its publisher"


def test_every_received_copy_is_in_the_history(run):
    story = open_message(run, "3")
    rows = iter_rows(run, RowFilter(messages=[3], events=[TraceEvent.RECV_RPC]))
    expected = sorted((row.remote, row.peer, row.time_us) for row in rows)
    copies = [story.history.copies.at(place) for place in range(len(story.history.copies.sender))]
    arrived = [copy for copy in copies if copy.fate is Fate.ARRIVED]
    assert sorted((copy.sender, copy.receiver, copy.arrived_us) for copy in arrived) == expected


def test_unknown_facts_are_stated(run):
    done = hearsay("explain", run, "--message", "3", "--node", "4")
    assert done.returncode == 0
    assert "a trace of real nodes" in done.stdout
    assert "queues included" in done.stdout
    answer = explain_missing(open_message(run, "3"))
    assert answer.due == 10
    assert all(each.why is not Why.UNKNOWN for each in answer.missing)


def test_ids_are_found_by_their_beginning(run):
    story = open_message(run, "3")
    assert story.name.identifier is not None
    assert open_message(run, story.name.identifier).name == story.name
    done = hearsay("explain", run, "--message", story.name.identifier[:6])
    assert (done.returncode, done.stdout) == (2, "")
    assert "several ids begin like this" in done.stderr
    node = story.names.peer(4)
    assert explain_node(story, 4) is not None
    assert hearsay("explain", run, "--message", "3", "--node", node[-8:]).returncode == 0


def test_ids_with_the_same_beginning_are_shortened_differently(run):
    messages = latest_messages(run)
    shown = [line.split()[1] for line in latest_text(messages).splitlines()[1:]]
    assert len({(each.id or "")[:12] for each in messages}) < len(messages)
    assert [open_message(run, short).name.number for short in shown] == [each.message for each in messages]
    with pytest.raises(NotInThisRun, match="several ids end like this"):
        open_message(run, f"…{shown[0][-1]}")
