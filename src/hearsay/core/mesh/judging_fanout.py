"""Fan-out with scores: who is in it is good enough for one's own messages (v1.1, "Score thresholds"; go)."""

from __future__ import annotations

from hearsay.core.language.identifiers import PeerId, TopicId
from hearsay.core.mesh.fanout import Fanout
from hearsay.core.mesh.gossip_parameters import GossipsubParameters
from hearsay.core.mesh.standing import Standing
from hearsay.core.shell.peers import PeerGroup
from hearsay.core.shell.shell import Shell


class JudgingFanout(Fanout):
    __slots__ = ("_standing",)

    def __init__(self, parameters: GossipsubParameters, shell: Shell, standing: Standing) -> None:
        super().__init__(parameters, shell)
        self._standing = standing

    def upkeep(self, tick: int) -> None:
        for topic, _ in self.topics():
            for peer in self.peers(topic).ordered:
                if not self._standing.gets_published(peer):
                    self.remove(peer, topic)
        super().upkeep(tick)

    def candidates(self, topic: TopicId, beside: PeerGroup) -> list[PeerId]:
        standing = self._standing
        found = super().candidates(topic, beside)
        return [peer for peer in found if peer not in standing.direct and standing.gets_published(peer)]
