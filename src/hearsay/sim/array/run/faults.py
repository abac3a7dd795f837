"""Faults: nodes that go down and come back, partitions and cut links (`sim.reference.connections`).

Layout: `sides` has a line for each partition, with the side of each node, 0 or 1. `cut_ranges` has a line for each
partition and each cut: the range of its pairs of nodes in `cut_pairs`, and a flag that is set while the fault lasts.
The pairs of a range are ascending; a partition has an empty range. `lost_links` has the number of links that each
node lost by each fault."""

from __future__ import annotations

import numpy as np

from hearsay.core.language.events import EventKind
from hearsay.core.rules.randomness import Purpose
from hearsay.sim.array.compiling import kernel, lower_bound
from hearsay.sim.array.episub.basics import has_overlay, has_trees
from hearsay.sim.array.episub.meetings import forget_meetings
from hearsay.sim.array.episub.overlay import forget_overlay
from hearsay.sim.array.episub.tree import forget_tree
from hearsay.sim.array.rules.calls import call_leave
from hearsay.sim.array.rules.checks import STOPPED, note_call
from hearsay.sim.array.rules.membership import NO_MEMBER
from hearsay.sim.array.rules.part_groups import forget_all_groups
from hearsay.sim.array.rules.unwanted import forget_all_unwanted
from hearsay.sim.array.run.links import dial, with_links
from hearsay.sim.array.run.mutual import count_parts_of
from hearsay.sim.array.travel.transport import lose_link
from hearsay.sim.array.travel.uplink import has_queue, last_arrival
from hearsay.sim.array.world import lists
from hearsay.sim.array.world.draws import below, draw2, extend
from hearsay.sim.array.world.knowledge import forget_all
from hearsay.sim.array.world.layout import (
    AGES_AT,
    ANSWERS,
    APPLICATION,
    ASKED_AT,
    BACKLOG,
    BACKLOG_END,
    BACKOFFS,
    COUNT,
    CUT,
    DEAD,
    DETECTION,
    GOSSIPS_FROM,
    HAS_SCORES,
    JOINED,
    LAST_ARRIVAL,
    LATENCY,
    LINK_FLAGS,
    MISSED,
    NEVER,
    NEWEST,
    NEWS,
    NODE32,
    NODES,
    OLDEST,
    OPEN,
    OWED,
    PART_WORDS,
    PENDING,
    PREVIOUS,
    PROMISES,
    RECORD,
    REDIAL,
    SENDERS,
    TOPICS,
    TRACKS_SINCE,
    TWIN,
    UP,
    USES_11,
    USES_12,
    World,
    cells,
    cut_pairs,
    cut_ranges,
    links32,
    links64,
    links_of,
    lost_links,
    members,
    nodes32,
    nodes64,
    peers,
    pool,
    records,
    sides,
    since_us,
)
from hearsay.sim.array.world.payload import release
from hearsay.sim.array.world.queue import EVENT_KIND, GOSSIP, INLINE, PAYLOAD, TOPIC_PART
from hearsay.sim.array.world.record import LOST, is_witness, row
from hearsay.sim.array.world.slots import end_slot, find_slot, first_slot
from hearsay.sim.reference.connections import ATTEMPTS_PER_PEER
from hearsay.trace.language.event_rows import node_down_row


@kernel
def carries_payload(w0: int, w1: int) -> bool:
    """Return whether an event holds words in the arena: those of an RPC, also of a refused one, or of a message in
    validation (`forwarding._start_validation`)."""
    kind = (w0 >> EVENT_KIND) & 15
    if kind != EventKind.RPC_RECEIVED and kind != EventKind.MESSAGE_VALIDATED and kind != EventKind.SEND_FAILED:
        return False
    return not w1 & (INLINE | GOSSIP | TOPIC_PART)


@with_links
def node_down(w: World, th: int, now: int, node: int, goodbye: bool) -> None:
    if goodbye:
        for topic in range(w[TOPICS]):
            if members(w)[node, topic] & APPLICATION:
                call_leave(w, th, now, node, topic)
    _stop(w, th, now, node)
    for slot in range(first_slot(w, node), end_slot(w, node)):
        link = links_of(w)[slot]
        if link < 0:
            continue
        line = links32(w)[link]
        earlier = line[PREVIOUS]
        while earlier >= 0:
            links32(w)[earlier, LINK_FLAGS] &= ~OPEN
            earlier = links32(w)[earlier, PREVIOUS]
        line[LINK_FLAGS] = (line[LINK_FLAGS] & ~OPEN) | DEAD
        times = links64(w)[link]
        if goodbye:
            last = last_arrival(w, node, link) if has_queue(w, node) else times[LAST_ARRIVAL]
            lose_link(w, th, line[TWIN], max(now + times[LATENCY], last) + 1)
        else:
            lose_link(w, th, line[TWIN], now + w[DETECTION])
    nodes32(w)[node, COUNT] = 0


@with_links
def _stop(w: World, th: int, now: int, node: int) -> None:
    """Stop a node's router, and forget the state of the router. Events that wait for service are lost."""
    header = nodes32(w)[node]
    header[UP] = 0
    nodes64(w)[node, PENDING] = 0
    header[OWED] = 0
    header[OLDEST] = w[NEWEST]
    header[AGES_AT] = NEVER
    header[GOSSIPS_FROM] = NEVER
    if has_trees(w, node):
        for topic in range(w[TOPICS]):
            if members(w)[node, topic] & JOINED:
                forget_tree(w, node, topic)
                if has_overlay(w, node):
                    forget_overlay(w, node, topic)
    if has_overlay(w, node):
        forget_meetings(w, th, node)
    if w[USES_12]:
        forget_all_unwanted(w, node)
        lists.remove(w, node, SENDERS, -1, -1)
    if w[PART_WORDS]:
        forget_all_groups(w, node)
    forget_all(w, node)
    for place in range(cells(w).shape[1]):
        cells(w)[node, place] &= np.uint64(MISSED)  # the node was eligible for these messages, and still is
        if w[HAS_SCORES]:
            records(w)[node, place, RECORD] = 0
    for head in (ANSWERS, NEWS, BACKOFFS, PROMISES, ASKED_AT):
        if w[USES_11] or head < NODE32:
            lists.remove(w, node, head, -1, -1)
    place = header[BACKLOG]
    entries = pool(w)[lists.owner(w, node)]
    while place >= 0:
        count_parts_of(w, th, LOST, entries[place, lists.FIRST], entries[place, lists.SECOND] & PAYLOAD)
        if carries_payload(entries[place, lists.FIRST], entries[place, lists.SECOND]):
            release(w, th, entries[place, lists.SECOND] & PAYLOAD)
        place = entries[place, lists.NEXT]
    lists.remove(w, node, BACKLOG, -1, -1)
    header[BACKLOG_END] = -1
    for topic in range(w[TOPICS]):
        members(w)[node, topic] &= APPLICATION
        if w[TRACKS_SINCE]:
            since_us(w)[node, topic] = NO_MEMBER
    if is_witness(w, node):
        note_call(w, th, now, node, STOPPED, -1, -1, -1)
    row(w, th, node_down_row(now, node, -1))


@with_links
def cut(w: World, th: int, now: int, fault: int) -> None:
    """Begin a partition or a cut: cut all links between nodes that the fault separates."""
    cut_ranges(w)[fault, 2] = 1
    for node in range(w[NODES]):
        for slot in range(first_slot(w, node), end_slot(w, node)):
            if links_of(w)[slot] < 0:
                continue
            peer = peers(w)[slot]
            if _is_divided(w, fault, node, peer) or _is_cut(w, fault, node, peer):
                lost_links(w)[fault, node] += 1
                _cut_link(w, th, now, links_of(w)[slot])


@with_links
def _is_divided(w: World, fault: int, node: int, peer: int) -> bool:
    """Return whether a fault is a partition that has two nodes on different sides."""
    table = sides(w)
    return fault < table.shape[0] and table[fault, node] != table[fault, peer]


@with_links
def _is_cut(w: World, fault: int, node: int, peer: int) -> bool:
    """Return whether a fault is a cut that has the pair of two nodes."""
    ranges = cut_ranges(w)[fault]
    pairs = cut_pairs(w)
    wanted = min(node, peer) * w[NODES] + max(node, peer)
    place = lower_bound(pairs, ranges[0], ranges[1], wanted)
    return place < ranges[1] and pairs[place] == wanted


@with_links
def _cut_link(w: World, th: int, now: int, link: int) -> None:
    """Cut a link, and before it the earlier links to the same peer whose loss the source has not noticed yet, the
    oldest first."""
    done = -1
    while done != link:
        oldest = link
        while links32(w)[oldest, PREVIOUS] >= 0 and links32(w)[oldest, PREVIOUS] != done:
            oldest = links32(w)[oldest, PREVIOUS]
        links32(w)[oldest, LINK_FLAGS] |= CUT
        lose_link(w, th, oldest, now + w[DETECTION])
        done = oldest


@with_links
def heal(w: World, th: int, now: int, fault: int) -> None:
    cut_ranges(w)[fault, 2] = 0
    for node in range(w[NODES]):
        lost = lost_links(w)[fault, node]
        if lost:
            lost_links(w)[fault, node] = 0
            if nodes32(w)[node, UP]:
                dial_live(w, th, now, node, min(lost, w[REDIAL]))


@with_links
def reachable(w: World, node: int, other: int) -> bool:
    """Return whether no fault separates two nodes."""
    for fault in range(cut_ranges(w).shape[0]):
        if cut_ranges(w)[fault, 2] and (_is_divided(w, fault, node, other) or _is_cut(w, fault, node, other)):
            return False
    return True


@with_links
def dial_live(w: World, th: int, now: int, node: int, count: int) -> None:
    """Let a node dial up to `count` random nodes that are up, reachable and not connected to it. If its router
    chooses its neighbours, do nothing."""
    if has_overlay(w, node):
        return
    state = draw2(w, Purpose.REDIAL, node, now)
    dialled = 0
    for attempt in range(count * ATTEMPTS_PER_PEER):
        if dialled == count:
            return
        target = below(extend(state, np.uint64(attempt)), w[NODES])
        if target == node or not nodes32(w)[target, UP]:
            continue
        slot = find_slot(w, node, target)
        link = links_of(w)[slot] if slot >= 0 else -1
        if link >= 0 and not links32(w)[link, LINK_FLAGS] & DEAD:
            continue
        if reachable(w, node, target):
            dial(w, th, now, node, target)
            dialled += 1
