"""The results of a run: the hash and (if they are stored) the rows of the trace, counters, and deliveries by latency.

Layout: `sums` has the two halves of the hash (`trace.language.rows`), the lower half in two words so that carries are
not lost. `counts` has the counters below, and `rows` the rows that Python has not fetched yet. `tallies` and
`findings` have the counters and findings of a check of all nodes. Each array has a line for each thread. The hash of
a row is a sum over the thirteen columns of the row, and is mixed before it is added to `sums`. Copies of a part
differ in receiver and delay only. So the sum over the other columns is computed once for all copies (`sending`).
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numba import types

from hearsay.core.language.actions import Reason
from hearsay.core.language.rpc import PartKind
from hearsay.sim.array.compiling import TYPES, inlined, kernel, only_with
from hearsay.sim.array.world.draws import mix
from hearsay.sim.array.world.layout import (
    FINDING,
    MEASURED,
    ROWS_FULL,
    STATUS,
    TOPIC_NUMBER,
    TRACING,
    WITNESSES,
    Word,
    World,
    counts,
    findings,
    latencies_seen,
    latency_counts,
    long_latencies,
    rows,
    sums,
    tallies,
    topics,
    witnesses,
)
from hearsay.sim.array.world.payload import Part
from hearsay.trace.language.event_rows import Codes, drop_rpc_row, reject_row, send_rpc_row
from hearsay.trace.language.rows import LOWER_CONSTANTS, UPPER_CONSTANTS
from hearsay.trace.language.schema import Column

NO_ROWS, ALL_ROWS, ROWS_OF_WITNESSES = range(3)
"""Values of TRACING: the rows that are stored in `rows`."""
UPPER, LOWER_LOW, LOWER_HIGH = range(3)
(
    ROWS, EVENTS, PUBLISHES, DUPLICATES, DELIVERIES, ELIGIBLE, REACHED, LONG, LAST_ARRIVAL_SENT, HASHED, AWAY_HOPS,
    MOST_HOPS, AWAY, UNCOUNTED, SENT,
) = range(15)  # fmt: skip
"""Fields of `counts`. ROWS: the number of rows in `rows`. ELIGIBLE, REACHED: the number of eligible nodes, and of
eligible nodes that got the message, over all messages; 0 in a run with verdicts, where `verdicts` has them. LONG: the
number of latencies in `long_latencies`, which are too long for `latency_counts`. LAST_ARRIVAL_SENT: the latest
arrival of all RPCs sent so far. HASHED: the number of rows in the hash. UNCOUNTED: the number of latencies that wait
in `latencies_seen`. AWAY: the number of deliveries to nodes other than the publisher; AWAY_HOPS and MOST_HOPS are the
sum and the maximum of the hops of these deliveries. SENT: the first of the counters of sent parts, one for each
kind."""
COUNTS = SENT + len(PartKind)
FOUND, RECEIVED = 0, 1
LOST = RECEIVED + len(PartKind)
UNDER_WAY = LOST + len(PartKind)
"""Fields of `tallies`. FOUND: the number of findings. RECEIVED, LOST and UNDER_WAY are each the first of several
counters, one for each kind of part: of parts that were received, that were lost, and that are in flight."""
IS_WITNESS, FORGETS = 1, 2
"""Bits of `witnesses`. IS_WITNESS: the calls of the node are noted. FORGETS: the router had to forget a backoff
before the end of the backoff."""
_PEER = int(Column.PEER)

with_checks = only_with(WITNESSES)
_UP = np.array(UPPER_CONSTANTS, dtype=np.uint64)
_LOW = np.array(LOWER_CONSTANTS, dtype=np.uint64)
_S32 = np.uint64(32)
_HALF = np.uint64(0xFFFFFFFF)


@inlined
def _add_hash(w: World, th: int, upper: Word, lower: Word) -> None:
    total = sums(w)[th]
    lower = mix(lower)
    total[UPPER] += mix(upper)
    total[LOWER_LOW] += lower & _HALF
    total[LOWER_HIGH] += lower >> _S32


TYPES["Codes"] = types.UniTuple(types.int64, len(Column))
Hash: TypeAlias = tuple[Word, Word]
"""The two halves of the hash of a row, before each half is mixed."""
TYPES["Hash"] = types.UniTuple(types.uint64, 2)


@inlined
def _hash(codes: Codes) -> Hash:
    """Return the two sums over all columns. A loop would index the tuple at run time, so there is no loop."""
    time, event, kind, peer, remote, topic, message, hops, size, count, via, delay, reason = codes
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
    return upper, lower


@inlined
def _with_topic_number(w: World, codes: Codes) -> Codes:
    """Return a row with the topic's number in the trace instead of its index in the order of names."""
    time, event, kind, peer, remote, topic, message, hops, size, count, via, delay, reason = codes
    if topic >= 0:
        topic = topics(w)[topic, TOPIC_NUMBER]
    return time, event, kind, peer, remote, topic, message, hops, size, count, via, delay, reason


@inlined
def row(w: World, th: int, codes: Codes) -> None:
    """Add a row to the hash, and to `rows` if TRACING selects it. The topic of `codes` is an index in the order of
    names."""
    codes = _with_topic_number(w, codes)
    upper, lower = _hash(codes)
    _add_hash(w, th, upper, lower)
    counts(w)[th, HASHED] += 1
    if w[TRACING]:
        _keep(w, th, codes)


@kernel
def _keep(w: World, th: int, codes: Codes) -> None:
    if w[TRACING] == ROWS_OF_WITNESSES and not witnesses(w)[codes[_PEER]] & IS_WITNESS:
        return
    place = counts(w)[th, ROWS]
    if place == rows(w).shape[1]:
        w[STATUS] = ROWS_FULL
        return
    counts(w)[th, ROWS] = place + 1
    line = rows(w)[th, place]
    for column in range(len(codes)):
        line[column] = codes[column]


CALL_NOTE, PART_NOTE, ID_NOTE = -1, -2, -3
"""Values in the column of the event: such a row is no event, but a note of a witness's call (`rules/checks.py`)."""


@inlined
def is_witness(w: World, node: int) -> bool:
    return w[WITNESSES] != 0 and witnesses(w)[node] & IS_WITNESS != 0


@kernel
def note(w: World, th: int, time: int, what: int, node: int, remote: int, part: Part) -> None:
    """Store a note: a row that is neither hashed nor counted. `what` is CALL_NOTE, PART_NOTE or ID_NOTE."""
    kind, topic, message, hops, _, count, via = part
    codes = (time, what, kind, node, remote, topic, message, hops, -1, count, via, -1, -1)
    _keep(w, th, _with_topic_number(w, codes))


@inlined
def dropped(w: World, th: int, time: int, source: int, destination: int, part: Part, reason: int) -> None:
    """Record a part that does not arrive, and the reason. In a checked run, count parts that are lost on the way."""
    row(w, th, drop_rpc_row(time, source, destination, part, reason))
    if w[WITNESSES] and (reason == Reason.LOST or reason == Reason.UNREACHABLE):
        tallies(w)[th, LOST + part.kind] += 1


@with_checks
def received(w: World, th: int, kind: int, count: int) -> None:
    """Count parts that were received, in a checked run."""
    tallies(w)[th, RECEIVED + kind] += count


@with_checks
def found(w: World, th: int, time: int, what: int, node: int, peer: int, topic: int, number: int) -> None:
    """Count a finding, a broken invariant, and store it if there is room. `what` is its kind (`rules/checks.py`),
    `number` a message or a count."""
    place = tallies(w)[th, FOUND]
    tallies(w)[th, FOUND] = place + 1
    if place < findings(w).shape[1]:
        line = findings(w)[th, place]
        numbers = time, what, node, peer, topic, number
        for field in range(FINDING):
            line[field] = numbers[field]


@kernel
def ignored(w: World, th: int, now: int, node: int, peer: int, kind: int, count: int, reason: int) -> None:
    """Record that a router ignores `count` parts of a kind in an RPC, or `count` ids in such parts."""
    row(w, th, reject_row(now, kind, node, peer, -1, -1, count, reason))


@kernel
def sending(w: World, time: int, peer: int, part: Part) -> Hash:
    """Return the common part of the hashes of the SEND_RPC rows of all copies of a part. It is the sum over all
    columns except receiver and delay."""
    return _hash(_with_topic_number(w, send_rpc_row(time, peer, 0, part, 0)))


@inlined
def sent(w: World, th: int, time: int, peer: int, remote: int, part: Part, delay: int, common: Hash) -> None:
    """Record that one copy of a part was sent; `common` is what `sending` returned for the part."""
    upper, lower = common
    upper += np.uint64(remote) * _UP[Column.REMOTE] + np.uint64(delay) * _UP[Column.DELAY_US]
    lower += np.uint64(remote) * _LOW[Column.REMOTE] + np.uint64(delay) * _LOW[Column.DELAY_US]
    _add_hash(w, th, upper, lower)
    line = counts(w)[th]
    line[HASHED] += 1
    line[SENT + part.kind] += 1
    line[LAST_ARRIVAL_SENT] = max(line[LAST_ARRIVAL_SENT], time + delay)
    if w[TRACING]:
        _keep(w, th, _with_topic_number(w, send_rpc_row(time, peer, remote, part, delay)))


@kernel
def count_delivery(w: World, th: int, latency: int, hops: int) -> None:
    """Count a delivery to a node other than the publisher, with its latency in microseconds and its hops."""
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
    """Move the latencies in `latencies_seen` to `latency_counts`. They are counted many at once, because the counters
    are slow to load."""
    waiting = latencies_seen(w)[th]
    totals = latency_counts(w)[th]
    for place in range(counts(w)[th, UNCOUNTED]):
        totals[waiting[place]] += 1
    counts(w)[th, UNCOUNTED] = 0
