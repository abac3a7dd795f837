"""State of a stream, a connection or a peer ends with its owner. Streams are replaced, peers reconnect, and two
connections of one peer come at once.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace

from attacker import Attacker
from waiting import run, until

from hearsay.core.language.actions import Reason
from hearsay.core.language.rpc import MESHSUB_13, Control, Features, Graft, Message, Rpc, Subscription
from hearsay.libp2p.frames import FrameReader, frame
from hearsay.libp2p.host import Host
from hearsay.libp2p.mux.connection_limits import ConnectionLimits
from hearsay.libp2p.mux.multistream import line
from hearsay.libp2p.node_host import HostLimits
from hearsay.node.config import NodeConfig, NodeLimits
from hearsay.node.node import Node
from hearsay.wire.decode import decode_rpc
from hearsay.wire.encode import encode_rpc
from hearsay.wire.fields import RpcLimits
from hearsay.wire.messages import by_content
from hearsay.wire.signing import SignaturePolicy

SCORE = {
    "validation": "selective",
    "misbehaviour_weight": -10,
    "misbehaviour_decay": 0.9,
    "decay_interval_ms": 1000,
    "decay_to_zero": 0.01,
    "retain_ms": 60_000,
    "thresholds": {"gossip": -50, "publish": -100, "graylist": -200},
}
HELLO = Rpc((Subscription("news", True),), control=Control(features=(Features(True, True),)))
WITHOUT_FEATURES = Rpc(control=Control(graft=(Graft("news"),)))


def make_config(**parameters):
    return NodeConfig(
        signatures=SignaturePolicy.STRICT_NO_SIGN,
        message_id=by_content,
        parameters={"test_extension": True, "partial_messages": True, "score": SCORE, **parameters},
    )


class Peer:
    """A bare host that opens streams to a node and accepts the streams of the node."""

    def __init__(self, node, host):
        self.node = node
        self.host = host
        self.accepted = []
        host.handle(MESHSUB_13, self.accepted.append, 8)

    async def open(self, *rpcs):
        stream = await self.host.open_stream(self.node.peer, [MESHSUB_13])
        for rpc in rpcs:
            stream.write(frame(encode_rpc(rpc)))
        return stream


@asynccontextmanager
async def node_and_peer(**parameters):
    async with Node(make_config(**parameters)) as node:
        await node.join("news")
        host = Host()
        peer = Peer(node, host)
        try:
            await host.dial(node.addresses[0])
            yield node, peer
        finally:
            await host.close()


def count_late_extensions(node):
    return node.statistics.dropped_because[Reason.NOT_FIRST]


def features_of(node, peer):
    return node._running.router.strategy.features.features_of(peer.host.peer)


@run
async def test_extensions_may_be_sent_again_on_a_new_stream():
    async with node_and_peer() as (node, peer):
        received = node.statistics
        for number in range(1, 4):
            await peer.open(HELLO, WITHOUT_FEATURES)
            await until(lambda number=number: received.rpcs_received == 2 * number)
        assert count_late_extensions(node) == 0
        assert features_of(node, peer) == Features(True, True)
        assert node._running.router.strategy.standing.score(peer.host.peer) >= 0


@run
async def test_extensions_in_a_later_rpc_of_a_stream_are_late():
    async with node_and_peer() as (node, peer):
        await peer.open(WITHOUT_FEATURES, HELLO)
        await until(lambda: node.statistics.rpcs_received == 2)
        assert count_late_extensions(node) == 1
        assert features_of(node, peer) == Features()


@run
async def test_extensions_end_with_their_stream():
    async with node_and_peer() as (node, peer):
        await peer.open(HELLO)
        await until(lambda: features_of(node, peer) == Features(True, True))
        await peer.open(WITHOUT_FEATURES)
        await until(lambda: features_of(node, peer) == Features())
        assert count_late_extensions(node) == 0


@run
async def test_extensions_in_a_long_first_rpc_are_in_time():
    async with node_and_peer() as (node, peer):
        messages = tuple(Message(b"", "news", b"%d" % number) for number in range(50))
        await peer.open(replace(HELLO, messages=messages))
        await until(lambda: node.statistics.delivered == 50)
        assert count_late_extensions(node) == 0
        assert features_of(node, peer) == Features(True, True)


@run
async def test_subscriptions_outlast_a_stream():
    async with node_and_peer() as (node, peer):
        await peer.open(HELLO)
        await until(lambda: node.topic_peers("news") == 1)
        await peer.open(WITHOUT_FEATURES)
        await until(lambda: node.statistics.rpcs_received == 2)
        assert node.topic_peers("news") == 1


@run
async def test_what_an_older_stream_brought_is_handled_before_a_newer_one():
    async with node_and_peer() as (node, peer):
        await until(lambda: node.peers)
        intake = node._running.links.by_peer[peer.host.peer].intake
        intake.input.paused = True
        intake.schedule()
        await peer.open(HELLO, *(Rpc(messages=(Message(b"", "news", b"%d" % number),)) for number in range(20)))
        await until(lambda: intake.stream is not None and intake.stream._unread)
        await peer.open(HELLO)
        await until(lambda: intake._following is not None)
        intake.input.paused = False
        intake.schedule()
        await until(lambda: node.statistics.rpcs_received == 22)
        assert node.statistics.delivered == 20
        assert count_late_extensions(node) == 0


@run
async def test_our_stream_is_replaced_and_the_peer_stays_known():
    async with node_and_peer() as (node, peer):
        await peer.open(HELLO)
        await until(lambda: node.topic_peers("news") == 1 and len(peer.accepted) == 1)
        peer.accepted[0].reset()
        await until(lambda: len(peer.accepted) == 2 and node.peers)
        assert node.topic_peers("news") == 1
        assert features_of(node, peer) == Features(True, True)


@run
async def test_our_stream_to_a_peer_that_does_not_answer_in_time_is_opened_again():
    limits = NodeLimits(host=HostLimits(connection=ConnectionLimits(negotiation_s=0.05)))
    async with Node(replace(make_config(), limits=limits)) as node:
        silent = await (await Attacker.connect(node._host)).upgrade()
        received = b""
        while received.count(line(MESHSUB_13)) < 2:
            received += silent.channel.open(await silent.reader.read(65536))


@run
async def test_our_hello_is_first_on_a_stream_that_replaces_a_full_one():
    async with node_and_peer() as (node, peer):
        await peer.open(HELLO)
        await until(lambda: node.topic_peers("news") == 1 and len(peer.accepted) == 1)
        queue = node._running.links.by_peer[peer.host.peer].queue
        number = 0
        while not len(queue):
            number += 1
            await node.publish("news", b"%d" % number + bytes(100_000))
            await asyncio.sleep(0)
        await node.join("another")
        peer.accepted[0].reset()
        await until(lambda: len(peer.accepted) == 2)
        frames = FrameReader(1 << 20)
        received = []
        while not received:
            received += frames.receive(await peer.accepted[1].read())
        first = decode_rpc(received[0], by_content, RpcLimits()).rpc
        assert first.control.features == (Features(True, True),)
        assert {change.topic for change in first.subscriptions} == {"another", "news"}


@run
async def test_subscriptions_and_grafts_are_sent_again_to_a_peer_that_replaced_its_stream():
    """A peer whose stream to the node ended removes the node from its mesh; go also forgets the node's topics."""
    async with node_and_peer() as (node, peer):
        await peer.open(replace(HELLO, control=replace(HELLO.control, graft=(Graft("news"),))))
        await until(lambda: len(peer.accepted) == 1 and peer.host.peer in node.mesh("news"))
        await peer.open(HELLO)
        frames, grafts = FrameReader(1 << 20), []
        while not grafts:
            for data in frames.receive(await peer.accepted[0].read()):
                rpc = decode_rpc(data, by_content, RpcLimits()).rpc
                if rpc.control and rpc.control.graft:
                    grafts.append(rpc)
        (again,) = grafts
        assert again.control == Control(graft=(Graft("news"),))
        assert [(change.topic, change.subscribe) for change in again.subscriptions] == [("news", True)]


@run
async def test_queues_of_peers_of_an_ipv6_network_share_their_room():
    """Also where the router keeps scores by the whole address."""
    async with Node(replace(make_config(), listen=("/ip6/::1/tcp/0",))) as node:
        host = Host()
        Peer(node, host)
        try:
            await host.dial(node.addresses[0])
            await until(lambda: node.peers)
            assert node._running.links.by_peer[host.peer].queue.address == "::/64"
        finally:
            await host.close()


@run
async def test_a_peer_that_connects_again_has_no_former_state():
    async with node_and_peer() as (node, peer):
        await peer.open(HELLO)
        await until(lambda: node.topic_peers("news") == 1)
        peer.host.disconnect(node.peer)
        await until(lambda: not node.peers)
        assert not node._running.router.strategy.remembers(peer.host.peer)
        await peer.host.dial(node.addresses[0])
        await until(lambda: node.peers)
        assert node.topic_peers("news") == 0
        assert features_of(node, peer) is None
        await peer.open(HELLO)
        await until(lambda: features_of(node, peer) == Features(True, True))
        assert count_late_extensions(node) == 0


@run
async def test_two_nodes_that_dial_each_other_at_once_keep_one_connection_and_its_state():
    async with Node(make_config()) as one, Node(make_config()) as other:
        here, there = await one.join("news"), await other.join("news")
        await asyncio.gather(one.connect(other.addresses[0]), other.connect(one.addresses[0]), return_exceptions=True)
        await until(lambda: one.mesh("news") and other.mesh("news"))
        await here.publish(b"from one")
        await there.publish(b"from the other")
        assert {(await here.next()).data for _ in range(2)} == {b"from one", b"from the other"}
        assert {(await there.next()).data for _ in range(2)} == {b"from one", b"from the other"}
        for node, remote in ((one, other), (other, one)):
            assert count_late_extensions(node) == 0
            assert node._running.router.strategy.features.features_of(remote.peer) == Features(True, True)
            assert node._running.router.strategy.standing.score(remote.peer) >= 0
