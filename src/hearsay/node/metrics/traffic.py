"""What goes through a node, counted by topic and by kind of part; only nodes that show metrics count so finely.

Rules:

* A topic has counts of its own from when the node first joins it, and keeps them when it leaves, so that they only go
  up. There are at most `TOPICS` of them. What concerns all other topics is counted together: peers cannot make the
  counts more.
* Nothing is counted by peer.
* What is sent counts when it has left for the peer, not when it is queued.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from hearsay.core.language.actions import (
    DuplicateReceived,
    MessagePublished,
    MessageRejected,
    Reason,
    TopicJoined,
    TraceAction,
)
from hearsay.core.language.identifiers import TopicId
from hearsay.core.language.rpc import PartKind, Rpc
from hearsay.core.language.sizes import PartSize, part_sizes

TOPICS = 256
WITH_IDS = (PartKind.IHAVE, PartKind.IWANT, PartKind.IDONTWANT)
"""Parts that name messages: their ids are counted too."""


@dataclass(slots=True)
class TopicTraffic:
    """Messages of a topic, or of many; bytes are those they take in an RPC."""

    received: int = 0
    received_bytes: int = 0
    sent: int = 0
    sent_bytes: int = 0
    published: int = 0
    delivered: int = 0
    duplicates: int = 0
    grafts_sent: int = 0
    prunes_sent: int = 0
    rejected: Counter[Reason] = field(default_factory=Counter[Reason])


class Traffic:
    def __init__(self) -> None:
        self.topics: dict[TopicId, TopicTraffic] = {}
        self.others = TopicTraffic()
        """Of topics without counts of their own."""
        self.parts_received: Counter[PartKind] = Counter()
        self.parts_sent: Counter[PartKind] = Counter()
        self.ids_received: Counter[PartKind] = Counter()
        self.ids_sent: Counter[PartKind] = Counter()

    def of(self, topic: TopicId | None) -> TopicTraffic:
        """The counts in which a topic's are."""
        return self.others if topic is None else self.topics.get(topic, self.others)

    def received(self, rpc: Rpc) -> None:
        for kind, topic, size, count in part_sizes(rpc):
            self.parts_received[kind] += 1
            if kind is PartKind.PUBLISH:
                counts = self.of(topic)
                counts.received += 1
                counts.received_bytes += size
            elif kind in WITH_IDS:
                self.ids_received[kind] += count

    def sent(self, parts: Iterable[PartSize]) -> None:
        for kind, topic, size, count in parts:
            self.parts_sent[kind] += 1
            if kind is PartKind.PUBLISH:
                counts = self.of(topic)
                counts.sent += 1
                counts.sent_bytes += size
            elif kind in WITH_IDS:
                self.ids_sent[kind] += count
            elif kind is PartKind.GRAFT:
                self.of(topic).grafts_sent += 1
            elif kind is PartKind.PRUNE:
                self.of(topic).prunes_sent += 1

    def delivered(self, topic: TopicId) -> None:
        self.of(topic).delivered += 1

    def rejected(self, topic: TopicId, reason: Reason) -> None:
        self.of(topic).rejected[reason] += 1

    def happened(self, action: TraceAction) -> None:
        match action:
            case DuplicateReceived():
                self.of(action.topic).duplicates += 1
            case MessageRejected():
                self.rejected(action.message.topic, action.reason)
            case MessagePublished():
                self.of(action.message.topic).published += 1
            case TopicJoined() if len(self.topics) < TOPICS:
                self.topics.setdefault(action.topic, TopicTraffic())
            case _:
                pass
