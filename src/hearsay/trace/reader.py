"""Reading a run's trace.

Rules:

* The manifest says which files belong to the trace; others are not looked at.
* `read_rows` gives integers for programs, in the order of the files. `iter_rows` gives `TraceRow` for people, in
  canonical order.
* A filter works row group by row group, so a few rows out of a large run need little memory. Derived rows need the
  whole classes they follow from; only a filter by message comes before derivation.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hearsay.trace.arrow import open_trace_file, read_group
from hearsay.trace.columns import rows_of
from hearsay.trace.derive import with_derived
from hearsay.trace.manifest import TraceFile, load_manifest
from hearsay.trace.names import load_names
from hearsay.trace.order import canonical
from hearsay.trace.rows import Rows, no_rows
from hearsay.trace.schema import CLASSES, Column, PartKind, TraceEvent, TraceRow

_BLOCK = 65_536


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Which rows: those that meet every condition given. `peers` match as `peer` or as `remote`."""

    events: Collection[TraceEvent] | None = None
    kinds: Collection[PartKind] | None = None
    peers: Collection[int] | None = None
    topic: int | None = None
    message: int | None = None
    from_us: int | None = None
    before_us: int | None = None

    def select(self, rows: Rows) -> Rows:
        chosen = np.ones(len(rows), dtype=bool)
        for column, values in ((Column.EVENT, self.events), (Column.KIND, self.kinds)):
            if values is not None:
                chosen &= np.isin(rows[:, column], [int(value) for value in values])
        for column, value in ((Column.TOPIC, self.topic), (Column.MESSAGE, self.message)):
            if value is not None:
                chosen &= rows[:, column] == value
        if self.peers is not None:
            peers = list(self.peers)
            chosen &= np.isin(rows[:, Column.PEER], peers) | np.isin(rows[:, Column.REMOTE], peers)
        if self.from_us is not None:
            chosen &= rows[:, Column.TIME_US] >= self.from_us
        if self.before_us is not None:
            chosen &= rows[:, Column.TIME_US] < self.before_us
        return rows[chosen]

    def may_match(self, file: TraceFile) -> bool:
        """Whether the file's span of time allows for a match."""
        return (self.from_us is None or file.max_time_us >= self.from_us) and (
            self.before_us is None or file.min_time_us < self.before_us
        )


def read_groups(run: Path, classes: Collection[str] | None = None, chosen: RowFilter | None = None) -> Iterator[Rows]:
    """The stored rows that the filter chooses, row group by row group."""
    for file in load_manifest(run).trace.files:
        if (classes is not None and file.trace_class not in classes) or (chosen and not chosen.may_match(file)):
            continue
        path = run / file.name
        opened = open_trace_file(path)
        for group in range(opened.num_row_groups):
            rows = rows_of(read_group(opened, group, path))
            yield rows if chosen is None else chosen.select(rows)


def read_rows(run: Path, classes: Collection[str] | None = None, derive: bool = False) -> Rows:
    """The rows of these classes (all: None); `derive` adds the rows that follow from them."""
    rows = _joined(read_groups(run, classes))
    return with_derived(rows) if derive else rows


def iter_rows(
    run: Path,
    *,
    classes: Collection[str] | None = None,
    events: Collection[TraceEvent] | None = None,
    kinds: Collection[PartKind] | None = None,
    peer: int | str | None = None,
    topic: int | str | None = None,
    message: int | None = None,
    from_us: int | None = None,
    before_us: int | None = None,
    derive: bool = False,
) -> Iterator[TraceRow]:
    """The chosen rows in canonical order. Peers and topics may be given by name; `peer` matches either end."""
    names = load_names(run)
    chosen = RowFilter(
        events,
        kinds,
        None if peer is None else {names.find_peer(peer)},
        None if topic is None else names.find_topic(topic),
        message,
        from_us,
        before_us,
    )
    if derive:
        rows = no_rows()
        for trace_class in classes or CLASSES:
            whole = _joined(read_groups(run, {trace_class}, RowFilter(message=message)))
            rows = np.concatenate((rows, chosen.select(with_derived(whole))))
    else:
        rows = _joined(read_groups(run, classes, chosen))
    rows = canonical(rows)
    for start in range(0, len(rows), _BLOCK):
        for codes in rows[start : start + _BLOCK].tolist():
            yield TraceRow.from_codes(codes)


def _joined(groups: Iterator[Rows]) -> Rows:
    return np.concatenate([no_rows(), *groups])
