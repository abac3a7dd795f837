"""A stream of a connection, for asyncio. Writing never blocks. Data is read with `await` or passed to a function.

Reading opens the peer's send window again; an unread stream slows down only its peer. Data beyond our send window
waits in memory (`unsent`), so writers of much data should call `drain` between writes.

Waiting data of both directions is reserved in the stream's budget. A protocol handler that keeps data should also
reserve it there. A stream whose budget has no room is reset.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from hearsay.libp2p.names.errors import ProtocolError
from hearsay.libp2p.names.peer_id import PeerId
from hearsay.libp2p.resources import Budget


class StreamClosed(Exception):
    """The error that a stream was reset, could not be opened, or has lost its connection."""


class Carrier(Protocol):
    """The carrier of a stream's bytes: our own connection, or a stream of py-libp2p. Numbers identify streams."""

    peer: PeerId
    congested: bool
    """True while no data of any stream can be sent."""

    def send(self, number: int, data: bytes) -> None: ...

    def over_budget(self, stream: Stream, count: int) -> None:
        """End a stream whose budget has no room for `count` more bytes."""
        ...

    def unsent(self, number: int) -> int: ...

    def read(self, number: int, count: int) -> None:
        """Handle that the reader of the stream has read `count` bytes, so that the peer may send more."""
        ...

    def finish(self, number: int) -> None: ...

    def reset(self, number: int) -> None: ...

    def call_when_writable(self, stream: Stream, callback: Callable[[], None]) -> None: ...


class Stream:
    """A stream. `protocol` is the negotiated protocol; it is empty before the negotiation."""

    def __init__(self, carrier: Carrier, number: int, budget: Budget) -> None:
        self._carrier = carrier
        self.id = number
        self.budget = budget
        self.protocol = ""
        self.ended = False
        """True if the peer has finished its direction."""
        self.was_reset = False
        self._unread = bytearray()
        self._on_data: Callable[[bytes], None] | None = None
        self._on_end: Callable[[bool], None] | None = None
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
        """Return True if no written data waits, so that further data is probably sent at once."""
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
        """Wait for data and return it; empty at the end of the peer's direction. Raises `StreamClosed` after a reset.

        Raises `RuntimeError` after `receive_with`, or while another reader waits.
        """
        if self._on_data is not None:
            raise RuntimeError("read cannot be used after receive_with, which passes the data to a function")
        while not self._unread:
            if self.was_reset:
                raise StreamClosed("the stream was reset")
            if self.ended:
                return b""
            await self._wait_for_data()
        return self._take_unread()

    def receive_with(self, on_data: Callable[[bytes], None], on_end: Callable[[bool], None]) -> None:
        """Call `on_data` with the unread data and all further data, then `on_end` once, with True if it was reset.

        A `ProtocolError` of `on_data` resets the stream.
        """
        self._on_data, self._on_end = on_data, on_end
        self._deliver_unread()

    def pause(self) -> None:
        """Store received data until `resume`, and do not pass it on. The peer may still send one window of data."""
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        self._deliver_unread()

    def finish(self) -> None:
        """Finish our direction after all written data. The caller must write no further data."""
        self._carrier.finish(self.id)

    def reset(self) -> None:
        """End both directions at once."""
        if not self.was_reset:
            self._carrier.reset(self.id)
            self._unread.clear()
            self.on_reset()

    def on_data(self, data: bytes) -> None:
        """Handle data from the peer."""
        if self._on_data is not None and not self._paused and not self._unread:
            self._carrier.read(self.id, len(data))
            self._deliver(self._on_data, data)
            return
        self.preload(data)
        self._wake_reader()

    def preload(self, data: bytes) -> None:
        """Store data until it is read, such as data that follows the negotiation."""
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
        """Handle the loss of the stream or of its connection.

        Unread data is first passed to the function of `receive_with`, even during a pause; without one, it is lost.
        """
        if not self.was_reset:
            self.was_reset = True
            unread = bytes(self._unread)
            self._unread.clear()
            if unread and self._on_data is not None:
                self._deliver(self._on_data, unread)
            self._report_end()
            self._wake_reader()
            self.budget.close()

    def on_over(self) -> None:
        """Handle the end of both directions. Unread data can still be read."""
        self._over = True
        if self._end_reported:
            self.budget.close()

    def _deliver_unread(self) -> None:
        if self._on_data is None or self._paused:
            return
        if self._unread:
            self._deliver(self._on_data, self._take_unread())
        if (self.ended and not self._unread) or self.was_reset:
            self._report_end()

    def _report_end(self) -> None:
        if self._on_end is not None and not self._end_reported:
            self._end_reported = True
            self._on_end(self.was_reset)
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

    def _deliver(self, on_data: Callable[[bytes], None], data: bytes) -> None:
        try:
            on_data(data)
        except ProtocolError:
            self.reset()

    def _wake_reader(self) -> None:
        waiter = self._read_waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)
