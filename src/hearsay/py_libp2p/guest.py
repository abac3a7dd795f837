"""Imports of py-libp2p and trio on demand, trio as a guest of the asyncio event loop, and hooks into py-libp2p."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any, ClassVar, TypeVar
from weakref import WeakKeyDictionary

from hearsay.extras import MissingExtra, pip_install
from hearsay.libp2p.host.node_host import concrete_addresses
from hearsay.libp2p.limits.resources import address_group
from hearsay.libp2p.names.errors import EncodingError
from hearsay.libp2p.names.multiaddr import Multiaddr
from hearsay.libp2p.names.peer_id import PeerId


def library(name: str) -> Any:
    """Import a module of py-libp2p or of its dependencies. Raises `MissingExtra` if it is not installed."""
    loaded = "libp2p" in sys.modules
    try:
        module = import_module(name)
    except ImportError:
        raise MissingExtra(f"a py-libp2p host needs py-libp2p 0.8: {pip_install('libp2p')}") from None
    if not loaded and "LIBP2P_DEBUG" not in os.environ:
        # py-libp2p logs every failed dial and negotiation as an error, but callers get exceptions for them.
        logging.getLogger("libp2p").setLevel(logging.CRITICAL)
    return module


T = TypeVar("T")


class Guest:
    """A run of trio in an asyncio event loop. All hosts of the loop share it; it ends when the last one leaves."""

    _of_loop: ClassVar[WeakKeyDictionary[asyncio.AbstractEventLoop, Guest]] = WeakKeyDictionary()

    def __init__(self) -> None:
        self._trio = library("trio")
        self._loop = asyncio.get_running_loop()
        self._users = 0
        self._nursery: Any = None
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._trio.lowlevel.start_guest_run(
            self._main,
            run_sync_soon_threadsafe=self._loop.call_soon_threadsafe,
            done_callback=self._done,
            host_uses_signal_set_wakeup_fd=True,
        )

    @classmethod
    async def join(cls) -> Guest:
        """Return the guest of the running event loop. Each caller must call `leave` once."""
        loop = asyncio.get_running_loop()
        guest = cls._of_loop.get(loop)
        if guest is None:
            guest = cls._of_loop[loop] = cls()
        guest._users += 1
        await asyncio.shield(guest._ready)
        return guest

    async def leave(self) -> None:
        self._users -= 1
        if not self._users:
            del self._of_loop[self._loop]
            self._nursery.cancel_scope.cancel()
            await self._ended

    def call(self, work: Callable[..., Awaitable[T]], *arguments: object) -> asyncio.Future[T]:
        """Start `work` in trio. Returns a future of its result or error."""
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
        try:
            outcome.unwrap()
        except BaseException as error:
            self._ended.set_exception(error)
        else:
            self._ended.set_result(None)


def remote_address_of(connection: Any) -> Multiaddr | None:
    for address in connection.get_transport_addresses():
        try:
            return without_peer(Multiaddr.decode(address.to_bytes()))
        except EncodingError:
            continue
    return None


def group_of(address: Multiaddr | None) -> str:
    return address_group(address.parts[0][1]) if address is not None else ""


def their_id(peer: PeerId) -> Any:
    return library("libp2p.peer.id").ID(peer)


def their_address(address: Multiaddr) -> Any:
    return library("multiaddr").Multiaddr(str(address))


def without_peer(address: Multiaddr) -> Multiaddr:
    return Multiaddr(address.parts[:-1]) if address.peer is not None else address


def each_interface(address: Multiaddr) -> list[Multiaddr]:
    """Return the address; if it stands for all interfaces, return the addresses of the interfaces instead."""
    (_, host), (_, port) = address.parts[:2]
    return [
        Multiaddr((("ip6" if ":" in found else "ip4", found), *address.parts[1:]))
        for found, _ in concrete_addresses(host, int(port))
    ]


class Notifee:
    """The receiver of py-libp2p's notifications of connections."""

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
    """The connection gate that py-libp2p asks before a dial, or a handshake over TCP or WebSocket."""

    def __init__(self, admits: Callable[[str], bool]) -> None:
        self._admits = admits

    async def is_allowed(self, address: Any) -> bool:
        try:
            known = Multiaddr.decode(address.to_bytes())
        except EncodingError:
            return True
        return not known.parts or self._admits(address_group(known.parts[0][1]))


def connection_config(most: int) -> Any:
    config = library("libp2p.network.config")
    connections = min(config.MAX_CONNECTIONS, most)
    return config.ConnectionConfig(
        max_connections=connections,
        high_watermark=connections,
        low_watermark=min(config.LOW_WATERMARK, connections),
        min_connections=min(config.MIN_CONNECTIONS, connections // 4),
    )
