"""How RPCs travel (`sim.reference.transport`): latency, jitter, loss, uplinks, first in first out on every link.

A copy that is surely a duplicate, because its receiver has seen the message already, changes nothing: it is counted
when it is sent, and is not queued. That holds for nearly all gossip and for two of five messages. The receiver's bits
in `seen` are slow to load: they are prefetched when a copy is sent, and the copy waits in `leaving` until they are
there.

Layout: `leaving` is a ring for each thread. A line has the time of arrival, word 0 of the event without its time, and
word 1. When the ring is full, its older half is queued. All RPCs go through the ring, so each link keeps its
order."""

from __future__ import annotations

import numpy as np

from hearsay.core.language.actions import Reason
from hearsay.core.language.events import EventKind
from hearsay.core.shell.randomness import Purpose
from hearsay.sim.array.machine.compiling import inlined, kernel
from hearsay.sim.array.world.draws import below, draw1, extend
from hearsay.sim.array.world.knowledge import column, surely_seen, word_of
from hearsay.sim.array.world.layout import (
    CHANGES_NOTHING,
    DEFERS,
    HAS_JITTER,
    HAS_LINKS,
    HAS_LOSS,
    JITTER,
    LAST_ARRIVAL,
    LEAVING_FIRST,
    LEAVING_NEXT,
    LINK32,
    LINK_FLAGS,
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
    outbox,
    region_jitters,
    touch_links32,
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
    """Queue an RPC from `source` that arrives at `node` at `time`; with DEFERS, put it into `leaving` first."""
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
        _depart(w, th, ROOM // 2)


@kernel
def all_depart(w: World) -> None:
    """Queue the copies that wait in `leaving`, before the next part of a bucket begins."""
    for th in range(w[THREADS]):
        _depart(w, th, control(w)[th, LEAVING_NEXT] - control(w)[th, LEAVING_FIRST])


@kernel
def _depart(w: World, th: int, count: int) -> None:
    """Queue the `count` oldest copies in `leaving`; count sure duplicates as received instead.

    There is no branch on whether a copy is a sure duplicate, because the processor would mispredict it.
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
    """Return the link for an RPC to this peer; the slot, if links need no memory."""
    if not w[HAS_LINKS]:
        return slot
    link = links_of(w)[slot]
    line = links32(w)[link]
    if not line[LINK_FLAGS] & OPEN and line[PREVIOUS] >= 0:
        return line[PREVIOUS]  # the peer came back before its loss was noticed
    return link


@kernel
def ask_for_links(w: World, th: int, copies: int) -> None:
    """Prefetch the links over which a call's copies go."""
    entries = outbox(w)[th]
    for place in range(copies):
        touch_links32(w, links_of(w)[entries[place, 0]] * LINK32)


@kernel
def has_room(w: World, node: int, size: int, now: int) -> bool:
    """Return whether the queue of the node's uplink has room for an RPC of `size` bytes."""
    if not (w[UPLINK] and w[UPLINK_BYTES]):
        return True
    waiting = max(0, nodes64(w)[node, UPLINK_FREE] - now)
    return waiting * w[UPLINK] // 8_000_000 + size <= w[UPLINK_BYTES]


@kernel
def time_to_leave(w: World, size: int) -> int:
    """Return the microseconds that an uplink needs to send `size` bytes."""
    return -(-size * 8_000_000 // w[UPLINK])


@kernel
def leaves_at(w: World, node: int, size: int, now: int) -> int:
    """Queue an RPC of `size` bytes behind all others of the node's uplink; return when its last byte is sent."""
    if not w[UPLINK]:
        return now
    leaves = max(nodes64(w)[node, UPLINK_FREE], now) + time_to_leave(w, size)
    nodes64(w)[node, UPLINK_FREE] = leaves
    return leaves


@kernel
def arrival_of(w: World, node: int, peer: int, sequence: int, leaves: int, last_arrival: int) -> int:
    """Return when an RPC arrives whose last byte is sent at `leaves`: not before the last arrival on its link."""
    arrival = leaves + latency(w, node, peer)
    if w[HAS_JITTER]:
        arrival = max(leaves + 1, arrival + _jitter(w, node, peer, sequence))
    return max(arrival, last_arrival)


@kernel
def arrives_at(w: World, node: int, peer: int, link: int, sequence: int, leaves: int) -> int:
    """Return when an RPC arrives over a link if its last byte is sent at `leaves`; store it as LAST_ARRIVAL."""
    if not w[HAS_JITTER] and not w[UPLINK]:
        return leaves + latency(w, node, peer)
    times = links64(w)[link]
    times[LAST_ARRIVAL] = arrival_of(w, node, peer, sequence, leaves, times[LAST_ARRIVAL])
    return int(times[LAST_ARRIVAL])


@kernel
def next_sequence(w: World, link: int) -> int:
    """Return the number of the next RPC of a link, for its draws; 0 in runs without loss and jitter."""
    if not (w[HAS_LOSS] or w[HAS_JITTER]):
        return 0
    sequence = links32(w)[link, SEQUENCE]
    links32(w)[link, SEQUENCE] = sequence + 1
    return int(sequence)


@kernel
def _jitter(w: World, source: int, destination: int, sequence: int) -> int:
    reach = w[JITTER]
    if w[REGION_COUNT]:
        reach += region_jitters(w)[region(w, source), region(w, destination)]
    if reach == 0:
        return 0
    draw = extend(extend(draw1(w, Purpose.JITTER, source), np.uint64(destination)), np.uint64(sequence))
    return below(draw, 2 * reach + 1) - reach


@kernel
def round_trip(w: World, node: int, peer: int, now: int, base: int) -> int:
    """Return the round-trip time of a ping that is sent now, in microseconds."""
    if not w[HAS_JITTER]:
        return 2 * base
    return max(2, 2 * base + _jitter(w, node, peer, now) + _jitter(w, peer, node, now))


@kernel
def is_lost(w: World, source: int, destination: int, sequence: int, index: int) -> bool:
    draw = extend(extend(draw1(w, Purpose.LOSS, source), np.uint64(destination)), np.uint64(sequence))
    return below(extend(draw, np.uint64(index)), _MILLION) < w[LOSS]


@kernel
def _lossy(w: World, kind: int) -> bool:
    if kind == PUBLISH or kind == IHAVE or kind == IWANT or kind >= PARTIAL:
        return True
    return w[LOSS_CONTROL] and (kind == GRAFT or kind == PRUNE)


@kernel
def lose(w: World, th: int, node: int, peer: int, sequence: int, rpc: int, arrival: int) -> int:
    """Draw and record lost parts; return the RPC if none is lost, a copy without them, or -1 if all are lost."""
    parts = arena(w)[rpc]
    lost = 0
    words = HEADER
    for index in range(parts):
        part = words_at(w, part_place(rpc, index))
        if _lossy(w, part[PART_KIND]) and is_lost(w, node, peer, sequence, index):
            dropped(w, th, arrival, node, peer, part_at(w, rpc, index), Reason.LOST)
            lost += 1
        else:
            words += PART + words_behind(w, rpc, index)
    if lost == 0:
        return rpc
    if lost == parts:
        return -1
    copy = begin_copy(w, th, rpc, parts - lost, words)
    kept = 0
    ids = HEADER + (parts - lost) * PART
    for index in range(parts):
        part = words_at(w, part_place(rpc, index))
        if not (_lossy(w, part[PART_KIND]) and is_lost(w, node, peer, sequence, index)):
            ids = copy_part(w, rpc, index, copy, kept, ids)
            kept += 1
    return copy


@kernel
def let_go(
    w: World, th: int, sent_at: int, arrival: int, link: int, node: int, peer: int, rpc: int, sequence: int
) -> None:  # fmt: skip
    """Record a sent RPC, and queue it for its arrival, without lost parts."""
    bytes_out(w)[node] += rpc_bytes(w, rpc)
    for index in range(arena(w)[rpc]):
        part = part_at(w, rpc, index)
        sent(w, th, sent_at, node, peer, part, arrival - sent_at, sending(w, sent_at, node, part))
    if w[HAS_LOSS]:
        rpc = lose(w, th, node, peer, sequence, rpc, arrival)
        if rpc < 0:
            return
    hold(w, th, rpc)
    post(w, th, arrival, peer, node, rpc, link, -1, 0)


@kernel
def begin_copy(w: World, th: int, rpc: int, parts: int, words: int) -> int:
    """Allocate a copy of an RPC that will have only `parts` of its parts; return its index in the arena."""
    hold(w, th, rpc)
    copy = allocate(w, th, words)
    release(w, th, rpc)
    arena(w)[copy] = parts
    return copy


@kernel
def copy_part(w: World, rpc: int, index: int, copy: int, place: int, ids: int) -> int:
    """Copy a part and its ids to part `place` of `copy`; return the place in `copy` of the next ids."""
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
def unreachable(
    w: World, th: int, now: int, source: int, destination: int, payload: int, via: int, hops: int
) -> None:  # fmt: skip
    """Record the parts of an RPC as dropped, because its receiver is down or the connection is lost."""
    if payload & INLINE:
        part = message_part(w, payload & (INLINE - 1), hops, via)
        dropped(w, th, now, source, destination, part, Reason.UNREACHABLE)
        return
    for index in range(arena(w)[payload]):
        dropped(w, th, now, source, destination, part_at(w, payload, index), Reason.UNREACHABLE)
