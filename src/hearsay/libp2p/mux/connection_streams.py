"""The streams of a connection. Either side opens streams, negotiates a protocol for each, and then sends data.

* The negotiation of a stream has a deadline and little memory. The number of a peer's negotiating streams is limited.
* Data that waits to be sent or to be read is reserved in budgets. A stream whose budget has no room is reset. If the
  limit of the peer is exceeded, the connection ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from hearsay.libp2p.mux.connection_limits import ConnectionLimits
from hearsay.libp2p.mux.multistream import Dialer, Listener, Negotiation
from hearsay.libp2p.mux.stream import Stream, StreamClosed
from hearsay.libp2p.mux.yamux import Yamux
from hearsay.libp2p.mux.yamux_frames import Finished, Opened, Received, YamuxEvent
from hearsay.libp2p.names.errors import MultistreamError
from hearsay.libp2p.names.peer_id import PeerId
from hearsay.libp2p.resources import Budget

STREAM_BYTES = 4096
"""Memory of a stream in bytes, before it carries data."""
NEGOTIATION_BYTES = 16 * 1024
"""Maximum memory in bytes of a stream without a protocol, including `STREAM_BYTES`."""


class StreamsOwner(Protocol):
    """The methods of a connection that `ConnectionStreams` calls."""

    closed: bool

    @property
    def protocols(self) -> Collection[str]:
        """Return the protocols for which the peer may open streams."""
        ...

    def budget_for(self, protocol: str) -> Budget:
        """Return a new budget for a stream of this protocol."""
        ...

    def exceeded_limits(self, budget: Budget, count: int) -> tuple[bool, bool]:
        """Return whether `count` more bytes exceed the budget's limit, and whether they exceed the peer's limit."""
        ...

    def report_over_limit(self) -> None: ...

    def expel(self) -> None:
        """End the connection, because no memory is left for the peer."""
        ...

    def stream_opened(self, stream: Stream) -> None:
        """Handle a stream that the peer has opened, after its negotiation."""
        ...

    def flush_soon(self) -> None: ...


class ConnectionStreams:
    """The streams of a connection. The bytes of all streams go through the multiplexer `mux`."""

    def __init__(self, connection: StreamsOwner, mux: Yamux, limits: ConnectionLimits) -> None:
        self._connection = connection
        self._mux = mux
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._streams: dict[int, Stream] = {}
        self._negotiating: dict[int, _NegotiatingStream] = {}
        self._writers: dict[int, tuple[Stream, list[Callable[[], None]]]] = {}
        """Callbacks that wait until their stream is writable, by stream number."""
        self.peer: PeerId = b""
        self.budget = Budget("connection", 0)
        """The connection's budget, in which the memory of negotiating streams is reserved."""
        self.congested = False
        """True while the write buffer of the socket is full."""

    def __len__(self) -> int:
        return len(self._streams)

    def budgets(self) -> list[Budget]:
        return [stream.budget for stream in self._streams.values()]

    def opened_by(self, dialer: bool, protocol: str) -> int:
        """Return the number of open streams of a protocol that the dialer (if `dialer`) or the listener opened."""
        return sum(number % 2 == dialer and stream.protocol == protocol for number, stream in self._streams.items())

    async def open(self, protocols: Sequence[str]) -> Stream:
        """Open a stream for the first of `protocols` that the peer speaks.

        Raises `MultistreamError` if the peer speaks none of them, `StreamClosed` if the peer does not answer in time,
        the stream ends or no memory is left, and `YamuxError` if the connection can have no further stream.
        """
        number = self._mux.open()
        stream = self._new_stream(number)
        if stream is None:
            self._mux.reset(number)
            raise StreamClosed("the memory of this connection has no room for another stream; close a stream")
        agreed: asyncio.Future[None] = self._loop.create_future()
        negotiating = self._negotiate(stream, Dialer(protocols), agreed)
        try:
            await agreed
        except asyncio.CancelledError:
            self.negotiated(negotiating)
            stream.reset()
            raise
        return stream

    # Methods for a stream.

    def send(self, number: int, data: bytes) -> None:
        if not self._mux.send(number, data) and number in self._streams:
            stream = self._streams[number]
            own = self._connection.exceeded_limits(stream.budget, len(data))
            self._loop.call_soon(self._end_for_memory, stream, *own)
        self._connection.flush_soon()

    def unsent(self, number: int) -> int:
        return self._mux.unsent(number)

    def read(self, number: int, count: int) -> None:
        self._mux.read(number, count)
        self._connection.flush_soon()

    def finish(self, number: int) -> None:
        self._mux.finish(number)
        self.forget_if_over(number)
        self._connection.flush_soon()

    def reset(self, number: int) -> None:
        self._mux.reset(number)
        self._streams.pop(number, None)
        self._call_writers(number)
        self._connection.flush_soon()

    def over_budget(self, stream: Stream, count: int) -> None:
        self._end_for_memory(stream, *self._connection.exceeded_limits(stream.budget, count))

    def call_when_writable(self, stream: Stream, callback: Callable[[], None]) -> None:
        self._writers.setdefault(stream.id, (stream, []))[1].append(callback)
        self._connection.flush_soon()

    # Methods for the connection.

    def act_on(self, events: list[YamuxEvent]) -> None:
        for event in events:
            stream = self._streams.get(event.stream)
            if isinstance(event, Received):
                if stream is not None:
                    self._data(stream, event.data)
            elif isinstance(event, Opened):
                self._accept(event.stream)
            elif isinstance(event, Finished):
                if stream is not None:
                    self._ended(stream)
            else:
                self._streams.pop(event.stream, None)
                negotiating = self._negotiating.get(event.stream)
                if negotiating is not None:
                    negotiating.fail(StreamClosed("the peer reset the stream"))
                if stream is not None:
                    stream.on_reset()
                self._call_writers(event.stream)
            if self._connection.closed:
                return
        self._connection.flush_soon()

    def forget_if_over(self, number: int) -> None:
        """Delete a stream if the multiplexer no longer has it, because both sides have finished it."""
        if not self._mux.has(number):
            stream = self._streams.pop(number, None)
            if stream is not None:
                stream.on_over()

    def flushed(self) -> None:
        """Delete finished streams, and call the waiting callbacks of writable streams, after data was sent."""
        for number in self._mux.take_drained():
            self.forget_if_over(number)
        if self._writers and not self.congested:
            for number, (stream, _) in list(self._writers.items()):
                if stream.was_reset or stream.writable:
                    self._call_writers(number)

    def end(self) -> None:
        """End all streams, and report this to their users."""
        for stream in list(self._streams.values()):
            stream.on_reset()
        self._streams.clear()
        for number in list(self._writers):
            self._call_writers(number)
        for negotiating in list(self._negotiating.values()):
            negotiating.fail(StreamClosed("the connection is gone"))

    # Negotiation.

    def set_protocol(self, stream: Stream, protocol: str) -> bool:
        """Set the protocol and the budget of a stream. Returns False if the new budget has no room for the stream."""
        stream.budget.close()
        stream.budget = self._connection.budget_for(protocol)
        if not stream.budget.reserve(STREAM_BYTES) or not self._mux.charge(stream.id, stream.budget):
            return False
        stream.protocol = protocol
        return True

    def negotiated(self, negotiating: _NegotiatingStream) -> None:
        """Handle the end of a stream's negotiation, successful or not."""
        negotiating.deadline.cancel()
        self._negotiating.pop(negotiating.stream.id, None)
        stream = negotiating.stream
        if negotiating.agreed is None and stream.protocol and not stream.was_reset:
            self._connection.stream_opened(stream)

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
            self.forget_if_over(stream.id)

    def _accept(self, number: int) -> None:
        inbound = sum(waiting.agreed is None for waiting in self._negotiating.values())
        stream = self._new_stream(number) if inbound < self._limits.max_negotiating else None
        if stream is None:
            self._mux.reset(number)
        else:
            self._negotiate(stream, Listener(self._connection.protocols), None)

    def _new_stream(self, number: int) -> Stream | None:
        """Create a stream without a protocol. Returns None if the connection's budget has no room for it."""
        budget = Budget("negotiation", NEGOTIATION_BYTES, (self.budget,))
        if not budget.reserve(STREAM_BYTES):
            return None
        stream = self._streams[number] = Stream(self, number, budget)
        self._mux.charge(number, budget)
        return stream

    def _negotiate(
        self, stream: Stream, negotiation: Negotiation, agreed: asyncio.Future[None] | None
    ) -> _NegotiatingStream:
        deadline = self._loop.call_later(self._limits.negotiation_s, self._negotiation_timed_out, stream)
        negotiating = _NegotiatingStream(self, stream, negotiation, agreed, deadline)
        self._negotiating[stream.id] = negotiating
        self.send(stream.id, negotiation.start())
        return negotiating

    def _negotiation_timed_out(self, stream: Stream) -> None:
        negotiating = self._negotiating.get(stream.id)
        if negotiating is not None:
            negotiating.fail(StreamClosed(f"no protocol was agreed within {self._limits.negotiation_s:g} s"))
            stream.reset()

    def _end_for_memory(self, stream: Stream, over_stream_limit: bool, over_peer_limit: bool) -> None:
        if stream.was_reset or self._connection.closed:
            return
        if over_stream_limit or over_peer_limit:
            self._connection.report_over_limit()
        if over_peer_limit:
            self._connection.expel()
        else:
            stream.reset()

    def _call_writers(self, number: int) -> None:
        for callback in self._writers.pop(number, (None, ()))[1]:
            callback()


@dataclass(slots=True, eq=False)
class _NegotiatingStream:
    """A stream whose protocol is being negotiated."""

    _streams: ConnectionStreams
    stream: Stream
    _negotiation: Negotiation
    agreed: asyncio.Future[None] | None
    """Done when the negotiation has ended, if this side opened the stream; None if the peer opened it."""
    deadline: asyncio.TimerHandle

    def receive(self, data: bytes) -> int:
        """Handle bytes of the peer. Returns how many of them follow the negotiation."""
        try:
            answer = self._negotiation.receive(data)
        except MultistreamError as error:
            self.fail(error)
            self.stream.reset()
            return 0
        if answer:
            self.stream.write(answer)
        if self._negotiation.protocol is not None:
            if not self._streams.set_protocol(self.stream, self._negotiation.protocol):
                self.fail(StreamClosed("no memory is left for another stream of this protocol"))
                self.stream.reset()
                return 0
            if self.agreed is not None and not self.agreed.done():
                self.agreed.set_result(None)
            self.stream.preload(self._negotiation.leftover)
            self._streams.negotiated(self)
        return len(self._negotiation.leftover)

    def fail(self, error: Exception) -> None:
        if self.agreed is not None and not self.agreed.done():
            self.agreed.set_exception(error)
        self._streams.negotiated(self)
