"""The transport of RPCs (`sim.reference.transport`): latency, jitter, loss and uplinks. A link keeps RPCs in order.

A copy is a sure duplicate if its receiver has seen the message already when the copy is sent. It changes nothing at
the receiver. So it is counted as received when it is sent, and is not queued. Nearly all copies of IHAVEs and two of
five copies of messages are sure duplicates. The bits of the receiver in `seen` are slow to load. They are prefetched
when a copy is sent, and the copy waits in `leaving` until the bits are in the processor's cache. This is done only if
DEFERS is set.

Layout: `leaving` has a ring of ROOM lines for each thread. A line has the time of arrival, word 0 of the event
without its time, and word 1. When the ring is full, its older half is queued. All RPCs go through the ring, so the
RPCs on a link keep their order.
"""

from __future__ import annotations

import numpy as np

from hearsay.core.language.actions import Reason
from hearsay.core.language.events import EventKind
from hearsay.core.rules.randomness import Purpose
from hearsay.sim.array.compiling import inlined, kernel
from hearsay.sim.array.world.draws import below, draw1, extend
from hearsay.sim.array.world.knowledge import column, surely_seen, word_of
from hearsay.sim.array.world.layout import (
    CHANGES_NOTHING,
    DEAD,
    DEFERS,
    DESTINATION,
    HAS_JITTER,
    HAS_LINKS,
    HAS_LOSS,
    JITTER,
    LAST_ARRIVAL,
    LEAVING_FIRST,
    LEAVING_NEXT,
    LINK_FLAGS,
    LINK_SOURCE,
    LOSS,
    LOSS_CONTROL,
    OPEN,
    PREVIOUS,
    REGION_COUNT,
    SEQUENCE,
    THREADS,
    UPLINK,
    UPLINK_BYTES,
    UPLINK_FREE,
    World,
    arena,
    bytes_out,
    control,
    counts,
    leaving,
    links32,
    links64,
    links_of,
    nodes64,
    region_jitters,
    touch_seen,
    words_at,
)
from hearsay.sim.array.world.payload import (
    GRAFT,
    HEADER,
    IHAVE,
    IWANT,
    PART,
    PART_IDS,
    PART_KIND,
    PART_MESSAGE,
    PARTIAL,
    PRUNE,
    PUBLISH,
    allocate,
    hold,
    message_part,
    part_at,
    part_place,
    release,
    rpc_bytes,
    words_behind,
)
from hearsay.sim.array.world.queue import (
    GOSSIP,
    INLINE,
    MESSAGE,
    NODE,
    gossip_bits,
    insert,
    push,
    word_0,
)
from hearsay.sim.array.world.record import DUPLICATES, EVENTS, dropped, received, sending, sent
from hearsay.sim.array.world.slots import latency, region

ROOM = 128
_TIME, _REST, _GOAL = range(3)


@inlined
def post(
    w: World, th: int, time: int, node: int, source: int, payload: int, link: int, via: int, hops: int
) -> None:  # fmt: skip
    """Queue an RPC from `source` that arrives at `node` at `time`. With DEFERS, put the RPC into `leaving`
    instead."""
    rest = word_0(EventKind.RPC_RECEIVED, source, via, hops)
    if not w[DEFERS]:
        insert(w, th, time, rest, node << NODE | payload, link, 1)
        return
    line = control(w)[th]
    place = line[LEAVING_NEXT]
    entry = leaving(w)[th, place & (ROOM - 1)]
    entry[_TIME] = time
    entry[_REST] = rest
    entry[_GOAL] = node << NODE | payload
    touch_seen(w, word_of(w, node, column(w, payload & MESSAGE)))
    line[LEAVING_NEXT] = place + 1
    if place + 1 - line[LEAVING_FIRST] == ROOM:
        _queue_oldest(w, th, ROOM // 2)


@kernel
def queue_leaving(w: World) -> None:
    """Queue all RPCs that wait in `leaving`, before the next part of a bucket begins."""
    for th in range(w[THREADS]):
        _queue_oldest(w, th, control(w)[th, LEAVING_NEXT] - control(w)[th, LEAVING_FIRST])


@kernel
def _queue_oldest(w: World, th: int, count: int) -> None:
    """Queue the `count` oldest RPCs in `leaving`. Do not queue sure duplicates, but count them as received.

    The code has no branch for sure duplicates, because the processor would mispredict the branch.
    """
    line = control(w)[th]
    first = line[LEAVING_FIRST]
    line[LEAVING_FIRST] = first + count
    events = 0
    duplicates = 0
    for place in range(first, first + count):
        entry = leaving(w)[th, place & (ROOM - 1)]
        time = entry[_TIME]
        rest = entry[_REST]
        goal = entry[_GOAL]
        known = 0
        if goal & w[CHANGES_NOTHING]:
            others = gossip_bits(rest, goal) if goal & GOSSIP else 0
            known = int(surely_seen(w, goal >> NODE, goal & MESSAGE, others, time))
            events += known
            duplicates += known & int(goal & INLINE != 0)
        insert(w, th, time, rest, goal, 0, 1 - known)
    counts(w)[th, EVENTS] += events
    counts(w)[th, DUPLICATES] += duplicates
    received(w, th, PUBLISH, duplicates)
    received(w, th, IHAVE, events - duplicates)


_MILLION = 1_000_000
MAX_INLINE_HOPS = 255


@inlined
def link_to(w: World, slot: int) -> int:
    """Return the link over which an RPC to the peer of a slot is sent. If links need no memory, return the slot."""
    if not w[HAS_LINKS]:
        return slot
    link = links_of(w)[slot]
    line = links32(w)[link]
    if not line[LINK_FLAGS] & OPEN and line[PREVIOUS] >= 0:
        return line[PREVIOUS]  # the peer came back before the node noticed the loss of the old connection
    return link


@kernel
def has_room(w: World, node: int, size: int, now: int) -> bool:
    """Return whether the queue of the node's uplink has room for an RPC of `size` bytes."""
    if not (w[UPLINK] and w[UPLINK_BYTES]):
        return True
    waiting = max(0, nodes64(w)[node, UPLINK_FREE] - now)
    return waiting * w[UPLINK] // 8_000_000 + size <= w[UPLINK_BYTES]


@kernel
def time_to_leave(w: World, size: int) -> int:
    """Return the number of microseconds that an uplink needs to send `size` bytes, rounded up."""
    return -(-size * 8_000_000 // w[UPLINK])


@kernel
def reserve_uplink(w: World, node: int, size: int, now: int) -> int:
    """Reserve the node's uplink for an RPC of `size` bytes, after all earlier RPCs. Return the time at which its last
    byte is sent; this is `now` if uplinks have no limit."""
    if not w[UPLINK]:
        return now
    leaves = max(nodes64(w)[node, UPLINK_FREE], now) + time_to_leave(w, size)
    nodes64(w)[node, UPLINK_FREE] = leaves
    return leaves


@kernel
def arrival_time(w: World, node: int, peer: int, sequence: int, leaves: int, last_arrival: int) -> int:
    """Return the time at which an RPC arrives if its last byte is sent at `leaves`: not before `last_arrival`, the
    arrival of the previous RPC on the link."""
    arrival = leaves + latency(w, node, peer)
    if w[HAS_JITTER]:
        arrival = max(leaves + 1, arrival + _jitter(w, node, peer, sequence))
    return max(arrival, last_arrival)


@kernel
def arrival_on_link(w: World, node: int, peer: int, link: int, sequence: int, leaves: int) -> int:
    """Return the time at which an RPC arrives over a link if its last byte is sent at `leaves`. In a run with jitter
    or uplinks, store this time as LAST_ARRIVAL."""
    if not w[HAS_JITTER] and not w[UPLINK]:
        return leaves + latency(w, node, peer)
    times = links64(w)[link]
    times[LAST_ARRIVAL] = arrival_time(w, node, peer, sequence, leaves, times[LAST_ARRIVAL])
    return int(times[LAST_ARRIVAL])


@kernel
def next_sequence(w: World, link: int) -> int:
    """Return the number of the next RPC of a link, for the RPC's draws; 0 in a run without loss and jitter."""
    if not (w[HAS_LOSS] or w[HAS_JITTER]):
        return 0
    sequence = links32(w)[link, SEQUENCE]
    links32(w)[link, SEQUENCE] = sequence + 1
    return int(sequence)


@kernel
def _jitter(w: World, source: int, destination: int, sequence: int) -> int:
    """Return the jitter of an RPC in microseconds; it may be negative."""
    reach = w[JITTER]
    if w[REGION_COUNT]:
        reach += region_jitters(w)[region(w, source), region(w, destination)]
    if reach == 0:
        return 0
    draw = extend(extend(draw1(w, Purpose.JITTER, source), np.uint64(destination)), np.uint64(sequence))
    return below(draw, 2 * reach + 1) - reach


@kernel
def round_trip(w: World, node: int, peer: int, now: int, base: int) -> int:
    """Return the round-trip time in microseconds of a ping that is sent now; `base` is the latency without jitter."""
    if not w[HAS_JITTER]:
        return 2 * base
    return max(2, 2 * base + _jitter(w, node, peer, now) + _jitter(w, peer, node, now))


@kernel
def is_lost(w: World, source: int, destination: int, sequence: int, index: int) -> bool:
    """Return whether part `index` of an RPC is lost. The part must be of a kind that can be lost."""
    draw = extend(extend(draw1(w, Purpose.LOSS, source), np.uint64(destination)), np.uint64(sequence))
    return below(extend(draw, np.uint64(index)), _MILLION) < w[LOSS]


@kernel
def _can_be_lost(w: World, kind: int) -> bool:
    """Return whether parts of a kind can be lost."""
    if kind == PUBLISH or kind == IHAVE or kind == IWANT or kind >= PARTIAL:
        return True
    return w[LOSS_CONTROL] and (kind == GRAFT or kind == PRUNE)


@kernel
def is_left_out(w: World, node: int, peer: int, rpc: int, index: int, message: int, sequence: int) -> bool:
    """Return whether `without_parts`, with the same arguments, leaves out part `index` of an RPC."""
    part = words_at(w, part_place(rpc, index))
    if message >= 0:
        return part[PART_KIND] == PUBLISH and part[PART_MESSAGE] == message
    return _can_be_lost(w, part[PART_KIND]) and is_lost(w, node, peer, sequence, index)


@kernel
def without_parts(w: World, th: int, time: int, node: int, peer: int, rpc: int, message: int, sequence: int) -> int:
    """Leave out parts of an RPC, and record them as dropped: lost parts if `message` is -1, otherwise withdrawn
    copies of this message.

    Return the RPC itself if no part is left out, -1 if all parts are, otherwise a new RPC.
    """
    parts = arena(w)[rpc]
    reason = Reason.LOST if message < 0 else Reason.WITHDRAWN
    left = 0
    words = HEADER
    for index in range(parts):
        if is_left_out(w, node, peer, rpc, index, message, sequence):
            dropped(w, th, time, node, peer, part_at(w, rpc, index), reason)
        else:
            left += 1
            words += PART + words_behind(w, rpc, index)
    if left == parts:
        return rpc
    if left == 0:
        return -1
    hold(w, th, rpc)
    copy = allocate(w, th, words)
    release(w, th, rpc)
    arena(w)[copy] = left
    kept = 0
    ids = HEADER + left * PART
    for index in range(parts):
        if not is_left_out(w, node, peer, rpc, index, message, sequence):
            ids = _copy_part(w, rpc, index, copy, kept, ids)
            kept += 1
    return copy


@kernel
def transmit(
    w: World, th: int, sent_at: int, arrival: int, link: int, node: int, peer: int, rpc: int, sequence: int
) -> None:  # fmt: skip
    """Count and record an RPC that is sent, and queue its arrival without the parts that are lost."""
    bytes_out(w)[node] += rpc_bytes(w, rpc)
    for index in range(arena(w)[rpc]):
        part = part_at(w, rpc, index)
        sent(w, th, sent_at, node, peer, part, arrival - sent_at, sending(w, sent_at, node, part))
    if w[HAS_LOSS]:
        rpc = without_parts(w, th, arrival, node, peer, rpc, -1, sequence)
        if rpc < 0:
            return
    hold(w, th, rpc)
    post(w, th, arrival, peer, node, rpc, link, -1, 0)


@kernel
def _copy_part(w: World, rpc: int, index: int, copy: int, place: int, ids: int) -> int:
    """Copy a part and its ids to part `place` of the RPC `copy`. `ids` is the index of the ids in `copy`; return the
    index for the ids of the next part."""
    store = arena(w)
    part = words_at(w, part_place(rpc, index))
    goal = words_at(w, part_place(copy, place))
    for field in range(PART):
        goal[field] = part[field]
    if part[PART_IDS]:
        goal[PART_IDS] = ids
        count = words_behind(w, rpc, index)
        for number in range(count):
            store[copy + ids + number] = store[rpc + part[PART_IDS] + number]
        ids += count
    return ids


@kernel
def drop_unreachable(
    w: World, th: int, now: int, source: int, destination: int, payload: int, via: int, hops: int
) -> None:  # fmt: skip
    """Record the parts of an RPC as dropped, because its receiver is down or the connection is lost."""
    if payload & INLINE:
        part = message_part(w, payload & (INLINE - 1), hops, via)
        dropped(w, th, now, source, destination, part, Reason.UNREACHABLE)
        return
    for index in range(arena(w)[payload]):
        dropped(w, th, now, source, destination, part_at(w, payload, index), Reason.UNREACHABLE)


@kernel
def lose_link(w: World, th: int, link: int, time: int) -> None:
    """Mark a link as lost, and let its source notice the loss at `time`."""
    line = links32(w)[link]
    line[LINK_FLAGS] |= DEAD
    push(w, th, time, line[LINK_SOURCE], EventKind.PEER_DISCONNECTED, line[DESTINATION], link, link)
