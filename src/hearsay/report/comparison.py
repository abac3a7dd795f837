"""All runs and topics in one table: all topics together first, then those in most trouble.

No figure is marked as the best: one run against one other says nothing of what chance did.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hearsay.report.all_topics import ALL_TOPICS
from hearsay.report.run import Row, Selection, topic_name, trouble
from hearsay.text.numbers import count, figure, milliseconds, percent, size

MOST_LINES = 60
UPLINK = "uplink_share_mean"


@dataclass(frozen=True, slots=True)
class Measure:
    key: str
    title: str
    show: Callable[[float], str]


@dataclass(frozen=True, slots=True)
class Line:
    run: int
    topic: str
    row: Row


MEASURES = (
    Measure("nodes", "nodes", count),
    Measure("messages", "messages", count),
    Measure("delivery_ratio", "delivered", percent),
    Measure("latency_p50_ms", "p50", milliseconds),
    Measure("latency_p99_ms", "p99", milliseconds),
    Measure("latency_max_ms", "slowest", milliseconds),
    Measure("hops_mean", "hops", figure),
    Measure("copies_per_delivery", "copies per delivery", figure),
    Measure("control_bytes_share", "control", percent),
    Measure("bytes_out_mean", "sent per node", size),
    Measure(UPLINK, "of its uplink", percent),
    Measure("bytes_out_max_over_mean", "busiest / mean", figure),
    Measure("bytes_out_gini", "Gini", figure),
    Measure("state_bytes_mean", "state per node", size),
)


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


def measures(shown: Sequence[Line]) -> list[Measure]:
    """Shares of uplinks only where there are any; all other figures always, measured or not."""
    limited = any(line.row.get(UPLINK) is not None for line in shown)
    return [measure for measure in MEASURES if limited or measure.key != UPLINK]
