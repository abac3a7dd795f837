"""Peers that speak libp2p well and pubsub badly: a bare host writes bytes of its own to a node's stream."""

from __future__ import annotations

import tracemalloc
from contextlib import asynccontextmanager
from dataclasses import replace
from random import Random

from waiting import run, until

from hearsay.core.language.rpc import (
    FLOODSUB,
    Control,
    Extension,
    Graft,
    IHave,
    IWant,
    Message,
    PeerInfo,
    Prune,
    Rpc,
    Subscription,
)
from hearsay.libp2p.frames import frame
from hearsay.libp2p.host import Host
from hearsay.libp2p.names.keys import PrivateKey
from hearsay.libp2p.names.multiaddr import Multiaddr
from hearsay.libp2p.names.peer_id import peer_id_of
from hearsay.libp2p.names.protobuf import encode
from hearsay.libp2p.rendezvous import PeerRecord, seal_record
from hearsay.node.conduct import ConductLimits
from hearsay.node.config import NodeConfig, NodeLimits
from hearsay.node.meeting.address_book import RECORD_FIELD
from hearsay.node.node import Node
from hearsay.wire.encode import encode_rpc
from hearsay.wire.signing import Author, SignaturePolicy

MESHSUB = "/meshsub/1.1.0"
PATIENT = NodeLimits(conduct=ConductLimits(slow_at=1e9, out_at=1e9))


@asynccontextmanager
async def attacked(**config):
    """Yield a node in the topic `news`, a bare host connected to the node, and a stream of this host to the node."""
    async with Node(NodeConfig(**config)) as node:
        await node.join("news")
        host = Host()
        for protocol in (MESHSUB, FLOODSUB):
            host.handle(protocol, lambda stream: None)
        try:
            await host.dial(node.addresses[0])
            stream = await host.open_stream(node.peer, [MESHSUB, FLOODSUB])
            await until(lambda: node.peers == (host.peer,))
            yield node, host, stream
        finally:
            await host.close()


def subscribes(first, count):
    return encode_rpc(Rpc(tuple(Subscription(f"topic {number}", True) for number in range(first, first + count))))


@run
async def test_a_four_megabyte_frame_of_subscribes_is_refused_before_its_bytes_come():
    async with attacked() as (node, _, stream):
        stream.write(encode(4 << 20))
        await until(lambda: stream.was_reset)
        assert node.statistics.malformed_rpcs == 1


@run
async def test_a_frame_of_too_many_subscribes_builds_nothing():
    async with attacked() as (node, _, stream):
        data = encode_rpc(Rpc((Subscription("x", True),))) * 100_000
        tracemalloc.start()
        stream.write(frame(data))
        await until(lambda: stream.was_reset)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert node.statistics.malformed_rpcs == 1
        assert peak < 12 * len(data), "heap bytes per byte received"


@run
async def test_a_flood_of_subscriptions_is_bounded_per_peer():
    limits = NodeLimits(subscription_bytes_per_peer=1 << 24, subscription_bytes=1 << 24)
    async with attacked(limits=limits) as (node, host, stream):
        for first in range(0, 60_000, 10_000):
            stream.write(frame(subscribes(first, 10_000)))
        await until(lambda: node.statistics.parts_dropped == 40_000)
        assert node.peers == (host.peer,)
        assert len(node._running.router.connected[host.peer].topics) == 20_000


@run
async def test_names_of_a_mebibyte_are_not_remembered():
    async with attacked() as (node, host, stream):
        for number in range(4):
            name = f"{number}" + "x" * 1_000_000
            for said in Rpc((Subscription(name, True),)), Rpc(control=Control(graft=(Graft(name),))):
                stream.write(frame(encode_rpc(said)))
        await until(lambda: node.statistics.left_out_parts == 8)
        assert node._running.router.connected[host.peer].topics == set()


@run
async def test_the_names_of_a_peer_are_bounded_in_bytes():
    async with attacked() as (node, host, stream):
        for first in range(0, 3_000, 500):
            names = [f"{number:04}" + "x" * 1_020 for number in range(first, first + 500)]
            stream.write(frame(encode_rpc(Rpc(tuple(Subscription(name, True) for name in names)))))
        await until(lambda: node.statistics.rpcs_received == 6)
        peer = node._running.router.connected[host.peer]
        assert 0 < peer.topic_bytes <= 1 << 20
        assert node.statistics.parts_dropped == 3_000 - len(peer.topics)


@run
async def test_a_short_request_for_much_fills_no_more_than_the_queue():
    limits = NodeLimits(peer_queue_bytes=1 << 20)
    async with attacked(limits=limits) as (node, host, stream):
        ids = tuple([(await node.publish("news", bytes([number]) * 200_000)).message_id for number in range(40)])
        tracemalloc.start()
        stream.write(frame(encode_rpc(Rpc(control=Control(iwant=(IWant(ids),))))))
        await until(lambda: node.statistics.messages_dropped >= 20)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert node._running.links.by_peer[host.peer].queue.bytes <= 1 << 20
        assert peak < 5 << 20


@run
async def test_messages_that_are_kept_are_bounded_in_bytes():
    async with attacked(limits=NodeLimits(message_cache_bytes=1 << 20)) as (node, _, _):
        for number in range(20):
            await node.publish("news", bytes([number]) * 100_000)
        kept = list(node._running.router.strategy.held_messages())
        assert 5 <= len(kept) <= 10
        assert kept[-1].data[0] == 19


@run
async def test_a_length_that_is_declared_and_never_sent_holds_nothing_up():
    async with attacked() as (node, _, stream):
        stream.write(encode(1 << 20) + b"x")
        async with Node(NodeConfig(bootstrap=node.addresses)) as friend:
            topic = await friend.join("news")
            await node.publish("news", b"still here", wait_for_peers=True)
            await until(lambda: friend.topic_peers("news") == 1)
            await node.publish("news", b"and here")
            assert (await topic.next()).data in (b"still here", b"and here")


@run
async def test_stale_rpcs_of_a_peer_that_is_gone_are_dropped():
    async with attacked() as (node, host, stream):
        stream.write(frame(subscribes(0, 1)))
        await until(lambda: node.topic_peers("topic 0") == 1)
        inbound = node._running.links.by_peer[host.peer].intake.stream
        on_data = inbound._on_data
        assert on_data is not None
        host.disconnect(node.peer)
        await until(lambda: node.peers == ())
        on_data(frame(encode_rpc(Rpc((Subscription("news", True),), control=Control(graft=(Graft("news"),))))))
        assert node.topic_peers("news") == node.topic_peers("topic 0") == 0
        assert node.mesh("news") == ()


@run
async def test_signed_addresses_are_looked_at_only_if_they_were_asked_for():
    """Records in a PRUNE of a topic that was not joined, and in an RPC of a peer that does not speak episub, are not
    read. A record of another peer than the PRUNE names is dropped.
    """
    keys = [PrivateKey.generate() for _ in range(4)]
    peers = [peer_id_of(key.public) for key in keys]
    address = Multiaddr.parse("/ip4/127.0.0.1/tcp/1")
    records = [seal_record(key, PeerRecord(peer, 1, (address,))) for key, peer in zip(keys, peers, strict=True)]
    carried = encode_rpc(Rpc(control=Control(extensions=(Extension(RECORD_FIELD, records[0]),))))
    exchanged = [
        encode_rpc(Rpc(control=Control(prune=(Prune(topic, 60, (PeerInfo(peer, record),)),))))
        for topic, peer, record in (
            ("other", peers[1], records[1]),
            ("news", peers[2], records[2]),
            ("news", peers[2], records[3]),
        )
    ]
    for config, wanted in (
        ({}, ()),
        ({"parameters": {"exchange_peers": 16}}, ()),
        ({"parameters": {"accept_exchange": True, "exchange_peers": 16}}, peers[2:3]),
        ({"router": "episub"}, ()),
    ):
        async with attacked(**config) as (node, _, stream):
            received = node.statistics.rpcs_received
            for data in (carried, *exchanged):
                stream.write(frame(data))
            await until(lambda node=node, before=received: node.statistics.rpcs_received == before + 4)
            assert set(node._discovery.known) == set(wanted)


@run
async def test_a_forged_copy_does_not_keep_out_the_true_message():
    """Both have the same author and number, so the same id. The forged copy comes first, and is not delivered."""
    author = Author(PrivateKey.generate(), 1)
    true = author.write("news", b"true", SignaturePolicy.STRICT_SIGN)
    forged = (replace(true, data=b"forged"), replace(true, signature=bytes(64)), replace(true, topic="others"))
    async with attacked() as (node, _, stream):
        topic = node._topics._topics["news"]
        await node.join("others")
        for copy in forged:
            stream.write(frame(encode_rpc(Rpc(messages=(copy,)))))
        await until(lambda: node.statistics.bad_signatures == len(forged))
        stream.write(frame(encode_rpc(Rpc(messages=(true,)))))
        assert (await topic.next()).data == b"true"
        assert node.statistics.delivered == 1


@run
async def test_mutated_rpcs_never_end_the_node():
    """Random damage to valid RPCs; a stream that is reset is opened again. Then everything still works."""
    random = Random(7)
    peer = b"\x00\x24" + bytes(36)
    control = Control((IHave("news", (b"a", b"b")),), (IWant((b"a",)),), (Graft("news"),), (Prune("news", 60),))
    whole = encode_rpc(
        Rpc((Subscription("news", True),), (Message(b"", "news", b"data", peer, bytes(8), bytes(64)),), control)
    )
    async with attacked(limits=PATIENT) as (node, host, stream):
        for _ in range(500):
            data = bytearray(whole)
            for _ in range(random.randrange(1, 6)):
                place = random.randrange(len(data))
                match random.randrange(3):
                    case 0:
                        data[place] = random.randrange(256)
                    case 1:
                        del data[place]
                    case _:
                        data.insert(place, random.randrange(256))
            received = node.statistics.rpcs_received
            stream.write(frame(bytes(data)))
            await until(lambda before=received: node.statistics.rpcs_received > before)
            if node.statistics.malformed_rpcs:
                await until(lambda broken=stream: broken.was_reset)
                node.statistics.malformed_rpcs = 0
                stream = await host.open_stream(node.peer, [MESHSUB])
        assert node.statistics.bad_signatures + node.statistics.parts_dropped > 0
        async with Node(NodeConfig(bootstrap=node.addresses)) as friend:
            topic = await friend.join("news")
            await until(lambda: node.topic_peers("news") >= 1 and friend.topic_peers("news") == 1)
            await until(lambda: node.peer in friend.mesh("news"))
            await node.publish("news", b"still here")
            assert (await topic.next()).data == b"still here"
