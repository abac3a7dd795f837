"""The spread of messages: the drawn nodes that each recent message has reached and, in a large network, the number of
reached nodes in each cell.

A cell is a range of node numbers. The place of a drawn node is its index among the drawn nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from hearsay.core.language.identifiers import Micros
from hearsay.trace.language.rows import Rows
from hearsay.trace.language.schema import NONE, Column, TraceEvent
from hearsay.watch.links import MOST_NUMBERED, NOT_DRAWN, DrawnNodes, Ints

CELLS = 1024
"""Number of cells of a network."""
MOST_MESSAGES = 200
"""Maximum messages whose spread is stored; the oldest message is forgotten first."""
MOST_FORGOTTEN = 20_000
"""Maximum stored times of publication of forgotten messages, for the latencies of late deliveries."""
MOST_STEPS = 2_000
"""Maximum stored deliveries of a message to drawn nodes."""
MOST_NEW_STEPS = 5_000
"""Maximum new deliveries to drawn nodes, of all messages, between two frames."""
LATENCY_EDGES_MS = tuple(round(1.25 ** (power / 10), 4) for power in range(551))
"""Edges of the latency classes, from 1 ms to about four minutes in steps of 2.3 %."""
_EDGES_US = np.array(LATENCY_EDGES_MS) * 1000
_PER_DENSITY_CLASS = 10
_DENSITY_CLASSES = len(LATENCY_EDGES_MS) // _PER_DENSITY_CLASS + 2
_RUN_EDGES_US = 10 * 1.001 ** np.arange(17_000)
"""Edges of the classes for the quantiles of the run, from 10 µs to four minutes in steps of 0.1 %."""
_RUN_SHARES = (0.5, 0.9, 0.99)
Step = tuple[int, int, int, int]
"""A delivery: place of the node, place of the sender, microseconds after the publication, hops."""


class Spreads:
    """The spreads of recent messages, and the latencies of all deliveries."""

    def __init__(self, drawn: DrawnNodes, members_at: Callable[[int, Micros], Ints]) -> None:
        self._drawn = drawn
        self._members_at = members_at
        self._serial = 0
        self.by_number: dict[int, Spread] = {}
        self.forgotten: dict[int, Micros] = {}
        self._new: list[Spread] = []
        self.latencies = np.zeros(len(LATENCY_EDGES_MS) + 1, dtype=np.int64)
        """Deliveries since the last frame, by class of latency."""
        self._due = self._reached = self._now_us = 0
        self._run_latencies = np.zeros(len(_RUN_EDGES_US) + 1, dtype=np.int64)
        self._longest_us = 0

    def add_rows(self, rows: Rows) -> None:
        self._now_us = max(self._now_us, int(rows[:, Column.TIME_US].max(initial=0)))
        for row in rows[rows[:, Column.EVENT] == TraceEvent.PUBLISH].tolist():
            if row[Column.MESSAGE] not in self.by_number:
                self._add(row, row[Column.PEER], max(row[Column.BYTES], 0))
        deliveries = rows[(rows[:, Column.EVENT] == TraceEvent.DELIVER) & (rows[:, Column.REMOTE] != NONE)]
        if not len(deliveries):
            return
        numbers, first, group = np.unique(deliveries[:, Column.MESSAGE], return_index=True, return_inverse=True)
        spreads: list[Spread | None] = []
        published = np.empty(len(numbers), dtype=np.int64)
        for place, number in enumerate(numbers.tolist()):
            spread = self.by_number.get(number)
            if spread is None and number not in self.forgotten:
                # The publication is not in the trace, so the first delivery takes its place.
                spread = self._add(deliveries[first[place]].tolist(), NONE, 0)
            spreads.append(spread)
            published[place] = self.forgotten[number] if spread is None else spread.published_us
        after = np.maximum(deliveries[:, Column.TIME_US] - published[group], 0)
        classes = np.searchsorted(_EDGES_US, after, side="right")
        self.latencies += np.bincount(classes, minlength=len(self.latencies))
        in_run = np.searchsorted(_RUN_EDGES_US, after, side="right")
        self._run_latencies += np.bincount(in_run, minlength=len(self._run_latencies))
        self._longest_us = max(self._longest_us, int(after.max()))
        nodes = deliveries[:, Column.PEER]
        in_groups = np.split(np.argsort(group, kind="stable"), np.cumsum(np.bincount(group))[:-1])
        for spread, its_rows in zip(spreads, in_groups, strict=True):
            if spread is None:
                self._reached += len(its_rows)
                continue
            new = its_rows[spread.due.remove(nodes[its_rows])]
            spread.reached += len(new)
            self._reached += len(new)
            spread.changed = True
            if spread.density is not None:
                spread.density.arrive(nodes[new], _density_class(classes[new]))
        self._add_steps(spreads, deliveries, group, after)

    def changes(self) -> tuple[list[Spread], list[tuple[Spread, list[Step]]]]:
        """Return new messages, and the new steps of each changed message since the last call. Reset `latencies`."""
        new, self._new = self._new, []
        progress: list[tuple[Spread, list[Step]]] = []
        for spread in self.by_number.values():
            if spread.changed:
                progress.append((spread, spread.steps[spread.sent_steps :]))
                spread.changed, spread.sent_steps = False, len(spread.steps)
        self.latencies[:] = 0
        return new, progress

    def run(self) -> dict[str, int | list[float]]:
        """Return p50, p90, p99 and maximum of all latencies so far in ms, and the numbers of made and due deliveries.

        A message that was published at most the longest latency ago may still spread, so the numbers do not include
        its deliveries. Without a delivery, the latencies are missing.
        """
        spreading = [
            spread for spread in self.by_number.values() if self._now_us - spread.published_us <= self._longest_us
        ]
        due = self._due - sum(spread.due.count for spread in spreading)
        reached = min(self._reached - sum(spread.reached for spread in spreading), due)
        found: dict[str, int | list[float]] = {"reached": reached, "due": due}
        upto = np.cumsum(self._run_latencies)
        last = int(upto[-1]) - 1
        if last >= 0:
            latencies_us = [self._at_rank(upto, share * last) for share in _RUN_SHARES]
            found["latency_ms"] = [round(latency / 1000, 4) for latency in (*latencies_us, self._longest_us)]
        return found

    def _at_rank(self, upto: Ints, rank: float) -> float:
        """Return the latency at a rank, interpolated between the ranks next to it, as in the summary of a run."""
        places = (int(np.searchsorted(upto, near, side="right")) for near in (int(rank), -int(-rank // 1)))
        below, above = (min(float(_RUN_EDGES_US[max(at - 1, 0)]) * 1.0005, self._longest_us) for at in places)
        return below + (rank - int(rank)) * (above - below)

    def density(self, serial: int, late_us: Micros) -> dict[str, list[int]] | None:
        """Return for each cell, in the form for browsers, the number of due nodes that the message had reached
        `late_us` after its publication, and the number of all due nodes. `late_us` is rounded up to the end of a
        class. Return None if unknown.
        """
        for spread in self.by_number.values():
            if spread.serial == serial and spread.density is not None:
                last = _density_class(np.searchsorted(_EDGES_US, np.array([late_us]), side="right"))
                return {"arrived": spread.density.arrived(int(last[0]) + 1), "due": spread.density.due}
        return None

    def _add_steps(self, spreads: list[Spread | None], deliveries: Rows, group: Ints, after: Ints) -> None:
        places = self._drawn.places(deliveries[:, Column.PEER])
        at_drawn = np.flatnonzero(places != NOT_DRAWN)
        room = MOST_NEW_STEPS - sum(
            len(each.steps) - each.sent_steps for each in self.by_number.values() if each.changed
        )
        if len(at_drawn) > max(room, 0):
            # Drop some deliveries evenly, so that all messages are shown and not only the first ones.
            at_drawn = at_drawn[np.linspace(0, len(at_drawn) - 1, max(room, 0)).astype(np.int64)]
        drawn = deliveries[at_drawn]
        sources = self._drawn.places(drawn[:, Column.REMOTE])
        of_message: list[Spread | None] = [spreads[which] for which in group[at_drawn]]
        columns = (places[at_drawn], sources, after[at_drawn], drawn[:, Column.HOPS])
        steps = zip(*(column.tolist() for column in columns), strict=True)
        for spread, (place, source, late, hops) in zip(of_message, steps, strict=True):
            if spread is not None and len(spread.steps) < MOST_STEPS:
                spread.steps.append((place, source, late, hops))

    def _add(self, row: list[int], publisher: int, size: int) -> Spread:
        """Add the message of a row, with the time of the row as its time of publication."""
        number, topic, published_us = row[Column.MESSAGE], row[Column.TOPIC], row[Column.TIME_US]
        members = self._members_at(topic, published_us)
        members = members[members != publisher]
        known = self._drawn.known
        density = Density(known, members, _DENSITY_CLASSES) if known > len(self._drawn.numbers) else None
        place = self._drawn.place(publisher)
        spread = Spread(self._serial, str(number), topic, place, published_us, size, DueNodes(members), density)
        self._serial += 1
        self._due += spread.due.count
        self.by_number[number] = spread
        self._new.append(spread)
        if len(self.by_number) > MOST_MESSAGES:
            oldest = next(iter(self.by_number))
            self.forgotten[oldest] = self.by_number.pop(oldest).published_us
            if len(self.forgotten) > MOST_FORGOTTEN:
                del self.forgotten[next(iter(self.forgotten))]
        del self._new[:-MOST_MESSAGES]
        return spread


def _density_class(classes: Ints) -> Ints:
    """Convert classes of latency to classes of densities, which are fewer, to save memory."""
    return (classes + _PER_DENSITY_CLASS - 1) // _PER_DENSITY_CLASS


@dataclass(slots=True)
class Spread:
    """The spread of one message. The place of a node that is not drawn is -1."""

    serial: int
    """Number of the message in the order of appearance. Browsers identify messages by this number."""
    name: str
    topic: int
    publisher: int
    """Place of the publisher."""
    published_us: Micros
    size: int
    due: DueNodes
    """The members of the topic at the publication, without the publisher."""
    density: Density | None
    """Number of members with the message in each cell of the network; None if all nodes are drawn or their number is
    unknown.
    """
    reached: int = 0
    """Number of members at the publication that have the message."""
    steps: list[Step] = field(default_factory=list[Step])
    sent_steps: int = 0
    """Number of the first `steps` that were in frames."""
    changed: bool = True


class DueNodes:
    """The nodes that were in the topic when a message was published, with the set of those that do not have it yet.
    Nodes with numbers from `MOST_NUMBERED` on are left out.
    """

    def __init__(self, nodes: Ints) -> None:
        nodes = nodes[(nodes >= 0) & (nodes < MOST_NUMBERED)]
        there = np.zeros(int(nodes.max(initial=-1)) + 1, dtype=np.bool_)
        there[nodes] = True
        self.count = int(np.count_nonzero(there))
        """Number of nodes in the set at the publication. It does not change."""
        self._bits = np.packbits(there, bitorder="little")

    def remove(self, nodes: Ints) -> Ints:
        """Remove nodes from the set. Return the index in `nodes` of each removed node, once."""
        given = np.flatnonzero((nodes >= 0) & (nodes < 8 * len(self._bits)))
        nodes, first = np.unique(nodes[given], return_index=True)
        is_new = (self._bits[nodes >> 3] >> (nodes & 7)) & 1 == 1
        new = nodes[is_new]
        np.bitwise_and.at(self._bits, new >> 3, (~(1 << (new & 7))).astype(np.uint8))
        return given[first[is_new]]


class Density:
    """The number of nodes in each cell of a large network that have a message, by class of latency."""

    def __init__(self, nodes: int, due: Ints, classes: int) -> None:
        """Create the density of a message in a network of `nodes` nodes. The message is due at the nodes `due`."""
        self._nodes = nodes
        known = due[(due >= 0) & (due < nodes)]
        self.due: list[int] = np.bincount(self._cells(known), minlength=CELLS).tolist()
        """The number of nodes in each cell at which the message is due."""
        self._arrived = np.zeros((classes, CELLS), dtype=np.uint16)

    def arrive(self, nodes: Ints, classes: Ints) -> None:
        """Add deliveries to due nodes, each with its class of latency, to the numbers."""
        np.add.at(self._arrived, (classes, self._cells(nodes)), 1)

    def arrived(self, classes: int) -> list[int]:
        """Return the number of deliveries in each cell, in the first `classes` classes of latency."""
        return self._arrived[:classes].sum(axis=0, dtype=np.int64).tolist()

    def _cells(self, nodes: Ints) -> Ints:
        return nodes * CELLS // self._nodes
