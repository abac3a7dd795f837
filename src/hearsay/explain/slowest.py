"""The slowest deliveries of a message, and the traits that they have more often than the others.

Rules:

* The first delivery of each node counts, except the publisher's; the ten slowest are shown. Nodes that joined the
  topic after the publication are not slow: they are counted apart.
* The others are a sample of at most 300, evenly spread over the order of delay.
* A trait is reported if at least half of the slowest deliveries have it, and at least two, and if their share is at
  least 1.5 times that of the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from hearsay.core.language.actions import Via
from hearsay.explain.copies import Fate
from hearsay.explain.fastest import Network, fastest_hops
from hearsay.explain.message import Message
from hearsay.explain.node import is_on_request, requested_paths
from hearsay.explain.path import Path, Step, path_to
from hearsay.explain.rows import Ints, TooManyRows
from hearsay.text.numbers import milliseconds

MAX_SLOW = 10
_SAMPLE = 300
_IN_QUEUES = 1 / 3
_MIN_SHARE, _MIN_COUNT, _MIN_RATIO = 0.5, 2, 1.5
_SEARCHED_CONNECTIONS = 500_000
_FAILED = (Fate.LOST, Fate.UNREACHABLE, Fate.QUEUE_FULL)


@dataclass(frozen=True, slots=True)
class Trait:
    """A trait, with the number of slow and of other deliveries that have it."""

    words: str
    slow: int
    slow_of: int
    others: int
    others_of: int

    @property
    def share(self) -> float:
        return self.slow / self.slow_of

    @property
    def share_of_others(self) -> float:
        return self.others / self.others_of if self.others_of else 0.0


@dataclass(frozen=True, slots=True)
class SlowAnswer:
    """The slowest deliveries of a message."""

    deliveries: int
    """Nodes, except the publisher, that were in the topic in time and got the message."""
    latecomers: int
    """Nodes that joined the topic after the publication and got the message."""
    median_us: int | None
    slow: tuple[Path, ...]
    traits: tuple[Trait, ...]


def explain_slowest(message: Message) -> SlowAnswer:
    history = message.history
    first = history.deliveries.first()
    away = first[history.deliveries.node[first] != history.publisher]
    is_late = np.isin(history.deliveries.node[away], _latecomers(message))
    away, latecomers = away[~is_late], int(np.count_nonzero(is_late))
    order = away[np.lexsort((history.deliveries.node[away], history.deliveries.time_us[away]))]
    slow, rest = order[-MAX_SLOW:][::-1], order[:-MAX_SLOW]
    others = rest[:: max(1, -(-len(rest) // _SAMPLE))]
    slow_paths = requested_paths(message, slow.tolist())
    other_paths = [path_to(history, place, message.model) for place in others.tolist()]
    median = int(np.median(history.deliveries.time_us[order])) - history.start_us() if len(order) else None
    traits = tuple(_traits(message, slow_paths, other_paths))
    return SlowAnswer(len(order), latecomers, median, tuple(slow_paths), traits)


def _latecomers(message: Message) -> Ints:
    """Return the nodes that joined the topic after the publication."""
    members = message.members
    before = members.since_us <= message.history.start_us()
    there = before & (members.until_us > message.history.start_us())
    return np.setdiff1d(members.node[~before], members.node[there])


def _traits(message: Message, slow: Sequence[Path], others: Sequence[Path]) -> Iterator[Trait]:
    if not slow:
        return
    facts = _Facts(message, slow, others)
    mine, theirs = (Counter(words for path in paths for words in facts.of(path)) for paths in (slow, others))
    found = [Trait(words, mine[words], len(slow), theirs[words], len(others)) for words in mine]
    for trait in sorted(found, key=lambda trait: (trait.share_of_others - trait.share, trait.words)):
        if trait.slow >= _MIN_COUNT and trait.share >= max(_MIN_SHARE, _MIN_RATIO * trait.share_of_others):
            yield trait


class _Facts:
    """The traits of deliveries; equal words are the same trait."""

    def __init__(self, message: Message, slow: Sequence[Path], others: Sequence[Path]) -> None:
        self._message = message
        self._hops = int(np.median([len(path.hops) for path in (*slow, *others)]))
        nodes = [path.node for path in (*slow, *others)]
        self._could_us: dict[int, int] = {}
        self._links: dict[int, int] = {}
        until_us = max(path.delivered_us for path in slow)
        with suppress(TooManyRows):
            if message.model is not None:
                network = Network(message, until_us)
                links = network.connections
                if len(links.one) <= _SEARCHED_CONNECTIONS and not message.in_parts:
                    self._could_us = {node: hop.had_us for node, hop in fastest_hops(network, until_us).items()}
                there = links.since_us <= message.history.start_us()
                counts: Counter[int] = Counter(links.one[there & np.isin(links.one, nodes)].tolist())
                self._links = {node: counts[node] for node in nodes}
        could = [self._could_us[path.node] for path in others if path.node in self._could_us]
        self._far_us = int(np.percentile(could, 75)) if could else None
        self._few = int(np.median(list(self._links.values()))) // 2 if self._links else None

    def of(self, path: Path) -> Iterator[str]:
        message, start = self._message, self._message.history.start_us()
        took = path.delivered_us - start
        if any(is_on_request(hop.copy) for hop in path.hops):
            vias = {hop.copy.via for hop in path.hops if hop.copy is not None}
            yield f"a node on the path requested it (IHAVE and {'IWANT' if Via.IWANT in vias else 'GRAFT'})"
        if took > 0 and sum(hop.took(Step.QUEUE) for hop in path.hops) >= _IN_QUEUES * took:
            yield "at least a third of the time in queues"
        if len(path.hops) > self._hops + 1:
            yield f"more than {self._hops + 1} hops"
        if _lost_before(message, path):
            yield "an earlier copy to the node was lost or refused by a full queue"
        could = self._could_us.get(path.node)
        if self._far_us is not None and could is not None and could > self._far_us:
            least = milliseconds((self._far_us - start) / 1000)
            yield f"far from the publisher: even the fastest path takes more than {least}"
        if self._few is not None and self._links[path.node] <= self._few:
            yield f"few connections ({self._few} or fewer to nodes of the topic)"
        if message.model is not None and path.node in message.model.natted:
            yield "behind NAT: no peer can dial the node"
        region = message.model.latency.region_of(path.node) if message.model is not None else None
        if region is not None:
            yield f"in region {region}"
        for node in path.nodes[:-1]:
            if node != message.history.publisher:
                yield f"over {message.node(node)}"


def _lost_before(message: Message, path: Path) -> bool:
    copies = message.history.copies
    there = copies.to(path.node)
    times = np.where(copies.arrived_us[there] >= 0, copies.arrived_us[there], copies.sent_us[there])
    return bool((np.isin(copies.fate[there], _FAILED) & (times <= path.delivered_us)).any())
