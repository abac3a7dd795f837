"""A live trace over several lives of a node: one run in the end, names keep their numbers."""

from __future__ import annotations

import asyncio
import gc
from itertools import count

import pytest

from hearsay.core.actions import MessagePublished, PeerAdded, TopicJoined
from hearsay.core.rpc import Message
from hearsay.libp2p.keys import PrivateKey
from hearsay.libp2p.peer_id import peer_id_of, to_text
from hearsay.node.live_trace import LiveTrace
from hearsay.trace.manifest import load_manifest
from hearsay.trace.names import load_names
from hearsay.trace.reader import read_rows
from hearsay.trace.run_folder import RunFolder
from hearsay.trace.schema import Column, TraceEvent
from hearsay.trace.verify import verify


@pytest.fixture
def peers():
    return [peer_id_of(PrivateKey.generate().public) for _ in range(4)]


def live(directory, node, clock, *events, close=True):
    """One life of a node."""

    async def run() -> None:
        trace = LiveTrace(directory, node, clock, "hearsay/test")
        for event in events:
            trace.happened(event)
        if close:
            await trace.close()

    asyncio.run(run())


def test_a_node_that_comes_back_continues_its_trace(tmp_path, peers):
    clock = count(1_000_000).__next__
    node, first, second, third = peers
    live(tmp_path, node, clock, PeerAdded(first, "/meshsub/1.1.0"), TopicJoined("news"))
    assert verify(tmp_path) == []
    RunFolder.create(tmp_path / "00001")  # of a life that ended while it wrote
    live(
        tmp_path,
        third,
        clock,
        PeerAdded(second, "/meshsub/1.1.0"),
        PeerAdded(first, "/meshsub/1.1.0"),
        TopicJoined("chat"),
        TopicJoined("news"),
    )
    assert verify(tmp_path) == []
    names = load_names(tmp_path)
    assert list(names.peers.values()) == [to_text(peer) for peer in (node, first, third, second)]
    assert list(names.topics.values()) == ["news", "chat"]
    rows = read_rows(tmp_path)
    added = rows[rows[:, Column.EVENT] == TraceEvent.ADD_PEER]
    assert sorted(added[:, [Column.PEER, Column.REMOTE]].tolist()) == [[0, 1], [2, 1], [2, 3]]
    joined = rows[rows[:, Column.EVENT] == TraceEvent.JOIN]
    assert sorted(joined[:, [Column.PEER, Column.TOPIC]].tolist()) == [[0, 0], [2, 0], [2, 1]]


def test_a_trace_closed_twice_is_closed_once(tmp_path, peers):
    async def run() -> None:
        trace = LiveTrace(tmp_path, peers[0], count(1_000_000).__next__, "hearsay/test")
        await trace.close()
        await trace.close()

    asyncio.run(run())
    assert verify(tmp_path) == []
    assert read_rows(tmp_path)[:, Column.EVENT].tolist() == [TraceEvent.NODE_UP, TraceEvent.NODE_DOWN]


def test_messages_of_a_long_life_lie_in_one_file_each(tmp_path, peers):
    clock = count(1_000_000).__next__
    messages = [Message(bytes([number]), "news", b"data", peers[0], b"1") for number in range(3)]
    for life in range(3):
        live(tmp_path, peers[0], clock, *(MessagePublished(message) for message in messages[: life + 1]))
    assert verify(tmp_path) == []
    trace = load_manifest(tmp_path).trace
    assert trace.spanning_messages == ()
    assert [file.rows for file in trace.files if file.trace_class == "message"] == [6]


def test_while_a_node_lives_its_folder_has_no_seal(tmp_path, peers):
    clock = count(1_000_000).__next__
    live(tmp_path, peers[0], clock)
    assert (tmp_path / "manifest.json").exists()
    live(tmp_path, peers[0], clock, close=False)
    gc.collect()  # the lock of a node whose process ends goes with it
    assert not (tmp_path / "manifest.json").exists()
    live(tmp_path, peers[0], clock)
    assert verify(tmp_path) == []
    assert len(read_rows(tmp_path)) == 4
