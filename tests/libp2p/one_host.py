"""A decorator for tests with a listening host, which is closed at the end of the test."""

from __future__ import annotations

import asyncio

from waiting import patience

from hearsay.libp2p.host import Host
from hearsay.libp2p.mux.stream import Stream, StreamClosed


def with_host(limits=None):
    """Return a decorator that makes a test from a coroutine function whose argument is the host."""

    def decorate(test):
        async def bounded():
            async with patience():
                host = Host(limits=limits)
                try:
                    await host.listen("/ip4/127.0.0.1/tcp/0")
                    await test(host)
                finally:
                    await host.close()

        return lambda: asyncio.run(bounded())

    return decorate


async def read_all(stream: Stream, count: int) -> bytes:
    """Return the next `count` bytes or more. Raise `StreamClosed` if the stream ends earlier."""
    received = b""
    while len(received) < count:
        piece = await stream.read()
        if not piece:
            raise StreamClosed(f"the stream ended {count - len(received)} bytes too early")
        received += piece
    return received
