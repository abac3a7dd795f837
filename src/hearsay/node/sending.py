"""Sending of a router's RPCs, which are encoded once, split at the limit, queued and written."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from time import monotonic

from hearsay.core.language.actions import Reason, Send
from hearsay.core.language.identifiers import MessageId, TopicId
from hearsay.core.language.rpc import Control, Features, Rpc
from hearsay.core.language.sizes import part_sizes, rpc_size
from hearsay.libp2p.limits.frames import frame
from hearsay.libp2p.mux.stream import Stream, StreamClosed
from hearsay.libp2p.names.peer_id import PeerId
from hearsay.node.conduct import Statistics
from hearsay.node.intake import Intake
from hearsay.node.meeting.address_book import with_records
from hearsay.node.observers import Observers
from hearsay.node.outgoing_queue import OutgoingMemory, OutgoingQueue, OutgoingRpc, Priority, by_priority
from hearsay.wire.encode import encode_rpc
from hearsay.wire.splitting import split_rpc

_WRITE_BYTES = 256 * 1024
"""Approximate maximum bytes that one write passes to the stream. Only entries in the queue can still be dropped."""


class PeerLink:
    """The link to a peer: our stream to it, its streams to us (`intake`), and the RPCs that wait to be sent."""

    def __init__(
        self,
        peer: PeerId,
        queue_bytes: int,
        address: str,
        intake: Intake,
        sender: Sender,
    ) -> None:
        self.peer = peer
        self.intake = intake
        self.outbound: Stream | None = None
        self.announced: tuple[tuple[TopicId, ...], Features | None] = (), None
        """The peer's topics and extensions from before our stream was lost, for the router when it is open again."""
        self.settled = asyncio.Event()
        """Set when our first stream to the peer is open, or can never be opened."""
        self.queue = OutgoingQueue(queue_bytes, sender.memory, partial(sender.lost, self), address)
        self.delivered = 0
        """Number of delivered messages that this peer was the first to send."""
        self._sender = sender
        self._waiting = False

    @property
    def connected(self) -> bool:
        """Return True if the router knows this peer."""
        return self.outbound is not None

    def set_outbound(self, stream: Stream | None) -> None:
        self.outbound = stream
        self.intake.set_open(stream is not None)

    def flush(self) -> None:
        """Write the waiting entries, many in one write, while the stream accepts more."""
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
        """Wait until all entries are sent, or the peer is gone."""
        with suppress(StreamClosed):
            while self.outbound is not None and (len(self.queue) or not self.outbound.writable):
                await self.outbound.drain()
                self.flush()

    def _writable(self) -> None:
        self._waiting = False
        self.flush()


class Sender:
    """Sends the RPCs of a router. `record_of` returns a peer's signed record; `send_failed` gets dropped control."""

    def __init__(
        self,
        memory: OutgoingMemory,
        max_rpc_bytes: int,
        statistics: Statistics,
        observers: Observers,
        record_of: Callable[[PeerId], bytes | None],
        send_failed: Callable[[PeerLink, Rpc], None],
        *,
        withdraws: bool,
    ) -> None:
        self.memory = memory
        self._max_rpc_bytes = max_rpc_bytes
        self._statistics = statistics
        self._observers = observers
        self._record_of = record_of
        self._send_failed = send_failed
        self._withdraws = withdraws
        self.messages_sent = self.messages_dropped = 0
        """Numbers of sent RPCs with messages, and of those without room. `Driver.publish` resets both."""
        self._to_flush: dict[PeerId, PeerLink] = {}
        self.last_encoded: tuple[Rpc, list[OutgoingRpc]] | None = None
        """The last encoded RPC and its frames. The driver clears them after each event."""

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
        """Encode an RPC in pieces. Queue each piece before the next is encoded, because the answer to a short request
        can exceed the room. Keep the frames of an RPC that is not split for the next peer that gets the same RPC."""
        rpc, observers = action.rpc, self._observers
        if rpc.control is not None and any(prune.peers for prune in rpc.control.prune):
            rpc = replace(rpc, control=self._with_records(rpc.control))
        if rpc.control is not None and rpc.control.episub:
            rpc = replace(rpc, control=with_records(rpc.control, self._record_of))
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
            for piece in pieces:
                traced = (
                    observers.trace.parts(piece, () if several else action.vias)
                    if observers.trace is not None
                    else ()
                )
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
        """Withdraw the waiting copies of a message that the peer no longer wants."""
        for entry in link.queue.withdraw(message_id):
            self._statistics.messages_withdrawn += 1
            if self._observers.trace is not None:
                self._observers.trace.dropped(link.peer, entry.traced, Reason.WITHDRAWN)

    def _queue(self, link: PeerLink, entry: OutgoingRpc) -> None:
        if not link.queue.push(entry):
            self.messages_dropped += bool(entry.messages)

    def _with_records(self, control: Control) -> Control:
        """Return the control message with the known signed records in its peer exchange."""
        prunes = [
            replace(
                prune,
                peers=tuple(
                    replace(known, record=self._record_of(known.peer))
                    for known in prune.peers
                    if isinstance(known.peer, bytes)
                ),
            )
            for prune in control.prune
        ]
        return replace(control, prune=tuple(prunes))

    def flush(self) -> None:
        links, self._to_flush = self._to_flush, {}
        for link in links.values():
            link.flush()

    def count_sent(self, link: PeerLink, entries: list[OutgoingRpc]) -> None:
        """Count and trace entries that were written to the stream."""
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
        """Count and trace an entry that was dropped from a peer's queue, and report its control to be sent again."""
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
