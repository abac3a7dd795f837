"""What went between nodes of a topic in parts: how many partial messages came, and how many were lost, and when.

Their rows name the topic and not the message, so what is counted may have been about others.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from hearsay.core.language.rpc import PartKind
from hearsay.pipeline.input.run_facts import RunFacts
from hearsay.pipeline.kernels.columns import rows_between
from hearsay.trace.language.schema import NONE, Column, TraceEvent

_COLUMNS = (
    Column.TIME_US, Column.EVENT, Column.KIND, Column.PEER, Column.REMOTE, Column.TOPIC, Column.DELAY_US,
)  # fmt: skip
Pair = tuple[int, int]
"""Who sent, and to whom."""


@dataclass(frozen=True, slots=True)
class PartialTraffic:
    due: Mapping[Pair, list[int]]
    """When they came, or would have."""
    dropped: Mapping[Pair, list[int]]

    def came(self, sender: int, receiver: int, from_us: int, until_us: int) -> int:
        return _between(self.due, (sender, receiver), from_us, until_us) - self.lost(
            sender, receiver, from_us, until_us
        )

    def lost(self, sender: int, receiver: int, from_us: int, until_us: int) -> int:
        return _between(self.dropped, (sender, receiver), from_us, until_us)


def partial_traffic(
    run: RunFacts, topic: int, pairs: Collection[Pair], from_us: int, until_us: int
) -> PartialTraffic:
    """Between these pairs, in either direction, in a simulated run."""
    both = {pair for one, other in pairs for pair in ((one, other), (other, one))}
    ends = np.array(sorted({end for pair in both for end in pair}), dtype=np.int64)
    due: dict[Pair, list[int]] = {}
    dropped: dict[Pair, list[int]] = {}
    for file in run.files("rpc"):
        if file.min_time_us > until_us or file.max_time_us < from_us:
            continue
        for rows in rows_between(str(run.path / file.name), from_us, until_us, _COLUMNS):
            mine = (rows[Column.KIND] == PartKind.PARTIAL) & (rows[Column.TOPIC] == topic)
            mine &= np.isin(rows[Column.PEER], ends) & np.isin(rows[Column.REMOTE], ends)
            columns = (Column.TIME_US, Column.EVENT, Column.PEER, Column.REMOTE, Column.DELAY_US)
            for time, event, peer, remote, delay in zip(
                *(rows[column][mine].tolist() for column in columns), strict=True
            ):
                if (peer, remote) not in both:
                    continue
                if event == TraceEvent.SEND_RPC and delay != NONE:
                    due.setdefault((peer, remote), []).append(time + delay)
                elif event == TraceEvent.DROP_RPC:
                    dropped.setdefault((peer, remote), []).append(time)
    return PartialTraffic(due, dropped)


def _between(times: Mapping[Pair, list[int]], pair: Pair, from_us: int, until_us: int) -> int:
    return sum(from_us <= time <= until_us for time in times.get(pair, ()))
