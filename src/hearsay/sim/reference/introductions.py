"""What a node learns about a peer when they connect.

Rules:

* A router learns which end dialled, the peer's address and the protocol that both speak; and the peer's topics where
  routers send no hello.
* Routers with scores get the application's rating of the peer first, each time they connect. The last rating that
  matches counts.
* Pairs of `direct_peers`, in any router's parameters, are announced to routers with scores when they start. When all
  nodes have started, the first of a pair dials, unless the other accepts no connection. From then on their routers
  keep them connected.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from ipaddress import IPv4Address, IPv6Address

from hearsay.core.language.events import DirectPeerChosen, PeerConnected, PeerRated
from hearsay.core.language.fast_frozen import fast_init
from hearsay.core.language.identifiers import Micros
from hearsay.core.language.rpc import FLOODSUB
from hearsay.core.mesh.parameters import JudgingParameters
from hearsay.core.registry import negotiate
from hearsay.core.shell.randomness import Purpose
from hearsay.sim.plan.draws import chosen
from hearsay.sim.reference.nodes import Link, Network, SimNode
from hearsay.sim.scenario.network import Addresses, AddressForm

_FIRST_IPV4 = int(IPv4Address("10.0.0.1"))
_FIRST_IPV6 = int(IPv6Address("2001:db8::1"))
_PREFIX_BITS = 64
_connected = fast_init(PeerConnected)


class AddressBook:
    """The address of each node.

    With `nodes_per_address` = n the first n nodes share an address, the next n another one, and so on. The nodes of a
    list in `shared` have an address of their own in place of it. Other nodes have no known address.
    """

    def __init__(self, section: Addresses) -> None:
        self._form = section.form
        self._nodes_each = section.nodes_per_address
        self._lists = len(section.shared)
        self._listed = {node: place for place, nodes in enumerate(section.shared) for node in nodes}

    def of(self, node: int) -> str:
        """Return the address that peers see, empty if there is none."""
        if node in self._listed:
            return self._text(self._listed[node], node)
        if self._nodes_each:
            return self._text(self._lists + node // self._nodes_each, node)
        return ""

    def _text(self, number: int, node: int) -> str:
        match self._form:
            case AddressForm.IPV4:
                return str(IPv4Address(_FIRST_IPV4 + number))
            case AddressForm.IPV6:
                return str(IPv6Address(_FIRST_IPV6 + (number << _PREFIX_BITS)))
            case AddressForm.IPV6_PREFIX:
                return str(IPv6Address(_FIRST_IPV6 + (number << _PREFIX_BITS) + node))


class Introductions:
    """Creates the events that introduce peers to each other."""

    def __init__(self, network: Network) -> None:
        plan = network.plan
        self._nodes = network.nodes
        self._router_of = plan.router_of
        self._natted = plan.natted
        pairs: set[tuple[int, int]] = set()
        for _, parameters in plan.routers:
            if isinstance(parameters, JudgingParameters):
                pairs.update(parameters.direct_peers)
        self._pairs = sorted(pairs)
        self._direct: dict[int, set[int]] = {}
        for one, other in self._pairs:
            self._direct.setdefault(one, set()).add(other)
            self._direct.setdefault(other, set()).add(one)
        self._protocols = [kind.protocols(parameters) for kind, parameters in plan.routers]
        self._addresses = AddressBook(plan.scenario.addresses)
        self._ratings: list[tuple[Container[int], Container[int], float]] = []
        """Rated nodes, rating nodes and the rating; the last entry first."""
        for number, entry in enumerate(plan.scenario.ratings):
            rated = chosen(entry, plan.router_of, network.randomness, Purpose.RATED, number)
            by = range(len(self._nodes)) if entry.by is None else frozenset(entry.by)
            self._ratings.insert(0, (rated, by, float(entry.rating)))

    def announce_direct(self, node: SimNode, now: Micros) -> None:
        """Announce the direct peers to a router that starts; no peer is connected, so it performs no action."""
        if node.router is not None and node.router.strategy.judge is not None:
            for peer in sorted(self._direct.get(node.id, ())):
                node.router.handle(DirectPeerChosen(peer), now)

    def direct_dials(self) -> Iterator[tuple[SimNode, int]]:
        """Yield the dials that connect direct peers."""
        for pair in self._pairs:
            one, other = pair if pair[1] not in self._natted else pair[::-1]
            node = self._nodes[one]
            if node.router is not None and self._nodes[other].router is not None and other not in node.links:
                yield node, other

    def rating(self, node: SimNode, peer: int) -> PeerRated | None:
        """Return the application's rating of a peer, if there is one."""
        if not self._ratings or node.router is None or not node.router.strategy.keeps_scores:
            return None
        for rated, by, rating in self._ratings:
            if peer in rated and node.id in by:
                return PeerRated(peer, rating)
        return None

    def connected(self, node: SimNode, link: Link) -> PeerConnected:
        """Return the event of a new connection; `link` is the one from the node."""
        peer = link.destination
        ours = self._protocols[self._router_of[node.id]]
        theirs = self._protocols[self._router_of[peer]]
        implied: tuple[str, ...] = ()
        if node.router is not None and not node.router.parameters.hello:
            implied = tuple(sorted(self._nodes[peer].topics))
        protocol = negotiate(ours, theirs) or FLOODSUB
        return _connected(peer, protocol, implied, self._addresses.of(peer), link.outbound)
