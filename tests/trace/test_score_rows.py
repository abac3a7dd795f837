"""Scores in traces: the column `bytes` has the bits of a float64."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows_strategy import as_rows
from written_runs import write_run

from hearsay.core.shell.guarantees import PeerParts, ScoreParts, TopicParts
from hearsay.trace.compare_runs import verify
from hearsay.trace.language.schema import (
    CLASSES,
    Column,
    TraceEvent,
    TraceRow,
    bits_of,
    class_of,
    number_of,
    score_rows,
)
from hearsay.trace.reader import read_rows, show

PARTS = ScoreParts(
    -7.25,
    PeerParts(0.1, -5.0, 0.0, -2.0, -0.35),
    (("a", TopicParts(0.5, 0.0, -0.0, 0.0, 0.0)), ("b", TopicParts(1.0, 2.0, -3.0, -4.0, -5.0))),
)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_bits_keep_the_number_and_are_never_minus_one(number):
    bits = bits_of(number)
    assert number_of(bits) == number
    assert -(2**63) <= bits < 2**63
    assert bits != -1


def test_minus_zero_becomes_zero():
    assert bits_of(-0.0) == bits_of(0.0) == 0


def test_a_score_and_its_parts_that_are_not_zero_have_rows():
    rows = list(score_rows(9, 3, 4, PARTS, {"a": 0, "b": 1}))
    found = [(TraceEvent(row[Column.EVENT]).name, row[Column.TOPIC], number_of(row[Column.BYTES])) for row in rows]
    assert found == [
        ("SCORE", -1, -7.25),
        ("SCORE_TOPICS", -1, 0.1),
        ("SCORE_P5", -1, -5.0),
        ("SCORE_P7", -1, -2.0),
        ("SCORE_SLOW", -1, -0.35),
        ("SCORE_P1", 0, 0.5),
        ("SCORE_P1", 1, 1.0),
        ("SCORE_P2", 1, 2.0),
        ("SCORE_P3", 1, -3.0),
        ("SCORE_P3B", 1, -4.0),
        ("SCORE_P4", 1, -5.0),
    ]
    assert {row[:4:3] + row[4:5] for row in rows} == {(9, 3, 4)}


def test_score_rows_have_their_own_class(tmp_path):
    rows = as_rows([*score_rows(9, 3, 4, PARTS, {"a": 0, "b": 1})])
    write_run(tmp_path / "run", rows, 3)
    assert CLASSES[4] == class_of(TraceEvent.SCORE_P4, -1) == "score"
    assert [entry.name for entry in (tmp_path / "run" / "trace").iterdir()] == ["class=score"]
    back = read_rows(tmp_path / "run", {"score"})
    assert sorted(map(tuple, back.tolist())) == sorted(map(tuple, rows.tolist()))
    assert verify(tmp_path / "run") == []
    numbers = np.ascontiguousarray(back[:, Column.BYTES]).view(np.float64)
    assert sorted(numbers.tolist())[:2] == [-7.25, -5.0]


def test_other_events_have_no_values_below_minus_one(tmp_path):
    row = [9, int(TraceEvent.STATE), -1, 3, -1, -1, -1, -1, -2, 1, -1, -1, -1]
    with pytest.raises(ValueError, match="bytes -2 is out of range"):
        write_run(tmp_path / "run", as_rows([tuple(row)]), 1)


def test_show_prints_a_score_as_a_number():
    row = TraceRow(2_000_000, TraceEvent.SCORE_P3B, None, 3, 4, topic=1, bytes=bits_of(-0.1))
    assert " ".join(show(row).split()) == "2.000000s node 3 score p3b ↔ 4 topic 1 -0.1"
    assert struct.unpack("<d", struct.pack("<q", row.bytes))[0] == -0.1
