"""Faults of a run: nodes that crash, leave and return, links and partitions that break and heal.

Rules:

* A crash gives no notice: peers notice after the detection delay, and what the node had sent still arrives. A node
  that leaves with a goodbye leaves its topics first, and each peer notices after all RPCs sent before.
* A cut or a partition loses the RPCs that are in flight; both ends notice after the detection delay.
* A node that returns starts empty and dials random live peers that it can reach. On heal, a node that lost links to
  the fault dials as many random live peers as it lost, at most `redial`.
"""

from __future__ import annotations

from hearsay.core.language.events import Leave
from hearsay.core.rules.mixing import extend
from hearsay.core.shell.randomness import Purpose, below
from hearsay.core.shell.strategy import Dialling
from hearsay.sim.plan.faults import Fault, LinksCut, LinksHealed, NodeDown, NodeUp
from hearsay.sim.reference.connections import Connections
from hearsay.sim.reference.nodes import Link, Network, SimNode

ATTEMPTS_PER_PEER = 20
"""Random draws for one live peer; enough unless nearly all nodes are away."""


class Faults:
    """Applies faults to a network."""

    def __init__(self, network: Network, connections: Connections) -> None:
        self._network = network
        self._connections = connections
        self._detection_us = network.plan.scenario.faults.detection_us
        self._redial = network.plan.scenario.faults.redial
        self._lost_links: dict[int, dict[int, int]] = {}
        """The number of links that each node lost, by fault."""

    def apply(self, fault: Fault) -> None:
        match fault:
            case NodeDown():
                self._stop(self._network.nodes[fault.node], fault.goodbye)
            case NodeUp():
                node = self._network.nodes[fault.node]
                self._network.start(node)
                self._dial_live(node, self._redial)
            case LinksCut():
                self._cut(fault)
            case LinksHealed():
                self._heal(fault)

    def _stop(self, node: SimNode, goodbye: bool) -> None:
        network = self._network
        if goodbye:
            for topic in sorted(node.topics):
                network.feed(node, Leave(topic))
        network.stop(node)
        for peer in sorted(node.links):
            link = node.links[peer]
            earlier = link.previous
            while earlier is not None:
                earlier.set_open(False)
                earlier = earlier.previous
            link.set_open(False)
            link.dead = True
            noticed_us = network.now + self._detection_us
            if goodbye:
                noticed_us = self._connections.last_arrival_us(link) + 1
            self._connections.notice_loss(link.twin, noticed_us)
        node.links.clear()

    def _cut(self, fault: LinksCut) -> None:
        lost = self._lost_links.setdefault(fault.fault, {})
        if fault.side is not None:
            self._connections.sides[fault.fault] = fault.side
        pairs = frozenset((min(a, b), max(a, b)) for a, b in fault.links)
        self._connections.cut_pairs[fault.fault] = pairs
        for node in self._network.nodes:
            for peer in sorted(node.links):
                link = node.links[peer]
                crosses = fault.side is not None and (node.id in fault.side) != (peer in fault.side)
                if crosses or (min(node.id, peer), max(node.id, peer)) in pairs:
                    lost[node.id] = lost.get(node.id, 0) + 1
                    self._cut_link(link)

    def _cut_link(self, link: Link | None) -> None:
        """Cut a link and earlier ones whose loss was not noticed, oldest first."""
        newest_first: list[Link] = []
        while link is not None:
            newest_first.append(link)
            link = link.previous
        for each in reversed(newest_first):
            each.cut_line()
            self._connections.notice_loss(each, self._network.now + self._detection_us)

    def _heal(self, fault: LinksHealed) -> None:
        self._connections.sides.pop(fault.fault, None)
        self._connections.cut_pairs.pop(fault.fault, None)
        for number, count in sorted(self._lost_links.pop(fault.fault, {}).items()):
            node = self._network.nodes[number]
            if node.router is not None:
                self._dial_live(node, min(count, self._redial))

    def _dial_live(self, node: SimNode, count: int) -> None:
        """Dial random live peers that are reachable and not connected, unless the router dials by itself."""
        network = self._network
        if node.router is not None and node.router.strategy.dialling is Dialling.BY_ROUTER:
            return
        state = network.randomness.draw(Purpose.REDIAL, node.id, network.now)
        dialled = 0
        for attempt in range(count * ATTEMPTS_PER_PEER):
            if dialled == count:
                return
            target = below(extend(state, attempt), len(network.nodes))
            link = node.links.get(target)
            connected = link is not None and not link.dead
            live = network.nodes[target].router is not None
            if target != node.id and live and not connected and self._connections.reachable(node.id, target):
                self._connections.dial(node, target)
                dialled += 1
