"""The asyncio host. It listens and dials over TCP, has one connection per peer, and opens streams by protocol.

It has no NAT traversal, relays, QUIC, WebSocket or plaintext. It also runs on uvloop.

Each inbound connection needs a slot (`hearsay.slots`), and no single address can hold all slots. All memory that
peers cause is reserved in budgets (`hearsay.libp2p.limits.resources`). When a shared budget is nearly full, the host
ends the connections that use most of it.

Two hosts that dial each other at the same time get two connections; both keep the connection that the host with the
smaller peer id dialled. Otherwise a newer connection replaces an older one, which may be dead, unless this host
dialled both connections.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit
from time import monotonic

from hearsay.libp2p.host.node_host import MAX_STREAMS, AdmissionLimits, concrete_addresses, fitted
from hearsay.libp2p.limits.rates import Turns
from hearsay.libp2p.limits.resources import Budget, ResourceLimits, Resources, address_group
from hearsay.libp2p.mux.connection import Connection
from hearsay.libp2p.mux.connection_limits import ConnectionLimits
from hearsay.libp2p.mux.stream import Stream, StreamClosed
from hearsay.libp2p.names.errors import DialError, OwnAddress, OwnIdentity, ProtocolError
from hearsay.libp2p.names.keys import PrivateKey
from hearsay.libp2p.names.multiaddr import Multiaddr, tcp_multiaddr
from hearsay.libp2p.names.peer_id import PeerId, peer_id_of, to_text
from hearsay.listener import Listener
from hearsay.slots import Slots

READ_BYTES = 64 * 1024
"""Maximum bytes of one read from a socket."""
STALLED_S = 1.0
"""A handshake is active if bytes arrived in the last `STALLED_S` seconds."""
_LARGE_PART = 64
"""A connection that uses at least 1/64 of a shared budget commits an offence if the budget is nearly full."""
_SMALL_PART = 4096
"""A connection that uses less than 1/4096 of a shared budget is not ended, since that would free almost nothing."""
_RELIEF_PAUSE_S = 0.1
"""Pause before more connections are ended for a budget, if the connections ended so far have freed too little."""
_FAMILIES = {"ip4": socket.AF_INET, "dns4": socket.AF_INET, "ip6": socket.AF_INET6, "dns6": socket.AF_INET6}


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLimits(AdmissionLimits):
    dial_s: float = 15.0
    connection: ConnectionLimits = field(default_factory=ConnectionLimits)
    resources: ResourceLimits = field(default_factory=ResourceLimits)


@dataclass(slots=True)
class _Dial:
    """A running dial. It is cancelled when no caller waits for it."""

    address: Multiaddr
    task: asyncio.Task[PeerId]
    waiting: int = 0


class Host:
    """The asyncio host. `NodeHost` describes its callbacks (`on_peer_up`, `admits`, `worth`, …)."""

    def __init__(self, identity: PrivateKey | None = None, limits: HostLimits | None = None) -> None:
        self.identity = identity or PrivateKey.generate()
        self.peer = peer_id_of(self.identity.public)
        self.on_peer_up: list[Callable[[PeerId], None]] = []
        self.on_peer_down: list[Callable[[PeerId], None]] = []
        self.admits: Callable[[PeerId | None, str], bool] = lambda _peer, _address: True
        self.worth: Callable[[], Mapping[PeerId, float]] = dict
        self.connections: dict[PeerId, Connection] = {}
        self.on_over_limit: list[Callable[[PeerId], None]] = []
        self._limits = limits or HostLimits()
        self.resources = Resources(self._limits.resources, self._relieve)
        self.turns = Turns(monotonic, lambda call: asyncio.get_running_loop().call_soon(call))
        self.read_buffer = bytearray(READ_BYTES)
        self._strained: set[Budget] = set()
        """Budgets for which no connections are ended until the pause `_RELIEF_PAUSE_S` is over."""
        self._fitted = fitted(self._limits, open_files())
        self._handshakes: Slots[Connection] = Slots(
            self._fitted.handshakes,
            self._fitted.handshakes_per_address,
            self._limits.handshake_patience_s,
            self._progress,
        )
        self._authenticated: Slots[PeerId] = Slots(
            self._fitted.inbound,
            self._fitted.per_address,
            self._limits.newcomer_patience_s,
            lambda: self.worth(),
        )
        self._handlers: dict[str, tuple[Callable[[Stream], None], int]] = {}
        self._listeners: list[Listener] = []
        self._accepting: set[asyncio.Task[None]] = set()
        self._sockets: dict[Connection, socket.socket] = {}
        """Sockets of unfinished inbound handshakes, to detect unread bytes."""
        self._all: set[Connection] = set()
        self._dialing: dict[PeerId, _Dial] = {}
        self._closed = False
        self.refused = 0
        """Number of connections that were refused because of a limit or a ban."""
        self.failed_dials = 0

    @property
    def protocols(self) -> Collection[str]:
        return self._handlers.keys()

    @property
    def addresses(self) -> tuple[Multiaddr, ...]:
        """Return the addresses of this host with its peer id; for 0.0.0.0 and ::, one for each interface."""
        return tuple(
            tcp_multiaddr(host, port).with_peer(self.peer)
            for listening in self._listeners
            for host, port in concrete_addresses(*listening.name)
        )

    def handle(self, protocol: str, handler: Callable[[Stream], None], max_streams: int = MAX_STREAMS) -> None:
        self._handlers[protocol] = handler, max_streams

    async def listen(self, address: Multiaddr | str) -> tuple[Multiaddr, ...]:
        """Accept connections at an address; port 0 means any free port. Returns all addresses of the host."""
        parsed = Multiaddr.parse(address) if isinstance(address, str) else address
        endpoint = parsed.tcp_endpoint
        if endpoint is None:
            raise ValueError(f"{parsed}: this host listens on TCP only, such as /ip4/127.0.0.1/tcp/0")
        self._listeners += await Listener.at(*endpoint, self._accepted)
        return self.addresses

    @staticmethod
    def can_dial(address: Multiaddr) -> bool:
        """Return True for TCP, the only kind of address that this host dials."""
        return address.tcp_endpoint is not None

    async def dial(self, address: Multiaddr | str) -> PeerId:
        """Connect to a peer and return its id, or raise `DialError`. Without /p2p, any peer may answer."""
        parsed = Multiaddr.parse(address) if isinstance(address, str) else address
        expected = parsed.peer
        if expected is None:
            return await self._dial(parsed, None)
        if expected == self.peer:
            raise OwnAddress(parsed, "this is the host's own address")
        dialing = await self._wait_for_other_dials(expected, parsed)
        if expected in self.connections:
            return expected
        if dialing is None:
            task = asyncio.ensure_future(self._dial(parsed, expected))
            started = dialing = self._dialing[expected] = _Dial(parsed, task)
            task.add_done_callback(lambda _: self._dialed(expected, started))
        dialing.waiting += 1
        try:
            return await asyncio.shield(dialing.task)
        finally:
            dialing.waiting -= 1
            if not dialing.waiting:
                dialing.task.cancel()
                self._dialed(expected, dialing)

    async def _wait_for_other_dials(self, peer: PeerId, address: Multiaddr) -> _Dial | None:
        """Wait until dials of the peer's other addresses have ended. Return the dial of this address, or None.

        Two dials at once would conflict, and a dial must not fail because another dial uses a wrong address.
        """
        while (dialing := self._dialing.get(peer)) is not None and dialing.address != address:
            await asyncio.wait([dialing.task])
        return dialing

    def _dialed(self, peer: PeerId, dialing: _Dial) -> None:
        if self._dialing.get(peer) is dialing:
            del self._dialing[peer]
        if dialing.task.done() and not dialing.task.cancelled():
            dialing.task.exception()  # mark the exception as retrieved, because the caller of `dial` may be gone

    async def open_stream(self, peer: PeerId, protocols: Sequence[str]) -> Stream:
        """Open a stream to a connected peer, for the first of `protocols` that the peer speaks."""
        connection = self.connections.get(peer)
        if connection is None:
            raise StreamClosed(f"{to_text(peer)} is not connected")
        return await connection.open_stream(protocols)

    def remote_address(self, peer: PeerId) -> Multiaddr | None:
        """Return the remote address of the connection to a peer; None if there is no connection."""
        connection = self.connections.get(peer)
        remote = connection.remote_address if connection is not None else None
        return tcp_multiaddr(*remote) if remote is not None else None

    def has_dialled(self, peer: PeerId) -> bool:
        connection = self.connections.get(peer)
        return connection is not None and connection.dialed

    def address_of(self, peer: PeerId) -> str:
        connection = self.connections.get(peer)
        return connection.address if connection is not None else ""

    def disconnect(self, peer: PeerId) -> None:
        connection = self.connections.get(peer)
        if connection is not None:
            self.drop(connection)

    async def close(self) -> frozenset[PeerId]:
        """Stop listening, end all connections and wait until they are gone.

        Returns the peers that closed their direction after we had closed ours: they have received all that was sent.
        """
        self._closed = True
        for listening in self._listeners:
            listening.close()
        self._listeners.clear()
        for dialing in list(self._dialing.values()):
            dialing.task.cancel()
        peers = list(self.connections.values())
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
        """Decide after the handshake which connections remain.

        End the new connection if the peer is not admitted or no slot is free. If the peer has another connection, end
        one of the two.
        """
        self._handshakes.leave(connection)
        self._sockets.pop(connection, None)
        if not self.admits(connection.peer, connection.address):
            self._refuse(connection)
            return
        rival = self.connections.get(connection.peer)
        if rival is not None:
            if not self._replaces(connection, rival):
                connection.close()
                return
            self.drop(rival)
        if self._closed or (connection.dialed and len(self.connections) >= self._fitted.connections):
            self._refuse(connection)
            return
        if not connection.dialed:
            dialled = len(self.connections) - len(self._authenticated)
            self._authenticated.limit = min(self._fitted.inbound, self._fitted.connections - dialled)
            loser = self._authenticated.enter(connection.peer, connection.address, connection.since)
            if loser == connection.peer:
                self._refuse(connection)
                return
            if loser is not None:
                self.refused += 1
                self.drop(self.connections[loser])
        self.connections[connection.peer] = connection
        for callback in self.on_peer_up:
            callback(connection.peer)

    def connection_gone(self, connection: Connection) -> None:
        self._all.discard(connection)
        self._handshakes.leave(connection)
        self._sockets.pop(connection, None)
        self._down(connection)

    def connection_over_limit(self, connection: Connection) -> None:
        for callback in self.on_over_limit:
            callback(connection.peer)

    def stream_opened(self, connection: Connection, stream: Stream) -> None:
        handler, most = self._handlers.get(stream.protocol, (None, 0))
        if handler is None:
            stream.reset()
        elif connection.inbound_streams(stream.protocol) > most:
            stream.reset()
            self.connection_over_limit(connection)
        else:
            handler(stream)

    def drop(self, connection: Connection) -> None:
        connection.close()
        self._down(connection)

    def _down(self, connection: Connection) -> None:
        if self.connections.get(connection.peer) is connection:
            self._authenticated.leave(connection.peer)
            del self.connections[connection.peer]
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
        """Return the active handshakes with the times of their last bytes.

        Bytes that the event loop has not read yet count as arriving now. All other handshakes are idle.
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
        """End the connections that use most of a budget, until a quarter of it is free.

        Protected peers (of infinite worth) are disconnected last, and only if they use a large part (`_LARGE_PART`).
        Only the use of a large part is an offence. Offences and ends of streams are reported in a later iteration of
        the event loop, because the caller may be using a stream.
        """
        if budget in self._strained:
            return
        loop = asyncio.get_running_loop()
        worth = self.worth()
        large, small = budget.limit // _LARGE_PART, budget.limit // _SMALL_PART
        target = budget.limit - budget.limit // 4
        kept = {each: each.reserved_in(budget) for each in self.connections.values()}
        least = {each: large if worth.get(each.peer) == inf else small for each in kept}
        for each in sorted(kept, key=lambda each: (least[each], -kept[each])):
            if budget.used <= target:
                return
            if kept[each] >= large:
                loop.call_soon(self.connection_over_limit, each)
            if kept[each] >= least[each]:
                each.abort_and_release()
        if budget.used > target:
            self._strained.add(budget)
            loop.call_later(_RELIEF_PAUSE_S, self._strained.discard, budget)

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
            raise DialError(address, "the peer at this address is banned")
        if len(self._all) - len(self._handshakes) >= self._fitted.connections:
            raise DialError(address, f"this host has its maximum of {self._fitted.connections} connections")
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
        self.failed_dials += 1
        raise DialError(address, reason) from None

    def _replaces(self, new: Connection, old: Connection) -> bool:
        """Return True if the new connection replaces the old one. The peer's host decides the same."""
        if old.closed:
            return True
        if new.dialed and old.dialed:
            return False
        at_once = new.since - old.since < self._limits.connection.handshake_s
        if new.dialed != old.dialed and at_once:
            return new.dialed == (self.peer < new.peer)
        return True


def open_files() -> int:
    """Return the maximum number of open files of this process."""
    soft, _ = getrlimit(RLIMIT_NOFILE)
    return soft if soft != RLIM_INFINITY else 1 << 20


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
