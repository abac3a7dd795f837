"""What the router of a node and its driver ask about a peer: its place, its signed record, its share of memory."""

from __future__ import annotations

from collections.abc import Callable

from hearsay.libp2p.host.node_host import NodeHost
from hearsay.libp2p.limits.resources import Budget, address_group
from hearsay.libp2p.names.peer_id import PeerId
from hearsay.libp2p.services.identify import Identification
from hearsay.node.driver import Driver
from hearsay.node.meeting.discovery import Discovery

OWN_MACHINE = frozenset(map(address_group, ("127.0.0.1", "::1")))
"""Who speaks from here counts for itself in a mesh: a machine's many nodes are there for a reason."""


class PeerFacts:
    def __init__(
        self, host: NodeHost, identification: Identification, discovery: Discovery, driver: Callable[[], Driver]
    ) -> None:
        self._host = host
        self._identification = identification
        self._discovery = discovery
        self._driver = driver

    def place_of(self, peer: PeerId) -> str:
        """What a mesh spreads its places by: the address, unless it is this machine's own. Scores want all of it."""
        if self._driver().router.strategy.keeps_scores:
            remote = self._host.remote_address(peer)
            return remote.parts[0][1] if remote is not None else ""
        address = self._host.address_of(peer)
        return "" if address in OWN_MACHINE else address

    def budget_of(self, peer: PeerId) -> Budget:
        return self._host.resources.peer(peer, self._driver().links.group_of(peer))

    def record_of(self, peer: PeerId) -> bytes | None:
        if peer == self._host.peer:
            return self._identification.record()
        known = self._identification.known.get(peer)
        record = known.signed_record if known is not None else None
        return record or self._discovery.record_of(peer)
