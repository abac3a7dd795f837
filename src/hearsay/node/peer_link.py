"""One peer of a node: its two streams, what waits to go out, and what comes in.

Each side of a pubsub connection opens a stream of its own and only writes to it. What comes in (`intake.py`) waits
until our own stream is open, since only then the router knows the peer, and while too many of its messages wait for
validators.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from hearsay.core.language.identifiers import TopicId
from hearsay.core.language.rpc import Features
from hearsay.libp2p.mux.stream import Stream, StreamClosed
from hearsay.libp2p.names.peer_id import PeerId
from hearsay.node.incoming.intake import Intake
from hearsay.node.outgoing_queue import OutgoingMemory, OutgoingQueue, OutgoingRpc

_WRITE_BYTES = 256 * 1024
"""At most about so much is handed to the stream at once; the rest can still be dropped or overtaken."""


class PeerLink:
    def __init__(
        self,
        peer: PeerId,
        queue_bytes: int,
        memory: OutgoingMemory,
        address: str,
        intake: Intake,
        *,
        left: Callable[[PeerLink, list[OutgoingRpc]], None],
        lost: Callable[[PeerLink, OutgoingRpc], None],
    ) -> None:
        self.peer = peer
        self.intake = intake
        self.outbound: Stream | None = None
        self.said: tuple[tuple[TopicId, ...], Features | None] = (), None
        """Topics and extensions, known from before our stream was replaced."""
        self.settled = asyncio.Event()
        """Set when our first stream to the peer is open, or will not be."""
        self.queue = OutgoingQueue(queue_bytes, memory, partial(lost, self), address)
        self.delivered = 0
        """Messages that this peer was the first to bring."""
        self._left = left
        self._waiting = False

    @property
    def connected(self) -> bool:
        """Whether the router knows this peer."""
        return self.outbound is not None

    def set_outbound(self, stream: Stream | None) -> None:
        self.outbound = stream
        self.intake.set_open(stream is not None)

    def rest(self, for_s: float) -> None:
        """Read nothing from the peer for a while."""
        self.intake.rest(for_s)

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
