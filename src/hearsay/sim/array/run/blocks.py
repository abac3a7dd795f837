"""Kernels that handle the events of one part of a bucket. Each thread owns some blocks of nodes.

A thread handles all events of a node before those of the next node. The data of nodes are far apart in memory, so
kernels would mostly wait for memory. Therefore the data of later nodes are prefetched."""

from __future__ import annotations

from typing import Any

from hearsay.core.language.events import EventKind
from hearsay.core.rules.mesh_rules import is_too_large, is_too_small
from hearsay.sim.array.compiling import kernel
from hearsay.sim.array.rules.mesh import mesh_size
from hearsay.sim.array.rules.receiving import call_gossip, call_message
from hearsay.sim.array.run.dispatch import dial_arrives, dispatch
from hearsay.sim.array.run.links import connect_quietly, has_room_for_links
from hearsay.sim.array.travel.dials import collect_dials, next_arrival
from hearsay.sim.array.world.knowledge import column, is_marked, word_of
from hearsay.sim.array.world.layout import (
    BLOCK_BITS,
    BUCKET,
    DEGREE_LOW,
    FIRST_MESSAGE,
    GOSSIPS_FROM,
    HAS_DIALS,
    HAS_EPISUB,
    HAS_FEATURES,
    HAS_LINKS,
    HAS_OVERLAY,
    HELD_END,
    LINK32,
    LOOKAHEAD,
    NEAR,
    NETWORK_STARTS,
    NEWEST,
    NODE32,
    NODES,
    PART_BLOCKS,
    PART_END,
    PRUNE_FROM,
    SEEN_EXPIRES,
    SERVICE,
    THREADS,
    TOPICS,
    TWIN,
    USES_11,
    WIDTH_BITS,
    WITNESSES,
    World,
    arena,
    block_starts,
    cells,
    control,
    counts,
    links32,
    near,
    node_counts,
    nodes32,
    sorted_events,
    sorted_links,
    touch_arena,
    touch_bytes_out,
    touch_cached,
    touch_cells,
    touch_flags,
    touch_known_topics,
    touch_links32,
    touch_links_of,
    touch_members,
    touch_nodes32,
    touch_peers,
    touch_seen,
    words_at,
)
from hearsay.sim.array.world.payload import IHAVE, PART_IDS, PART_KIND, PUBLISH, part_place
from hearsay.sim.array.world.queue import (
    EVENT_KIND,
    EVENT_SOURCE,
    GOSSIP,
    INLINE,
    MESSAGE,
    NODE,
    OFFSET,
    PAYLOAD,
    TOPIC_PART,
    VIA,
    gossip_bits,
    hold_near,
    near_is_first,
    pop_near,
    queue_again,
    source_of,
)
from hearsay.sim.array.world.record import DUPLICATES, EVENTS, received
from hearsay.sim.array.world.slots import end_slot, first_slot, parameter

_MOST_CELLS = 128


@kernel
def prefetch_seen(w: World, block: int) -> None:
    """Prefetch the memory that the events of a block need first: for messages, the bits in `seen`. Most RPCs need no
    other memory."""
    events = sorted_events(w)[0]
    for place in range(block_starts(w)[0, block], block_starts(w)[0, block + 1]):
        w0 = events[place, 0]
        w1 = events[place, 1]
        kind = (w0 >> EVENT_KIND) & 15
        if w[HAS_LINKS]:
            touch_links32(w, sorted_links(w)[0, place] * LINK32)
        if w1 & (INLINE | GOSSIP):
            touch_seen(w, word_of(w, w1 >> NODE, column(w, w1 & MESSAGE)))
        elif kind == EventKind.TIMER_FIRED:
            touch_members(w, (w1 >> NODE) * w[TOPICS])
        elif kind == EventKind.RPC_RECEIVED and not w1 & TOPIC_PART:
            touch_arena(w, w1 & PAYLOAD)
            touch_arena(w, (w1 & PAYLOAD) + 8)
        elif kind == EventKind.PEER_CONNECTED:
            touch_members(w, source_of(w0) * w[TOPICS])


@kernel
def prefetch_nodes(w: World, block: int) -> None:
    """Prefetch the headers of a block's nodes, and the cells of messages that the nodes have not seen yet."""
    events = sorted_events(w)[0]
    for place in range(block_starts(w)[0, block], block_starts(w)[0, block + 1]):
        w1 = events[place, 1]
        if w1 & GOSSIP:
            continue
        node = w1 >> NODE
        if w[HAS_LINKS]:
            link = sorted_links(w)[0, place]
            touch_links32(w, links32(w)[link, TWIN] * LINK32)
            if (events[place, 0] >> EVENT_KIND) & 15 == EventKind.RPC_RECEIVED and not w1 & (INLINE | TOPIC_PART):
                rpc = w1 & PAYLOAD
                part = words_at(w, part_place(rpc, 0))
                if part[PART_KIND] == IHAVE and not w[HAS_EPISUB]:
                    at = column(w, arena(w)[rpc + part[PART_IDS]])
                    touch_seen(w, word_of(w, node, at))
        if w1 & INLINE:
            at = column(w, w1 & MESSAGE)
            if is_marked(w, node, at) and not w[HAS_LINKS]:
                continue
            touch_cells(w, node * cells(w).shape[1] + at)
            touch_cached(w, word_of(w, node, at))
            touch_members(w, node * w[TOPICS])
        touch_nodes32(w, node * NODE32)
        touch_bytes_out(w, node)


@kernel
def prefetch_slots(w: World, block: int) -> None:
    """Prefetch the slots of a block's nodes, and for heartbeats also cells. The headers must be prefetched before."""
    events = sorted_events(w)[0]
    for place in range(block_starts(w)[0, block], block_starts(w)[0, block + 1]):
        w1 = events[place, 1]
        node = w1 >> NODE
        if w1 & GOSSIP or (w1 & INLINE and is_marked(w, node, column(w, w1 & MESSAGE))):
            continue
        if (events[place, 0] >> EVENT_KIND) & 15 == EventKind.TIMER_FIRED:
            message = max(nodes32(w)[node, GOSSIPS_FROM], w[FIRST_MESSAGE])
            if message >= w[NEWEST]:
                size = mesh_size(w, node, 0)
                is_small = is_too_small(size, parameter(w, node, DEGREE_LOW))
                if not is_small and not is_too_large(size, parameter(w, node, PRUNE_FROM)):
                    continue
            else:
                touch_cached(w, word_of(w, node, column(w, message)))
            for near_message in range(message & ~7, min(w[NEWEST], message + _MOST_CELLS), 8):
                touch_cells(w, node * cells(w).shape[1] + column(w, near_message))
        slot = first_slot(w, node)
        last = end_slot(w, node) - 1
        touch_flags(w, slot * w[TOPICS])
        touch_flags(w, (last + 1) * w[TOPICS] - 1)
        if w[WITNESSES]:
            touch_known_topics(w, slot * w[TOPICS])
        if w[HAS_LINKS]:
            touch_links_of(w, slot)
            touch_links_of(w, slot + 16)
        touch_peers(w, slot)
        touch_peers(w, slot + 16)
        touch_peers(w, last)


_FEW = 48
_LARGE = 8192
_SEEN_AHEAD, _NODES_AHEAD, _SLOTS_AHEAD = 64, 32, 16
"""The number of events ahead for which memory is prefetched, in each of the three steps."""


@kernel
def run_share(w: World, th: int) -> None:
    """Handle the events of the blocks of nodes that a thread owns. Without LOOKAHEAD, thread 0 handles all events.

    With NETWORK_STARTS, first make the first connections of the thread's nodes.
    """
    if w[NETWORK_STARTS]:
        connect_quietly(w, th)
    if w[LOOKAHEAD]:
        starts = block_starts(w)[0]
        blocks = w[PART_BLOCKS]
        seen_done = blocks if w[NODES] < _LARGE else th
        nodes_done = seen_done
        slots_done = seen_done
        for block in range(th, blocks, w[THREADS]):
            end = starts[block + 1]
            while seen_done < blocks and starts[seen_done] < end + _SEEN_AHEAD * w[THREADS]:
                prefetch_seen(w, seen_done)
                seen_done += w[THREADS]
            while nodes_done < blocks and starts[nodes_done] < end + _NODES_AHEAD * w[THREADS]:
                prefetch_nodes(w, nodes_done)
                nodes_done += w[THREADS]
            while slots_done < blocks and starts[slots_done] < end + _SLOTS_AHEAD * w[THREADS]:
                prefetch_slots(w, slots_done)
                slots_done += w[THREADS]
            _run_block(w, th, block)
    elif th == 0:
        _run_in_order(w)


@kernel
def _run_in_order(w: World) -> None:
    """Handle the events of all nodes in the order of the heap `near`: by time, then by node.

    The part ends when a dial arrives. Events between the arrival and the old end of the part are still taken from
    `near` in order, and go back into the bucket. So events with the same time and link keep their order. If routers
    choose their neighbours, there are many dials. Then this kernel also handles the dials, and the part ends only if
    there is no room for the links of a dial.
    """
    base = w[BUCKET] << w[WIDTH_BITS]
    events = sorted_events(w)[0]
    for place in range(block_starts(w)[0, w[PART_BLOCKS]]):
        link = sorted_links(w)[0, place] if w[HAS_LINKS] else 0
        hold_near(w, 0, events[place, 0], events[place, 1], link)
    while control(w)[0, NEAR] or (w[HAS_OVERLAY] and next_arrival(w) < w[PART_END]):
        if w[HAS_OVERLAY] and next_arrival(w) < w[PART_END]:
            first = base + (near(w)[0, 0, 0] >> OFFSET) if control(w)[0, NEAR] else w[PART_END]
            if next_arrival(w) <= first:
                if has_room_for_links(w, 2):
                    dial_arrives(w)
                else:
                    w[PART_END] = next_arrival(w)
                continue
        w0, w1, link = pop_near(w, 0)
        time = base + (w0 >> OFFSET)
        if time < w[PART_END]:
            dispatch(w, 0, time, w0, w1, link)
            if w[HAS_DIALS]:
                collect_dials(w)
                if not w[HAS_OVERLAY]:
                    w[PART_END] = min(w[PART_END], next_arrival(w))
        else:
            queue_again(w, 0, w0, w1, link)
    w[HELD_END] = w[PART_END]


@kernel
def _run_block(w: World, th: int, block: int) -> None:
    """Handle the events of a block, one node after the other, and the events of each node in order."""
    start = block_starts(w)[0, block]
    end = block_starts(w)[0, block + 1]
    if start == end:
        return
    if end - start <= _FEW:
        _sort(sorted_events(w)[0], sorted_links(w)[0], start, end, w[HAS_LINKS] != 0)
        _run_nodes(w, th, 0, start, end)
        return
    ends = node_counts(w)[th]
    size = 1 << w[BLOCK_BITS]
    first = block << w[BLOCK_BITS]
    for place in range(size + 1):
        ends[place] = 0
    by_block = sorted_events(w)[0]
    by_node = sorted_events(w)[1]
    for place in range(start, end):
        ends[(by_block[place, 1] >> NODE) - first + 1] += 1
    for place in range(size):
        ends[place + 1] += ends[place]
    for place in range(start, end):
        w1 = by_block[place, 1]
        number = (w1 >> NODE) - first
        goal = start + ends[number]
        ends[number] += 1
        by_node[goal, 0] = by_block[place, 0]
        by_node[goal, 1] = w1
        if w[HAS_LINKS]:
            sorted_links(w)[1, goal] = sorted_links(w)[0, place]
    _sort(by_node, sorted_links(w)[1], start, end, w[HAS_LINKS] != 0)
    _run_nodes(w, th, 1, start, end)


@kernel
def _sort(events: Any, links: Any, start: int, end: int, has_links: bool) -> None:
    """Sort the events from `start` to `end`, and their links, by node, time, kind and source, stably."""
    for place in range(start + 1, end):
        w0 = events[place, 0]
        w1 = events[place, 1]
        node = w1 >> NODE
        key = w0 >> EVENT_SOURCE
        at = place - 1
        other = events[at, 1] >> NODE
        if other < node or (other == node and events[at, 0] >> EVENT_SOURCE <= key):
            continue
        link = links[place] if has_links else 0
        while at >= start:
            other = events[at, 1] >> NODE
            if other < node or (other == node and events[at, 0] >> EVENT_SOURCE <= key):
                break
            events[at + 1, 0] = events[at, 0]
            events[at + 1, 1] = events[at, 1]
            if has_links:
                links[at + 1] = links[at]
            at -= 1
        events[at + 1, 0] = w0
        events[at + 1, 1] = w1
        if has_links:
            links[at + 1] = link


@kernel
def _run_nodes(w: World, th: int, line: int, start: int, end: int) -> None:
    """Handle the events from `start` to `end` of `sorted_events[line]`, and new events of their nodes in `near`.

    Most events are RPCs with one message that the node has already seen; these are handled without calls.
    """
    base = w[BUCKET] << w[WIDTH_BITS]
    plain = not (w[HAS_LINKS] or w[SERVICE] or w[SEEN_EXPIRES] or w[USES_11] or w[HAS_EPISUB] or w[HAS_FEATURES])
    events = sorted_events(w)[line]
    near_count = control(w)[th]
    duplicates = 0
    before = events[start, 1] >> NODE
    for place in range(start, end):
        w0 = events[place, 0]
        w1 = events[place, 1]
        while near_count[NEAR] and (w1 >> NODE != before or near_is_first(w, th, w0, w1)):
            late0, late1, late_link = pop_near(w, th)
            dispatch(w, th, base + (late0 >> OFFSET), late0, late1, late_link)
        before = w1 >> NODE
        if plain and w1 & (INLINE | GOSSIP) and (w0 >> EVENT_KIND) & 15 == EventKind.RPC_RECEIVED:
            if w1 & GOSSIP:
                time = base + (w0 >> OFFSET)
                call_gossip(w, th, time, before, source_of(w0), w1 & MESSAGE, gossip_bits(w0, w1 & PAYLOAD))
            elif is_marked(w, before, column(w, w1 & MESSAGE)):
                duplicates += 1
            else:
                time = base + (w0 >> OFFSET)
                call_message(w, th, time, before, source_of(w0), w1 & MESSAGE, w0 & 255, ((w0 >> VIA) & 15) - 1)
            continue
        link = sorted_links(w)[line, place] if w[HAS_LINKS] else 0
        dispatch(w, th, base + (w0 >> OFFSET), w0, w1, link)
    while near_count[NEAR]:
        late0, late1, late_link = pop_near(w, th)
        dispatch(w, th, base + (late0 >> OFFSET), late0, late1, late_link)
    counts(w)[th, EVENTS] += duplicates
    counts(w)[th, DUPLICATES] += duplicates
    received(w, th, PUBLISH, duplicates)
