"""The nodes that a message is still to reach, a bit for each: many messages of a large network are kept so."""

from __future__ import annotations

import numpy as np

from hearsay.watch.picture.drawn_nodes import MOST_NUMBERED, Ints


class Awaited:
    """Of the nodes in a topic when a message was published; nodes with numbers too large are left out."""

    def __init__(self, nodes: Ints) -> None:
        nodes = nodes[(nodes >= 0) & (nodes < MOST_NUMBERED)]
        there = np.zeros(int(nodes.max(initial=-1)) + 1, dtype=np.bool_)
        there[nodes] = True
        self.count = int(np.count_nonzero(there))
        """How many there were in the beginning."""
        self._bits = np.packbits(there, bitorder="little")

    def arrived(self, nodes: Ints) -> Ints:
        """Where among these are those that it had not reached before; they are not awaited any more."""
        given = np.flatnonzero((nodes >= 0) & (nodes < 8 * len(self._bits)))
        nodes, first = np.unique(nodes[given], return_index=True)
        is_new = (self._bits[nodes >> 3] >> (nodes & 7)) & 1 == 1
        new = nodes[is_new]
        np.bitwise_and.at(self._bits, new >> 3, (~(1 << (new & 7))).astype(np.uint8))
        return given[first[is_new]]
