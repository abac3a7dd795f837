"""Neighbours of a node and the latency to them.

Layout: a node's neighbours lie in one piece of the slot arrays, `COUNT` of `CAP` in use, in ascending order, so that
walking them is walking in the core's order and a set of neighbours is a bit per slot. A slot is there while the node
has a link to the peer or its router counts it as connected. A piece that is full moves to the end of the arrays, with
twice the room.

Without loss, jitter, uplinks and faults links need no memory of their own: a link is its slot, both ends are always
there, and latencies are drawn anew whenever they are needed, which costs less than to load them.
"""

from __future__ import annotations

import numpy as np

from hearsay.core.shell.randomness import Purpose
from hearsay.sim.array.machine.compiling import inlined, kernel
from hearsay.sim.array.world.draws import below, draw1, draw2, scaled
from hearsay.sim.array.world.layout import (
    ALL_NATIVE,
    CAP,
    COUNT,
    FIRST_SLOT,
    HAS_LINKS,
    LATENCY_KIND,
    LATENCY_LEAST,
    LATENCY_SPAN,
    NATIVE,
    REGION_COUNT,
    SCRIPT,
    SLOTS,
    SLOTS_USED,
    STATUS,
    TOPICS,
    Word,
    World,
    flags,
    latencies,
    links_of,
    nodes32,
    peers,
)
from hearsay.sim.array.world.status import NEEDS_SLOTS
from hearsay.sim.plan.draws import LAST_BIN, TAIL_BINS

UNIFORM, LOG_NORMAL, REGIONS = range(3)

_LATENCY = int(Purpose.LATENCY)
_REGION = int(Purpose.REGION)
_LOW_32 = np.uint64(0xFFFFFFFF)


@kernel
def find_slot(w: World, node: int, peer: int) -> int:
    """The slot of a peer, -1 when there is none."""
    at = place_for(w, node, peer)
    if at < nodes32(w)[node, FIRST_SLOT] + nodes32(w)[node, COUNT] and peers(w)[at] == peer:
        return at
    return -1


@kernel
def is_native(w: World, slot: int) -> bool:
    """Whether a peer speaks this node's own protocol. Asked only of those that are connected."""
    return w[ALL_NATIVE] or flags(w)[slot, 0] & NATIVE != 0


@kernel
def place_for(w: World, node: int, peer: int) -> int:
    """The first slot whose peer is not below this one."""
    numbers = peers(w)
    low = nodes32(w)[node, FIRST_SLOT]
    high = low + nodes32(w)[node, COUNT]
    while low < high:
        middle = (low + high) // 2
        if numbers[middle] < peer:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def insert_slot(w: World, node: int, peer: int) -> int:
    """A slot for a peer that has none yet: not connected, without flags."""
    at = place_for(w, node, peer)
    header = nodes32(w)[node]
    first = nodes32(w)[node, FIRST_SLOT]
    count = header[COUNT]
    if count == header[CAP]:
        room = max(4, 2 * count)
        fresh = w[SLOTS_USED]
        if fresh + room > w[SLOTS]:
            w[STATUS] = NEEDS_SLOTS
            return at
        w[SLOTS_USED] = fresh + room
        for place in range(count):
            _move(w, first + place, fresh + place)
        at += fresh - first
        first = fresh
        header[CAP] = room
        nodes32(w)[node, FIRST_SLOT] = first
    for place in range(first + count, at, -1):
        _move(w, place - 1, place)
    header[COUNT] = count + 1
    peers(w)[at] = peer
    links_of(w)[at] = -1
    for topic in range(w[TOPICS]):
        flags(w)[at, topic] = 0
    return at


@kernel
def remove_slot(w: World, node: int, slot: int) -> None:
    header = nodes32(w)[node]
    header[COUNT] -= 1
    for place in range(slot, nodes32(w)[node, FIRST_SLOT] + header[COUNT]):
        _move(w, place + 1, place)


@kernel
def _move(w: World, start: int, goal: int) -> None:
    peers(w)[goal] = peers(w)[start]
    if w[HAS_LINKS]:
        links_of(w)[goal] = links_of(w)[start]
    for topic in range(w[TOPICS]):
        flags(w)[goal, topic] = flags(w)[start, topic]


@inlined
def latency(w: World, a: int, b: int) -> int:
    """`LatencyModel.base_us`."""
    if w[LATENCY_KIND] != UNIFORM:
        return _other_latency(w, a, b)
    draw = draw2(w, _LATENCY, min(a, b), max(a, b))
    return max(1, w[LATENCY_LEAST] + below(draw, w[LATENCY_SPAN]))


@kernel
def _other_latency(w: World, a: int, b: int) -> int:
    if w[LATENCY_KIND] == REGIONS:
        return max(1, latencies(w)[region(w, a) * w[REGION_COUNT] + region(w, b)])
    return max(1, _log_normal(w, draw2(w, _LATENCY, min(a, b), max(a, b))))


@kernel
def region(w: World, node: int) -> int:
    if node == w[SCRIPT]:
        return 0
    return below(draw1(w, _REGION, node), w[REGION_COUNT])


@kernel
def _log_normal(w: World, draw: Word) -> int:
    """`sim.plan.quantiles.log_normal_us`; `latencies` holds the body, then the low and the high tail."""
    table = latencies(w)
    bin_ = np.int64(draw >> np.uint64(52))
    if bin_ != 0 and bin_ != LAST_BIN:
        low = table[bin_ - 1]
        high = table[bin_]
        bits = draw >> np.uint64(20)
    else:
        place = LAST_BIN + np.int64((draw >> np.uint64(44)) & np.uint64(TAIL_BINS - 1))
        if bin_ != 0:
            place += TAIL_BINS + 1
        low = table[place]
        high = table[place + 1]
        bits = draw >> np.uint64(12)
    return low + scaled(bits & _LOW_32, high - low)
