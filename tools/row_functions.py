"""Writes `src/hearsay/trace/language/event_rows.py`, the functions that make trace rows, from the schema.

    python tools/row_functions.py

A test fails if the file differs from the output.
"""

from __future__ import annotations

from pathlib import Path

from hearsay.trace.language.schema import FORMS, Column, TraceEvent, wire_name

FILE = Path(__file__).parents[1] / "src" / "hearsay" / "trace" / "language" / "event_rows.py"
HEAD = '''"""Functions that make the rows of frequent events. Written by `tools/row_functions.py`, not by hand.

They are made from `schema.FORMS`, run by recorders and compiled for kernels, so that an event has the same columns
wherever it is written. `schema.py` makes the rows of all other events.
"""

from __future__ import annotations

from typing import TypeAlias

Codes: TypeAlias = tuple[int, int, int, int, int, int, int, int, int, int, int, int, int]
"""A row's 13 integers, in the order of `schema.Column`."""
Part: TypeAlias = tuple[int, int, int, int, int, int, int]
"""A part of an RPC: kind, topic, message, hops, bytes, count, via."""
'''
LINE = 118
EVENTS = (
    TraceEvent.PUBLISH,
    TraceEvent.DELIVER,
    TraceEvent.DUPLICATE,
    TraceEvent.REJECT,
    TraceEvent.ADD_PEER,
    TraceEvent.REMOVE_PEER,
    TraceEvent.RECV_RPC,
    TraceEvent.SEND_RPC,
    TraceEvent.DROP_RPC,
    TraceEvent.JOIN,
    TraceEvent.LEAVE,
    TraceEvent.GRAFT,
    TraceEvent.PRUNE,
    TraceEvent.NODE_UP,
    TraceEvent.NODE_DOWN,
    TraceEvent.STATE,
    TraceEvent.NEIGHBOR_UP,
    TraceEvent.NEIGHBOR_DOWN,
    TraceEvent.PASSIVE_ADD,
    TraceEvent.PASSIVE_REMOVE,
    TraceEvent.EAGER,
    TraceEvent.LAZY,
    TraceEvent.DIAL,
)
"""The events that kernels write, and those that a node records with every RPC."""
PART = (Column.KIND, Column.TOPIC, Column.MESSAGE, Column.HOPS, Column.BYTES, Column.COUNT, Column.VIA)
"""Columns of a part of an RPC, which functions take as one record."""
NAMES = {column: wire_name(column) for column in Column} | {Column.BYTES: "size"}


def function(event: TraceEvent) -> str:
    """Return the source of the function that makes the rows of an event."""
    columns = FORMS[event].columns
    has_part = set(PART) <= set(columns)
    single = [column for column in columns if not has_part or column not in PART]
    arguments = [f"{NAMES[column]}: int" for column in (Column.TIME_US, *single)]
    if has_part:
        arguments.insert(3, "part: Part")
    given = {Column.TIME_US: "time_us", Column.EVENT: str(int(event)), **{each: NAMES[each] for each in columns}}
    values = ", ".join(given.get(column, "-1") for column in Column)
    head = f"def {wire_name(event)}_row({', '.join(arguments)}) -> Codes:"
    if len(head) > LINE:
        inside = f"    {', '.join(arguments)}"
        lines = [inside] if len(inside) <= LINE else [f"    {argument}," for argument in arguments]
        head = "\n".join([f"def {wire_name(event)}_row(", *lines, ") -> Codes:"])
    unpacked = f"    {', '.join(NAMES[column] for column in PART)} = part\n" if has_part else ""
    return f"\n\n{head}\n{unpacked}    return {values}\n"


def text() -> str:
    return HEAD + "".join(map(function, EVENTS))


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
