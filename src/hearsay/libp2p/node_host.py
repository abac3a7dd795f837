"""The common part of all hosts: their limits, their interface for the node and for services, and tasks.

`hearsay.libp2p.host.Host` is this project's own host; `hearsay.py_libp2p.host.PyLibp2pHost` runs on py-libp2p. Both
have the same streams (`hearsay.libp2p.mux.stream`) over different transports. Users of a host keep their tasks in
`Tasks`, which cancels them when the user closes.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit
from typing import ClassVar, NamedTuple

from ifaddr import get_adapters

from hearsay.libp2p.mux.connection_limits import ConnectionLimits
from hearsay.libp2p.mux.stream import Stream
from hearsay.libp2p.names.errors import DialError, OwnAddress
from hearsay.libp2p.names.keys import PrivateKey
from hearsay.libp2p.names.multiaddr import Multiaddr
from hearsay.libp2p.names.peer_id import PeerId, peer_id_of
from hearsay.libp2p.resources import Budget, ResourceLimits, Resources, address_group

MAX_STREAMS = 8
"""Default maximum number of a peer's inbound streams for one protocol."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLimits:
    """Limits of a host. `fitted` lowers the numbers of connections if the process may open too few files.

    An address here is an address group (`resources.address_group`).
    """

    max_connections: int = 1024
    """Maximum number of authenticated connections and running dials together."""
    reserved_for_dials: int = 64
    """Number of connections that only dials may use."""
    max_per_address: int = 256
    """Maximum number of inbound connections of one address. The default is a quarter of all connections, because
    honest peers may share an address."""
    newcomer_patience_s: float = 2.0
    """Minimum age in seconds of an idle inbound connection that is ended for a new one, if no slot is free. There is
    no minimum if its address has more idle connections than the new one's address would have (SLOTS-3)."""
    max_handshakes: int = 128
    """Maximum number of inbound connections in a handshake."""
    max_handshakes_per_address: int = 32
    handshake_patience_s: float = 0.05
    """Minimum age in seconds of an idle handshake that is ended for a new one; SLOTS-3 as for connections."""
    spare_files: int = 64
    """Number of files that are reserved for other purposes than connections."""
    dial_s: float = 15.0
    """Maximum duration of a dial in seconds."""
    connection: ConnectionLimits = field(default_factory=ConnectionLimits)
    resources: ResourceLimits = field(default_factory=ResourceLimits)


class FittedLimits(NamedTuple):
    """Maximum numbers of connections, as `fitted` computes them from `HostLimits`."""

    connections: int
    inbound: int
    per_address: int
    handshakes: int
    handshakes_per_address: int


def fitted(limits: HostLimits, files: int) -> FittedLimits:
    """Return the limits, lowered if `files`, the number of files that the process may open, is too small for them.

    At most a quarter of the connections is reserved for dials. One address gets at most half of the inbound
    connections, or 8 if that is more. Each number is at least 1.
    """
    usable = max(4, files - min(limits.spare_files, files // 2))
    handshakes = max(1, min(limits.max_handshakes, usable // 8))
    connections = max(1, min(limits.max_connections, usable - handshakes))
    inbound = connections - min(limits.reserved_for_dials, connections // 4)
    return FittedLimits(
        connections,
        inbound,
        min(limits.max_per_address, max(8, inbound // 2)),
        handshakes,
        min(limits.max_handshakes_per_address, handshakes),
    )


def open_files() -> int:
    """Return the number of files that this process may have open at a time; 2^20 if it is unlimited."""
    soft, _ = getrlimit(RLIMIT_NOFILE)
    return soft if soft != RLIM_INFINITY else 1 << 20


class NodeHost(ABC):
    """The interface of a host, and the attributes that all hosts have."""

    kinds: ClassVar[str]
    """The kinds of addresses that this host can dial and listen at, with an example."""

    def __init__(self, identity: PrivateKey | None = None, limits: HostLimits | None = None) -> None:
        self.identity = identity or PrivateKey.generate()
        self.peer = peer_id_of(self.identity.public)
        self.on_peer_up: list[Callable[[PeerId], None]] = []
        """Functions that are called with a peer when it gets its first connection."""
        self.on_peer_down: list[Callable[[PeerId], None]] = []
        """Functions that are called with a peer when its last connection is gone, after its streams have ended."""
        self.on_over_limit: list[Callable[[PeerId], None]] = []
        """Functions that are called with a peer when it exceeds a limit of its memory, streams or rates."""
        self.admits: Callable[[PeerId | None, str], bool] = lambda _peer, _address: True
        """A function that returns True if a peer at an address group (`resources.address_group`) is admitted.

        The peer is None before the handshake of an inbound connection, and for a dial of an address without a peer
        id. By default all peers are admitted."""
        self.worth: Callable[[], Mapping[PeerId, float]] = dict
        """A function that returns the worth of the useful peers, for `listener.Slots`. All other peers are idle."""
        self.failed_dials = 0
        """Number of dials that reached no peer, or another peer than expected."""
        self.limits = limits or HostLimits()
        self.resources = Resources(self.limits.resources, self._relieve)
        self._fitted = fitted(self.limits, open_files())
        self._handlers: dict[str, tuple[Callable[[Stream], object], int]] = {}
        """The handler and the maximum number of a peer's streams, by protocol."""
        self._closed = False

    def handle(self, protocol: str, handler: Callable[[Stream], object], max_streams: int = MAX_STREAMS) -> None:
        """Call `handler` with each stream that a peer opens for `protocol`.

        A peer may have `max_streams` streams for the protocol. Further streams are reset and reported as an offence.
        """
        self._handlers[protocol] = handler, max_streams

    @property
    def protocols(self) -> Collection[str]:
        """Return the protocols for which peers may open streams."""
        return self._handlers.keys()

    def peer_over_limit(self, peer: PeerId) -> None:
        """Report that a peer has exceeded a limit of its memory, streams or rates."""
        for callback in self.on_over_limit:
            callback(peer)

    def check_dial(self, address: Multiaddr) -> None:
        """Raise `DialError` if this host cannot or may not dial an address."""
        if not self.can_dial(address):
            raise DialError(address, f"this host dials only {self.kinds}")
        if address.peer == self.peer:
            raise OwnAddress(address, "this is the host's own address")
        if self._closed:
            raise DialError(address, "this host is closed")
        if not self.admits(address.peer, address_group(address.parts[0][1])):
            raise DialError(address, "this address or its peer is banned")

    @property
    @abstractmethod
    def connections(self) -> Collection[PeerId]:
        """Return the connected peers."""

    @property
    @abstractmethod
    def addresses(self) -> tuple[Multiaddr, ...]:
        """Return the addresses at which this host listens, with its peer id. 0.0.0.0 and :: are replaced by the
        addresses of the interfaces.
        """

    @abstractmethod
    async def listen(self, address: Multiaddr) -> tuple[Multiaddr, ...]:
        """Accept connections at an address; port 0 means any free port. Returns all addresses of the host.

        Raises `ValueError` for an address of a kind that is not in `kinds`, or `OSError` if the host cannot listen.
        """

    @staticmethod
    @abstractmethod
    def can_dial(address: Multiaddr) -> bool:
        """Return True if this host can dial addresses of this kind."""

    @abstractmethod
    async def dial(self, address: Multiaddr) -> PeerId:
        """Connect to a peer and return its id.

        If the address has no peer id, any peer may answer; some hosts refuse such an address. Raises `DialError` if
        the peer cannot be reached or is not the one in the address.
        """

    @abstractmethod
    async def open_stream(self, peer: PeerId, protocols: Sequence[str]) -> Stream:
        """Open a stream to a connected peer for the first of `protocols` that the peer speaks.

        Raises `MultistreamError` if the peer speaks none of them, `StreamClosed` if the peer is not connected or does
        not answer in time, if the stream or the connection ends, or if no memory is left, and another `ProtocolError`
        if the connection can have no further stream.
        """

    @abstractmethod
    def remote_address(self, peer: PeerId) -> Multiaddr | None:
        """Return the remote address of the connection to a peer; None if there is no connection."""

    @abstractmethod
    def has_dialled(self, peer: PeerId) -> bool:
        """Return True if a peer is connected and this host dialled the connection."""

    @abstractmethod
    def address_of(self, peer: PeerId) -> str:
        """Return the address group of a connected peer (`resources.address_group`); "" if it is not connected."""

    @abstractmethod
    def disconnect(self, peer: PeerId) -> None:
        """End the connection to a peer, if there is one."""

    @abstractmethod
    async def close(self) -> frozenset[PeerId] | None:
        """Stop listening, end all connections and wait until they are gone.

        Returns the peers that have received all bytes that were sent to them; None if the host cannot know them.
        """

    def _relieve(self, budget: Budget) -> None:
        """Release memory of a shared budget that is nearly full. By default, do nothing."""


def concrete_addresses(host: str, port: int) -> Iterator[tuple[str, int]]:
    """Yield the address and the port; for 0.0.0.0 or ::, yield the address of each interface and the port instead.

    Loopback addresses come last. Link-local IPv6 addresses are left out, because they need a zone. 0.0.0.0 and :: are
    never advertised, because on other machines they mean those machines.
    """
    address = ip_address(host.partition("%")[0])
    if not address.is_unspecified:
        yield host, port
        return
    known = [each.ip for adapter in get_adapters() for each in adapter.ips]
    own = [ip_address(each if isinstance(each, str) else each[0]) for each in known]
    usable = [
        each for each in own if each.version == address.version and not (each.version == 6 and each.is_link_local)
    ]
    for found in sorted(usable, key=lambda found: found.is_loopback):
        yield str(found), port


class Tasks:
    """The running tasks of an owner."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[object]] = set()

    def __len__(self) -> int:
        return len(self._running)

    def start(self, work: Coroutine[None, None, object]) -> asyncio.Task[object]:
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    async def close(self) -> None:
        """Cancel all tasks and wait until they have ended."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
