"""What was sent, delivered, lost and refused since the last frame, and in all at each node that is drawn.

As in a report, what a publisher hands to itself is no delivery: one copy for each delivery is the least possible.
"""

from __future__ import annotations

import numpy as np

from hearsay.core.language.actions import Reason
from hearsay.core.language.rpc import PartKind
from hearsay.trace.language.rows import Rows
from hearsay.trace.language.schema import NONE, Column, TraceEvent, wire_name
from hearsay.watch.picture.drawn_nodes import NOT_DRAWN, DrawnNodes, Ints

RATES = ("published", "delivered", "copies", "control", "bytes", "lost", "refused")
PUBLISHED, DELIVERED, COPIES, CONTROL, BYTES, LOST, REFUSED = range(len(RATES))
_REASONS = tuple(wire_name(reason) for reason in Reason)


class Traffic:
    def __init__(self, drawn: DrawnNodes) -> None:
        self._drawn = drawn
        self.rates = np.zeros(len(RATES), dtype=np.int64)
        self.reasons = np.zeros((2, len(_REASONS)), dtype=np.int64)
        """Parts that were lost on the way, and parts and messages that were refused, by reason; in all."""
        self.of_nodes = np.zeros((0, len(RATES)), dtype=np.int64)
        """By place, in all."""

    def take(self, rows: Rows) -> None:
        events = rows[:, Column.EVENT]
        sent = events == TraceEvent.SEND_RPC
        copies = sent & (rows[:, Column.KIND] == PartKind.PUBLISH)
        lost, refused = events == TraceEvent.DROP_RPC, events == TraceEvent.REJECT
        delivered = (events == TraceEvent.DELIVER) & (rows[:, Column.REMOTE] != NONE)
        counted = np.maximum(rows[:, Column.COUNT], 1)
        sizes = np.maximum(rows[:, Column.BYTES], 0)
        ones = np.ones(len(rows), dtype=np.int64)
        places = self._drawn.places(rows[:, Column.PEER])
        self._make_room()
        for rate, chosen, weights in (
            (PUBLISHED, events == TraceEvent.PUBLISH, ones),
            (DELIVERED, delivered, ones),
            (COPIES, copies, ones),
            (CONTROL, sent & ~copies, ones),
            (BYTES, sent, sizes),
            (LOST, lost, ones),
            (REFUSED, refused, counted),
        ):
            self._count(rate, places[chosen], weights[chosen])
        for line, chosen in enumerate((lost, refused)):
            reasons = rows[chosen, Column.REASON]
            known = (reasons >= 0) & (reasons < len(_REASONS))
            np.add.at(self.reasons[line], reasons[known], (counted if line else ones)[chosen][known])

    def changes(self) -> list[int]:
        """The rates, counted since the last call."""
        counted = self.rates.tolist()
        self.rates[:] = 0
        return counted

    def by_reason(self) -> tuple[dict[str, int], dict[str, int]]:
        """What was lost and what was refused, in all."""
        lost, refused = (
            {name: count for name, count in zip(_REASONS, line, strict=True) if count}
            for line in self.reasons.tolist()
        )
        return lost, refused

    def of_node(self, place: int) -> dict[str, int]:
        if place >= len(self.of_nodes):
            return dict.fromkeys(RATES, 0)
        return dict(zip(RATES, self.of_nodes[place].tolist(), strict=True))

    def _count(self, rate: int, places: Ints, weights: Ints) -> None:
        self.rates[rate] += int(weights.sum())
        drawn = places != NOT_DRAWN
        if drawn.any():
            size = len(self.of_nodes)
            self.of_nodes[:, rate] += np.bincount(places[drawn], weights[drawn], minlength=size).astype(np.int64)

    def _make_room(self) -> None:
        missing = len(self._drawn.numbers) - len(self.of_nodes)
        if missing > 0:
            more = np.zeros((missing, len(RATES)), dtype=np.int64)
            self.of_nodes = np.concatenate([self.of_nodes, more])
