"""The comparison of two runs: where they diverge.

Rules:

* Runs are compared as multisets of stored rows: the order of rows within files does not count.
* The first divergence is the first time at which the multisets differ. Later differences are mostly consequences of
  it and only counted.
* Classes are compared one at a time, so memory holds one class of both runs, not both runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hearsay.trace.language.order import CANONICAL, canonical, group_ids
from hearsay.trace.language.rows import Rows, no_rows
from hearsay.trace.language.schema import CLASSES, NONE, Column, TraceEvent, TraceRow, wire_name
from hearsay.trace.read.reader import RowFilter, read_groups, read_rows
from hearsay.trace.read.show import Names, show, show_time

_Groups = Callable[[RowFilter], Iterable[Rows]]
"""Returns the rows of one of the two runs that a filter selects."""


@dataclass(frozen=True, slots=True)
class EventCount:
    """Numbers of rows of one event that only run A has, and that only run B has."""

    only_a: int
    only_b: int


@dataclass(frozen=True, slots=True)
class Difference:
    """The first divergence of two runs, and counts of all differences."""

    time_us: int
    only_a: tuple[TraceRow, ...]
    """Rows at `time_us` that only A has, at most `limit`, in canonical order; `only_a_at_time` counts all of them."""
    only_b: tuple[TraceRow, ...]
    only_a_at_time: int
    only_b_at_time: int
    before_a: tuple[TraceRow, ...]
    """The last rows before `time_us` in A that involve the peers of the rows shown."""
    before_b: tuple[TraceRow, ...]
    counts: Mapping[TraceEvent, EventCount]


def diff_runs(a: Path, b: Path, *, context: int = 10, limit: int = 20) -> Difference | None:
    """Return how run `b` differs from run `a`, with at most `limit` rows of each; None if they are equal."""
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
        _readable(shown_a),
        _readable(shown_b),
        len(first_a),
        len(first_b),
        _readable(before_a),
        _readable(before_b),
        {event: EventCount(*counts[:, event].tolist()) for event in TraceEvent if counts[:, event].any()},
    )


def render(difference: Difference, names: Names | None = None) -> str:
    """Return the difference as text."""
    lines = [f"The runs part at {show_time(difference.time_us).strip()}."]
    sides = (
        ("A", "-", difference.only_a, difference.only_a_at_time, difference.before_a),
        ("B", "+", difference.only_b, difference.only_b_at_time, difference.before_b),
    )
    for side, sign, rows, total, before in sides:
        lines += ["", f"Only in {side} at that time: {total} rows"]
        lines += [f"{sign} {show(row, names)}" for row in rows]
        if total > len(rows):
            lines.append(f"{sign} … and {total - len(rows)} more")
        if before:
            lines += [f"Before that in {side}, same nodes:", *(f"  {show(row, names)}" for row in before)]
    lines += ["", "In all:", f"  {'event':<20} {'only in A':>12} {'only in B':>12}"]
    lines += [
        f"  {wire_name(event):<20} {count.only_a:>12} {count.only_b:>12}"
        for event, count in difference.counts.items()
    ]
    return "\n".join(lines) + "\n"


def _one_sided(a: Rows, b: Rows) -> tuple[Rows, Rows]:
    """Return the rows that only `a` has and those that only `b` has, as multisets."""
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
    """Return the first of `places` of each group of equal rows, as many as the group's surplus.

    `ids` are the groups of `places`, in ascending order.
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
