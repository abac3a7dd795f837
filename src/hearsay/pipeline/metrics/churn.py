"""Comings and goings, stretch by stretch of the run, and how the messages published then fared.

A stretch is a second, or in a long run as many seconds as keep the lines below `MOST_LINES`: a trace of months has
no more of them than one of an hour. Seconds count from the start of the run.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow
import pyarrow.compute

from hearsay.pipeline.input.run_facts import RunFacts
from hearsay.pipeline.kernels.columns import chosen_rows
from hearsay.pipeline.kernels.sums import Ints
from hearsay.pipeline.metrics.knowledge import NODES_UP, Knowledge, quotient
from hearsay.trace.language.schema import Column, TraceEvent

pa: Any = pyarrow
compute: Any = pyarrow.compute

MOST_LINES = 3_600
_SECOND = 1_000_000
_ROUND_WIDTHS_S = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400)


def stretch_s(run: RunFacts) -> int:
    """How many seconds a line of the run is about."""
    least = -(-(run.end_us - run.start_us) // (MOST_LINES * _SECOND))
    place = bisect_left(_ROUND_WIDTHS_S, least)
    return _ROUND_WIDTHS_S[place] if place < len(_ROUND_WIDTHS_S) else least


def churn_lines(run: RunFacts, messages: Any, knowledge: Knowledge) -> Iterator[dict[str, Any]]:
    """The table `churn` of a run. Topic null tells of nodes alone; a topic's lines tell of its messages as well."""
    if run.end_us <= run.start_us:
        return
    width = stretch_s(run)
    stretches = (run.end_us - run.start_us - 1) // (_SECOND * width) + 1
    rows = chosen_rows(run, "node", [TraceEvent.NODE_UP, TraceEvent.NODE_DOWN], [Column.TIME_US])
    place = _place(run, rows[Column.TIME_US])
    came, went = (
        np.bincount(place[rows[Column.EVENT] == event], minlength=stretches)[:stretches].tolist()
        for event in (TraceEvent.NODE_UP, TraceEvent.NODE_DOWN)
    )
    nodes: list[dict[str, Any]] = []
    up = 0
    for number in range(stretches):
        up += came[number] - went[number]
        counts = {"nodes_up": up, "came": came[number], "went": went[number]}
        known = counts if knowledge.knows(NODES_UP) else dict.fromkeys(counts)
        nodes.append({"second": number * width, "seconds": width, **known})
        yield {**nodes[-1], "topic": None, "messages": 0, "eligible": 0, "delivered": 0, "ratio": None}
    for line in _published(run, messages).to_pylist():
        number = line.pop("place")
        if number < stretches:
            yield {**nodes[number], **line, "ratio": quotient(line["delivered"], line["eligible"])}


def _published(run: RunFacts, messages: Any) -> Any:
    """Messages, who should have got them and who did, by topic and stretch."""
    told = messages.filter(compute.is_valid(messages.column("published_us")))
    placed = told.append_column("place", pa.array(_place(run, told.column("published_us").to_numpy())))
    summed = placed.group_by(["topic", "place"]).aggregate(
        [([], "count_all"), ("eligible", "sum"), ("delivered_eligible", "sum")]
    )
    return summed.rename_columns(
        {"count_all": "messages", "eligible_sum": "eligible", "delivered_eligible_sum": "delivered"}
    )


def _place(run: RunFacts, times_us: Ints) -> Ints:
    """In which stretch."""
    return (times_us - run.start_us) // (_SECOND * stretch_s(run))
