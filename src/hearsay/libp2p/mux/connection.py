"""One connection to one peer: an asyncio protocol around the upgrade, the secure channel and the multiplexer.

* Everything that is to be sent in one turn of the event loop leaves in one write.
* While the socket's buffer is full nothing more is sealed; data waits at its streams, whose writers see it.
* A peer that has not proven who it is before the deadline is cut off, so is one that breaks a protocol. A connection
  that is closed and cannot be flushed is cut off after `CLOSE_SECONDS`.
* A peer that says nothing for a while is pinged, and cut off when it does not answer. So is one whose socket takes
  nothing while bytes wait for it: a process that was stopped is gone after `idle_s` + `answer_s` and a bit.
* What waits for a peer, or came from it and was not read, is reserved in budgets. Whoever is over their own loses the
  stream, or the connection if it is the peer's own.
* Who takes leave closes one direction and reads on until the peer has closed the other: a socket that is closed with
  bytes unread throws away what it has not delivered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol, cast

from hearsay.libp2p.limits.resources import Budget, Resources, address_group
from hearsay.libp2p.mux.multistream import Dialer, Listener, Negotiation
from hearsay.libp2p.mux.stream import Stream, StreamClosed
from hearsay.libp2p.mux.upgrade import Upgrade
from hearsay.libp2p.mux.yamux import Finished, GoAway, Opened, Received, Reset, Yamux, YamuxEvent, YamuxLimits
from hearsay.libp2p.names.errors import MultistreamError, ProtocolError
from hearsay.libp2p.names.keys import PrivateKey
from hearsay.libp2p.names.peer_id import PeerId
from hearsay.libp2p.secure.noise import Channel

CLOSE_SECONDS = 2.0
LEAVE_SECONDS = 5.0
"""So long a peer has to read to the end of what it was sent."""
_WRITE_BUFFER = 256 * 1024
_MULTIPLEXED = 256 * 1024
"""What the multiplexer may make ready while the socket takes nothing."""
STREAM_BYTES = 4096
"""What a stream takes before it carries anything."""
NEGOTIATION_BYTES = 16 * 1024
"""A stream that has no protocol yet may keep so much, the above included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    handshake_s: float = 10.0
    """From the socket's opening to a secured, multiplexed connection."""
    negotiation_s: float = 10.0
    """For a stream's protocol."""
    max_negotiating: int = 64
    """Inbound streams that have no protocol yet."""
    idle_s: float = 10.0
    """Who has said nothing for so long is pinged."""
    answer_s: float = 10.0
    """Who says nothing for so long after that is gone."""
    write_s: float = 10.0
    """So is whose socket takes nothing for so long while bytes wait."""
    yamux: YamuxLimits = field(default_factory=YamuxLimits)


class Owner(Protocol):
    """Who a connection belongs to: the host."""

    @property
    def protocols(self) -> Collection[str]:
        """What is offered on streams."""
        ...

    @property
    def resources(self) -> Resources: ...

    def connection_ready(self, connection: Connection) -> None: ...

    def connection_gone(self, connection: Connection) -> None: ...

    def connection_over_limit(self, connection: Connection) -> None:
        """A peer made this host keep more than it may."""
        ...

    def stream_opened(self, connection: Connection, stream: Stream) -> None: ...

    def drop(self, connection: Connection) -> None:
        """End a connection now, also for whoever uses its streams."""
        ...


class Connection(asyncio.Protocol):
    def __init__(
        self, owner: Owner, identity: PrivateKey, dialer: bool, limits: ConnectionLimits, expected: PeerId | None
    ) -> None:
        self._owner = owner
        self._limits = limits
        self.dialed = dialer
        self.peer: PeerId = b""
        """Known when the connection is ready."""
        self.address = ""
        """What the other end counts as (`address_group`); known when there is a socket."""
        self._loop = asyncio.get_running_loop()
        self.since = self._loop.time()
        self.ready: asyncio.Future[None] = self._loop.create_future()
        """Done when the connection can carry streams, or never will."""
        self.gone: asyncio.Future[None] = self._loop.create_future()
        """Done when the socket is closed."""
        self.closed = False
        self.ended_by_peer = False
        """The peer has closed its direction; it does so when it has read to the end of ours."""
        self._transport: asyncio.Transport | None = None
        self._identity = identity
        self._expected = expected
        self._upgrade: Upgrade | None = None
        self._channel: Channel | None = None
        self._mux = Yamux(dialer, limits.yamux)
        self._streams: dict[int, Stream] = {}
        self._negotiating: dict[int, _NegotiationInput] = {}
        self._writers: dict[int, tuple[Stream, list[Callable[[], None]]]] = {}
        """Who waits for a stream to be writable."""
        self._flushing = False
        self.congested = False
        """The socket takes no more for now."""
        self._timer: asyncio.TimerHandle | None = None
        """The handshake's deadline, then the next look at whether the peer is alive."""
        self.budget = Budget("connection", 0)
        """What the peer's streams do not reserve themselves; there is none before the peer is known."""
        self._sealed_bytes = 0
        self._unsent_bytes = 0
        """Parts of `budget`: a frame that is not complete; what waits for the socket."""
        self._heard_s = self._moved_s = self.since
        """When the peer last sent something; when the socket last took something, or had nothing to take."""
        self._pinged_s: float | None = None
        self._written = self._taken = 0
        """Bytes handed to the socket; those that it had taken at the last look."""

    @property
    def streams(self) -> int:
        return len(self._streams)

    def inbound_streams(self, protocol: str) -> int:
        """Streams that the peer opened for a protocol."""
        parity = 0 if self.dialed else 1
        return sum(
            1 for number, stream in self._streams.items() if number % 2 == parity and stream.protocol == protocol
        )

    @property
    def remote_address(self) -> tuple[str, int] | None:
        name = self._transport.get_extra_info("peername") if self._transport is not None else None
        return (name[0], name[1]) if name else None

    def kept_in(self, budget: Budget) -> int:
        """What is reserved for this connection in a budget that others share."""
        own = (self.budget, *(stream.budget for stream in self._streams.values()))
        return sum(reserved.used for reserved in own if reserved in budget)

    async def open_stream(self, protocols: Sequence[str]) -> Stream:
        """A stream for the first of `protocols` the peer speaks; `MultistreamError` when it speaks none."""
        if self._channel is None or self.closed:
            raise StreamClosed("the connection is closed")
        number = self._mux.open()
        stream = self._unnamed(number)
        if stream is None:
            self._mux.reset(number)
            raise StreamClosed("there is no room for one stream more of this peer")
        agreed: asyncio.Future[None] = self._loop.create_future()
        negotiating = self._negotiate(stream, Dialer(protocols), agreed)
        try:
            await agreed
        except asyncio.CancelledError:
            negotiating.give_up()
            raise
        return stream

    def send(self, number: int, data: bytes) -> None:
        if not self._mux.send(number, data) and number in self._streams:
            stream = self._streams[number]
            self._loop.call_soon(self._end_for_room, stream, *self._over_own(stream.budget, len(data)))
        self._flush_soon()

    def unsent(self, number: int) -> int:
        return self._mux.unsent(number)

    def read(self, number: int, count: int) -> None:
        self._mux.read(number, count)
        self._flush_soon()

    def finish(self, number: int) -> None:
        self._mux.finish(number)
        self._forget_if_over(number)
        self._flush_soon()

    def reset(self, number: int) -> None:
        self._mux.reset(number)
        self._streams.pop(number, None)
        self._call_writers(number)
        self._flush_soon()

    def over_budget(self, stream: Stream, count: int) -> None:
        self._end_for_room(stream, *self._over_own(stream.budget, count))

    def _over_own(self, budget: Budget, count: int) -> tuple[bool, bool]:
        """Whether so many bytes more are too many for a budget itself, and for the peer; if not, others have them."""
        peers = self._owner.resources.peer(self.peer, self.address)
        return budget.used + count > budget.limit, peers.used + count > peers.limit

    def _end_for_room(self, stream: Stream, streams_own: bool, peers_own: bool) -> None:
        if stream.was_reset or self.closed:
            return
        if streams_own or peers_own:
            self._owner.connection_over_limit(self)
        if peers_own:
            self._expel()
        else:
            stream.reset()

    def call_when_writable(self, stream: Stream, callback: Callable[[], None]) -> None:
        self._writers.setdefault(stream.id, (stream, []))[1].append(callback)
        self._flush_soon()

    def close(self, code: GoAway = GoAway.NORMAL) -> None:
        """Say goodbye and close. What streams have not sent yet is lost."""
        if self.closed:
            return
        self.closed = True
        transport = self._transport
        if transport is None:
            return
        if self._channel is not None and not transport.is_closing():
            self._mux.go_away(code)
            transport.write(self._channel.seal(self._mux.take()))
        transport.close()
        self._loop.call_later(CLOSE_SECONDS, transport.abort)

    def take_leave(self) -> None:
        """Say goodbye and close when the peer has done so too, at the latest after `LEAVE_SECONDS`."""
        transport = self._transport
        if self.closed or transport is None or self._channel is None or transport.is_closing():
            self.close()
            return
        self.closed = True
        self._mux.go_away(GoAway.NORMAL)
        transport.write(self._channel.seal(self._mux.take()))
        with suppress(OSError):  # the peer may have reset the connection
            transport.write_eof()
        self._loop.call_later(LEAVE_SECONDS, transport.abort)

    @property
    def attached(self) -> bool:
        """Whether it ever had a socket."""
        return self._transport is not None

    def abort(self) -> None:
        self.closed = True
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        remote = self.remote_address
        self.address = address_group(remote[0]) if remote is not None else ""
        if self.closed:
            self.abort()
            return
        self._transport.set_write_buffer_limits(_WRITE_BUFFER)
        self._timer = self._loop.call_later(self._limits.handshake_s, self._too_late)
        self._upgrade = Upgrade(self._identity, self.dialed, self._expected)
        self._transport.write(self._upgrade.start())

    def data_received(self, data: bytes) -> None:
        if self.closed or self._transport is None:
            return
        self._heard_s = self._loop.time()
        try:
            if self._channel is not None:
                opened = self._channel.open(data)
                if self._channel.buffered_bytes != self._sealed_bytes and not self._keep_sealed():
                    return
                self._act_on(self._mux.receive(opened))
            elif self._upgrade is not None:
                self._transport.write(self._upgrade.receive(data))
                if self._upgrade.done:
                    self._upgraded(self._upgrade)
        except ProtocolError as error:
            self._fail(error)

    def pause_writing(self) -> None:
        self.congested = True
        if self._transport is not None and self._channel is not None:
            count = self._transport.get_write_buffer_size() + _MULTIPLEXED
            if self.budget.reserve(count):
                self._unsent_bytes = count
            else:
                self._loop.call_soon(self._no_room, count)

    def resume_writing(self) -> None:
        self.congested = False
        self.budget.release(self._unsent_bytes)
        self._unsent_bytes = 0
        self._flush()

    def eof_received(self) -> None:
        self.ended_by_peer = True

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self._stop_timer()
        if not self.ready.done():
            self._refuse(ProtocolError(str(exc) if exc else "the peer closed the connection during the handshake"))
        self.end_streams()
        self._owner.connection_gone(self)
        self.gone.set_result(None)

    def end_streams(self) -> None:
        """Tell everybody who uses a stream that it is gone."""
        for stream in list(self._streams.values()):
            stream.on_reset()
        self._streams.clear()
        for number in list(self._writers):
            self._call_writers(number)
        for negotiating in list(self._negotiating.values()):
            negotiating.fail(StreamClosed("the connection is gone"))
        self.budget.close()

    def _upgraded(self, upgrade: Upgrade) -> None:
        channel = upgrade.channel
        assert channel is not None
        self._channel = channel
        self.peer = channel.peer
        self.budget = self._mux.budget = self._owner.resources.connection(channel.peer, self.address)
        self._upgrade = None
        self._stop_timer()
        self._look()
        self.ready.set_result(None)
        self._owner.connection_ready(self)
        if not self.closed:
            self._act_on(self._mux.receive(upgrade.leftover))

    def _look(self) -> None:
        """Whether the peer is alive; again in a while."""
        transport, limits = self._transport, self._limits
        if transport is None or self.closed:
            return
        now_s = self._loop.time()
        waiting = transport.get_write_buffer_size()
        taken = self._written - waiting
        if taken != self._taken or not waiting:
            self._taken, self._moved_s = taken, now_s
        if self._pinged_s is None or self._heard_s >= self._pinged_s:
            self._pinged_s = None
            if now_s - self._heard_s >= limits.idle_s:
                self._pinged_s = now_s
                self._mux.ping(0)
                self._flush_soon()
        elif now_s - self._pinged_s >= limits.answer_s:
            self.abort()
            return
        if now_s - self._moved_s >= limits.write_s:
            self.abort()
            return
        self._timer = self._loop.call_later(min(limits.idle_s, limits.answer_s, limits.write_s) / 4, self._look)

    def _keep_sealed(self) -> bool:
        """Reserve what the channel keeps of a frame that is not complete; False if there is no room."""
        assert self._channel is not None
        self.budget.release(self._sealed_bytes)
        self._sealed_bytes = self._channel.buffered_bytes
        if self.budget.reserve(self._sealed_bytes):
            return True
        self._no_room(self._sealed_bytes)
        return False

    def _no_room(self, count: int) -> None:
        if any(self._over_own(self.budget, count)):
            self._owner.connection_over_limit(self)
        self._expel()

    def _expel(self) -> None:
        """The peer takes more room than there is for it. Whoever uses its streams hears of that in a turn of the loop
        of its own, since this one may be theirs."""
        self.close(GoAway.INTERNAL_ERROR)
        self._loop.call_soon(self._owner.drop, self)

    def _act_on(self, events: list[YamuxEvent]) -> None:
        for event in events:
            if isinstance(event, Received):
                stream = self._streams.get(event.stream)
                if stream is not None:
                    self._data(stream, event.data)
            elif isinstance(event, Opened):
                self._accept(event.stream)
            elif isinstance(event, Finished):
                stream = self._streams.get(event.stream)
                if stream is not None:
                    self._ended(stream)
            elif isinstance(event, Reset):
                stream = self._streams.pop(event.stream, None)
                negotiating = self._negotiating.get(event.stream)
                if negotiating is not None:
                    negotiating.fail(StreamClosed("the peer reset the stream"))
                if stream is not None:
                    stream.on_reset()
                self._call_writers(event.stream)
            if self.closed:
                return
        self._flush_soon()

    def _data(self, stream: Stream, data: bytes) -> None:
        negotiating = self._negotiating.get(stream.id)
        if negotiating is None:
            stream.on_data(data)
        else:
            self._mux.read(stream.id, len(data) - negotiating.receive(data))

    def _ended(self, stream: Stream) -> None:
        negotiating = self._negotiating.get(stream.id)
        if negotiating is not None:
            negotiating.fail(StreamClosed("the peer closed the stream before it had a protocol"))
            stream.reset()
        else:
            stream.on_end()
            self._forget_if_over(stream.id)

    def _accept(self, number: int) -> None:
        if sum(1 for waiting in self._negotiating.values() if waiting.agreed is None) >= self._limits.max_negotiating:
            self._mux.reset(number)
            return
        stream = self._unnamed(number)
        if stream is None:
            self._mux.reset(number)
        else:
            self._negotiate(stream, Listener(self._owner.protocols), None)

    def _unnamed(self, number: int) -> Stream | None:
        """A stream that has no protocol yet, if there is room for it."""
        budget = Budget("negotiation", NEGOTIATION_BYTES, (self.budget,))
        if not budget.reserve(STREAM_BYTES):
            return None
        stream = self._streams[number] = Stream(self, number, budget)
        self._mux.charge(number, budget)
        return stream

    def named(self, stream: Stream, protocol: str) -> bool:
        """A stream has its protocol, and a budget as such; False if there is no room for it there."""
        stream.budget.close()
        stream.budget = self._owner.resources.stream(self.peer, self.address, protocol)
        if not stream.budget.reserve(STREAM_BYTES) or not self._mux.charge(stream.id, stream.budget):
            return False
        stream.protocol = protocol
        return True

    def _negotiate(
        self, stream: Stream, negotiation: Negotiation, agreed: asyncio.Future[None] | None
    ) -> _NegotiationInput:
        deadline = self._loop.call_later(self._limits.negotiation_s, self._negotiation_late, stream)
        negotiating = self._negotiating[stream.id] = _NegotiationInput(self, stream, negotiation, agreed, deadline)
        self.send(stream.id, negotiation.start())
        return negotiating

    def negotiated(self, negotiating: _NegotiationInput) -> None:
        """A stream has its protocol, or will never have one."""
        negotiating.deadline.cancel()
        self._negotiating.pop(negotiating.stream.id, None)
        stream = negotiating.stream
        if negotiating.agreed is None and stream.protocol and not stream.was_reset:
            self._owner.stream_opened(self, stream)

    def _negotiation_late(self, stream: Stream) -> None:
        negotiating = self._negotiating.get(stream.id)
        if negotiating is not None:
            negotiating.fail(MultistreamError(f"no protocol was agreed within {self._limits.negotiation_s:g} s"))
            stream.reset()

    def _flush_soon(self) -> None:
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        channel, transport = self._channel, self._transport
        if channel is None or transport is None or self.closed:
            return
        while not self.congested:
            output = self._mux.take()
            if not output:
                break
            sealed = channel.seal(output)
            self._written += len(sealed)
            transport.write(sealed)
        for number in self._mux.take_drained():
            self._forget_if_over(number)
        if self._writers and not self.congested:
            for number, (stream, _) in list(self._writers.items()):
                if stream.was_reset or stream.writable:
                    self._call_writers(number)

    def _call_writers(self, number: int) -> None:
        for callback in self._writers.pop(number, (None, ()))[1]:
            callback()

    def _forget_if_over(self, number: int) -> None:
        """Both sides have finished the stream."""
        if not self._mux.has(number):
            stream = self._streams.pop(number, None)
            if stream is not None:
                stream.on_over()

    def _too_late(self) -> None:
        self._refuse(ProtocolError(f"the handshake took longer than {self._limits.handshake_s:g} s"))
        self.abort()

    def _fail(self, error: ProtocolError) -> None:
        """The peer broke a protocol."""
        self._refuse(error)
        self.close(GoAway.PROTOCOL_ERROR)

    def _refuse(self, error: ProtocolError) -> None:
        self._stop_timer()
        if not self.ready.done():
            self.ready.set_exception(error)
            self.ready.exception()  # asyncio complains about errors that nobody looked at

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _NegotiationInput:
    """A stream on its way to a protocol."""

    __slots__ = ("_connection", "_negotiation", "agreed", "deadline", "stream")

    def __init__(
        self,
        connection: Connection,
        stream: Stream,
        negotiation: Negotiation,
        agreed: asyncio.Future[None] | None,
        deadline: asyncio.TimerHandle,
    ) -> None:
        self._connection = connection
        self.stream = stream
        self._negotiation = negotiation
        self.agreed = agreed
        """For who waits, at streams we opened."""
        self.deadline = deadline

    def receive(self, data: bytes) -> int:
        """Take bytes of the peer; how many of them belong to what comes after."""
        try:
            answer = self._negotiation.receive(data)
        except MultistreamError as error:
            self.fail(error)
            self.stream.reset()
            return 0
        if answer:
            self.stream.write(answer)
        if self._negotiation.protocol is not None:
            if not self._connection.named(self.stream, self._negotiation.protocol):
                self.fail(StreamClosed("there is no room for one stream more of this protocol"))
                self.stream.reset()
                return 0
            if self.agreed is not None and not self.agreed.done():
                self.agreed.set_result(None)
            self.stream.preload(self._negotiation.leftover)
            self._connection.negotiated(self)
        return len(self._negotiation.leftover)

    def fail(self, error: Exception) -> None:
        if self.agreed is not None and not self.agreed.done():
            self.agreed.set_exception(error)
        self._connection.negotiated(self)

    def give_up(self) -> None:
        """Whoever waited does not any more."""
        self._connection.negotiated(self)
        self.stream.reset()
