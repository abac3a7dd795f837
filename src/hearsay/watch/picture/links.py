"""The drawn nodes of a network, and their links.

A node has a number in the trace. A drawn node also has a place: its index among the drawn nodes, by which browsers
name it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from hearsay.core.language.identifiers import Micros
from hearsay.graph_layout import sample_of_nodes
from hearsay.trace.language.rows import Rows
from hearsay.trace.language.schema import NONE, Column, TraceEvent

Ints = NDArray[np.int64]

MOST_DRAWN = 1000
MOST_NUMBERED = 10_000_000
"""Nodes with larger numbers are only counted."""
NOT_DRAWN = -1


class DrawnNodes:
    def __init__(self, known: int = 0, most: int = MOST_DRAWN) -> None:
        """Start with the nodes 0 … `known` - 1. If there are none, nodes are drawn as rows mention them."""
        self.known = known
        self._most = most
        self._grows = not known
        self.numbers: list[int] = sample_of_nodes(np.arange(known, dtype=np.int64), most).tolist()
        """The numbers of the drawn nodes, by place."""
        self._places = np.full(max(known, 1), NOT_DRAWN, dtype=np.int64)
        if known:
            self._places[self.numbers] = np.arange(len(self.numbers))

    def draw_new(self, nodes: Ints) -> None:
        """Draw the nodes that rows mention, up to the maximum of drawn nodes."""
        if not self._grows or len(self.numbers) >= self._most:
            return
        for node in np.unique(nodes).tolist():
            if 0 <= node < MOST_NUMBERED and len(self.numbers) < self._most and self.place(node) == NOT_DRAWN:
                self._make_room(node)
                self._places[node] = len(self.numbers)
                self.numbers.append(node)

    def place(self, node: int) -> int:
        return int(self._places[node]) if 0 <= node < len(self._places) else NOT_DRAWN

    def places(self, nodes: Ints) -> Ints:
        known = (nodes >= 0) & (nodes < len(self._places))
        return np.where(known, self._places[np.where(known, nodes, 0)], NOT_DRAWN)

    def _make_room(self, node: int) -> None:
        if node >= len(self._places):
            more = np.full(max(node + 1, 2 * len(self._places)) - len(self._places), NOT_DRAWN, dtype=np.int64)
            self._places = np.concatenate([self._places, more])


CONNECTIONS = NONE
"""The layer of connections. Each other layer is a topic."""
MOST_LINKS = 60_000
"""Maximum links that are drawn, in all layers."""
MOST_MEMBERSHIPS = 20_000_000
"""Maximum memberships and links that are kept; further ones are unknown."""
MOST_MOVES = 20_000
"""Maximum joins and leaves that are kept with their times."""

_ADDS = {TraceEvent.GRAFT, TraceEvent.EAGER, TraceEvent.ADD_PEER}
_REMOVES = {TraceEvent.PRUNE, TraceEvent.LAZY, TraceEvent.NEIGHBOR_DOWN, TraceEvent.REMOVE_PEER}
_OF_CONNECTIONS = {TraceEvent.ADD_PEER, TraceEvent.REMOVE_PEER}
_OF_LINKS = sorted(
    {*_ADDS, *_REMOVES, *(TraceEvent.JOIN, TraceEvent.LEAVE, TraceEvent.NODE_UP, TraceEvent.NODE_DOWN)}
)

Link = tuple[int, int, int]
"""Layer, place of the node, place of its peer."""


class Links:
    def __init__(self, drawn: DrawnNodes) -> None:
        self._drawn = drawn
        self.up: set[int] = set()
        """Numbers of the nodes that are up."""
        self.links: dict[Link, None] = {}
        self._traced: set[int] = set()
        """Nodes that trace their own starts and stops. Other nodes count as up while peers are connected to them."""
        self.members: dict[int, dict[int, int]] = {}
        """Number of links, by topic and node."""
        self._memberships = 0
        self.moves: deque[tuple[Micros, int, int, bool]] = deque(maxlen=MOST_MOVES)
        """Joins and leaves: time, topic, node, and True for a join."""
        self._moved_up: dict[int, bool] = {}
        self._changed: dict[Link, bool] = {}

    def add_rows(self, rows: Rows) -> None:
        """Update links and members by rows, in the order of their times. Rows with equal times keep their order."""
        of_links = rows[np.isin(rows[:, Column.EVENT], _OF_LINKS)]
        if not len(of_links):
            return
        of_links = of_links[np.argsort(of_links[:, Column.TIME_US], kind="stable")]
        columns = (Column.TIME_US, Column.EVENT, Column.PEER, Column.REMOTE, Column.TOPIC)
        places = self._drawn.places(of_links[:, Column.PEER]), self._drawn.places(of_links[:, Column.REMOTE])
        for now_us, event, node, peer, topic, place, other in zip(
            *(of_links[:, column].tolist() for column in columns), *(each.tolist() for each in places), strict=True
        ):
            if event in _OF_CONNECTIONS and peer not in self._traced:
                self._infer_state(event == TraceEvent.ADD_PEER, peer, other)
            if event in _ADDS:
                self._link(topic, node, place, other)
            elif event in _REMOVES:
                self._unlink(topic, node, place, other)
            elif event == TraceEvent.JOIN:
                self._join(now_us, topic, node)
            elif event == TraceEvent.LEAVE:
                self._leave(now_us, topic, node)
            elif event == TraceEvent.NODE_UP:
                self._up(node, place)
            else:
                self._down(now_us, node, place)

    def changes(self) -> tuple[list[tuple[int, bool]], list[Link], list[Link]]:
        """Return nodes (by place) that went up or down, new links, and removed links, since the last call."""
        moved, changed = list(self._moved_up.items()), self._changed
        self._moved_up, self._changed = {}, {}
        added = [link for link, there in changed.items() if there]
        return moved, added, [link for link, there in changed.items() if not there]

    def members_at(self, topic: int, time_us: Micros) -> Ints:
        """Return the members of a topic at an earlier time: rows of a message may follow the row of a leave."""
        members = set(self.members.get(topic, ()))
        for when, where, node, joined in reversed(self.moves):
            if when <= time_us:
                break
            if where == topic:
                (members.discard if joined else members.add)(node)
        return np.fromiter(members, dtype=np.int64)

    def degrees(self, topic: int) -> list[int]:
        """Return the numbers of a topic's members with 0, 1, … links."""
        counts = np.array([*self.members.get(topic, {}).values()], dtype=np.int64)
        return np.bincount(np.maximum(counts, 0)).tolist() if len(counts) else []

    def of_node(self, node: int) -> Iterable[tuple[int, int]]:
        """Return the topics of a node, with its number of links in each."""
        return [(topic, members[node]) for topic, members in self.members.items() if node in members]

    def _link(self, layer: int, node: int, place: int, other: int) -> None:
        members = self.members.get(layer)
        if members is not None and node in members:
            members[node] += 1
        if place == NOT_DRAWN or other == NOT_DRAWN or len(self.links) >= MOST_LINKS:
            return
        link = (layer, place, other)
        if link not in self.links:
            self.links[link] = None
            self._note(link, True)

    def _unlink(self, layer: int, node: int, place: int, other: int) -> None:
        members = self.members.get(layer)
        if members is not None and node in members:
            members[node] -= 1
        link = (layer, place, other)
        if link in self.links:
            del self.links[link]
            self._note(link, False)

    def _join(self, now_us: Micros, topic: int, node: int) -> None:
        if self._memberships < MOST_MEMBERSHIPS and node not in self.members.setdefault(topic, {}):
            self.members[topic][node] = 0
            self._memberships += 1
            self.moves.append((now_us, topic, node, True))

    def _leave(self, now_us: Micros, topic: int, node: int) -> None:
        if self.members.get(topic, {}).pop(node, None) is not None:
            self._memberships -= 1
            self.moves.append((now_us, topic, node, False))

    def _infer_state(self, connected: bool, node: int, place: int) -> None:
        """Infer the state of a node from its connections: connected nodes are up, others count as down."""
        if connected and len(self.up) < MOST_MEMBERSHIPS:
            self.up.add(node)
        elif not connected:
            self.up.discard(node)
        if place != NOT_DRAWN:
            self._moved_up[place] = connected

    def _up(self, node: int, place: int) -> None:
        if len(self.up) < MOST_MEMBERSHIPS:
            self.up.add(node)
            self._traced.add(node)
        if place != NOT_DRAWN:
            self._moved_up[place] = True

    def _down(self, now_us: Micros, node: int, place: int) -> None:
        """Remove the node and its own links. Links of peers to it remain until the peers notice."""
        self.up.discard(node)
        for topic in self.members:
            self._leave(now_us, topic, node)
        if place != NOT_DRAWN:
            self._moved_up[place] = False
            for link in [link for link in self.links if link[1] == place]:
                del self.links[link]
                self._note(link, False)

    def _note(self, link: Link, exists: bool) -> None:
        """Record a change for `changes`. Two changes of a link that cancel each other are omitted."""
        if self._changed.get(link, exists) == exists:
            self._changed[link] = exists
        else:
            del self._changed[link]
