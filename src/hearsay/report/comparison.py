"""All runs and topics in one table, and which value of a column is the best."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from hearsay.report.numbers import count, figure, milliseconds, percent, size
from hearsay.report.run import Row, Selection, topic_name

MOST_LINES = 60


@dataclass(frozen=True, slots=True)
class Measure:
    key: str
    title: str
    show: Callable[[float], str]
    better: Literal["more", "less", ""] = ""


@dataclass(frozen=True, slots=True)
class Line:
    run: int
    topic: str
    row: Row


MEASURES = (
    Measure("nodes", "nodes", count),
    Measure("messages", "messages", count),
    Measure("delivery_ratio", "delivered", percent, "more"),
    Measure("latency_p50_ms", "p50", milliseconds, "less"),
    Measure("latency_p99_ms", "p99", milliseconds, "less"),
    Measure("latency_max_ms", "slowest", milliseconds, "less"),
    Measure("hops_mean", "hops", figure, "less"),
    Measure("copies_per_delivery", "copies per delivery", figure, "less"),
    Measure("control_bytes_share", "control", percent, "less"),
    Measure("bytes_out_mean", "sent per node", size, "less"),
    Measure("bytes_out_max_over_mean", "busiest / mean", figure, "less"),
    Measure("bytes_out_gini", "Gini", figure, "less"),
    Measure("state_bytes_mean", "state per node", size, "less"),
)


def lines(selection: Selection) -> tuple[list[Line], int]:
    """The first lines of the comparison, topic by topic, so that runs stand side by side, and how many there are."""
    order = {name: place for place, name in enumerate(selection.topics)}
    found = [Line(index, topic_name(row), row) for index, run in enumerate(selection.runs) for row in run.headlines]
    found.sort(key=lambda line: (order.get(line.topic, len(order)), line.topic, line.run))
    return found[:MOST_LINES], len(found)


def best(measure: Measure, line: Line, all_lines: Sequence[Line]) -> bool:
    """Is this the best value of its topic? Never where all are equal or there is nothing to compare."""
    values = [other.row[measure.key] for other in all_lines if other.topic == line.topic]
    known = [value for value in values if value is not None]
    if not measure.better or len(known) < 2 or min(known) == max(known):
        return False
    return line.row[measure.key] == (max(known) if measure.better == "more" else min(known))
