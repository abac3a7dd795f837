"""Loops over trace rows that only add up, as machine code: a row costs nanoseconds, in passes of numpy a hundred.

Rules:

* `count_copies` goes through messages, `add_up` through slices of rows that share topic and kind. Memory is one line
  per message, and one line per node that a slice touches.
* What is a copy, an arrival, or a part that vanished is said in `docs/reference/metrics.md`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hearsay.core.language.actions import Reason
from hearsay.trace.language.compiled_code import compiled
from hearsay.trace.language.schema import TraceEvent

Ints = NDArray[Any]

SIDES = 6
"""parts, ids and bytes out, then the same in."""
COUNTED = 5
SENT, ARRIVED, VANISHED, RECORDED_DUPLICATES, REJECTED = range(COUNTED)
"""Of a message: copies sent with a known flight, those whose arrival follows, those that did not arrive after all,
duplicates that the trace tells, rejects."""

_PUBLISH, _REJECT, _DUPLICATE = int(TraceEvent.PUBLISH), int(TraceEvent.REJECT), int(TraceEvent.DUPLICATE)
_SEND, _RECEIVE, _DROP = int(TraceEvent.SEND_RPC), int(TraceEvent.RECV_RPC), int(TraceEvent.DROP_RPC)
_LOST, _UNREACHABLE = int(Reason.LOST), int(Reason.UNREACHABLE)


@compiled
def starts_of(first: Ints, second: Ints) -> Ints:
    """Where runs of equal pairs begin."""
    count = 0
    for row in range(len(first)):
        if row == 0 or first[row] != first[row - 1] or second[row] != second[row - 1]:
            count += 1
    starts = np.empty(count, np.int64)
    count = 0
    for row in range(len(first)):
        if row == 0 or first[row] != first[row - 1] or second[row] != second[row - 1]:
            starts[count] = row
            count += 1
    return starts


@compiled
def count_copies(starts: Ints, times: Ints, events: Ints, delays: Ints, reasons: Ints, end_us: int) -> Ints:
    """`COUNTED` figures of every message; message i has the rows from starts[i] up to starts[i + 1]."""
    counts = np.zeros((len(starts) - 1, COUNTED), np.int64)
    for message in range(len(starts) - 1):
        line = counts[message]
        for row in range(starts[message], starts[message + 1]):
            event = events[row]
            if event == _SEND:
                if delays[row] >= 0:
                    line[SENT] += 1
                    if times[row] + delays[row] < end_us:
                        line[ARRIVED] += 1
            elif event == _DROP:
                if times[row] < end_us and (reasons[row] == _LOST or reasons[row] == _UNREACHABLE):
                    line[VANISHED] += 1
            elif event == _DUPLICATE:
                line[RECORDED_DUPLICATES] += 1
            elif event == _REJECT:
                line[REJECTED] += 1
    return counts


@compiled
def first_publishes(starts: Ints, events: Ints) -> Ints:
    """The row of the first publish of every message, -1 if there is none."""
    first = np.full(len(starts) - 1, -1, np.int64)
    for message in range(len(starts) - 1):
        for row in range(starts[message], starts[message + 1]):
            if events[row] == _PUBLISH:
                first[message] = row
                break
    return first


@compiled
def _flow(
    event: int, time: int, delay: int, reason: int, peer: int, remote: int, end_us: int
) -> tuple[int, int, int]:
    """How many parts come in by a row, who sent one, and who got it; -1 for nobody."""
    if event == _SEND:
        return (1 if delay >= 0 and time + delay < end_us else 0), peer, remote
    if event == _RECEIVE:
        return 1, -1, peer
    if event == _DROP and time < end_us and (reason == _LOST or reason == _UNREACHABLE):
        return -1, -1, remote
    return 0, -1, -1


@compiled
def _write_sums(sums: Ints, touched: Ints, topic: int, kind: int, keys: Ints, values: Ints) -> None:
    """A line for each node that was touched, whose sums are zero then."""
    for place in range(len(touched)):
        node = touched[place]
        keys[place, 0] = topic
        keys[place, 1] = node
        keys[place, 2] = kind
        for side in range(SIDES):
            values[place, side] = sums[node, side]
            sums[node, side] = 0


@compiled
def add_up(
    slices: Ints,
    topics: Ints,
    kinds: Ints,
    times: Ints,
    events: Ints,
    peers: Ints,
    remotes: Ints,
    sizes: Ints,
    ids: Ints,
    delays: Ints,
    reasons: Ints,
    end_us: int,
) -> tuple[Ints, Ints]:
    """(topic, node, kind) -> the `SIDES`, of sends, receives and drops.

    `slices` are (from, up to) rows; those of equal topic and kind stand next to each other.
    """
    nodes = 1
    for row in range(len(peers)):
        nodes = max(nodes, peers[row] + 1, remotes[row] + 1)
    sums = np.zeros((nodes, SIDES), np.int64)
    last_seen = np.full(nodes, -1, np.int64)
    touched = np.empty(nodes, np.int64)
    most = 2 * len(peers)
    keys = np.empty((most, 3), np.int64)
    values = np.empty((most, SIDES), np.int64)
    filled = 0
    count = 0
    group = 0
    for number in range(len(slices)):
        for row in range(slices[number, 0], slices[number, 1]):
            parts_in, sender, receiver = _flow(
                events[row], times[row], delays[row], reasons[row], peers[row], remotes[row], end_us
            )
            size = max(sizes[row], 0)
            named = max(ids[row], 0) if len(ids) else 1
            if sender >= 0:
                if last_seen[sender] != group:
                    last_seen[sender] = group
                    touched[count] = sender
                    count += 1
                sums[sender, 0] += 1
                sums[sender, 1] += named
                sums[sender, 2] += size
            if parts_in != 0 and receiver >= 0:
                if last_seen[receiver] != group:
                    last_seen[receiver] = group
                    touched[count] = receiver
                    count += 1
                sums[receiver, 3] += parts_in
                sums[receiver, 4] += parts_in * named
                sums[receiver, 5] += parts_in * size
        ends = number + 1 == len(slices)
        if ends or topics[number + 1] != topics[number] or kinds[number + 1] != kinds[number]:
            _write_sums(sums, touched[:count], topics[number], kinds[number], keys[filled:], values[filled:])
            filled += count
            count = 0
            group += 1
    return keys[:filled].copy(), values[:filled].copy()
