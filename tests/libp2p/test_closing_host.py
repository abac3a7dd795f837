"""A host can be closed at any moment of a connection's life."""

from __future__ import annotations

import asyncio
import socket

import pytest

from hearsay.libp2p.host import Host


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("turns", range(6))
def test_closing_while_a_peer_connects(turns):
    """After some turns, the socket is accepted but has no transport yet. `close` waits for the connected peer."""

    async def main():
        host, peer = Host(), Host()
        (address,) = await host.listen("/ip4/127.0.0.1/tcp/0")
        await peer.dial(address)
        with socket.create_connection(address.tcp_endpoint):
            for _ in range(turns):
                await asyncio.sleep(0)
            async with asyncio.timeout(20):
                await host.close()
        await peer.close()

    asyncio.run(main())
