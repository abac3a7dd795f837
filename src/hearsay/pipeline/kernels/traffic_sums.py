"""What nodes sent and got, by topic and kind: partial sums of one file."""

from __future__ import annotations

import numpy as np

from hearsay.core.language.rpc import PartKind
from hearsay.pipeline.kernels.columns import ColumnArrays
from hearsay.pipeline.kernels.partial_sums import Sums
from hearsay.pipeline.kernels.sums import (
    Ints,
    add_up,
    starts_of,
)
from hearsay.trace.language.schema import Column, TraceEvent


def recorded_sizes(rows: ColumnArrays) -> Sums:
    """(0) -> parts sent, and parts received, of which the trace tells the bytes."""
    told = rows[Column.BYTES] >= 0
    events = (TraceEvent.SEND_RPC, TraceEvent.RECV_RPC)
    sides = [int(np.count_nonzero(told & (rows[Column.EVENT] == event))) for event in events]
    return Sums(np.zeros((1, 1), dtype=np.int64), np.array([sides], dtype=np.int64))


def message_traffic(rows: ColumnArrays, end_us: int) -> Sums:
    """As `traffic_of`, of rows sorted by message: a message has one topic, so its rows are one slice."""
    slices, about = _slices(rows[Column.MESSAGE], rows[Column.TOPIC])
    order = np.argsort(about, kind="stable")
    kinds = np.full(len(order), int(PartKind.PUBLISH))
    return _added_up(rows, slices[order], about[order], kinds, np.empty(0, dtype=np.int32), end_us)


def traffic_of(rows: ColumnArrays, end_us: int) -> Sums:
    """(topic, node, kind) -> parts, ids and bytes out and in, of sends, receives and drops in any order."""
    keys = rows[Column.TOPIC].astype(np.int64) << 8 | (rows[Column.KIND] + 1)
    order = np.argsort(keys, kind="stable")
    ordered = {column: values[order] for column, values in rows.items()}
    slices, about = _slices(keys[order], keys[order])
    return _added_up(ordered, slices, about >> 8, (about & 255) - 1, ordered[Column.COUNT], end_us)


def _slices(runs: Ints, about: Ints) -> tuple[Ints, Ints]:
    """(from, up to) of rows of equal `runs` and `about`, and what each is about."""
    starts = starts_of(runs, about)
    return np.stack([starts, np.append(starts[1:], len(runs))[: len(starts)]], 1), about[starts]


def _added_up(rows: ColumnArrays, slices: Ints, topics: Ints, kinds: Ints, ids: Ints, end_us: int) -> Sums:
    keys, values = add_up(
        slices,
        topics.astype(np.int64),
        kinds.astype(np.int64),
        rows[Column.TIME_US],
        rows[Column.EVENT],
        rows[Column.PEER],
        rows[Column.REMOTE],
        rows[Column.BYTES],
        ids,
        rows[Column.DELAY_US],
        rows[Column.REASON],
        end_us,
    )
    return Sums(keys, values)
