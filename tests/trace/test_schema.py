"""The schema of traces: rows and their codes, the classes of events, and the page about traces."""

from __future__ import annotations

import subprocess
import sys
from enum import IntEnum
from pathlib import Path

import pytest
import row_functions
from hypothesis import given
from rows_strategy import row_codes

from hearsay.core.language.actions import Reason, Via
from hearsay.trace.language import event_rows, schema
from hearsay.trace.language.rows import RowBuffer
from hearsay.trace.language.schema import COLUMNS, Column, PartKind, TraceEvent, TraceRow, class_of, formed_row

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "trace.md"


@given(row_codes)
def test_a_row_keeps_its_codes(codes):
    assert TraceRow.from_codes(codes).to_codes() == codes


def test_the_columns_are_the_fields_of_a_row():
    assert tuple(TraceRow.__dataclass_fields__) == COLUMNS
    assert [column.name.lower() for column in Column] == list(COLUMNS)


def test_none_becomes_minus_one_and_zero_stays():
    row = TraceRow(0, TraceEvent.PUBLISH, peer=0, topic=0, message=0, hops=0)
    assert row.to_codes() == (0, 0, -1, 0, -1, 0, 0, 0, -1, -1, -1, -1, -1)


@pytest.mark.parametrize(
    ("event", "kind", "trace_class"),
    [
        (TraceEvent.SEND_RPC, PartKind.PUBLISH, "message"),
        (TraceEvent.DROP_RPC, PartKind.PUBLISH, "message"),
        (TraceEvent.RECV_RPC, PartKind.IHAVE, "rpc"),
        (TraceEvent.SEND_RPC, -1, "rpc"),
        (TraceEvent.DUPLICATE, -1, "message"),
        (TraceEvent.GRAFT, -1, "mesh"),
        (TraceEvent.STATE, -1, "node"),
    ],
)
def test_class_of(event, kind, trace_class):
    assert class_of(event, kind) == trace_class


def test_event_names_are_those_of_go_libp2p_pubsub():
    names = [schema.wire_name(event) for event in TraceEvent]
    assert names[:4] == ["publish", "deliver", "duplicate", "reject"]
    assert names[4:9] == ["add_peer", "remove_peer", "recv_rpc", "send_rpc", "drop_rpc"]


def test_a_buffer_keeps_its_array_and_hands_out_copies():
    buffer = RowBuffer()
    extend = buffer.values.extend
    extend(range(13))
    extend(range(13, 26))
    rows = buffer.to_numpy()
    buffer.clear()
    extend(range(13))
    assert len(buffer) == 1
    assert rows.tolist() == [list(range(13)), list(range(13, 26))]


def test_the_schema_loads_without_heavy_libraries():
    code = f"import sys, {schema.__name__}; sys.exit(bool({{'numpy', 'pyarrow'}} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_functions_that_make_rows_are_made_from_the_schema():
    assert row_functions.FILE.read_text(encoding="utf-8") == row_functions.text(), (
        "run `python tools/row_functions.py`"
    )


@pytest.mark.parametrize("event", TraceEvent)
def test_a_row_fills_the_columns_that_are_declared(event):
    columns = schema.FORMS[event].columns
    values = range(100, 101 + len(columns))
    codes = formed_row(event, *values)
    filled = dict(zip((Column.TIME_US, *columns), values, strict=True))
    if event in row_functions.EVENTS:
        part = [column for column in row_functions.PART if set(row_functions.PART) <= set(columns)]
        arguments: list[object] = [value for column, value in filled.items() if column not in part]
        if part:
            arguments.insert(3, tuple(filled[column] for column in part))
        assert getattr(event_rows, f"{schema.wire_name(event)}_row")(*arguments) == codes
    assert codes == tuple({Column.EVENT: int(event), **filled}.get(column, -1) for column in Column)


def joined_names(codes: type[IntEnum]) -> str:
    return ", ".join(map(schema.wire_name, codes))


def test_the_page_of_the_trace_names_every_event_kind_via_and_reason():
    page = PAGE.read_text(encoding="utf-8")
    assert f"|`kind`|the part of an RPC: {joined_names(PartKind)}|" in page
    assert f"|`via`|why a copy was sent: {joined_names(Via)}|" in page
    assert f"\nReasons: {joined_names(Reason)}.\n" in page
    classes = {"rpc": "message if `kind` is publish, else rpc"}
    rows = [
        f"|`{schema.wire_name(event)}`|{classes.get(form.trace_class, form.trace_class)}|{form.meaning}|"
        for event, form in schema.FORMS.items()
    ]
    assert "\n".join(["|event|class|meaning|", "|-|-|-|", *rows]) in page
