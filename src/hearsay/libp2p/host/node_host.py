"""The interface of a host that the node, identify, ping and rendezvous use.

`hearsay.libp2p.host.host.Host` is our own host; `hearsay.py_libp2p.host.PyLibp2pHost` runs on py-libp2p. Both have
the same streams (`hearsay.libp2p.mux.stream`) over different transports.
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
"""Default maximum of a peer's inbound streams for one protocol."""


class NodeHost(Protocol):
    identity: PrivateKey
    peer: PeerId
    on_peer_up: list[Callable[[PeerId], None]]
    """Called when a peer gets its first connection."""
    on_peer_down: list[Callable[[PeerId], None]]
    """Called when a peer's last connection is gone, after its streams have ended."""
    on_over_limit: list[Callable[[PeerId], None]]
    """Called when a peer exceeds a limit of its memory, streams or rates."""
    resources: Resources
    failed_dials: int
    """Dials that reached no peer, or another peer than expected."""
    admits: Callable[[PeerId | None, str], bool]
    """Returns True if a peer at an address group (`resources.address_group`) is admitted. It is called before a
    handshake with None as the peer, and after the handshake with the peer. By default all peers are admitted."""

    worth: Callable[[], Mapping[PeerId, float]]
    """Returns the worth of useful peers, used when no slot is free (`hearsay.slots`). All other peers are idle."""

    @property
    def connections(self) -> Collection[PeerId]:
        """Return the connected peers."""
        ...

    @property
    def addresses(self) -> tuple[Multiaddr, ...]:
        """Return the addresses of this host with its peer id."""
        ...

    @property
    def protocols(self) -> Collection[str]:
        """Return the protocols for which peers may open streams."""
        ...

    def handle(self, protocol: str, handler: Callable[[Stream], None], max_streams: int = MAX_STREAMS) -> None:
        """Call `handler` with each stream that a peer opens for `protocol`; a peer has at most `max_streams`."""
        ...

    async def listen(self, address: Multiaddr) -> tuple[Multiaddr, ...]:
        """Accept connections at an address. Returns all addresses of the host. Raises `OSError` or `ValueError`."""
        ...

    def can_dial(self, address: Multiaddr) -> bool:
        """Return True if this host can dial addresses of this kind."""
        ...

    async def dial(self, address: Multiaddr) -> PeerId:
        """Connect to a peer. Raises `DialError` if the peer cannot be reached or is not the expected one."""
        ...

    async def open_stream(self, peer: PeerId, protocols: Sequence[str]) -> Stream:
        """Open a stream to a connected peer for the first of `protocols` that the peer speaks.

        Raises `MultistreamError` if it speaks none of them, `StreamClosed` if it is not connected.
        """
        ...

    def remote_address(self, peer: PeerId) -> Multiaddr | None:
        """Return the remote address of the connection to a peer; None if not connected."""
        ...

    def has_dialled(self, peer: PeerId) -> bool:
        """Return True if this host dialled the connection to a peer."""
        ...

    def address_of(self, peer: PeerId) -> str:
        """Return the address group of a connected peer (`resources.address_group`); empty if not connected."""
        ...

    def disconnect(self, peer: PeerId) -> None: ...

    async def close(self) -> frozenset[PeerId] | None:
        """Stop listening, end all connections and wait until they are gone.

        Returns the peers that have received all that was sent to them; None if the host cannot know.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionLimits:
    """Maximum numbers of connections. `fitted` lowers them if the process may open too few files."""

    max_connections: int = 1024
    """Maximum authenticated connections and running dials."""
    reserved_for_dials: int = 64
    """Number of connections that only dials may use."""
    max_per_address: int = 256
    """Maximum inbound connections of one address: a quarter of all, as many honest peers may share an address."""
    newcomer_patience_s: float = 2.0
    """Minimum age in seconds of an idle inbound connection that is ended for a new one, if no slot is free."""
    max_handshakes: int = 128
    """Maximum inbound connections in a handshake."""
    max_handshakes_per_address: int = 32
    handshake_patience_s: float = 0.05
    """Minimum age in seconds of an idle handshake that is ended for a new one, if no slot is free."""
    spare_files: int = 64
    """Files that are reserved for other purposes than connections."""


class FittedLimits(NamedTuple):
    """Maximum numbers of connections, as `fitted` computes them from `AdmissionLimits`."""

    connections: int
    inbound: int
    per_address: int
    handshakes: int
    handshakes_per_address: int


def fitted(limits: AdmissionLimits, files: int) -> FittedLimits:
    """Return the limits, lowered if the process may open only `files` files. Each limit is at least 1."""
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


def concrete_addresses(host: str, port: int) -> Iterator[tuple[str, int]]:
    """Yield the address; for 0.0.0.0 or ::, yield the address of each interface instead.

    Loopback addresses come last. Link-local IPv6 addresses are left out, because they need a zone. 0.0.0.0 is never
    advertised, because other machines would take it for themselves.
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
