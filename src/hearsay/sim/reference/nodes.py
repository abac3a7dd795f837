"""The simulated network: nodes, the directed links between them, and the queue of events.

A connection is a pair of links, one for each direction. A link is `open` while the router at its source regards the
peer as connected. An RPC that arrives over it is delivered only if the other end is open too (`up`). `cut` means
that the line itself is gone: nothing arrives any more.

The queue is a calendar of buckets, each sorted when its time comes. An entry is a tuple that starts with (time, node,
kind, source, sequence), which no two entries share; that is the canonical order of events (see
`docs/design/determinism.md`). The payload follows; for an RPC it is the link, the event and its parts. A bucket as
wide as the smallest latency is complete when it opens, except for timers and faults, so one sort replaces a heap
operation per event. An entry for the open bucket is inserted in its place."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import insort
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush
from operator import length_hint
from typing import Any, Protocol, TypeAlias

from hearsay.core.language.actions import Action
from hearsay.core.language.events import Event, EventKind
from hearsay.core.language.identifiers import Micros
from hearsay.core.shell.randomness import Randomness
from hearsay.core.shell.router import Router
from hearsay.sim.plan.latency import make_latency
from hearsay.sim.plan.plan import Plan
from hearsay.sim.results.recorder import Recorder

Entry: TypeAlias = tuple[Micros, int, int, int, int, Any, Any, Any]
"""Time, node, kind, source, sequence, payload, event or life, parts. A life is the value of `SimNode.starts` for
which the entry is queued; after a later start the node ignores the entry. An entry is a plain tuple, because that is
created and sorted fastest."""

MINIMUM_WIDTH_US = 1000
EVERYWHERE = -1
"""The node number of entries that concern the whole network; it sorts before every node."""
FAULT, SAMPLE, SCRIPT, DIAL_ARRIVAL = range(4)
"""Kinds of entries that concern the whole network, in their order within a microsecond."""
SERVED = len(EventKind)
"""The kind of an entry at which a node has handled an event and begins with the next one."""
UPLINK_FREE = len(EventKind) + 1
"""The kind of an entry at which an RPC has left the uplink of a node, and the next one begins to leave."""
END = -2
"""Node number and kind of the end of the run, which comes before all other entries of its microsecond."""


class EventQueue:
    """Entries in their order. `width_us` is the simulated time of a bucket."""

    __slots__ = ("_numbers", "_open", "_open_number", "_walk", "buckets", "width_us")

    def __init__(self, smallest_latency_us: Micros) -> None:
        self.width_us = max(smallest_latency_us, MINIMUM_WIDTH_US)
        self.buckets: dict[int, list[Entry]] = {}
        """Unsorted entries of later buckets, by number: the time divided by the width."""
        self._numbers: list[int] = []
        self._open: list[Entry] = []
        self._open_number = -1
        self._walk = iter(self._open)

    def add(
        self, time: Micros, node: int, kind: int, source: int, sequence: int, payload: Any, life: int | None = None
    ) -> None:
        """Queue an entry that is no RPC; for `life` see `Entry`."""
        self.push((time, node, kind, source, sequence, payload, life, None))

    def push(self, entry: Entry) -> None:
        number = entry[0] // self.width_us
        bucket = self.buckets.get(number)
        if bucket is not None:
            bucket.append(entry)
        elif number == self._open_number:
            insort(self._open, entry, lo=self._begun())
        else:
            self.buckets[number] = [entry]
            heappush(self._numbers, number)

    def open_next(self) -> Iterator[Entry] | None:
        """Return an iterator over the next bucket, sorted, which may get more entries; None if no bucket is left."""
        if not self._numbers:
            return None
        self._open_number = heappop(self._numbers)
        self._open = self.buckets.pop(self._open_number)
        self._open.sort()
        self._walk = iter(self._open)
        return self._walk

    @property
    def next_us(self) -> Micros:
        """The time at which the first unopened bucket begins."""
        return (self._open_number + 1) * self.width_us

    def discard(self, unwanted: Callable[[Entry], bool]) -> None:
        """Remove entries from the unopened buckets."""
        for entries in self.buckets.values():
            entries[:] = [entry for entry in entries if not unwanted(entry)]

    def waiting(self) -> Iterator[Entry]:
        """Yield all entries that are not handled, in no particular order."""
        yield from self._open[self._begun() :]
        for bucket in self.buckets.values():
            yield from bucket

    def _begun(self) -> int:
        """Return how many entries the iterator over the open bucket has returned."""
        return len(self._open) - length_hint(self._walk)


class _LinkState:
    """The fields of a link that every RPC needs. Slots of a base class come first, so they are adjacent in memory."""

    __slots__ = ("destination", "latency_us", "open", "previous", "sequence", "up")

    destination: int
    latency_us: Micros
    open: bool
    previous: Link | None
    sequence: int
    up: bool


class Link(_LinkState):
    """One direction of a connection. Sequence numbers are unique per direction over all connections of the pair."""

    __slots__ = ("cut", "dead", "last_arrival_us", "outbound", "source", "twin")

    twin: Link

    def __init__(
        self, source: int, destination: int, latency_us: Micros, previous: Link | None, outbound: bool
    ) -> None:
        self.source = source
        self.outbound = outbound
        """True if the source of the link dialled. If both ends dialled, the dial that made the connection counts."""
        self.destination = destination
        self.latency_us = latency_us
        self.sequence = (previous.sequence + 1) if previous is not None else 0
        self.previous = previous.previous if previous is not None and not previous.open else previous
        """An earlier connection whose loss the source has not noticed."""
        self.last_arrival_us: Micros = 0
        self.open = False
        self.cut = False
        self.up = False
        """True if RPCs over it are delivered: the other end is open and the line is not cut."""
        self.dead = False
        """True if the peer is gone: then the source does not open the link any more."""

    def set_open(self, value: bool) -> None:
        self.open = value
        self.twin.up = value and not self.cut

    def cut_line(self) -> None:
        self.cut = True
        self.up = False


def connect_pair(source: int, destination: int, latency_us: Micros, old: Link | None, old_twin: Link | None) -> Link:
    """Create a connection and return the link from `source`, which dials. The links of an earlier connection stay
    reachable as `Link.previous` until their loss is noticed."""
    link = Link(source, destination, latency_us, old, outbound=True)
    twin = Link(destination, source, latency_us, old_twin, outbound=False)
    link.twin = twin
    twin.twin = link
    return link


class SimNode:
    """A node: its router while it is up, its links, and state of the engine."""

    __slots__ = ("backlog", "id", "links", "router", "starts", "timer_us", "topics", "validating")

    def __init__(self, number: int, topics: tuple[str, ...]) -> None:
        self.id = number
        self.topics: set[Any] = set(topics)
        """Subscriptions of the application; they survive a crash."""
        self.router: Router | None = None
        self.links: dict[Any, Link] = {}
        """Links by peer. The ids of peers and messages are numbers here, and topics are names; routers accept any."""
        self.timer_us: Micros | None = None
        self.starts = 0
        self.validating: dict[Any, tuple[int, int]] = {}
        """Hops and via of messages that await the application's verdict."""
        self.backlog: deque[Entry] = deque()
        """Events that wait until the node is free (service time)."""


def connect_nodes(node: SimNode, other: SimNode, latency_us: Micros) -> Link:
    """Connect two nodes, in place of an old connection if there was one; return the link from `node`, which dials."""
    link = connect_pair(node.id, other.id, latency_us, node.links.get(other.id), other.links.get(node.id))
    node.links[other.id] = link
    other.links[node.id] = link.twin
    return link


class Observer(Protocol):
    """Watches every event of a run and the actions that the event caused."""

    def node_started(self, node: SimNode, now: Micros) -> None: ...

    def node_stopped(self, node: SimNode, now: Micros) -> None: ...

    def handled(self, node: SimNode, event: Event, actions: list[Action], now: Micros) -> None: ...

    def finished(self, run: Network) -> None: ...


class Network(ABC):
    """The nodes and the time of a run, and the state that the parts of the engine share."""

    def __init__(self, plan: Plan, recorder: Recorder) -> None:
        self.plan = plan
        self.recorder = recorder
        self.now: Micros = 0
        self.randomness = Randomness(plan.scenario.seed)
        self.script = plan.scenario.network.nodes
        """The number of the script node, which is no node of the network."""
        self.latency = make_latency(plan.scenario.links, self.script, self.randomness)
        self.queue = EventQueue(self.latency.minimum_us)
        self.topic_numbers: dict[Any, int] = {name: number for number, name in enumerate(plan.topics)}
        self.nodes: Sequence[SimNode] = self.make_nodes(plan)

    def make_nodes(self, plan: Plan) -> Sequence[SimNode]:
        return [
            SimNode(number, tuple(plan.topics[topic] for topic in subscribed))
            for number, subscribed in enumerate(plan.subscriptions)
        ]

    @abstractmethod
    def feed(self, node: SimNode, event: Event) -> None:
        """Pass an event to a node's router and perform its actions."""

    @abstractmethod
    def start(self, node: SimNode) -> None:
        """Bring a node up with a new, empty router, which joins the node's topics."""

    @abstractmethod
    def stop(self, node: SimNode) -> None:
        """Take a node down; its router's state is lost. The caller removes its links."""

    def waiting(self) -> list[Entry]:
        """Return all entries that are not handled, those in nodes' backlogs included."""
        return [*self.queue.waiting(), *(entry for node in self.nodes for entry in node.backlog)]
