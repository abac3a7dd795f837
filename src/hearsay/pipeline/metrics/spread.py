"""How one typical message of each topic spread: the one whose median latency is the median of all.

Of a large network every n-th delivery in the order of time is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow
import pyarrow.compute
from numpy.typing import NDArray

from hearsay.core.language.actions import Via
from hearsay.pipeline.input.run_facts import RunFacts
from hearsay.pipeline.kernels.columns import ColumnArrays, rows_of_messages
from hearsay.trace.language.columns import DTYPES
from hearsay.trace.language.schema import NONE, Column, TraceEvent, wire_name

pa: Any = pyarrow
compute: Any = pyarrow.compute

SHOWN_DELIVERIES = 1500
_COLUMNS = (
    Column.TIME_US, Column.EVENT, Column.PEER, Column.REMOTE, Column.MESSAGE, Column.HOPS, Column.VIA,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class TypicalMessage:
    topic: int | None
    message: int
    publisher: int | None
    published_us: int | None
    delivered: int


def typical_messages(messages: Any) -> list[TypicalMessage]:
    """One of each topic of a run that has latencies."""
    measured = messages.filter(compute.is_valid(messages.column("p50_us")))
    topics = measured.column("topic").fill_null(NONE).to_numpy()
    order = np.lexsort((measured.column("message").to_numpy(), measured.column("p50_us").to_numpy(), topics))
    bounds = np.flatnonzero(np.diff(topics[order], prepend=NONE - 1, append=NONE - 1))
    places = np.array([order[(first + end - 1) // 2] for first, end in pairwise(bounds)], dtype=np.int64)
    names = ["topic", "message", "publisher", "published_us", "delivered"]
    return [TypicalMessage(**line) for line in measured.select(names).take(places).to_pylist()]


def spread_lines(run: RunFacts, files: Sequence[str], wanted: Sequence[TypicalMessage]) -> Iterator[dict[str, Any]]:
    """The table `spread` of a run, message after message; all their rows are in these files."""
    rows = _deliveries_of(run, files, np.array([one.message for one in wanted], dtype=np.int64))
    for one in wanted:
        first, end = np.searchsorted(rows[Column.MESSAGE], [one.message, one.message + 1])
        yield from _lines(one, {column: values[first:end] for column, values in rows.items()})


def _deliveries_of(run: RunFacts, files: Sequence[str], messages: NDArray[np.int64]) -> ColumnArrays:
    """Sorted by message, time and node."""
    pieces = [{column: np.empty(0, dtype=DTYPES[column]) for column in _COLUMNS}]
    for name in files:
        for rows in rows_of_messages(str(run.path / name), messages, _COLUMNS):
            delivered = rows[Column.EVENT] == TraceEvent.DELIVER
            pieces.append({column: values[delivered] for column, values in rows.items()})
    joined = {column: np.concatenate([rows[column] for rows in pieces]) for column in _COLUMNS}
    order = np.lexsort((joined[Column.PEER], joined[Column.TIME_US], joined[Column.MESSAGE]))
    return {column: values[order] for column, values in joined.items()}


def _lines(one: TypicalMessage, rows: ColumnArrays) -> Iterator[dict[str, Any]]:
    step = max(1, -(-one.delivered // SHOWN_DELIVERIES))
    for place in range(0, len(rows[Column.MESSAGE]), step):
        node, remote, hops = (_known(rows[column][place]) for column in (Column.PEER, Column.REMOTE, Column.HOPS))
        # Real nodes say that they gave themselves what they published, and nothing of hops.
        own = one.publisher is not None and node == one.publisher and remote in (None, node)
        via = _known(rows[Column.VIA][place])
        after = None if one.published_us is None else int(rows[Column.TIME_US][place]) - one.published_us
        yield {
            "topic": one.topic,
            "message": one.message,
            "node": node,
            "remote": None if own else remote,
            "after_us": after,
            "hops": hops or 0 if own else hops,
            "via": None if via is None else wire_name(Via(via)),
        }


def _known(value: Any) -> int | None:
    return None if value == NONE else int(value)
