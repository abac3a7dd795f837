"""A connection to a peer: an asyncio protocol with the upgrade, the secure channel and the multiplexer.

* Data that streams send in one iteration of the event loop is passed to the socket at the end of the iteration.
* While the write buffer of the socket is full, no data of streams is encrypted. Data waits in the streams, which are
  not writable.
* The connection is aborted if the upgrade is not done by the deadline, and closed if the peer breaks a protocol. A
  closed connection that cannot be flushed is aborted after `CLOSE_SECONDS`.
* Received bytes are decrypted and demultiplexed when it is the peer's turn (`rates.py`). Until then they are reserved
  in the peer's budget, and the socket is not read while a complete frame waits. A peer commits an offence if it sends
  small frames faster than `small_frames_per_s`. Then reading from the peer pauses.
* The connection to a peer that seems dead (`connection_limits.py`) is aborted.
* An orderly end (`close_gracefully`) closes our direction and reads until the peer has closed its direction, because
  closing a socket that has unread bytes can lose bytes that were sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from contextlib import suppress
from time import monotonic
from typing import Protocol, cast

from hearsay.libp2p.mux.connection_limits import LARGE_FRAME, ConnectionLimits, Liveness
from hearsay.libp2p.mux.connection_streams import ConnectionStreams
from hearsay.libp2p.mux.multistream import Upgrade
from hearsay.libp2p.mux.stream import Stream, StreamClosed
from hearsay.libp2p.mux.yamux import Yamux
from hearsay.libp2p.mux.yamux_frames import GoAway
from hearsay.libp2p.names.errors import ProtocolError
from hearsay.libp2p.names.keys import PrivateKey
from hearsay.libp2p.names.peer_id import PeerId
from hearsay.libp2p.noise import Channel
from hearsay.libp2p.rates import Allowance, Turns
from hearsay.libp2p.resources import Budget, Resources, address_group

CLOSE_SECONDS = 2.0
LEAVE_SECONDS = 5.0
"""Maximum seconds after `close_gracefully` in which the peer reads the remaining data and closes its direction."""
_WRITE_BUFFER = 256 * 1024
_OPENED_AT_ONCE = 16 * 1024
"""Number of encrypted bytes that are decrypted between two readings of the clock."""
_MIN_PAUSE_S = 0.2
"""Minimum seconds of a pause in reading because of small frames, so that the peer causes few timers."""
_MULTIPLEXED = 256 * 1024
"""Number of bytes that are reserved for output of the multiplexer while the socket is blocked."""


class Owner(Protocol):
    """The owner of a connection: the host."""

    resources: Resources
    read_buffer: bytearray
    """The buffer into which each socket is read when it has bytes."""
    turns: Turns
    """The scheduler of connections that have received data."""

    @property
    def protocols(self) -> Collection[str]:
        """Return the protocols for which peers may open streams."""
        ...

    def connection_ready(self, connection: Connection) -> None: ...

    def connection_gone(self, connection: Connection) -> None: ...

    def peer_over_limit(self, peer: PeerId) -> None: ...

    def stream_opened(self, connection: Connection, stream: Stream) -> None: ...

    def drop(self, connection: Connection) -> None:
        """End a connection and its streams now."""
        ...


class Connection(asyncio.BufferedProtocol):
    """A connection to a peer, which this module describes. `expected` is the id that the peer must have, if any."""

    def __init__(
        self, owner: Owner, identity: PrivateKey, dialer: bool, limits: ConnectionLimits, expected: PeerId | None
    ) -> None:
        self._owner = owner
        self._limits = limits
        self.dialed = dialer
        self.peer: PeerId = b""
        """The peer's id; empty until the connection is ready."""
        self.address = ""
        """The address group of the remote end; empty until there is a socket."""
        self._loop = asyncio.get_running_loop()
        self.since = self._loop.time()
        """The event loop's time when the connection was created."""
        self.ready: asyncio.Future[None] = self._loop.create_future()
        """Done when the connection can carry streams. If it never can, the exception of the future is the reason."""
        self.gone: asyncio.Future[None] = self._loop.create_future()
        """Done when the socket is closed and its received data is handled or dropped."""
        self.closed = False
        self.used_s = 0.0
        self.ended_by_peer = False
        """True if the peer has closed its direction. If it did so after `close_gracefully`, it has read all our data.
        """
        self._transport: asyncio.Transport | None = None
        self._identity = identity
        self._expected = expected
        self._upgrade: Upgrade | None = None
        self._channel: Channel | None = None
        self._mux = Yamux(dialer, limits.yamux)
        self._streams = ConnectionStreams(self, self._mux, limits)
        self._flushing = False
        self._timer: asyncio.TimerHandle | None = None
        """The deadline of the handshake, later the next check of liveness."""
        self.budget = Budget("connection", 0)
        """Reservations of the connection outside its streams. Its limit is 0 until the peer is known."""
        self._sealed_bytes = 0
        self._unsent_bytes = 0
        """Parts of `budget`: received bytes that wait to be decrypted, and bytes that wait for the socket."""
        self._small_frames = Allowance(limits.small_frames_per_s, limits.small_frames_at_once, monotonic())
        self._pause: asyncio.TimerHandle | None = None
        """The timer that ends the pause in reading because of small frames; None without a pause."""
        self._disconnected = False
        """True if the socket is closed; received data is still handled."""
        self._liveness = Liveness(limits, self.since)

    @property
    def protocols(self) -> Collection[str]:
        return self._owner.protocols

    def inbound_streams(self, protocol: str) -> int:
        """Return the number of the peer's open streams for a protocol."""
        return self._streams.opened_by(not self.dialed, protocol)

    @property
    def received_s(self) -> float:
        """Return the event loop's time of the last received bytes; 0 if none were received."""
        return self._liveness.received_s if self._liveness.received_s > self.since else 0.0

    @property
    def remote_address(self) -> tuple[str, int] | None:
        name = self._transport.get_extra_info("peername") if self._transport is not None else None
        return (name[0], name[1]) if name else None

    def reserved_in(self, budget: Budget) -> int:
        """Return the number of bytes that this connection and its streams have reserved in a shared budget."""
        own = (self.budget, *self._streams.budgets())
        return sum(reserved.used for reserved in own if reserved in budget)

    async def open_stream(self, protocols: Sequence[str]) -> Stream:
        """Open a stream for the first of `protocols` that the peer speaks.

        Raises `StreamClosed` if the connection is closed, if the stream or the connection ends, if the peer does not
        answer in time, or if no memory is left, `MultistreamError` if the peer speaks none of `protocols`, and
        `YamuxError` if the connection can have no further stream.
        """
        if self._channel is None or self.closed:
            raise StreamClosed("the connection is closed")
        return await self._streams.open(protocols)

    def budget_for(self, protocol: str) -> Budget:
        return self._owner.resources.stream(self.peer, self.address, protocol)

    def stream_opened(self, stream: Stream) -> None:
        self._owner.stream_opened(self, stream)

    def report_over_limit(self) -> None:
        self._owner.peer_over_limit(self.peer)

    def exceeded_limits(self, budget: Budget, count: int) -> tuple[bool, bool]:
        """Return whether `count` more bytes exceed the budget's limit, and whether they exceed the peer's limit."""
        peers = self._owner.resources.peer(self.peer, self.address)
        return budget.used + count > budget.limit, peers.used + count > peers.limit

    def close(self, code: GoAway = GoAway.NORMAL) -> None:
        """Send GO_AWAY and close the connection. Unsent data of streams is lost."""
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

    def close_gracefully(self) -> None:
        """Send GO_AWAY and close our direction. Abort if the peer does not close its direction in `LEAVE_SECONDS`."""
        transport = self._transport
        if self.closed or transport is None or self._channel is None or transport.is_closing():
            self.close()
            return
        self.closed = True
        self._mux.go_away(GoAway.NORMAL)
        transport.write(self._channel.seal(self._mux.take()))
        if self._has_frame or self._pause is not None:
            transport.resume_reading()  # otherwise the peer's end of file would never be received
        with suppress(OSError):  # the peer may have reset the connection
            transport.write_eof()
        self._loop.call_later(LEAVE_SECONDS, transport.abort)

    @property
    def attached(self) -> bool:
        """Return True if the connection ever had a socket."""
        return self._transport is not None

    def abort(self) -> None:
        self.closed = True
        if self._transport is not None:
            self._transport.abort()

    def abort_and_release(self) -> None:
        """Abort the connection, and release its reservations before the socket is closed."""
        self.abort()
        for budget in (self.budget, *self._streams.budgets()):
            budget.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        remote = self.remote_address
        self.address = address_group(remote[0]) if remote is not None else ""
        if self.closed:
            self.abort()
            return
        self._transport.set_write_buffer_limits(_WRITE_BUFFER)
        self._timer = self._loop.call_later(self._limits.handshake_s, self._handshake_timed_out)
        self._upgrade = Upgrade(self._identity, self.dialed, self._expected)
        self._transport.write(self._upgrade.start())

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._owner.read_buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self.closed or self._transport is None:
            return
        data = bytes(memoryview(self._owner.read_buffer)[:nbytes])
        self._liveness.received_s = self._loop.time()
        if self._channel is not None:
            self._channel.feed(data)
            self._owner.turns.schedule(self)
            self._pause_or_resume()
        elif self._upgrade is not None:
            try:
                self._transport.write(self._upgrade.receive(data))
                if self._upgrade.done:
                    self._upgraded(self._upgrade)
            except ProtocolError as error:
                self._fail(error)

    def work(self, until_s: float) -> bool:
        """Decrypt and handle received data, until about `until_s`. Return True if none can be handled now."""
        try:
            self._open_frames(until_s)
        except ProtocolError as error:
            self._fail(error)
        done = self.closed or self._pause is not None or not self._has_frame
        if self._disconnected and done:
            self._end()
        else:
            self._pause_or_resume()
        return done

    def _pause_or_resume(self) -> None:
        """Reserve memory for received data that waits. Read from the socket only while no complete frame waits."""
        if self._transport is not None and not self.closed and self._reserve_received():
            if self._has_frame or self._pause is not None:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    @property
    def _has_frame(self) -> bool:
        return self._channel is not None and self._channel.has_frame

    def _open_frames(self, until_s: float) -> None:
        channel, mux, allowance = self._channel, self._mux, self._small_frames
        while channel is not None and channel.has_frame and self._pause is None and not self.closed:
            before = channel.frames + mux.frames
            opened = channel.open(at_most=_OPENED_AT_ONCE)
            self._streams.act_on(mux.receive(opened))
            allowance.left -= max(0, channel.frames + mux.frames - before - len(opened) // LARGE_FRAME)
            now_s = monotonic()
            if allowance.left < 0 and (wait_s := allowance.wait_s(now_s)):
                self._pause = self._loop.call_later(max(wait_s, _MIN_PAUSE_S), self._end_pause)
                self.report_over_limit()
            if now_s >= until_s:
                break

    def _end_pause(self) -> None:
        self._pause = None
        self._owner.turns.schedule(self)

    def pause_writing(self) -> None:
        self._streams.congested = True
        if self._transport is not None and self._channel is not None:
            count = self._transport.get_write_buffer_size() + _MULTIPLEXED
            if self.budget.reserve(count):
                self._unsent_bytes = count
            else:
                self._loop.call_soon(self._no_room, count)

    def resume_writing(self) -> None:
        self._streams.congested = False
        self.budget.release(self._unsent_bytes)
        self._unsent_bytes = 0
        self._flush()

    def eof_received(self) -> None:
        self.ended_by_peer = True

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        if not self.ready.done():
            self._refuse(ProtocolError(str(exc) if exc else "the connection was closed during the handshake"))
        self._disconnected = True
        if self.closed or self._pause is not None or not self._has_frame:
            self._end()

    def _end(self) -> None:
        """End the connection, because the socket is closed and its data is handled or dropped."""
        self.closed = True
        self._owner.turns.leave(self)
        if self._pause is not None:
            self._pause.cancel()
        self.end_streams()
        self._channel = None  # frees undecrypted data; reference cycles keep the connection until garbage collection
        self._owner.connection_gone(self)
        self.gone.set_result(None)

    def end_streams(self) -> None:
        """End all streams, and report this to their users."""
        self._streams.end()
        self.budget.close()

    def _upgraded(self, upgrade: Upgrade) -> None:
        channel = upgrade.channel
        assert channel is not None
        self._channel = channel
        self.peer = channel.peer
        self.budget = self._owner.resources.connection(channel.peer, self.address)
        self._mux.budget = self._streams.budget = self.budget
        self._streams.peer = channel.peer
        self._upgrade = None
        self._stop_timer()
        self._check_liveness()
        self.ready.set_result(None)
        self._owner.connection_ready(self)
        if not self.closed:
            self._streams.act_on(self._mux.receive(upgrade.leftover))
            self._owner.turns.schedule(self)

    def _check_liveness(self) -> None:
        """Check that the peer is alive, and schedule the next check."""
        transport = self._transport
        if transport is None or self.closed:
            return
        now_s = self._loop.time()
        if self._liveness.is_gone(now_s, transport.get_write_buffer_size()):
            self.abort()
            return
        if self._liveness.must_ping(now_s):
            self._mux.ping(0)
            self.flush_soon()
        self._timer = self._loop.call_later(self._liveness.look_again_s, self._check_liveness)

    def _reserve_received(self) -> bool:
        """Reserve memory for data that waits in the channel. Without room, close the connection and return False."""
        assert self._channel is not None
        if self._channel.buffered_bytes == self._sealed_bytes:
            return True
        self.budget.release(self._sealed_bytes)
        self._sealed_bytes = self._channel.buffered_bytes
        if self.budget.reserve(self._sealed_bytes):
            return True
        self._no_room(self._sealed_bytes)
        return False

    def _no_room(self, count: int) -> None:
        if any(self.exceeded_limits(self.budget, count)):
            self.report_over_limit()
        self.expel()

    def expel(self) -> None:
        """End the connection, because no memory is left for the peer.

        The end of the streams is reported in a later iteration of the event loop, because the caller may be using a
        stream.
        """
        self.close(GoAway.INTERNAL_ERROR)
        self._loop.call_soon(self._owner.drop, self)

    def flush_soon(self) -> None:
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        channel, transport = self._channel, self._transport
        if channel is None or transport is None or self.closed or self._disconnected:
            return
        while not self._streams.congested:
            output = self._mux.take()
            if not output:
                break
            sealed = channel.seal(output)
            self._liveness.written += len(sealed)
            transport.write(sealed)
        self._streams.flushed()

    def _handshake_timed_out(self) -> None:
        self._refuse(ProtocolError(f"the handshake took longer than {self._limits.handshake_s:g} s"))
        self.abort()

    def _fail(self, error: ProtocolError) -> None:
        """Close the connection because the peer broke a protocol."""
        self._refuse(error)
        self.close(GoAway.PROTOCOL_ERROR)

    def _refuse(self, error: ProtocolError) -> None:
        self._stop_timer()
        if not self.ready.done():
            self.ready.set_exception(error)
            self.ready.exception()  # asyncio would warn about an exception that is never retrieved

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
