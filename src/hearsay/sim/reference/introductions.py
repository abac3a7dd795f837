"""What a node is told of a peer with whom it is connected.

Rules:

* Who dialled, at which address the peer is, which protocol both speak; and the peer's topics where no hello says so.
* What the application thinks of the peer is said before, each time they connect, to routers that judge their peers.
  Of several ratings that fit the last one holds.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from hearsay.core.language.events import PeerConnected, PeerRated
from hearsay.core.language.rpc import FLOODSUB
from hearsay.core.registry import negotiate
from hearsay.core.shell.randomness import Purpose, Randomness
from hearsay.sim.plan.addresses import AddressBook
from hearsay.sim.plan.plan import Plan
from hearsay.sim.plan.some_nodes import chosen
from hearsay.sim.reference.nodes import Link, SimNode


class Introductions:
    def __init__(self, plan: Plan, randomness: Randomness, nodes: Sequence[SimNode]) -> None:
        self._nodes = nodes
        self._router_of = plan.router_of
        self._protocols = [kind.protocols(parameters) for kind, parameters in plan.routers]
        self._addresses = AddressBook(plan.scenario.addresses)
        self._ratings: list[tuple[Container[int], Container[int], float]] = []
        """Who is rated, by whom, and how; the last entry comes first."""
        for number, entry in enumerate(plan.scenario.ratings):
            rated = chosen(entry, plan.router_of, randomness, Purpose.RATED, number)
            by = range(len(nodes)) if entry.by is None else frozenset(entry.by)
            self._ratings.insert(0, (rated, by, float(entry.rating)))

    def opinion(self, node: SimNode, peer: int) -> PeerRated | None:
        """What the application says of a peer before they connect, if it says anything."""
        if not self._ratings or node.router is None or not node.router.strategy.judges:
            return None
        for rated, by, rating in self._ratings:
            if peer in rated and node.id in by:
                return PeerRated(peer, rating)
        return None

    def connected(self, node: SimNode, link: Link) -> PeerConnected:
        """`link` is the one from the node."""
        peer = link.destination
        ours = self._protocols[self._router_of[node.id]]
        theirs = self._protocols[self._router_of[peer]]
        implied: tuple[str, ...] = ()
        if node.router is not None and not node.router.parameters.hello:
            implied = tuple(sorted(self._nodes[peer].topics))
        protocol = negotiate(ours, theirs) or FLOODSUB
        return PeerConnected(peer, protocol, implied, self._addresses.of(peer), link.outbound)
