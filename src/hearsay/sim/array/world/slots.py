"""Neighbours of a node: their slots, their routers, and the latency to them.

Layout: a slot is an index in the slot arrays (`peers`, `flags`, …) and stands for one neighbour of one node. The
slots of a node are consecutive: room for `CAP`, the first `COUNT` in use, ascending by the number of the peer. So
loops over slots visit neighbours in the core's order, and a set of neighbours can be a bit for each slot. A slot
exists while the node has a link to the peer, or its router counts the peer as connected. If the room of a node is
full, its slots move to the end of the arrays, with twice the room.

Without loss, jitter, uplinks and faults, links need no memory of their own: a link is its slot, the slots of both
nodes always exist, and latencies are drawn again whenever they are needed, which is faster than loading them."""

from __future__ import annotations

import numpy as np

from hearsay.core.shell.randomness import Purpose
from hearsay.sim.array.machine.compiling import inlined, kernel
from hearsay.sim.array.machine.memory import sort_numbers
from hearsay.sim.array.world.draws import below, draw1, draw2, scaled
from hearsay.sim.array.world.layout import (
    AHEAD_OF,
    ALL_NATIVE,
    AWAY_UNTIL,
    CAP,
    CONNECTED,
    COUNT,
    DIALLED,
    FIRST_SLOT,
    HAS_EPISUB,
    HAS_FEATURES,
    HAS_GATER,
    HAS_LINKS,
    HAS_NATTED,
    HAS_OVERLAY,
    HAS_OWN_PLACES,
    HAS_SCORES,
    IDLE_UNTIL,
    JOINED,
    LATENCY_KIND,
    LATENCY_LEAST,
    LATENCY_SPAN,
    MOST_SLOTS,
    NATIVE,
    NEEDS_SLOTS,
    NODE32,
    NODES,
    PING_UNTIL,
    REGION_COUNT,
    RETAINS,
    ROUTER,
    ROUTERS,
    SCRIPT,
    SLOTS,
    SLOTS_USED,
    STATUS,
    TOPICS,
    USES_12,
    WITNESSES,
    Word,
    World,
    apart,
    candidates,
    detours,
    dial_starts,
    dial_targets,
    flags,
    gated,
    idontwants,
    known_topics,
    latencies,
    links_of,
    members,
    mesh_times,
    natted,
    nodes32,
    own_places,
    parameters,
    peer_scores,
    peers,
    retained,
    slot_times,
    topic_scores,
    touch_nodes32,
    touch_peers,
    traits,
    tree_marks,
)
from hearsay.sim.plan.draws import LAST_BIN, TAIL_BINS


@inlined
def router(w: World, node: int) -> int:
    """Return which of the scenario's routers a node runs."""
    return nodes32(w)[node, ROUTER] if w[ROUTERS] > 1 else 0


@inlined
def parameter(w: World, node: int, field: int) -> int:
    return parameters(w)[router(w, node), field]


@inlined
def is_in(w: World, node: int, topic: int) -> bool:
    """Return whether the router has joined a topic, and so has a mesh for it if it has meshes at all."""
    return members(w)[node, topic] & JOINED != 0


@inlined
def first_slot(w: World, node: int) -> int:
    return nodes32(w)[node, FIRST_SLOT]


@inlined
def end_slot(w: World, node: int) -> int:
    return nodes32(w)[node, FIRST_SLOT] + nodes32(w)[node, COUNT]


@inlined
def own_place(w: World, node: int, topic: int) -> int:
    """Return the index of a topic among the topics that a node ever joins."""
    return own_places(w)[node, topic] if w[HAS_OWN_PLACES] else topic


_AHEAD = 16


@kernel
def lay_out_callers(w: World) -> None:
    """Create slots for the peers that dial each node. The slot arrays have room for both nodes of every dial."""
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
    """Create slots for the peers that a node dials, and merge them with those of `lay_out_callers`."""
    header = nodes32(w)[node]
    first = header[FIRST_SLOT]
    callers = header[COUNT]
    table = peers(w)
    end = first + callers
    for place in range(dial_starts(w)[node], dial_starts(w)[node + 1]):
        target = dial_targets(w)[place]
        if not (w[HAS_NATTED] and natted(w)[target]):
            table[end] = target
            end += 1
    sort_numbers(table, first + callers, end)
    header[COUNT] = _merge(w, th, first, callers, end - first)


@kernel
def _merge(w: World, th: int, first: int, callers: int, count: int) -> int:
    """Merge the slots of a node's callers with those of the peers that it dials; return the number of different
    peers.

    The `callers` slots from `first` on are those of callers; up to `count`, those of dialled peers follow. Both
    ascend. A peer that is both gets one slot, with DIALLED and NATIVE set.
    """
    table = peers(w)
    both = candidates(w)[th]
    for place in range(count):
        both[place] = table[first + place]
    left = 0
    right = callers
    kept = 0
    while left < callers or right < count:
        dialled = left == callers or (right < count and both[right] <= both[left])
        calls = 0
        if dialled:
            peer = both[right]
            right += 1
            calls = int(left < callers and both[left] == peer)
            left += calls
        else:
            peer = both[left]
            left += 1
        table[first + kept] = peer
        if dialled:
            flags(w)[first + kept, 0] = DIALLED | calls * NATIVE
        kept += 1
    return kept


UNIFORM, LOG_NORMAL, REGIONS = range(3)

_LOW_32 = np.uint64(0xFFFFFFFF)


@kernel
def find_slot(w: World, node: int, peer: int) -> int:
    """Return the slot of a peer, -1 when there is none."""
    at = place_for(w, node, peer)
    if at < end_slot(w, node) and peers(w)[at] == peer:
        return at
    return -1


@kernel
def is_connected(w: World, node: int, peer: int) -> bool:
    """Return whether the router counts a peer as connected."""
    slot = find_slot(w, node, peer)
    return slot >= 0 and flags(w)[slot, 0] & CONNECTED != 0


@kernel
def is_native(w: World, slot: int) -> bool:
    """Return whether a connected peer speaks a protocol of the node's own router; to other peers it only floods."""
    return w[ALL_NATIVE] or flags(w)[slot, 0] & NATIVE != 0


@kernel
def place_for(w: World, node: int, peer: int) -> int:
    """Return the slot of a peer or, if it has none, the slot at which it would be inserted."""
    numbers = peers(w)
    low = first_slot(w, node)
    high = end_slot(w, node)
    while low < high:
        middle = (low + high) // 2
        if numbers[middle] < peer:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def insert_slot(w: World, node: int, peer: int) -> int:
    """Insert and return a slot, without flags, for a peer that has none yet. Slots of other neighbours may move."""
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
        for place in range(count):
            _move(w, first + place, fresh + place)
        at += fresh - first
        first = fresh
        header[CAP] = room
        nodes32(w)[node, FIRST_SLOT] = first
    for place in range(first + count, at, -1):
        _move(w, place - 1, place)
    header[COUNT] = count + 1
    w[MOST_SLOTS] = max(w[MOST_SLOTS], count + 1)
    peers(w)[at] = peer
    links_of(w)[at] = -1
    if w[RETAINS]:
        retained(w)[at] = 0
    if w[HAS_GATER]:
        gated(w)[at, AWAY_UNTIL] = 0.0
    if w[HAS_FEATURES]:
        for place in range(1 + w[TOPICS]):
            traits(w)[at, place] = 0
    for topic in range(w[TOPICS]):
        flags(w)[at, topic] = 0
        if w[WITNESSES]:
            known_topics(w)[at, topic] = 0
            apart(w)[at, topic] = 0
        if w[HAS_EPISUB]:
            tree_marks(w)[at, topic] = 0
        if w[HAS_OVERLAY]:
            detours(w)[at, topic, AHEAD_OF] = 0
    if w[HAS_OVERLAY]:
        slot_times(w)[at, IDLE_UNTIL] = 0
        slot_times(w)[at, PING_UNTIL] = 0
    return at


@kernel
def remove_slot(w: World, node: int, slot: int) -> None:
    header = nodes32(w)[node]
    header[COUNT] -= 1
    for place in range(slot, end_slot(w, node)):
        _move(w, place + 1, place)


@kernel
def _move(w: World, start: int, goal: int) -> None:
    peers(w)[goal] = peers(w)[start]
    if w[HAS_LINKS]:
        links_of(w)[goal] = links_of(w)[start]
    for topic in range(w[TOPICS]):
        flags(w)[goal, topic] = flags(w)[start, topic]
    if w[HAS_SCORES]:
        _move_scores(w, start, goal)
    if w[RETAINS]:
        retained(w)[goal] = retained(w)[start]
    if w[HAS_GATER]:
        for field in range(5):
            gated(w)[goal, field] = gated(w)[start, field]
    if w[HAS_EPISUB]:
        for topic in range(w[TOPICS]):
            tree_marks(w)[goal, topic] = tree_marks(w)[start, topic]
    if w[HAS_OVERLAY]:
        for field in range(2):
            slot_times(w)[goal, field] = slot_times(w)[start, field]
            for topic in range(w[TOPICS]):
                detours(w)[goal, topic, field] = detours(w)[start, topic, field]
    if w[USES_12]:
        for field in range(2):
            idontwants(w)[goal, field] = idontwants(w)[start, field]
    if w[WITNESSES]:
        for topic in range(w[TOPICS]):
            known_topics(w)[goal, topic] = known_topics(w)[start, topic]
            apart(w)[goal, topic] = apart(w)[start, topic]
    if w[HAS_FEATURES]:
        for place in range(1 + w[TOPICS]):
            traits(w)[goal, place] = traits(w)[start, place]


@kernel
def _move_scores(w: World, start: int, goal: int) -> None:
    for field in range(4):
        peer_scores(w)[goal, field] = peer_scores(w)[start, field]
    for place in range(topic_scores(w).shape[1]):
        for field in range(4):
            topic_scores(w)[goal, place, field] = topic_scores(w)[start, place, field]
        for field in range(3):
            mesh_times(w)[goal, place, field] = mesh_times(w)[start, place, field]


@inlined
def latency(w: World, a: int, b: int) -> int:
    """Return the latency between two nodes in microseconds (`LatencyModel.base_us`)."""
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
    if node == w[SCRIPT]:
        return 0
    return below(draw1(w, Purpose.REGION, node), w[REGION_COUNT])


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
