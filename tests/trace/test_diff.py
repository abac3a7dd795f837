"""Comparison of traces: `diff_runs` finds the first time at which two runs have different rows."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from rows_strategy import as_rows, many_rows, row_codes
from written_runs import SMALL, write_run

from hearsay.trace.compare_runs import diff_rows, diff_runs, render
from hearsay.trace.language.schema import Column, TraceEvent


def test_the_order_of_rows_is_no_difference(tmp_path):
    rows = many_rows(3000, seed=1)
    write_run(tmp_path / "a", rows, **SMALL)
    write_run(tmp_path / "b", rows[::-1])
    assert diff_runs(tmp_path / "a", tmp_path / "b") is None


def test_the_first_divergence_is_shown_with_earlier_rows(tmp_path):
    rows = many_rows(3000, seed=2)
    rows[:, Column.TIME_US] = np.arange(3000)
    rows[:, Column.PEER], rows[:, Column.REMOTE] = np.arange(3000) % 10, -1
    changed = rows.copy()
    changed[2000, Column.BYTES] += 1
    changed[2500, Column.BYTES] += 1
    changed = np.delete(changed, 2700, axis=0)
    write_run(tmp_path / "a", rows)
    write_run(tmp_path / "b", np.random.default_rng(1).permutation(changed))
    difference = diff_runs(tmp_path / "a", tmp_path / "b", context=3)
    assert difference is not None
    assert difference.time_us == 2000
    assert [row.to_codes() for row in difference.a.only] == [tuple(rows[2000])]
    assert [row.to_codes() for row in difference.b.only] == [tuple(changed[2000])]
    assert [row.time_us for row in difference.a.before] == [1970, 1980, 1990]
    assert [row.time_us for row in difference.b.before] == [1970, 1980, 1990]
    assert sum(count[0] for count in difference.counts.values()) == 3
    assert sum(count[1] for count in difference.counts.values()) == 2
    text = render(difference)
    assert "The runs diverge at 0.002000s." in text
    assert text.count("\n- ") == text.count("\n+ ") == 1


def test_a_repeated_row_is_a_difference(tmp_path):
    rows = many_rows(100, seed=3)
    write_run(tmp_path / "a", rows)
    write_run(tmp_path / "b", np.concatenate((rows, rows[40:41])))
    difference = diff_runs(tmp_path / "a", tmp_path / "b")
    assert difference is not None
    assert (difference.a.only, [row.to_codes() for row in difference.b.only]) == ((), [tuple(rows[40])])


def test_a_difference_keeps_at_most_limit_rows(tmp_path):
    rows = many_rows(100, seed=4)
    rows[:, Column.TIME_US], rows[:, Column.EVENT] = 1, TraceEvent.JOIN
    write_run(tmp_path / "a", rows)
    write_run(tmp_path / "b", rows[:0])
    difference = diff_runs(tmp_path / "a", tmp_path / "b", limit=5)
    assert difference is not None
    assert (len(difference.a.only), difference.a.total, difference.b.total) == (5, 100, 0)
    assert "… and 95 more" in render(difference)


@given(st.lists(row_codes, max_size=12), st.lists(row_codes, max_size=4), st.lists(row_codes, max_size=4))
def test_a_difference_equals_that_of_counters(common, more_a, more_b):
    a, b = Counter(common + more_a), Counter(common + more_b)
    only_a, only_b = a - b, b - a
    with TemporaryDirectory() as directory:
        path = Path(directory)
        write_run(path / "a", as_rows(list(a.elements())), **SMALL)
        write_run(path / "b", as_rows(list(b.elements())), **SMALL)
        difference = diff_runs(path / "a", path / "b")
    assert difference == diff_rows(as_rows(list(a.elements())), as_rows(list(b.elements())))
    if not only_a and not only_b:
        assert difference is None
        return
    assert difference is not None
    first = min(row[0] for row in (only_a | only_b))
    assert difference.time_us == first
    for found, expected in ((difference.a.only, only_a), (difference.b.only, only_b)):
        assert Counter(row.to_codes() for row in found) == Counter(
            {row: count for row, count in expected.items() if row[0] == first}
        )
    for event, count in difference.counts.items():
        assert count[0] == sum(number for row, number in only_a.items() if row[1] == event)
        assert count[1] == sum(number for row, number in only_b.items() if row[1] == event)
