"""Finding peers where attackers name wrong addresses: tarpits accept connections and stay silent."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager

from waiting import patience, until

from hearsay.libp2p.host import Host
from hearsay.libp2p.names.keys import PrivateKey
from hearsay.libp2p.names.multiaddr import Multiaddr, tcp_multiaddr
from hearsay.libp2p.names.peer_id import peer_id_of
from hearsay.libp2p.rates import Rate
from hearsay.libp2p.rendezvous import MessageType, PeerRecord, RendezvousMessage, seal_record
from hearsay.libp2p.rendezvous_streams import RendezvousPoint
from hearsay.node.config import NodeConfig
from hearsay.node.meeting.dial_queue import DialLimits
from hearsay.node.meeting.discovery import Discovery, DiscoveryLimits
from hearsay.node.meeting.rendezvous import ROUNDS, RendezvousSearch
from hearsay.node.node import Node

LOOPBACK = Multiaddr.parse("/ip4/127.0.0.1/tcp/0")


def run(test):
    async def bounded():
        async with patience(), AsyncExitStack() as stack:
            await test(stack)

    return lambda: asyncio.run(bounded())


@asynccontextmanager
async def hosting(listen=True):
    host = Host()
    try:
        if listen:
            await host.listen(LOOPBACK)
        yield host
    finally:
        await host.close()


@asynccontextmanager
async def discovering(host, **dials):
    discovery = Discovery(host, limits=DiscoveryLimits(dials=DialLimits(**dials)))
    try:
        yield discovery
    finally:
        await discovery.close()


class Tarpit:
    """Sockets at addresses of 127.0.0.0/8 that accept connections and send nothing."""

    def __init__(self):
        self.addresses = []
        self.visitors = set()
        self._servers = []

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        for server in self._servers:
            server.close()
        for writer in self.visitors:
            writer.transport.abort()

    async def open(self, *places):
        for place in places:
            server = await asyncio.start_server(self._visit, f"127.0.7.{place}", 0)
            self._servers.append(server)
            self.addresses.append(tcp_multiaddr(*server.sockets[0].getsockname()))
        return self

    async def _visit(self, reader, writer):
        self.visitors.add(writer)
        while await reader.read(65536):
            pass


def sybil(addresses):
    """Return a peer that does not run, and its record."""
    key = PrivateKey.generate()
    peer = peer_id_of(key.public)
    return peer, seal_record(key, PeerRecord(peer, 1, tuple(addresses)))


def register(point, peer, record, address):
    question = RendezvousMessage(type=MessageType.REGISTER, namespace="news", record=record)
    point.registry.answer(peer, address, question)


@run
async def test_nodes_meet_though_a_rendezvous_point_is_poisoned(stack):
    """Sybils register 45 times before the first node and 45 times after it, each time with 40 silent addresses."""
    tarpit = await (await stack.enter_async_context(Tarpit())).open(*range(1, 41))
    host = await stack.enter_async_context(hosting())
    point = RendezvousPoint(host)
    for _ in range(45):
        register(point, *sybil(tarpit.addresses), "127.0.0.2")
    settings = NodeConfig(rendezvous=(str(host.addresses[0]),))
    one = await stack.enter_async_context(Node(settings))
    topic = await one.join("news")
    await until(lambda: len(point.registry) == 46)
    for _ in range(45):
        register(point, *sybil(tarpit.addresses), "127.0.0.2")
    two = await stack.enter_async_context(Node(settings))
    await two.join("news")
    await until(lambda: one.topic_peers("news") and two.topic_peers("news"))
    await two.publish("news", b"met", wait_for_peers=True)
    assert (await topic.next()).data == b"met"
    assert len(two._running.links.by_peer) <= 3


@run
async def test_a_peer_is_reached_behind_addresses_where_no_host_answers(stack):
    tarpit = await (await stack.enter_async_context(Tarpit())).open(*range(1, 8))
    honest, host = [await stack.enter_async_context(hosting(listen)) for listen in (True, False)]
    discovery = await stack.enter_async_context(discovering(host, first_try_s=4.0))
    discovery.found(honest.peer, (*tarpit.addresses, *honest.addresses), "test")
    await until(lambda: honest.peer in host.connections)
    assert tarpit.visitors


@run
async def test_a_network_that_says_nothing_leaves_room_for_others(stack):
    """A dial may take an hour, so no place becomes free."""
    tarpit = await (await stack.enter_async_context(Tarpit())).open(1)
    honest, host = [await stack.enter_async_context(hosting(listen)) for listen in (True, False)]
    discovery = await stack.enter_async_context(discovering(host, first_try_s=3600.0))
    for _ in range(100):
        peer, _ = sybil(())
        discovery.found(peer, tuple(tarpit.addresses), "test")
    discovery.found(honest.peer, honest.addresses, "test")
    await until(lambda: honest.peer in host.connections)
    await until(lambda: len(tarpit.visitors) == 8)


@run
async def test_who_is_asked_for_while_all_places_are_taken_is_reached_when_one_is_free(stack):
    tarpit = await (await stack.enter_async_context(Tarpit())).open(1)
    honest, host = [await stack.enter_async_context(hosting(listen)) for listen in (True, False)]
    discovery = await stack.enter_async_context(discovering(host, at_once=1, first_try_s=0.3))
    peer, record = sybil(tarpit.addresses)
    for signed, sender in ((record, peer), (seal_record(honest.identity, record_of(honest)), honest.peer)):
        discovery.learn(signed, sender)
    waiting = [asyncio.ensure_future(discovery.reach(who)) for who in (peer, honest.peer, honest.peer)]
    assert await asyncio.gather(*waiting) == [False, True, True]
    assert not await discovery.reach(peer), "it rests"
    assert not await discovery.reach(b"\x00\x03who")


@run
async def test_a_peer_that_waits_for_its_second_dial_is_dialled_at_its_new_address(stack):
    honest, host = [await stack.enter_async_context(hosting(listen)) for listen in (True, False)]
    discovery = await stack.enter_async_context(discovering(host, second_tries=0, rest_s=0.01))
    wrong = (Multiaddr.parse("/ip4/127.0.0.1/tcp/1"),)
    discovery.learn(seal_record(honest.identity, PeerRecord(honest.peer, 1, wrong)), honest.peer)
    assert not await discovery.reach(honest.peer)
    await asyncio.sleep(0.05)
    reached = asyncio.ensure_future(discovery.reach(honest.peer))
    await asyncio.sleep(0.05)
    assert not reached.done()
    discovery.learn(seal_record(honest.identity, PeerRecord(honest.peer, 2, honest.addresses)), honest.peer)
    assert await reached


def record_of(host):
    return PeerRecord(host.peer, 1, host.addresses)


@run
async def test_records_read_of_a_source_are_bounded(stack):
    host = await stack.enter_async_context(hosting())
    limits = DiscoveryLimits(records=Rate(5, 0.001))
    discovery = Discovery(host, limits=limits)
    for _ in range(20):
        peer, record = sybil(host.addresses)
        discovery.learn(record, peer)
    discovery.found_record(sybil(())[1], "a rendezvous point")
    assert len(discovery.known) == 6
    await discovery.close()


@run
async def test_a_wrong_address_does_not_keep_a_bootstrap_peer_away(stack):
    tarpit = await (await stack.enter_async_context(Tarpit())).open(1)
    honest, host = [await stack.enter_async_context(hosting(listen)) for listen in (True, False)]
    discovery = await stack.enter_async_context(discovering(host, first_try_s=0.5))
    discovery.found(honest.peer, tuple(tarpit.addresses), "test")
    await until(lambda: tarpit.visitors)
    discovery.keep_connected(honest.addresses[0])
    await until(lambda: honest.peer in host.connections)


@run
async def test_a_search_finds_all_peers_in_parts_and_again_after_some_rounds(stack):
    host, asking = [await stack.enter_async_context(hosting(listen)) for listen in (True, True)]
    point = RendezvousPoint(host)
    records = set()
    for number in range(120):
        peer, record = sybil([Multiaddr.parse("/dns4/" + "a" * 200 + "/tcp/1")] * 17)
        register(point, peer, record, f"10.0.0.{number % 3}")
        records.add(record)
    found = []
    news = []
    search = RendezvousSearch(
        asking,
        [host.addresses[0]],
        topics=lambda: ["news"],
        record=lambda: seal_record(asking.identity, record_of(asking)),
        found=lambda record, source: found.append(record),
        report=news.append,
        interval_s=0.01,
    )
    try:
        await until(lambda: len(news) == 1)
        assert records <= set(found)
        await until(lambda: len(news) > ROUNDS)
        assert len(found) >= 2 * len(records)
    finally:
        await search.close()
