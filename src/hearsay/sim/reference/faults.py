"""What goes wrong in a run: nodes that crash, leave and come back, links and partitions that break and heal.

Rules:

* A crash is silent: peers notice after the detection delay; what the node had sent is still under way. Who says
  goodbye leaves its topics first, and the goodbye reaches each peer after all that was said before.
* A cut or a partition takes what is under way; both ends notice after the detection delay.
* Who comes back starts empty and dials random live peers it can reach. On heal, a node that lost links to the fault
  dials as many random live peers as it lost, at most `redial`.
"""

from __future__ import annotations

from hearsay.core.language.events import Leave
from hearsay.core.rules.mixing import extend
from hearsay.core.shell.randomness import Purpose, Randomness, below
from hearsay.sim.plan.planned_events import LinksCut, LinksHealed, NodeDown, NodeUp
from hearsay.sim.reference.connections import Connections
from hearsay.sim.reference.host import HostOfFaults
from hearsay.sim.reference.nodes import Link, SimNode
from hearsay.sim.scenario.scenario import Scenario

ATTEMPTS_PER_PEER = 20
"""Random draws for one live peer before giving up; enough unless nearly everyone is away."""


class Faults:
    def __init__(
        self, host: HostOfFaults, connections: Connections, scenario: Scenario, randomness: Randomness
    ) -> None:
        self._host = host
        self._connections = connections
        self._randomness = randomness
        self._detection_us = scenario.faults.detection_us
        self._redial = scenario.faults.redial
        self._sides: dict[int, frozenset[int]] = {}
        self._cut_pairs: dict[int, frozenset[tuple[int, int]]] = {}
        self._lost_links: dict[int, dict[int, int]] = {}

    def apply(self, fault: NodeDown | NodeUp | LinksCut | LinksHealed) -> None:
        match fault:
            case NodeDown():
                self._down(self._host.nodes[fault.node], fault.goodbye)
            case NodeUp():
                self._up(self._host.nodes[fault.node])
            case LinksCut():
                self._cut(fault)
            case LinksHealed():
                self._heal(fault)

    def reachable(self, node: int, other: int) -> bool:
        """Whether no fault keeps the two apart."""
        if any((node in side) != (other in side) for side in self._sides.values()):
            return False
        pair = (min(node, other), max(node, other))
        return not any(pair in pairs for pairs in self._cut_pairs.values())

    def _down(self, node: SimNode, goodbye: bool) -> None:
        host = self._host
        now = host.now
        if goodbye:
            for topic in sorted(node.topics):
                host.feed(node, Leave(topic))
        host.stop(node)
        for peer in sorted(node.links):
            link = node.links[peer]
            earlier = link.previous
            while earlier is not None:
                earlier.set_open(False)
                earlier = earlier.previous
            link.set_open(False)
            link.dead = True
            noticed_us = self._connections.heard_out_us(link) + 1 if goodbye else now + self._detection_us
            self._connections.notice_loss(link.twin, noticed_us)
        node.links.clear()

    def _up(self, node: SimNode) -> None:
        self._host.start(node)
        self._dial_live(node, self._redial)

    def _cut(self, fault: LinksCut) -> None:
        host = self._host
        lost = self._lost_links.setdefault(fault.fault, {})
        if fault.side is not None:
            self._sides[fault.fault] = fault.side
        pairs = frozenset((min(a, b), max(a, b)) for a, b in fault.links)
        self._cut_pairs[fault.fault] = pairs
        for node in host.nodes:
            for peer in sorted(node.links):
                link = node.links[peer]
                crosses = fault.side is not None and (node.id in fault.side) != (peer in fault.side)
                if crosses or (min(node.id, peer), max(node.id, peer)) in pairs:
                    lost[node.id] = lost.get(node.id, 0) + 1
                    self._cut_link(link)

    def _cut_link(self, link: Link) -> None:
        while True:
            link.cut_line()
            self._connections.notice_loss(link, self._host.now + self._detection_us)
            if link.previous is None:
                return
            link = link.previous

    def _heal(self, fault: LinksHealed) -> None:
        self._sides.pop(fault.fault, None)
        self._cut_pairs.pop(fault.fault, None)
        for number, count in sorted(self._lost_links.pop(fault.fault, {}).items()):
            node = self._host.nodes[number]
            if node.router is not None:
                self._dial_live(node, min(count, self._redial))

    def _dial_live(self, node: SimNode, count: int) -> None:
        """Dial random live peers that are reachable and not connected, unless the router does that itself."""
        host = self._host
        if node.router is not None and node.router.strategy.chooses_connections:
            return
        size = len(host.nodes)
        state = self._randomness.draw(Purpose.REDIAL, node.id, host.now)
        dialled = 0
        for attempt in range(count * ATTEMPTS_PER_PEER):
            if dialled == count:
                return
            target = below(extend(state, attempt), size)
            link = node.links.get(target)
            taken = link is not None and not link.dead
            live = host.nodes[target].router is not None
            if target != node.id and live and not taken and self.reachable(node.id, target):
                self._connections.dial(node, target)
                dialled += 1
