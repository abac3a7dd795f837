"""Our pubsub stream to each peer: opened when the peer has come, and again, a few times, when the peer ends it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

from hearsay.libp2p.host.node_host import NodeHost
from hearsay.libp2p.mux.stream import StreamClosed
from hearsay.libp2p.names.errors import MultistreamError, ProtocolError
from hearsay.libp2p.names.peer_id import PeerId
from hearsay.node.driver import Driver
from hearsay.node.sending import PeerLink

REOPEN_SECONDS = (0.1, 1.0, 5.0)
"""Waits before our stream to a peer that ended it is opened again; then the peer is left alone."""


class OurStreams:
    """`start` begins a task that ends with the node."""

    def __init__(
        self,
        host: NodeHost,
        driver: Driver,
        start: Callable[[Coroutine[None, None, None]], asyncio.Task[None]],
    ) -> None:
        self._host = host
        self._driver = driver
        self._start = start

    def peer_up(self, peer: PeerId) -> None:
        links = self._driver.links
        links.peer_up(peer)
        link = links.of[peer]
        opening = self._start(self._open(link))
        opening.add_done_callback(lambda _: link.settled.set())

    async def _open(self, link: PeerLink) -> None:
        driver = self._driver
        for wait_s in (0.0, *REOPEN_SECONDS):
            await asyncio.sleep(wait_s)
            if driver.links.of.get(link.peer) is not link:
                return
            try:
                stream = await self._host.open_stream(link.peer, driver.protocols)
            except MultistreamError:
                return  # the peer does not speak pubsub
            except (StreamClosed, ProtocolError):
                continue
            if driver.links.of.get(link.peer) is not link:
                stream.reset()
                return
            ended = asyncio.Event()
            driver.links.outbound_open(link, stream)
            stream.receive_with(_OurStream(ended))
            await ended.wait()
            if link.outbound is stream:
                driver.links.outbound_lost(link)


class _OurStream:
    """Watches the stream we write to; nothing is expected on it."""

    def __init__(self, ended: asyncio.Event) -> None:
        self._ended = ended

    def data_received(self, data: bytes) -> None:
        raise ProtocolError("data on a stream that is ours to write to")

    def stream_ended(self, reset: bool) -> None:
        if reset:
            self._ended.set()
