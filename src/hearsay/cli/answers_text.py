"""The results of an analysis as a table for the terminal: a line for each run and topic."""

from __future__ import annotations

from typing import Any

from hearsay.metrics import Metric, shown_in, value_at, without_unknown
from hearsay.text.numbers import shown
from hearsay.text.text_table import prose, table_text

_NAMES = ("run", "topic", "router")
_NOT_MEASURED = "n/m"
_TOPIC_BYTES = "sent per node: of each topic its own parts; IWANT names no topic"
_MAX_NAME_LENGTH = 40


def answers_text(lines: list[dict[str, Any]]) -> str:
    """Return the table without columns that tell no runs apart: a single topic, a router that names its run."""
    known = (metric.name for metric in shown_in("terminal") for line in lines if value_at(line, metric) is not None)
    metrics = without_unknown(shown_in("terminal"), known)
    names = [name for name in _NAMES if name == "run" or not _is_redundant(name, lines)]
    head = [*names, *(metric.heading for metric in metrics)]
    rows = [
        [*(_printable(str(line[name])) for name in names), *(_cell(line, metric) for metric in metrics)]
        for line in lines
    ]
    text = table_text(head, rows, left=len(names))
    notes: list[str] = []
    if len({line["run"] for line in lines}) < len(lines):
        notes.append(prose(_TOPIC_BYTES))
    if any(_NOT_MEASURED in row for row in rows):
        notes.append("n/m: not measured")
    return "\n".join([text, *notes])


def _is_redundant(name: str, lines: list[dict[str, Any]]) -> bool:
    if name == "router":
        return all(line["router"] == line["run"] for line in lines)
    return len({line[name] for line in lines}) == 1


def _cell(line: dict[str, Any], metric: Metric) -> str:
    value = value_at(line, metric)
    return _NOT_MEASURED if value is None else shown(value, metric.form)


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in text)[:_MAX_NAME_LENGTH]
