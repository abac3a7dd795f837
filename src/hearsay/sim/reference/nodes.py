"""The simulated network: nodes, the directed links between them, their uplinks, and the queue of events.

A connection is a pair of links, one for each direction. A link is `open` while the router of its source regards the
destination as connected. A link is `cut` if a fault has cut it. An RPC is delivered only if its link is `up` when the
RPC arrives: the link is not cut, and the link in the other direction is open.

RPCs leave the uplink of a node one after the other. If the node's router knows IDONTWANT, RPCs with only IDONTWANT
overtake all others, and copies of messages that still wait can be withdrawn.

The queue divides the simulated time into buckets of equal length, and sorts a bucket when it opens the bucket. An
entry is a tuple that begins with time, node, kind, source and sequence. No two entries agree in all five values; the
order of entries is the canonical order of events (see `docs/design/determinism.md`). A bucket is as long as the
shortest latency, but at least a millisecond. So nearly all entries of a bucket are known when it opens, and one sort
replaces a heap operation for each event. An entry that is added to the open bucket, such as a timer, is inserted in
its place.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import insort
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from operator import length_hint
from typing import Any, Protocol, TypeAlias

from hearsay.core.language.actions import Action
from hearsay.core.language.events import Event, EventKind, RpcReceived
from hearsay.core.language.identifiers import Micros
from hearsay.core.language.rpc import Control, PartKind, Rpc
from hearsay.core.language.sizes import part_sizes
from hearsay.core.language.sizes import rpc_framed_size as framed_size
from hearsay.core.rules.randomness import Randomness
from hearsay.core.shell.router import Router
from hearsay.sim.plan.network import make_latency
from hearsay.sim.plan.plan import Plan
from hearsay.sim.recorder import Parts, Recorder
from hearsay.trace.language.event_rows import Part

Entry: TypeAlias = tuple[Micros, int, int, int, int, Any, Any, Any]
"""An entry of the queue: time, node, kind, source, sequence, payload, event or life, parts.

For an RPC, payload, event and parts are its link, its event and its parts. A life is the value that `SimNode.starts`
has when the entry is queued; if the node has started again since, it ignores the entry. Entries that every start
handles have None in place of a life. A plain tuple is created and sorted faster than an object of a class.
"""

MINIMUM_WIDTH_US = 1000
EVERYWHERE = -1
"""The node number of entries that no single node handles; it is less than the numbers of all nodes."""
FAULT, SAMPLE, SCRIPT, DIAL_ARRIVAL = range(4)
"""Kinds of entries with the node number EVERYWHERE, in their order within a microsecond."""
SERVED = len(EventKind)
"""The kind of an entry for the time at which the service time of an event ends. Then the router handles the event,
and the service time of the node's next event begins."""
UPLINK_FREE = len(EventKind) + 1
"""The kind of an entry for the time at which an RPC has left the uplink of a node. Then the next RPC begins to
leave."""
END = -2
"""Node number and kind of the entry for the end of the run. This entry precedes all others of its microsecond."""
_PUBLISH = int(PartKind.PUBLISH)
PART_BYTES = 4
"""The index of the size in bytes in a `Part`."""


class EventQueue:
    """A queue of the entries that are not handled yet, in buckets of `width_us` microseconds."""

    __slots__ = ("_numbers", "_open", "_open_number", "_walk", "buckets", "width_us")

    def __init__(self, smallest_latency_us: Micros) -> None:
        self.width_us = max(smallest_latency_us, MINIMUM_WIDTH_US)
        self.buckets: dict[int, list[Entry]] = {}
        """The unsorted entries of each bucket that is not open, by the number of the bucket. This number is the time
        of an entry divided by the width, rounded down."""
        self._numbers: list[int] = []
        self._open: list[Entry] = []
        self._open_number = -1
        self._walk = iter(self._open)

    def add(
        self, time: Micros, node: int, kind: int, source: int, sequence: int, payload: Any, life: int | None = None
    ) -> None:
        """Queue an entry that is not for an RPC; `Entry` explains `life`."""
        self.push((time, node, kind, source, sequence, payload, life, None))

    def push(self, entry: Entry) -> None:
        number = entry[0] // self.width_us
        bucket = self.buckets.get(number)
        if bucket is not None:
            bucket.append(entry)
        elif number == self._open_number:
            insort(self._open, entry, lo=self._yielded())
        else:
            self.buckets[number] = [entry]
            heappush(self._numbers, number)

    def open_next(self) -> Iterator[Entry] | None:
        """Open the next bucket, and return an iterator over its sorted entries; None if no bucket is left. The
        iterator also yields entries that are added to the bucket during the iteration."""
        if not self._numbers:
            return None
        self._open_number = heappop(self._numbers)
        self._open = self.buckets.pop(self._open_number)
        self._open.sort()
        self._walk = iter(self._open)
        return self._walk

    @property
    def next_us(self) -> Micros:
        """The time at which the bucket after the open one begins."""
        return (self._open_number + 1) * self.width_us

    def discard(self, unwanted: Callable[[Entry], bool]) -> None:
        """Remove the entries for which `unwanted` returns True from all buckets except the open one."""
        for entries in self.buckets.values():
            entries[:] = [entry for entry in entries if not unwanted(entry)]

    def waiting(self) -> Iterator[Entry]:
        """Yield all entries that are not handled, in no particular order."""
        yield from self._open[self._yielded() :]
        for bucket in self.buckets.values():
            yield from bucket

    def _yielded(self) -> int:
        """Return the number of entries that the iterator over the open bucket has yielded."""
        return len(self._open) - length_hint(self._walk)


class _LinkState:
    """The fields of a link that every RPC needs. They are in a base class because Python stores the slots of a base
    class first: so these fields are adjacent in memory."""

    __slots__ = ("destination", "latency_us", "open", "previous", "sequence", "up")

    destination: int
    latency_us: Micros
    open: bool
    previous: Link | None
    sequence: int
    up: bool


class Link(_LinkState):
    """One direction of a connection."""

    __slots__ = ("cut", "dead", "last_arrival_us", "outbound", "source", "twin")

    twin: Link
    """The link in the other direction."""

    def __init__(
        self, source: int, destination: int, latency_us: Micros, previous: Link | None, outbound: bool
    ) -> None:
        """`previous` is the newest earlier link from the source to the destination that the source has not closed;
        None if there is no such link."""
        self.source = source
        self.destination = destination
        self.latency_us = latency_us
        self.previous = previous.previous if previous is not None and not previous.open else previous
        """The link of an earlier connection whose loss the source has not noticed yet, or None."""
        self.outbound = outbound
        """True if the source of the link dialled. If both nodes dialled, the node whose dial created the connection
        is the one that dialled."""
        self.sequence = 0 if previous is None else previous.sequence + 1
        """The number of the next RPC. The numbers begin after those of the earlier link `previous`, if there is one,
        otherwise at 0."""
        self.last_arrival_us: Micros = 0
        self.open = False
        self.cut = False
        self.up = False
        """True if RPCs that arrive over the link are delivered: the link in the other direction is open, and the link
        is not cut."""
        self.dead = False
        """True if the connection is lost, even if the source has not noticed the loss yet. The source never opens a
        dead link."""

    def set_open(self, value: bool) -> None:
        self.open = value
        self.twin.up = value and not self.cut

    def cut_line(self) -> None:
        self.cut = True
        self.up = False

    def newest_first(self) -> Iterator[Link]:
        """Yield this link, then the links of earlier connections whose loss the source has not noticed yet, the
        newest first."""
        link: Link | None = self
        while link is not None:
            yield link
            link = link.previous


def connect_pair(source: int, destination: int, latency_us: Micros, old: Link | None, old_twin: Link | None) -> Link:
    """Create a connection, and return the link from `source`, which dials. `old` is the newest link from `source` to
    `destination` and `old_twin` the newest link back; each is None if there is no such link."""
    link = Link(source, destination, latency_us, old, outbound=True)
    link.twin = Link(destination, source, latency_us, old_twin, outbound=False)
    link.twin.twin = link
    return link


class SimNode:
    """A simulated node: its router while it is up, its links, and other state that the engine needs."""

    __slots__ = ("backlog", "id", "links", "router", "starts", "timer_us", "topics", "validating")

    def __init__(self, number: int, topics: tuple[str, ...]) -> None:
        self.id = number
        self.topics: set[Any] = set(topics)
        """The names of the topics to which the application subscribes; they survive a crash."""
        self.router: Router | None = None
        self.links: dict[Any, Link] = {}
        """The newest link to each destination, by the number of the destination. The ids of simulated peers and
        messages are numbers, and the ids of topics are names: routers accept ids of any type."""
        self.timer_us: Micros | None = None
        """The deadline of the router for which a timer is queued; None if the router has no deadline."""
        self.starts = 0
        """The number of times that the node has started."""
        self.validating: dict[Any, tuple[int, int]] = {}
        """For each message that awaits the application's verdict: hops and via of the copy that the node received."""
        self.backlog: deque[Entry] = deque()
        """The entries that wait for service, the oldest first; the service time of the oldest has begun. The backlog
        is empty in a run without a service time."""


def connect_nodes(node: SimNode, other: SimNode, latency_us: Micros) -> Link:
    """Create a connection between two nodes, and return the link from `node`, which dials. The new links replace
    earlier links in both nodes, and are not open yet."""
    link = connect_pair(node.id, other.id, latency_us, node.links.get(other.id), other.links.get(node.id))
    node.links[other.id] = link
    other.links[node.id] = link.twin
    return link


class Observer(Protocol):
    """An object that receives the events of all routers, and the actions that each event causes."""

    def node_started(self, node: SimNode, now: Micros) -> None: ...

    def node_stopped(self, node: SimNode, now: Micros) -> None: ...

    def handled(self, node: SimNode, event: Event, actions: list[Action], now: Micros) -> None: ...

    def finished(self, run: Network) -> None: ...


class Network(ABC):
    """The nodes of a run, the simulated time, and other data that several parts of the engine use."""

    def __init__(self, plan: Plan, recorder: Recorder) -> None:
        self.plan = plan
        self.recorder = recorder
        self.now: Micros = 0
        self.randomness = Randomness(plan.scenario.seed)
        self.script = plan.scenario.network.nodes
        """The number of the script, a sender outside the network. Nodes have the numbers below it, so it is also the
        number of nodes."""
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
        """Pass an event to a node's router, and perform the actions that the router returns."""

    @abstractmethod
    def start(self, node: SimNode) -> None:
        """Start a node with a new router without state, and let the router join the node's topics."""

    @abstractmethod
    def stop(self, node: SimNode) -> None:
        """Stop a node; the state of its router is lost. The caller closes and removes the node's links."""

    def waiting(self) -> list[Entry]:
        """Return all entries that are not handled, including those in the backlogs of nodes."""
        return [*self.queue.waiting(), *(entry for node in self.nodes for entry in node.backlog)]


def is_copy(part: Part, message: Any) -> bool:
    """Return whether a part is a copy of a message."""
    return part[0] == _PUBLISH and part[2] == message


def framed(rpc: Rpc, parts: list[Part]) -> Parts:
    """Return `parts`, which remain of an RPC, with the bytes of the framing added to the size of the first part."""
    if not parts:
        return ()
    kind, topic, number, hops, size, count, via = parts[0]
    size += framed_size(rpc, part_sizes(rpc)) - sum([part[PART_BYTES] for part in parts])
    return ((kind, topic, number, hops, size, count, via), *parts[1:])


def with_only(rpc: Rpc, kept: list[int]) -> Rpc:
    """Return an RPC with only those messages, partial messages and control parts whose positions among all parts of
    the RPC are in `kept`. Subscriptions and extension tests always remain."""
    first_message = len(rpc.subscriptions)
    first_partial = first_message + len(rpc.messages)
    after_partial = first_partial + (rpc.partial is not None)
    first_control = after_partial + (rpc.test is not None)
    messages = tuple(rpc.messages[index - first_message] for index in kept if first_message <= index < first_partial)
    partial = rpc.partial if first_partial in kept and first_partial < after_partial else None
    rest = [index - first_control for index in kept if index >= first_control]
    control = None
    if rpc.control is not None and rest:
        control = Control.of(part for index, part in enumerate(rpc.control.parts()) if index in rest)
    return replace(rpc, messages=messages, control=control, partial=partial)


@dataclass(slots=True, eq=False)
class WaitingRpc:
    """An RPC that waits for the uplink."""

    link: Link
    event: RpcReceived
    parts: Parts
    sequence: int
    requested_us: Micros
    """The time at which the router sent the RPC."""
    takes_us: Micros
    """The time for which the RPC occupies the uplink."""
    urgent: bool
    """True if the RPC overtakes those that are not urgent."""


class Uplink:
    """The uplink of a node with the RPCs that wait for it."""

    __slots__ = ("busy_until_us", "free_us", "in_order", "waiting")

    def __init__(self, now: Micros, in_order: bool) -> None:
        self.in_order = in_order
        """True if no RPC overtakes another RPC, and no copy is withdrawn. Then the time at which an RPC leaves is
        known when the router sends it, and `waiting` stays empty."""
        self.busy_until_us = now
        """The time at which the current RPC has left; a time in the past if no RPC is leaving."""
        self.free_us = now
        """The time at which all RPCs have left, including RPCs that wait."""
        self.waiting: list[WaitingRpc] = []

    def leaves_us(self, takes_us: Micros, now: Micros) -> Micros:
        """Let an RPC leave after all earlier RPCs, and return the time at which it has left; only for `in_order`."""
        self.busy_until_us = self.free_us = max(self.free_us, now) + takes_us
        return self.free_us

    def queue_up(self, rpc: WaitingRpc, now: Micros) -> None:
        self.free_us = max(self.free_us, now) + rpc.takes_us
        place = len(self.waiting)
        while rpc.urgent and place and not self.waiting[place - 1].urgent:
            place -= 1
        self.waiting.insert(place, rpc)

    def shorten(self, rpc: WaitingRpc, event: RpcReceived, parts: Parts, takes_us: Micros) -> None:
        """Replace the event, the parts and the duration of an RPC that waits; if no parts remain, remove the RPC."""
        self.free_us -= rpc.takes_us - takes_us
        rpc.event, rpc.parts, rpc.takes_us = event, parts, takes_us
        if not parts:
            self.waiting.remove(rpc)

    def next(self, now: Micros) -> WaitingRpc:
        """Remove the first RPC from `waiting`, and return it. It occupies the uplink from now on."""
        rpc = self.waiting.pop(0)
        self.busy_until_us = now + rpc.takes_us
        return rpc


def is_only_idontwant(event: RpcReceived) -> bool:
    """Return whether an RPC has IDONTWANT, and no messages, subscriptions or other control parts."""
    rpc, control = event.rpc, event.rpc.control
    if control is None or not control.idontwant or rpc.messages or rpc.subscriptions:
        return False
    return control == Control(idontwant=control.idontwant)
