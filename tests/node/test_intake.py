"""RPCs of peers are handled in turns: a flood of one peer neither delays nor loses the RPCs of an honest one."""

from __future__ import annotations

import asyncio
import threading
from contextlib import asynccontextmanager

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from waiting import run, until

from hearsay.core.language.rpc import Control, IWant, Message, Rpc, Subscription
from hearsay.libp2p.frames import frame
from hearsay.libp2p.host import Host
from hearsay.libp2p.names.keys import PublicKey
from hearsay.libp2p.names.peer_id import peer_id_of
from hearsay.libp2p.names.protobuf import bytes_field, varint_field
from hearsay.node.conduct import Offence
from hearsay.node.config import NodeConfig, NodeLimits
from hearsay.node.node import Node
from hearsay.node.receive import MESSAGES_AT_ONCE
from hearsay.node.verification import BATCH_US
from hearsay.wire.encode import encode_rpc
from hearsay.wire.signing import PREFIX, Author, SignaturePolicy, signature_check_us

MESHSUB = "/meshsub/1.1.0"
TINY = frame(b"\x1a\x00")
"""An empty control message."""


class BareHost:
    """A host that writes frames of its own to a node."""

    def __init__(self, host, stream):
        self.host = host
        self.stream = stream
        self.author = Author(host.identity, 1)

    def send(self, *messages):
        self.stream.write(frame(encode_rpc(Rpc(messages=messages))))

    def write(self, data):
        return self.author.write("news", data, SignaturePolicy.STRICT_SIGN)


@asynccontextmanager
async def node_and_bare_hosts(count, offences=None, **limits):
    """Yield a node in the topic `news` that bans no peer, the topic, and bare hosts connected to the node."""
    async with Node(NodeConfig(limits=NodeLimits(topic_queue=100_000, **limits))) as node:
        noted = [] if offences is None else offences
        node._enforcer.add_offences = lambda *offence: noted.append(offence)
        topic = await node.join("news")
        hosts = [Host() for _ in range(count)]
        bare = []
        try:
            for host in hosts:
                host.handle(MESHSUB, lambda stream: None)
                await host.dial(node.addresses[0])
                stream = await host.open_stream(node.peer, [MESHSUB])
                stream.write(frame(encode_rpc(Rpc((Subscription("news", True),)))))
                bare.append(BareHost(host, stream))
            await until(lambda: node.topic_peers("news") == count)
            yield node, topic, *bare
        finally:
            for host in hosts:
                await host.close()


class ExpensiveAuthor:
    """Writes messages whose signatures are slow to verify: secp256k1."""

    def __init__(self):
        self._secret = ec.generate_private_key(ec.SECP256K1())
        point = self._secret.public_key().public_bytes(Encoding.X962, PublicFormat.CompressedPoint)
        self.key = PublicKey.decode(varint_field(1, 2) + bytes_field(2, point))
        self.peer = peer_id_of(self.key)
        self._count = 0

    def write(self, data):
        self._count += 1
        seqno = self._count.to_bytes(8, "big")
        parts = (self.peer, data, seqno, b"news")
        signed = b"".join(bytes_field(number, part) for number, part in enumerate(parts, 1))
        signature = b""
        while self.key.is_disputed(signature):  # until s is the smaller one of two
            signature = self._secret.sign(PREFIX + signed, ec.ECDSA(SHA256()))
        return Message(b"", "news", data, self.peer, seqno, signature, self.key.encoded)

    def forge(self, data):
        """Return a message with the number of the next one, and the signature of another message."""
        other = self.write(b"other")
        self._count -= 1
        return Message(b"", "news", data, self.peer, other.seqno, other.signature, other.key)


@run
async def test_a_flood_of_tiny_rpcs_holds_up_no_other_peer():
    async with node_and_bare_hosts(2, parts_at_once=1e9) as (node, topic, flood, honest):
        before = node.statistics.rpcs_received
        flood.stream.write(TINY * 80_000)
        await until(lambda: node.statistics.rpcs_received > before + 1000)
        honest.send(honest.write(b"in between"))
        assert (await topic.next()).data == b"in between"
        assert node.statistics.rpcs_received < before + 60_000


@run
async def test_the_loop_has_its_turn_during_a_flood():
    async with node_and_bare_hosts(1, parts_at_once=1e9) as (node, _, flood):
        before = node.statistics.rpcs_received
        steps = []
        flood.stream.write(TINY * 50_000)
        while node.statistics.rpcs_received < before + 50_000:
            steps.append(node.statistics.rpcs_received)
            await asyncio.sleep(0)
        assert len(set(steps)) > 20


@run
async def test_an_rpc_full_of_forged_messages_holds_up_no_other_peer():
    async with node_and_bare_hosts(2) as (node, topic, forger, honest):
        template = forger.write(b"forged")
        forged = [
            Message(b"", "news", b"%d" % number, template.source, bytes(4) + number.to_bytes(4, "big"), bytes(64))
            for number in range(6000)
        ]
        forger.send(*forged)
        await until(lambda: node.statistics.bad_signatures)
        honest.send(honest.write(b"in between"))
        assert (await topic.next()).data == b"in between"
        assert node.statistics.bad_signatures < 6000
        await until(lambda: node.statistics.bad_signatures == 6000)


@run
async def test_forged_messages_of_expensive_keys_are_checked_elsewhere_and_hold_up_no_peer():
    offences = []
    async with node_and_bare_hosts(2, offences) as (node, topic, forger, honest):
        expensive = ExpensiveAuthor()
        for number in range(300):
            forger.send(expensive.forge(b"%d" % number))
            expensive.write(b"")
        await until(lambda: node.statistics.bad_signatures)
        honest.send(honest.write(b"in between"))
        assert (await topic.next()).data == b"in between"
        assert node.statistics.bad_signatures < 250
        await until(lambda: node.statistics.bad_signatures == 300)
        assert {(peer, offence) for peer, offence, _ in offences} == {(forger.host.peer, Offence.FORGED)}
        assert sum(count for _, _, count in offences) == 300


@run
async def test_messages_of_a_peer_stay_in_order_in_every_place_of_checks():
    async with node_and_bare_hosts(1) as (_, topic, sender):
        expensive = ExpensiveAuthor()
        messages = [(expensive if number % 3 else sender).write(b"%d" % number) for number in range(90)]
        sender.send(*messages[:40])
        for message in messages[40:]:
            sender.send(message)
        assert [(await topic.next()).data for _ in messages] == [b"%d" % number for number in range(90)]


@run
async def test_a_forged_copy_of_an_expensive_message_does_not_keep_out_the_true_one():
    async with node_and_bare_hosts(3) as (node, topic, forger, honest, other):
        expensive = ExpensiveAuthor()
        for number in range(20):
            forged = expensive.forge(b"forged")
            true = expensive.write(b"%d" % number)
            assert forged.seqno == true.seqno
            forger.send(forged)
            honest.send(true)
            other.send(true)
        assert [(await topic.next()).data for _ in range(20)] == [b"%d" % number for number in range(20)]
        await until(lambda: node.statistics.duplicates + node.statistics.bad_signatures == 40)


@run
async def test_what_a_peer_sent_before_it_left_is_handled():
    async with node_and_bare_hosts(1) as (node, topic, sender):
        expensive = ExpensiveAuthor()
        for number in range(200):
            sender.send(expensive.write(b"%d" % number))
        await sender.stream.drain()
        await sender.host.close()
        assert [(await topic.next()).data for _ in range(200)] == [b"%d" % number for number in range(200)]
        await until(lambda: not node._running.router.connected)
        assert not node._running.links.leaving


@run
async def test_of_a_peer_that_left_nothing_is_handled_after_its_first_offence():
    async with node_and_bare_hosts(1) as (node, _, sender):
        expensive = ExpensiveAuthor()
        for number in range(100):
            sender.send(expensive.forge(b"%d" % number))
            expensive.write(b"")
        await sender.stream.drain()
        sender.host.disconnect(node.peer)
        await until(lambda: not node._running.router.connected)
        assert node.statistics.bad_signatures < 100


@run
async def test_a_peer_that_comes_back_is_not_held_up_by_what_it_sent_before():
    async with node_and_bare_hosts(1) as (node, topic, sender):
        node._running.links.by_peer[sender.host.peer].intake.pause_for(60)
        sender.send(sender.write(b"lost"))
        await until(lambda: node._running.links.by_peer[sender.host.peer].intake.stream._unread)
        sender.host.disconnect(node.peer)
        await until(lambda: not node.peers)
        assert node._running.links.leaving
        await sender.host.dial(node.addresses[0])
        stream = await sender.host.open_stream(node.peer, [MESHSUB])
        stream.write(frame(encode_rpc(Rpc(messages=(sender.write(b"again"),)))))
        assert (await topic.next()).data == b"again"
        assert not node._running.links.leaving


@run
async def test_a_closed_node_has_no_threads_left():
    async with node_and_bare_hosts(1) as (node, _, sender):
        expensive = ExpensiveAuthor()
        for number in range(200):
            sender.send(expensive.write(b"%d" % number))
        await until(lambda: node.statistics.delivered)
        assert any(thread.name.startswith("hearsay-signatures") for thread in threading.enumerate())
    assert not any(thread.name.startswith("hearsay-signatures") for thread in threading.enumerate())


@run
async def test_tiny_rpcs_beyond_the_allowance_wait_and_are_counted():
    offences = []
    async with node_and_bare_hosts(1, offences, parts_per_s=2000, parts_at_once=3000) as (node, _, flood):
        intake = node._running.links.by_peer[flood.host.peer].intake
        intake.input._reported_s = 0
        before = node.statistics.rpcs_received
        flood.stream.write(TINY * 20_000)
        await until(lambda: offences)
        assert offences == [(flood.host.peer, Offence.OVER_LIMIT, 1)]
        assert node.statistics.rpcs_received - before < 10_000
        await until(lambda: intake.stream._paused)


@run
async def test_new_messages_cost_nothing_of_the_allowance():
    async with node_and_bare_hosts(1, parts_per_s=1e-9, parts_at_once=100) as (node, topic, sender):
        left = node._running.links.by_peer[sender.host.peer].intake.input.allowance.left
        for number in range(500):
            sender.send(sender.write(b"%d" % number))
        assert [(await topic.next()).data for _ in range(500)] == [b"%d" % number for number in range(500)]
        assert node._running.links.by_peer[sender.host.peer].intake.input.allowance.left == left
        sender.stream.write(frame(encode_rpc(Rpc(control=Control(iwant=(IWant((b"x",) * 16),))))))
        await until(lambda: node._running.links.by_peer[sender.host.peer].intake.input.allowance.left == left - 4)


@run
async def test_what_waits_for_threads_is_bounded_in_bytes_and_still_handled():
    limits = {"unverified_bytes": 60_000, "unverified_bytes_per_peer": 40_000}
    async with node_and_bare_hosts(2, **limits) as (node, topic, one, two):
        first, second = ExpensiveAuthor(), ExpensiveAuthor()
        budget = node._running.receiver.waiting_bytes
        for number in range(100):
            one.send(first.write(b"%d" % number + bytes(1000)))
            two.send(second.write(b"%d" % number + bytes(1000)))
        got = []
        while len(got) < 200:
            got.append(await topic.next())
            assert budget.used <= 60_000
        for author in (first, second):
            assert [int(each.data.rstrip(b"\0")) for each in got if each.author == author.peer] == list(range(100))
        assert budget.used == 0


@run
async def test_what_a_peer_has_checked_at_a_time_is_bounded():
    batches = []
    async with node_and_bare_hosts(1) as (node, topic, sender):
        verification = node._running.links.verification
        ask = verification.ask
        verification.ask = lambda batch: (batches.append(sum(map(signature_check_us, batch.messages))), ask(batch))
        expensive = ExpensiveAuthor()
        sender.send(*(expensive.write(b"%d" % number) for number in range(100)))
        for _ in range(100):
            await topic.next()
    assert len(batches) >= 10
    assert max(batches) <= max(BATCH_US, MESSAGES_AT_ONCE * signature_check_us(expensive.write(b"99")))


async def most_bytes_waiting_of_one(**limits):
    """Return the most bytes reserved for a peer while its hundred messages with expensive signatures arrive."""
    async with node_and_bare_hosts(1, **limits) as (node, topic, one):
        expensive = ExpensiveAuthor()
        for number in range(100):
            one.send(expensive.write(b"%d" % number + bytes(1000)))
        used = []
        for _ in range(100):
            await topic.next()
            used.append(node._running.receiver.waiting_bytes.used)
        return max(used)


@run
async def test_what_of_a_peer_waits_for_threads_is_bounded_in_bytes():
    assert 0 < await most_bytes_waiting_of_one(unverified_bytes_per_peer=10_000) <= 10_000


@run
async def test_what_of_a_peer_waits_for_threads_leaves_as_much_room_to_others():
    assert 0 < await most_bytes_waiting_of_one(unverified_bytes=60_000, unverified_bytes_per_peer=60_000) <= 30_000


@run
async def test_two_large_rpcs_that_wait_leave_room_to_others():
    """Each takes a third of the room, so the second one waits for the first."""
    limits = {"unverified_bytes": 40_000, "unverified_bytes_per_peer": 40_000}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("hearsay.node.receive.LARGE_BYTES", 2_000)
        assert 10_000 < await most_bytes_waiting_of_two(**limits) < 20_000


async def most_bytes_waiting_of_two(**limits):
    async with node_and_bare_hosts(2, **limits) as (node, topic, one, two):
        for sender in (one, two):
            expensive = ExpensiveAuthor()
            sender.send(*(expensive.write(b"%d" % number) for number in range(20)))
        used = []
        for _ in range(40):
            await topic.next()
            used.append(node._running.receiver.waiting_bytes.used)
        return max(used)


@run
async def test_a_peer_without_room_waits_and_no_other_peer_does():
    async with node_and_bare_hosts(2) as (node, topic, expensive_one, honest):
        budget = node._running.receiver.waiting_bytes
        budget.reserve(budget.limit)
        expensive_one.send(ExpensiveAuthor().write(b"later"))
        intake = node._running.links.by_peer[expensive_one.host.peer].intake
        await until(
            lambda: (
                intake.input._postponed_frame is not None or intake._batch is not None or node.statistics.delivered
            )
        )
        assert intake.input._postponed_frame is not None, "it waits before its signature is checked"
        honest.send(honest.write(b"now"))
        assert (await topic.next()).data == b"now"
        budget.release(budget.used)
        assert (await topic.next()).data == b"later"


@run
async def test_a_topic_joined_while_its_messages_wait_takes_no_forged_one():
    async with node_and_bare_hosts(1) as (node, _, sender):
        expensive = ExpensiveAuthor()
        for number in range(40):
            sender.send(expensive.write(b"%d" % number))
        forged = expensive.forge(b"forged")
        sender.send(Message(b"", "later", b"forged", forged.source, forged.seqno, forged.signature, forged.key))
        intake = node._running.links.by_peer[sender.host.peer].intake
        await until(lambda: intake._batch is not None or node.statistics.delivered == 40)
        later = await node.join("later")
        await until(lambda: node.statistics.bad_signatures == 1 or node.statistics.rejected)
        assert not later.unread
        await until(lambda: intake.input.empty)
