"""One file of the class `message`, whole messages in it: figures of every message and partial sums, in one pass.

Layout: the rows are sorted by message, so every figure of a message is a sum over a slice. Deliveries are taken out
once, sorted by (message, latency), and all percentiles are looked up in that order. What other files may add to
(latencies, traffic) leaves as partial sums that Spark merges.

SQL in DuckDB says the same of each message (`tests/pipeline/test_against_duckdb.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hearsay.core.language.actions import Reason, Via
from hearsay.pipeline.kernels.columns import ColumnArrays
from hearsay.pipeline.kernels.copies import copies_of
from hearsay.pipeline.kernels.eligibility import Eligibility
from hearsay.pipeline.kernels.partial_sums import Sums, grouped
from hearsay.pipeline.kernels.sorted_values import UNKNOWN, SortedValues, rank_of_share
from hearsay.pipeline.kernels.sums import (
    Ints,
    first_publishes,
    starts_of,
)
from hearsay.trace.language.schema import Column, TraceEvent

NEEDED = (
    Column.TIME_US, Column.EVENT, Column.KIND, Column.PEER, Column.REMOTE, Column.TOPIC, Column.MESSAGE, Column.HOPS,
    Column.BYTES, Column.COUNT, Column.VIA, Column.DELAY_US, Column.REASON,
)  # fmt: skip
FIGURES = (
    "publisher", "published_us", "bytes", "eligible", "delivered_eligible", "delivered", "away", "copies",
    "duplicates", "rejected", "by_iwant", "p50_x100", "p90_x100", "p99_x100", "max_us", "t50_us", "t90_us", "t99_us",
    "t100_us", "hops_sum", "hops_max",
)  # fmt: skip
"""What is said of a message, in integers: percentiles in hundredths of a microsecond."""
LATENCY_STEPS = ((100_000, 100), (10_000, 10), (1_000, 1))
"""In the table `latency`: below how many microseconds latencies are rounded down to which step."""
_VERDICTS = (int(Reason.REJECTED), int(Reason.IGNORED))
"""An application's verdicts that a message is not to be taken."""


@dataclass(frozen=True, slots=True)
class MessagePass:
    figures: Sums
    """(topic, message) -> `FIGURES`."""
    exact_latency: Sums
    """(topic, latency_us) -> deliveries."""
    latency: Sums
    """(topic, latency_us, hops) -> deliveries; latencies rounded down (`rounded_latencies`)."""
    repeated: Sums
    """(0) -> deliveries of a message at a node beyond the first."""


@dataclass(frozen=True, slots=True)
class _Messages:
    """The messages of a file, and where their rows begin."""

    starts: Ints
    bounds: Ints
    """`starts`, and the end of the last."""
    ids: Ints
    topics: Ints
    published: Ints
    publishers: Ints
    sizes: Ints
    window_end: Ints


@dataclass(frozen=True, slots=True)
class _Deliveries:
    """The deliveries of a file, each with the place of its message."""

    owner: Ints
    nodes: Ints
    vias: Ints
    hops: Ints
    latency: Ints
    known: NDArray[np.bool_]
    """Whether the publication is in the trace."""
    away: NDArray[np.bool_]
    """Whether the node is another one than the publisher."""


def pass_over(
    rows: ColumnArrays, members: dict[int, Eligibility], end_us: int, window_us: int, spanning: tuple[int, ...] = ()
) -> MessagePass:
    """What these rows say of their messages; nothing of those that span files."""
    kept = (rows[Column.MESSAGE] >= 0) & ~np.isin(rows[Column.MESSAGE], spanning)
    if not kept.all():
        rows = {column: values[kept] for column, values in rows.items()}
    messages = _messages_of(rows, end_us, window_us)
    deliveries = _deliveries_of(rows, messages)
    repeated = _repeated(deliveries.owner, deliveries.nodes)
    eligible, is_eligible = _eligibility(rows, messages, deliveries, members)
    if repeated:
        is_eligible = _first_of_each(is_eligible, deliveries.owner, deliveries.nodes, deliveries.latency)
    figures = (
        messages.publishers,
        messages.published,
        messages.sizes,
        *_counts(rows, messages, deliveries, eligible, is_eligible, end_us),
        *_times(deliveries, eligible, is_eligible),
        *_hops(deliveries, len(messages.ids)),
    )
    measured = deliveries.known & deliveries.away
    topics, latency = messages.topics[deliveries.owner[measured]], deliveries.latency[measured]
    return MessagePass(
        Sums(np.stack([messages.topics, messages.ids], 1).astype(np.int64), np.stack(figures, 1).astype(np.int64)),
        _exact_latencies(topics, latency),
        _latencies(topics, latency, deliveries.hops[measured]),
        Sums(np.zeros((1, 1), dtype=np.int64), np.array([[repeated]])),
    )


def _messages_of(rows: ColumnArrays, end_us: int, window_us: int) -> _Messages:
    messages = rows[Column.MESSAGE]
    starts = starts_of(messages, messages)
    bounds = np.append(starts, len(messages))
    publish = first_publishes(bounds, rows[Column.EVENT])
    published, publishers, sizes = (
        np.where(publish >= 0, values[publish].astype(np.int64), UNKNOWN)
        if len(messages)
        else np.empty(0, dtype=np.int64)
        for values in (rows[Column.TIME_US], rows[Column.PEER], rows[Column.BYTES])
    )
    topics = rows[Column.TOPIC][starts] if len(starts) else np.empty(0, dtype=np.int32)
    window_end = np.minimum(published + window_us, end_us)
    return _Messages(starts, bounds, messages[starts], topics, published, publishers, sizes, window_end)


def _deliveries_of(rows: ColumnArrays, messages: _Messages) -> _Deliveries:
    delivered = np.flatnonzero(rows[Column.EVENT] == TraceEvent.DELIVER)
    owner = np.searchsorted(messages.starts, delivered, side="right") - 1
    nodes = rows[Column.PEER][delivered].astype(np.int64)
    published = messages.published[owner]
    return _Deliveries(
        owner,
        nodes,
        rows[Column.VIA][delivered],
        rows[Column.HOPS][delivered].astype(np.int64),
        rows[Column.TIME_US][delivered] - published,
        published != UNKNOWN,
        nodes != messages.publishers[owner],
    )


def _eligibility(
    rows: ColumnArrays, messages: _Messages, deliveries: _Deliveries, members: dict[int, Eligibility]
) -> tuple[Ints, NDArray[np.bool_]]:
    """How many nodes each message was due at, and which deliveries were at one of those."""
    topics, published, window_end = messages.topics, messages.published, messages.window_end
    owner, nodes, count = deliveries.owner, deliveries.nodes, len(messages.ids)
    eligible = np.full(count, UNKNOWN, dtype=np.int64)
    is_eligible = np.zeros(len(owner), dtype=bool)
    refused, refusers = _refusals(rows, messages.starts, owner, nodes)
    for topic in np.unique(topics):
        member = members.get(int(topic))
        if member is None:
            continue
        chosen = np.flatnonzero((topics == topic) & (published != UNKNOWN))
        eligible[chosen] = member.count(published[chosen], window_end[chosen])
        mine = np.flatnonzero((topics[owner] == topic) & deliveries.known)
        is_eligible[mine] = member.holds(nodes[mine], published[owner[mine]], window_end[owner[mine]])
        theirs = np.flatnonzero((topics[refused] == topic) & (published[refused] != UNKNOWN))
        about = refused[theirs]
        not_due = about[member.holds(refusers[theirs], published[about], window_end[about])]
        np.subtract.at(eligible, not_due, 1)
    taken = np.bincount(owner[deliveries.away & (deliveries.vias != Via.INJECT)], minlength=count)
    by_nobody = (np.bincount(refused, minlength=count) > 0) & (taken == 0)
    eligible[by_nobody & (eligible != UNKNOWN)] = 0
    return eligible, is_eligible & ~by_nobody[owner]


def _counts(
    rows: ColumnArrays,
    messages: _Messages,
    deliveries: _Deliveries,
    eligible: Ints,
    is_eligible: NDArray[np.bool_],
    end_us: int,
) -> tuple[Ints, ...]:
    """Eligible and delivered nodes, copies, duplicates, rejects, and what came by IWANT."""
    owner, away, count = deliveries.owner, deliveries.away, len(messages.ids)
    away_count = np.bincount(owner[away], minlength=count)
    delivered_eligible = np.bincount(owner[is_eligible], minlength=count)
    return (
        eligible,
        np.where(eligible == UNKNOWN, UNKNOWN, delivered_eligible),
        np.bincount(owner, minlength=count),
        away_count,
        *copies_of(rows, messages.bounds, end_us, away_count),
        np.bincount(owner[away & (deliveries.vias == Via.IWANT)], minlength=count),
    )


def _times(deliveries: _Deliveries, eligible: Ints, is_eligible: NDArray[np.bool_]) -> tuple[Ints, ...]:
    """Percentiles of the latency, its maximum, and when which share of the eligible had the message."""
    owner, latency, count = deliveries.owner, deliveries.latency, len(eligible)
    measured = deliveries.known & deliveries.away
    by_latency = SortedValues(owner[measured], latency[measured], count)
    reached = SortedValues(owner[is_eligible], latency[is_eligible], count)
    return (
        *(by_latency.percentile_x100(percent) for percent in (50, 90, 99)),
        by_latency.at_rank(by_latency.sizes),
        *(reached.at_rank(rank_of_share(eligible, percent)) for percent in (50, 90, 99, 100)),
    )


def _hops(deliveries: _Deliveries, count: int) -> tuple[Ints, Ints]:
    """Sum and maximum over the deliveries away from the publisher."""
    known = deliveries.away & (deliveries.hops >= 0)
    owner, hops = deliveries.owner[known], deliveries.hops[known]
    most = np.full(count, UNKNOWN, dtype=np.int64)
    np.maximum.at(most, owner, hops)
    total = np.bincount(owner, weights=hops, minlength=count).astype(np.int64)
    return np.where(most == UNKNOWN, UNKNOWN, total), most


def _refusals(rows: ColumnArrays, starts: Ints, owner: Ints, nodes: Ints) -> tuple[Ints, Ints]:
    """(owner, node) of messages that a node's application did not take, and that it was not given later either;
    `owner` and `nodes` are of the deliveries."""
    judged = np.flatnonzero((rows[Column.EVENT] == TraceEvent.REJECT) & np.isin(rows[Column.REASON], _VERDICTS))
    if not len(judged):
        nothing = np.empty(0, dtype=np.int64)
        return nothing, nothing
    width = int(rows[Column.PEER].max(initial=0)) + 1
    refused_by = np.searchsorted(starts, judged, side="right") - 1
    pairs = np.setdiff1d(refused_by.astype(np.int64) * width + rows[Column.PEER][judged], owner * width + nodes)
    return pairs // width, pairs % width


def _repeated(owner: Ints, nodes: Ints) -> int:
    keys = np.sort(owner.astype(np.int64) * (int(nodes.max(initial=0)) + 1) + nodes)
    return int(np.count_nonzero(keys[1:] == keys[:-1]))


def _first_of_each(chosen: NDArray[np.bool_], owner: Ints, nodes: Ints, latency: Ints) -> NDArray[np.bool_]:
    """The earliest delivery of each message at each node: one that went down and came back may have two."""
    places = np.flatnonzero(chosen)
    keys = owner[places].astype(np.int64) * (int(nodes.max(initial=0)) + 1) + nodes[places]
    order = np.lexsort((latency[places], keys))
    _, first = np.unique(keys[order], return_index=True)
    kept = np.zeros(len(chosen), dtype=bool)
    kept[places[order[first]]] = True
    return kept


def _exact_latencies(topics: Ints, latency: Ints) -> Sums:
    return grouped([topics, latency], [np.ones(len(topics), dtype=np.int64)])


def _latencies(topics: Ints, latency: Ints, hops: Ints) -> Sums:
    return grouped([topics, rounded_latencies(latency), hops], [np.ones(len(topics), dtype=np.int64)])


def rounded_latencies(latency: Ints) -> Ints:
    """Rounded down to the steps of `LATENCY_STEPS`; to whole milliseconds above them and below zero."""
    step = np.full(len(latency), 1000, dtype=np.int64)
    for below, width in LATENCY_STEPS:
        step[(latency >= 0) & (latency < below)] = width
    return np.floor_divide(latency, step) * step
