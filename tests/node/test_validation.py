"""Slow validators on real nodes: floods, bounds of waiting messages, threads and deadlines."""

from __future__ import annotations

import asyncio
import gc
import threading
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from waiting import run, until

from hearsay.core.language.rpc import Message, Rpc
from hearsay.libp2p.frames import frame
from hearsay.libp2p.host import Host
from hearsay.node.config import NodeConfig, NodeLimits
from hearsay.node.node import Node
from hearsay.wire.encode import encode_rpc
from hearsay.wire.messages import by_content
from hearsay.wire.signing import SignaturePolicy

MESHSUB = "/meshsub/1.1.0"
QUICK = {"heartbeat_interval_ms": 100, "first_heartbeat_ms": 20, "first_heartbeat_spread_ms": 50}


def config(max_pending_validations=8192, **limits):
    return NodeConfig(
        parameters={**QUICK, "max_pending_validations": max_pending_validations},
        signatures=SignaturePolicy.STRICT_NO_SIGN,
        message_id=by_content,
        limits=NodeLimits(**limits),
    )


class Stranger:
    """A bare host with a stream to a node, on which it sends unsigned messages of the test."""

    def __init__(self, host, stream):
        self.peer = host.peer
        self._stream = stream

    def send(self, *data):
        """Send one RPC with a message for each of the data."""
        self._stream.write(frame(encode_rpc(Rpc(messages=tuple(Message(b"", "news", each) for each in data)))))


class Gate:
    """A validator that accepts messages whose data begins with `flood` when `open` is set, and others at once."""

    def __init__(self):
        self.open = asyncio.Event()
        self.asked = []

    async def __call__(self, message):
        self.asked.append(message.data)
        if message.data.startswith(b"flood"):
            await self.open.wait()
        else:
            await asyncio.sleep(0)
        return True


@asynccontextmanager
async def gated_node(count, **limits):
    """Yield a node in the topic `news`, the topic, the gate that is its validator, and connected strangers."""
    async with AsyncExitStack() as stack:
        node = await stack.enter_async_context(Node(config(**limits)))
        topic = await node.join("news")
        gate = Gate()
        node.add_validator("news", gate)
        strangers = []
        for _ in range(count):
            host = Host()
            stack.push_async_callback(host.close)
            host.handle(MESHSUB, lambda stream: None)
            await host.dial(node.addresses[0])
            strangers.append(Stranger(host, await host.open_stream(node.peer, [MESHSUB])))
        await until(lambda: len(node.peers) == count)
        yield node, topic, gate, strangers


def flood(count, name="flood", size=0):
    return [f"{name} {number} ".encode().ljust(size) for number in range(count)]


def pending_bytes(node):
    """Return the memory of all messages that wait for validators, estimated as twice their data, in bytes."""
    return sum(len(message.data) for message, _ in node._running.router.pending.values()) * 2


async def next_data(topic, count):
    return [(await topic.next()).data for _ in range(count)]


async def rejects_bad(message):
    await asyncio.sleep(0)
    return message.data != b"bad"


@pytest.mark.parametrize(
    ("validator", "threads"),
    [(lambda message: message.data != b"bad", False), (lambda message: message.data != b"bad", True),
     (rejects_bad, False)],
    ids=["plain", "thread", "coroutine"],
)  # fmt: skip
def test_a_publication_that_the_own_validator_refuses_is_an_error_and_is_not_sent(validator, threads):
    @run
    async def test():
        async with Node(config()) as node, Node(config()) as other:
            own, theirs = await node.join("news"), await other.join("news")
            await other.connect(node.addresses[0])
            await until(lambda: node.mesh("news"))
            node.add_validator("news", validator, threads=threads)
            with pytest.raises(ValueError, match="topic news: a validator answers REJECT, so nothing is sent"):
                await own.publish(b"bad")
            assert (await own.publish(b"good")).sent == 1
            assert await next_data(theirs, 1) == [b"good"]

    test()


@pytest.mark.parametrize("flooders", [1, 4])
def test_peers_whose_messages_take_for_ever_hold_up_no_other_peers(flooders):
    @run
    async def test():
        async with (
            gated_node(flooders, validation_s=3600) as (node, topic, gate, strangers),
            Node(config()) as friend,
        ):
            there = await friend.join("news")
            await friend.connect(node.addresses[0])
            for number, stranger in enumerate(strangers):
                stranger.send(*flood(500, f"flood {number}"))
            pending = node._running.validation.pending
            await until(lambda: all(pending(stranger.peer) == 128 for stranger in strangers))
            await until(lambda: friend.mesh("news"))
            honest = [f"honest {number}".encode() for number in range(20)]
            for data in honest:
                await there.publish(data)
            assert await next_data(topic, 20) == honest
            assert all(pending(stranger.peer) == 128 for stranger in strangers)
            gate.open.set()
            assert len(set(await next_data(topic, 500 * flooders))) == 500 * flooders

    test()


@run
async def test_waiting_messages_of_one_frame_are_bounded_and_none_is_lost():
    async with gated_node(1, validation_s=3600) as (node, topic, gate, (stranger,)):
        stranger.send(*flood(10_000))
        stranger.send(b"behind it")
        validation = node._running.validation
        await until(lambda: validation.pending(stranger.peer) == 128)
        assert await ping_from_another_node(node)
        assert validation.pending(stranger.peer) == len(node._running.router.pending) == 128
        assert node.statistics.rpcs_received == 1, "the frame behind it is not looked at yet"
        gate.open.set()
        assert await next_data(topic, 10_001) == [*flood(10_000), b"behind it"]


async def ping_from_another_node(node):
    """Ping the node from another one. Until the answer comes, the node does all work that is due."""
    async with Node(config()) as friend:
        return await friend.ping(await friend.connect(node.addresses[0])) > 0


@run
async def test_what_waits_is_bounded_in_bytes_for_a_peer():
    limit = 1 << 20
    async with gated_node(1, validation_s=3600, pending_validation_bytes_per_peer=limit) as (
        node,
        topic,
        gate,
        (one,),
    ):
        messages = flood(100, size=60_000)
        for data in messages:
            one.send(data)
        share = node._running.validation.share
        await until(lambda: share.used > limit * 3 // 4)
        assert await ping_from_another_node(node)
        assert pending_bytes(node) <= share.used <= limit
        gate.open.set()
        assert await next_data(topic, 100) == messages
        assert share.used == 0


@run
async def test_what_waits_is_bounded_in_bytes_for_all_peers_and_leaves_room_for_another():
    limit = 2 << 20
    async with gated_node(5, validation_s=3600, pending_validation_bytes=limit) as (node, topic, gate, strangers):
        *flooders, honest = strangers
        for number, stranger in enumerate(flooders):
            for data in flood(30, f"flood {number}", 50_000):
                stranger.send(data)
        await until(lambda: all(stranger.peer in node._running.receiver._blocked for stranger in flooders))
        share = node._running.validation.share
        assert pending_bytes(node) <= share.used <= limit
        honest.send(b"honest" * 10_000)
        assert await next_data(topic, 1) == [b"honest" * 10_000]
        gate.open.set()
        assert len(set(await next_data(topic, 120))) == 120
        assert share.used == len(node._running.validation._accounts) == 0


@run
async def test_what_waits_is_bounded_over_all_peers_and_none_is_lost():
    async with gated_node(3, validation_s=3600, max_pending_validations=50) as (node, topic, gate, strangers):
        for number, stranger in enumerate(strangers):
            stranger.send(*flood(200, f"flood {number}"))
        await until(lambda: all(stranger.peer in node._running.receiver._blocked for stranger in strangers))
        assert len(node._running.router.pending) <= 50
        gate.open.set()
        assert len(set(await next_data(topic, 600))) == 600
        assert node.statistics.rejected == 0


@run
async def test_room_that_is_free_again_goes_to_a_peer_that_has_none():
    limits = {"max_pending_validations": 13, "pending_validations_per_peer": 2}
    async with gated_node(8, validation_s=3600, **limits) as (node, topic, gate, strangers):
        *flooders, last, honest = strangers
        release = asyncio.Event()

        async def once(message):
            await release.wait()
            return True

        node.add_validator("news", lambda message: once(message) if message.data == b"one" else True)
        for number, stranger in enumerate(flooders):
            stranger.send(*flood(5, f"flood {number}"))
        await until(lambda: len(node._running.router.pending) == 12)
        last.send(b"one")
        await until(lambda: len(node._running.router.pending) == 13)
        honest.send(b"two")
        await until(lambda: honest.peer in node._running.receiver._blocked)
        release.set()
        assert set(await next_data(topic, 2)) == {b"one", b"two"}
        gate.open.set()
        assert len(set(await next_data(topic, 30))) == 30


@run
async def test_an_rpc_without_room_waits_whole():
    async with gated_node(2, pending_validations_per_peer=10, validation_s=3600) as (node, topic, gate, (one, other)):
        messages = flood(40, size=20_000)
        one.send(*messages)
        await until(lambda: one.peer in node._running.receiver._blocked and len(gate.asked) == 10)
        other.send(messages[39])
        gate.open.set()
        assert set(await next_data(topic, 40)) == set(messages)


@run
async def test_a_message_does_not_wait_behind_the_flood_of_a_peer_that_brought_it_first():
    async with gated_node(2, validation_s=3600) as (node, topic, gate, (flooder, honest)):
        flooder.send(*flood(100), b"news of the day")
        await until(lambda: node._running.validation.pending(flooder.peer) == 101)
        honest.send(b"news of the day")
        assert await next_data(topic, 1) == [b"news of the day"]
        assert gate.asked.count(b"news of the day") == 1
        gate.open.set()
        await next_data(topic, 100)
        assert not any(map(node._running.validation.pending, (flooder.peer, honest.peer)))


@run
async def test_the_deadline_counts_from_the_start_of_the_check():
    async with gated_node(1, concurrent_validations=1, validation_s=1) as (node, topic, _, (stranger,)):

        async def takes_its_time(message):
            await asyncio.sleep(0.15)
            return True

        node.add_validator("news", takes_its_time)
        stranger.send(*flood(10, "one"))
        assert await next_data(topic, 10) == flood(10, "one")
        assert node.statistics.validations_timed_out == 0


@run
async def test_a_peer_that_goes_and_comes_back_has_no_more_room():
    async with gated_node(1, validation_s=3600) as (node, _, _, _):
        host = Host()
        host.handle(MESHSUB, lambda stream: None)
        try:
            for number in range(3):
                await host.dial(node.addresses[0])
                stranger = Stranger(host, await host.open_stream(node.peer, [MESHSUB]))
                await until(lambda: len(node.peers) == 2)
                stranger.send(*flood(500, f"flood {number}"))
                await until(lambda: host.peer in node._running.receiver._blocked)
                host.disconnect(node.peer)
                await until(lambda: len(node.peers) == 1)
            assert len(node._running.router.pending) == 128
        finally:
            await host.close()


@run
async def test_validators_for_threads_run_there_on_as_many_as_were_allowed():
    async with gated_node(2, validation_threads=4, validation_s=3600) as (node, topic, _, (flooder, honest)):
        here = threading.get_ident()
        at_work, release = [], threading.Event()

        def heavy(message):
            at_work.append(message.data)
            assert threading.get_ident() != here
            return message.data.startswith(b"one") and (message.data.startswith(b"one honest") or release.wait(30))

        node.add_validator("news", heavy, threads=True)
        flooder.send(*flood(100, "one flood"))
        await until(lambda: len(at_work) == 2)
        honest.send(*flood(20, "one honest"))
        assert set(await next_data(topic, 20)) == set(flood(20, "one honest"))
        assert len(at_work) == 22, "half of the threads are left to others"
        release.set()
        assert len(set(await next_data(topic, 100))) == 100
        honest.send(b"something else")
        await until(lambda: node.statistics.rejected == 1)


@run
async def test_a_thread_that_takes_too_long_has_ignored_the_message_and_is_free_when_it_ends():
    async with gated_node(1, validation_threads=1, validation_s=0.05) as (node, topic, _, (stranger,)):
        release = threading.Event()
        node.add_validator("news", lambda message: message.data != b"stuck" or release.wait(30), threads=True)
        stranger.send(b"stuck")
        await until(lambda: node.statistics.validations_timed_out == 1)
        stranger.send(b"next")
        await until(lambda: node._running.validation.pending(stranger.peer) == 1)
        release.set()
        assert await next_data(topic, 1) == [b"next"]


@pytest.mark.filterwarnings("error")
def test_a_node_that_closes_leaves_no_validator_behind():
    @run
    async def test():
        async with gated_node(1, concurrent_validations=2, validation_s=3600) as (node, _, _, (stranger,)):
            stranger.send(*flood(50))
            await until(lambda: node._running.validation.pending(stranger.peer) == 50)

    test()
    gc.collect()


@run
async def test_validators_that_fail_or_answer_later_on_a_thread_have_ignored_the_message():
    async with gated_node(1) as (node, topic, _, (stranger,)):

        def fails(message):
            if message.data == b"bad":
                raise RuntimeError("a validator's own fault")
            return True

        async def later(message):
            return True

        node.add_validator("news", fails, threads=True)
        stranger.send(b"bad", b"good")
        assert await next_data(topic, 1) == [b"good"]
        node.add_validator("news", later, threads=True)
        stranger.send(b"never")
        await until(lambda: node.statistics.rejected == 2)
        node.remove_validator("news", later)
        stranger.send(b"good again")
        assert await next_data(topic, 1) == [b"good again"]
