"""The spread of messages: the drawn nodes that each recent message has reached and, in a large network, how many
nodes of each cell. A cell is a range of node numbers; a place is the index of a drawn node.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from hearsay.core.language.identifiers import Micros
from hearsay.trace.language.rows import Rows
from hearsay.trace.language.schema import NONE, Column, TraceEvent
from hearsay.watch.picture.links import MOST_NUMBERED, NOT_DRAWN, DrawnNodes, Ints


class Awaited:
    """The nodes that were in the topic when a message was published, and do not have it yet. Nodes with numbers from
    `MOST_NUMBERED` on are omitted.
    """

    def __init__(self, nodes: Ints) -> None:
        nodes = nodes[(nodes >= 0) & (nodes < MOST_NUMBERED)]
        there = np.zeros(int(nodes.max(initial=-1)) + 1, dtype=np.bool_)
        there[nodes] = True
        self.count = int(np.count_nonzero(there))
        """Number of nodes at the publication."""
        self._bits = np.packbits(there, bitorder="little")

    def arrived(self, nodes: Ints) -> Ints:
        """Remove nodes from the set. Return the indexes in `nodes` of those that were in it."""
        given = np.flatnonzero((nodes >= 0) & (nodes < 8 * len(self._bits)))
        nodes, first = np.unique(nodes[given], return_index=True)
        is_new = (self._bits[nodes >> 3] >> (nodes & 7)) & 1 == 1
        new = nodes[is_new]
        np.bitwise_and.at(self._bits, new >> 3, (~(1 << (new & 7))).astype(np.uint8))
        return given[first[is_new]]


CELLS = 1024
"""Number of cells of a network."""


class Density:
    def __init__(self, nodes: int, due: Ints, classes: int) -> None:
        """Start the density of a message in a network of `nodes` nodes. The message is due at the nodes `due`."""
        self._nodes = nodes
        self.due = self._counted(due)
        self._arrived = np.zeros((classes, CELLS), dtype=np.uint16)

    def arrive(self, nodes: Ints, classes: Ints) -> None:
        """Count deliveries to due nodes, each with its class of latency."""
        np.add.at(self._arrived, (classes, self._cells(nodes)), 1)

    def arrived(self, classes: int) -> list[int]:
        """Return the number of deliveries in each cell, in the first `classes` classes of latency."""
        return self._arrived[:classes].sum(axis=0, dtype=np.int64).tolist()

    def _cells(self, nodes: Ints) -> Ints:
        return nodes * CELLS // self._nodes

    def _counted(self, nodes: Ints) -> list[int]:
        nodes = nodes[(nodes >= 0) & (nodes < self._nodes)]
        return np.bincount(self._cells(nodes), minlength=CELLS).tolist()


MOST_MESSAGES = 200
"""Maximum messages that are kept; the oldest is forgotten first."""
MOST_FORGOTTEN = 20_000
"""Maximum publication times of forgotten messages, which give the latencies of late deliveries."""
MOST_STEPS = 2_000
"""Maximum deliveries to drawn nodes that are kept of a message."""
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
"""A delivery: place, place of the sender, µs after publication, hops."""


@dataclass(slots=True)
class Spread:
    """One message. Places are -1 for nodes that are not drawn."""

    serial: int
    """Number in the order in which messages appear; browsers name messages by it."""
    name: str
    topic: int
    publisher: int
    """Place of the publisher."""
    published_us: Micros
    size: int
    awaited: Awaited
    """The members of the topic at the publication that do not have the message yet, without the publisher."""
    density: Density | None
    """Number of members with the message in each cell of the picture; None if the picture shows every node."""
    reached: int = 0
    """Number of members at the publication that have the message."""
    steps: list[Step] = field(default_factory=list[Step])
    sent_steps: int = 0
    """Number of steps that frames have contained."""
    changed: bool = True


class Spreads:
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
            self._published(row)
        deliveries = rows[(rows[:, Column.EVENT] == TraceEvent.DELIVER) & (rows[:, Column.REMOTE] != NONE)]
        if not len(deliveries):
            return
        numbers, first, group = np.unique(deliveries[:, Column.MESSAGE], return_index=True, return_inverse=True)
        spreads: list[Spread | None] = []
        published = np.empty(len(numbers), dtype=np.int64)
        for place, number in enumerate(numbers.tolist()):
            spread = self.by_number.get(number)
            if spread is None and number not in self.forgotten:
                spread = self._met(deliveries[first[place]].tolist())
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
            new = its_rows[spread.awaited.arrived(nodes[its_rows])]
            spread.reached += len(new)
            self._reached += len(new)
            spread.changed = True
            if spread.density is not None:
                spread.density.arrive(nodes[new], _density_class(classes[new]))
        self._step(spreads, deliveries, group, after)

    def changes(self) -> tuple[list[Spread], list[tuple[Spread, list[Step]]]]:
        """Return new messages, and the new steps of each message since the last call."""
        new, self._new = self._new, []
        progress: list[tuple[Spread, list[Step]]] = []
        for spread in self.by_number.values():
            if spread.changed:
                progress.append((spread, spread.steps[spread.sent_steps :]))
                spread.changed, spread.sent_steps = False, len(spread.steps)
        self.latencies[:] = 0
        return new, progress

    def run(self) -> dict[str, int | list[float]]:
        """Return p50, p90, p99 and maximum of all latencies so far in ms, and deliveries made and due.

        Messages younger than the longest latency may still spread; their deliveries are not due yet.
        """
        spreading = [
            spread for spread in self.by_number.values() if self._now_us - spread.published_us <= self._longest_us
        ]
        due = self._due - sum(spread.awaited.count for spread in spreading)
        reached = min(self._reached - sum(spread.reached for spread in spreading), due)
        found: dict[str, int | list[float]] = {"reached": reached, "due": due}
        upto = np.cumsum(self._run_latencies)
        last = int(upto[-1]) - 1
        if last >= 0:
            latencies_us = [self._at_rank(upto, share * last) for share in _RUN_SHARES]
            found["latency_ms"] = [round(latency / 1000, 4) for latency in (*latencies_us, self._longest_us)]
        return found

    def _at_rank(self, upto: Ints, rank: float) -> float:
        """Interpolate between the order statistics next to a rank, as summaries do."""
        places = (int(np.searchsorted(upto, near, side="right")) for near in (int(rank), -int(-rank // 1)))
        below, above = (min(float(_RUN_EDGES_US[max(at - 1, 0)]) * 1.0005, self._longest_us) for at in places)
        return below + (rank - int(rank)) * (above - below)

    def density(self, serial: int, late_us: Micros) -> tuple[list[int], list[int]] | None:
        """Return for each cell how many nodes the message had reached within `late_us`, and how many it is due to
        reach; None if unknown.
        """
        for spread in self.by_number.values():
            if spread.serial == serial and spread.density is not None:
                last = _density_class(np.searchsorted(_EDGES_US, np.array([late_us]), side="right"))
                return spread.density.arrived(int(last[0]) + 1), spread.density.due
        return None

    def _step(self, spreads: list[Spread | None], deliveries: Rows, group: Ints, after: Ints) -> None:
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
        for place, source, spread, late, hops in zip(
            places[at_drawn].tolist(),
            sources.tolist(),
            of_message,
            after[at_drawn].tolist(),
            drawn[:, Column.HOPS].tolist(),
            strict=True,
        ):
            if spread is not None and len(spread.steps) < MOST_STEPS:
                spread.steps.append((place, source, late, hops))

    def _published(self, row: list[int]) -> None:
        number = row[Column.MESSAGE]
        if number in self.by_number:
            return
        publisher, topic = row[Column.PEER], row[Column.TOPIC]
        self._add(number, topic, publisher, row[Column.TIME_US], max(row[Column.BYTES], 0))

    def _met(self, row: list[int]) -> Spread:
        """Add a message whose publication is not in the trace, as if published at its first delivery."""
        return self._add(row[Column.MESSAGE], row[Column.TOPIC], NONE, row[Column.TIME_US], 0)

    def _add(self, number: int, topic: int, publisher: int, published_us: Micros, size: int) -> Spread:
        members = self._members_at(topic, published_us)
        members = members[members != publisher]
        known = self._drawn.known
        density = Density(known, members, _DENSITY_CLASSES) if known > len(self._drawn.numbers) else None
        place = self._drawn.place(publisher)
        spread = Spread(self._serial, str(number), topic, place, published_us, size, Awaited(members), density)
        self._serial += 1
        self._due += spread.awaited.count
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
    """Return the class of a density for each class of latency; densities have fewer classes, to save memory."""
    return (classes + _PER_DENSITY_CLASS - 1) // _PER_DENSITY_CLASS
