"""Episub on real nodes: they find each other from one address, choose connections, and replace lost neighbours."""

from __future__ import annotations

import asyncio

import pytest
from waiting import run, until

from hearsay.core.language.actions import Dial, FindContacts, Ping
from hearsay.core.language.events import ContactsFound, DialFailed
from hearsay.core.language.rpc import EPISUB, FLOODSUB
from hearsay.libp2p.host import Host
from hearsay.libp2p.identify import PingService
from hearsay.node.config import NodeConfig
from hearsay.node.meeting.discovery import Discovery, RequestHandler
from hearsay.node.node import Node

QUICK = {
    "random_links": 2,
    "near_links": 2,
    "reply_timeout_ms": 500,
    "stabilise_min_ms": 50,
    "stabilise_max_ms": 200,
    "shuffle_interval_ms": 300,
    "probe_interval_ms": 500,
    "missing_tick_ms": 50,
}
SLOW_TIMERS = {
    "reply_timeout_ms": 2_000,
    "stabilise_min_ms": 100,
    "stabilise_max_ms": 1_000,
    "shuffle_interval_ms": 1_000,
    "probe_interval_ms": 1_000,
    "missing_tick_ms": 100,
}
"""Timers for ten nodes that share a core with other tests, where work of quicker timers would not end in time."""


def config(*bootstrap, **parameters):
    return NodeConfig(router="episub", parameters={**QUICK, **parameters}, bootstrap=bootstrap)


def strategy(node):
    return node._running.router.strategy


def neighbours(node):
    return set(strategy(node).memberships["news"].views.active)


def is_one_overlay(nodes):
    """Neighbours are mutual and among these nodes, and all of them are one component."""
    graph = {node.peer: neighbours(node) for node in nodes}
    if any(peer not in graph or one not in graph[peer] for one, peers in graph.items() for peer in peers):
        return False
    reached, waiting = {nodes[0].peer}, [nodes[0].peer]
    while waiting:
        new = graph[waiting.pop()] - reached
        reached |= new
        waiting += new
    return len(reached) == len(nodes)


async def deliver(nodes, topics, label):
    for number, node in enumerate(nodes):
        await topics[node].publish(f"{label} {number}".encode())
    for node in nodes:
        got = [(await topics[node].next()).data for _ in nodes]
        assert sorted(got) == sorted(f"{label} {number}".encode() for number in range(len(nodes)))


@pytest.mark.thorough
@run
async def test_ten_nodes_deliver_everything_and_so_do_the_seven_that_are_left():
    nodes, topics = [], {}
    try:
        for _ in range(10):
            node = Node(config(*(nodes[0].addresses[:1] if nodes else ()), **SLOW_TIMERS))
            await node.__aenter__()
            nodes.append(node)
            topics[node] = await node.join("news")
        await until(lambda: is_one_overlay(nodes) and all(len(neighbours(node)) >= 3 for node in nodes))
        inbound = [link.intake.stream for node in nodes for link in node._running.links.by_peer.values()]
        assert {stream.protocol for stream in inbound if stream is not None} == {EPISUB}  # None: it is being opened
        await deliver(nodes, topics, "all")
        while not any(len(strategy(node).trees["news"].lazy) for node in nodes):
            await deliver(nodes, topics, "more")  # the second copies are late, or came over links that are replaced

        lost, left = nodes[:3], nodes[3:]  # among them the bootstrap peer of all others
        for node in lost:
            for connection in list(node._host.connections.values()):
                connection.abort()
            await node.close()
        await until(lambda: is_one_overlay(left))
        await deliver(left, topics, "left")
        await deliver(left, topics, "again")
        assert all(node.statistics.malformed_rpcs == node.statistics.left_out_parts == 0 for node in nodes)
    finally:
        await asyncio.gather(*(node.close() for node in nodes))


@run
async def test_the_router_hangs_up_but_not_on_bootstrap_peers():
    async with Node(config()) as hub, Node(config()) as third, Node(config(hub.addresses[0])) as node:
        await node.connect(third.addresses[0])
        await until(lambda: {hub.peer, third.peer} <= set(node.peers))
        node._discovery.hang_up(hub.peer)
        node._discovery.hang_up(third.peer)
        assert set(node._host.connections) == {hub.peer}


@run
async def test_what_the_router_asks_for_is_answered():
    async with Node(config()) as other:
        host = Host()
        events = []
        discovery = Discovery(host)
        handler = RequestHandler(discovery, PingService(host), lambda: tuple(host.connections), events.append)
        try:
            stranger = bytes((0, 3)) + b"who"
            handler.perform(Dial(stranger))
            await until(lambda: events)
            assert events.pop() == DialFailed(stranger)
            handler.perform(FindContacts("news", 3))
            await until(lambda: events)
            assert events.pop() == ContactsFound("news", ())
            discovery.learn(other._identification.record(), other.peer)
            handler.perform(FindContacts("news", 3))
            await until(lambda: events)
            assert events.pop() == ContactsFound("news", (other.peer,))
            handler.perform(Dial(other.peer))
            await until(lambda: other.peer in host.connections)
            handler.perform(Ping(other.peer))
            await until(lambda: events)
            measured = events.pop()
            assert measured.peer == other.peer
            assert 0 < measured.round_trip_us < 10_000_000
        finally:
            await handler.close()
            await host.close()


@run
async def test_episub_serves_peers_that_only_flood():
    async with Node(config()) as one, Node(NodeConfig(router="floodsub")) as other:
        here, there = await one.join("news"), await other.join("news")
        await one.connect(other.addresses[0])
        await until(lambda: one.topic_peers("news") and other.topic_peers("news"))
        assert one._running.links.by_peer[other.peer].outbound.protocol == FLOODSUB
        await here.publish(b"to a flooder")
        assert (await there.next()).data == b"to a flooder"
        await there.publish(b"from a flooder")
        assert [(await here.next()).data for _ in range(2)] == [b"to a flooder", b"from a flooder"]
