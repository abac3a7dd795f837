"""What a run leaves behind: the trace's hash, its rows if wanted, counters, and latencies by the microsecond.

Layout: `sums` holds the two halves of the hash (`trace.language.digest`), the lower one in two parts so that carries
are not lost; `counts` the counters below and the parts sent by kind; `rows` the rows since Python last took them. All
have a line per thread. The thirteen columns of a row are hashed one by one, so that the copies of a part, which
differ in receiver and time of flight alone, cost two multiplications each.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hearsay.core.language.rpc import PartKind
from hearsay.sim.array.machine.compiling import inlined, kernel
from hearsay.sim.array.world.draws import mix
from hearsay.sim.array.world.layout import (
    MEASURED,
    ROWS_FULL,
    STATUS,
    TOPIC_NUMBER,
    TRACING,
    WITNESSES,
    Word,
    World,
    counts,
    latencies_seen,
    latency_counts,
    long_latencies,
    rows,
    sums,
    topics,
    witnesses,
)
from hearsay.trace.language.digest import LOWER_CONSTANTS, UPPER_CONSTANTS
from hearsay.trace.language.schema import TraceEvent

UPPER, LOWER_LOW, LOWER_HIGH = range(3)
(
    ROWS, EVENTS, PUBLISHES, DUPLICATES, DELIVERIES, ELIGIBLE, REACHED, LONG, LAST_ARRIVAL_SENT, HASHED, AWAY_HOPS,
    MOST_HOPS, AWAY, UNCOUNTED, SENT,
) = range(15)  # fmt: skip
"""LONG: latencies beyond `latency_counts`. UNCOUNTED: those that wait in `latencies_seen`.
SENT: the first of the counters by kind of part."""
COUNTS = SENT + len(PartKind)

_UP = np.array(UPPER_CONSTANTS, dtype=np.uint64)
_LOW = np.array(LOWER_CONSTANTS, dtype=np.uint64)
_S32 = np.uint64(32)
_HALF = np.uint64(0xFFFFFFFF)
_SEND = int(TraceEvent.SEND_RPC)


@inlined
def _add_hash(w: World, th: int, upper: Word, lower: Word) -> None:
    total = sums(w)[th]
    lower = mix(lower)
    total[UPPER] += mix(upper)
    total[LOWER_LOW] += lower & _HALF
    total[LOWER_HIGH] += lower >> _S32


@inlined
def row(w: World, th: int, codes: Any) -> None:
    """One row that a function of `event_rows` made, its topic by place."""
    time, event, kind, peer, remote, topic, message, hops, size, count, via, delay, reason = codes
    _row(w, th, time, event, kind, peer, remote, topic, message, hops, size, count, via, delay, reason)


@inlined
def _row(
    w: World, th: int, time: int, event: int, kind: int, peer: int, remote: int, topic: int, message: int, hops: int,
    size: int, count: int, via: int, delay: int, reason: int,
) -> None:  # fmt: skip
    """Compiled once: the types of rows differ by event, in what of them is a constant."""
    if topic >= 0:
        topic = topics(w)[topic, TOPIC_NUMBER]
    upper = np.uint64(time) * _UP[0] + np.uint64(event) * _UP[1] + np.uint64(kind) * _UP[2]
    upper += np.uint64(peer) * _UP[3] + np.uint64(remote) * _UP[4] + np.uint64(topic) * _UP[5]
    upper += np.uint64(message) * _UP[6] + np.uint64(hops) * _UP[7] + np.uint64(size) * _UP[8]
    upper += np.uint64(count) * _UP[9] + np.uint64(via) * _UP[10] + np.uint64(delay) * _UP[11]
    upper += np.uint64(reason) * _UP[12]
    lower = np.uint64(time) * _LOW[0] + np.uint64(event) * _LOW[1] + np.uint64(kind) * _LOW[2]
    lower += np.uint64(peer) * _LOW[3] + np.uint64(remote) * _LOW[4] + np.uint64(topic) * _LOW[5]
    lower += np.uint64(message) * _LOW[6] + np.uint64(hops) * _LOW[7] + np.uint64(size) * _LOW[8]
    lower += np.uint64(count) * _LOW[9] + np.uint64(via) * _LOW[10] + np.uint64(delay) * _LOW[11]
    lower += np.uint64(reason) * _LOW[12]
    _add_hash(w, th, upper, lower)
    counts(w)[th, HASHED] += 1
    if w[TRACING]:
        _keep(w, th, time, event, kind, peer, remote, topic, message, hops, size, count, via, delay, reason)


@kernel
def _keep(
    w: World, th: int, time: int, event: int, kind: int, peer: int, remote: int, topic: int, message: int, hops: int,
    size: int, count: int, via: int, delay: int, reason: int,
) -> None:  # fmt: skip
    place = counts(w)[th, ROWS]
    if place == rows(w).shape[1]:
        w[STATUS] = ROWS_FULL
        return
    counts(w)[th, ROWS] = place + 1
    line = rows(w)[th, place]
    line[0] = time
    line[1] = event
    line[2] = kind
    line[3] = peer
    line[4] = remote
    line[5] = topic
    line[6] = message
    line[7] = hops
    line[8] = size
    line[9] = count
    line[10] = via
    line[11] = delay
    line[12] = reason


CALL_NOTE, PART_NOTE, ID_NOTE = -1, -2, -3
"""In place of an event: a note of what is handed to a witness (`notes.py`)."""


@inlined
def is_witness(w: World, node: int) -> bool:
    return w[WITNESSES] != 0 and witnesses(w)[node] != 0


@kernel
def note(
    w: World, th: int, time: int, what: int, kind: int, node: int, remote: int, topic: int, message: int, hops: int,
    count: int, via: int,
) -> None:  # fmt: skip
    """A row that is neither hashed nor counted."""
    if topic >= 0:
        topic = topics(w)[topic, TOPIC_NUMBER]
    _keep(w, th, time, what, kind, node, remote, topic, message, hops, -1, count, via, -1, -1)


@kernel
def sending(
    w: World, time: int, kind: int, peer: int, topic: int, message: int, hops: int, size: int, count: int, via: int
) -> Any:  # fmt: skip
    """What the SEND_RPC rows of a part's copies have in common, as the two halves of the hash so far."""
    if topic >= 0:
        topic = topics(w)[topic, TOPIC_NUMBER]
    none = np.uint64(-1)
    event = np.uint64(_SEND)
    upper = np.uint64(time) * _UP[0] + event * _UP[1] + np.uint64(kind) * _UP[2] + np.uint64(peer) * _UP[3]
    upper += np.uint64(topic) * _UP[5] + np.uint64(message) * _UP[6] + np.uint64(hops) * _UP[7]
    upper += np.uint64(size) * _UP[8] + np.uint64(count) * _UP[9] + np.uint64(via) * _UP[10] + none * _UP[12]
    lower = np.uint64(time) * _LOW[0] + event * _LOW[1] + np.uint64(kind) * _LOW[2] + np.uint64(peer) * _LOW[3]
    lower += np.uint64(topic) * _LOW[5] + np.uint64(message) * _LOW[6] + np.uint64(hops) * _LOW[7]
    lower += np.uint64(size) * _LOW[8] + np.uint64(count) * _LOW[9] + np.uint64(via) * _LOW[10] + none * _LOW[12]
    return upper, lower


@inlined
def sent(
    w: World, th: int, time: int, kind: int, peer: int, remote: int, topic: int, message: int, hops: int, size: int,
    count: int, via: int, delay: int, upper: Word, lower: Word,
) -> None:  # fmt: skip
    """One copy of a part; `upper` and `lower` are what `sending` gave."""
    upper += np.uint64(remote) * _UP[4] + np.uint64(delay) * _UP[11]
    lower += np.uint64(remote) * _LOW[4] + np.uint64(delay) * _LOW[11]
    _add_hash(w, th, upper, lower)
    line = counts(w)[th]
    line[HASHED] += 1
    line[SENT + kind] += 1
    if w[TRACING]:
        if topic >= 0:
            topic = topics(w)[topic, TOPIC_NUMBER]
        _keep(w, th, time, _SEND, kind, peer, remote, topic, message, hops, size, count, via, delay, -1)


@kernel
def measured(w: World, th: int, latency: int, hops: int) -> None:
    """A delivery away from the publisher, for the summary."""
    line = counts(w)[th]
    line[AWAY] += 1
    if latency < w[MEASURED]:
        waiting = latencies_seen(w)[th]
        place = line[UNCOUNTED]
        waiting[place] = latency
        line[UNCOUNTED] = place + 1
        if place + 1 == waiting.shape[0]:
            count_latencies(w, th)
    elif line[LONG] < long_latencies(w).shape[1]:
        long_latencies(w)[th, line[LONG]] = latency
        line[LONG] += 1
    else:
        w[STATUS] = ROWS_FULL
    line[AWAY_HOPS] += hops
    line[MOST_HOPS] = max(line[MOST_HOPS], hops)


@kernel
def count_latencies(w: World, th: int) -> None:
    """The counters lie far apart: many at a time is as fast as memory can be, one at a time is a wait for each."""
    waiting = latencies_seen(w)[th]
    totals = latency_counts(w)[th]
    for place in range(counts(w)[th, UNCOUNTED]):
        totals[waiting[place]] += 1
    counts(w)[th, UNCOUNTED] = 0
