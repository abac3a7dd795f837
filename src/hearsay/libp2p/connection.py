"""One connection to one peer: an asyncio protocol around the upgrade, the secure channel and the multiplexer.

* Everything that is to be sent in one turn of the event loop leaves in one write.
* While the socket's buffer is full nothing more is sealed; data waits at its streams, whose writers see it.
* A peer that has not proven who it is before the deadline is cut off, so is one that breaks a protocol. A connection
  that is closed and cannot be flushed is cut off after `CLOSE_SECONDS`.
* Who takes leave closes one direction and reads on until the peer has closed the other: a socket that is closed with
  bytes unread throws away what it has not delivered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol, cast

from hearsay.libp2p.errors import MultistreamError, ProtocolError
from hearsay.libp2p.keys import PrivateKey
from hearsay.libp2p.multistream import Dialer, Listener, Negotiation
from hearsay.libp2p.noise import Channel
from hearsay.libp2p.peer_id import PeerId
from hearsay.libp2p.resources import address_group
from hearsay.libp2p.stream import Stream, StreamClosed
from hearsay.libp2p.upgrade import Upgrade
from hearsay.libp2p.yamux import Finished, GoAway, Opened, Received, Reset, Yamux, YamuxEvent, YamuxLimits

CLOSE_SECONDS = 2.0
LEAVE_SECONDS = 5.0
"""So long a peer has to read to the end of what it was sent."""
_WRITE_BUFFER = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    handshake_s: float = 10.0
    """From the socket's opening to a secured, multiplexed connection."""
    negotiation_s: float = 10.0
    """For a stream's protocol."""
    max_negotiating: int = 64
    """Inbound streams that have no protocol yet."""
    yamux: YamuxLimits = field(default_factory=YamuxLimits)


class Owner(Protocol):
    """Who a connection belongs to: the host."""

    @property
    def protocols(self) -> Collection[str]:
        """What is offered on streams."""
        ...

    def connection_made(self, connection: Connection) -> bool: ...

    def connection_ready(self, connection: Connection) -> None: ...

    def connection_gone(self, connection: Connection) -> None: ...

    def stream_opened(self, stream: Stream) -> None: ...


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
        self._upgrade = Upgrade(identity, dialer, expected)
        self._channel: Channel | None = None
        self._mux = Yamux(dialer, limits.yamux)
        self._streams: dict[int, Stream] = {}
        self._negotiating: dict[int, _Negotiating] = {}
        self._writers: dict[int, tuple[Stream, list[Callable[[], None]]]] = {}
        """Who waits for a stream to be writable."""
        self._flushing = False
        self.congested = False
        """The socket takes no more for now."""
        self._deadline: asyncio.TimerHandle | None = None

    @property
    def streams(self) -> int:
        return len(self._streams)

    @property
    def buffered_bytes(self) -> int:
        """Bytes of frames that are not complete yet."""
        sealed = self._channel.buffered_bytes if self._channel is not None else 0
        return sealed + self._mux.buffered_bytes

    @property
    def remote_address(self) -> tuple[str, int] | None:
        name = self._transport.get_extra_info("peername") if self._transport is not None else None
        return (name[0], name[1]) if name else None

    async def open_stream(self, protocols: Sequence[str]) -> Stream:
        """A stream for the first of `protocols` the peer speaks; `MultistreamError` when it speaks none."""
        if self._channel is None or self.closed:
            raise StreamClosed("the connection is closed")
        number = self._mux.open()
        stream = self._streams[number] = Stream(self, number)
        agreed: asyncio.Future[None] = self._loop.create_future()
        negotiating = self._negotiate(stream, Dialer(protocols), agreed)
        try:
            await agreed
        except asyncio.CancelledError:
            negotiating.give_up()
            raise
        return stream

    def send(self, number: int, data: bytes) -> None:
        self._mux.send(number, data)
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
        if self.closed or not self._owner.connection_made(self):
            self.abort()
            return
        self._transport.set_write_buffer_limits(_WRITE_BUFFER)
        self._deadline = self._loop.call_later(self._limits.handshake_s, self._too_late)
        self._transport.write(self._upgrade.start())

    def data_received(self, data: bytes) -> None:
        if self.closed or self._transport is None:
            return
        try:
            if self._channel is not None:
                self._act_on(self._mux.receive(self._channel.open(data)))
            else:
                self._transport.write(self._upgrade.receive(data))
                if self._upgrade.done:
                    self._upgraded()
        except ProtocolError as error:
            self._fail(error)

    def pause_writing(self) -> None:
        self.congested = True

    def resume_writing(self) -> None:
        self.congested = False
        self._flush()

    def eof_received(self) -> None:
        self.ended_by_peer = True

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self._stop_deadline()
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

    def _upgraded(self) -> None:
        channel = self._upgrade.channel
        assert channel is not None
        self._stop_deadline()
        self._channel = channel
        self.peer = channel.peer
        self.ready.set_result(None)
        self._owner.connection_ready(self)
        if not self.closed:
            self._act_on(self._mux.receive(self._upgrade.leftover))

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
        stream = self._streams[number] = Stream(self, number)
        self._negotiate(stream, Listener(self._owner.protocols), None)

    def _negotiate(
        self, stream: Stream, negotiation: Negotiation, agreed: asyncio.Future[None] | None
    ) -> _Negotiating:
        deadline = self._loop.call_later(self._limits.negotiation_s, self._negotiation_late, stream)
        negotiating = self._negotiating[stream.id] = _Negotiating(self, stream, negotiation, agreed, deadline)
        self.send(stream.id, negotiation.start())
        return negotiating

    def negotiated(self, negotiating: _Negotiating) -> None:
        """A stream has its protocol, or will never have one."""
        negotiating.deadline.cancel()
        self._negotiating.pop(negotiating.stream.id, None)
        if negotiating.agreed is None and negotiating.stream.protocol:
            self._owner.stream_opened(negotiating.stream)

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
            transport.write(channel.seal(output))
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
            self._streams.pop(number, None)

    def _too_late(self) -> None:
        self._refuse(ProtocolError(f"the handshake took longer than {self._limits.handshake_s:g} s"))
        self.abort()

    def _fail(self, error: ProtocolError) -> None:
        """The peer broke a protocol."""
        self._refuse(error)
        self.close(GoAway.PROTOCOL_ERROR)

    def _refuse(self, error: ProtocolError) -> None:
        self._stop_deadline()
        if not self.ready.done():
            self.ready.set_exception(error)
            self.ready.exception()  # asyncio complains about errors that nobody looked at

    def _stop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class _Negotiating:
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
            self.stream.protocol = self._negotiation.protocol
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
