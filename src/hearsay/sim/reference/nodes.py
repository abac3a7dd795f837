"""The simulator's view of a node and of the directed links between nodes.

A connection is a pair of links, one for each direction. A link is `open` while the router at its source regards the
peer as connected; what arrives over it is handed in only if the other end is open too (`up`). `cut` means that the
line itself is gone: nothing arrives any more.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from hearsay.core.language.identifiers import Micros
from hearsay.core.shell.router import Router
from hearsay.sim.reference.event_queue import Entry


class _LinkState:
    """What every RPC needs of a link. Slots of a base class lie first and thus together in memory."""

    __slots__ = ("destination", "latency_us", "open", "previous", "sequence", "up")

    destination: int
    latency_us: Micros
    open: bool
    previous: Link | None
    sequence: int
    up: bool


class Link(_LinkState):
    """One direction of a connection. Sequence numbers are unique per direction over all its connections."""

    __slots__ = ("cut", "dead", "last_arrival_us", "outbound", "source", "twin")

    twin: Link

    def __init__(
        self, source: int, destination: int, latency_us: Micros, previous: Link | None, outbound: bool
    ) -> None:
        self.source = source
        self.outbound = outbound
        """Whether its source dialled. Of two who dial each other it is the one whose dial made the connection."""
        self.destination = destination
        self.latency_us = latency_us
        self.sequence = (previous.sequence + 1) if previous is not None else 0
        self.previous = previous.previous if previous is not None and not previous.open else previous
        """An earlier connection whose loss the source has not noticed yet."""
        self.last_arrival_us: Micros = 0
        self.open = False
        self.cut = False
        self.up = False
        """Whether what arrives over it is handed in: the other end is open and the line is not cut."""
        self.dead = False
        """The source must not open it any more: the peer is gone."""

    def set_open(self, value: bool) -> None:
        self.open = value
        self.twin.up = value and not self.cut

    def cut_line(self) -> None:
        self.cut = True
        self.up = False


def connect_pair(source: int, destination: int, latency_us: Micros, old: Link | None, old_twin: Link | None) -> Link:
    """A new connection; returns the link from `source`, who dials. Old links stay reachable until their loss is
    noticed."""
    link = Link(source, destination, latency_us, old, outbound=True)
    twin = Link(destination, source, latency_us, old_twin, outbound=False)
    link.twin = twin
    twin.twin = link
    return link


class SimNode:
    """A node: its router while it is up, its links, and what the engine keeps for it."""

    __slots__ = ("backlog", "id", "links", "router", "starts", "timer_us", "topics", "validating")

    def __init__(self, number: int, topics: tuple[str, ...]) -> None:
        self.id = number
        self.topics: set[Any] = set(topics)
        """What the application subscribes to; survives a crash."""
        self.router: Router | None = None
        self.links: dict[Any, Link] = {}
        """By peer. Peers, topics and messages are opaque to the core; here they are numbers, names and numbers."""
        self.timer_us: Micros | None = None
        self.starts = 0
        self.validating: dict[Any, tuple[int, int]] = {}
        """Hops and via of messages that wait for the application's verdict."""
        self.backlog: deque[Entry] = deque()
        """Events that wait for the node to have time (service time)."""


def connect_nodes(node: SimNode, other: SimNode, latency_us: Micros) -> Link:
    """A new connection in the place of an old one, if there was one; the link from `node`, who dials."""
    link = connect_pair(node.id, other.id, latency_us, node.links.get(other.id), other.links.get(node.id))
    node.links[other.id] = link
    other.links[node.id] = link.twin
    return link
