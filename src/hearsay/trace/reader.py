"""Functions that read the rows of a run and the names of its peers and topics, and that show rows as lines of text.

Rules:

* Only the trace files that the manifest names are read. The dictionaries of names are read without a manifest.
* `read_rows` returns rows as integers, in the order of the files. `iter_rows` yields each row as `TraceRow`, in
  canonical order.
* A filter is applied row group by row group, so that a few rows of a large run need little memory. But rows are
  derived from whole classes: before the derivation, only the condition on messages is applied.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from hearsay.text import escape
from hearsay.trace.folder.arrow import ParquetFile, open_trace_file, read_group, read_table, rows_of
from hearsay.trace.folder.manifest import RunFolderError, TraceFile, load_manifest
from hearsay.trace.folder.run_folder import dictionary_file
from hearsay.trace.language.rows import Rows, canonical, no_rows, with_derived
from hearsay.trace.language.schema import (
    CLASSES,
    FORMS,
    Column,
    PartKind,
    TraceEvent,
    TraceRow,
    Via,
    number_of,
    wire_name,
)

SHORTENED = "…"
"""The text that replaces the beginning of a shortened name."""
_MAX_NAME_LENGTH, _SHOWN_LENGTH = 24, 8
_ARROWS = {
    TraceEvent.SEND_RPC: "→",
    TraceEvent.DROP_RPC: "⇥",
    TraceEvent.RECV_RPC: "←",
    TraceEvent.DELIVER: "←",
    TraceEvent.DUPLICATE: "←",
    TraceEvent.REJECT: "←",
}
_BLOCK = 65_536


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Conditions on rows; None is no condition. A row must meet all conditions.

    The value in a column must be one of the given values. The time must be at least `from_us` and less than
    `before_us`, in microseconds.
    """

    events: Collection[TraceEvent] | None = None
    kinds: Collection[int] | None = None
    peers: Collection[int | str] | None = None
    """Numbers; in a filter for `chosen_rows` or `iter_rows` also names.

    The same is true of `remotes` and `topics`.
    """
    remotes: Collection[int | str] | None = None
    topics: Collection[int | str] | None = None
    messages: Collection[int] | None = None
    from_us: int | None = None
    before_us: int | None = None

    def numbered(self, names: Names) -> RowFilter:
        """Return the filter with numbers in place of names. Raises `RunFolderError` for an unknown name."""
        peers = None if self.peers is None else {names.find_peer(peer) for peer in self.peers}
        remotes = None if self.remotes is None else {names.find_peer(peer) for peer in self.remotes}
        topics = None if self.topics is None else {names.find_topic(topic) for topic in self.topics}
        return replace(self, peers=peers, remotes=remotes, topics=topics)

    def select(self, rows: Rows) -> Rows:
        """Return the rows that meet all conditions. The filter must have no names."""
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
        """Return True if rows of a file may be in the interval of the filter, according to the manifest."""
        return (self.from_us is None or file.max_time_us >= self.from_us) and (
            self.before_us is None or file.min_time_us < self.before_us
        )


def read_rows(run: Path, classes: Collection[str] | None = None, derive: bool = False) -> Rows:
    """Return the rows of these classes (None: all). If `derive`, add the rows that are derived from these rows."""
    rows = _joined(read_groups(run, classes))
    return with_derived(rows) if derive else rows


def chosen_rows(
    run: Path,
    chosen: RowFilter,
    classes: Collection[str] | None = None,
    *,
    derive: bool = False,
    first: int | None = None,
) -> Rows:
    """Return the rows of these classes (None: all) that the filter selects, in canonical order.

    If `derive`, the filter also selects from the derived rows. If `first` is given, return only the first `first`
    rows.
    """
    chosen = chosen.numbered(load_names(run))
    if not derive:
        if first is not None:
            return _first_rows(run, first, classes, chosen)
        return canonical(_joined(read_groups(run, classes, chosen)))
    rows = no_rows()
    for trace_class in classes or CLASSES:
        whole = _joined(read_groups(run, {trace_class}, RowFilter(messages=chosen.messages)))
        rows = np.concatenate((rows, chosen.select(with_derived(whole))))
    return canonical(rows)[:first]


def iter_rows(
    run: Path, chosen: RowFilter | None = None, *, derive: bool = False, first: int | None = None
) -> Iterator[TraceRow]:
    """Yield the rows that `chosen_rows` returns, as `TraceRow`. Without a filter, yield all rows."""
    rows = chosen_rows(run, chosen or RowFilter(), derive=derive, first=first)
    for start in range(0, len(rows), _BLOCK):
        for codes in rows[start : start + _BLOCK].tolist():
            yield TraceRow.from_codes(codes)


def read_groups(run: Path, classes: Collection[str] | None = None, chosen: RowFilter | None = None) -> Iterator[Rows]:
    """Yield the stored rows of these classes (None: all) that the filter selects, row group by row group.

    Raises `RunFolderError` if a file cannot be read or does not have the number of rows in the manifest.
    """
    for _, path, opened, group in _groups(run, classes, chosen):
        rows = rows_of(read_group(opened, group, path))
        yield rows if chosen is None else chosen.select(rows)


def _groups(
    run: Path, classes: Collection[str] | None, chosen: RowFilter | None
) -> Iterator[tuple[int, Path, ParquetFile, int]]:
    """Yield each row group, file by file: its earliest time, the path of its file, the open file and its number."""
    manifest = load_manifest(run)
    if manifest.row_problem is not None:
        raise RunFolderError(f"{run}: {manifest.row_problem}")
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
    """Return the first `count` rows in canonical order that the filter selects.

    Row groups whose earliest time is after the last of these rows are not read.
    """
    rows = no_rows()
    for since_us, path, opened, group in sorted(_groups(run, classes, chosen), key=itemgetter(0)):
        if len(rows) >= count and since_us > rows[:, Column.TIME_US].max():
            break
        rows = np.concatenate((rows, chosen.select(rows_of(read_group(opened, group, path)))))
        if len(rows) > count:
            times = rows[:, Column.TIME_US]
            rows = canonical(rows[times <= np.partition(times, count - 1)[count - 1]])[:count]
    return canonical(rows)


def _joined(groups: Iterator[Rows]) -> Rows:
    return np.concatenate([no_rows(), *groups])


@dataclass(frozen=True, slots=True)
class Names:
    """The names of peers and topics by number. A peer or topic without a name is shown as its number."""

    peers: Mapping[int, str] = field(default_factory=dict[int, str])
    topics: Mapping[int, str] = field(default_factory=dict[int, str])

    def peer(self, peer: int) -> str:
        return self.peers.get(peer, str(peer))

    def short_peer(self, peer: int) -> str:
        """Return the escaped name of a peer, or the end of it after an ellipsis if the name is long.

        The option `--node` of `hearsay explain` accepts both.
        """
        name = escape(self.peer(peer))
        return name if len(name) <= _MAX_NAME_LENGTH else f"{SHORTENED}{name[-_SHOWN_LENGTH:]}"

    def topic(self, topic: int) -> str:
        return self.topics.get(topic, str(topic))

    def find_peer(self, wanted: int | str) -> int:
        """Return the number of the peer with this name or number. Raises `RunFolderError` for an unknown name.

        A number is returned even if no peer has it.
        """
        return _find(self.peers, wanted, "peer")

    def find_topic(self, wanted: int | str) -> int:
        """Return the number of the topic with this name or number. Raises `RunFolderError` for an unknown name.

        A number is returned even if no topic has it.
        """
        return _find(self.topics, wanted, "topic")


def load_names(run: Path) -> Names:
    """Return the names in the dictionaries of a run. If a dictionary is missing, there are no names of its kind."""
    return Names(_load(run, "peers", "peer"), _load(run, "topics", "topic"))


def known_numbers(run: Path, dictionary: str, key: str) -> frozenset[int] | None:
    """Return the numbers in a run's dictionary of peers, topics or messages; None if the dictionary is missing."""
    path = dictionary_file(run, dictionary)
    return frozenset(read_table(path, [key])[key]) if path.exists() else None


def _load(run: Path, dictionary: str, key: str) -> dict[int, str]:
    path = dictionary_file(run, dictionary)
    if not path.exists():
        return {}
    table = read_table(path, [key], ["name"])
    pairs = zip(table[key], table["name"], strict=True)
    return {number: name for number, name in pairs if number is not None and name is not None}


def _find(names: Mapping[int, str], wanted: int | str, what: str) -> int:
    if isinstance(wanted, int):
        return wanted
    for number, name in names.items():
        if name == wanted:
            return number
    if wanted.isdecimal():
        return int(wanted)
    raise RunFolderError(f"no {what} is called {wanted!r} in this run")


def show(row: TraceRow, names: Names | None = None) -> str:
    """Return a row as a line. Peers and topics without a name in `names` are shown as numbers."""
    known = names or Names()
    words = [f"{show_time(row.time_us)}  {_node(row.peer, known):<9}", _what(row)]
    if row.remote is not None:
        words.append(f"{_ARROWS.get(row.event, '↔')} {escape(known.peer(row.remote))}")
    details = [] if row.topic is None else [f"topic {escape(known.topic(row.topic))}"]
    numbers = ("message", row.message), ("hops", row.hops), ("count", row.count)
    details += [f"{name} {number}" for name, number in numbers if number is not None]
    if row.via is not None:
        details.append(f"via {_readable(row.via)}")
    if row.reason is not None:
        details.append(f"reason {wire_name(row.reason).replace('_', ' ')}")
    if row.bytes is not None and FORMS[row.event].trace_class == "score":
        details.append(f"{number_of(row.bytes):.6g}")
    elif row.bytes is not None:
        details.append(f"{row.bytes} B")
    if row.delay_us is not None:
        details.append(f"({row.delay_us // 1000}.{row.delay_us % 1000 // 100} ms)")
    return "  ".join([f"{words[0]} {' '.join(words[1:]):<24}", *details]).rstrip()


def show_time(time_us: int) -> str:
    """Return a time as text: seconds with six decimals. Times below 100,000 s have texts of the same length."""
    return f"{time_us // 1_000_000:>5}.{time_us % 1_000_000:06d}s"


def _node(peer: int | None, names: Names) -> str:
    return "" if peer is None else f"node {escape(names.peer(peer))}"


def _what(row: TraceRow) -> str:
    verb = row.event.name.lower().removesuffix("_rpc").replace("_", " ")
    return verb if row.kind is None else f"{verb} {_readable(row.kind)}"


def _readable(code: PartKind | Via) -> str:
    return wire_name(code).replace("_", "-")
