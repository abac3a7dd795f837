"""Hearsay's node with go-libp2p-pubsub, rust-libp2p, js-libp2p and py-libp2p, each in its own process.

`make interop` runs the tests. They wait for events of a peer or for states of Hearsay's node, never for a fixed time.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import replace
from itertools import pairwise

import pytest
from foreign_peers import FOREIGN, HERE, Missing, PeerProcess, command_of

from hearsay.core.language.rpc import PartKind
from hearsay.node.config import NodeConfig, NodeLimits
from hearsay.node.node import Node
from hearsay.trace.language.schema import TraceEvent
from hearsay.trace.reader import iter_rows
from hearsay.wire.fields import RpcLimits
from hearsay.wire.messages import by_author, by_data
from hearsay.wire.signing import SignaturePolicy

LIMITS = NodeLimits(rpc=RpcLimits(max_rpc_bytes=4 << 20), peer_queue_bytes=64 << 20)
TOPICS = ("news", "новости-日本-🗞")
MEBIBYTE = 1 << 20


@pytest.fixture(params=FOREIGN)
def language(request):
    return build_or_skip(request.param)


@pytest.fixture(params=["go", "py"])
def floodsub_language(request):
    return build_or_skip(request.param)


def build_or_skip(language):
    try:
        command_of(language)
    except Missing as missing:
        pytest.skip(f"NOT TESTED: {missing}")
    return language


def config(language="", *, signed=True, router="gossipsub", **parameters):
    """Return a configuration that accepts the messages of a language's peer.

    Unsigned messages of py-libp2p have an author, which StrictNoSign refuses.
    """
    unsigned = SignaturePolicy.LAX_NO_SIGN if language == "py" else SignaturePolicy.STRICT_NO_SIGN
    return NodeConfig(
        router=router,
        parameters=parameters,
        signatures=SignaturePolicy.STRICT_SIGN if signed else unsigned,
        message_id=by_author if signed else by_data,
        limits=LIMITS,
    )


def run(work, seconds=60):
    async def bounded():
        async with asyncio.timeout(seconds):
            await work

    asyncio.run(bounded())


async def wait_until(condition):
    while not condition():
        await asyncio.sleep(0.01)


def message_digests(messages):
    return Counter(message["sha256"] for message in messages)


def payload_digests(payloads):
    return Counter(hashlib.sha256(data).hexdigest() for data in payloads)


async def connect_peer(stack, language, node, *flags, we_dial=True, topics=TOPICS):
    """Connect a node to a new foreign peer, wait for subscriptions, and return the node's topics and the peer."""
    joined = [await node.join(topic) for topic in topics]
    dial = () if we_dial else ("--connect", node.addresses[0])
    peer = await stack.enter_async_context(PeerProcess(language, "--topics", ",".join(topics), *dial, *flags))
    if we_dial:
        await node.connect(peer.address)
    await peer.until(lambda: all(peer.topics.get(topic) == 1 for topic in topics))
    await wait_until(lambda: all(node.topic_peers(topic) == 1 for topic in topics))
    return joined, peer


async def wait_for_mesh(node, peer, topics=TOPICS):
    await wait_until(lambda: all(len(node.mesh(topic)) == 1 for topic in topics))
    await peer.until(lambda: all(peer.mesh.get(topic) == 1 for topic in topics))


@pytest.mark.parametrize("signed", [True, False], ids=["signed", "unsigned"])
@pytest.mark.parametrize("we_dial", [True, False], ids=["we_dial", "they_dial"])
def test_small_and_large_messages_in_both_directions(language, we_dial, signed):
    async def work():
        async with AsyncExitStack() as stack:
            node = await stack.enter_async_context(Node(config(language, signed=signed)))
            flags = () if signed else ("--unsigned",)
            topics, peer = await connect_peer(stack, language, node, *flags, we_dial=we_dial)
            await wait_for_mesh(node, peer)
            payloads = [f"{topic.name} ".encode().ljust(size, b"x") for topic in topics for size in (100, MEBIBYTE)]
            for topic in topics:
                for size in (100, MEBIBYTE):
                    done = await topic.publish(f"{topic.name} ".encode().ljust(size, b"x"))
                    assert (done.sent, done.dropped) == (1, 0)
            await peer.until(lambda: len(peer.messages) >= len(payloads))
            assert message_digests(peer.messages) == payload_digests(payloads)
            assert {message["topic"] for message in peer.messages} == set(TOPICS)
            for topic in topics:
                text = f"žluťoučký kůň 🐎 to {topic.name}"
                peer.send_command(f"say {topic.name} {text}")
                peer.send_command(f"publish {topic.name} {MEBIBYTE} 1")
                got = [message async for message in messages_of_peers(topic, 2)]
                assert sorted(len(message.data) for message in got) == [len(text.encode()), MEBIBYTE]
                assert min(got, key=lambda message: len(message.data)).data.decode() == text
                named = peer.address.rsplit("/", 1)[1] if signed or language == "py" else None
                assert {message.author_text for message in got} == {named}
            assert node.statistics.malformed_rpcs == node.statistics.bad_signatures == 0

    run(work())


async def messages_of_peers(topic, count):
    while count:
        message = await topic.next()
        if message.received_from is not None:
            count -= 1
            yield message


def test_a_peer_outside_the_mesh_is_served_by_gossip(language, tmp_path):
    """Our node prunes all peers that send GRAFT, so its messages spread only by IHAVE and IWANT."""

    async def work():
        async with AsyncExitStack() as stack:
            no_mesh = {"degree": 0, "degree_low": 0, "degree_high": 0, "prune_trigger": "at_high"}
            node = await stack.enter_async_context(Node(config(**no_mesh), trace=tmp_path))
            (topic,), peer = await connect_peer(stack, language, node, topics=("news",))
            for number in range(5):
                await wait_until(lambda: node.mesh("news") == ())
                assert (await topic.publish(b"message %d" % number)).sent == 0
            await peer.until(lambda: len(peer.messages) == 5)
            assert message_digests(peer.messages) == payload_digests(b"message %d" % number for number in range(5))

    run(work())
    said = Counter((row.event, row.kind) for row in iter_rows(tmp_path))
    assert said[TraceEvent.SEND_RPC, PartKind.IHAVE] > 0
    assert said[TraceEvent.RECV_RPC, PartKind.IWANT] > 0


def test_a_peer_serves_us_by_gossip_when_we_are_outside_its_mesh(language, tmp_path):
    """The peer has a full mesh of our nodes, which publish; our node outside the mesh is connected only to the peer.

    So this node can get the messages only by the peer's IHAVE and its own IWANT.
    """

    async def work():
        async with AsyncExitStack() as stack:
            peer = await stack.enter_async_context(PeerProcess(language, "--topics", "news"))
            dials_peer = replace(config(), bootstrap=(peer.address,))  # js-libp2p takes five connections per second
            meshed_with = [await stack.enter_async_context(Node(dials_peer)) for _ in range(6)]
            for node in meshed_with:
                await node.join("news")
            await wait_until(lambda: all(len(node.mesh("news")) == 1 for node in meshed_with))
            await peer.until(lambda: peer.topics.get("news") == 6)
            await peer.until(lambda: peer.mesh.get("news") == 6)
            no_mesh = replace(config(degree=0, degree_low=0, degree_high=0), bootstrap=(peer.address,))
            if language == "py":  # it GRAFTs peers of 1.1 beyond its degree, and sends them no IHAVE in the backoff
                no_mesh = replace(no_mesh, preset="r1")
            outside = await stack.enter_async_context(Node(no_mesh, trace=tmp_path))
            topic = await outside.join("news")
            await peer.until(lambda: peer.topics.get("news") == 7)
            for number in range(5):
                assert (await meshed_with[number].publish("news", b"message %d" % number)).sent == 1
            got = [message async for message in messages_of_peers(topic, 5)]
            assert {message.data for message in got} == {b"message %d" % number for number in range(5)}
            assert outside.mesh("news") == ()

    run(work())
    said = Counter((row.event, row.kind) for row in iter_rows(tmp_path))
    assert said[TraceEvent.RECV_RPC, PartKind.IHAVE] > 0
    assert said[TraceEvent.SEND_RPC, PartKind.IWANT] > 0
    assert said[TraceEvent.RECV_RPC, PartKind.GRAFT] == 0


def test_backoff_after_leaving_is_honoured_by_both_sides(language, tmp_path):
    """A node that leaves a topic sends PRUNE with a backoff of ten seconds; after that, GRAFT restores the mesh."""
    if language == "py":  # its GRAFT may come too early, and our PRUNE then has a backoff of sixty seconds
        pytest.skip("py-libp2p counts backoffs in whole seconds of its clock, and is up to a second early")

    async def work():
        async with AsyncExitStack() as stack:
            node = await stack.enter_async_context(Node(config(), trace=tmp_path))
            ((ours, theirs), peer) = await connect_peer(stack, language, node, topics=("ours", "theirs"))
            await wait_for_mesh(node, peer, ("ours", "theirs"))
            await ours.leave()
            peer.send_command("leave theirs")
            await peer.until(lambda: peer.topics.get("ours") == 0)
            await wait_until(lambda: node.topic_peers("theirs") == 0)
            await node.join("ours")
            peer.send_command("join theirs")
            await wait_for_mesh(node, peer, ("ours", "theirs"))
            await theirs.publish(b"again")
            await peer.until(lambda: len(peer.messages) == 1)

    run(work())
    wires = {TraceEvent.SEND_RPC, TraceEvent.RECV_RPC}
    for wanted in (0, 1):  # topics have numbers in order of appearance: ours, theirs
        control_rows = [
            row
            for row in iter_rows(tmp_path)
            if row.event in wires and row.kind in (PartKind.GRAFT, PartKind.PRUNE) and row.topic == wanted
        ]
        pruned = [row.time_us for row in control_rows if row.kind is PartKind.PRUNE]
        grafted = [row.time_us for row in control_rows if row.kind is PartKind.GRAFT]
        assert pruned
        assert grafted
        again = [time for time in grafted if time > pruned[0]]
        assert again
        assert again[0] - pruned[0] >= 10_000_000


def test_our_floodsub_and_their_gossipsub(language):
    async def work():
        async with AsyncExitStack() as stack:
            node = await stack.enter_async_context(Node(config(router="floodsub")))
            (topic,), peer = await connect_peer(stack, language, node, topics=("news",))
            await topic.publish(b"there")
            await peer.until(lambda: len(peer.messages) == 1)
            peer.send_command("say news back")
            (message,) = [message async for message in messages_of_peers(topic, 1)]
            assert message.data == b"back"

    run(work())


def test_our_gossipsub_and_their_floodsub(floodsub_language):
    async def work():
        async with AsyncExitStack() as stack:
            node = await stack.enter_async_context(Node(config()))
            flags = ("--router", "floodsub")
            (topic,), peer = await connect_peer(stack, floodsub_language, node, *flags, topics=("news",))
            await topic.publish(b"there")
            await peer.until(lambda: len(peer.messages) == 1)
            peer.send_command("say news back")
            (message,) = [message async for message in messages_of_peers(topic, 1)]
            assert message.data == b"back"
            assert node.mesh("news") == ()

    run(work())


def test_a_mixed_network_delivers_everything():
    """5 Go, 5 Hearsay, 2 Rust and 2 JavaScript peers each dial the four before; 500 messages reach all others."""
    kinds = ["ours", "go", "rust", "js", "go", "ours", "go", "ours", "rust", "js", "go", "ours", "go", "ours"]
    for language in set(kinds):
        build_or_skip(language)

    async def work():
        async with AsyncExitStack() as stack:
            peers: list[PeerProcess] = []
            for kind in kinds:
                dial = ",".join(peer.address for peer in peers[-4:])
                flags = ("--connect", dial) if dial else ()
                peers.append(await stack.enter_async_context(PeerProcess(kind, "--topics", "news", *flags)))
            for place, peer in enumerate(peers):
                links = min(place, 4) + min(len(peers) - 1 - place, 4)
                await peer.until(lambda peer=peer, links=links: peer.topics.get("news") == links)
                if peer.language != "go":  # the size of go's meshes is not tested here
                    await peer.until(lambda peer=peer: peer.mesh.get("news", 0) >= 4)
            for number in range(500):
                peers[number % len(peers)].send_command(f"say news message {number}")
            sent = [hashlib.sha256(f"message {number}".encode()).hexdigest() for number in range(500)]
            for place, peer in enumerate(peers):
                foreign = Counter(digest for number, digest in enumerate(sent) if number % len(peers) != place)
                await peer.until(lambda peer=peer, foreign=foreign: len(peer.messages) >= foreign.total())
                assert message_digests(peer.messages) == foreign, peer.language

    run(work(), 240)


def test_every_peer_program_is_pinned():
    """Builds use exactly the tested versions, and download only from the package registries."""
    assert all("==" in line for line in (HERE / "py" / "requirements.txt").read_text().split())
    for name in ("go/go.sum", "rust/Cargo.lock", "js/package-lock.json"):
        text = (HERE / name).read_text()
        assert "resolved" not in text
        hosts = [after.split("/")[0] for _, after in pairwise(["", *text.split("registry+https://")[1:]])]
        assert set(hosts) <= {"github.com"}
