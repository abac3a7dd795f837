"""Comparisons: a run folder with its manifest (`verify`), and two runs with each other (`diff_runs`).

`verify` compares the checksums of all files and the row counts of trace files, and finds trace files that are not in
the manifest. The difference of two runs is the time at which they diverge, and the rows that differ then.

Rules of the comparison of two runs:

* Runs are compared as multisets of stored rows: the order of rows in files does not matter.
* The first divergence is the earliest time at which the multisets differ. Later differences are mostly consequences
  of the first divergence, so only their number is reported.
* The classes of rows are compared one after the other, so that only one class of both runs is in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path

import numpy as np

from hearsay.foreign_files import open_regular
from hearsay.trace.folder.arrow import open_trace_file
from hearsay.trace.folder.manifest import Manifest, OtherFile, RunFolderError, TraceFile, load_manifest
from hearsay.trace.language.rows import CANONICAL, Rows, canonical, group_ids, no_rows
from hearsay.trace.language.schema import CLASSES, NONE, Column, TraceEvent, TraceRow, class_folder, wire_name
from hearsay.trace.reader import Names, RowFilter, read_groups, read_rows, show, show_time

_Groups = Callable[[RowFilter], Iterable[Rows]]
"""A function that returns those rows of one of the two runs that a filter selects."""


def verify(path: Path) -> list[str]:
    """Return a line for each problem of the run in `path`. Raises `RunFolderError` without a usable manifest.

    Rows are counted only if all checksums are right and the manifest lists all trace files.
    """
    manifest = load_manifest(path)
    files = (*manifest.trace.files, *manifest.others)
    changed = [f"{file.name}: {problem}" for file in files if (problem := _problem_of(path / file.name, file))]
    return [*changed, *_unlisted(path, manifest)] or list(_wrong_contents(path, manifest))


def size_problems(path: Path, manifest: Manifest) -> list[str]:
    """Return a line for each trace file that is missing or inaccessible, or has another size than in the manifest. No
    file is read."""
    files = manifest.trace.files
    return [f"{file.name}: {problem}" for file in files if (problem := _size_problem_of(path / file.name, file))]


def _problem_of(path: Path, file: TraceFile | OtherFile) -> str | None:
    problem = _size_problem_of(path, file)
    if problem is not None:
        return problem
    try:
        with open_regular(path) as opened:
            if file_digest(opened, "sha256").hexdigest() != file.sha256:
                return "changed, its checksum differs"
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return None


def _size_problem_of(path: Path, file: TraceFile | OtherFile) -> str | None:
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return "missing"
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return None if size == file.bytes else f"changed, {size} bytes instead of {file.bytes}"


def _unlisted(path: Path, manifest: Manifest) -> Iterator[str]:
    listed = {file.name for file in manifest.trace.files}
    for trace_class in CLASSES:
        for file in sorted((path / class_folder(trace_class)).glob("part-*.parquet")):
            name = f"{class_folder(trace_class)}/{file.name}"
            if name not in listed:
                yield f"{name}: not in the manifest"


def _wrong_contents(path: Path, manifest: Manifest) -> Iterator[str]:
    for file in manifest.trace.files:
        try:
            opened = open_trace_file(path / file.name)
        except RunFolderError as error:
            yield str(error)
            continue
        rows = int(opened.metadata.num_rows)
        if rows != file.rows:
            yield f"{file.name}: {rows} rows instead of {file.rows}"
    if manifest.row_problem is not None:
        yield manifest.row_problem


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two runs at the first divergence."""

    only: tuple[TraceRow, ...]
    """The first rows, in canonical order, that only this run has at this time."""
    total: int
    """The number of all rows that only this run has at this time."""
    before: tuple[TraceRow, ...]
    """The last earlier rows of this run about the same nodes: the peer of each row is the peer or the remote peer of
    a row in `only` of one of the two sides."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first divergence of two runs, and the numbers of all rows that differ."""

    time_us: int
    a: Side
    b: Side
    counts: Mapping[TraceEvent, tuple[int, int]]
    """By event: the number of rows that only run A has, and the number of rows that only run B has."""


def diff_runs(a: Path, b: Path, *, context: int = 10, limit: int = 20) -> Difference | None:
    """Return how run `b` differs from run `a`; None if their traces are equal.

    Each side has at most `limit` rows of the divergence, and at most `context` rows before it.
    """
    pairs = ((read_rows(a, {trace_class}), read_rows(b, {trace_class})) for trace_class in CLASSES)
    groups: tuple[_Groups, _Groups] = (
        lambda chosen: read_groups(a, chosen=chosen),
        lambda chosen: read_groups(b, chosen=chosen),
    )
    return _difference(pairs, groups, context, limit)


def diff_rows(a: Rows, b: Rows, *, context: int = 10, limit: int = 20) -> Difference | None:
    """Return how two traces in memory differ, as `diff_runs` does for run folders."""
    groups: tuple[_Groups, _Groups] = (lambda chosen: [chosen.select(a)], lambda chosen: [chosen.select(b)])
    return _difference([(a, b)], groups, context, limit)


def _difference(
    pairs: Iterable[tuple[Rows, Rows]], groups: tuple[_Groups, _Groups], context: int, limit: int
) -> Difference | None:
    counts = np.zeros((2, len(TraceEvent)), dtype=np.int64)
    first_a, first_b = no_rows(), no_rows()
    for a, b in pairs:
        only_a, only_b = _one_sided(a, b)
        for side, rows in enumerate((only_a, only_b)):
            counts[side] += np.bincount(rows[:, Column.EVENT], minlength=len(TraceEvent))
        first_a, first_b = np.concatenate((first_a, only_a)), np.concatenate((first_b, only_b))
        first_a, first_b = _earliest(first_a, first_b)
    if not len(first_a) and not len(first_b):
        return None
    time_us = int(np.concatenate((first_a, first_b))[0, Column.TIME_US])
    shown_a, shown_b = canonical(first_a)[:limit], canonical(first_b)[:limit]
    shown = np.concatenate((shown_a, shown_b))
    peers = set(shown[:, [Column.PEER, Column.REMOTE]].ravel().tolist()) - {NONE}
    chosen = RowFilter(peers=peers, before_us=time_us)
    before_a, before_b = (_last(of_side(chosen), context) for of_side in groups)
    return Difference(
        time_us,
        Side(_readable(shown_a), len(first_a), _readable(before_a)),
        Side(_readable(shown_b), len(first_b), _readable(before_b)),
        {event: (int(counts[0, event]), int(counts[1, event])) for event in TraceEvent if counts[:, event].any()},
    )


def render(difference: Difference, names: Names | None = None) -> str:
    """Return the difference as text. Without `names`, peers and topics are shown as numbers."""
    lines = [f"The runs diverge at {show_time(difference.time_us).strip()}."]
    for name, sign, side in (("A", "-", difference.a), ("B", "+", difference.b)):
        lines += ["", f"Only in {name} at that time: {side.total} rows"]
        lines += [f"{sign} {show(row, names)}" for row in side.only]
        if side.total > len(side.only):
            lines.append(f"{sign} … and {side.total - len(side.only)} more")
        if side.before:
            lines += [f"Before that in {name}, same nodes:", *(f"  {show(row, names)}" for row in side.before)]
    lines += ["", "Rows that differ in all:", f"  {'event':<20} {'only in A':>12} {'only in B':>12}"]
    lines += [f"  {wire_name(event):<20} {a:>12} {b:>12}" for event, (a, b) in difference.counts.items()]
    return "\n".join(lines) + "\n"


def _one_sided(a: Rows, b: Rows) -> tuple[Rows, Rows]:
    """Return the rows that only `a` has, and the rows that only `b` has. If one side has a row more often than the
    other, only the surplus is returned."""
    if not len(a) or not len(b):
        return a, b
    order, ids = group_ids([np.concatenate((a[:, column], b[:, column])) for column in CANONICAL])
    from_a = order < len(a)
    surplus = np.bincount(ids, weights=np.where(from_a, 1, -1)).astype(np.int64)
    return (
        a[_surplus_places(order[from_a], ids[from_a], surplus)],
        b[_surplus_places(order[~from_a], ids[~from_a], -surplus) - len(a)],
    )


def _surplus_places(places: np.ndarray, ids: np.ndarray, surplus: np.ndarray) -> np.ndarray:
    """Return the first places of each group of equal rows, as many as the surplus of the group.

    `ids` are the group numbers of `places`, in ascending order. `surplus` has the surplus of each group by its
    number; a surplus below 1 selects no place.
    """
    rank = np.arange(len(ids)) - np.searchsorted(ids, ids)
    return places[rank < surplus[ids]]


def _earliest(a: Rows, b: Rows) -> tuple[Rows, Rows]:
    times = np.concatenate((a[:, Column.TIME_US], b[:, Column.TIME_US]))
    if not len(times):
        return a, b
    first = times.min()
    return a[a[:, Column.TIME_US] == first], b[b[:, Column.TIME_US] == first]


def _last(groups: Iterable[Rows], count: int) -> Rows:
    rows = no_rows()
    for group in groups:
        rows = canonical(np.concatenate((rows, group)))[-count:] if count else rows
    return rows


def _readable(rows: Rows) -> tuple[TraceRow, ...]:
    return tuple(TraceRow.from_codes(codes) for codes in rows.tolist())
