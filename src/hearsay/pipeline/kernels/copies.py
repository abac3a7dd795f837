"""How many copies of a message arrived, how many were duplicates (`docs/reference/metrics.md`, "Copy")."""

from __future__ import annotations

import numpy as np

from hearsay.core.language.actions import Reason, Via
from hearsay.pipeline.kernels.columns import ColumnArrays
from hearsay.pipeline.kernels.sums import (
    ARRIVED,
    RECORDED_DUPLICATES,
    REJECTED,
    SENT,
    VANISHED,
    Ints,
    count_copies,
)
from hearsay.trace.language.schema import Column, TraceEvent

_ARRIVED_NOT = (int(Reason.LOST), int(Reason.UNREACHABLE))


def copies_of(rows: ColumnArrays, bounds: Ints, end_us: int, away: Ints) -> tuple[Ints, Ints, Ints]:
    """Copies that arrived, duplicates and rejects, per message (`docs/reference/metrics.md`, "Copy")."""
    counts = count_copies(
        bounds,
        rows[Column.TIME_US],
        rows[Column.EVENT],
        rows[Column.DELAY_US],
        rows[Column.REASON],
        end_us,
    )
    told, rejected = counts[:, RECORDED_DUPLICATES], counts[:, REJECTED]
    derived = counts[:, ARRIVED] - counts[:, VANISHED]
    simulated = counts[:, SENT] > 0
    copies = np.where(simulated, derived, away + told + rejected)
    first = away + rejected + _handed_over(rows, bounds, end_us)
    duplicates = np.where(simulated, np.maximum(derived - first, 0), told)
    return copies, duplicates, rejected


def _handed_over(rows: ColumnArrays, bounds: Ints, end_us: int) -> Ints:
    """First copies that a script handed to nodes outside the topic: they pass them on and deliver nothing."""
    count = len(bounds) - 1
    injected = np.flatnonzero(rows[Column.VIA] == Via.INJECT)
    if not len(injected):
        return np.zeros(count, dtype=np.int64)
    width = max(int(rows[Column.PEER].max(initial=0)), int(rows[Column.REMOTE].max(initial=0))) + 1

    def pairs(chosen: Ints, end: Column) -> Ints:
        owner = np.searchsorted(bounds, chosen, side="right") - 1
        return owner.astype(np.int64) * width + rows[end][chosen]

    times, events, delays = rows[Column.TIME_US], rows[Column.EVENT], rows[Column.DELAY_US]
    sent = injected[(events[injected] == TraceEvent.SEND_RPC) & (delays[injected] >= 0)]
    arrived = sent[times[sent] + delays[sent] < end_us]
    dropped = injected[(events[injected] == TraceEvent.DROP_RPC) & (times[injected] < end_us)]
    vanished = dropped[np.isin(rows[Column.REASON][dropped], _ARRIVED_NOT)]
    handed = np.setdiff1d(pairs(arrived, Column.REMOTE), pairs(vanished, Column.REMOTE))
    judged = pairs(np.flatnonzero(np.isin(events, (TraceEvent.DELIVER, TraceEvent.REJECT))), Column.PEER)
    return np.bincount(np.setdiff1d(handed, judged[np.isin(judged, handed)]) // width, minlength=count)
