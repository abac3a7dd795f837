"""Which nodes are drawn: all of a small network, a sample of a large one, and those met first of one that grows.

A node that is drawn has a place, 0, 1, …, which is its number in everything that goes to browsers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hearsay.graph_layout import sample_of_nodes

Ints = NDArray[np.int64]

MOST_DRAWN = 1000
MOST_NUMBERED = 10_000_000
"""Nodes with larger numbers are counted where nobody has to know them apart."""
NOT_DRAWN = -1


class DrawnNodes:
    def __init__(self, known: int = 0, most: int = MOST_DRAWN) -> None:
        """`known` nodes, 0 … known - 1, are there from the start; without, nodes are drawn as they are met."""
        self.known = known
        self._most = most
        self._grows = not known
        self.numbers: list[int] = sample_of_nodes(np.arange(known, dtype=np.int64), most).tolist()
        """The numbers of those that are drawn, by place."""
        self._places = np.full(max(known, 1), NOT_DRAWN, dtype=np.int64)
        if known:
            self._places[self.numbers] = np.arange(len(self.numbers))

    def meet(self, nodes: Ints) -> None:
        """Nodes that rows speak of; some may be drawn from now on."""
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
