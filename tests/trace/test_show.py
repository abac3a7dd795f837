"""`show`: a row of a trace as one line of text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rows_strategy import row_codes

from hearsay.text import escape
from hearsay.trace.language.schema import PartKind, Reason, TraceEvent, TraceRow, Via
from hearsay.trace.reader import Names, show

SENT = TraceRow(
    5_063_211,
    TraceEvent.SEND_RPC,
    PartKind.PUBLISH,
    17,
    42,
    topic=0,
    message=3,
    hops=2,
    bytes=212,
    via=Via.MESH,
    delay_us=63_200,
)


def test_a_sent_message_is_shown_on_one_line():
    assert " ".join(show(SENT, Names(topics={0: "blocks"})).split()) == (
        "5.063211s node 17 send publish → 42 topic blocks message 3 hops 2 via mesh 212 B (63.2 ms)"
    )


def test_columns_align():
    lines = [show(SENT), show(TraceRow(99_000_000, TraceEvent.REJECT, None, 3, 4, topic=1, reason=Reason.QUEUE_FULL))]
    assert len({line.index("topic") for line in lines}) == 1
    assert len({line.index("node") for line in lines}) == 1


def test_control_characters_in_names_are_escaped():
    names = Names({17: "a\nb\x1b[31m", 42: "\u202ereversed"}, {0: "blöcke ブロック\r\n"})
    line = show(SENT, names)
    assert "node a\\nb\\x1b[31m" in line
    assert "→ \\u202ereversed" in line
    assert "topic blöcke ブロック\\r\\n" in line
    assert line.isprintable()


@given(st.text(st.characters(exclude_categories=[])))
def test_escaped_text_is_printable_and_backslashes_are_doubled(name):
    escaped = escape(name)
    assert escaped.isprintable()
    assert (escape("\\") in escaped) == ("\\" in name)


@given(row_codes)
def test_every_row_makes_one_line(codes):
    assert len(show(TraceRow.from_codes(codes)).splitlines()) == 1
