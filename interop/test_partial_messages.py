"""Gossipsub 1.3 between Hearsay, Go and Rust over sockets: the extensions control, and partial messages."""

from __future__ import annotations

from contextlib import AsyncExitStack
from hashlib import sha256

import pytest
from scripted_peer import ScriptedPeer
from test_deployed_gossipsub import QUICK, SCORE
from test_foreign_peers import LIMITS, PeerProcess, build_or_skip, run, wait_for_mesh, wait_until

from hearsay.core.language.rpc import MESHSUB_13, Control, Features, Graft, Partial, PartialUse, Rpc, Subscription
from hearsay.libp2p.names.peer_id import to_text
from hearsay.node.config import NodeConfig
from hearsay.node.node import Node
from hearsay.partial import PartsExchange, counted, counted_parts, group_named
from hearsay.wire.messages import by_data
from hearsay.wire.signing import SignaturePolicy

FORM = counted_parts()
GROUP = group_named(7)
ALL = range(8)
WHOLE = FORM.encode(GROUP, counted(GROUP, ALL))
ANNOUNCES_PARTS = Rpc(
    (Subscription("news", True, PartialUse.REQUESTS),),
    (),
    Control(graft=(Graft("news"),), features=(Features(partial_messages=True),)),
)


class RecordingExchange(PartsExchange):
    """An exchange that records all received partial messages."""

    def __init__(self, form):
        super().__init__(form)
        self.partials = []

    def received(self, partial, sender):
        self.partials.append(partial)
        return super().received(partial, sender)


@pytest.fixture
def go():
    return build_or_skip("go")


@pytest.fixture(params=["go", "rust"])
def language(request):
    return build_or_skip(request.param)


def deployed(**parameters):
    return NodeConfig(
        preset="go",
        parameters={**QUICK, "partial_messages": True, **parameters},
        limits=LIMITS,
        signatures=SignaturePolicy.STRICT_NO_SIGN,
        message_id=by_data,
    )


async def start_node_and_peer(stack, language, *flags, **parameters):
    """Start our node in `news`, and a peer in its mesh. Return node, exchange, topic and peer."""
    node = await stack.enter_async_context(Node(deployed(**parameters)))
    exchange = PartsExchange(FORM)
    topic = await node.join("news", partial=exchange)
    peer = await connect_peer(stack, language, node, *flags)
    await wait_for_mesh(node, peer, ("news",))
    return node, exchange, topic, peer


async def connect_peer(stack, language, node, *flags):
    peer = await stack.enter_async_context(PeerProcess(language, "--topics", "news", "--unsigned", *flags))
    await node.connect(peer.address)
    await peer.until(lambda: peer.topics.get("news") == 1)
    return peer


def test_1_3_is_negotiated_and_both_can_do_parts(language):
    async def work():
        async with AsyncExitStack() as stack:
            node = await stack.enter_async_context(Node(deployed()))
            await node.join("news")
            await wait_for_mesh(node, await connect_peer(stack, language, node, "--partial", "news"), ("news",))
            ((peer, known),) = node._running.router.connected.items()
            assert known.protocol == MESHSUB_13
            assert node._running.router.strategy.features.exchanges_parts(peer)

    run(work())


@pytest.mark.parametrize(
    ("ours", "theirs"), [(range(4), 0b1111_0000), (ALL, 0), ((), 0b1111_1111), ((1,), 0b1111_1101)]
)
def test_parts_go_both_ways_until_both_have_all(language, ours, theirs):
    async def work():
        async with AsyncExitStack() as stack:
            node, exchange, topic, peer = await start_node_and_peer(stack, language, "--partial", "news")
            peer.send_command(f"parts news 7 {theirs}")
            topic.follow(exchange.add("news", GROUP, counted(GROUP, ours)))
            await peer.until(lambda: peer.parts.get(("news", 7)) == 255)
            assert (await topic.next()).data == WHOLE
            assert (exchange.invalid, peer.refusals) == (0, [])
            assert node.statistics.parts_dropped == 0

    run(work())


def test_rust_sends_metadata_to_a_peer_that_only_supports_parts():
    """Rust sends metadata to a peer that supports partial messages, as our node does with `supporters_told`.

    Rust (libp2p-gossipsub 0.50.1) also answers metadata of such a peer with parts. The specification forbids this;
    our node accepts the parts. The Rust peer gets full messages.
    """
    rust = build_or_skip("rust")

    async def work():
        async with AsyncExitStack() as stack:
            node = await stack.enter_async_context(Node(deployed(supporters_told="by_all")))
            exchange = RecordingExchange(FORM)
            topic = await node.join("news", partial=exchange, partial_use=PartialUse.SUPPORTS)
            peer = await connect_peer(stack, rust, node, "--supports-partial", "news")
            await wait_for_mesh(node, peer, ("news",))
            peer.send_command("parts news 7 3")
            await wait_until(lambda: exchange.partials)
            assert (exchange.partials[0].parts, exchange.partials[0].metadata) == (None, bytes([3]))
            await topic.publish(WHOLE)
            await peer.until(lambda: len(peer.messages) == 1)
            assert peer.parts == {("news", 7): 3}

    run(work())


def test_a_peer_without_partial_messages_gets_the_full_message(language):
    """Our node is between a peer with all parts and a peer without partial messages in the topic."""

    async def work():
        async with AsyncExitStack() as stack:
            node, _, topic, source = await start_node_and_peer(stack, language, "--partial", "news")
            plain = await connect_peer(stack, language, node)
            await wait_until(lambda: len(node.mesh("news")) == 2)
            source.send_command("parts news 7 255")
            await plain.until(lambda: len(plain.messages) == 1)
            assert plain.messages[0]["sha256"] == sha256(WHOLE).hexdigest()
            assert (await topic.next()).data == WHOLE
            assert source.messages == []

    run(work())


def test_a_full_message_is_forwarded_in_parts(language):
    """A peer that only supports parts gets the full message; a peer that requests parts gets parts."""

    async def work():
        async with AsyncExitStack() as stack:
            node, _, topic, requester = await start_node_and_peer(stack, language, "--partial", "news")
            supporter = await connect_peer(stack, language, node, "--supports-partial", "news")
            await wait_until(lambda: len(node.mesh("news")) == 2)
            await topic.publish(WHOLE)
            await supporter.until(lambda: len(supporter.messages) == 1)
            requester.send_command("parts news 7 0")
            await requester.until(lambda: requester.parts.get(("news", 7)) == 255)
            assert requester.messages == []

    run(work())


def test_each_sends_the_other_the_message_of_the_test_extension(go):
    """Go calls its callback for each RPC of a peer with the extension, so it does not show that the message came.

    In tests/core, another router of ours receives the message.
    """

    async def work():
        async with AsyncExitStack() as stack:
            node = await stack.enter_async_context(Node(deployed(test_extension=True)))
            await node.join("news")
            peer = await connect_peer(stack, go, node, "--test-extension")
            await wait_until(lambda: node.statistics.test_messages == 1)
            await peer.until(lambda: peer.tested_by == {to_text(node.peer)})
            assert node.statistics.parts_dropped == 0

    run(work())


def test_go_lowers_the_score_for_a_second_extensions_control(go):
    async def work():
        async with AsyncExitStack() as stack:
            peer = await stack.enter_async_context(
                PeerProcess(go, "--topics", "news", "--unsigned", "--scored", "--partial", "news")
            )
            scripted = await stack.enter_async_context(ScriptedPeer(peer.address, MESHSUB_13, by_data))
            scripted.send(ANNOUNCES_PARTS)
            await peer.until(lambda: peer.scores.get(scripted.name) == 0)
            scripted.send(ANNOUNCES_PARTS)
            await peer.until(lambda: peer.scores[scripted.name] < 0)

    run(work())


def test_we_lower_the_score_for_a_second_extensions_control():
    async def work():
        async with AsyncExitStack() as stack:
            node, scripted, peer = await connect_scripted_peer(stack, None)
            assert node.scores.all[peer].score == 0
            scripted.send(ANNOUNCES_PARTS)
            await wait_until(lambda: node.scores.all[peer].score < 0)

    run(work())


def test_we_lower_the_score_for_an_invalid_part():
    async def work():
        async with AsyncExitStack() as stack:
            node, scripted, peer = await connect_scripted_peer(stack, PartsExchange(FORM))
            scripted.send(Rpc(partial=Partial("news", GROUP, FORM.encode(GROUP, {0: bytes(1024)}), None)))
            await wait_until(lambda: node.scores.all[peer].score < 0)

    run(work())


async def connect_scripted_peer(stack, application):
    node = await stack.enter_async_context(Node(deployed(score=SCORE)))
    await node.join("news", partial=application)
    scripted = await stack.enter_async_context(ScriptedPeer(node.addresses[0], MESHSUB_13, by_data))
    scripted.send(ANNOUNCES_PARTS)
    await wait_until(lambda: len(node.mesh("news")) == 1)
    (peer,) = node.mesh("news")
    return node, scripted, peer
