"""What connected peers are worth to a node, for when its host needs a slot.

Direct peers and members of a mesh are worth more than all others: of each topic at most D_high, those that delivered
most. Other peers are worth the messages that they delivered first. A peer with a score below 0 is worth nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from math import inf
from time import monotonic

from hearsay.core.language.identifiers import TopicId
from hearsay.core.language.state import Peering
from hearsay.core.mesh.parameters import MeshParameters
from hearsay.libp2p.names.peer_id import PeerId
from hearsay.node.driver import Driver

FRESH_S = 1.0
"""The table is not made more often, however many connections come."""
MAX_MEMBERS = 12
"""Protected members of a topic, for routers without D_high."""


class PeerWorth:
    def __init__(self, driver: Driver, now_s: Callable[[], float] = monotonic) -> None:
        self._driver = driver
        self._now_s = now_s
        self._stale_s = now_s()
        self._table: Mapping[PeerId, float] = {}

    def __call__(self) -> Mapping[PeerId, float]:
        now_s = self._now_s()
        if now_s >= self._stale_s:
            self._stale_s = now_s + FRESH_S
            self._table = self._measured()
        return self._table

    def _measured(self) -> Mapping[PeerId, float]:
        strategy = self._driver.router.strategy
        delivered = {peer: float(link.delivered) for peer, link in self._driver.links.of.items()}
        members: defaultdict[TopicId, list[PeerId]] = defaultdict(list)
        for topic, peer, peering in strategy.peerings():
            if peering is Peering.FULL_MESSAGE and isinstance(peer, bytes):
                members[topic].append(peer)
        direct = () if strategy.judge is None else strategy.judge.direct
        protected = {peer for peer in direct if isinstance(peer, bytes)}
        parameters = strategy.parameters
        most = parameters.degree_high if isinstance(parameters, MeshParameters) else MAX_MEMBERS
        for peers in members.values():
            protected.update(sorted(peers, key=lambda peer: -delivered.get(peer, 0.0))[:most])
        worth = delivered | dict.fromkeys(protected, inf)
        for peer, parts in strategy.scores():
            if parts.score < 0 and isinstance(peer, bytes):
                worth.pop(peer, None)
        return worth
