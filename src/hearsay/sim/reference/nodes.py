"""Nodes, the directed links between them, and the network that they form.

A connection is a pair of links, one for each direction. A link is `open` while the router at its source regards the
peer as connected. What arrives over it is delivered only if the other end is open too (`up`). `cut` means that the
line itself is gone: nothing arrives any more.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from typing import Any, Protocol

from hearsay.core.language.actions import Action
from hearsay.core.language.events import Event
from hearsay.core.language.identifiers import Micros
from hearsay.core.shell.randomness import Randomness
from hearsay.core.shell.router import Router
from hearsay.sim.plan.latency import make_latency
from hearsay.sim.plan.plan import Plan
from hearsay.sim.reference.event_queue import Entry, EventQueue
from hearsay.sim.results.recorder import Recorder


class _LinkState:
    """The fields that every RPC needs. Slots of a base class come first, so they are together in memory."""

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
        """True if its source dialled. If both ends dialled, it is the end whose dial made the connection."""
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
        """The peer is gone: the source must not open the link any more."""

    def set_open(self, value: bool) -> None:
        self.open = value
        self.twin.up = value and not self.cut

    def cut_line(self) -> None:
        self.cut = True
        self.up = False


def connect_pair(source: int, destination: int, latency_us: Micros, old: Link | None, old_twin: Link | None) -> Link:
    """Create a connection and return the link from `source`, the dialling end. Old links stay reachable until their
    loss is noticed."""
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
        """Links by peer. The core does not interpret peers, topics and messages; here they are numbers, names and
        numbers."""
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
    """Watches every event of a run and the actions that it caused."""

    def node_started(self, node: SimNode, now: Micros) -> None: ...

    def node_stopped(self, node: SimNode, now: Micros) -> None: ...

    def handled(self, node: SimNode, event: Event, actions: list[Action], now: Micros) -> None: ...

    def finished(self, run: Network) -> None: ...


class Network(ABC):
    """The nodes of a run, its time, and what the parts of the engine share."""

    def __init__(self, plan: Plan, recorder: Recorder) -> None:
        self.plan = plan
        self.recorder = recorder
        self.now: Micros = 0
        self.randomness = Randomness(plan.scenario.seed)
        self.latency = make_latency(plan.scenario, self.randomness)
        self.queue = EventQueue(self.latency.minimum_us)
        self.script = plan.scenario.network.nodes
        """The number of the script node, which is no node of the network."""
        self.topic_numbers: dict[Any, int] = {name: number for number, name in enumerate(plan.topics)}
        self.nodes: list[SimNode] = [
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
