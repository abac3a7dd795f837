"""Live traces over several lives of a node: they become one run, in which names keep their numbers."""

from __future__ import annotations

import asyncio
import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest

from hearsay.core.language.actions import (
    CopyWithheld,
    Deliver,
    MessagePublished,
    MessageRejected,
    NamedPeerDialled,
    PeerAdded,
    Reason,
    TopicJoined,
    Via,
)
from hearsay.core.language.rpc import Control, Graft, IHave, Message, Rpc, Subscription
from hearsay.libp2p.names.keys import PrivateKey
from hearsay.libp2p.names.peer_id import peer_id_of, to_text
from hearsay.node import live_trace, trace_rows
from hearsay.node.live_trace import LiveTrace
from hearsay.node.trace_rows import message_number
from hearsay.trace.compare_runs import verify
from hearsay.trace.folder.manifest import load_manifest
from hearsay.trace.folder.run_folder import RunFolder
from hearsay.trace.language.schema import Column, TraceEvent
from hearsay.trace.reader import known_numbers, load_names, read_rows


@pytest.fixture
def peers():
    return [peer_id_of(PrivateKey.generate().public) for _ in range(4)]


def trace_life(directory, node, clock, *events, close=True):
    """Write the trace of one life of a node."""

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
    trace_life(tmp_path, node, clock, PeerAdded(first, "/meshsub/1.1.0"), TopicJoined("news"))
    assert verify(tmp_path) == []
    RunFolder.create(tmp_path / "00001")  # left by a life that ended while it wrote
    trace_life(
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


def test_messages_of_a_long_life_lie_in_one_file(tmp_path, peers):
    clock = count(1_000_000).__next__
    messages = [Message(bytes([number]), "news", b"data", peers[0], b"1") for number in range(3)]
    for life in range(3):
        trace_life(tmp_path, peers[0], clock, *(MessagePublished(message) for message in messages[: life + 1]))
    assert verify(tmp_path) == []
    trace = load_manifest(tmp_path).trace
    assert trace.spanning_messages == ()
    assert [file.rows for file in trace.files if file.trace_class == "message"] == [6]


def test_the_folder_of_a_running_node_has_no_manifest(tmp_path, peers):
    clock = count(1_000_000).__next__
    trace_life(tmp_path, peers[0], clock)
    assert (tmp_path / "manifest.json").exists()
    trace_life(tmp_path, peers[0], clock, close=False)
    gc.collect()  # releases the lock of the trace, as the end of the process does
    assert not (tmp_path / "manifest.json").exists()
    trace_life(tmp_path, peers[0], clock)
    assert verify(tmp_path) == []
    assert len(read_rows(tmp_path)) == 4


def test_names_of_what_the_router_has_not_accepted_are_not_kept(tmp_path, peers):
    node, friend, author, stranger = peers
    accepted = Message(b"accepted", "news", b"data", author, b"1")
    unverified = Message(b"unverified", "junk", b"data", stranger, b"2")

    async def run() -> None:
        trace = LiveTrace(tmp_path, node, count(1_000_000).__next__, "hearsay/test")
        trace.happened(TopicJoined("news"))
        trace.happened(PeerAdded(friend, "/meshsub/1.1.0"))
        control = Control(ihave=(IHave("junk", (b"id",)),), graft=(Graft("junk"),))
        trace.received(friend, Rpc((), (accepted, unverified), control))
        trace.happened(MessageRejected(unverified, friend, Reason.BAD_SIGNATURE))
        trace.delivered(Deliver(accepted, friend))
        await trace.close()

    asyncio.run(run())
    assert verify(tmp_path) == []
    names = load_names(tmp_path)
    assert list(names.peers.values()) == [to_text(peer) for peer in (node, friend, author)]
    assert list(names.topics.values()) == ["news"]
    assert known_numbers(tmp_path / "00000", "messages", "message") == {message_number(b"accepted")}
    rows = read_rows(tmp_path)
    assert sum(rows[:, Column.EVENT] == TraceEvent.RECV_RPC) == 4
    rejected = rows[rows[:, Column.EVENT] == TraceEvent.REJECT]
    assert rejected[:, [Column.MESSAGE, Column.TOPIC]].tolist() == [[message_number(b"unverified"), -1]]


def test_a_copy_withheld_has_the_row_of_one_that_would_have_been_sent(tmp_path, peers):
    node, friend, author, _ = peers
    message = Message(b"large", "news", bytes(2_000), author, b"1")

    async def run() -> None:
        trace = LiveTrace(tmp_path, node, count(1_000_000).__next__, "hearsay/test")
        trace.happened(TopicJoined("news"))
        trace.happened(PeerAdded(friend, "/meshsub/1.2.0"))
        trace.delivered(Deliver(message, friend))
        trace.sent(friend, trace.parts(Rpc(messages=(message,)), (Via.MESH,)))
        trace.happened(CopyWithheld(friend, message, Via.MESH))
        await trace.close()

    asyncio.run(run())
    rows = read_rows(tmp_path)
    (sent,) = rows[rows[:, Column.EVENT] == TraceEvent.SEND_RPC].tolist()
    (withheld,) = rows[rows[:, Column.EVENT] == TraceEvent.DROP_RPC].tolist()
    assert withheld[Column.REASON] == Reason.UNWANTED
    assert withheld[Column.BYTES] > 2_000
    same = (Column.KIND, Column.PEER, Column.REMOTE, Column.TOPIC, Column.MESSAGE, Column.BYTES, Column.VIA)
    assert [withheld[column] for column in same] == [sent[column] for column in same]


def test_a_dial_of_a_named_peer_says_which_peer_and_for_which_topic(tmp_path, peers):
    node, friend, named, _ = peers
    notices = TopicJoined("news"), PeerAdded(friend, "/meshsub/1.1.0"), NamedPeerDialled("news", named)
    trace_life(tmp_path, node, count(1_000_000).__next__, *notices)
    rows = read_rows(tmp_path)
    (dial,) = rows[rows[:, Column.EVENT] == TraceEvent.DIAL].tolist()
    names = load_names(tmp_path)
    assert [names.peer(dial[column]) for column in (Column.PEER, Column.REMOTE)] == [to_text(node), to_text(named)]
    assert names.topic(dial[Column.TOPIC]) == "news"


def test_names_of_peers_that_others_name_are_bounded_and_leave_room_for_ones_own(tmp_path, peers, monkeypatch):
    monkeypatch.setattr(trace_rows, "MAX_PEERS", 6)
    node, friend, *_ = peers
    named = [NamedPeerDialled("own", b"\x00\x01" + bytes([number])) for number in range(10)]
    trace_life(
        tmp_path, node, count(1_000_000).__next__, TopicJoined("own"), *named, PeerAdded(friend, "/meshsub/1.1.0")
    )
    assert verify(tmp_path) == []
    rows = read_rows(tmp_path)
    dials = rows[rows[:, Column.EVENT] == TraceEvent.DIAL]
    assert dials[:, Column.REMOTE].tolist() == [1, 2] + [-1] * 8
    assert load_names(tmp_path).peers[3] == to_text(friend)


def test_names_of_others_are_bounded_and_leave_room_for_ones_own(tmp_path, peers, monkeypatch):
    monkeypatch.setattr(trace_rows, "MAX_OTHER_TOPICS", 5)
    monkeypatch.setattr(trace_rows, "MAX_PEERS", 6)
    node, friend, late, _ = peers

    async def run() -> None:
        trace = LiveTrace(tmp_path, node, count(1_000_000).__next__, "hearsay/test")
        trace.received(friend, Rpc(tuple(Subscription(f"topic {number}", True) for number in range(10))))
        trace.happened(TopicJoined("own"))
        for number in range(10):
            trace.delivered(Deliver(Message(bytes([number]), "own", b"", b"\x00\x01" + bytes([number])), friend))
        trace.happened(PeerAdded(late, "/meshsub/1.1.0"))
        await trace.close()

    asyncio.run(run())
    assert verify(tmp_path) == []
    names = load_names(tmp_path)
    assert list(names.topics.values()) == [*(f"topic {number}" for number in range(5)), "own"]
    assert len(names.peers) == 4
    assert names.peers[3] == to_text(late)


def test_names_are_written_when_there_are_new_ones(tmp_path, peers):
    node, first, second, _ = peers

    async def run() -> list[int]:
        trace = LiveTrace(tmp_path, node, count(1_000_000).__next__, "hearsay/test")
        files = []
        for peer in (first, first, second):
            trace.happened(PeerAdded(peer, "/meshsub/1.1.0"))
            trace._write()
            await trace._wait_for_write()
            files.append((tmp_path / "dictionary" / "peers.parquet").stat().st_ino)
        assert set(load_names(tmp_path / "00001").peers) == {0, 1}, "a piece names the peers in its rows"
        await trace.close()
        return files

    written = asyncio.run(run())
    assert written[0] == written[1] != written[2]
    assert verify(tmp_path) == []


def test_rows_that_wait_for_the_disk_are_bounded_and_the_trace_says_that_some_are_lost(tmp_path, peers, monkeypatch):
    monkeypatch.setattr(live_trace, "MAX_ROWS", 50)
    monkeypatch.setattr(live_trace, "MAX_WAITING_ROWS", 100)
    node, peer, _, _ = peers
    disk = threading.Event()

    async def run() -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        stalled = asyncio.ensure_future(asyncio.to_thread(disk.wait))
        trace = LiveTrace(tmp_path, node, count(1_000_000).__next__, "hearsay/test")
        try:
            for number in range(500):
                message = Message(bytes([number // 256, number % 256]), "news", b"", node)
                trace.happened(MessagePublished(message))
                assert len(trace._rows) <= 100
                assert len(trace._messages) <= 100
            assert trace.rows_lost == 501 - 50 - 100
        finally:
            disk.set()
        await stalled
        trace.happened(PeerAdded(peer, "/meshsub/1.1.0"))
        await trace.close()

    asyncio.run(run())
    assert verify(tmp_path) == []
    assert not load_manifest(tmp_path).complete
    rows = read_rows(tmp_path)
    assert rows[-1, Column.EVENT] == TraceEvent.NODE_DOWN
    assert sum(rows[:, Column.EVENT] == TraceEvent.PUBLISH) == 149
