"""The standing of peers: their scores, and their worth.

A host without a free slot ends the connection of an idle peer or of the peer of least worth, by the rules of
`hearsay.listener`.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping
from math import inf
from time import monotonic

from hearsay.core.language.events import DirectPeerChosen, PeerRated, TopicScored
from hearsay.core.language.identifiers import TopicId
from hearsay.core.mesh.parameters import MeshParameters
from hearsay.core.scores.score_parameters import TopicScoreParameters
from hearsay.core.shell.guarantees import Peering, ScoreParts
from hearsay.libp2p.names.peer_id import PeerId
from hearsay.libp2p.node_host import Tasks
from hearsay.node.driver import Driver

FRESH_S = 1.0
"""Minimum seconds between two computations of the worth of all peers."""
MAX_MEMBERS = 12
"""Maximum mesh peers of a topic with infinite worth, for routers without D_high."""


class PeerWorth:
    """The function `NodeHost.worth`. The worth of a peer is the number of delivered messages that it was the first to
    send.

    The worth of direct peers is infinite. In each topic, the D_high mesh peers with the highest numbers also have
    infinite worth. A peer with a negative score has no worth.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._stale_s = monotonic()
        self._table: Mapping[PeerId, float] = {}

    def __call__(self) -> Mapping[PeerId, float]:
        now_s = monotonic()
        if now_s >= self._stale_s:
            self._stale_s = now_s + FRESH_S
            self._table = self._compute_table()
        return self._table

    def _compute_table(self) -> Mapping[PeerId, float]:
        strategy = self._driver.router.strategy
        delivered = {peer: float(link.delivered) for peer, link in self._driver.links.by_peer.items()}
        members: defaultdict[TopicId, list[PeerId]] = defaultdict(list)
        for topic, peer, peering in strategy.peerings():
            if peering is Peering.FULL_MESSAGE and isinstance(peer, bytes):
                members[topic].append(peer)
        direct = () if strategy.scoring is None else strategy.scoring.direct
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


Watcher = Callable[[Mapping[PeerId, ScoreParts]], None]


class PeerScores:
    """The scores of a node's peers, and the settings of the application that change them."""

    def __init__(self, running: Callable[[], Driver], tasks: Tasks) -> None:
        self._running = running
        self._tasks = tasks

    @property
    def all(self) -> dict[PeerId, ScoreParts]:
        """Return the scores of the connected peers with their components; empty if the router keeps no scores."""
        return {peer: parts for peer, parts in self._running().router.strategy.scores() if isinstance(peer, bytes)}

    def rate(self, peer: PeerId, rating: float) -> None:
        """Set the application-specific score (P5) of a peer, connected or not; 0 is neutral.

        Raises `UsageError` if the router keeps no scores, or if `rating` is too large or too small.
        """
        self._running().feed(PeerRated(peer, rating))

    def set_topic(self, topic: str, parameters: TopicScoreParameters) -> None:
        """Replace the score parameters of a topic, joined or not. Smaller caps lower counters that exceed them.

        Raises `UsageError` if the router keeps no scores.
        """
        self._running().feed(TopicScored(topic, parameters))

    def set_direct(self, peer: PeerId, direct: bool = True) -> None:
        """Make a peer a direct peer, or an ordinary one if `direct` is False. The peer should do the same with this
        node.

        Raises `UsageError` if the router has no direct peers, or if `peer` is this node itself.
        """
        self._running().feed(DirectPeerChosen(peer, direct))

    def watch(self, watcher: Watcher, every_s: float = 1.0) -> None:
        """Call `watcher` with all scores now and every `every_s` seconds, while the node runs."""
        self._tasks.start(self._watch(watcher, every_s))

    async def _watch(self, watcher: Watcher, every_s: float) -> None:
        while True:
            watcher(self.all)
            await asyncio.sleep(every_s)
