"""One peer of a node: its two streams, what waits to go out, and what it is owed in validations.

Each side of a pubsub connection opens a stream of its own and only writes to it. Inbound data waits until our own
stream is open, since only then the router knows the peer, and pauses while too many of the peer's messages wait for
validators.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from hearsay.libp2p.errors import FrameError
from hearsay.libp2p.frames import FrameReader
from hearsay.libp2p.peer_id import PeerId
from hearsay.libp2p.stream import Stream, StreamClosed
from hearsay.node.outgoing import Outgoing, OutgoingMemory, OutgoingQueue

_WRITE_BYTES = 256 * 1024
"""At most about so much is handed to the stream at once; the rest can still be dropped or overtaken."""


class PeerLink:
    def __init__(
        self,
        peer: PeerId,
        queue_bytes: int,
        memory: OutgoingMemory,
        address: str,
        *,
        left: Callable[[PeerLink, list[Outgoing]], None],
        lost: Callable[[PeerLink, Outgoing], None],
    ) -> None:
        self.peer = peer
        self.outbound: Stream | None = None
        self.inbound: Stream | None = None
        self.settled = asyncio.Event()
        """Set when our first stream to the peer is open, or will not be."""
        self.queue = OutgoingQueue(queue_bytes, memory, partial(lost, self), address)
        self.pending_validations = 0
        self._left = left
        self._waiting = False
        self._paused = False
        self._rest: asyncio.TimerHandle | None = None

    @property
    def connected(self) -> bool:
        """Whether the router knows this peer."""
        return self.outbound is not None

    def set_outbound(self, stream: Stream | None) -> None:
        self.outbound = stream
        self.set_paused(self._paused)

    def replace_inbound(self, stream: Stream) -> None:
        """A newer inbound stream takes the place of an older one."""
        if self.inbound is not None:
            self.inbound.reset()
        self.inbound = stream
        self.set_paused(self._paused)

    def set_paused(self, paused: bool) -> None:
        """Stop or go on reading from the peer."""
        self._paused = paused
        if self.inbound is not None:
            if paused or self._rest is not None or not self.connected:
                self.inbound.pause()
            else:
                self.inbound.resume()

    def rest(self, for_s: float) -> None:
        """Read nothing from the peer for a while."""
        if self._rest is not None:
            self._rest.cancel()
        self._rest = asyncio.get_running_loop().call_later(for_s, self._rested)
        self.set_paused(self._paused)

    def _rested(self) -> None:
        self._rest = None
        self.set_paused(self._paused)

    def flush(self) -> None:
        """Write what waits, in one piece, if the peer takes it."""
        stream = self.outbound
        if stream is None or self._waiting:
            return
        while len(self.queue):
            if not stream.writable:
                self._waiting = True
                stream.call_when_writable(self._writable)
                return
            entries = self.queue.take(_WRITE_BYTES)
            stream.write(b"".join([entry.frame for entry in entries]))
            self._left(self, entries)

    async def drain(self) -> None:
        """Until everything has left for the peer, or the peer is gone."""
        with suppress(StreamClosed):
            while self.outbound is not None and (len(self.queue) or not self.outbound.writable):
                await self.outbound.drain()
                self.flush()

    def _writable(self) -> None:
        self._waiting = False
        self.flush()


class Inbound:
    """Cuts a peer's stream into RPCs."""

    def __init__(
        self,
        link: PeerLink,
        stream: Stream,
        limit: int,
        received: Callable[[PeerLink, bytes], None],
        malformed: Callable[[PeerLink], None],
    ) -> None:
        self._link = link
        self._stream = stream
        self._frames = FrameReader(limit, stream.budget)
        self._received = received
        self._malformed = malformed

    def data_received(self, data: bytes) -> None:
        try:
            frames = self._frames.receive(data)
        except FrameError:
            self._malformed(self._link)
            raise
        for frame in frames:
            if self._link.inbound is not self._stream:
                return
            if frame:
                self._received(self._link, frame)

    def stream_ended(self, reset: bool) -> None:
        if self._link.inbound is self._stream:
            self._link.inbound = None
        if not reset:
            self._stream.finish()
