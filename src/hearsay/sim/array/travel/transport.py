"""How RPCs travel (`sim.reference.transport`): latency, jitter, loss, uplinks, first in first out on every link.

A copy that will surely be a duplicate, because its receiver has seen the message already, changes nothing: it is
counted here and does not travel. That holds for nearly all gossip and for two of five messages. A look at what the
receiver knows waits for memory, so copies stay here for a while after that memory was requested.

Layout: `leaving` is a ring per thread, of lines of time, word 0 of the queue without its time, and word 1. When it is
full the older half leaves. Everything that goes over a connection goes through the ring, so it stays in order."""

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
    peers,
    region_jitters,
    touch_links32,
    touch_seen,
    words_at,
)
from hearsay.sim.array.world.payload import (
    GRAFT,
    HEADER,
    IDONTWANT,
    IHAVE,
    IWANT,
    PART,
    PART_BYTES,
    PART_COUNT,
    PART_IDS,
    PART_KIND,
    PRUNE,
    PUBLISH,
    Part,
    allocate,
    hold,
    message_part,
    part_at,
    part_place,
    release,
    topic_part,
    write_part,
)
from hearsay.sim.array.world.queue import (
    GOSSIP,
    INLINE,
    MESSAGE,
    NODE,
    gossip_bits,
    gossip_payload,
    gossip_rest,
    insert,
    push,
    topic_payload,
    word_0,
)
from hearsay.sim.array.world.record import DUPLICATES, EVENTS, Hash, dropped, sending, sent
from hearsay.sim.array.world.slots import latency, region

ROOM = 128
_TIME, _REST, _GOAL = range(3)


@inlined
def post(
    w: World, th: int, time: int, node: int, source: int, payload: int, link: int, via: int, hops: int
) -> None:  # fmt: skip
    """Send an RPC that arrives at a time."""
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
    """Let all copies leave at the end of a part."""
    for th in range(w[THREADS]):
        _depart(w, th, control(w)[th, LEAVING_NEXT] - control(w)[th, LEAVING_FIRST])


@kernel
def _depart(w: World, th: int, count: int) -> None:
    """Let copies leave. There is no branch on whether a copy travels, which is random."""
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


_MILLION = 1_000_000
MAX_INLINE_HOPS = 255


@inlined
def link_to(w: World, slot: int) -> int:
    """Return the link that an RPC to this peer takes; without links of their own, the slot."""
    if not w[HAS_LINKS]:
        return slot
    link = links_of(w)[slot]
    line = links32(w)[link]
    if not line[LINK_FLAGS] & OPEN and line[PREVIOUS] >= 0:
        return line[PREVIOUS]  # the peer came back before its loss was noticed
    return link


@kernel
def ask_for_links(w: World, th: int, copies: int) -> None:
    """Ask for the memory of the links that a call's copies take."""
    entries = outbox(w)[th]
    for place in range(copies):
        touch_links32(w, links_of(w)[entries[place, 0]] * LINK32)


@kernel
def arrival_time(w: World, node: int, slot: int, link: int, size: int, now: int) -> int:
    """Return when an RPC of this size arrives; -1 when the uplink refuses it."""
    if not w[HAS_LINKS]:
        return now + latency(w, node, peers(w)[slot])
    times = links64(w)[link]
    leaves = now
    if w[UPLINK]:
        waiting = max(0, nodes64(w)[node, UPLINK_FREE] - now)
        if w[UPLINK_BYTES] and waiting * w[UPLINK] // 8_000_000 + size > w[UPLINK_BYTES]:
            return -1
        leaves = now + waiting + -(-size * 8_000_000 // w[UPLINK])
        nodes64(w)[node, UPLINK_FREE] = leaves
    arrival = leaves + latency(w, node, peers(w)[slot])
    if w[HAS_JITTER]:
        arrival = max(leaves + 1, arrival + _jitter(w, node, peers(w)[slot], links32(w)[link, SEQUENCE]))
    if w[HAS_JITTER] or w[UPLINK]:
        arrival = max(arrival, times[LAST_ARRIVAL])
        times[LAST_ARRIVAL] = arrival
    return arrival


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
def _is_lost(w: World, source: int, destination: int, sequence: int, index: int) -> bool:
    draw = extend(extend(draw1(w, Purpose.LOSS, source), np.uint64(destination)), np.uint64(sequence))
    return below(extend(draw, np.uint64(index)), _MILLION) < w[LOSS]


@kernel
def send_message(w: World, th: int, now: int, node: int, slot: int, part: Part) -> None:
    """Send one message alone; its hops are those of the copy when it arrives."""
    bytes_out(w)[node] += send_copy(w, th, now, node, slot, part, sending(w, now, node, part))


@inlined
def send_copy(w: World, th: int, now: int, node: int, slot: int, part: Part, common: Hash) -> int:
    """Send one of a message's copies; return the bytes that were sent."""
    if w[HAS_LINKS] or part.hops > MAX_INLINE_HOPS:
        return _send_over_link(w, th, now, node, slot, part, common)
    peer = peers(w)[slot]
    delay = latency(w, node, peer)
    sent(w, th, now, node, peer, part, delay, common)
    post(w, th, now + delay, peer, node, INLINE | part.message, slot, part.via, part.hops)
    return part.size


@kernel
def _send_over_link(w: World, th: int, now: int, node: int, slot: int, part: Part, common: Hash) -> int:
    link = link_to(w, slot)
    peer = peers(w)[slot]
    arrival = arrival_time(w, node, slot, link, part.size, now)
    if arrival < 0:
        dropped(w, th, now, node, peer, part, Reason.QUEUE_FULL)
        push(w, th, now, node, EventKind.SEND_FAILED, peer, INLINE | part.message, link)
        return 0
    sent(w, th, now, node, peer, part, arrival - now, common)
    if w[HAS_LOSS] or w[HAS_JITTER]:
        sequence = links32(w)[link, SEQUENCE]
        links32(w)[link, SEQUENCE] = sequence + 1
        if w[HAS_LOSS] and _is_lost(w, node, peer, sequence, 0):
            dropped(w, th, arrival, node, peer, part, Reason.LOST)
            return part.size
    if part.hops <= MAX_INLINE_HOPS:
        post(w, th, arrival, peer, node, INLINE | part.message, link, part.via, part.hops)
        return part.size
    rpc = allocate(w, th, HEADER + PART)
    arena(w)[rpc] = 1
    write_part(w, rpc, 0, part, 0)
    hold(w, th, rpc)
    post(w, th, arrival, peer, node, rpc, link, -1, 0)
    return part.size


@inlined
def send_gossip(
    w: World, th: int, now: int, node: int, slot: int, part: Part, first: int, others: int, common: Hash
) -> None:
    """Send one of the copies of an IHAVE, where links need no memory; `others` has a bit for each later message."""
    peer = peers(w)[slot]
    delay = latency(w, node, peer)
    sent(w, th, now, node, peer, part, delay, common)
    via, hops = gossip_rest(others)
    post(w, th, now + delay, peer, node, gossip_payload(first, others), slot, via, hops)


@kernel
def send_topic_part(w: World, th: int, now: int, node: int, slot: int, part: Part) -> None:
    """Send one SUBSCRIBE, UNSUBSCRIBE, GRAFT or PRUNE, where links need no memory."""
    peer = peers(w)[slot]
    delay = latency(w, node, peer)
    bytes_out(w)[node] += part.size
    sent(w, th, now, node, peer, part, delay, sending(w, now, node, part))
    post(w, th, now + delay, peer, node, topic_payload(part.kind, part.topic), slot, -1, 0)


@inlined
def send_unwanted(
    w: World, th: int, now: int, node: int, slot: int, message: int, size: int, common: Hash
) -> None:  # fmt: skip
    """Send an IDONTWANT of one message, where links need no memory."""
    peer = peers(w)[slot]
    delay = latency(w, node, peer)
    bytes_out(w)[node] += size
    sent(w, th, now, node, peer, topic_part(IDONTWANT, -1, size, 1), delay, common)
    post(w, th, now + delay, peer, node, topic_payload(IDONTWANT, message), slot, -1, 0)


@kernel
def send_rpc(w: World, th: int, now: int, node: int, slot: int, rpc: int) -> None:
    """Send a copy of an RPC in the arena."""
    parts = arena(w)[rpc]
    link = link_to(w, slot)
    peer = peers(w)[slot]
    size = 0
    for index in range(parts):
        size += words_at(w, part_place(rpc, index))[PART_BYTES]
    arrival = arrival_time(w, node, slot, link, size, now)
    if arrival < 0:
        for index in range(parts):
            dropped(w, th, now, node, peer, part_at(w, rpc, index), Reason.QUEUE_FULL)
        hold(w, th, rpc)
        push(w, th, now, node, EventKind.SEND_FAILED, peer, rpc, link)
        return
    bytes_out(w)[node] += size
    for index in range(parts):
        part = part_at(w, rpc, index)
        sent(w, th, now, node, peer, part, arrival - now, sending(w, now, node, part))
    if w[HAS_LOSS] or w[HAS_JITTER]:
        sequence = links32(w)[link, SEQUENCE]
        links32(w)[link, SEQUENCE] = sequence + 1
        if w[HAS_LOSS]:
            rpc = _lose(w, th, node, peer, sequence, rpc, arrival)
            if rpc < 0:
                return
    hold(w, th, rpc)
    post(w, th, arrival, peer, node, rpc, link, -1, 0)


@kernel
def _lossy(w: World, kind: int) -> bool:
    if kind == PUBLISH or kind == IHAVE or kind == IWANT:
        return True
    return w[LOSS_CONTROL] and (kind == GRAFT or kind == PRUNE)


@kernel
def _lose(w: World, th: int, node: int, peer: int, sequence: int, rpc: int, arrival: int) -> int:
    """Return the RPC without the parts that are lost: itself, a copy, or -1 for nothing."""
    parts = arena(w)[rpc]
    lost = 0
    words = HEADER
    for index in range(parts):
        part = words_at(w, part_place(rpc, index))
        if _lossy(w, part[PART_KIND]) and _is_lost(w, node, peer, sequence, index):
            dropped(w, th, arrival, node, peer, part_at(w, rpc, index), Reason.LOST)
            lost += 1
        else:
            words += PART + (part[PART_COUNT] if part[PART_IDS] else 0)
    if lost == 0:
        return rpc
    if lost == parts:
        return -1
    hold(w, th, rpc)
    copy = allocate(w, th, words)
    release(w, th, rpc)
    store = arena(w)
    store[copy] = parts - lost
    ids = HEADER + (parts - lost) * PART
    kept = 0
    for index in range(parts):
        part = words_at(w, part_place(rpc, index))
        if _lossy(w, part[PART_KIND]) and _is_lost(w, node, peer, sequence, index):
            continue
        goal = words_at(w, part_place(copy, kept))
        for field in range(PART):
            goal[field] = part[field]
        if part[PART_IDS]:
            goal[PART_IDS] = ids
            for place in range(part[PART_COUNT]):
                store[copy + ids + place] = store[rpc + part[PART_IDS] + place]
            ids += part[PART_COUNT]
        kept += 1
    return copy


@kernel
def unreachable(
    w: World, th: int, now: int, source: int, destination: int, payload: int, via: int, hops: int
) -> None:  # fmt: skip
    """Record an RPC that arrives at a node that is down, or over a connection that is gone."""
    if payload & INLINE:
        part = message_part(w, payload & (INLINE - 1), hops, via)
        dropped(w, th, now, source, destination, part, Reason.UNREACHABLE)
        return
    for index in range(arena(w)[payload]):
        dropped(w, th, now, source, destination, part_at(w, payload, index), Reason.UNREACHABLE)
