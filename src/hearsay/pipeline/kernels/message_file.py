"""One file of the class `message`, whole messages in it: figures of every message and partial sums, in one pass.

Layout: the rows are sorted by message, so every figure of a message is a sum over a slice. Deliveries are taken out
once, sorted by (message, latency), and all percentiles are looked up in that order. What other files may add to
(latencies, traffic) leaves as partial sums that Spark merges.

The DataFrame functions of `metrics.messages`, `metrics.latency` and `metrics.traffic` state the same rules; a test
holds the two equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hearsay.core.language.actions import Reason, Via
from hearsay.core.language.rpc import PartKind
from hearsay.pipeline.kernels.columns import ColumnArrays
from hearsay.pipeline.kernels.eligibility import Eligibility
from hearsay.pipeline.kernels.sums import (
    ARRIVED,
    RECORDED_DUPLICATES,
    REJECTED,
    SENT,
    VANISHED,
    add_up,
    count_copies,
    first_publishes,
    starts_of,
)
from hearsay.trace.language.schema import Column, TraceEvent

Ints = NDArray[Any]

NEEDED = (
    Column.TIME_US, Column.EVENT, Column.PEER, Column.REMOTE, Column.TOPIC, Column.MESSAGE, Column.HOPS, Column.BYTES,
    Column.VIA, Column.DELAY_US, Column.REASON,
)  # fmt: skip

UNKNOWN = -(1 << 62)
"""Of a time or count that there is not; null in the tables. No clock is so wrong that it would be measured."""

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
_ARRIVED_NOT = (int(Reason.LOST), int(Reason.UNREACHABLE))


@dataclass(frozen=True, slots=True)
class Sums:
    """Partial sums: `keys` (n, k) and `values` (n, v), both int64."""

    keys: Ints
    values: Ints


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


def pass_over(
    rows: ColumnArrays, members: dict[int, Eligibility], end_us: int, window_us: int, spanning: tuple[int, ...] = ()
) -> MessagePass:
    """What these rows say of their messages; nothing of those that span files."""
    kept = (rows[Column.MESSAGE] >= 0) & ~np.isin(rows[Column.MESSAGE], spanning)
    if not kept.all():
        rows = {column: values[kept] for column, values in rows.items()}
    messages = rows[Column.MESSAGE]
    starts = starts_of(messages, messages)
    ids = messages[starts]
    count = len(ids)
    events = rows[Column.EVENT]
    topics = rows[Column.TOPIC][starts] if count else np.empty(0, dtype=np.int32)

    bounds = np.append(starts, len(messages))
    publish = first_publishes(bounds, events)
    published, publishers, sizes = (
        np.where(publish >= 0, values[publish].astype(np.int64), UNKNOWN)
        if len(messages)
        else np.empty(0, dtype=np.int64)
        for values in (rows[Column.TIME_US], rows[Column.PEER], rows[Column.BYTES])
    )

    delivered = np.flatnonzero(events == TraceEvent.DELIVER)
    owner = np.searchsorted(starts, delivered, side="right") - 1
    nodes = rows[Column.PEER][delivered].astype(np.int64)
    vias = rows[Column.VIA][delivered]
    latency = rows[Column.TIME_US][delivered] - published[owner]
    known = published[owner] != UNKNOWN
    away = nodes != publishers[owner]
    window_end = np.minimum(published + window_us, end_us)

    eligible = np.full(count, UNKNOWN, dtype=np.int64)
    is_eligible = np.zeros(len(delivered), dtype=bool)
    refused, refusers = _refusals(rows, starts, owner, nodes)
    for topic in np.unique(topics):
        member = members.get(int(topic))
        if member is None:
            continue
        chosen = np.flatnonzero((topics == topic) & (published != UNKNOWN))
        eligible[chosen] = member.count(published[chosen], window_end[chosen])
        mine = np.flatnonzero((topics[owner] == topic) & known)
        is_eligible[mine] = member.holds(nodes[mine], published[owner[mine]], window_end[owner[mine]])
        theirs = np.flatnonzero((topics[refused] == topic) & (published[refused] != UNKNOWN))
        about = refused[theirs]
        not_due = about[member.holds(refusers[theirs], published[about], window_end[about])]
        np.subtract.at(eligible, not_due, 1)
    away_count = np.bincount(owner[away], minlength=count)
    taken = np.bincount(owner[away & (vias != Via.INJECT)], minlength=count)
    by_nobody = (np.bincount(refused, minlength=count) > 0) & (taken == 0)
    eligible[by_nobody & (eligible != UNKNOWN)] = 0
    is_eligible &= ~by_nobody[owner]
    repeated = _repeated(owner, nodes)
    if repeated:
        is_eligible = _first_of_each(is_eligible, owner, nodes, latency)
    delivered_eligible = np.bincount(owner[is_eligible], minlength=count)

    measured = known & away
    by_latency = SortedValues(owner[measured], latency[measured], count)
    reached = SortedValues(owner[is_eligible], latency[is_eligible], count)
    hops = rows[Column.HOPS][delivered].astype(np.int64)
    copies, duplicates, rejected = _copies(rows, bounds, end_us, away_count)
    hops_known = away & (hops >= 0)
    hops_max = np.full(count, UNKNOWN, dtype=np.int64)
    np.maximum.at(hops_max, owner[hops_known], hops[hops_known])
    hops_sum = np.bincount(owner[hops_known], weights=hops[hops_known], minlength=count).astype(np.int64)

    figures = (
        publishers,
        published,
        sizes,
        eligible,
        np.where(eligible == UNKNOWN, UNKNOWN, delivered_eligible),
        np.bincount(owner, minlength=count),
        away_count,
        copies,
        duplicates,
        rejected,
        np.bincount(owner[away & (vias == Via.IWANT)], minlength=count),
        by_latency.percentile_x100(50),
        by_latency.percentile_x100(90),
        by_latency.percentile_x100(99),
        by_latency.at_rank(by_latency.sizes),
        reached.at_rank(_share_of(eligible, 50)),
        reached.at_rank(_share_of(eligible, 90)),
        reached.at_rank(_share_of(eligible, 99)),
        reached.at_rank(_share_of(eligible, 100)),
        np.where(hops_max == UNKNOWN, UNKNOWN, hops_sum),
        hops_max,
    )
    return MessagePass(
        Sums(np.stack([topics, ids], 1).astype(np.int64), np.stack(figures, 1).astype(np.int64)),
        _exact_latencies(topics[owner[measured]], latency[measured]),
        _latencies(topics[owner[measured]], latency[measured], hops[measured]),
        Sums(np.zeros((1, 1), dtype=np.int64), np.array([[repeated]])),
    )


def joined(parts: list[Sums]) -> Sums:
    """All lines of all parts; at least one part."""
    return Sums(np.concatenate([part.keys for part in parts]), np.concatenate([part.values for part in parts]))


def merged(parts: list[Sums]) -> Sums:
    """One line per key, with the sums over the parts."""
    if len(parts) == 1:
        return parts[0]
    whole = joined(parts)
    return _grouped(list(whole.keys.T), list(whole.values.T))


def drops_of(rows: ColumnArrays) -> Sums:
    """(reason) -> parts of RPCs dropped for it."""
    reasons = rows[Column.REASON][rows[Column.EVENT] == TraceEvent.DROP_RPC].astype(np.int64)
    return _grouped([reasons], [np.ones(len(reasons), dtype=np.int64)])


def recorded_sizes(rows: ColumnArrays) -> Sums:
    """(0) -> parts sent, and parts received, of which the trace tells the bytes."""
    told = rows[Column.BYTES] >= 0
    events = (TraceEvent.SEND_RPC, TraceEvent.RECV_RPC)
    sides = [int(np.count_nonzero(told & (rows[Column.EVENT] == event))) for event in events]
    return Sums(np.zeros((1, 1), dtype=np.int64), np.array([sides], dtype=np.int64))


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


class SortedValues:
    """Values of every message in ascending order, looked up by rank."""

    def __init__(self, owner: Ints, values: Ints, count: int) -> None:
        self.sizes = np.bincount(owner, minlength=count)
        self._first = np.concatenate(([0], np.cumsum(self.sizes)))[:count]
        lowest = int(values.min()) if len(values) else 0
        width = max(int(values.max()) - lowest, 1).bit_length() if len(values) else 1
        if count.bit_length() + width < 63:
            keys = (owner.astype(np.int64) << width) | (values - lowest)
            keys.sort()
            self._values = (keys & ((1 << width) - 1)) + lowest
        else:
            self._values = values[np.lexsort((values, owner))]

    def at_rank(self, ranks: Ints) -> Ints:
        """The value of each message at its rank from 1; unknown where there is none."""
        there = (ranks >= 1) & (ranks <= self.sizes)
        result = np.full(len(ranks), UNKNOWN, dtype=np.int64)
        result[there] = self._values[(self._first + ranks - 1)[there]]
        return result

    def percentile_x100(self, percent: int) -> Ints:
        """Linear interpolation between order statistics, in hundredths, which is exact."""
        result = np.full(len(self.sizes), UNKNOWN, dtype=np.int64)
        there = self.sizes > 0
        position = (self.sizes[there] - 1) * percent
        low, rest = position // 100, position % 100
        first = self._first[there]
        below = self._values[first + low]
        above = self._values[first + np.minimum(low + 1, self.sizes[there] - 1)]
        result[there] = below * 100 + (above - below) * rest
        return result


def _share_of(eligible: Ints, percent: int) -> Ints:
    """The rank at which that share of the eligible is reached; 0 without eligible."""
    return np.where(eligible > 0, -(-eligible * percent // 100), 0)


def _copies(rows: ColumnArrays, bounds: Ints, end_us: int, away: Ints) -> tuple[Ints, Ints, Ints]:
    """Copies that arrived, duplicates and rejects, per message (`docs/reference/metrics.md`, "Copy")."""
    counts = count_copies(
        bounds,
        rows[Column.TIME_US],
        rows[Column.EVENT],
        rows[Column.DELAY_US],
        rows[Column.REASON],
        end_us,
    )
    told, rejected = counts[:, RECORDED_DUPLICATES], counts[:, REJECTED]
    derived = counts[:, ARRIVED] - counts[:, VANISHED]
    simulated = counts[:, SENT] > 0
    copies = np.where(simulated, derived, away + told + rejected)
    first = away + rejected + _handed_over(rows, bounds, end_us)
    duplicates = np.where(simulated, np.maximum(derived - first, 0), told)
    return copies, duplicates, rejected


def _handed_over(rows: ColumnArrays, bounds: Ints, end_us: int) -> Ints:
    """First copies that a script handed to nodes outside the topic: they pass them on and deliver nothing."""
    count = len(bounds) - 1
    injected = np.flatnonzero(rows[Column.VIA] == Via.INJECT)
    if not len(injected):
        return np.zeros(count, dtype=np.int64)
    width = max(int(rows[Column.PEER].max(initial=0)), int(rows[Column.REMOTE].max(initial=0))) + 1

    def pairs(chosen: Ints, end: Column) -> Ints:
        owner = np.searchsorted(bounds, chosen, side="right") - 1
        return owner.astype(np.int64) * width + rows[end][chosen]

    times, events, delays = rows[Column.TIME_US], rows[Column.EVENT], rows[Column.DELAY_US]
    sent = injected[(events[injected] == TraceEvent.SEND_RPC) & (delays[injected] >= 0)]
    arrived = sent[times[sent] + delays[sent] < end_us]
    dropped = injected[(events[injected] == TraceEvent.DROP_RPC) & (times[injected] < end_us)]
    vanished = dropped[np.isin(rows[Column.REASON][dropped], _ARRIVED_NOT)]
    handed = np.setdiff1d(pairs(arrived, Column.REMOTE), pairs(vanished, Column.REMOTE))
    judged = pairs(np.flatnonzero(np.isin(events, (TraceEvent.DELIVER, TraceEvent.REJECT))), Column.PEER)
    return np.bincount(np.setdiff1d(handed, judged[np.isin(judged, handed)]) // width, minlength=count)


def _exact_latencies(topics: Ints, latency: Ints) -> Sums:
    return _grouped([topics, latency], [np.ones(len(topics), dtype=np.int64)])


def _latencies(topics: Ints, latency: Ints, hops: Ints) -> Sums:
    return _grouped([topics, rounded_latencies(latency), hops], [np.ones(len(topics), dtype=np.int64)])


def rounded_latencies(latency: Ints) -> Ints:
    """Rounded down to the steps of `LATENCY_STEPS`; to whole milliseconds above them and below zero."""
    step = np.full(len(latency), 1000, dtype=np.int64)
    for below, width in LATENCY_STEPS:
        step[(latency >= 0) & (latency < below)] = width
    return np.floor_divide(latency, step) * step


def message_traffic(rows: ColumnArrays, end_us: int) -> Sums:
    """As `traffic_of`, of rows sorted by message: a message has one topic, so its rows are one slice."""
    slices, about = _slices(rows[Column.MESSAGE], rows[Column.TOPIC])
    order = np.argsort(about, kind="stable")
    kinds = np.full(len(order), int(PartKind.PUBLISH))
    return _added_up(rows, slices[order], about[order], kinds, np.empty(0, dtype=np.int32), end_us)


def traffic_of(rows: ColumnArrays, end_us: int) -> Sums:
    """(topic, node, kind) -> parts, ids and bytes out and in, of sends, receives and drops in any order."""
    keys = rows[Column.TOPIC].astype(np.int64) << 8 | (rows[Column.KIND] + 1)
    order = np.argsort(keys, kind="stable")
    ordered = {column: values[order] for column, values in rows.items()}
    slices, about = _slices(keys[order], keys[order])
    return _added_up(ordered, slices, about >> 8, (about & 255) - 1, ordered[Column.COUNT], end_us)


def _slices(runs: Ints, about: Ints) -> tuple[Ints, Ints]:
    """(from, up to) of rows of equal `runs` and `about`, and what each is about."""
    starts = starts_of(runs, about)
    return np.stack([starts, np.append(starts[1:], len(runs))[: len(starts)]], 1), about[starts]


def _added_up(rows: ColumnArrays, slices: Ints, topics: Ints, kinds: Ints, ids: Ints, end_us: int) -> Sums:
    keys, values = add_up(
        slices,
        topics.astype(np.int64),
        kinds.astype(np.int64),
        rows[Column.TIME_US],
        rows[Column.EVENT],
        rows[Column.PEER],
        rows[Column.REMOTE],
        rows[Column.BYTES],
        ids,
        rows[Column.DELAY_US],
        rows[Column.REASON],
        end_us,
    )
    return Sums(keys, values)


def _grouped(keys: list[Ints], values: list[Ints]) -> Sums:
    """Sums of values by equal keys; keys are packed into one word where they fit."""
    size = len(keys[0])
    if not size:
        return Sums(np.empty((0, len(keys)), dtype=np.int64), np.empty((0, len(values)), dtype=np.int64))
    lows = [int(key.min()) for key in keys]
    spans = [int(key.max()) - low + 1 for key, low in zip(keys, lows, strict=True)]
    total = 1
    for span in spans:
        total *= span
    if total >= 1 << 62:
        matrix, inverse = np.unique(np.stack([key.astype(np.int64) for key in keys], 1), axis=0, return_inverse=True)
        return Sums(matrix, _summed(inverse.reshape(-1), values, len(matrix)))
    packed = np.zeros(size, dtype=np.int64)
    for key, low, span in zip(keys, lows, spans, strict=True):
        packed = packed * span + (key.astype(np.int64) - low)
    if total <= max(4 * size, 1 << 16):
        present = np.bincount(packed, minlength=total)
        places = np.flatnonzero(present)
        sums = _summed(packed, values, total)[places]
    else:
        places, inverse = np.unique(packed, return_inverse=True)
        sums = _summed(inverse.reshape(-1), values, len(places))
    unpacked: list[Ints] = []
    for low, span in zip(reversed(lows), reversed(spans), strict=True):
        unpacked.append(places % span + low)
        places = places // span
    return Sums(np.stack(unpacked[::-1], 1), sums)


def _summed(groups: Ints, values: list[Ints], count: int) -> Ints:
    """Exact integer sums; bincount adds in doubles, which are exact below 2^53."""
    return np.stack([np.bincount(groups, weights=value, minlength=count).astype(np.int64) for value in values], 1)
