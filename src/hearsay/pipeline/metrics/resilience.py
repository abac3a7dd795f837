"""Resilience: delivery before, during and after each disturbance and all of them together, and the time to heal.

Rules:

* A message is published *before* a disturbance if its window closes before it, *after* it if it is published later
  than its end, and *during* it otherwise. What nothing undoes ends as it begins.
* All disturbances together last from the first to the last row of a node that goes up or down (of real nodes: or of a
  connection that ends) and partition and cut, after the first message of the topic. Loss is there throughout: it
  counts only where there is nothing else.
* The network has healed when, from then on, every message reaches at least `HEALED` of the ratio before (of 1 if
  nothing was published before).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow
import pyarrow.compute

from hearsay.pipeline.input.run_facts import LOSS, OF_NODES, RunFacts
from hearsay.pipeline.kernels.columns import ColumnArrays
from hearsay.pipeline.kernels.sums import Ints
from hearsay.pipeline.metrics.disturbances import SCENARIO, Disturbance
from hearsay.pipeline.metrics.knowledge import quotient
from hearsay.trace.language.schema import Column

pa: Any = pyarrow
compute: Any = pyarrow.compute

HEALED = 0.99


@dataclass(frozen=True, slots=True)
class _Span:
    """A disturbance, or all of a topic together, as messages meet it; without one the times are None."""

    disturbance: int | None
    kind: str | None
    disturbances: int
    first_us: int | None
    last_us: int | None
    throughout: bool


@dataclass(frozen=True, slots=True)
class _Judged:
    """The messages of a topic that somebody was eligible for, in the order of publication."""

    published_us: Ints
    eligible: Ints
    delivered: Ints
    ratio: Ints


def resilience_lines(
    run: RunFacts, changes: ColumnArrays, messages: Any, disturbances: Sequence[Disturbance]
) -> Iterator[dict[str, Any]]:
    """For every topic with messages that somebody was eligible for a line about all disturbances together
    (`disturbance` null) and one about each."""
    told = messages.filter(compute.is_valid(messages.column("published_us")))
    topics = told.column("topic").fill_null(-1).to_numpy()
    published = told.column("published_us").to_numpy()
    is_judged = compute.fill_null(compute.greater(told.column("eligible"), 0), False).to_numpy(zero_copy_only=False)
    eligible, delivered = (told.column(name).fill_null(0).to_numpy() for name in ("eligible", "delivered_eligible"))
    ratio = told.column("ratio").fill_null(0.0).to_numpy()
    for topic in np.unique(topics[is_judged & (topics >= 0)]).tolist():
        of_topic = topics == topic
        mine = of_topic & is_judged
        times = published[of_topic]
        together = _together(run, changes[Column.TIME_US], disturbances, int(times.min()), int(times.max()))
        judged = _Judged(published[mine], eligible[mine], delivered[mine], ratio[mine])
        for span in (together, *(_span_of(one) for one in disturbances)):
            yield {"topic": topic, **_line(run, judged, span)}


def _together(
    run: RunFacts, change_times: Ints, disturbances: Sequence[Disturbance], begins_us: int, ends_us: int
) -> _Span:
    """All that disturbs a topic whose first and last messages are published then."""
    timed = [one for one in disturbances if one.source == SCENARIO and one.kind not in (*OF_NODES, LOSS)]
    since = np.concatenate([change_times, np.array([one.since_us for one in timed], dtype=np.int64)])
    until = np.concatenate([change_times, np.array([_until(one) for one in timed], dtype=np.int64)])
    # Real nodes that end when all is said do not disturb anything.
    relevant = (until > begins_us) & (run.simulated | (since < ends_us))
    if relevant.any():
        first, last = int(since[relevant].min()), int(until[relevant].max())
        return _Span(None, None, int(np.count_nonzero(relevant)), first, last, False)
    losing = [one for one in disturbances if one.kind == LOSS]
    if losing:
        return _Span(None, None, 1, losing[0].since_us, losing[0].until_us, True)
    return _Span(None, None, 0, None, None, False)


def _span_of(one: Disturbance) -> _Span:
    return _Span(one.disturbance, one.kind, 1, one.since_us, _until(one), one.kind == LOSS)


def _until(one: Disturbance) -> int:
    return one.since_us if one.until_us is None else one.until_us


def _line(run: RunFacts, judged: _Judged, span: _Span) -> dict[str, Any]:
    phases = dict(zip(("before", "during", "after"), _phases(run, judged.published_us, span), strict=True))
    ratios = {
        name: quotient(int(judged.delivered[phase].sum()), int(judged.eligible[phase].sum()))
        for name, phase in phases.items()
    }
    return {
        "disturbance": span.disturbance,
        "kind": span.kind,
        "disturbances": span.disturbances,
        "first_us": span.first_us,
        "last_us": span.last_us,
        **{f"ratio_{name}": value for name, value in ratios.items()},
        "heal_us": _heal_us(run, judged, span, ratios["before"]),
    }


def _phases(run: RunFacts, published: Ints, span: _Span) -> tuple[Ints, Ints, Ints]:
    """Which messages were published before, during and after it."""
    none, every = np.zeros(len(published), dtype=bool), np.ones(len(published), dtype=bool)
    if span.throughout:
        return none, every, none
    if span.first_us is None or span.last_us is None:
        return every, none, none
    before = np.minimum(published + run.window_us, run.end_us) < span.first_us
    after = ~before & (published > span.last_us)
    return before, ~before & ~after, after


def _heal_us(run: RunFacts, judged: _Judged, span: _Span, ratio_before: float | None) -> int | None:
    """From the end of the disturbance to the first message after the last bad one; None if the last message was bad,
    or nothing was published since, or it goes on."""
    if span.throughout or span.first_us is None or span.last_us is None or span.last_us >= run.end_us:
        return None
    since = judged.published_us > span.first_us
    if not since.any():
        return None
    goal = HEALED * (1.0 if ratio_before is None else ratio_before)
    bad = since & (judged.ratio < goal)
    if not bad.any():
        return 0
    good = judged.published_us[since & (judged.published_us > judged.published_us[bad].max())]
    return max(int(good.min()) - span.last_us, 0) if len(good) else None
