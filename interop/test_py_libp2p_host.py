"""Hearsay's node on py-libp2p's host (the extra `libp2p`): transports, DHT and rendezvous.

Nodes run as processes in the environment of the Python peer, where py-libp2p is installed.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from contextlib import AsyncExitStack, suppress
from dataclasses import replace

import pytest
from foreign_peers import Missing, PeerProcess, command_of

from hearsay.core.language.rpc import Rpc, Subscription
from hearsay.libp2p.frames import frame
from hearsay.libp2p.host import Host
from hearsay.libp2p.names.errors import DialError
from hearsay.libp2p.names.keys import PrivateKey
from hearsay.libp2p.names.peer_id import peer_id_of, to_text
from hearsay.node.config import NodeConfig
from hearsay.node.node import Node
from hearsay.wire.encode import encode_rpc
from hearsay.wire.signing import Author, SignaturePolicy

MEBIBYTE = 1 << 20
MESHSUB = "/meshsub/1.1.0"
QUIC = "/ip4/127.0.0.1/udp/0/quic-v1"
TRANSPORTS = {"tcp": "/ip4/127.0.0.1/tcp/0", "websocket": "/ip4/127.0.0.1/tcp/0/ws", "quic": QUIC}


@pytest.fixture(autouse=True, scope="module")
def _built():
    try:
        command_of("ours-on-py")
    except Missing as missing:
        pytest.skip(f"NOT TESTED: {missing}")


def run(work):
    async def bounded():
        async with asyncio.timeout(60), AsyncExitStack() as stack:
            await work(stack)

    asyncio.run(bounded())


async def start_peer(stack, *flags, kind="ours-on-py"):
    return await stack.enter_async_context(PeerProcess(kind, "--topics", "news", *flags))


async def exchange_messages(one, two):
    """Wait until both peers know each other's subscription, then send a message in each direction."""
    await one.until(lambda: one.topics.get("news") == 1)
    await two.until(lambda: two.topics.get("news") == 1)
    for sender, receiver in ((one, two), (two, one)):
        await sender.until(lambda sender=sender: sender.mesh.get("news") == 1)
        sender.send_command("say news žluťoučký kůň 🐎")
        await receiver.until(lambda receiver=receiver: len(receiver.messages) == 1)
        assert receiver.messages[0]["sha256"] == hashlib.sha256("žluťoučký kůň 🐎".encode()).hexdigest()


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_two_nodes_talk_over(transport):
    async def work(stack):
        one = await start_peer(stack, "--listen", TRANSPORTS[transport])
        assert TRANSPORTS[transport].rpartition("/0")[0] in one.address
        two = await start_peer(stack, "--listen", TRANSPORTS[transport], "--connect", one.address)
        await exchange_messages(one, two)

    run(work)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_large_messages_and_many_small_ones_over(transport):
    async def work(stack):
        one = await start_peer(stack, "--listen", TRANSPORTS[transport])
        two = await start_peer(stack, "--listen", TRANSPORTS[transport], "--connect", one.address)
        await one.until(lambda: one.mesh.get("news") == 1)
        await two.until(lambda: two.mesh.get("news") == 1)
        for sender, receiver in ((one, two), (two, one)):
            sender.send_command(f"publish news {MEBIBYTE} 3")
            sender.send_command("publish news 100 200")
            await receiver.until(lambda receiver=receiver: len(receiver.messages) == 203)
            assert Counter(message["size"] for message in receiver.messages) == {MEBIBYTE: 3, 100: 200}
            assert len({message["sha256"] for message in receiver.messages}) == 203

    run(work)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_peer_with_another_id_than_expected_is_refused_over(transport):
    async def work(stack):
        one = await start_peer(stack, "--listen", TRANSPORTS[transport])
        two = await start_peer(stack, "--listen", TRANSPORTS[transport])
        unknown_peer = to_text(peer_id_of(PrivateKey.generate().public))
        two.send_command(f"connect {one.address.rpartition('/')[0]}/{unknown_peer}")
        await two.until(lambda: len(two.refusals) == 1)
        assert unknown_peer in two.refusals[0]
        two.send_command(f"connect {one.address}")
        await exchange_messages(one, two)

    run(work)


@pytest.mark.parametrize("we_dial", [True, False], ids=["own_dials", "py_dials"])
def test_both_hosts_talk_to_each_other(we_dial):
    """A node on our own host and a node on py-libp2p's host exchange messages over TCP, and note a left topic."""

    async def work(stack):
        async with Node(NodeConfig()) as node:
            topic = await node.join("news")
            peer = await start_peer(stack, *(() if we_dial else ("--connect", node.addresses[0])))
            if we_dial:
                await node.connect(peer.address)
            await peer.until(lambda: peer.mesh.get("news") == 1)
            while not node.mesh("news"):
                await asyncio.sleep(0.01)
            await topic.publish(b"x" * 900_000)
            await peer.until(lambda: len(peer.messages) == 1)
            peer.send_command("say news back")
            while (message := await topic.next()).received_from is None:
                pass
            assert message.data == b"back"
            await node.leave("news")
            await peer.until(lambda: peer.topics.get("news") == 0)

    run(work)


def test_two_nodes_find_each_other_in_the_dht_through_a_third_that_runs_nothing_else():
    async def work(stack):
        third = await stack.enter_async_context(PeerProcess("py-point", "--as-a", "dht"))
        flags = ("--dht", "--bootstrap", third.address)
        one, two = await start_peer(stack, *flags), await start_peer(stack, *flags)
        await exchange_messages(one, two)

    run(work)


def test_nodes_that_know_only_one_common_node_find_each_other_in_the_dht():
    """Three nodes run over QUIC. The second and the third know only the first, and find each other in the DHT."""

    async def work(stack):
        first = await start_peer(stack, "--dht", "--listen", QUIC)
        flags = ("--dht", "--listen", QUIC, "--bootstrap", first.address)
        others = [await start_peer(stack, *flags) for _ in range(2)]
        for node in (first, *others):
            await node.until(lambda node=node: node.topics.get("news") == 2)

    run(work)


@pytest.mark.parametrize("host", ["ours-on-py", "ours"])
def test_two_nodes_find_each_other_at_py_libp2p_s_rendezvous_point(host):
    """py-libp2p's rendezvous point accepts only the older, unsigned form of the protocol; both hosts send it."""

    async def work(stack):
        point = await stack.enter_async_context(PeerProcess("py-point", "--as-a", "rendezvous"))
        flags = ("--rendezvous", point.address)
        one, two = await start_peer(stack, *flags, kind=host), await start_peer(stack, *flags, kind=host)
        await exchange_messages(one, two)

    run(work)


def test_two_nodes_on_py_libp2p_find_each_other_at_our_rendezvous_point():
    async def work(stack):
        async with Node(NodeConfig(rendezvous_point=True)) as point:
            flags = ("--rendezvous", point.addresses[0])
            one, two = await start_peer(stack, *flags), await start_peer(stack, *flags)
            await exchange_messages(one, two)
            assert point.topic_peers("news") == 2

    run(work)


def test_a_peer_that_sends_forged_messages_is_kept_out_and_its_new_connection_ends():
    async def connect_subscriber(stack, node):
        host = Host()
        stack.push_async_callback(host.close)
        host.handle(MESHSUB, lambda stream: None)
        stream = await host.open_stream(await host.dial(node.address), [MESHSUB])
        stream.write(frame(encode_rpc(Rpc((Subscription("news", True),)))))
        await node.until(lambda: node.topics.get("news") == 1)
        return host, stream

    async def wait_for_disconnection(host):
        while host.connections:
            await asyncio.sleep(0.02)

    async def work(stack):
        node = await start_peer(stack)
        attacker, stream = await connect_subscriber(stack, node)
        signed = Author(attacker.identity, 1).write("news", b"x", SignaturePolicy.STRICT_SIGN)
        for number in range(20):
            stream.write(frame(encode_rpc(Rpc(messages=(replace(signed, data=b"%d" % number),)))))
        await wait_for_disconnection(attacker)
        with suppress(DialError):
            await attacker.dial(node.address)
        await wait_for_disconnection(attacker)
        await node.until(lambda: node.topics.get("news", 0) == 0)
        await connect_subscriber(stack, node)

    run(work)
