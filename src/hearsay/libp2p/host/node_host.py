"""The seam between a node and the host it runs on: what the node, identify, ping and rendezvous ask of a host.

`hearsay.libp2p.host.host.Host` is our own; `hearsay.py_libp2p.host.PyLibp2pHost` is py-libp2p's. Streams are the same
on both (`hearsay.libp2p.mux.stream`); what carries them is the host's business.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

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
