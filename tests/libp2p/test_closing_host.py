"""A host can be closed at any moment of a connection's life."""

from __future__ import annotations

import asyncio
import socket

import pytest

from hearsay.libp2p.host import Host


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("turns", range(6))
def test_closing_while_a_peer_connects(turns):
    """In some turn of the loop the socket is accepted, but the server closes before it has a transport. A peer takes
    its time to go, so that there is something to wait for."""

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
