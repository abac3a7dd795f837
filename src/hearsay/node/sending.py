"""Sending of a router's RPCs: they are encoded once, split if they exceed the size limit, queued and written.

`Observers` are the trace, and the counters and durations for metrics. They observe sent and received RPCs, and the
events of the router.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

from hearsay.core.language.actions import Deliver, Reason, Send, TraceAction
from hearsay.core.language.identifiers import MessageId, TopicId
from hearsay.core.language.rpc import Features, Rpc
from hearsay.core.language.sizes import part_sizes, rpc_size
from hearsay.libp2p.frames import frame
from hearsay.libp2p.mux.stream import Stream, StreamClosed
from hearsay.libp2p.names.peer_id import PeerId
from hearsay.node.conduct import Statistics
from hearsay.node.intake import Intake
from hearsay.node.meeting.address_book import with_records
from hearsay.node.outgoing_queue import OutgoingMemory, OutgoingQueue, OutgoingRpc, Priority, by_priority
from hearsay.wire.encode import encode_rpc, split_rpc

if TYPE_CHECKING:
    from hearsay.node.measurements import Durations, Traffic
    from hearsay.node.trace_rows import TraceRows

_WRITE_BYTES = 256 * 1024
"""Approximate maximum bytes of one write to a stream. Other entries stay in the queue, where they can be dropped."""


class PeerLink:
    """The link to a peer: our stream to it, its streams to us (`intake`), and the RPCs that wait to be sent.

    *Our stream* is the stream that this node opens and writes its RPCs to. The peer opens the streams on which it
    sends its own RPCs (`links.py`).
    """

    def __init__(self, peer: PeerId, queue_bytes: int, address: str, intake: Intake, sender: Sender) -> None:
        self.peer = peer
        self.intake = intake
        self.outbound: Stream | None = None
        self.announced: tuple[tuple[TopicId, ...], Features | None] = (), None
        """The topics and extensions of the peer when our stream was lost, if the peer's own stream was still open.
        The router gets them when our next stream is open."""
        self.settled = asyncio.Event()
        """Set when our first stream to the peer is open, or will never be opened."""
        self.queue = OutgoingQueue(queue_bytes, sender.memory, partial(sender.lost, self), address)
        self.delivered = 0
        """Number of messages for the application that this peer was the first to send."""
        self._sender = sender
        self._waiting = False

    @property
    def connected(self) -> bool:
        """Return True if our stream is open, so that the peer is connected for the router."""
        return self.outbound is not None

    def set_outbound(self, stream: Stream | None) -> None:
        self.outbound = stream
        self.intake.set_open(stream is not None)

    def flush(self) -> None:
        """Write the entries of the queue, many in one write, until the stream accepts no more."""
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
            self._sender.count_sent(self, entries)

    async def drain(self) -> None:
        """Wait until all entries of the queue are sent, or our stream is gone."""
        with suppress(StreamClosed):
            while self.outbound is not None and (len(self.queue) or not self.outbound.writable):
                await self.outbound.drain()
                self.flush()

    def _writable(self) -> None:
        self._waiting = False
        self.flush()


@dataclass(eq=False)
class Sender:
    """The sender of a router's RPCs."""

    memory: OutgoingMemory
    _max_rpc_bytes: int
    _statistics: Statistics
    _observers: Observers
    _record_of: Callable[[PeerId], bytes | None]
    """Returns the signed record of a peer; None if the record is unknown."""
    _send_failed: Callable[[PeerLink, Rpc], None]
    """Called with the link and the RPC if an RPC of subscriptions or control was dropped (`Priority.CONTROL`)."""
    _withdraws: bool
    """True if peers may send IDONTWANT, so that waiting copies of messages may be withdrawn."""

    def __post_init__(self) -> None:
        self.messages_sent = self.messages_dropped = 0
        """`messages_sent` is the number of calls of `send` with messages. `messages_dropped` is the number of RPCs
        with messages, after splitting, that found no room in their queue. `Driver.publish` resets both."""
        self._to_flush: dict[PeerId, PeerLink] = {}
        self.last_encoded: tuple[Rpc, list[OutgoingRpc]] | None = None
        """The last encoded RPC and its entries, for other peers that get the same RPC. The driver sets it to None
        after each event."""

    def forget(self, peer: PeerId) -> None:
        self._to_flush.pop(peer, None)

    def send(self, action: Send, link: PeerLink) -> None:
        self.messages_sent += bool(action.rpc.messages)
        last = self.last_encoded
        if last is not None and last[0] is action.rpc:
            for entry in last[1]:
                self._queue(link, entry)
        else:
            self._encode(action, link)
        if not self._to_flush:
            asyncio.get_running_loop().call_soon(self.flush)
        self._to_flush[link.peer] = link

    def _encode(self, action: Send, link: PeerLink) -> None:
        """Encode an RPC in pieces. Queue each piece before the next piece is encoded, because the answer to a short
        IWANT can exceed the room of the queue. If the RPC is not split, store its entries in `last_encoded`.
        """
        rpc, observers = with_records(action.rpc, self._record_of), self._observers
        made_s = 0.0
        if observers.durations is not None:
            made_s = monotonic()
            if rpc.control is not None and rpc.control.iwant:
                observers.durations.asked_for(rpc.control.iwant)
        entries: list[OutgoingRpc] = []
        whole = True
        for priority, part in by_priority(rpc):
            pieces, oversized = split_rpc(part, self._max_rpc_bytes)
            self._statistics.messages_dropped += len(oversized)
            several = len(pieces) > 1
            vias = () if several else action.vias
            for piece in pieces:
                traced = () if observers.trace is None else observers.trace.parts(piece, vias)
                again = piece if priority is Priority.CONTROL else None
                copies = len(piece.messages) if priority is Priority.MESSAGE else 0
                withdrawn_as = piece.messages[0].id if self._withdraws and copies == 1 else None
                counted = tuple(part_sizes(piece)) if observers.traffic is not None else ()
                entry = OutgoingRpc(priority, b"", len(piece.messages), again, traced, withdrawn_as, counted, made_s)
                if several and not link.queue.make_room(rpc_size(piece), priority):
                    self.lost(link, entry)
                    self.messages_dropped += bool(entry.messages)
                    continue
                entry.frame = frame(encode_rpc(piece))
                self._queue(link, entry)
                entries.append(entry)
            whole = whole and not several
        if whole:
            self.last_encoded = action.rpc, entries

    def withdraw(self, link: PeerLink, message_id: MessageId) -> None:
        """Remove the copies of a message from the peer's queue, because the peer no longer wants the message."""
        for entry in link.queue.withdraw(message_id):
            self._statistics.messages_withdrawn += 1
            if self._observers.trace is not None:
                self._observers.trace.dropped(link.peer, entry.traced, Reason.WITHDRAWN)

    def _queue(self, link: PeerLink, entry: OutgoingRpc) -> None:
        if not link.queue.push(entry):
            self.messages_dropped += bool(entry.messages)

    def flush(self) -> None:
        links, self._to_flush = self._to_flush, {}
        for link in links.values():
            link.flush()

    def count_sent(self, link: PeerLink, entries: list[OutgoingRpc]) -> None:
        """Count and trace entries that were written to our stream."""
        statistics = self._statistics
        durations = self._observers.durations
        now_s = monotonic() if durations is not None else 0.0
        for entry in entries:
            statistics.rpcs_sent += 1
            statistics.bytes_sent += len(entry.frame)
            if self._observers.trace is not None:
                self._observers.trace.sent(link.peer, entry.traced)
            if self._observers.traffic is not None:
                self._observers.traffic.sent(entry.counted)
            if durations is not None:
                durations.queued.note(now_s - entry.made_s)

    def lost(self, link: PeerLink, entry: OutgoingRpc) -> None:
        """Count and trace an entry that found no room in a peer's queue or was dropped from it.

        If the entry has the priority CONTROL, report its RPC to the router, so that its parts are sent again.
        """
        statistics = self._statistics
        if entry.priority is Priority.GOSSIP:
            statistics.gossip_dropped += 1
        elif entry.priority is Priority.MESSAGE:
            statistics.messages_dropped += entry.messages
        else:
            statistics.control_dropped += 1
            assert entry.rpc_to_resend is not None
            asyncio.get_running_loop().call_soon(self._send_failed, link, entry.rpc_to_resend)
        if self._observers.trace is not None:
            self._observers.trace.dropped(link.peer, entry.traced, Reason.QUEUE_FULL)


@dataclass(slots=True)
class Observers:
    """The observers of a node. An observer is None if the configuration does not request it."""

    trace: TraceRows | None = None
    traffic: Traffic | None = None
    durations: Durations | None = None

    def received(self, peer: PeerId, rpc: Rpc) -> None:
        if self.trace is not None:
            self.trace.received(peer, rpc)
        if self.traffic is not None:
            self.traffic.received(rpc)
        if self.durations is not None:
            self.durations.copies_received(rpc.messages)

    def delivered(self, action: Deliver) -> None:
        if self.trace is not None:
            self.trace.delivered(action)
        if self.traffic is not None:
            self.traffic.delivered(action.message.topic)

    def happened(self, action: TraceAction) -> None:
        if self.trace is not None:
            self.trace.happened(action)
        if self.traffic is not None:
            self.traffic.happened(action)
