"""The path by which a message would have been at a node first.

Definition: the earliest arrival over what could have carried the message.

* In a simulation, over every connection between two nodes of the topic that both ends had: who has the message sends
  it at once, or as soon as the connection is there, and it takes the latency of the line and the time of its own
  bytes on the uplink. No queue, no jitter, no loss, no heartbeat. Who refused the message passes nothing on.
* Over every copy that really arrived, when it was really sent: so the fastest path is never slower than the first
  copy's. Of real nodes these are all there is, and each copy may go as soon as its sender has the message.
* Each node takes as long from the arrival to passing it on as it did; one that never got it, as long as the quickest,
  and one outside the topic, to whom a script handed the message, no time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from hearsay.core.language.actions import Reason, Via
from hearsay.explain.books import Fate
from hearsay.explain.connections import Connections, connections_until, in_topic
from hearsay.explain.path import copy_of
from hearsay.explain.story import Story
from hearsay.pipeline.kernels.columns import Ints
from hearsay.trace.language.schema import NONE

_VERDICTS = (Reason.REJECTED, Reason.IGNORED, Reason.BAD_SIGNATURE, Reason.UNSUPPORTED)
_LOOKED_AT = 64
"""Deliveries that say how quick a node can be."""


@dataclass(frozen=True, slots=True)
class FastHop:
    sender: int
    receiver: int
    sent_us: int
    arrived_us: int
    had_us: int
    """When the receiver would have passed it on."""
    is_real: bool
    """A copy that was really sent then."""


@dataclass(frozen=True, slots=True)
class FastPath:
    hops: tuple[FastHop, ...]

    @property
    def arrived_us(self) -> int:
        return self.hops[-1].had_us

    @property
    def nodes(self) -> tuple[int, ...]:
        return (self.hops[0].sender, *(hop.receiver for hop in self.hops))


class Network:
    """What could have carried a message, and how long nodes take over it. Raises `TooManyConnections`."""

    def __init__(self, story: Story, until_us: int) -> None:
        books = story.books
        self.story = story
        arrived = (books.copies.fate == Fate.ARRIVED) & (books.copies.sent_us != NONE)
        order = np.flatnonzero(arrived)[np.argsort(books.copies.sender[arrived], kind="stable")]
        self._copies = [values[order] for values in (
            books.copies.sender, books.copies.receiver, books.copies.sent_us, books.copies.arrived_us
        )]  # fmt: skip
        self.connections = _no_connections()
        if story.model is not None:
            connections = connections_until(story.run, until_us)
            self.connections = in_topic(connections, story.members, books.publisher)
        refused = np.isin(books.rejects.reason, _VERDICTS)
        self._refusers = set(books.rejects.node[refused].tolist()) - set(books.deliveries.node.tolist())
        sizes = books.copies.bytes[arrived & (books.copies.bytes > 0)]
        self._own_us = story.model.uplink_us(int(sizes.min())) if story.model is not None and len(sizes) else 0
        self._handling: dict[int, int] = {}
        self._quickest_us = self._quickest()

    def from_node(self, node: int, had_us: int) -> Iterator[tuple[int, int, int, bool]]:
        """(receiver, sent, arrived, is real) of what a node that has the message could send."""
        first, end = np.searchsorted(self._copies[0], [node, node + 1])
        _, receivers, sent, arrived = (values[first:end].tolist() for values in self._copies)
        for receiver, sent_us, arrived_us in zip(receivers, sent, arrived, strict=True):
            if sent_us >= had_us:
                yield receiver, sent_us, arrived_us, True
            if self.story.model is None:
                yield receiver, had_us, had_us + max(0, arrived_us - sent_us), False
        if self.story.model is None or node in self._refusers:
            return
        there = self.connections.of(node)
        columns = (self.connections.other, self.connections.since_us, self.connections.until_us)
        for receiver, since, until in zip(*(values[there].tolist() for values in columns), strict=True):
            leaves = max(had_us, since)
            arrives = leaves + self._own_us + self.story.model.line_us(node, receiver)
            if arrives < until:
                yield receiver, leaves, arrives, False

    def handling_us(self, node: int) -> int:
        """How long a node took from the arrival of the first copy to having it."""
        known = self._handling.get(node)
        if known is None:
            known = self._observed(node)
            known = self._handling[node] = self._quickest_us if known is None else known
        return known

    def _observed(self, node: int) -> int | None:
        books = self.story.books
        there = books.deliveries.of(node)
        if not there:
            return 0 if (books.copies.via[books.copies.to(node)] == Via.INJECT).any() else None
        copy = copy_of(books, there.start, self.story.model)
        if copy is None or copy.arrived_us is None:
            return None
        return max(0, int(books.deliveries.time_us[there.start]) - copy.arrived_us)

    def _quickest(self) -> int:
        nodes = self.story.books.deliveries.node
        some = nodes[:: max(1, len(nodes) // _LOOKED_AT)].tolist()
        return min((took for took in map(self._observed, some) if took is not None), default=0)


def fastest_path(network: Network, node: int, until_us: int) -> FastPath | None:
    """The fastest path to a node that ends by a time; None if there is none, or nobody published the message."""
    books = network.story.books
    if not books.published or node == books.publisher:
        return None
    reached: dict[int, FastHop] = {}
    had = _search(network, until_us, reached, node)
    return _traced_back(reached, node, books.publisher) if node in had else None


def fastest_arrivals(network: Network, until_us: int) -> dict[int, int]:
    """When each node could have had the message, of those that could until a time."""
    return _search(network, until_us, {}, NONE) if network.story.books.published else {}


def _search(network: Network, until_us: int, reached: dict[int, FastHop], wanted: int) -> dict[int, int]:
    """When nodes could have had the message, until the wanted one; `reached` says by which hop."""
    books = network.story.books
    had: dict[int, int] = {}
    queue: list[tuple[int, int]] = [(books.published_us, books.publisher)]
    best: dict[int, int] = {books.publisher: books.published_us}
    while queue:
        had_us, sender = heappop(queue)
        if sender in had:
            continue
        had[sender] = had_us
        if sender == wanted:
            break
        for receiver, sent_us, arrived_us, is_real in network.from_node(sender, had_us):
            if receiver in had or arrived_us > until_us:
                continue
            then_us = arrived_us + network.handling_us(receiver)
            if then_us <= until_us and then_us < best.get(receiver, until_us + 1):
                best[receiver] = then_us
                reached[receiver] = FastHop(sender, receiver, sent_us, arrived_us, then_us, is_real)
                heappush(queue, (then_us, receiver))
    return had


def _traced_back(reached: dict[int, FastHop], node: int, publisher: int) -> FastPath:
    hops: list[FastHop] = []
    while node != publisher:
        hops.append(reached[node])
        node = hops[-1].sender
    return FastPath(tuple(reversed(hops)))


def _no_connections() -> Connections:
    nothing: Ints = np.empty(0, dtype=np.int64)
    return Connections(nothing, nothing, nothing, nothing)
