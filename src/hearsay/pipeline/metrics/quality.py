"""What is odd about a trace, check by check; a check that finds nothing says 0.

| check | rows it counts |
| --- | --- |
| rows | all rows of the trace |
| incomplete | 1 for a run that was interrupted, or whose detail says that it is still being written |
| orphan_deliveries | deliveries of messages that nobody published |
| unpublished_messages | messages with rows but without a publish row |
| repeated_deliveries | deliveries of a message at a node beyond the first |
| negative_latencies | messages whose median latency is negative: clocks disagree |
| unknown_eligible | messages of which nobody knows who is eligible: no member of the topic is known |
| drop_REASON | parts of RPCs dropped for that reason |
| ended_without_goodbye | nodes whose traces stop without a goodbye, and count as down from there; if any |
| not_due | deliveries made that were not due, where these are more than those that were |
| late_rows | only in tables kept fresh while a run writes: rows of messages that had counted as final |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow
import pyarrow.compute

from hearsay.core.language.actions import Reason
from hearsay.pipeline.input.run_facts import RunFacts
from hearsay.pipeline.kernels.columns import ColumnArrays
from hearsay.pipeline.kernels.partial_sums import Fate
from hearsay.pipeline.metrics.bargains import PartCount
from hearsay.trace.language.schema import Column, TraceEvent, wire_name
from hearsay.trace.read.show import load_names

pa: Any = pyarrow
compute: Any = pyarrow.compute

MOST_NAMED = 10
LEAST_DUE = 0.5
STILL_WRITTEN = "still being written"
Line = tuple[str, int, str | None]
"""check, rows, detail"""


def quality_lines(
    run: RunFacts, messages: Any, changes: ColumnArrays, repeated: int | None, counts: Iterable[PartCount]
) -> Iterator[Line]:
    """The table `quality` of a run, from its messages, its nodes that went up and down, and what the scan counted."""
    yield "rows", run.rows, None
    yield "incomplete", int(not run.manifest.complete), STILL_WRITTEN if run.still_written else None
    if repeated is not None:
        yield "repeated_deliveries", repeated, None
    if messages.num_rows:
        yield from _of_messages(messages)
    yield from _drops(counts)
    if not run.simulated:
        yield from _nodes_without_goodbye(run, changes)
        yield from _few_due(run, messages)


def _of_messages(messages: Any) -> Iterator[Line]:
    published = compute.is_valid(messages.column("published_us"))
    unpublished = messages.filter(compute.invert(published))
    yield "orphan_deliveries", compute.sum(unpublished.column("delivered")).as_py() or 0, None
    yield "unpublished_messages", unpublished.num_rows, None
    early = compute.and_(compute.is_valid(messages.column("max_us")), compute.less(messages.column("p50_us"), 0))
    yield "negative_latencies", compute.sum(early).as_py() or 0, None
    yield "unknown_eligible", messages.column("eligible").null_count, None


def _drops(counts: Iterable[PartCount]) -> Iterator[Line]:
    """Parts of RPCs that never arrived, by reason."""
    drops: Counter[str] = Counter()
    for one in counts:
        if one.fate is Fate.DROPPED:
            drops["unknown" if one.reason is None else wire_name(one.reason)] += one.rows
    for reason, rows in drops.items():
        yield f"drop_{reason}", rows, None


def _nodes_without_goodbye(run: RunFacts, changes: ColumnArrays) -> Iterator[Line]:
    """Which nodes of a real run were killed, or had not closed their traces yet, and when they were last heard."""
    lost = (changes[Column.EVENT] == TraceEvent.NODE_DOWN) & (changes[Column.REASON] == Reason.LOST)
    found = sorted(zip(changes[Column.TIME_US][lost].tolist(), changes[Column.PEER][lost].tolist(), strict=True))
    if found:
        yield "ended_without_goodbye", len(found), _last_heard(run, found)


def _few_due(run: RunFacts, messages: Any) -> Iterator[Line]:
    """A real run of whose deliveries fewer than half were due, as nodes left within the window of a message."""
    judged = messages.filter(compute.is_valid(messages.column("eligible")))
    made, due = (compute.sum(judged.column(name)).as_py() or 0 for name in ("delivered", "delivered_eligible"))
    if due < LEAST_DUE * made:
        yield "not_due", made - due, _window_in_words(run, due, made)


def _window_in_words(run: RunFacts, due: int, made: int) -> str:
    return (
        f"{due} of the {made} deliveries made were due: a node counts if it stayed "
        f"{run.window_us / 1_000_000:g} s after the message; --window sets it"
    )


def _last_heard(run: RunFacts, found: list[tuple[int, int]]) -> str:
    names = load_names(run.path)
    said = [f"{names.peer(peer)} at {(time - run.start_us) / 1_000_000:.1f} s" for time, peer in found[:MOST_NAMED]]
    return ", ".join(said) + (", …" if len(found) > MOST_NAMED else "")
