"""All runs and topics in one table: all topics together first, then those in most trouble.

No figure is marked as the best: one run against one other says nothing of what chance did.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hearsay.metrics import Metric, shown_in, without_unknown
from hearsay.report.all_topics import ALL_TOPICS
from hearsay.report.run import Row, Selection, topic_name, trouble

MOST_LINES = 60


@dataclass(frozen=True, slots=True)
class Line:
    run: int
    topic: str
    row: Row


def lines(selection: Selection) -> tuple[list[Line], int]:
    """The first lines of the comparison, topic by topic, so that runs stand side by side, and how many there are."""
    found = [Line(index, topic_name(row), row) for index, run in enumerate(selection.runs) for row in run.headlines]
    worst: dict[str, tuple[float, int]] = {}
    for line in found:
        worst[line.topic] = min(worst.get(line.topic, trouble(line.row)), trouble(line.row))
    found.sort(key=lambda line: (worst[line.topic], line.topic, line.run))
    if selection.overall:
        overall = [view.headline for run in selection.runs for view in run.views[:1]]
        found = [*(Line(index, ALL_TOPICS, row) for index, row in enumerate(overall)), *found]
    return found[:MOST_LINES], len(found)


def metrics(shown: Sequence[Line]) -> list[Metric]:
    """Return the metrics of the table; optional ones only if some line has them."""
    columns = shown_in("report")
    known = (metric.name for metric in columns if any(line.row.get(metric.column) is not None for line in shown))
    return without_unknown(columns, known)
