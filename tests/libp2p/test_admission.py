"""Who a host deals with: the gate of its owner, asked for addresses and for peers."""

from __future__ import annotations

import asyncio

import pytest
from attacker import PROTOCOL_ERROR, Attacker

from hearsay.libp2p.errors import DialError
from hearsay.libp2p.host import Host
from hearsay.libp2p.keys import PrivateKey
from hearsay.libp2p.peer_id import peer_id_of


def run(test):
    async def with_host():
        async with asyncio.timeout(60):
            host = Host()
            try:
                await host.listen("/ip4/127.0.0.1/tcp/0")
                await test(host)
            finally:
                await host.close()

    return lambda: asyncio.run(with_host())


@run
async def test_an_address_that_is_kept_out_gets_no_handshake(host):
    host.admits = lambda peer, address: address != "127.0.0.2"
    kept_out = await Attacker.connect(host, "127.0.0.2")
    assert await kept_out.until_closed() == b""
    assert host.refused == 1
    await (await Attacker.connect(host)).upgrade()


@run
async def test_a_peer_that_is_kept_out_is_let_go_when_it_has_said_who_it_is(host):
    unwanted = PrivateKey.generate()
    seen = []
    host.on_peer_up.append(seen.append)
    host.admits = lambda peer, address: peer != peer_id_of(unwanted.public)
    kept_out = await (await Attacker.connect(host)).upgrade(unwanted)
    assert PROTOCOL_ERROR not in await kept_out.until_closed()
    assert (seen, host.refused) == ([], 1)


@run
async def test_who_is_kept_out_is_not_dialled(host):
    other = Host()
    try:
        (address,) = await other.listen("/ip4/127.0.0.1/tcp/0")
        host.admits = lambda peer, address: peer != other.peer
        with pytest.raises(DialError, match="kept out"):
            await host.dial(address)
        host.admits = lambda peer, address: address != "127.0.0.1"
        with pytest.raises(DialError, match="kept out"):
            await host.dial(address)
        assert other.refused == 0
    finally:
        await other.close()


@run
async def test_the_address_of_a_connected_peer(host):
    identity = PrivateKey.generate()
    peer = peer_id_of(identity.public)
    connected = asyncio.Event()
    host.on_peer_up.append(lambda _: connected.set())
    assert host.address_of(peer) == ""
    await (await Attacker.connect(host, "127.0.0.9")).upgrade(identity)
    await connected.wait()
    assert host.address_of(peer) == "127.0.0.9"
