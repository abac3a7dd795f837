"""What a node thinks of its peers, for its application: to look at, to add to, to change.

For routers that keep scores (`NodeConfig(parameters={"score": …})`); direct peers need one that judges.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping

from hearsay.core.language.events import DirectPeerChosen, PeerRated, TopicScored
from hearsay.core.language.state import ScoreParts
from hearsay.core.scores.score_parameters import TopicScoreParameters
from hearsay.libp2p.names.peer_id import PeerId
from hearsay.node.driver import Driver

Watcher = Callable[[Mapping[PeerId, ScoreParts]], None]


class PeerScores:
    def __init__(self, running: Callable[[], Driver], start: Callable[[Coroutine[None, None, None]], object]) -> None:
        self._running = running
        self._start = start

    @property
    def all(self) -> dict[PeerId, ScoreParts]:
        """The scores of the connected peers, and what they are made of; empty for routers that keep none."""
        scores = self._running().router.strategy.scores()
        return {peer: parts for peer, parts in scores if isinstance(peer, bytes)}

    def rate(self, peer: PeerId, rating: float) -> None:
        """The application's own opinion of a peer, here or not (P5); 0 is none."""
        self._running().feed(PeerRated(peer, rating))

    def set_topic(self, topic: str, parameters: TopicScoreParameters) -> None:
        """Score a joined topic by these parameters from now on; smaller caps hold at once."""
        self._running().feed(TopicScored(topic, parameters))

    def set_direct(self, peer: PeerId, direct: bool = True) -> None:
        """A peer is direct from now on, or is not any more. Both sides should say so."""
        self._running().feed(DirectPeerChosen(peer, direct))

    def watch(self, watcher: Watcher, every_s: float = 1.0) -> None:
        """Hand all scores to `watcher` again and again, as long as the node runs."""
        self._start(self._watch(watcher, every_s))

    async def _watch(self, watcher: Watcher, every_s: float) -> None:
        while True:
            watcher(self.all)
            await asyncio.sleep(every_s)
