"""Selected rows of a run, the nodes that traced and their clocks, and the members of a topic over time.

When traces are joined, the offset of each clock from a reference is estimated, with an uncertainty, and may be
corrected. The error of a corrected clock is at most the uncertainty. The error of any other clock is at most the
estimated offset plus the uncertainty. A difference between times of two nodes may be wrong by the sum of the errors
of both clocks. Times of one node, and all times of a simulation, have no such error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hearsay.number_text import milliseconds
from hearsay.pipeline.run_facts import RunFacts
from hearsay.trace.folder.arrow import open_trace_file, read_group, read_table
from hearsay.trace.folder.manifest import RunFolderError
from hearsay.trace.language.schema import NONE, Column, TraceEvent

Ints = NDArray[Any]
ColumnArrays = dict[Column, Ints]
START_US, END_US = np.iinfo(np.int64).min, np.iinfo(np.int64).max


class TooManyRows(ValueError):
    """Raised if more rows match than the caller allows in memory."""


def row_groups(
    run: RunFacts, trace_class: str, columns: Sequence[Column], from_us: int, until_us: int, message: int | None
) -> Iterator[ColumnArrays]:
    """Yield the rows of a trace class from `from_us` to `until_us` as dictionaries of columns, one for each row
    group.

    With `message`, yield only rows of that message. Row groups whose statistics exclude all wanted rows are not read.
    Raise `RunFolderError` if a file of the manifest is missing.
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
    """Return True if a column of a row group may have values from `least` to `most`. A null may be any number."""
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
    """Return the rows of `row_groups` that the mask returned by `keep` selects, or all rows without `keep`.

    Values are int64. Raise `TooManyRows` if there are more than `max_rows` rows.
    """
    pieces: list[ColumnArrays] = [{column: np.empty(0, dtype=np.int64) for column in columns}]
    count = 0
    for rows in row_groups(run, trace_class, columns, from_us, until_us, message):
        pieces.append(selected(rows, keep(rows)) if keep is not None else rows)
        count += len(pieces[-1][columns[0]])
        if max_rows is not None and count > max_rows:
            raise TooManyRows
    return {column: np.concatenate([piece[column] for piece in pieces]).astype(np.int64) for column in columns}


def selected(rows: ColumnArrays, chosen: Ints | slice) -> ColumnArrays:
    """Return the rows that `chosen` selects: a mask, indexes or a slice."""
    return {column: values[chosen] for column, values in rows.items()}


def indexes_of(values: Ints, number: int) -> slice:
    """Return the indexes of all elements of an ascending array that equal `number`."""
    first, end = np.searchsorted(values, [number, number + 1])
    return slice(int(first), int(end))


class PairEvents(NamedTuple):
    """Events at nodes, each about another node, as columns, sorted by node, other node, time and value."""

    node: Ints
    other: Ints
    time_us: Ints
    value: Ints
    """A number that belongs to the event, such as the code of a reason. The owner of the events defines its meaning.
    """

    @classmethod
    def sorted(cls, *columns: Ints) -> PairEvents:
        """Return the events of these columns, sorted. The order of the columns is that of the class."""
        order = np.lexsort(columns[::-1])
        return cls(*(column[order] for column in columns))

    def between(self, node: int, other: int) -> slice:
        """Return the indexes of the events at `node` that are about `other`."""
        mine = indexes_of(self.node, node)
        there = indexes_of(self.other[mine], other)
        return slice(mine.start + there.start, mine.start + there.stop)


def observers_of(run: RunFacts) -> tuple[int, ...]:
    """Return the nodes that traced. In a simulation these are all nodes.

    In a run of real nodes, they are the nodes with rows of the classes `node` or `mesh`, or all nodes if none has
    any.
    """
    if run.simulated:
        return run.nodes
    classes = (
        row_groups(run, name, (Column.PEER, Column.TIME_US), START_US, END_US, None) for name in ("node", "mesh")
    )
    peers = {peer for groups in classes for rows in groups for peer in np.unique(rows[Column.PEER]).tolist()}
    return tuple(sorted(peers.intersection(run.nodes))) or run.nodes


class Members(NamedTuple):
    """Intervals [since, until) in which nodes are members of a topic, as columns sorted by node and time."""

    node: Ints
    since_us: Ints
    until_us: Ints

    def last_join(self, node: int, from_us: int, until_us: int) -> int | None:
        """Return the time of a node's last join after `from_us` and until `until_us`; None if it did not join
        then.
        """
        since_us = self.since_us[self.node == node]
        return max(since_us[(since_us > from_us) & (since_us <= until_us)].tolist(), default=None)


def members_of(run: RunFacts, topic: int) -> Members:
    """Return the members of a topic; none if `topic` is `NONE`.

    A node is a member from a join to its next leave, join or failure. Without any of these, it is a member to the end
    of the run.
    """
    columns = (Column.PEER, Column.TIME_US, Column.EVENT)
    changes = select_rows(
        run, "mesh", (*columns, Column.TOPIC),
        lambda rows: (rows[Column.TOPIC] == topic) & np.isin(rows[Column.EVENT], (TraceEvent.JOIN, TraceEvent.LEAVE)),
    )  # fmt: skip
    downs = select_rows(run, "node", columns, lambda rows: rows[Column.EVENT] == TraceEvent.NODE_DOWN)
    node, time, event = (np.concatenate((changes[column], downs[column])) for column in columns)
    joins = event == TraceEvent.JOIN
    order = np.lexsort((joins, time, node))  # In the same microsecond, a leave or failure comes before a join.
    node, time, joins = node[order], time[order], joins[order]
    until = np.full(len(time), run.end_us, dtype=np.int64)
    same = node[1:] == node[:-1]
    until[:-1][same] = np.minimum(time[1:][same], run.end_us)
    joins &= topic != NONE
    return Members(node[joins], time[joins], until[joins])


SKEW = "skew.parquet"


@dataclass(frozen=True, slots=True)
class Clocks:
    """The errors of the clocks of nodes. A simulation, or a run whose traces were not joined, has no errors."""

    errors_us: Mapping[int, tuple[int | None, int]]
    """By node: the node whose clock is the reference (None if unknown), and the maximum difference between the two
    clocks in microseconds."""

    def words(self, node: int, other: int) -> str:
        """Return in words how wrong the time between events at two nodes may be.

        The text is empty if both are the same node, or if `errors_us` lacks one of them. Without a common reference
        of both clocks, it says that the offset is unknown.
        """
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
    rows = zip(*(columns[name] for name in ("reference", "offset_us", "uncertainty_us", "put_back_us")), strict=True)
    errors = [
        (reference, abs((offset or 0) - (put_back or 0)) + (uncertainty or 0))
        for reference, offset, uncertainty, put_back in rows
    ]
    return Clocks(dict(zip(columns["peer"], errors, strict=True)))
