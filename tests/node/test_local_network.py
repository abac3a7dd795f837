"""Peers found by multicast DNS on the loopback interface."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from waiting import patience

from hearsay.libp2p.names.keys import PrivateKey
from hearsay.libp2p.names.multiaddr import Multiaddr
from hearsay.libp2p.names.peer_id import peer_id_of
from hearsay.node.config import NodeConfig
from hearsay.node.meeting.rendezvous import (
    MAX_ADDRESSES,
    MAX_QUERIES,
    SERVICE,
    LocalNetwork,
    from_text_record,
    to_text_record,
)
from hearsay.node.node import Node

PEER = peer_id_of(PrivateKey.generate().public)


def test_two_nodes_find_each_other_without_an_address():
    pytest.importorskip("zeroconf")

    async def work():
        config = NodeConfig(local_network=True, local_interfaces=("127.0.0.1",))
        async with patience(), Node(config) as one, Node(config) as two:
            topic, _ = await one.join("news"), await two.join("news")
            while not (one.topic_peers("news") and two.topic_peers("news")):
                await asyncio.sleep(0.02)
            await two.publish("news", b"found", wait_for_peers=True)
            assert (await topic.next()).data == b"found"

    asyncio.run(work())


def test_addresses_come_back_by_peer():
    addresses = [Multiaddr.parse(f"/ip4/10.0.0.{place}/tcp/4001").with_peer(PEER) for place in range(3)]
    assert from_text_record(to_text_record(addresses)) == {PEER: tuple(addresses)}


def test_a_record_full_of_addresses_is_cut():
    many = [Multiaddr.parse(f"/ip4/10.0.{place}.1/tcp/4001").with_peer(PEER) for place in range(200)]
    assert len(from_text_record(to_text_record(many))[PEER]) == MAX_ADDRESSES


def test_names_asked_for_at_a_time_are_bounded():
    zeroconf = pytest.importorskip("zeroconf")

    async def work():
        network = LocalNetwork(lambda peer, addresses: None)
        for number in range(3 * MAX_QUERIES):
            network._seen(None, SERVICE, f"{number}.{SERVICE}", zeroconf.ServiceStateChange.Added)
        assert len(network._queries) == MAX_QUERIES
        await network.close()
        assert not network._queries

    asyncio.run(work())


@given(st.binary(max_size=300) | st.lists(st.binary(max_size=60)).map(lambda lines: lines_of(*lines)))
def test_any_record_is_read(record):
    assert all(address.peer == peer for peer, found in from_text_record(record).items() for address in found)


def lines_of(*lines):
    return b"".join(bytes((8 + len(line),)) + b"dnsaddr=" + line for line in lines)
