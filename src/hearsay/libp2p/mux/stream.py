"""A stream of a connection, for asyncio. Writing never blocks; reading is by `await` or by a receiver.

Reading opens the peer's window again; an unread stream slows down its peer only. Data that the peer's window does
not allow waits in memory, so writers of much data call `drain` in between, and
`unsent` returns its size.

Waiting data of both directions is reserved in the stream's budget, and so should be data that a protocol's handler
keeps. A stream whose budget has no room is reset.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from hearsay.libp2p.limits.resources import Budget
from hearsay.libp2p.names.errors import ProtocolError
from hearsay.libp2p.names.peer_id import PeerId


class StreamClosed(Exception):
    """The stream was reset, or its connection is gone."""


class Receiver(Protocol):
    """Receives a stream's data as it comes."""

    def data_received(self, data: bytes) -> None: ...

    def stream_ended(self, reset: bool) -> None: ...


class Carrier(Protocol):
    """The carrier of a stream's bytes: our own connection, or a stream of py-libp2p. Streams have numbers."""

    @property
    def peer(self) -> PeerId: ...

    @property
    def congested(self) -> bool:
        """Return True while no data is sent, whichever stream it belongs to."""
        ...

    def send(self, number: int, data: bytes) -> None: ...

    def over_budget(self, stream: Stream, count: int) -> None:
        """Handle a stream whose budget has no room for `count` more bytes; the stream ends."""
        ...

    def unsent(self, number: int) -> int: ...

    def read(self, number: int, count: int) -> None:
        """Report bytes that the application has read; the peer may send as many more."""
        ...

    def finish(self, number: int) -> None: ...

    def reset(self, number: int) -> None: ...

    def call_when_writable(self, stream: Stream, callback: Callable[[], None]) -> None: ...


class Stream:
    """A stream. `protocol` is the one that was negotiated for it."""

    __slots__ = (
        "_carrier",
        "_end_reported",
        "_over",
        "_paused",
        "_read_waiter",
        "_receiver",
        "_unread",
        "budget",
        "ended",
        "id",
        "protocol",
        "was_reset",
    )

    def __init__(self, carrier: Carrier, number: int, budget: Budget) -> None:
        self._carrier = carrier
        self.id = number
        self.budget = budget
        self.protocol = ""
        self.ended = False
        """True if the peer sends no more."""
        self.was_reset = False
        self._unread = bytearray()
        self._receiver: Receiver | None = None
        self._paused = False
        self._read_waiter: asyncio.Future[None] | None = None
        self._end_reported = False
        self._over = False

    @property
    def peer(self) -> PeerId:
        return self._carrier.peer

    @property
    def unsent(self) -> int:
        """Return the bytes that were written and not sent."""
        return self._carrier.unsent(self.id)

    @property
    def writable(self) -> bool:
        """Return True if written data is expected to be sent at once."""
        return not self.was_reset and not self._carrier.congested and not self.unsent

    def write(self, data: bytes) -> None:
        """Send data. On a stream that is gone the data is dropped, which `drain` reports."""
        self._carrier.send(self.id, data)

    async def drain(self) -> None:
        """Wait until all written data is sent. Raises `StreamClosed` if the stream is gone."""
        while not self.writable:
            if self.was_reset:
                raise StreamClosed("the stream is gone")
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.call_when_writable(lambda waiter=waiter: None if waiter.done() else waiter.set_result(None))
            await waiter

    def call_when_writable(self, callback: Callable[[], None]) -> None:
        """Call once when the stream can be written to again, or is gone."""
        self._carrier.call_when_writable(self, callback)

    async def read(self) -> bytes:
        """Return the next piece of data; empty at the end of the stream."""
        if self._receiver is not None:
            raise RuntimeError("the stream has a receiver")
        while not self._unread:
            if self.was_reset:
                raise StreamClosed("the stream was reset")
            if self.ended:
                return b""
            await self._more()
        return self._taken()

    def receive_with(self, receiver: Receiver) -> None:
        """Pass all data to a receiver from now on, and the unread data at once."""
        self._receiver = receiver
        self._hand_over()

    def pause(self) -> None:
        """Stop passing data to the receiver; the peer may send one more window."""
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        self._hand_over()

    def finish(self) -> None:
        """Send no more after the data that was written."""
        self._carrier.finish(self.id)

    def reset(self) -> None:
        """End both directions at once."""
        if not self.was_reset:
            self._carrier.reset(self.id)
            self._unread.clear()
            self.on_reset()

    def on_data(self, data: bytes) -> None:
        """Take data of the peer."""
        if self._receiver is not None and not self._paused and not self._unread:
            self._carrier.read(self.id, len(data))
            self._deliver(self._receiver, data)
            return
        self.preload(data)
        self._wake_reader()

    def preload(self, data: bytes) -> None:
        """Keep data until it is read, such as data that follows the negotiation of the protocol."""
        if self.budget.reserve(len(data)):
            self._unread += data
        else:
            self._carrier.over_budget(self, len(data))

    def on_end(self) -> None:
        """Note that the peer sends no more."""
        self.ended = True
        self._hand_over()
        self._wake_reader()

    def on_reset(self) -> None:
        """End the stream: it or its connection is gone. A receiver gets earlier data, even if it had paused."""
        if not self.was_reset:
            self.was_reset = True
            unread = bytes(self._unread)
            self._unread.clear()
            if unread and self._receiver is not None:
                self._deliver(self._receiver, unread)
            self._tell_end()
            self._wake_reader()
            self.budget.close()

    def on_over(self) -> None:
        """Note that both sides have finished. Unread data can still be read."""
        self._over = True
        if self._end_reported:
            self.budget.close()

    def _hand_over(self) -> None:
        if self._receiver is None or self._paused:
            return
        if self._unread:
            self._deliver(self._receiver, self._taken())
        if (self.ended and not self._unread) or self.was_reset:
            self._tell_end()

    def _tell_end(self) -> None:
        if self._receiver is not None and not self._end_reported:
            self._end_reported = True
            self._receiver.stream_ended(self.was_reset)
            if self._over:
                self.budget.close()

    def _taken(self) -> bytes:
        """Return all unread data."""
        data = bytes(self._unread)
        self._unread.clear()
        self.budget.release(len(data))
        self._carrier.read(self.id, len(data))
        return data

    async def _more(self) -> None:
        """Wait until there is data or an end."""
        if self._read_waiter is not None:
            raise RuntimeError("another reader uses this stream")
        self._read_waiter = asyncio.get_running_loop().create_future()
        try:
            await self._read_waiter
        finally:
            self._read_waiter = None

    def _deliver(self, receiver: Receiver, data: bytes) -> None:
        try:
            receiver.data_received(data)
        except ProtocolError:
            self.reset()

    def _wake_reader(self) -> None:
        waiter = self._read_waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)
