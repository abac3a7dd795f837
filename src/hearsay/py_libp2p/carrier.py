"""A stream of py-libp2p that carries one of our streams. One trio task reads, another writes.

About `WINDOW` received bytes at most wait for the reader of our stream. Beyond that, nothing more is read from
py-libp2p's stream, so that its flow control slows the peer down. Written bytes wait until py-libp2p accepts them;
`unsent` returns their number. Waiting bytes are reserved in the stream's budget, the buffers of py-libp2p are not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

from hearsay.libp2p.limits.resources import Resources
from hearsay.libp2p.mux.stream import Stream
from hearsay.libp2p.names.peer_id import PeerId
from hearsay.py_libp2p.guest import library

WINDOW = 256 * 1024
_READ_BYTES = _WRITE_BYTES = 64 * 1024


class CarrierOwner(Protocol):
    """The owner of streams: the host."""

    def record_activity(self, peer: PeerId) -> None: ...

    def peer_over_limit(self, peer: PeerId) -> None: ...

    def carrier_gone(self, carrier: StreamCarrier) -> None: ...


class StreamCarrier:
    congested = False

    def __init__(
        self, number: int, under: Any, resources: Resources, address: str, inbound: bool, owner: CarrierOwner
    ) -> None:
        self._trio = library("trio")
        self._under = under
        self._owner = owner
        self.inbound = inbound
        self._loop = asyncio.get_running_loop()
        self._unread = 0
        self._unsent = bytearray()
        self._finished = self._ended = False
        self._taken = self._trio.Event()
        self._written = self._trio.Event()
        self._scope = self._trio.CancelScope()
        self._waiting: list[Callable[[], None]] = []
        self.peer: PeerId = under.muxed_conn.peer_id.to_bytes()
        protocol = str(under.get_protocol())
        self.stream = Stream(self, number, resources.stream(self.peer, address, protocol))
        self.stream.protocol = protocol

    async def run(self) -> None:
        """Carry bytes in both directions until both have ended or the stream is reset. Runs in trio."""
        orderly = False
        with self._scope, suppress(Exception):  # py-libp2p raises errors of many types: reset, gone, timed out
            async with self._trio.open_nursery() as nursery:
                nursery.start_soon(self._read)
                nursery.start_soon(self._write)
            orderly = True
        self._loop.call_soon(self._over, orderly)
        with suppress(Exception), self._trio.move_on_after(1, shield=True):
            await (self._under.close() if orderly else self._under.reset())

    def send(self, number: int, data: bytes) -> None:
        if self._finished or self.stream.was_reset:
            return
        if self.stream.budget.reserve(len(data)):
            self._unsent += data
            self._written.set()
        else:
            self._loop.call_soon(self.over_budget, self.stream, len(data))

    def over_budget(self, stream: Stream, count: int) -> None:
        if not stream.was_reset:
            self._owner.peer_over_limit(self.peer)
            stream.reset()

    def unsent(self, number: int) -> int:
        return len(self._unsent)

    def read(self, number: int, count: int) -> None:
        self._unread -= count
        self._taken.set()

    def finish(self, number: int) -> None:
        self._finished = True
        self._written.set()

    def reset(self, number: int) -> None:
        self._scope.cancel()
        self._unsent.clear()
        self._loop.call_soon(self._call_writers)

    def call_when_writable(self, stream: Stream, callback: Callable[[], None]) -> None:
        self._waiting.append(callback)
        if stream.writable or stream.was_reset:
            self._loop.call_soon(self._call_writers)

    def end(self) -> None:
        """End the stream, because the connection is gone."""
        self._scope.cancel()
        self._over(False)

    async def _read(self) -> None:
        ends = library("libp2p.network.stream.exceptions").StreamEOF
        while True:
            while self._unread >= WINDOW:
                self._taken = self._trio.Event()
                await self._taken.wait()
            try:
                data = await self._under.read(_READ_BYTES)
            except ends:
                data = b""
            if not data:
                self._loop.call_soon(self.stream.on_end)
                return
            self._owner.record_activity(self.peer)
            self._unread += len(data)
            self._loop.call_soon(self.stream.on_data, data)

    async def _write(self) -> None:
        while True:
            while self._unsent:
                piece = bytes(self._unsent[:_WRITE_BYTES])
                await self._under.write(piece)
                del self._unsent[: len(piece)]
                self.stream.budget.release(len(piece))
            self._loop.call_soon(self._call_writers)
            if self._finished:
                await self._under.close_write()
                return
            self._written = self._trio.Event()
            await self._written.wait()

    def _over(self, orderly: bool) -> None:
        if self._ended:
            return
        self._ended = True
        if orderly:
            self.stream.on_over()
        else:
            self.stream.on_reset()
        self._unsent.clear()
        self._call_writers()
        self._owner.carrier_gone(self)

    def _call_writers(self) -> None:
        if self._unsent and not self.stream.was_reset:
            return
        waiting, self._waiting = self._waiting, []
        for callback in waiting:
            callback()
