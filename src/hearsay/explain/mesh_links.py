"""Who was in whose mesh of a topic, for chosen nodes: from GRAFT and PRUNE, or episub's eager and lazy links."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from hearsay.pipeline.input.run_facts import RunFacts
from hearsay.pipeline.kernels.columns import Ints, rows_between
from hearsay.trace.language.schema import Column, TraceEvent

_COLUMNS = (Column.TIME_US, Column.EVENT, Column.PEER, Column.REMOTE, Column.TOPIC)
_IN = (TraceEvent.GRAFT, TraceEvent.EAGER)
_OF_TREES = (TraceEvent.EAGER, TraceEvent.LAZY)
_OUT = (TraceEvent.PRUNE, TraceEvent.LAZY, TraceEvent.NEIGHBOR_DOWN)


class MeshLinks:
    """Changes of links of which one end is a chosen node, in the order of pairs and time."""

    def __init__(
        self, peer: Ints, remote: Ints, time_us: Ints, is_in: Ints, any_mesh: bool, in_trees: frozenset[int]
    ) -> None:
        order = np.lexsort((is_in, time_us, remote, peer))
        self._peer, self._remote, self._time, self._in = (values[order] for values in (peer, remote, time_us, is_in))
        self.any_mesh = any_mesh
        """Whether anybody has a mesh of the topic, or eager links."""
        self._in_trees = in_trees

    def has_tree(self, node: int) -> bool:
        """Whether its links are eager and lazy ones, those of a tree (episub), not of a mesh."""
        return node in self._in_trees

    def holds(self, peer: int, remote: int, at_us: int, connected_us: int = 0) -> bool:
        """Whether a peer had a remote in its mesh at a time. What was before they were connected is over: a node that
        goes down says nothing of its mesh."""
        first, end = np.searchsorted(self._peer, [peer, peer + 1])
        low, high = first + np.searchsorted(self._remote[first:end], [remote, remote + 1])
        place = low + int(np.searchsorted(self._time[low:high], at_us, side="right")) - 1
        return bool(place >= low and self._in[place] and self._time[place] >= connected_us)


def mesh_links(run: RunFacts, topic: int, nodes: Collection[int], until_us: int) -> MeshLinks:
    """Of these nodes, and of others with these."""
    wanted = np.unique(np.array(list(nodes), dtype=np.int64))
    pieces: list[list[Ints]] = [[np.empty(0, dtype=np.int64)] * 4]
    any_mesh = False
    in_trees: set[int] = set()
    for file in run.files("mesh"):
        if file.min_time_us > until_us:
            continue
        for rows in rows_between(str(run.path / file.name), file.min_time_us, until_us, _COLUMNS):
            mine = (rows[Column.TOPIC] == topic) & np.isin(rows[Column.EVENT], (*_IN, *_OUT))
            any_mesh = any_mesh or bool(mine.any())
            in_trees.update(np.unique(rows[Column.PEER][mine & np.isin(rows[Column.EVENT], _OF_TREES)]).tolist())
            mine &= np.isin(rows[Column.PEER], wanted) | np.isin(rows[Column.REMOTE], wanted)
            columns = (Column.PEER, Column.REMOTE, Column.TIME_US)
            pieces.append([*(rows[column][mine].astype(np.int64) for column in columns),
                           np.isin(rows[Column.EVENT][mine], _IN).astype(np.int64)])  # fmt: skip
    peer, remote, time, is_in = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
    return MeshLinks(peer, remote, time, is_in, any_mesh, frozenset(in_trees))
