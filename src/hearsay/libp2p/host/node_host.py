"""The seam between a node and the host it runs on: what the node, identify, ping and rendezvous ask of a host.

`hearsay.libp2p.host.host.Host` is our own; `hearsay.py_libp2p.host.PyLibp2pHost` is py-libp2p's. Streams are the same
on both (`hearsay.libp2p.mux.stream`); what carries them is the host's business.
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
"""Streams of a peer for one protocol, unless the protocol says otherwise."""


class NodeHost(Protocol):
    identity: PrivateKey
    peer: PeerId
    on_peer_up: list[Callable[[PeerId], None]]
    """Called when the first connection to a peer is there."""
    on_peer_down: list[Callable[[PeerId], None]]
    """Called when the last one is gone; the peer's streams have ended before."""
    on_over_limit: list[Callable[[PeerId], None]]
    """Called when a peer has lost a stream or its connection for what it made this host keep."""
    resources: Resources
    failed_dials: int
    """Dials that reached no peer, or another peer than expected."""
    admits: Callable[[PeerId | None, str], bool]
    """Decide whether to accept a peer or an address (`resources.address_group`): called before a handshake, when the
    peer is None, and again when it is known. Everybody is admitted unless this is set."""

    worth: Callable[[], Mapping[PeerId, float]]
    """Worth of peers when no slot is free (`hearsay.slots`). Missing peers count as idle."""

    @property
    def connections(self) -> Collection[PeerId]:
        """The connected peers."""
        ...

    @property
    def addresses(self) -> tuple[Multiaddr, ...]:
        """Where others reach this host, with its peer id."""
        ...

    @property
    def protocols(self) -> Collection[str]:
        """Protocols for which peers may open streams."""
        ...

    def handle(self, protocol: str, handler: Callable[[Stream], None], max_streams: int = MAX_STREAMS) -> None:
        """Call `handler` with each stream that a peer opens for `protocol`, up to a number at a time."""
        ...

    async def listen(self, address: Multiaddr) -> tuple[Multiaddr, ...]:
        """Accept connections; all addresses then. `OSError` or `ValueError` says why that cannot be."""
        ...

    def can_dial(self, address: Multiaddr) -> bool:
        """Return True if addresses of this kind can be dialled."""
        ...

    async def dial(self, address: Multiaddr) -> PeerId:
        """Connect to a peer; `DialError` when it cannot be reached or is another than it should be."""
        ...

    async def open_stream(self, peer: PeerId, protocols: Sequence[str]) -> Stream:
        """A stream to a connected peer for the first of `protocols` it speaks.

        `MultistreamError` when it speaks none, `StreamClosed` when it is not there.
        """
        ...

    def remote_address(self, peer: PeerId) -> Multiaddr | None:
        """Where a connected peer's packets come from."""
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

        The peers that are known to have taken everything that was sent to them; None if a host cannot know.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionLimits:
    """Upper bounds; fewer files mean fewer of all (`fitted`)."""

    max_connections: int = 1024
    """Proven connections and dials."""
    reserved_for_dials: int = 64
    """Number of connections that inbound ones leave free."""
    max_per_address: int = 256
    """Inbound connections of an address; a quarter, because many honest peers may share one."""
    newcomer_patience_s: float = 2.0
    """An idle inbound connection gives way to a newcomer after this time, when no slot is free."""
    max_handshakes: int = 128
    """Inbound connections that have not proven who they are."""
    max_handshakes_per_address: int = 32
    handshake_patience_s: float = 0.05
    """A connection that has sent nothing gives way to a new one after this time, when no handshake is free."""
    spare_files: int = 64
    """For everything but connections."""


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
    """An address as it is; one that stands for all interfaces (0.0.0.0 or ::) as the address of each.

    Those that other machines can use come first, loopback last. IPv6 addresses of a single link are left out: they
    say nothing without a zone. 0.0.0.0 is never advertised: at the reader it means the reader's own machine.
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
