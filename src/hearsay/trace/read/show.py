"""Rows as lines for people, one line each whatever the names hold."""

from __future__ import annotations

from hearsay.text.escape import escape
from hearsay.trace.language.schema import FORMS, PartKind, TraceEvent, TraceRow, Via, wire_name
from hearsay.trace.language.score_rows import number_of
from hearsay.trace.read.names import Names

_ARROWS = {
    TraceEvent.SEND_RPC: "→",
    TraceEvent.DROP_RPC: "⇥",
    TraceEvent.RECV_RPC: "←",
    TraceEvent.DELIVER: "←",
    TraceEvent.DUPLICATE: "←",
    TraceEvent.REJECT: "←",
}


def show(row: TraceRow, names: Names | None = None) -> str:
    """The row as a line."""
    known = names or Names()
    words = [f"{show_time(row.time_us)}  {_node(row.peer, known):<9}", _what(row)]
    if row.remote is not None:
        words.append(f"{_ARROWS.get(row.event, '↔')} {escape(known.peer(row.remote))}")
    details: list[str] = []
    if row.topic is not None:
        details.append(f"topic {escape(known.topic(row.topic))}")
    if row.message is not None:
        details.append(f"message {row.message}")
    if row.hops is not None:
        details.append(f"hops {row.hops}")
    if row.count is not None:
        details.append(f"count {row.count}")
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
    """Seconds with all six decimals, aligned up to a day or so."""
    return f"{time_us // 1_000_000:>5}.{time_us % 1_000_000:06d}s"


def _node(peer: int | None, names: Names) -> str:
    return "" if peer is None else f"node {escape(names.peer(peer))}"


def _what(row: TraceRow) -> str:
    verb = row.event.name.lower().removesuffix("_rpc").replace("_", " ")
    return verb if row.kind is None else f"{verb} {_readable(row.kind)}"


def _readable(code: PartKind | Via) -> str:
    return wire_name(code).replace("_", "-")
