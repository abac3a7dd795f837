"""Gossipsub 1.3 between Hearsay, Go and Rust over sockets: the extensions control, and partial messages."""

from __future__ import annotations

from contextlib import AsyncExitStack
from hashlib import sha256

import pytest
from scripted_peer import ScriptedPeer
from test_deployed_gossipsub import QUICK, SCORE
from test_foreign_peers import LIMITS, PeerProcess, built, meshed, run, until

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
CAN_PARTS = Rpc(
    (Subscription("news", True, PartialUse.REQUESTS),),
    (),
    Control(graft=(Graft("news"),), features=(Features(partial_messages=True),)),
)


class Attentive(PartsExchange):
    """An exchange that records all received partial messages."""

    def __init__(self, form):
        super().__init__(form)
        self.partials = []

    def received(self, partial, sender):
        self.partials.append(partial)
        return super().received(partial, sender)


@pytest.fixture
def go():
    return built("go")


@pytest.fixture(params=["go", "rust"])
def language(request):
    return built(request.param)


def deployed(**parameters):
    return NodeConfig(
        preset="go",
        parameters={**QUICK, "partial_messages": True, **parameters},
        limits=LIMITS,
        signatures=SignaturePolicy.STRICT_NO_SIGN,
        message_id=by_data,
    )


async def meeting(stack, language, *flags, **parameters):
    """Start our node in `news`, and a peer in its mesh. Return node, exchange, topic and peer."""
    node = await stack.enter_async_context(Node(deployed(**parameters)))
    exchange = PartsExchange(FORM)
    topic = await node.join("news", partial=exchange)
    peer = await with_peer(stack, language, node, *flags)
    await meshed(node, peer, ("news",))
    return node, exchange, topic, peer


async def with_peer(stack, language, node, *flags):
    peer = await stack.enter_async_context(PeerProcess(language, "--topics", "news", "--unsigned", *flags))
    await node.connect(peer.address)
    await peer.until(lambda: peer.topics.get("news") == 1)
    return peer


def test_1_3_is_negotiated_and_both_can_do_parts(language):
    async def work():
        async with AsyncExitStack() as stack:
            node = await stack.enter_async_context(Node(deployed()))
            await node.join("news")
            await meshed(node, await with_peer(stack, language, node, "--partial", "news"), ("news",))
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
            node, exchange, topic, peer = await meeting(stack, language, "--partial", "news")
            peer.order(f"parts news 7 {theirs}")
            topic.follow(exchange.add("news", GROUP, counted(GROUP, ours)))
            await peer.until(lambda: peer.parts.get(("news", 7)) == 255)
            assert (await topic.next()).data == WHOLE
            assert (exchange.invalid, peer.refusals) == (0, [])
            assert node.statistics.parts_dropped == 0

    run(work())


def test_rust_tells_who_only_supports_parts_what_it_has():
    """Rust sends metadata to a peer that supports partial messages, as our node does with `supporters_told`.

    Rust (libp2p-gossipsub 0.50.1) also answers metadata of such a peer with parts. The specification forbids this;
    our node accepts the parts. The Rust peer gets full messages.
    """
    rust = built("rust")

    async def work():
        async with AsyncExitStack() as stack:
            node = await stack.enter_async_context(Node(deployed(supporters_told="by_all")))
            exchange = Attentive(FORM)
            topic = await node.join("news", partial=exchange, partial_use=PartialUse.SUPPORTS)
            peer = await with_peer(stack, rust, node, "--supports-partial", "news")
            await meshed(node, peer, ("news",))
            peer.order("parts news 7 3")
            await until(lambda: exchange.partials)
            assert (exchange.partials[0].parts, exchange.partials[0].metadata) == (None, bytes([3]))
            await topic.publish(WHOLE)
            await peer.until(lambda: len(peer.messages) == 1)
            assert peer.parts == {("news", 7): 3}

    run(work())


def test_who_has_no_partial_messages_gets_the_full_one(language):
    """Our node is between a peer with all parts and a peer without partial messages in the topic."""

    async def work():
        async with AsyncExitStack() as stack:
            node, _, topic, source = await meeting(stack, language, "--partial", "news")
            plain = await with_peer(stack, language, node)
            await until(lambda: len(node.mesh("news")) == 2)
            source.order("parts news 7 255")
            await plain.until(lambda: len(plain.messages) == 1)
            assert plain.messages[0]["sha256"] == sha256(WHOLE).hexdigest()
            assert (await topic.next()).data == WHOLE
            assert source.messages == []

    run(work())


def test_a_full_message_goes_on_in_parts(language):
    """A peer that only supports parts gets the full message; a peer that requests parts gets parts."""

    async def work():
        async with AsyncExitStack() as stack:
            node, _, topic, requester = await meeting(stack, language, "--partial", "news")
            supporter = await with_peer(stack, language, node, "--supports-partial", "news")
            await until(lambda: len(node.mesh("news")) == 2)
            await topic.publish(WHOLE)
            await supporter.until(lambda: len(supporter.messages) == 1)
            requester.order("parts news 7 0")
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
            peer = await with_peer(stack, go, node, "--test-extension")
            await until(lambda: node.statistics.test_messages == 1)
            await peer.until(lambda: peer.tested_by == {to_text(node.peer)})
            assert node.statistics.parts_dropped == 0

    run(work())


def test_go_punishes_who_says_twice_what_it_can_do(go):
    async def work():
        async with AsyncExitStack() as stack:
            peer = await stack.enter_async_context(
                PeerProcess(go, "--topics", "news", "--unsigned", "--scored", "--partial", "news")
            )
            scripted = await stack.enter_async_context(ScriptedPeer(peer.address, MESHSUB_13, by_data))
            scripted.say(CAN_PARTS)
            await peer.until(lambda: peer.scores.get(scripted.name) == 0)
            scripted.say(CAN_PARTS)
            await peer.until(lambda: peer.scores[scripted.name] < 0)

    run(work())


def test_we_punish_who_says_twice_what_it_can_do():
    async def work():
        async with AsyncExitStack() as stack:
            node, scripted, peer = await scripted_at_ours(stack, None)
            assert node.scores.all[peer].score == 0
            scripted.say(CAN_PARTS)
            await until(lambda: node.scores.all[peer].score < 0)

    run(work())


def test_we_blame_who_sends_what_is_no_part():
    async def work():
        async with AsyncExitStack() as stack:
            node, scripted, peer = await scripted_at_ours(stack, PartsExchange(FORM))
            scripted.say(Rpc(partial=Partial("news", GROUP, FORM.encode(GROUP, {0: bytes(1024)}), None)))
            await until(lambda: node.scores.all[peer].score < 0)

    run(work())


async def scripted_at_ours(stack, application):
    node = await stack.enter_async_context(Node(deployed(score=SCORE)))
    await node.join("news", partial=application)
    scripted = await stack.enter_async_context(ScriptedPeer(node.addresses[0], MESHSUB_13, by_data))
    scripted.say(CAN_PARTS)
    await until(lambda: len(node.mesh("news")) == 1)
    (peer,) = node.mesh("news")
    return node, scripted, peer
