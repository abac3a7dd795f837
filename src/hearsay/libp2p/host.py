"""The asyncio host. It listens and dials over TCP, has one connection per peer, and opens streams by protocol.

It has no NAT traversal, relays, QUIC, WebSocket or plaintext. It also runs on uvloop.

Each inbound connection needs a slot (`listener.Slots`), and the number of slots of one address is limited. The memory
that peers cause is reserved in budgets (`hearsay.libp2p.resources`). When a shared budget is nearly full, the
host ends the connections that use most of the budget.

Two hosts that dial each other at the same time get two connections. Both keep the connection that was dialled by the
host with the smaller peer id. In other cases a newer connection to a peer replaces the older one, which may be dead.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Mapping, Sequence
from math import inf
from time import monotonic

from hearsay.libp2p.mux.connection import Connection
from hearsay.libp2p.mux.stream import Stream, StreamClosed
from hearsay.libp2p.names.errors import DialError, OwnAddress, OwnIdentity, ProtocolError
from hearsay.libp2p.names.keys import PrivateKey
from hearsay.libp2p.names.multiaddr import Multiaddr, tcp_multiaddr
from hearsay.libp2p.names.peer_id import PeerId, to_text
from hearsay.libp2p.node_host import HostLimits, NodeHost, concrete_addresses
from hearsay.libp2p.rates import Turns
from hearsay.libp2p.resources import Budget, address_group
from hearsay.listener import Listener, Slots

READ_BYTES = 64 * 1024
"""Maximum bytes of one read from a socket."""
STALLED_S = 1.0
"""Seconds without received bytes after which a handshake is idle."""
_LARGE_PART = 64
"""If a connection that is ended for a nearly full budget uses at least 1/64 of this budget, its peer commits an
offence."""
_SMALL_PART = 4096
"""A connection that uses less than 1/4096 of a shared budget is not ended, because its end would free too little."""
_RELIEF_PAUSE_S = 0.1
"""Seconds before further connections are ended for a budget, if the ended connections have freed too little."""
_FAMILIES = {"ip4": socket.AF_INET, "dns4": socket.AF_INET, "ip6": socket.AF_INET6, "dns6": socket.AF_INET6}


class Host(NodeHost):
    """The asyncio host, which this module describes."""

    kinds = "TCP, such as /ip4/127.0.0.1/tcp/4001"

    def __init__(self, identity: PrivateKey | None = None, limits: HostLimits | None = None) -> None:
        super().__init__(identity, limits)
        self._connections: dict[PeerId, Connection] = {}
        self.turns = Turns(monotonic, lambda call: asyncio.get_running_loop().call_soon(call))
        self.read_buffer = bytearray(READ_BYTES)
        self._strained: set[Budget] = set()
        """Budgets for which no connections are ended before a pause (`_RELIEF_PAUSE_S`) is over."""
        self._handshakes: Slots[Connection] = Slots(
            self._fitted.handshakes,
            self._fitted.handshakes_per_address,
            self.limits.handshake_patience_s,
            self._progress,
        )
        self._authenticated: Slots[PeerId] = Slots(
            self._fitted.inbound,
            self._fitted.per_address,
            self.limits.newcomer_patience_s,
            lambda: self.worth(),
        )
        self._listeners: list[Listener] = []
        self._accepting: set[asyncio.Task[None]] = set()
        self._sockets: dict[Connection, socket.socket] = {}
        """Sockets of unfinished inbound handshakes, in which unread bytes can be detected."""
        self._all: set[Connection] = set()
        self._dialing: dict[PeerId, _Turn] = {}
        """The turns of the peers that are being dialled."""
        self.refused = 0
        """Number of connections that this host refused because of a limit or a ban, or ended to free their slots."""

    @property
    def connections(self) -> Mapping[PeerId, Connection]:
        return self._connections

    @property
    def addresses(self) -> tuple[Multiaddr, ...]:
        return tuple(
            tcp_multiaddr(host, port).with_peer(self.peer)
            for listening in self._listeners
            for host, port in concrete_addresses(*listening.name)
        )

    async def listen(self, address: Multiaddr | str) -> tuple[Multiaddr, ...]:
        parsed = Multiaddr.parse(address) if isinstance(address, str) else address
        endpoint = parsed.tcp_endpoint
        if endpoint is None:
            raise ValueError(f"{parsed}: this host listens only on {self.kinds}")
        self._listeners += await Listener.at(*endpoint, self._accepted)
        return self.addresses

    @staticmethod
    def can_dial(address: Multiaddr) -> bool:
        return address.tcp_endpoint is not None

    async def dial(self, address: Multiaddr | str) -> PeerId:
        parsed = Multiaddr.parse(address) if isinstance(address, str) else address
        expected = parsed.peer
        if expected is None:
            return await self._dial(parsed)
        # Two dials at once would conflict. After a dial to a wrong address has failed, the next address is dialled.
        turn = self._dialing.setdefault(expected, _Turn())
        turn.callers += 1
        try:
            async with turn.lock:
                if expected in self._connections:
                    return expected
                if parsed in turn.failed:
                    raise DialError(parsed, turn.failed[parsed])
                return await self._dial(parsed)
        except DialError as error:
            turn.failed[parsed] = error.reason
            raise
        finally:
            turn.callers -= 1
            if not turn.callers:
                del self._dialing[expected]

    async def open_stream(self, peer: PeerId, protocols: Sequence[str]) -> Stream:
        connection = self._connections.get(peer)
        if connection is None:
            raise StreamClosed(f"{to_text(peer)} is not connected")
        return await connection.open_stream(protocols)

    def remote_address(self, peer: PeerId) -> Multiaddr | None:
        connection = self._connections.get(peer)
        remote = connection.remote_address if connection is not None else None
        return tcp_multiaddr(*remote) if remote is not None else None

    def has_dialled(self, peer: PeerId) -> bool:
        connection = self._connections.get(peer)
        return connection is not None and connection.dialed

    def address_of(self, peer: PeerId) -> str:
        connection = self._connections.get(peer)
        return connection.address if connection is not None else ""

    def disconnect(self, peer: PeerId) -> None:
        connection = self._connections.get(peer)
        if connection is not None:
            self.drop(connection)

    async def close(self) -> frozenset[PeerId]:
        """Close the host. Return the peers that closed their direction of the connection in answer.

        These peers have received all bytes that this host had sent to them.
        """
        self._closed = True
        for listening in self._listeners:
            listening.close()
        self._listeners.clear()
        peers = list(self._connections.values())
        for connection in peers:
            connection.close_gracefully()
            self._down(connection)
        for connection in list(self._all):
            connection.close()
        await asyncio.gather(*self._accepting, return_exceptions=True)
        while waiting := [connection.gone for connection in self._all if connection.attached]:
            await asyncio.gather(*waiting)
        self._all.clear()  # a cancelled dial may never have had a socket
        return frozenset(connection.peer for connection in peers if connection.ended_by_peer)

    def connection_ready(self, connection: Connection) -> None:
        """Decide which connections remain after the handshake of a new connection.

        End the new connection if the peer is not admitted or the host is closed. If the peer has another connection,
        end one of the two. If no slot is free for an inbound connection, end it or the connection that it displaces
        (`listener.Slots`). End a dialled connection if the host has its maximum of connections.
        """
        self._handshakes.leave(connection)
        self._sockets.pop(connection, None)
        if not self.admits(connection.peer, connection.address):
            self._refuse(connection)
            return
        rival = self._connections.get(connection.peer)
        if rival is not None:
            if not self._replaces(connection, rival):
                connection.close()
                return
            self.drop(rival)
        if self._closed or (connection.dialed and len(self._connections) >= self._fitted.connections):
            self._refuse(connection)
            return
        if not connection.dialed:
            dialled = len(self._connections) - len(self._authenticated)
            self._authenticated.limit = min(self._fitted.inbound, self._fitted.connections - dialled)
            loser = self._authenticated.enter(connection.peer, connection.address, connection.since)
            if loser == connection.peer:
                self._refuse(connection)
                return
            if loser is not None:
                self.refused += 1
                self.drop(self._connections[loser])
        self._connections[connection.peer] = connection
        for callback in self.on_peer_up:
            callback(connection.peer)

    def connection_gone(self, connection: Connection) -> None:
        self._all.discard(connection)
        self._handshakes.leave(connection)
        self._sockets.pop(connection, None)
        self._down(connection)

    def stream_opened(self, connection: Connection, stream: Stream) -> None:
        handler, most = self._handlers.get(stream.protocol, (None, 0))
        if handler is None:
            stream.reset()
        elif connection.inbound_streams(stream.protocol) > most:
            stream.reset()
            self.peer_over_limit(connection.peer)
        else:
            handler(stream)

    def drop(self, connection: Connection) -> None:
        connection.close()
        self._down(connection)

    def _down(self, connection: Connection) -> None:
        if self._connections.get(connection.peer) is connection:
            self._authenticated.leave(connection.peer)
            del self._connections[connection.peer]
            connection.end_streams()
            for callback in self.on_peer_down:
                callback(connection.peer)

    def _refuse(self, connection: Connection) -> None:
        self.refused += 1
        connection.close()

    def _accepted(self, accepted: socket.socket, host: str) -> None:
        """Start the handshake of a connection that a listener has accepted, or close the connection."""
        address = address_group(host)
        loop = asyncio.get_running_loop()
        connection = self._connection(False, None)
        loser: Connection | None = connection
        most = self._fitted.connections + self._fitted.handshakes
        ending = [each for each in self._all if each.closed] if len(self._all) > most else []
        for each in ending:
            each.abort()  # the file is closed in one of the next turns of the event loop
        if len(self._all) - len(ending) <= most and self.admits(None, address):
            loser = self._handshakes.enter(connection, address, loop.time())
        if loser is not None:
            self.refused += 1
        if loser is connection:
            self._all.discard(connection)
            accepted.close()
            return
        if loser is not None:
            loser.abort()
        self._sockets[connection] = accepted
        task = loop.create_task(_attach(connection, accepted))
        self._accepting.add(task)
        task.add_done_callback(self._accepting.discard)

    def _progress(self) -> Mapping[Connection, float]:
        """Return the active inbound handshakes, each with the event loop's time of its last bytes.

        If a socket has bytes that the event loop has not read yet, the time is now. All other handshakes are idle.
        """
        now_s = asyncio.get_running_loop().time()
        found: dict[Connection, float] = {}
        for each in self._handshakes:
            if each.received_s > now_s - STALLED_S:
                found[each] = each.received_s
            elif _has_unread(self._sockets[each]):
                found[each] = now_s
        return found

    def _relieve(self, budget: Budget) -> None:
        """End the connections that use most of a budget, until a quarter of the budget is free.

        Connections of protected peers (of infinite worth) are ended last, and only if they use a large part of the
        budget (`_LARGE_PART`). Only the use of a large part is an offence. Offences and ends of streams are reported
        in a later iteration of the event loop, because the caller may be using a stream.
        """
        if budget in self._strained:
            return
        loop = asyncio.get_running_loop()
        worth = self.worth()
        large, small = budget.limit // _LARGE_PART, budget.limit // _SMALL_PART
        target = budget.limit - budget.limit // 4
        kept = {each: each.reserved_in(budget) for each in self._connections.values()}
        least = {each: large if worth.get(each.peer) == inf else small for each in kept}
        for each in sorted(kept, key=lambda each: (least[each], -kept[each])):
            if budget.used <= target:
                return
            if kept[each] >= large:
                loop.call_soon(self.peer_over_limit, each.peer)
            if kept[each] >= least[each]:
                each.abort_and_release()
        if budget.used > target:
            self._strained.add(budget)
            loop.call_later(_RELIEF_PAUSE_S, self._strained.discard, budget)

    def _connection(self, dialer: bool, expected: PeerId | None) -> Connection:
        connection = Connection(self, self.identity, dialer, self.limits.connection, expected)
        self._all.add(connection)
        return connection

    async def _dial(self, address: Multiaddr) -> PeerId:
        self.check_dial(address)
        if len(self._all) - len(self._handshakes) >= self._fitted.connections:
            raise DialError(address, f"this host has its maximum of {self._fitted.connections} connections")
        loop = asyncio.get_running_loop()
        connection: Connection | None = None
        try:
            async with asyncio.timeout(self.limits.dial_s):
                (kind, host), (_, port) = address.parts[:2]
                _, connection = await loop.create_connection(
                    lambda: self._connection(True, address.peer),
                    host,
                    int(port),
                    family=_FAMILIES.get(kind, socket.AF_UNSPEC),
                )
                await asyncio.shield(connection.ready)
        except TimeoutError:
            reason = f"no answer within {self.limits.dial_s:g} s"
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
            if connection.closed and connection.peer not in self._connections:
                raise DialError(address, "the connection was closed at once")
            return connection.peer
        if connection is not None:
            connection.abort()
        self.failed_dials += 1
        raise DialError(address, reason) from None

    def _replaces(self, new: Connection, old: Connection) -> bool:
        """Return True if the new connection to a peer replaces the old one.

        The peer's host decides the same way. Handshakes of one host's dials can end in another order than they began,
        so the time of their begin decides which connection is the newer one.
        """
        if old.closed:
            return True
        at_once = new.since - old.since < self.limits.connection.handshake_s
        if new.dialed != old.dialed and at_once:
            return new.dialed == (self.peer < new.peer)
        return new.since >= old.since


class _Turn:
    """The lock of the callers that dial one peer at the same time, and the addresses at which their dials failed,
    with the reasons."""

    def __init__(self) -> None:
        self.callers = 0
        self.lock = asyncio.Lock()
        self.failed: dict[Multiaddr, str] = {}


def _has_unread(accepted: socket.socket) -> bool:
    try:
        return bool(accepted.recv(1, socket.MSG_PEEK))
    except OSError:  # no unread bytes, or the socket is closed
        return False


async def _attach(connection: Connection, accepted: socket.socket) -> None:
    try:
        await asyncio.get_running_loop().connect_accepted_socket(lambda: connection, accepted)
    except OSError:
        connection.connection_lost(None)  # the connection ended before it had a transport
        accepted.close()
