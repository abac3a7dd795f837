"""A stream of a connection, for asyncio. Writing never blocks. Data is read with `await` or passed to a receiver.

Reading opens the peer's send window again; an unread stream slows down only its peer. Data beyond our send window
waits in memory (`unsent`), so writers of much data should call `drain` in between.

Waiting data of both directions is reserved in the stream's budget. A protocol handler that keeps data should reserve
it there, too. A stream whose budget has no room is reset.
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
    """Receives the data of a stream as it arrives."""

    def data_received(self, data: bytes) -> None: ...

    def stream_ended(self, reset: bool) -> None: ...


class Carrier(Protocol):
    """The carrier of a stream's bytes: our own connection, or a stream of py-libp2p. Numbers identify streams."""

    @property
    def peer(self) -> PeerId: ...

    @property
    def congested(self) -> bool:
        """Return True while no data of any stream can be sent."""
        ...

    def send(self, number: int, data: bytes) -> None: ...

    def over_budget(self, stream: Stream, count: int) -> None:
        """End a stream whose budget has no room for `count` more bytes."""
        ...

    def unsent(self, number: int) -> int: ...

    def read(self, number: int, count: int) -> None:
        """Report that the application has read `count` bytes, so that the peer may send more."""
        ...

    def finish(self, number: int) -> None: ...

    def reset(self, number: int) -> None: ...

    def call_when_writable(self, stream: Stream, callback: Callable[[], None]) -> None: ...


class Stream:
    """A stream. `protocol` is the negotiated protocol."""

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
        """True if the peer has finished its direction."""
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
        """Return the number of written bytes that are not sent."""
        return self._carrier.unsent(self.id)

    @property
    def writable(self) -> bool:
        """Return True if written data is expected to be sent at once."""
        return not self.was_reset and not self._carrier.congested and not self.unsent

    def write(self, data: bytes) -> None:
        """Send data. If the stream is gone, the data is dropped and `drain` raises."""
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
        """Call `callback` once, when the stream is writable or gone."""
        self._carrier.call_when_writable(self, callback)

    async def read(self) -> bytes:
        """Return the next data; empty at the end of the stream. Raises `StreamClosed` after a reset."""
        if self._receiver is not None:
            raise RuntimeError("the stream has a receiver")
        while not self._unread:
            if self.was_reset:
                raise StreamClosed("the stream was reset")
            if self.ended:
                return b""
            await self._wait_for_data()
        return self._take_unread()

    def receive_with(self, receiver: Receiver) -> None:
        """Pass the unread data and all further data to a receiver."""
        self._receiver = receiver
        self._deliver_unread()

    def pause(self) -> None:
        """Stop passing data to the receiver; the peer may send one more window."""
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        self._deliver_unread()

    def finish(self) -> None:
        """Finish our direction after the written data."""
        self._carrier.finish(self.id)

    def reset(self) -> None:
        """End both directions at once."""
        if not self.was_reset:
            self._carrier.reset(self.id)
            self._unread.clear()
            self.on_reset()

    def on_data(self, data: bytes) -> None:
        """Handle data from the peer."""
        if self._receiver is not None and not self._paused and not self._unread:
            self._carrier.read(self.id, len(data))
            self._deliver(self._receiver, data)
            return
        self.preload(data)
        self._wake_reader()

    def preload(self, data: bytes) -> None:
        """Keep data until it is read, such as data that follows the negotiation."""
        if self.budget.reserve(len(data)):
            self._unread += data
        else:
            self._carrier.over_budget(self, len(data))

    def on_end(self) -> None:
        """Handle the end of the peer's direction."""
        self.ended = True
        self._deliver_unread()
        self._wake_reader()

    def on_reset(self) -> None:
        """End the stream: it or its connection is gone. A receiver, even if paused, gets the unread data first."""
        if not self.was_reset:
            self.was_reset = True
            unread = bytes(self._unread)
            self._unread.clear()
            if unread and self._receiver is not None:
                self._deliver(self._receiver, unread)
            self._report_end()
            self._wake_reader()
            self.budget.close()

    def on_over(self) -> None:
        """Handle the end of both directions. Unread data can still be read."""
        self._over = True
        if self._end_reported:
            self.budget.close()

    def _deliver_unread(self) -> None:
        if self._receiver is None or self._paused:
            return
        if self._unread:
            self._deliver(self._receiver, self._take_unread())
        if (self.ended and not self._unread) or self.was_reset:
            self._report_end()

    def _report_end(self) -> None:
        if self._receiver is not None and not self._end_reported:
            self._end_reported = True
            self._receiver.stream_ended(self.was_reset)
            if self._over:
                self.budget.close()

    def _take_unread(self) -> bytes:
        """Remove and return all unread data."""
        data = bytes(self._unread)
        self._unread.clear()
        self.budget.release(len(data))
        self._carrier.read(self.id, len(data))
        return data

    async def _wait_for_data(self) -> None:
        """Wait for data or the end of the stream."""
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
