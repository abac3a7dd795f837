"""The interface between a node and its host, which the node, identify, ping and rendezvous use.

`hearsay.libp2p.host.host.Host` is our own; `hearsay.py_libp2p.host.PyLibp2pHost` is py-libp2p's. Streams are the same
on both (`hearsay.libp2p.mux.stream`), over different transports.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import NamedTuple, Protocol

from ifaddr import get_adapters

from hearsay.libp2p.limits.resources import Resources
from hearsay.libp2p.mux.stream import Stream
from hearsay.libp2p.names.keys import PrivateKey
from hearsay.libp2p.names.multiaddr import Multiaddr
from hearsay.libp2p.names.peer_id import PeerId

MAX_STREAMS = 8
"""Default maximum of a peer's streams for one protocol."""


class NodeHost(Protocol):
    identity: PrivateKey
    peer: PeerId
    on_peer_up: list[Callable[[PeerId], None]]
    """Called when a peer gets its first connection."""
    on_peer_down: list[Callable[[PeerId], None]]
    """Called when a peer's last connection is gone, after the ends of its streams."""
    on_over_limit: list[Callable[[PeerId], None]]
    """Called when a peer loses a stream or its connection because of the memory that it causes."""
    resources: Resources
    failed_dials: int
    """Dials that reached no peer, or another peer than expected."""
    admits: Callable[[PeerId | None, str], bool]
    """Returns whether to accept a peer or an address (`resources.address_group`). It is called before a handshake,
    when the peer is None, and again when it is known. By default all are accepted."""

    worth: Callable[[], Mapping[PeerId, float]]
    """Worth of peers when no slot is free (`hearsay.slots`). Missing peers count as idle."""

    @property
    def connections(self) -> Collection[PeerId]:
        """Return the connected peers."""
        ...

    @property
    def addresses(self) -> tuple[Multiaddr, ...]:
        """Return the addresses of this host, with its peer id."""
        ...

    @property
    def protocols(self) -> Collection[str]:
        """Return the protocols for which peers may open streams."""
        ...

    def handle(self, protocol: str, handler: Callable[[Stream], None], max_streams: int = MAX_STREAMS) -> None:
        """Call `handler` with each stream that a peer opens for `protocol`; `max_streams` of them at a time."""
        ...

    async def listen(self, address: Multiaddr) -> tuple[Multiaddr, ...]:
        """Accept connections, and return all addresses. Raises `OSError` or `ValueError` if that is impossible."""
        ...

    def can_dial(self, address: Multiaddr) -> bool:
        """Return True if addresses of this kind can be dialled."""
        ...

    async def dial(self, address: Multiaddr) -> PeerId:
        """Connect to a peer. Raises `DialError` if it cannot be reached or is not the expected one."""
        ...

    async def open_stream(self, peer: PeerId, protocols: Sequence[str]) -> Stream:
        """Open a stream to a connected peer for the first of `protocols` that it speaks.

        Raises `MultistreamError` if it speaks none, `StreamClosed` if it is not connected.
        """
        ...

    def remote_address(self, peer: PeerId) -> Multiaddr | None:
        """Return the address from which a connected peer's packets come."""
        ...

    def has_dialled(self, peer: PeerId) -> bool:
        """Return True if this side requested the connection to a peer."""
        ...

    def address_of(self, peer: PeerId) -> str:
        """Return the group of a connected peer's address (`resources.address_group`); empty if not connected."""
        ...

    def disconnect(self, peer: PeerId) -> None: ...

    async def close(self) -> frozenset[PeerId] | None:
        """Stop listening, end all connections and wait until they are gone.

        Returns the peers that have taken everything that was sent to them; None if the host cannot know.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionLimits:
    """Maximum numbers of connections; with fewer files, all are lower (`fitted`)."""

    max_connections: int = 1024
    """Maximum authenticated connections and dials."""
    reserved_for_dials: int = 64
    """Number of connections that inbound ones leave free."""
    max_per_address: int = 256
    """Maximum inbound connections of an address; a quarter, because many honest peers may share one."""
    newcomer_patience_s: float = 2.0
    """Seconds after which an idle inbound connection gives way to a newcomer, if no slot is free."""
    max_handshakes: int = 128
    """Maximum inbound connections in a handshake."""
    max_handshakes_per_address: int = 32
    handshake_patience_s: float = 0.05
    """Seconds after which a connection that has sent nothing gives way to a new one, if no handshake is free."""
    spare_files: int = 64
    """Files for other purposes than connections."""


class Places(NamedTuple):
    connections: int
    inbound: int
    per_address: int
    handshakes: int
    handshakes_per_address: int


def fitted(limits: AdmissionLimits, files: int) -> Places:
    """Return the limits for a number of open files; each limit is at least a small number."""
    usable = max(4, files - min(limits.spare_files, files // 2))
    handshakes = max(1, min(limits.max_handshakes, usable // 8))
    connections = max(1, min(limits.max_connections, usable - handshakes))
    inbound = connections - min(limits.reserved_for_dials, connections // 4)
    return Places(
        connections,
        inbound,
        min(limits.max_per_address, max(8, inbound // 2)),
        handshakes,
        min(limits.max_handshakes_per_address, handshakes),
    )


def concrete_addresses(host: str, port: int) -> Iterator[tuple[str, int]]:
    """Yield an address; for the address of all interfaces (0.0.0.0 or ::), yield that of each.

    Addresses for other machines come first, loopback last. Link-local IPv6 addresses are left out: they
    need a zone. 0.0.0.0 is never advertised: to its reader it means the reader's own machine.
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
