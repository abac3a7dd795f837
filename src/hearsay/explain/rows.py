"""Selected rows of a run, the nodes that traced and their clocks, and the members of a topic over time.

A corrected clock may be off by its uncertainty, any other clock also by its estimated offset. The difference between
times of two nodes may be off by the sum of their errors. Times of one node, and all times of a simulation, agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hearsay.pipeline.input.run_facts import RunFacts
from hearsay.text.numbers import milliseconds
from hearsay.trace.folder.arrow import open_trace_file, read_group, read_table
from hearsay.trace.language.errors import RunFolderError
from hearsay.trace.language.schema import NONE, Column, TraceEvent

Ints = NDArray[Any]
ColumnArrays = dict[Column, Ints]
START_US, END_US = np.iinfo(np.int64).min, np.iinfo(np.int64).max


class TooManyRows(ValueError):
    """More rows match than may be kept in memory."""


def row_groups(
    run: RunFacts, trace_class: str, columns: Sequence[Column], from_us: int, until_us: int, message: int | None
) -> Iterator[ColumnArrays]:
    """Yield the rows of a class between two times, and of one message unless it is None, by row group.

    Row groups whose statistics exclude such rows are not read.
    """
    for file in run.files(trace_class):
        if file.min_time_us > until_us or file.max_time_us < from_us:
            continue
        path = run.path / file.name
        if not path.exists():
            raise RunFolderError(f"{path}: is missing; the run's manifest names it")
        opened = open_trace_file(path)
        for group in range(opened.num_row_groups):
            about = opened.metadata.row_group(group)
            if not _may_hold(about, Column.TIME_US, from_us, until_us):
                continue
            if message is not None and not _may_hold(about, Column.MESSAGE, message, message):
                continue
            rows = dict(zip(columns, read_group(opened, group, path, columns), strict=True))
            kept = (rows[Column.TIME_US] >= from_us) & (rows[Column.TIME_US] <= until_us)
            if message is not None:
                kept &= rows[Column.MESSAGE] == message
            yield {column: values[kept] for column, values in rows.items()}


def _may_hold(group: Any, column: Column, least: int, most: int) -> bool:
    """Return whether a row group may have values between two numbers, both included; nulls count as any number."""
    statistics = group.column(int(column)).statistics
    if statistics is None or not statistics.has_min_max or statistics.null_count:
        return True
    return statistics.min <= most and statistics.max >= least


def select_rows(
    run: RunFacts,
    trace_class: str,
    columns: Sequence[Column],
    keep: Callable[[ColumnArrays], Ints] | None = None,
    from_us: int = START_US,
    until_us: int = END_US,
    *,
    message: int | None = None,
    max_rows: int | None = None,
) -> ColumnArrays:
    """Return the rows of `row_groups` for which `keep` is true. Raise `TooManyRows` above `max_rows`."""
    pieces: list[ColumnArrays] = [{column: np.empty(0, dtype=np.int64) for column in columns}]
    count = 0
    for rows in row_groups(run, trace_class, columns, from_us, until_us, message):
        pieces.append(selected(rows, keep(rows)) if keep is not None else rows)
        count += len(pieces[-1][columns[0]])
        if max_rows is not None and count > max_rows:
            raise TooManyRows
    return {column: np.concatenate([piece[column] for piece in pieces]).astype(np.int64) for column in columns}


def selected(rows: ColumnArrays, chosen: Ints) -> ColumnArrays:
    return {column: values[chosen] for column, values in rows.items()}


def indexes_of(values: Ints, number: int) -> slice:
    """Return the indexes of a number in an ascending array."""
    first, end = np.searchsorted(values, [number, number + 1])
    return slice(int(first), int(end))


@dataclass(frozen=True, slots=True)
class PairEvents:
    """Events of a node that concern another node, ordered by node, other node, time and value."""

    node: Ints
    other: Ints
    time_us: Ints
    value: Ints

    @classmethod
    def sorted(cls, node: Ints, other: Ints, time_us: Ints, value: Ints) -> PairEvents:
        order = np.lexsort((value, time_us, other, node))
        return cls(node[order], other[order], time_us[order], value[order])

    def between(self, node: int, other: int) -> slice:
        """Return the indexes of the events of a pair."""
        mine = indexes_of(self.node, node)
        there = indexes_of(self.other[mine], other)
        return slice(mine.start + there.start, mine.start + there.stop)


def observers_of(run: RunFacts) -> tuple[int, ...]:
    """Return the nodes that traced: all of a simulation, and the real nodes that have rows of their own."""
    if run.simulated:
        return run.nodes
    columns = (Column.PEER, Column.TIME_US)
    peers: set[int] = set()
    for trace_class in ("node", "mesh"):
        for rows in row_groups(run, trace_class, columns, START_US, END_US, None):
            peers.update(np.unique(rows[Column.PEER]).tolist())
    return tuple(sorted(peers.intersection(run.nodes))) or run.nodes


@dataclass(frozen=True, slots=True)
class Members:
    """Intervals [since, until) in which nodes are in a topic, ordered by node and time."""

    node: Ints
    since_us: Ints
    until_us: Ints


def members_of(run: RunFacts, topic: int) -> Members:
    """Return the members of a topic: from a join to the next leave, join or failure, or to the end of the run."""
    columns = (Column.PEER, Column.TIME_US, Column.EVENT)
    changes = select_rows(
        run, "mesh", (*columns, Column.TOPIC),
        lambda rows: (rows[Column.TOPIC] == topic) & np.isin(rows[Column.EVENT], (TraceEvent.JOIN, TraceEvent.LEAVE)),
    )  # fmt: skip
    downs = select_rows(run, "node", columns, lambda rows: rows[Column.EVENT] == TraceEvent.NODE_DOWN)
    node, time, event = (np.concatenate((changes[column], downs[column])) for column in columns)
    joins = event == TraceEvent.JOIN
    order = np.lexsort((joins, time, node))  # In the same microsecond, an end precedes a beginning.
    node, time, joins = node[order], time[order], joins[order]
    until = np.full(len(time), run.end_us, dtype=np.int64)
    same = node[1:] == node[:-1]
    until[:-1][same] = np.minimum(time[1:][same], run.end_us)
    joins &= topic != NONE
    return Members(node[joins], time[joins], until[joins])


SKEW = "skew.parquet"


@dataclass(frozen=True, slots=True)
class Clocks:
    errors_us: Mapping[int, tuple[int | None, int]]
    """For each node that traced: the node with the reference clock (None if unknown), and the maximum difference from
    that clock in microseconds."""

    def words(self, node: int, other: int) -> str:
        """Return in words how far a time between two nodes may be off; an empty text if both have the same clock."""
        if node == other or node not in self.errors_us or other not in self.errors_us:
            return ""
        (reference, error_us), (other_reference, other_error_us) = self.errors_us[node], self.errors_us[other]
        if reference is None or reference != other_reference:
            return " (clock offset unknown)"
        return f" (± {milliseconds((error_us + other_error_us) / 1000)})"


def clocks_of(run: Path) -> Clocks:
    path = run / SKEW
    if not path.exists():
        return Clocks({})
    columns = read_table(path)
    names = ("reference", "offset_us", "uncertainty_us", "put_back_us")
    rows = zip(*(columns[name] for name in names), strict=True)
    errors = [
        (reference, abs((offset or 0) - (put_back or 0)) + (uncertainty or 0))
        for reference, offset, uncertainty, put_back in rows
    ]
    return Clocks(dict(zip(columns["peer"], errors, strict=True)))
