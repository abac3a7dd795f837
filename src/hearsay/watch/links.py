"""The drawn nodes of a network, the nodes that are up, the members of topics, and links.

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
"""Nodes with this or a larger number are not drawn."""
NOT_DRAWN = -1
"""The place of a node that is not drawn."""
CONNECTIONS = NONE
"""The layer of connections. Each other layer is a topic."""
MOST_LINKS = 60_000
"""Maximum links that are drawn, in all layers."""
MOST_MEMBERSHIPS = 20_000_000
"""Maximum stored memberships, and maximum stored nodes that are up. Further memberships and nodes are not shown."""
MOST_OBSERVERS = 64
"""Maximum nodes that are stored for each peer that does not trace: this is the maximum of nodes on a page."""
MOST_JOINS_AND_LEAVES = 20_000
"""Maximum joins and leaves that are stored with their times."""
_ADDS = {TraceEvent.GRAFT, TraceEvent.EAGER, TraceEvent.ADD_PEER}
_REMOVES = {TraceEvent.PRUNE, TraceEvent.LAZY, TraceEvent.NEIGHBOR_DOWN, TraceEvent.REMOVE_PEER}
_OF_CONNECTIONS = {TraceEvent.ADD_PEER, TraceEvent.REMOVE_PEER}
_OF_LINKS = sorted(
    {*_ADDS, *_REMOVES, *(TraceEvent.JOIN, TraceEvent.LEAVE, TraceEvent.NODE_UP, TraceEvent.NODE_DOWN)}
)
Link = tuple[int, int, int]
"""Layer, place of the node, place of its peer."""


class DrawnNodes:
    """The nodes that the picture shows: all nodes of a small network, a sample of a large one."""

    def __init__(self, known: int = 0, most: int = MOST_DRAWN) -> None:
        """Draw at most `most` of the nodes 0 … `known` - 1. If `known` is 0, nodes are drawn when `draw_new` is
        called with them.
        """
        self.known = known
        self._most = most
        self.numbers: list[int] = sample_of_nodes(np.arange(known, dtype=np.int64), most).tolist()
        """The numbers of the drawn nodes, by place."""
        self._places = np.full(max(known, 1), NOT_DRAWN, dtype=np.int64)
        if known:
            self._places[self.numbers] = np.arange(len(self.numbers))

    def draw_new(self, nodes: Ints) -> None:
        """Draw nodes up to the maximum of drawn nodes. Do nothing if the nodes were known at the start."""
        if self.known or len(self.numbers) >= self._most:
            return
        for node in np.unique(nodes).tolist():
            if 0 <= node < MOST_NUMBERED and len(self.numbers) < self._most and self.place(node) == NOT_DRAWN:
                self._make_room(node)
                self._places[node] = len(self.numbers)
                self.numbers.append(node)

    def place(self, node: int) -> int:
        """Return the place of a node, or `NOT_DRAWN`."""
        return int(self._places[node]) if 0 <= node < len(self._places) else NOT_DRAWN

    def places(self, nodes: Ints) -> Ints:
        """Return the places of nodes, or `NOT_DRAWN`, in the order of `nodes`."""
        known = (nodes >= 0) & (nodes < len(self._places))
        return np.where(known, self._places[np.where(known, nodes, 0)], NOT_DRAWN)

    def _make_room(self, node: int) -> None:
        if node >= len(self._places):
            more = np.full(max(node + 1, 2 * len(self._places)) - len(self._places), NOT_DRAWN, dtype=np.int64)
            self._places = np.concatenate([self._places, more])


class Links:
    """The nodes that are up, the members of topics, and the links between nodes."""

    def __init__(self, drawn: DrawnNodes) -> None:
        self._drawn = drawn
        self.up: set[int] = set()
        """Numbers of the nodes that are up."""
        self.links: dict[Link, None] = {}
        self._traced: set[int] = set()
        """Nodes that trace their own starts."""
        self._observers: dict[int, set[int]] = {}
        """The connected peers of each node that does not trace its starts. The node is up while it has any."""
        self.members: dict[int, dict[int, int]] = {}
        """Number of links of each member of a topic, by topic and node."""
        self._memberships = 0
        self.joins_and_leaves: deque[tuple[Micros, int, int, bool]] = deque(maxlen=MOST_JOINS_AND_LEAVES)
        """Joins and leaves: time, topic, node, and True for a join."""
        self._changed_up: dict[int, bool] = {}
        self._changed: dict[Link, bool] = {}

    def add_rows(self, rows: Rows) -> None:
        """Update the nodes that are up, the members and the links from rows, and store joins and leaves. Rows are
        handled in the order of time; rows with equal times keep their order."""
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
                self._observe(node, peer, other, event == TraceEvent.ADD_PEER)
            if event in _ADDS or event in _REMOVES:
                self._set_link(topic, node, (place, other), event in _ADDS)
            elif event == TraceEvent.JOIN:
                self._join(now_us, topic, node)
            elif event == TraceEvent.LEAVE:
                self._leave(now_us, topic, node)
            elif event == TraceEvent.NODE_UP:
                self._set_up(node, place, True)
                if node in self.up:
                    self._traced.add(node)
            else:
                self._down(now_us, node, place)

    def changes(self) -> tuple[list[tuple[int, bool]], list[Link], list[Link]]:
        """Return the changes since the last call: places of nodes, each with True if it went up and False if it went
        down; new links; removed links.
        """
        up_changes, changed = list(self._changed_up.items()), self._changed
        self._changed_up, self._changed = {}, {}
        added = [link for link, there in changed.items() if there]
        return up_changes, added, [link for link, there in changed.items() if not there]

    def members_at(self, topic: int, time_us: Micros) -> Ints:
        """Return the members of a topic at a past time, computed from the stored joins and leaves. The rows of a
        message may come after the row with which a node leaves.
        """
        members = set(self.members.get(topic, ()))
        for when, where, node, joined in reversed(self.joins_and_leaves):
            if when <= time_us:
                break
            if where == topic:
                (members.discard if joined else members.add)(node)
        return np.fromiter(members, dtype=np.int64)

    def degrees(self, topic: int) -> list[int]:
        """Return how many members of a topic have 0, 1, … links; an empty list if the topic has no members."""
        counts = np.array([*self.members.get(topic, {}).values()], dtype=np.int64)
        return np.bincount(np.maximum(counts, 0)).tolist() if len(counts) else []

    def of_node(self, node: int) -> Iterable[tuple[int, int]]:
        """Return each topic of a node with the number of its links there."""
        return [(topic, members[node]) for topic, members in self.members.items() if node in members]

    def _set_link(self, layer: int, node: int, places: tuple[int, int], exists: bool) -> None:
        """Add or remove a link of a node; `places` are those of the node and of its peer."""
        members = self.members.get(layer, {})
        if node in members:
            members[node] += 1 if exists else -1
        link = (layer, *places)
        if exists and link not in self.links and NOT_DRAWN not in places and len(self.links) < MOST_LINKS:
            self.links[link] = None
            self._record_change(link, True)
        elif not exists and link in self.links:
            del self.links[link]
            self._record_change(link, False)

    def _join(self, now_us: Micros, topic: int, node: int) -> None:
        if self._memberships < MOST_MEMBERSHIPS and node not in self.members.setdefault(topic, {}):
            self.members[topic][node] = 0
            self._memberships += 1
            self.joins_and_leaves.append((now_us, topic, node, True))

    def _leave(self, now_us: Micros, topic: int, node: int) -> None:
        if self.members.get(topic, {}).pop(node, None) is not None:
            self._memberships -= 1
            self.joins_and_leaves.append((now_us, topic, node, False))

    def _set_up(self, node: int, place: int, is_up: bool) -> None:
        if is_up and len(self.up) < MOST_MEMBERSHIPS:
            self.up.add(node)
        elif not is_up:
            self.up.discard(node)
        if place != NOT_DRAWN:
            self._changed_up[place] = is_up

    def _observe(self, node: int, peer: int, place: int, connected: bool) -> None:
        """Record that a node has connected to a peer, which does not trace its starts, or disconnected from it."""
        observers = self._observers.pop(peer, set[int]())
        if not connected:
            observers.discard(node)
        elif len(observers) < MOST_OBSERVERS:
            observers.add(node)
        self._set_up(peer, place, bool(observers))
        if observers and peer in self.up:
            self._observers[peer] = observers

    def _down(self, now_us: Micros, node: int, place: int) -> None:
        """Record that a node is down, and end its memberships and its own links. Links from peers to the node remain
        until the peers trace their end.
        """
        self._set_up(node, place, False)
        for topic in self.members:
            self._leave(now_us, topic, node)
        for link in [link for link in self.links if link[1] == place] if place != NOT_DRAWN else ():
            del self.links[link]
            self._record_change(link, False)

    def _record_change(self, link: Link, exists: bool) -> None:
        """Store a change of a link for `changes`. If it cancels an earlier change of the link, remove both."""
        if self._changed.get(link, exists) == exists:
            self._changed[link] = exists
        else:
            del self._changed[link]
