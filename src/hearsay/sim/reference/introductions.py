"""What a node is told of a peer with whom it is connected.

Rules:

* Who dialled, at which address the peer is, which protocol both speak; and the peer's topics where no hello says so.
* What the application thinks of the peer is said before, each time they connect, to routers that judge their peers.
  Of several ratings that fit the last one holds.
* Pairs of `direct_peers`, of whichever router's parameters, are told so when they start, if they judge their peers.
  Once all are up they are connected: the first of a pair dials, unless the other takes no connection. From then on
  their routers see to it.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from hearsay.core.language.events import DirectPeerChosen, PeerConnected, PeerRated
from hearsay.core.language.fast_frozen import fast_init
from hearsay.core.language.identifiers import Micros
from hearsay.core.language.rpc import FLOODSUB
from hearsay.core.mesh.judging_parameters import JudgingParameters
from hearsay.core.registry import negotiate
from hearsay.core.shell.parameters import RouterParameters
from hearsay.core.shell.randomness import Purpose, Randomness
from hearsay.sim.plan.addresses import AddressBook
from hearsay.sim.plan.plan import Plan
from hearsay.sim.plan.some_nodes import chosen
from hearsay.sim.reference.nodes import Link, SimNode

_connected = fast_init(PeerConnected)


def direct_pairs(parameters: RouterParameters) -> tuple[tuple[int, int], ...]:
    """Who is direct to whom, by the parameters of a router that knows direct peers."""
    return parameters.direct_peers if isinstance(parameters, JudgingParameters) else ()


class Introductions:
    def __init__(self, plan: Plan, randomness: Randomness, nodes: Sequence[SimNode]) -> None:
        self._nodes = nodes
        self._router_of = plan.router_of
        self._natted = plan.natted
        self._pairs = sorted({pair for _, parameters in plan.routers for pair in direct_pairs(parameters)})
        self._direct: dict[int, set[int]] = {}
        for one, other in self._pairs:
            self._direct.setdefault(one, set()).add(other)
            self._direct.setdefault(other, set()).add(one)
        self._protocols = [kind.protocols(parameters) for kind, parameters in plan.routers]
        self._addresses = AddressBook(plan.scenario.addresses)
        self._ratings: list[tuple[Container[int], Container[int], float]] = []
        """Who is rated, by whom, and how; the last entry comes first."""
        for number, entry in enumerate(plan.scenario.ratings):
            rated = chosen(entry, plan.router_of, randomness, Purpose.RATED, number)
            by = range(len(nodes)) if entry.by is None else frozenset(entry.by)
            self._ratings.insert(0, (rated, by, float(entry.rating)))

    def tell_direct(self, node: SimNode, now: Micros) -> None:
        """A router that starts is told of its direct peers; nobody is connected yet, so it asks for nothing."""
        if node.router is not None and node.router.strategy.judges:
            for peer in sorted(self._direct.get(node.id, ())):
                node.router.handle(DirectPeerChosen(peer), now)

    def direct_dials(self) -> Iterator[tuple[SimNode, int]]:
        """Who dials whom so that direct peers are connected."""
        for pair in self._pairs:
            one, other = pair if pair[1] not in self._natted else pair[::-1]
            node = self._nodes[one]
            if node.router is not None and self._nodes[other].router is not None and other not in node.links:
                yield node, other

    def opinion(self, node: SimNode, peer: int) -> PeerRated | None:
        """What the application says of a peer before they connect, if it says anything."""
        if not self._ratings or node.router is None or not node.router.strategy.keeps_scores:
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
        return _connected(peer, protocol, implied, self._addresses.of(peer), link.outbound)
