"""Nodes that keep scores, on real sockets: effects of the behaviour of peers and of ratings by the application."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import replace

import pytest
from waiting import run, until

from hearsay.core.language.actions import Reason
from hearsay.core.language.events import Verdict
from hearsay.core.language.rpc import MESHSUB_11, Control, IHave, Rpc
from hearsay.core.scores.named_sets import named_set
from hearsay.core.shell.contract import UsageError
from hearsay.libp2p.frames import frame
from hearsay.libp2p.host import Host
from hearsay.libp2p.names.keys import PrivateKey
from hearsay.libp2p.names.protobuf import bytes_field
from hearsay.node.config import NodeConfig
from hearsay.node.node import Node
from hearsay.wire.encode import encode_message, encode_rpc
from hearsay.wire.signing import PREFIX, Author, SignaturePolicy

SOME_PEER = "12D3KooWGzBqTFbMGg2kqRCNuiHU6D6hqPyvJMFwPsqZBKXMwXHn"
QUICK = {"heartbeat_interval_ms": 100, "first_heartbeat_ms": 20, "first_heartbeat_spread_ms": 50}
SCORE = {
    "validation": "selective",
    "application_weight": 1,
    "misbehaviour_weight": -10,
    "misbehaviour_decay": 0.9,
    "decay_interval_ms": 1000,
    "decay_to_zero": 0.01,
    "retain_ms": 60_000,
    "thresholds": {"gossip": -50, "publish": -100, "graylist": -200},
    "topics": [
        {
            "topic": "any",
            "validation": "selective",
            "topic_weight": 1,
            "time_in_mesh_quantum_ms": 1000,
            "invalid_messages_weight": -99,
            "invalid_messages_decay": 0.9,
            "first_deliveries_weight": 1,
            "first_deliveries_decay": 0.9,
            "first_deliveries_cap": 100,
        }
    ],
}


def keeping_scores(**more):
    parameters = {**QUICK, "score": SCORE, "degree_out": 0, **more.pop("parameters", {})}
    return NodeConfig(preset="go", parameters=parameters, **more)


async def connect_and_graft(first, second, topic="news"):
    await first.connect(second.addresses[0])
    await until(lambda: second.peer in first.mesh(topic) and first.peer in second.mesh(topic))


@run
async def test_who_sends_what_the_application_rejects_is_pruned_and_graylisted():
    """Rules: JUDGE-1, KEEP-1."""
    async with Node(keeping_scores()) as honest, Node(NodeConfig(parameters=QUICK)) as bad:
        topic = await honest.join("news")
        await bad.join("news")
        honest.add_validator("news", lambda message: Verdict.REJECT)
        await connect_and_graft(bad, honest)
        for number in range(3):
            await bad.publish("news", b"bad %d" % number)
        await until(lambda: honest.statistics.rejected >= 2)
        await until(lambda: honest.scores.all[bad.peer].score <= -200)
        await until(lambda: bad.peer not in honest.mesh("news"))
        before = honest.statistics.rejected
        await bad.publish("news", b"not even looked at")
        await until(lambda: honest.statistics.dropped_because[Reason.GRAYLISTED] > 0)
        assert honest.statistics.rejected == before
        assert not honest.statistics.offences
        assert topic.name == "news"


@run
async def test_a_rating_by_the_application_counts_from_the_beginning_of_a_connection():
    """Rules: SCORE-6, GRAFT-9."""
    async with Node(keeping_scores()) as judge, Node(NodeConfig(parameters=QUICK)) as guest:
        judge.scores.rate(guest.peer, -10)
        await judge.join("news")
        await guest.join("news")
        await guest.connect(judge.addresses[0])
        await until(lambda: judge.statistics.dropped_because[Reason.LOW_SCORE] > 0)
        assert judge.mesh("news") == ()
        assert judge.scores.all[guest.peer].peer.application == -10
        judge.scores.rate(guest.peer, 0)
        assert judge.scores.all[guest.peer].score == 0


@run
async def test_direct_peers_get_everything_and_are_in_no_mesh():
    """Rules: STANDING-1."""
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(Node(keeping_scores()))
        second = await stack.enter_async_context(Node(keeping_scores(direct_peers=first.addresses[:1])))
        first.scores.set_direct(second.peer)
        topics = [await node.join("news") for node in (first, second)]
        await until(lambda: first.topic_peers("news") == second.topic_peers("news") == 1)
        await first.publish("news", b"directly")
        assert (await anext(aiter(topics[1]))).data == b"directly"
        assert first.mesh("news") == second.mesh("news") == ()


@run
async def test_a_relay_of_messages_that_implementations_differ_on_keeps_its_score_and_its_promises():
    """go accepts and relays each of these messages. A second peer announces the same id and sends no message.

    Rules: PROMISE-2.
    """
    author = PrivateKey.generate()
    true = Author(author, 7).write("news", b"true", SignaturePolicy.STRICT_SIGN)
    parts = (true.source, b"other", true.seqno, b"news")
    signed = b"".join(bytes_field(number, part) for number, part in enumerate(parts, 1))
    more = bytes_field(9, b"unknown")
    disputed = signed + bytes_field(5, author.sign(PREFIX + signed + more)) + more
    unreadable = encode_message(true) + b"\x4b\x54"
    async with Node(keeping_scores(parameters={"iwant_followup_ms": 300})) as node, AsyncExitStack() as stack:
        topic = await node.join("news")
        streams = []
        for _ in range(2):
            host = Host()
            stack.push_async_callback(host.close)
            host.handle(MESHSUB_11, lambda stream: None)
            await host.dial(node.addresses[0])
            streams.append((host, await host.open_stream(node.peer, [MESHSUB_11])))
        await until(lambda: len(node.peers) == 2)
        (relay, to_node), (liar, liar_to_node) = streams
        announcement = frame(encode_rpc(Rpc(control=Control(ihave=(IHave("news", (true.source + true.seqno,)),)))))
        to_node.write(announcement)
        for _ in range(20):
            to_node.write(frame(bytes_field(2, disputed)))
        to_node.write(frame(bytes_field(2, unreadable)))
        await until(lambda: node.statistics.left_out_parts == 1)
        liar_to_node.write(announcement)
        await until(lambda: node.scores.all[liar.peer].score < 0)
        assert node.scores.all[relay.peer].score == 0
        assert (node.statistics.bad_signatures, node.statistics.malformed_rpcs) == (20, 0)
        assert not node.statistics.offences
        to_node.write(frame(bytes_field(2, encode_message(true))))
        assert (await topic.next()).data == b"true"
        await until(lambda: node.scores.all[relay.peer].score > 0)


@run
async def test_a_topic_is_scored_again_at_run_time_and_scores_can_be_watched():
    seen = []
    async with Node(keeping_scores()) as reader, Node(NodeConfig(parameters=QUICK)) as writer:
        topic = await reader.join("news")
        await writer.join("news")
        await connect_and_graft(writer, reader)
        await writer.publish("news", b"one")
        await anext(aiter(topic))
        await until(lambda: reader.scores.all[writer.peer].score > 0)
        heavy = replace(named_set("hardening").topics["any"], topic_weight=0.0)
        reader.scores.set_topic("news", heavy)
        assert reader.scores.all[writer.peer].score == 0
        reader.scores.watch(seen.append, every_s=0.01)
        await until(lambda: len(seen) > 2)
        assert set(seen[-1]) == {writer.peer}


@run
async def test_a_router_that_keeps_no_scores_says_so():
    async with Node(NodeConfig(parameters=QUICK)) as node:
        assert node.scores.all == {}
        with pytest.raises(UsageError, match="keeps no scores"):
            node.scores.rate(b"stranger", 1)


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"direct_peers": ("/ip4/127.0.0.1/tcp/1",)}, "must end with /p2p/"),
        (
            {"direct_peers": (f"/ip4/127.0.0.1/tcp/1/p2p/{SOME_PEER}",)},
            "need a router with the rules of gossipsub 1.1",
        ),
    ],
)
def test_direct_peers_that_cannot_be_are_refused(given, complaint):
    with pytest.raises(ValueError, match=complaint):
        NodeConfig(**given)
