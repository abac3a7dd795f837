"""The neighbours of a node: their slots, their routers, and the latency between the node and a neighbour.

Layout: a slot is an index in the slot arrays (`peers`, `flags`, …) and stands for one neighbour of one node. The
slots of a node are consecutive. There is room for `CAP` slots; the first `COUNT` of them are in use, ascending by the
number of the peer. So loops over slots visit neighbours in the core's order, and a set of neighbours can be a bit for
each slot. A slot exists while the node has a link to the peer, while its router regards the peer as connected, and
while it stores the score or the gater's counts of a disconnected peer. If the room of a node is full, the slots of
the node move to the end of the arrays, with twice the room.

In a run without loss, jitter, uplinks, faults and dials of routers, links need no memory of their own. Then the
number of a link is its slot, and the slots of both nodes always exist. Latencies are drawn again whenever they are
needed, because that is faster than loading them from memory."""

from __future__ import annotations

import numpy as np

from hearsay.core.rules.randomness import Purpose
from hearsay.sim.array.compiling import inlined, kernel, lower_bound, sort_numbers
from hearsay.sim.array.world.draws import below, draw1, draw2, scaled
from hearsay.sim.array.world.layout import (
    ALL_NATIVE,
    CAP,
    CONNECTED,
    COUNT,
    DIALLED,
    FIRST_SLOT,
    HAS_NATTED,
    HAS_OWN_PLACES,
    JOINED,
    LATENCY_KIND,
    LATENCY_LEAST,
    LATENCY_SPAN,
    MOST_SLOTS,
    NATIVE,
    NEEDS_SLOTS,
    NODE32,
    NODES,
    REGION_COUNT,
    ROUTER,
    ROUTERS,
    SCRIPT,
    SLOTS,
    SLOTS_USED,
    STATUS,
    Word,
    World,
    candidates,
    clear_slot,
    dial_starts,
    dial_targets,
    flags,
    latencies,
    links_of,
    members,
    move_slots,
    natives,
    natted,
    nodes32,
    own_places,
    parameters,
    peers,
    touch_nodes32,
    touch_peers,
)
from hearsay.sim.plan.draws import LAST_BIN, TAIL_BINS


@inlined
def router(w: World, node: int) -> int:
    """Return the index of the router that a node runs, among the routers of the scenario."""
    return nodes32(w)[node, ROUTER] if w[ROUTERS] > 1 else 0


@inlined
def parameter(w: World, node: int, field: int) -> int:
    return parameters(w)[router(w, node), field]


@inlined
def treatment(w: World, node: int, peer: int) -> int:
    """Return how the router of a node treats a peer: FLOODED, MESHED, …"""
    return natives(w)[router(w, node), router(w, peer)]


@inlined
def is_in(w: World, node: int, topic: int) -> bool:
    """Return whether the node's router has joined a topic. If the router has meshes, it then has a mesh for the
    topic."""
    return members(w)[node, topic] & JOINED != 0


@inlined
def first_slot(w: World, node: int) -> int:
    return nodes32(w)[node, FIRST_SLOT]


@inlined
def end_slot(w: World, node: int) -> int:
    return nodes32(w)[node, FIRST_SLOT] + nodes32(w)[node, COUNT]


@inlined
def own_place(w: World, node: int, topic: int) -> int:
    """Return the index of a topic among the topics that a node ever joins; without HAS_OWN_PLACES, among all
    topics."""
    return own_places(w)[node, topic] if w[HAS_OWN_PLACES] else topic


_AHEAD = 16


@kernel
def lay_out_callers(w: World) -> None:
    """Create slots for the peers that dial each node at the start. The slot arrays have room for both nodes of every
    dial."""
    headers = nodes32(w)
    table = peers(w)
    targets = dial_targets(w)
    last = targets.shape[0] - 1
    for node in range(w[NODES]):
        for place in range(dial_starts(w)[node], dial_starts(w)[node + 1]):
            touch_nodes32(w, targets[min(place + 2 * _AHEAD, last)] * NODE32)
            soon = headers[targets[min(place + _AHEAD, last)]]
            touch_peers(w, soon[FIRST_SLOT] + soon[COUNT])
            target = targets[place]
            if not (w[HAS_NATTED] and natted(w)[target]):
                header = headers[target]
                table[header[FIRST_SLOT] + header[COUNT]] = node
                header[COUNT] += 1


@kernel
def lay_out_targets(w: World, th: int, node: int) -> None:
    """Create slots for the peers that a node dials at the start, and sort all slots of the node.

    A peer that also dials the node gets only one slot, with DIALLED and NATIVE set.
    """
    header = nodes32(w)[node]
    first = header[FIRST_SLOT]
    count = header[COUNT]
    doubled = candidates(w)[th]  # twice the number of each peer, plus 1 if the node dials the peer
    for place in range(count):
        doubled[place] = 2 * peers(w)[first + place]
    for place in range(dial_starts(w)[node], dial_starts(w)[node + 1]):
        target = dial_targets(w)[place]
        if not (w[HAS_NATTED] and natted(w)[target]):
            doubled[count] = 2 * target + 1
            count += 1
    sort_numbers(doubled, 0, count)
    end = first
    for place in range(count):
        peer = doubled[place] >> 1
        if place > 0 and doubled[place - 1] >> 1 == peer:
            flags(w)[end - 1, 0] = DIALLED | NATIVE
            continue
        peers(w)[end] = peer
        if doubled[place] & 1:
            flags(w)[end, 0] = DIALLED
        end += 1
    header[COUNT] = end - first


UNIFORM, LOG_NORMAL, REGIONS = range(3)

_LOW_32 = np.uint64(0xFFFFFFFF)


@kernel
def find_slot(w: World, node: int, peer: int) -> int:
    """Return a node's slot for a peer, -1 if there is none."""
    at = place_for(w, node, peer)
    return at if at < end_slot(w, node) and peers(w)[at] == peer else -1


@kernel
def is_connected(w: World, node: int, peer: int) -> bool:
    """Return whether the router of a node regards a peer as connected."""
    slot = find_slot(w, node, peer)
    return slot >= 0 and flags(w)[slot, 0] & CONNECTED != 0


@kernel
def is_native(w: World, slot: int) -> bool:
    """Return whether a connected peer speaks a native protocol of the node's router. To all other peers the node
    sends every message, and no control parts."""
    return w[ALL_NATIVE] or flags(w)[slot, 0] & NATIVE != 0


@kernel
def place_for(w: World, node: int, peer: int) -> int:
    """Return a node's slot for a peer. If there is none, return the slot at which it would be inserted."""
    return lower_bound(peers(w), first_slot(w, node), end_slot(w, node), peer)


@kernel
def insert_slot(w: World, node: int, peer: int) -> int:
    """Insert a slot, without flags, for a peer that has none yet, and return it. Slots of other neighbours may move.
    If the arrays have no room, set STATUS to NEEDS_SLOTS and insert nothing."""
    at = place_for(w, node, peer)
    header = nodes32(w)[node]
    first = first_slot(w, node)
    count = header[COUNT]
    if count == header[CAP]:
        room = max(4, 2 * count)
        fresh = w[SLOTS_USED]
        if fresh + room > w[SLOTS]:
            w[STATUS] = NEEDS_SLOTS
            return at
        w[SLOTS_USED] = fresh + room
        move_slots(w, first, fresh, count)
        at += fresh - first
        first = fresh
        header[CAP] = room
        nodes32(w)[node, FIRST_SLOT] = first
    move_slots(w, at, at + 1, first + count - at)
    header[COUNT] = count + 1
    w[MOST_SLOTS] = max(w[MOST_SLOTS], count + 1)
    clear_slot(w, at)
    peers(w)[at] = peer
    links_of(w)[at] = -1
    return at


@kernel
def remove_slot(w: World, node: int, slot: int) -> None:
    nodes32(w)[node, COUNT] -= 1
    move_slots(w, slot + 1, slot, end_slot(w, node) - slot)


@inlined
def latency(w: World, a: int, b: int) -> int:
    """Return the latency between two nodes in microseconds, without jitter (`LatencyModel.base_us`)."""
    if w[LATENCY_KIND] != UNIFORM:
        return _other_latency(w, a, b)
    draw = draw2(w, Purpose.LATENCY, min(a, b), max(a, b))
    return max(1, w[LATENCY_LEAST] + below(draw, w[LATENCY_SPAN]))


@kernel
def _other_latency(w: World, a: int, b: int) -> int:
    if w[LATENCY_KIND] == REGIONS:
        return max(1, latencies(w)[region(w, a) * w[REGION_COUNT] + region(w, b)])
    return max(1, _log_normal(w, draw2(w, Purpose.LATENCY, min(a, b), max(a, b))))


@kernel
def region(w: World, node: int) -> int:
    return below(draw1(w, Purpose.REGION, node), w[REGION_COUNT]) if node != w[SCRIPT] else 0


@kernel
def _log_normal(w: World, draw: Word) -> int:
    """Return a log-normal latency in microseconds (`sim.plan.draws.log_normal_us`).

    `latencies` has the quantiles of the body, then those of the low tail and those of the high tail.
    """
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
