"""The answers of an analysis as text: a table for several runs, a short list for one."""

from __future__ import annotations

from typing import Any

HEADS = (
    "run", "topic", "router", "delivered", "p50 ms", "p99 ms", "max ms", "hops", "copies", "control", "load max/mean",
    "state bytes",
)  # fmt: skip


def answers_text(lines: list[dict[str, Any]]) -> str:
    rows = [HEADS, *(_cells(line) for line in lines)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADS))]
    return "\n".join(_line(row, widths) for row in rows)


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    left = 3
    aligned = [cell.ljust(width) if index < left else cell.rjust(width)
               for index, (cell, width) in enumerate(zip(cells, widths, strict=True))]  # fmt: skip
    return "  ".join(aligned).rstrip()


def _cells(line: dict[str, Any]) -> tuple[str, ...]:
    latency, load, state = line["latency_ms"], line["bytes_out"], line["state_bytes"]
    return (
        str(line["run"]),
        _printable(str(line["topic"])),
        str(line["router"]),
        _number(line["delivery_ratio"], "{:.2%}"),
        _number(latency["p50"], "{:,.1f}"),
        _number(latency["p99"], "{:,.1f}"),
        _number(latency["max"], "{:,.1f}"),
        _number(line["hops"]["mean"], "{:.2f}"),
        _number(line["copies_per_delivery"], "{:.2f}"),
        _number(line["control_bytes_share"], "{:.1%}"),
        _number(load["max_over_mean"], "{:.2f}"),
        _number(state["mean"], "{:,.0f}"),
    )


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in text)[:40]
