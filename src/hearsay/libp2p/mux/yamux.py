"""Yamux: many streams on one connection (libp2p specs, "yamux").

Rules:

* A frame has a header of 12 bytes (version 0, type, flags, stream, length); a data frame also has the data. The
  dialer's streams have odd numbers, the listener's even ones. SYN opens a stream, ACK accepts it, FIN closes one
  direction, RST both.
* Every stream begins with a window of 256 KiB in each direction. Only the data of frames uses up the window. Data
  beyond the window is an error that ends the connection. The window of a stream that is read grows while the
  connection's `budget` has room.
* The numbers of a peer's streams, of unread bytes, and of answers (to pings and new streams) between two calls of
  `take` are limited. A further stream of the peer is reset; the other two excesses are errors.
* Data waits in its stream while the window is closed, or while much output waits for `take`. Waiting streams send one
  frame each in turn. Waiting data is reserved in the budget of its stream, if the stream has one.
* Received data is returned at once; only the header of an incomplete frame is stored.

`receive` handles received bytes and returns events; `take` returns bytes to send. After a `YamuxError` the connection
is unusable; `go_away` reports this to the peer.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from hearsay.libp2p.mux.yamux_frames import (
    HEADER,
    INITIAL_WINDOW,
    Finished,
    Flag,
    FrameType,
    GoAway,
    Opened,
    Received,
    Reset,
    YamuxEvent,
)
from hearsay.libp2p.names.errors import YamuxError
from hearsay.libp2p.resources import Budget

_HEADER_BYTES = HEADER.size
_MAX_WINDOW = (1 << 32) - 1
_FRAME_BYTES = 32 * 1024
"""Maximum data of a frame in bytes, so that streams share a connection fairly."""
_OUTPUT_BYTES = 256 * 1024
"""No data frames are created while at least this number of bytes waits for `take`."""
_CLOSING = Flag.FIN | Flag.RST


@dataclass(frozen=True, slots=True, kw_only=True)
class YamuxLimits:
    """Limits of one connection."""

    max_inbound_streams: int = 256
    max_outbound_streams: int = 1024
    max_window: int = 1024 * 1024
    max_unread_bytes: int = 16 * 1024 * 1024
    """Maximum number of unread bytes of all streams, and maximum sum in bytes of the growth of all windows."""
    max_unsent_answers: int = 1024
    """Maximum number of answers between two calls of `take`."""


@dataclass(slots=True, eq=False)
class _Stream:
    send_window: int = INITIAL_WINDOW
    receive_window: int = INITIAL_WINDOW
    granted: int = INITIAL_WINDOW
    """Size in bytes of the receive window when the application has read all data."""
    unread: int = 0
    unsent: deque[memoryview] = field(default_factory=deque[memoryview])
    unsent_bytes: int = 0
    budget: Budget | None = None
    finishing: bool = False
    finished: bool = False
    peer_finished: bool = False


class Yamux:
    """One side of a multiplexed connection, which this module describes. Streams are given by their numbers."""

    def __init__(self, dialer: bool, limits: YamuxLimits | None = None) -> None:
        self._limits = limits or YamuxLimits()
        self._next = 1 if dialer else 2
        self._peer_parity = 0 if dialer else 1
        self._highest_peer_stream = 0
        self._streams: dict[int, _Stream] = {}
        self._inbound = 0
        self._unread = 0
        self._granted = 0
        """Sum of window growth beyond the initial windows, in bytes."""
        self._buffer = b""
        self._body: tuple[int, int, int] | None = None
        """Stream, flags and missing bytes of an incomplete data frame; None without one."""
        self.budget: Budget | None = None
        self._output: list[bytes | memoryview] = []
        self._output_bytes = 0
        self._unsent_answers = 0
        self._ready: dict[int, None] = {}
        """Streams with data and an open window, in the order in which they send their next frame."""
        self._drained: list[int] = []
        self.frames = 0
        """Number of received frames."""
        self.gone_away = False

    def has(self, stream: int) -> bool:
        """Return True if a stream is open in either direction."""
        return stream in self._streams

    def open(self) -> int:
        """Open a stream, and return its number. Raises `YamuxError` if no further stream is possible."""
        if self.gone_away:
            raise YamuxError("the peer accepts no new streams")
        if len(self._streams) - self._inbound >= self._limits.max_outbound_streams:
            raise YamuxError(f"no further stream: {self._limits.max_outbound_streams} are open, which is the maximum")
        stream = self._next
        self._next += 2
        self._streams[stream] = _Stream()
        self._frame(FrameType.WINDOW_UPDATE, Flag.SYN, stream, 0)
        return stream

    def charge(self, stream: int, budget: Budget) -> bool:
        """Reserve the waiting data of a stream in `budget` from now on. Returns False if there is no room for it."""
        state = self._streams.get(stream)
        if state is None:
            return True
        state.budget = budget
        return budget.reserve(state.unsent_bytes)

    def send(self, stream: int, data: bytes) -> bool:
        """Send data on a stream at once, or let it wait. Data for a stream that is gone is dropped.

        Returns False, and drops the data, if it has to wait and the stream's budget has no room for it. Raises
        `RuntimeError` after `finish`.
        """
        state = self._streams.get(stream)
        if state is None:
            return True
        if state.finishing:
            raise RuntimeError("the stream is closed for writing")
        length = len(data)
        if (
            not state.unsent
            and length <= state.send_window
            and length <= _FRAME_BYTES
            and self._output_bytes < _OUTPUT_BYTES
        ):
            state.send_window -= length
            self._frame(FrameType.DATA, 0, stream, length, data)
        elif length:
            if state.budget is not None and not state.budget.reserve(length):
                return False
            state.unsent.append(memoryview(data))
            state.unsent_bytes += length
            if state.send_window:
                self._ready[stream] = None
        return True

    def unsent(self, stream: int) -> int:
        """Return the number of bytes of a stream that wait to be sent, in frames that `take` has not created yet."""
        state = self._streams.get(stream)
        return state.unsent_bytes if state is not None else 0

    def finish(self, stream: int) -> None:
        """Send FIN on a stream after its waiting data."""
        state = self._streams.get(stream)
        if state is not None and not state.finishing:
            state.finishing = True
            if not state.unsent:
                self._send_fin(stream, state)

    def reset(self, stream: int) -> None:
        if stream in self._streams:
            self._forget(stream)
            self._frame(FrameType.WINDOW_UPDATE, Flag.RST, stream, 0)

    def read(self, stream: int, count: int) -> None:
        """Handle that the application has read `count` bytes of a stream, which may open the window again."""
        state = self._streams.get(stream)
        if state is None:
            return
        if count > state.unread:
            raise ValueError(f"{count} bytes read, but only {state.unread} received bytes were unread")
        state.unread -= count
        self._unread -= count
        closed = state.granted - state.receive_window - state.unread
        if state.peer_finished or 2 * closed < state.granted:
            return
        growth = self._limits.max_window - state.granted
        room = self._limits.max_unread_bytes - self._granted
        if self.budget is not None:
            room = min(room, self.budget.free)
        if 0 < growth <= room:
            self._granted += growth
            state.granted += growth
            closed += growth
        state.receive_window += closed
        self._frame(FrameType.WINDOW_UPDATE, 0, stream, closed)

    def ping(self, value: int) -> None:
        self._frame(FrameType.PING, Flag.SYN, 0, value)

    def go_away(self, code: GoAway) -> None:
        self._frame(FrameType.GO_AWAY, 0, 0, code)

    def take(self) -> bytes:
        """Remove and return the bytes to send now."""
        self._fill()
        output = self._output
        if not output:
            return b""
        self._output = []
        self._output_bytes = 0
        self._unsent_answers = 0
        return b"".join(output)

    def take_drained(self) -> list[int]:
        """Return the streams that since the last call have sent the last of their waiting data."""
        drained, self._drained = self._drained, []
        return drained

    def receive(self, data: bytes) -> list[YamuxEvent]:
        """Handle bytes of the peer, and return the events that they cause. Raises `YamuxError`."""
        events: list[YamuxEvent] = []
        if self._buffer:
            data = self._buffer + data
            self._buffer = b""
        offset = self._continue_body(data, events) if self._body is not None else 0
        end = len(data)
        while end - offset >= _HEADER_BYTES:
            offset = self._frame_at(data, offset, events)
            self.frames += 1
        if offset < end:
            self._buffer = data[offset:]
        return events

    def _continue_body(self, data: bytes, events: list[YamuxEvent]) -> int:
        """Handle the data that belongs to the incomplete data frame. Returns the offset after this data."""
        assert self._body is not None
        stream, flags, missing = self._body
        if len(data) < missing:
            self._body = stream, flags, missing - len(data)
            self._received(stream, 0, data, events)
            return len(data)
        self._body = None
        self._received(stream, flags, data[:missing], events)
        return missing

    def _frame_at(self, data: bytes, offset: int, events: list[YamuxEvent]) -> int:
        """Handle the frame at `offset`, which may be incomplete. Returns the offset after the frame or its bytes."""
        version, kind, flags, stream, length = HEADER.unpack_from(data, offset)
        start = offset + _HEADER_BYTES
        if version:
            raise YamuxError(f"a frame of yamux version {version}; only 0 is supported")
        if kind != FrameType.DATA:
            self._control(kind, flags, stream, length, events)
            return start
        state = self._stream_for(stream, flags, events)
        stop = start + length
        if state is not None and length > state.receive_window:
            raise YamuxError(f"{length} bytes on stream {stream}, whose window is {state.receive_window}")
        if stop > len(data):
            self._body = stream, flags, stop - len(data)
            flags, stop = 0, len(data)
        self._received(stream, flags, data[start:stop], events)
        return stop

    def _control(self, kind: int, flags: int, stream: int, length: int, events: list[YamuxEvent]) -> None:
        if kind == FrameType.WINDOW_UPDATE:
            state = self._stream_for(stream, flags, events)
            if state is None:
                return
            state.send_window += length
            if state.send_window > _MAX_WINDOW:
                raise YamuxError(f"the window of stream {stream} grows beyond 32 bits")
            if state.unsent and length:
                self._ready[stream] = None
            if flags & _CLOSING:
                self._closed(stream, state, flags, events)
        elif kind == FrameType.PING:
            if flags & Flag.SYN:
                self._answer(FrameType.PING, Flag.ACK, 0, length)
        elif kind == FrameType.GO_AWAY:
            self.gone_away = True
        else:
            raise YamuxError(f"a frame of the unknown type {kind}")

    def _stream_for(self, stream: int, flags: int, events: list[YamuxEvent]) -> _Stream | None:
        """Return the stream of a frame; None if the stream is gone or refused."""
        state = self._streams.get(stream)
        if not flags & Flag.SYN:
            if state is None:
                never_opened = (
                    stream > self._highest_peer_stream if stream % 2 == self._peer_parity else stream >= self._next
                )
                if never_opened or not stream:
                    raise YamuxError(f"a frame for stream {stream}, which was never opened")
            return state
        if not stream or stream % 2 != self._peer_parity:
            raise YamuxError(f"the peer opens stream {stream}, which has not one of its numbers")
        if state is not None:
            raise YamuxError(f"stream {stream} is opened twice")
        self._highest_peer_stream = max(self._highest_peer_stream, stream)
        if self._inbound >= self._limits.max_inbound_streams:
            self._answer(FrameType.WINDOW_UPDATE, Flag.RST, stream, 0)
            return None
        self._inbound += 1
        state = self._streams[stream] = _Stream()
        self._answer(FrameType.WINDOW_UPDATE, Flag.ACK, stream, 0)
        events.append(Opened(stream))
        return state

    def _received(self, stream: int, flags: int, data: bytes, events: list[YamuxEvent]) -> None:
        state = self._streams.get(stream)
        if state is None:
            return
        if data:
            if state.peer_finished:
                raise YamuxError(f"data on stream {stream} after its end")
            length = len(data)
            state.receive_window -= length
            state.unread += length
            self._unread += length
            if self._unread > self._limits.max_unread_bytes:
                raise YamuxError(f"more than {self._limits.max_unread_bytes} unread bytes")
            events.append(Received(stream, data))
        if flags & _CLOSING:
            self._closed(stream, state, flags, events)

    def _closed(self, stream: int, state: _Stream, flags: int, events: list[YamuxEvent]) -> None:
        if flags & Flag.RST:
            self._forget(stream)
            events.append(Reset(stream))
        elif not state.peer_finished:
            state.peer_finished = True
            events.append(Finished(stream))
            if state.finished:
                self._forget(stream)

    def _forget(self, stream: int) -> None:
        state = self._streams.pop(stream)
        if stream % 2 == self._peer_parity:
            self._inbound -= 1
        self._unread -= state.unread
        self._granted -= state.granted - INITIAL_WINDOW
        self._ready.pop(stream, None)

    def _fill(self) -> None:
        """Create frames with waiting data, one for each stream in turn."""
        while self._ready and self._output_bytes < _OUTPUT_BYTES:
            stream = next(iter(self._ready))
            del self._ready[stream]
            state = self._streams[stream]
            self._send_waiting(stream, state)
            if state.unsent:
                if state.send_window:
                    self._ready[stream] = None
            else:
                self._drained.append(stream)
                if state.finishing:
                    self._send_fin(stream, state)

    def _send_waiting(self, stream: int, state: _Stream) -> None:
        first = state.unsent[0]
        length = min(len(first), state.send_window, _FRAME_BYTES)
        if length == len(first):
            state.unsent.popleft()
        else:
            state.unsent[0] = first[length:]
            first = first[:length]
        state.unsent_bytes -= length
        if state.budget is not None:
            state.budget.release(length)
        state.send_window -= length
        self._frame(FrameType.DATA, 0, stream, length, first)

    def _send_fin(self, stream: int, state: _Stream) -> None:
        state.finished = True
        self._frame(FrameType.WINDOW_UPDATE, Flag.FIN, stream, 0)
        if state.peer_finished:
            self._forget(stream)

    def _answer(self, kind: FrameType, flags: int, stream: int, length: int) -> None:
        self._unsent_answers += 1
        if self._unsent_answers > self._limits.max_unsent_answers:
            raise YamuxError("the peer requests answers faster than it takes them")
        self._frame(kind, flags, stream, length)

    def _frame(
        self, kind: FrameType, flags: int, stream: int, length: int, data: bytes | memoryview | None = None
    ) -> None:
        self._output.append(HEADER.pack(0, kind, flags, stream, length))
        self._output_bytes += _HEADER_BYTES
        if data is not None:
            self._output.append(data)
            self._output_bytes += len(data)
