"""The slowest deliveries of a message, and what they have in common that the others have not.

Rules:

* Of each node its first delivery counts, but the publisher's; the slowest ten are shown. Who came to the topic after
  the publication is not slow: those are counted by themselves.
* The others are a sample of at most three hundred, evenly over the order of delay.
* A trait is said if at least half of the slowest have it, two of them at least, and their share is one and a half
  times that of the others or more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hearsay.core.language.actions import Via
from hearsay.explain.announcements import ON_REQUEST, announcements_between
from hearsay.explain.books import Copy, Fate
from hearsay.explain.connections import TooManyConnections
from hearsay.explain.fastest import Network, fastest_arrivals
from hearsay.explain.path import Path, Step, path_to
from hearsay.explain.story import Story
from hearsay.pipeline.kernels.columns import Ints
from hearsay.text.numbers import milliseconds

SLOWEST = 10
_SAMPLE = 300
_IN_QUEUES = 1 / 3
_LEAST_SHARE, _LEAST_COUNT, _TIMES = 0.5, 2, 1.5
_SEARCHED_CONNECTIONS = 500_000
_FAILED = (Fate.LOST, Fate.UNREACHABLE, Fate.QUEUE_FULL)


@dataclass(frozen=True, slots=True)
class Trait:
    """What slow deliveries have in common: how many of them have it, and how many of the others."""

    words: str
    slow: int
    slow_of: int
    others: int
    others_of: int

    @property
    def is_telling(self) -> bool:
        share = self.slow / self.slow_of
        rest = self.others / self.others_of if self.others_of else 0.0
        return self.slow >= _LEAST_COUNT and share >= _LEAST_SHARE and share >= _TIMES * rest

    @property
    def lead(self) -> float:
        return self.slow / self.slow_of - (self.others / self.others_of if self.others_of else 0.0)


@dataclass(frozen=True, slots=True)
class SlowAnswer:
    deliveries: int
    """At nodes other than the publisher that were there in time, the first of each."""
    latecomers: int
    """Others that got it, and came to the topic after the publication."""
    median_us: int | None
    slow: tuple[Path, ...]
    traits: tuple[Trait, ...]


def explain_slowest(story: Story) -> SlowAnswer:
    books = story.books
    first = books.deliveries.first()
    away = first[books.deliveries.node[first] != books.publisher]
    came_later = np.isin(books.deliveries.node[away], _latecomers(story))
    away, latecomers = away[~came_later], int(np.count_nonzero(came_later))
    order = away[np.lexsort((books.deliveries.node[away], books.deliveries.time_us[away]))]
    slow, rest = order[-SLOWEST:][::-1], order[:-SLOWEST]
    others = rest[:: max(1, -(-len(rest) // _SAMPLE))]
    slow_paths = _asked_paths(story, slow)
    other_paths = [path_to(books, place, story.model) for place in others.tolist()]
    median = int(np.median(books.deliveries.time_us[order])) - books.start_us() if len(order) else None
    traits = tuple(_traits(story, slow_paths, other_paths))
    return SlowAnswer(len(order), latecomers, median, tuple(slow_paths), traits)


def _latecomers(story: Story) -> Ints:
    """Nodes that were not in the topic at the publication, and came later."""
    members = story.members
    before = members.since_us <= story.books.start_us()
    there = before & (members.until_us > story.books.start_us())
    return np.setdiff1d(members.node[~before], members.node[there])


def _asked_paths(story: Story, places: Ints) -> list[Path]:
    paths = [path_to(story.books, place, story.model) for place in places.tolist()]
    asked = {(hop.sender, hop.receiver) for path in paths for hop in path.hops if _on_request(hop.copy)}
    if not asked:
        return paths
    until_us = max(path.delivered_us for path in paths)
    announcements = announcements_between(story.run, asked, story.members, story.books.start_us(), until_us)
    return [path_to(story.books, place, story.model, announcements) for place in places.tolist()]


def _on_request(copy: Copy | None) -> bool:
    return copy is not None and copy.via in ON_REQUEST


def _traits(story: Story, slow: Sequence[Path], others: Sequence[Path]) -> Iterator[Trait]:
    if not slow:
        return
    sides: list[Counter[str]] = []
    facts = _Facts(story, slow, others)
    for paths in (slow, others):
        sides.append(Counter(words for path in paths for words in facts.of(path)))
    found = [Trait(words, sides[0][words], len(slow), sides[1][words], len(others)) for words in sides[0]]
    telling = [trait for trait in found if trait.is_telling]
    yield from sorted(telling, key=lambda trait: (-trait.lead, trait.words))


class _Facts:
    """What can be said of a delivery in words, so that the same words mean the same."""

    def __init__(self, story: Story, slow: Sequence[Path], others: Sequence[Path]) -> None:
        self._story = story
        self._hops = int(np.median([len(path.hops) for path in (*slow, *others)]))
        nodes = [path.node for path in (*slow, *others)]
        self._could_us: dict[int, int] = {}
        self._links: dict[int, int] = {}
        try:
            network = Network(story, max(path.delivered_us for path in slow))
        except TooManyConnections:
            network = None
        if network is not None and story.model is not None:
            links = network.connections
            if len(links.one) <= _SEARCHED_CONNECTIONS and not story.in_parts:
                self._could_us = fastest_arrivals(network, max(path.delivered_us for path in slow))
            there = links.since_us <= story.books.start_us()
            mine: list[int] = links.one[there & np.isin(links.one, nodes)].tolist()
            counts = Counter(mine)
            self._links = {node: counts[node] for node in nodes}
        could = [self._could_us[path.node] for path in others if path.node in self._could_us]
        self._far_us = int(np.percentile(could, 75)) if could else None
        self._few = int(np.median(list(self._links.values()))) // 2 if self._links else None

    def of(self, path: Path) -> Iterator[str]:
        story, start = self._story, self._story.books.start_us()
        took = path.delivered_us - start
        if any(_on_request(hop.copy) for hop in path.hops):
            asked = {hop.copy.via for hop in path.hops if hop.copy is not None}
            yield f"somebody on the way had to ask for it (IHAVE and {'IWANT' if Via.IWANT in asked else 'GRAFT'})"
        if took > 0 and sum(hop.took(Step.QUEUE) for hop in path.hops) >= _IN_QUEUES * took:
            yield "a third of the time or more went by in queues"
        if len(path.hops) > self._hops + 1:
            yield f"more than {self._hops + 1} hops"
        if _lost_before(story, path):
            yield "an earlier copy to the node was lost or refused by a full queue"
        could = self._could_us.get(path.node)
        if self._far_us is not None and could is not None and could > self._far_us:
            least = milliseconds((self._far_us - start) / 1000)
            yield f"far from the publisher: even the fastest path takes over {least}"
        if self._few is not None and self._links[path.node] <= self._few:
            yield f"few connections ({self._few} or fewer to nodes of the topic)"
        if story.model is not None and path.node in story.model.natted:
            yield "behind NAT: nobody can dial the node"
        region = story.model.latency.region_of(path.node) if story.model is not None else None
        if region is not None:
            yield f"in region {region}"
        for node in path.nodes[:-1]:
            if node != story.books.publisher:
                yield f"by way of {story.node(node)}"


def _lost_before(story: Story, path: Path) -> bool:
    copies = story.books.copies
    there = copies.to(path.node)
    told = np.where(copies.arrived_us[there] >= 0, copies.arrived_us[there], copies.sent_us[there])
    return bool((np.isin(copies.fate[there], _FAILED) & (told <= path.delivered_us)).any())
