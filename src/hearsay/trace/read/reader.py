"""Reading a run's trace.

Rules:

* The manifest names the files of the trace; other files are not read.
* `read_rows` returns integers for programs, in the order of the files. `iter_rows` yields `TraceRow` for people, in
  canonical order.
* A filter is applied row group by row group, so a few rows of a large run need little memory. For derived rows, whole
  classes are read; only a filter by message is applied before rows are derived.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np

from hearsay.trace.folder.arrow import ParquetFile, open_trace_file, read_group
from hearsay.trace.folder.manifest import TraceFile, load_manifest
from hearsay.trace.language.columns import rows_of
from hearsay.trace.language.errors import RunFolderError
from hearsay.trace.language.order import canonical, with_derived
from hearsay.trace.language.rows import Rows, no_rows
from hearsay.trace.language.schema import CLASSES, Column, TraceEvent, TraceRow
from hearsay.trace.read.show import load_names

_BLOCK = 65_536


@dataclass(frozen=True, slots=True)
class RowFilter:
    """A filter: rows must meet all conditions that are not None. `peers` are values of column `peer`, and so on."""

    events: Collection[TraceEvent] | None = None
    kinds: Collection[int] | None = None
    peers: Collection[int] | None = None
    remotes: Collection[int] | None = None
    topics: Collection[int] | None = None
    messages: Collection[int] | None = None
    from_us: int | None = None
    before_us: int | None = None

    def select(self, rows: Rows) -> Rows:
        chosen = np.ones(len(rows), dtype=bool)
        for column, values in (
            (Column.EVENT, self.events),
            (Column.KIND, self.kinds),
            (Column.PEER, self.peers),
            (Column.REMOTE, self.remotes),
            (Column.TOPIC, self.topics),
            (Column.MESSAGE, self.messages),
        ):
            if values is not None:
                chosen &= np.isin(rows[:, column], [int(value) for value in values])
        if self.from_us is not None:
            chosen &= rows[:, Column.TIME_US] >= self.from_us
        if self.before_us is not None:
            chosen &= rows[:, Column.TIME_US] < self.before_us
        return rows[chosen]

    def may_match(self, file: TraceFile) -> bool:
        """Return whether the file's time span overlaps the filter's."""
        return (self.from_us is None or file.max_time_us >= self.from_us) and (
            self.before_us is None or file.min_time_us < self.before_us
        )


def read_groups(run: Path, classes: Collection[str] | None = None, chosen: RowFilter | None = None) -> Iterator[Rows]:
    """Yield the stored rows that the filter selects, row group by row group."""
    for _, path, opened, group in _groups(run, classes, chosen):
        rows = rows_of(read_group(opened, group, path))
        yield rows if chosen is None else chosen.select(rows)


def _groups(
    run: Path, classes: Collection[str] | None, chosen: RowFilter | None
) -> Iterator[tuple[int, Path, ParquetFile, int]]:
    """Yield each row group, file by file: its first time, the path, the open file and the number of the group."""
    manifest = load_manifest(run)
    total = sum(file.rows for file in manifest.trace.files)
    if manifest.complete and total != manifest.trace.rows:
        raise RunFolderError(f"{run}: the files hold {total} rows, the manifest says {manifest.trace.rows}")
    for file in manifest.trace.files:
        if (classes is not None and file.trace_class not in classes) or (chosen and not chosen.may_match(file)):
            continue
        path = run / file.name
        opened = open_trace_file(path)
        if opened.metadata.num_rows != file.rows:
            raise RunFolderError(f"{path}: {opened.metadata.num_rows} rows instead of {file.rows}")
        for group in range(opened.num_row_groups):
            times: Any = opened.metadata.row_group(group).column(Column.TIME_US).statistics
            yield times.min if times and times.has_min_max else file.min_time_us, path, opened, group


def _first_rows(run: Path, count: int, classes: Collection[str] | None, chosen: RowFilter) -> Rows:
    """Return the first `count` rows in canonical order. Row groups that begin after the last of them are not read."""
    rows = no_rows()
    for since_us, path, opened, group in sorted(_groups(run, classes, chosen), key=itemgetter(0)):
        if len(rows) >= count and since_us > rows[:, Column.TIME_US].max():
            break
        rows = np.concatenate((rows, chosen.select(rows_of(read_group(opened, group, path)))))
        if len(rows) > count:
            times = rows[:, Column.TIME_US]
            rows = canonical(rows[times <= np.partition(times, count - 1)[count - 1]])[:count]
    return canonical(rows)


def read_rows(run: Path, classes: Collection[str] | None = None, derive: bool = False) -> Rows:
    """Return the rows of these classes (None: all); `derive` adds derived rows."""
    rows = _joined(read_groups(run, classes))
    return with_derived(rows) if derive else rows


class Conditions(TypedDict, total=False):
    """Conditions on rows. A row must meet all of them; None or a missing key is no condition. Peers and topics are
    given by number or name."""

    classes: Collection[str] | None
    events: Collection[TraceEvent] | None
    kinds: Collection[int] | None
    peers: Collection[int | str] | None
    remotes: Collection[int | str] | None
    topics: Collection[int | str] | None
    messages: Collection[int] | None
    from_us: int | None
    before_us: int | None
    derive: bool
    """True to add derived rows."""
    first: int
    """Maximum number of rows; the first ones are returned."""


def chosen_rows(run: Path, **wanted: Unpack[Conditions]) -> Rows:
    """Return the rows that meet the conditions, in canonical order."""
    names = load_names(run)
    peers, remotes, topics = wanted.get("peers"), wanted.get("remotes"), wanted.get("topics")
    messages, classes = wanted.get("messages"), wanted.get("classes")
    chosen = RowFilter(
        wanted.get("events"),
        wanted.get("kinds"),
        None if peers is None else {names.find_peer(peer) for peer in peers},
        None if remotes is None else {names.find_peer(peer) for peer in remotes},
        None if topics is None else {names.find_topic(topic) for topic in topics},
        messages,
        wanted.get("from_us"),
        wanted.get("before_us"),
    )
    first = wanted.get("first")
    if not wanted.get("derive"):
        if first is not None:
            return _first_rows(run, first, classes, chosen)
        return canonical(_joined(read_groups(run, classes, chosen)))
    rows = no_rows()
    for trace_class in classes or CLASSES:
        whole = _joined(read_groups(run, {trace_class}, RowFilter(messages=messages)))
        rows = np.concatenate((rows, chosen.select(with_derived(whole))))
    return canonical(rows)[:first]


def iter_rows(run: Path, **wanted: Unpack[Conditions]) -> Iterator[TraceRow]:
    """Yield the rows that `chosen_rows` selects, as `TraceRow`."""
    rows = chosen_rows(run, **wanted)
    for start in range(0, len(rows), _BLOCK):
        for codes in rows[start : start + _BLOCK].tolist():
            yield TraceRow.from_codes(codes)


def _joined(groups: Iterator[Rows]) -> Rows:
    return np.concatenate([no_rows(), *groups])
