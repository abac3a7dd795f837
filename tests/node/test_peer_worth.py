"""Worth of peers, by which a host without a free slot chooses the connection that it ends."""

from __future__ import annotations

from contextlib import AsyncExitStack
from math import inf

from waiting import run, until

from hearsay.node.config import NodeConfig
from hearsay.node.node import Node
from hearsay.node.peer_standing import PeerWorth

QUICK = {"heartbeat_interval_ms": 100, "first_heartbeat_ms": 20, "first_heartbeat_spread_ms": 50}
SCORE = {
    "validation": "selective",
    "application_weight": 1,
    "decay_interval_ms": 1000,
    "decay_to_zero": 0.01,
    "thresholds": {"gossip": -50, "publish": -100, "graylist": -200},
}


def worth_at(node):
    return PeerWorth(node._running)()


@run
async def test_members_and_direct_peers_are_protected_until_their_score_is_negative():
    parameters = {
        **QUICK,
        "score": SCORE,
        "degree": 2,
        "degree_low": 1,
        "degree_high": 3,
        "degree_out": 0,
        "degree_score": 0,
    }
    async with AsyncExitStack() as stack:
        node = await stack.enter_async_context(Node(NodeConfig(parameters=parameters)))
        topic = await node.join("news")
        others = [await stack.enter_async_context(Node(NodeConfig(parameters=QUICK))) for _ in range(5)]
        for other in others:
            await other.connect(node.addresses[0])
        there = [await other.join("news") for other in others[:4]]
        node.scores.set_direct(others[4].peer)
        await until(lambda: len(node.mesh("news")) >= 2 and node.topic_peers("news") == 4)
        worth = worth_at(node)
        members = set(node.mesh("news"))
        assert {peer for peer, value in worth.items() if value == inf} == {*members, others[4].peer}
        assert len(members) <= 3
        await there[0].publish(b"useful")
        await topic.next()
        assert worth_at(node)[others[0].peer] >= 1
        bad = next(iter(members))
        node.scores.rate(bad, -10)
        node.scores.rate(others[4].peer, -10)
        worth = worth_at(node)
        assert bad not in worth
        assert others[4].peer not in worth
