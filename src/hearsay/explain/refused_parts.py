"""Copies that a node did not even look at: the trace tells the sender, the time and the reason, and not the message.

A graylisted peer's RPC is dropped before anybody reads what is in it. Such a row and a copy that came from that
sender at that very time belong together; clocks of real nodes are read twice for the two, so there a little later
counts too.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from hearsay.core.language.rpc import PartKind
from hearsay.explain.books import Copy, Fate
from hearsay.pipeline.input.run_facts import RunFacts
from hearsay.pipeline.kernels.columns import Ints, rows_of_messages
from hearsay.trace.language.schema import NONE, Column, TraceEvent

_COLUMNS = (
    Column.TIME_US, Column.EVENT, Column.KIND, Column.PEER, Column.REMOTE, Column.MESSAGE, Column.REASON,
)  # fmt: skip
_LATER_US = 100_000
"""Between a receive and what became of it, at a real node."""


class RefusedParts:
    def __init__(self, node: Ints, remote: Ints, time_us: Ints, reason: Ints, later_us: int) -> None:
        order = np.lexsort((time_us, remote, node))
        self._node, self._remote, self._time, self._reason = (
            values[order] for values in (node, remote, time_us, reason)
        )
        self._later_us = later_us

    def reason_of(self, copy: Copy) -> int | None:
        """Why a copy that arrived was not looked at; None if nothing says so."""
        if copy.fate is not Fate.ARRIVED or copy.arrived_us is None:
            return None
        first, end = np.searchsorted(self._node, [copy.receiver, copy.receiver + 1])
        remotes, times = self._remote[first:end], self._time[first:end]
        after = times - copy.arrived_us
        found = np.flatnonzero((remotes == copy.sender) & (after >= 0) & (after <= self._later_us))
        return int(self._reason[first + found[0]]) if len(found) else None


def refused_parts(run: RunFacts, nodes: Collection[int] | Ints, from_us: int, until_us: int) -> RefusedParts:
    """What these nodes did not look at between two times."""
    later_us = 0 if run.simulated else _LATER_US
    wanted = np.unique(np.asarray(list(nodes) if not isinstance(nodes, np.ndarray) else nodes, dtype=np.int64))
    pieces: list[list[Ints]] = [[np.empty(0, dtype=np.int64)] * 4]
    for file in run.files("message"):
        if file.min_time_us > until_us + later_us or file.max_time_us < from_us:
            continue
        for rows in rows_of_messages(str(run.path / file.name), np.array([NONE]), _COLUMNS):
            times = rows[Column.TIME_US]
            mine = (rows[Column.EVENT] == TraceEvent.REJECT) & (rows[Column.KIND] == PartKind.PUBLISH)
            mine &= (times >= from_us) & (times <= until_us + later_us) & np.isin(rows[Column.PEER], wanted)
            columns = (Column.PEER, Column.REMOTE, Column.TIME_US, Column.REASON)
            pieces.append([rows[column][mine].astype(np.int64) for column in columns])
    node, remote, time, reason = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
    return RefusedParts(node, remote, time, reason, later_us)
