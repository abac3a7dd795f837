"""The asyncio host: listens and dials over TCP, one connection per peer, streams by protocol.

What it does not do: NAT traversal, relays, QUIC, WebSocket, plaintext. uvloop works if the caller runs it.

Two peers that dial each other at once get two connections; both sides keep the one that the smaller peer id dialed.
Otherwise a newer connection replaces an older one, which may be dead without having said so.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from hearsay.libp2p.connection import Connection, ConnectionLimits
from hearsay.libp2p.errors import DialError, OwnAddress, OwnIdentity, ProtocolError
from hearsay.libp2p.interfaces import concrete_addresses
from hearsay.libp2p.keys import PrivateKey
from hearsay.libp2p.multiaddr import Multiaddr, tcp_multiaddr
from hearsay.libp2p.peer_id import PeerId, peer_id_of, to_text
from hearsay.libp2p.resources import address_group
from hearsay.libp2p.stream import Stream, StreamClosed

_FAMILIES = {"ip4": socket.AF_INET, "dns4": socket.AF_INET, "ip6": socket.AF_INET6, "dns6": socket.AF_INET6}


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLimits:
    max_connections: int = 1024
    max_handshakes: int = 128
    """Inbound connections that have not proven who they are."""
    dial_s: float = 15.0
    connection: ConnectionLimits = field(default_factory=ConnectionLimits)


@dataclass(slots=True)
class _Dialing:
    """Ends when nobody waits for it any more."""

    address: Multiaddr
    task: asyncio.Task[PeerId]
    waiting: int = 0


class Host:
    """Callbacks: `on_peer_up` and `on_peer_down`, with the peer id, when its connection comes and goes."""

    def __init__(self, identity: PrivateKey | None = None, limits: HostLimits | None = None) -> None:
        self.identity = identity or PrivateKey.generate()
        self.peer = peer_id_of(self.identity.public)
        self.on_peer_up: list[Callable[[PeerId], None]] = []
        self.on_peer_down: list[Callable[[PeerId], None]] = []
        self.admits: Callable[[PeerId | None, str], bool] = lambda _peer, _address: True
        self.connections: dict[PeerId, Connection] = {}
        self._limits = limits or HostLimits()
        self._handlers: dict[str, Callable[[Stream], None]] = {}
        self._servers: list[asyncio.Server] = []
        self._all: set[Connection] = set()
        self._dialing: dict[PeerId, _Dialing] = {}
        self._closed = False
        self.refused = 0
        """Connections over a limit, or of somebody who is not admitted."""

    @property
    def protocols(self) -> Collection[str]:
        return self._handlers.keys()

    @property
    def addresses(self) -> tuple[Multiaddr, ...]:
        """Where others reach this host, with its peer id; if it listens everywhere, at each of its interfaces."""
        return tuple(
            tcp_multiaddr(host, port).with_peer(self.peer)
            for server in self._servers
            for listening in server.sockets
            for host, port in concrete_addresses(*listening.getsockname()[:2])
        )

    def handle(self, protocol: str, handler: Callable[[Stream], None]) -> None:
        """Call `handler` with each stream that a peer opens for `protocol`."""
        self._handlers[protocol] = handler

    async def listen(self, address: Multiaddr | str) -> tuple[Multiaddr, ...]:
        """Accept connections; port 0 takes any. Returns all addresses."""
        parsed = Multiaddr.parse(address) if isinstance(address, str) else address
        endpoint = parsed.tcp_endpoint
        if endpoint is None:
            raise ValueError(f"{parsed}: this host listens on TCP only, such as /ip4/127.0.0.1/tcp/0")
        loop = asyncio.get_running_loop()
        self._servers.append(await loop.create_server(self._inbound, *endpoint))
        return self.addresses

    @staticmethod
    def can_dial(address: Multiaddr) -> bool:
        """Whether it is an address of the only kind this host dials: TCP."""
        return address.tcp_endpoint is not None

    async def dial(self, address: Multiaddr | str) -> PeerId:
        """Connect to a peer; who it is. Without /p2p in the address anybody may answer."""
        parsed = Multiaddr.parse(address) if isinstance(address, str) else address
        expected = parsed.peer
        if expected is None:
            return await self._dial(parsed, None)
        if expected == self.peer:
            raise OwnAddress(parsed, "that is this host itself")
        dialing = await self._others_tried(expected, parsed)
        if expected in self.connections:
            return expected
        if dialing is None:
            task = asyncio.ensure_future(self._dial(parsed, expected))
            started = dialing = self._dialing[expected] = _Dialing(parsed, task)
            task.add_done_callback(lambda _: self._dialed(expected, started))
        dialing.waiting += 1
        try:
            return await asyncio.shield(dialing.task)
        finally:
            dialing.waiting -= 1
            if not dialing.waiting:
                dialing.task.cancel()
                self._dialed(expected, dialing)

    async def _others_tried(self, peer: PeerId, address: Multiaddr) -> _Dialing | None:
        """A dial of this address, if there is one; those of the peer's other addresses have come to an end.

        Two connections at once would be in each other's way, and none shall fail because somebody tries a wrong one.
        """
        while (dialing := self._dialing.get(peer)) is not None and dialing.address != address:
            await asyncio.wait([dialing.task])
        return dialing

    def _dialed(self, peer: PeerId, dialing: _Dialing) -> None:
        if self._dialing.get(peer) is dialing:
            del self._dialing[peer]
        if dialing.task.done() and not dialing.task.cancelled():
            dialing.task.exception()  # whoever waited for it may be gone

    async def open_stream(self, peer: PeerId, protocols: Sequence[str]) -> Stream:
        """A stream to a connected peer, for the first of `protocols` it speaks."""
        connection = self.connections.get(peer)
        if connection is None:
            raise StreamClosed(f"{to_text(peer)} is not connected")
        return await connection.open_stream(protocols)

    def remote_address(self, peer: PeerId) -> Multiaddr | None:
        """The other end of the connection to a peer."""
        connection = self.connections.get(peer)
        remote = connection.remote_address if connection is not None else None
        return tcp_multiaddr(*remote) if remote is not None else None

    def address_of(self, peer: PeerId) -> str:
        connection = self.connections.get(peer)
        return connection.address if connection is not None else ""

    def disconnect(self, peer: PeerId) -> None:
        connection = self.connections.get(peer)
        if connection is not None:
            self._drop(connection)

    async def close(self) -> frozenset[PeerId]:
        """Stop listening, end all connections and wait until they are gone.

        Whose end came in answer to ours has taken all that was sent; these peers are named.
        """
        self._closed = True
        for server in self._servers:
            server.close()
        for dialing in list(self._dialing.values()):
            dialing.task.cancel()
        peers = list(self.connections.values())
        for connection in peers:
            connection.take_leave()
            self._down(connection)
        for connection in list(self._all):
            connection.close()
        while waiting := [connection.gone for connection in self._all if connection.attached]:
            await asyncio.gather(*waiting)
        self._all.clear()  # what was accepted while the server closed never gets a socket, and never loses it
        self._servers.clear()
        return frozenset(connection.peer for connection in peers if connection.ended_by_peer)

    def connection_made(self, connection: Connection) -> bool:
        """A connection has its socket; whether to go on with it."""
        if self.admits(None, connection.address):
            return True
        self.refused += 1
        return False

    def connection_ready(self, connection: Connection) -> None:
        """A connection knows its peer."""
        if not self.admits(connection.peer, connection.address):
            self.refused += 1
            connection.close()
            return
        rival = self.connections.get(connection.peer)
        if rival is not None:
            if not self._replaces(connection, rival):
                connection.close()
                return
            self._drop(rival)
        if self._closed or len(self.connections) >= self._limits.max_connections:
            self.refused += 1
            connection.close()
            return
        self.connections[connection.peer] = connection
        for callback in self.on_peer_up:
            callback(connection.peer)

    def connection_gone(self, connection: Connection) -> None:
        self._all.discard(connection)
        self._down(connection)

    def stream_opened(self, stream: Stream) -> None:
        handler = self._handlers.get(stream.protocol)
        if handler is None:
            stream.reset()
        else:
            handler(stream)

    def _drop(self, connection: Connection) -> None:
        connection.close()
        self._down(connection)

    def _down(self, connection: Connection) -> None:
        if self.connections.get(connection.peer) is connection:
            del self.connections[connection.peer]
            connection.end_streams()
            for callback in self.on_peer_down:
                callback(connection.peer)

    def _inbound(self) -> asyncio.BaseProtocol:
        handshaking = sum(1 for known in self._all if not known.closed and not known.ready.done())
        crowded = handshaking >= self._limits.max_handshakes or len(self._all) >= self._limits.max_connections
        connection = self._connection(False, None)
        if crowded or self._closed:
            self.refused += 1
            connection.abort()
        return connection

    def _connection(self, dialer: bool, expected: PeerId | None) -> Connection:
        connection = Connection(self, self.identity, dialer, self._limits.connection, expected)
        self._all.add(connection)
        return connection

    async def _dial(self, address: Multiaddr, expected: PeerId | None) -> PeerId:
        endpoint = address.tcp_endpoint
        if endpoint is None:
            raise DialError(address, "this host dials TCP only, such as /ip4/127.0.0.1/tcp/4001")
        if self._closed:
            raise DialError(address, "this host is closed")
        if not self.admits(expected, address_group(endpoint[0])):
            raise DialError(address, "who is there is kept out")
        if len(self._all) >= self._limits.max_connections:
            raise DialError(address, f"this host has its {self._limits.max_connections} connections")
        loop = asyncio.get_running_loop()
        connection: Connection | None = None
        try:
            async with asyncio.timeout(self._limits.dial_s):
                family = _FAMILIES.get(address.parts[0][0], socket.AF_UNSPEC)
                _, connection = await loop.create_connection(
                    lambda: self._connection(True, expected), *endpoint, family=family
                )
                await asyncio.shield(connection.ready)
        except TimeoutError:
            reason = f"no answer within {self._limits.dial_s:g} s"
        except socket.gaierror as error:
            reason = error.strerror or str(error)
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error)
        except OwnIdentity as error:
            raise OwnAddress(address, str(error)) from None
        except ProtocolError as error:
            reason = str(error)
        except asyncio.CancelledError:
            if connection is not None:
                connection.abort()
            raise
        else:
            if connection.closed and connection.peer not in self.connections:
                raise DialError(address, "the connection was closed at once")
            return connection.peer
        if connection is not None:
            connection.abort()
        raise DialError(address, reason) from None

    def _replaces(self, new: Connection, old: Connection) -> bool:
        """Whether both sides will keep the new connection."""
        if old.closed:
            return True
        if new.dialed and old.dialed:
            return False
        at_once = new.since - old.since < self._limits.connection.handshake_s
        if new.dialed != old.dialed and at_once:
            return new.dialed == (self.peer < new.peer)
        return True
