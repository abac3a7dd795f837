"""The answers of an analysis as a table for the terminal: a line for each run and topic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, cast

from hearsay.text.numbers import figure, milliseconds, percent, size
from hearsay.text.text_table import prose, table_text

_Figure: TypeAlias = Callable[[dict[str, Any]], float | None]

_NAMES = ("run", "topic", "router")
_FIGURES: tuple[tuple[str, _Figure, Callable[[float], str]], ...] = (
    ("delivered", lambda line: line["delivery_ratio"], percent),
    ("p50", lambda line: line["latency_ms"]["p50"], milliseconds),
    ("p99", lambda line: line["latency_ms"]["p99"], milliseconds),
    ("max", lambda line: line["latency_ms"]["max"], milliseconds),
    ("hops", lambda line: line["hops"]["mean"], figure),
    ("copies", lambda line: line["copies_per_delivery"], figure),
    ("control", lambda line: line["control_bytes_share"], percent),
    ("sent per node", lambda line: line["bytes_out"]["mean"], size),
    ("of uplink", lambda line: _uplink_share(line), percent),
    ("load max/mean", lambda line: line["bytes_out"]["max_over_mean"], figure),
    ("state", lambda line: line["state_bytes"]["mean"], size),
)
_ONLY_WHERE_LIMITED = "of uplink"
_NOT_MEASURED = "n/m"
_OF_SEVERAL_TOPICS = "sent per node: of each topic its own parts; IWANT names no topic"
_MOST_LETTERS = 40


def answers_text(lines: list[dict[str, Any]]) -> str:
    """What no run tells apart (one topic, a router that the run is named after) is left out."""
    figures = [
        one for one in _FIGURES if one[0] != _ONLY_WHERE_LIMITED or any(one[1](line) is not None for line in lines)
    ]
    names = [name for name in _NAMES if name == "run" or not _says_nothing(name, lines)]
    head = [*names, *(title for title, *_ in figures)]
    rows = [
        [*(_printable(str(line[name])) for name in names), *(_cell(of(line), show) for _, of, show in figures)]
        for line in lines
    ]
    text = table_text(head, rows, left=len(names))
    notes: list[str] = []
    if len({line["run"] for line in lines}) < len(lines):
        notes.append(prose(_OF_SEVERAL_TOPICS))
    if any(_NOT_MEASURED in row for row in rows):
        notes.append("n/m: not measured")
    return "\n".join([text, *notes])


def _uplink_share(line: dict[str, Any]) -> float | None:
    """The mean over the nodes; an analysis of an earlier version does not know it."""
    share: Any = line.get("uplink_share")
    return cast("dict[str, float | None]", share)["mean"] if isinstance(share, dict) else share


def _says_nothing(name: str, lines: list[dict[str, Any]]) -> bool:
    if name == "router":
        return all(line["router"] == line["run"] for line in lines)
    return len({line[name] for line in lines}) == 1


def _cell(value: float | None, show: Callable[[float], str]) -> str:
    return _NOT_MEASURED if value is None else show(value)


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in text)[:_MOST_LETTERS]
