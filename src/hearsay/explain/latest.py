"""The latest messages of a run, as a list to choose from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hearsay.explain.message import message_ids
from hearsay.explain.rows import START_US, ColumnArrays, select_rows
from hearsay.pipeline.input.run_facts import RunFacts, load_runs
from hearsay.text.escape import escape
from hearsay.text.numbers import milliseconds
from hearsay.text.tables import table_text
from hearsay.trace.language.schema import NONE, Column, TraceEvent
from hearsay.trace.read.show import load_names

LATEST = 10
"""Number of messages in the list."""
_COLUMNS = (Column.TIME_US, Column.EVENT, Column.PEER, Column.TOPIC, Column.MESSAGE)
_HEAD = ("message", "id", "topic", "publisher", "at", "deliveries", "slowest")
_SHOWN = (TraceEvent.PUBLISH, TraceEvent.DELIVER)
_FIRST_WINDOW_US = 10_000_000


@dataclass(frozen=True, slots=True)
class LatestMessage:
    """A message with its deliveries to other nodes. Times count from the publication or, if unknown, the first
    delivery.
    """

    message: int
    id: str | None
    """Message id of a real network, in hexadecimal."""
    topic: str
    publisher: str | None
    first_us: int
    deliveries: int
    slowest_us: int


def latest_messages(path: Path) -> list[LatestMessage]:
    """Return the latest messages of a run, the last one first."""
    (run,) = load_runs([path], None)
    rows = _latest_rows(run)
    names, ids = load_names(run.path), message_ids(run.path)
    found: list[LatestMessage] = []
    for message, start, end in _latest(rows):
        one = {column: values[start:end] for column, values in rows.items()}
        delivered = one[Column.EVENT] == TraceEvent.DELIVER
        publishers = one[Column.PEER][~delivered]
        first_us = int(one[Column.TIME_US][0])
        others = one[Column.TIME_US][delivered & ~np.isin(one[Column.PEER], publishers)]
        found.append(
            LatestMessage(
                message, ids.get(message), names.topic(int(one[Column.TOPIC][0])),
                names.short_peer(int(publishers[0])) if len(publishers) else None,
                first_us, len(others), int(others[-1]) - first_us if len(others) else 0,
            )
        )  # fmt: skip
    return found


def latest_text(messages: list[LatestMessage]) -> str:
    """Return the messages as a table."""
    rows = [
        [
            str(each.message), (each.id or "")[:12], escape(each.topic), each.publisher or "not traced",
            f"{each.first_us / 1e6:.6f} s", f"{each.deliveries:,}", milliseconds(each.slowest_us / 1000),
        ]
        for each in messages
    ]  # fmt: skip
    return table_text(_HEAD, rows, left=4)


def _latest_rows(run: RunFacts) -> ColumnArrays:
    """Return publications and deliveries by message and time, of an interval before the run's end with enough
    messages.

    A message may have begun before the interval, so only messages that begin in its second half count.
    """
    window_us = _FIRST_WINDOW_US
    while True:
        from_us = run.end_us - window_us if window_us < run.end_us - run.start_us else START_US
        rows = select_rows(run, "message", _COLUMNS, lambda rows: np.isin(rows[Column.EVENT], _SHOWN), from_us)
        order = np.lexsort((rows[Column.EVENT], rows[Column.TIME_US], rows[Column.MESSAGE]))
        rows = {column: values[order] for column, values in rows.items()}
        sure_us = START_US if from_us == START_US else run.end_us - window_us // 2
        starts = np.flatnonzero(np.diff(rows[Column.MESSAGE], prepend=NONE - 1))
        if from_us == START_US or (rows[Column.TIME_US][starts] >= sure_us).sum() >= LATEST:
            return rows
        window_us *= 4


def _latest(rows: ColumnArrays) -> Iterator[tuple[int, int, int]]:
    """Yield the number, the first index and the end index of the latest messages, the last one first."""
    starts = np.flatnonzero(np.diff(rows[Column.MESSAGE], prepend=NONE - 1))
    ends = [*starts[1:].tolist(), len(rows[Column.MESSAGE])]
    latest = np.argsort(rows[Column.TIME_US][starts], kind="stable")[::-1][:LATEST]
    for place in latest.tolist():
        start = int(starts[place])
        yield int(rows[Column.MESSAGE][start]), start, ends[place]
