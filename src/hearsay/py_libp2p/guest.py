"""The connection to py-libp2p: its import on demand, trio inside the asyncio event loop, its hooks, and its streams.

In a guest run, trio's tasks run in the event loop of asyncio. All hosts of an event loop share one guest run.

A `StreamCarrier` carries the bytes of one `Stream`. One trio task reads from py-libp2p's stream, and another writes
to it. While `WINDOW` received bytes or more wait for the reader of the `Stream`, nothing is read from py-libp2p's
stream. So its flow control slows the peer down. Written bytes wait until py-libp2p accepts them; `unsent` returns
their number. Waiting bytes are reserved in the budget of the `Stream`; bytes in buffers of py-libp2p are not.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from importlib import import_module
from typing import Any, ClassVar, Protocol, TypeVar
from weakref import WeakKeyDictionary

from hearsay.libp2p.mux.stream import Stream
from hearsay.libp2p.names.multiaddr import Multiaddr
from hearsay.libp2p.names.peer_id import PeerId
from hearsay.libp2p.node_host import concrete_addresses
from hearsay.libp2p.rendezvous import readable_addresses
from hearsay.libp2p.resources import Resources, address_group
from hearsay.user_errors import MissingExtra, pip_install

WINDOW = 256 * 1024
_READ_BYTES = _WRITE_BYTES = 64 * 1024
T = TypeVar("T")


def import_extra(name: str) -> Any:
    """Import and return a module of py-libp2p or of its dependencies. Raises `MissingExtra` without the module."""
    loaded = "libp2p" in sys.modules
    try:
        module = import_module(name)
    except ImportError:
        raise MissingExtra(f"a py-libp2p host needs py-libp2p 0.8: {pip_install('libp2p')}") from None
    if not loaded and "LIBP2P_DEBUG" not in os.environ:
        # py-libp2p logs every failed dial and negotiation as an error, but callers get exceptions for them.
        logging.getLogger("libp2p").setLevel(logging.CRITICAL)
    return module


class Guest:
    """A guest run of trio in an asyncio event loop. It ends when the last host leaves it."""

    _of_loop: ClassVar[WeakKeyDictionary[asyncio.AbstractEventLoop, Guest]] = WeakKeyDictionary()

    def __init__(self) -> None:
        self._trio = import_extra("trio")
        self._loop = asyncio.get_running_loop()
        self._users = 0
        self._nursery: Any = None
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._ended: asyncio.Future[Any] = self._loop.create_future()
        self._trio.lowlevel.start_guest_run(
            self._main,
            run_sync_soon_threadsafe=self._loop.call_soon_threadsafe,
            done_callback=self._done,
            host_uses_signal_set_wakeup_fd=True,
        )

    @classmethod
    async def join(cls) -> Guest:
        """Return the guest run of the running event loop. Each caller must call `leave` once."""
        loop = asyncio.get_running_loop()
        while (guest := cls._of_loop.get(loop)) is not None and not guest._users:
            await asyncio.wait([guest._ended])  # trio allows one run at a time in a thread
        if guest is None:
            guest = cls._of_loop[loop] = cls()
        guest._users += 1
        await asyncio.shield(guest._ready)
        return guest

    async def leave(self) -> None:
        self._users -= 1
        if not self._users:
            self._nursery.cancel_scope.cancel()
            (await asyncio.shield(self._ended)).unwrap()

    def call(self, work: Callable[..., Awaitable[T]], *arguments: object) -> asyncio.Future[T]:
        """Start `work` in trio. Returns a future of its result or error; to cancel the future cancels `work`."""
        future: asyncio.Future[T] = self._loop.create_future()
        scope = self._trio.CancelScope()

        async def perform() -> None:
            with scope:
                try:
                    result = await work(*arguments)
                except Exception as error:
                    if not future.done():
                        future.set_exception(error)
                else:
                    if not future.done():
                        future.set_result(result)
            if not future.done():
                future.cancel()

        future.add_done_callback(lambda done: scope.cancel() if done.cancelled() else None)
        self._nursery.start_soon(perform)
        return future

    async def _main(self) -> None:
        async with self._trio.open_nursery() as nursery:
            self._nursery = nursery
            self._ready.set_result(None)
            await self._trio.sleep_forever()

    def _done(self, outcome: Any) -> None:
        del self._of_loop[self._loop]
        self._ended.set_result(outcome)


class StreamCarrier:
    """The carrier of one `Stream`, as the module describes it. `number` identifies the stream."""

    congested = False

    def __init__(
        self, number: int, under: Any, resources: Resources, address: str, inbound: bool, owner: CarrierOwner
    ) -> None:
        self._trio = import_extra("trio")
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
        ends = import_extra("libp2p.network.stream.exceptions").StreamEOF
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


class CarrierOwner(Protocol):
    """The owner of `StreamCarrier`s: the host."""

    def record_activity(self, peer: PeerId) -> None: ...

    def peer_over_limit(self, peer: PeerId) -> None: ...

    def carrier_gone(self, carrier: StreamCarrier) -> None: ...


class Notifee:
    """The object that py-libp2p notifies of new and ended connections. It calls `up` or `down`."""

    def __init__(self, up: Callable[[Any], None], down: Callable[[Any], None]) -> None:
        self._up = up
        self._down = down

    async def connected(self, network: Any, connection: Any) -> None:
        self._up(connection)

    async def disconnected(self, network: Any, connection: Any) -> None:
        self._down(connection)

    async def opened_stream(self, network: Any, stream: Any) -> None: ...

    async def closed_stream(self, network: Any, stream: Any) -> None: ...

    async def listen(self, network: Any, address: Any) -> None: ...

    async def listen_close(self, network: Any, address: Any) -> None: ...


class Gate:
    """The connection gate, which py-libp2p asks before a dial, and before a handshake over TCP or WebSocket.

    `admits` decides by the address group. An address that cannot be decoded is allowed.
    """

    def __init__(self, admits: Callable[[str], bool]) -> None:
        self._admits = admits

    async def is_allowed(self, address: Any) -> bool:
        known = readable_addresses([address.to_bytes()])
        return not known or self._admits(group_of(known[0]))


def connection_config(most: int) -> Any:
    config = import_extra("libp2p.network.config")
    connections = min(config.MAX_CONNECTIONS, most)
    return config.ConnectionConfig(
        max_connections=connections,
        high_watermark=connections,
        low_watermark=min(config.LOW_WATERMARK, connections),
        min_connections=min(config.MIN_CONNECTIONS, connections // 4),
    )


def remote_address_of(connection: Any) -> Multiaddr | None:
    found = readable_addresses(address.to_bytes() for address in connection.get_transport_addresses())
    return without_peer(found[0]) if found else None


def group_of(address: Multiaddr | None) -> str:
    return address_group(address.parts[0][1]) if address is not None else ""


def py_libp2p_id(peer: PeerId) -> Any:
    return import_extra("libp2p.peer.id").ID(peer)


def py_libp2p_address(address: Multiaddr) -> Any:
    return import_extra("multiaddr").Multiaddr(str(address))


def without_peer(address: Multiaddr) -> Multiaddr:
    return Multiaddr(address.parts[:-1]) if address.peer is not None else address


def each_interface(address: Multiaddr) -> list[Multiaddr]:
    """Return a list of the address, or of the address of each interface if `address` stands for all interfaces."""
    (_, host), (_, port) = address.parts[:2]
    return [
        Multiaddr((("ip6" if ":" in found else "ip4", found), *address.parts[1:]))
        for found, _ in concrete_addresses(host, int(port))
    ]
