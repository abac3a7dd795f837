"""How a message spreads through a network of which only a sample is drawn: how many of each cell's nodes have it.

A cell is some nodes with neighbouring numbers. What is kept of a message is small, whatever the network's size: for
each cell how many nodes are to get it, and how many got it by class of latency.
"""

from __future__ import annotations

import numpy as np

from hearsay.watch.picture.drawn_nodes import Ints

CELLS = 1024


class Density:
    def __init__(self, nodes: int, due: Ints, classes: int) -> None:
        """Of a network of so many nodes; `due` are the numbers of those that are to get the message."""
        self._nodes = nodes
        self.due = self._counted(due)
        self._arrived = np.zeros((classes, CELLS), dtype=np.uint16)

    def arrive(self, nodes: Ints, classes: Ints) -> None:
        """Nodes of those that are due got it, with such latencies."""
        np.add.at(self._arrived, (classes, self._cells(nodes)), 1)

    def arrived(self, classes: int) -> list[int]:
        """How many of each cell have it, within so many classes of latency."""
        return self._arrived[:classes].sum(axis=0, dtype=np.int64).tolist()

    def _cells(self, nodes: Ints) -> Ints:
        return nodes * CELLS // self._nodes

    def _counted(self, nodes: Ints) -> list[int]:
        nodes = nodes[(nodes >= 0) & (nodes < self._nodes)]
        return np.bincount(self._cells(nodes), minlength=CELLS).tolist()
