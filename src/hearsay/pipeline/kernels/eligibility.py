"""Who is eligible for a message: the memberships of a topic, asked for many messages at once.

A membership is a time [since, until) of a node in a topic. A node is eligible for a message published at p whose
window ends at w if it has a membership with since <= p and until >= w.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[Any]


class Eligibility:
    """The memberships of one topic in one run."""

    def __init__(self, nodes: Ints, since_us: Ints, until_us: Ints, end_us: int) -> None:
        self._times = np.unique(since_us.astype(np.int64))
        self._keys = self._key(nodes.astype(np.int64), since_us.astype(np.int64))
        order = np.argsort(self._keys)
        self._keys = self._keys[order]
        self._nodes = nodes[order]
        self._until = until_us[order].astype(np.int64)
        since = since_us[order].astype(np.int64)
        self._starts = np.sort(since)
        early = self._until < end_us
        self._early_since = since[early]
        self._early_until = self._until[early]

    def count(self, published_us: Ints, window_end_us: Ints) -> Ints:
        """How many are eligible, for each message."""
        counts = np.searchsorted(self._starts, published_us, side="right").astype(np.int64)
        if len(self._early_since):
            for index in range(len(counts)):
                counts[index] -= np.count_nonzero(
                    (self._early_since <= published_us[index]) & (self._early_until < window_end_us[index])
                )
        return counts

    def holds(self, nodes: Ints, published_us: Ints, window_end_us: Ints) -> NDArray[np.bool_]:
        """Whether each node is eligible for the message beside it."""
        if not len(self._keys):
            return np.zeros(len(nodes), dtype=bool)
        place = np.searchsorted(self._keys, self._key(nodes.astype(np.int64), published_us), side="right") - 1
        found = np.maximum(place, 0)
        return (place >= 0) & (self._nodes[found] == nodes) & (self._until[found] >= window_end_us)

    def _key(self, nodes: Ints, times: Ints) -> Ints:
        """One word for node and time, in their order; times count by how many memberships began until then."""
        return nodes * (len(self._times) + 1) + np.searchsorted(self._times, times, side="right")
