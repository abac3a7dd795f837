"""The run: buckets opened one after the other, nodes handled in each, and in between what concerns the whole network.

A part of a bucket ends where the bucket does, or at the next thing that concerns all: a fault, an injection by the
script, a sample of state, the end of a message's window. Those come first in their microsecond.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hearsay.core.language.actions import Reason, Via
from hearsay.core.language.events import EventKind
from hearsay.core.language.rpc import PartKind
from hearsay.sim.array.machine.compiling import entry, kernel, shared
from hearsay.sim.array.network.faults import carries_payload, cut, heal, node_down, node_up
from hearsay.sim.array.network.links import (
    connect_quietly,
    dial,
    dial_at_start,
    dials_that_arrive,
    is_up,
    on_connected,
    on_disconnected,
)
from hearsay.sim.array.rules.calls import (
    call_failed,
    call_gossip,
    call_join,
    call_leave,
    call_message,
    call_publish,
    call_rpc,
    call_start,
    call_timer,
    call_topic_part,
    call_validated,
)
from hearsay.sim.array.run.columns import admit
from hearsay.sim.array.run.prefetch import ask_for_neighbours, ask_for_nodes, ask_what_is_known
from hearsay.sim.array.run.reuse import collect_links
from hearsay.sim.array.run.state import sample_state
from hearsay.sim.array.travel.send_ring import all_depart
from hearsay.sim.array.travel.transport import on_the_way, unreachable
from hearsay.sim.array.world import lists
from hearsay.sim.array.world.knowledge import bits, column, is_marked
from hearsay.sim.array.world.layout import (
    ALONE_BYTES,
    APPLICATION,
    BACKLOG,
    BACKLOG_END,
    BLOCK_BITS,
    BUCKET,
    BUCKET_IS_SPLIT,
    CLOSED_UP_TO,
    DATA_BYTES,
    DELIVERED,
    DIALS_UP_TO,
    DUE_OF,
    END,
    GLOBALS,
    GLOBALS_DONE,
    HAS_LINKS,
    INJECT_FROM,
    JOINED,
    LINGER,
    LINKS,
    LINKS_SPARE,
    LINKS_USED,
    LINKS_WANTED,
    LOOKAHEAD,
    MESSAGES,
    MISSED,
    NETWORK_STARTS,
    NODES,
    NOW,
    PART_BLOCKS,
    PART_END,
    PART_EVENTS,
    PLANNED_DONE,
    PUBLISHED,
    QUIET_UNTIL,
    REACHED_OF,
    REDIAL,
    REJECT_SHARE,
    SCRIPT,
    SEEN_EXPIRES,
    SERVICE,
    SLOTS,
    SLOTS_USED,
    STARTS,
    STATUS,
    THREADS,
    TOPIC,
    TOPICS,
    TRACKS_SINCE,
    UP,
    WIDTH_BITS,
    World,
    block_starts,
    cells,
    control,
    counts,
    dial_starts,
    dial_targets,
    inject_targets,
    members,
    messages,
    node_counts,
    nodes32,
    planned,
    pool,
    schedule,
    since_us,
    sorted_events,
    sorted_links,
    touch_members,
    verdicts,
    words_at,
    world,
)
from hearsay.sim.array.world.neighbours import lay_out_callers, lay_out_targets
from hearsay.sim.array.world.payload import PART_KIND, part_place, release
from hearsay.sim.array.world.queue import (
    EVENT_KIND,
    EVENT_SOURCE,
    FINISHED,
    GOSSIP,
    INLINE,
    MESSAGE,
    NEAR,
    NEEDS_LINKS,
    NEEDS_SLOTS,
    NODE,
    OFFSET,
    OK,
    PAYLOAD,
    ROWS_WAIT,
    TOPIC_PART,
    VIA,
    bring_near,
    divide,
    gather,
    gossip_bits,
    has_events,
    hold_near,
    near_is_first,
    pop_near,
    push,
    source_of,
    topic_kind,
)
from hearsay.sim.array.world.record import (
    DUPLICATES,
    ELIGIBLE,
    EVENTS,
    LONG,
    PUBLISHES,
    REACHED,
    ROWS,
    count_latencies,
    row,
    sending,
    sent,
)
from hearsay.sim.array.world.slots import latency
from hearsay.trace.language import event_rows

ADVANCE, BEGIN, SHARE, FINISH, CLOSE, COLLECT = range(6)
"""Tasks."""
TIME, TYPE, FIRST_NUMBER, SECOND_NUMBER = range(4)
"""Columns of `schedule`; of `planned` they are time, node, kind and payload."""
START_ALL, NODE_DOWN, NODE_UP, CUT_LINKS, HEAL_LINKS, SAMPLE_STATE, INJECT = range(7)
PLAN_NODE, PLAN_KIND, PLAN_PAYLOAD = 1, 2, 3

ROWS_AT_ONCE = 1 << 17
LATENCIES_AT_ONCE = 1 << 22
drop_rpc_row = shared(event_rows.drop_rpc_row)
publish_row = shared(event_rows.publish_row)
_FEW = 48
_MANY_PARTS = 2
_LARGE = 8192
_KNOWN_AHEAD, _NODES_AHEAD, _NEIGHBOURS_AHEAD, _DIALS_AHEAD = 64, 32, 16, 16
"""How many events ahead memory is asked for."""
_NEVER = 1 << 62

_TIMER = int(EventKind.TIMER_FIRED)
_DISCONNECTED = int(EventKind.PEER_DISCONNECTED)
_CONNECTED = int(EventKind.PEER_CONNECTED)
_JOIN = int(EventKind.JOIN)
_LEAVE = int(EventKind.LEAVE)
_PUBLISH = int(EventKind.PUBLISH)
_RPC = int(EventKind.RPC_RECEIVED)
_VALIDATED = int(EventKind.MESSAGE_VALIDATED)
_FAILED = int(EventKind.SEND_FAILED)
_SERVED = len(EventKind)
_PUBLISH_PART = int(PartKind.PUBLISH)
_INJECT_VIA = int(Via.INJECT)
_UNREACHABLE = int(Reason.UNREACHABLE)


@entry
def work(table: World, task: int, number: int) -> bool:
    """All that Python asks for; one entry, because each is compiled with all that it calls.

    ADVANCE runs until the time `number`, or until something has to be seen to first; STATUS says why it returned.
    With several threads, which meet after every part, BEGIN lays out the next part (PART_EVENTS says how many events
    it has), SHARE runs the nodes of thread `number`, FINISH is called once all are done; False when something has
    to be seen to first. COLLECT finds links that may be used again. CLOSE ends the windows of all messages published
    so far, when the run is over or was stopped.
    """
    w = world(table)
    if task == SHARE:
        _run_share(w, number)
        return True
    if task == CLOSE:
        close_windows(w, True)
        for th in range(w[THREADS]):
            count_latencies(w, th)
        return True
    if task == COLLECT:
        collect_links(w)
        return True
    if task == FINISH:
        return _end_part(w)
    w[STATUS] = OK
    if task == BEGIN:
        return _begin_part(w)
    while w[NOW] < number:
        if not _begin_part(w):
            return False
        if w[PART_EVENTS]:
            for th in range(w[THREADS]):
                _run_share(w, th)
        if not _end_part(w):
            return False
    return True


@kernel
def _begin_part(w: World) -> bool:
    all_depart(w)
    if w[BUCKET] < 0:
        if not w[HAS_LINKS]:
            lay_out_callers(w)
            if not w[QUIET_UNTIL]:
                for node in range(w[NODES]):
                    lay_out_targets(w, 0, node)
        _open_next(w)
    bucket_end = (w[BUCKET] + 1) << w[WIDTH_BITS]
    if not admit(w, bucket_end):
        return False
    w[PART_END] = min(bucket_end, _next_global(w), _next_close(w), w[END])
    w[PART_EVENTS] = 0
    if w[PART_END] > w[NOW] and has_events(w):
        gather(w)
        w[PART_EVENTS] = block_starts(w)[0, w[PART_BLOCKS]]
    if w[NETWORK_STARTS]:
        w[PART_EVENTS] = max(w[PART_EVENTS], w[NODES])
    return w[STATUS] == OK


@kernel
def _end_part(w: World) -> bool:
    if w[STATUS] != OK:
        return False
    w[NETWORK_STARTS] = 0
    w[NOW] = w[PART_END]
    if w[NOW] >= w[END]:
        w[STATUS] = FINISHED
        return False
    if w[NOW] == (w[BUCKET] + 1) << w[WIDTH_BITS]:
        _open_next(w)
    if not _run_globals(w):
        return False
    for th in range(w[THREADS]):
        if counts(w)[th, ROWS] >= ROWS_AT_ONCE or counts(w)[th, LONG] >= LATENCIES_AT_ONCE:
            w[STATUS] = ROWS_WAIT
    return w[STATUS] == OK


@kernel
def _next_global(w: World) -> int:
    return schedule(w)[w[GLOBALS_DONE], TIME] if w[GLOBALS_DONE] < w[GLOBALS] else _NEVER


@kernel
def _next_close(w: World) -> int:
    message = w[CLOSED_UP_TO]
    return messages(w)[message, PUBLISHED] + w[LINGER] if message < w[MESSAGES] else _NEVER


@kernel
def _open_next(w: World) -> None:
    w[BUCKET] += 1
    w[BUCKET_IS_SPLIT] = 0
    for th in range(w[THREADS]):
        bring_near(w, th)
    if 0 < w[BUCKET] <= w[DIALS_UP_TO]:
        dials_that_arrive(w)
    end = (w[BUCKET] + 1) << w[WIDTH_BITS]
    plan = planned(w)
    while w[PLANNED_DONE] < plan.shape[0] and plan[w[PLANNED_DONE], TIME] < end:
        line = plan[w[PLANNED_DONE]]
        th = lists.owner(w, line[PLAN_NODE])
        push(w, th, line[TIME], line[PLAN_NODE], line[PLAN_KIND], -1, line[PLAN_PAYLOAD], 0, -1, 0)
        w[PLANNED_DONE] += 1
    later = w[GLOBALS_DONE] + _MANY_PARTS
    if w[LOOKAHEAD] and later < w[GLOBALS] and schedule(w)[later, TIME] < end:
        divide(w)


# What concerns the whole network.


@kernel
def _run_globals(w: World) -> bool:
    """What is due now; False when there is no room for it yet."""
    if _next_close(w) == w[NOW]:
        close_windows(w, False)
    while w[STATUS] == OK and _next_global(w) == w[NOW]:
        if w[HAS_LINKS]:
            needed = _links_needed(w)
            if w[LINKS_USED] + needed > w[LINKS] + w[LINKS_SPARE]:
                w[LINKS_WANTED] = needed
                w[STATUS] = NEEDS_LINKS
                return False
            if 2 * w[SLOTS_USED] + 4 * needed > w[SLOTS]:
                w[STATUS] = NEEDS_SLOTS
                return False
        line = schedule(w)[w[GLOBALS_DONE]]
        w[GLOBALS_DONE] += 1
        _run_global(w, line[TYPE], line[FIRST_NUMBER], line[SECOND_NUMBER])
    return w[STATUS] == OK


@kernel
def _links_needed(w: World) -> int:
    kind = schedule(w)[w[GLOBALS_DONE], TYPE]
    if kind == NODE_UP:
        return 2 * w[REDIAL]
    if kind == HEAL_LINKS:
        return 2 * w[REDIAL] * w[NODES]
    return 0


@kernel
def _run_global(w: World, kind: int, first: int, second: int) -> None:
    now = w[NOW]
    if kind == START_ALL:
        _start_all(w, now)
    elif kind == NODE_DOWN:
        node_down(w, lists.owner(w, first), now, first, second != 0)
    elif kind == NODE_UP:
        node_up(w, lists.owner(w, first), now, first)
    elif kind == CUT_LINKS:
        cut(w, 0, now, first)
    elif kind == HEAL_LINKS:
        heal(w, 0, now, first)
    elif kind == SAMPLE_STATE:
        sample_state(w, 0, now)
    else:
        _inject(w, 0, now, first)


@kernel
def _start_all(w: World, now: int) -> None:
    """Nodes that are up at the start, then their connections."""
    for node in range(w[NODES]):
        if nodes32(w)[node, UP] == 0:
            continue
        call_start(w, lists.owner(w, node), now, node)
    if w[QUIET_UNTIL]:
        w[NETWORK_STARTS] = 1
        return
    targets = dial_targets(w)
    for node in range(w[NODES]):
        if nodes32(w)[node, UP]:
            for place in range(dial_starts(w)[node], dial_starts(w)[node + 1]):
                if place + _DIALS_AHEAD < targets.shape[0]:
                    touch_members(w, targets[place + _DIALS_AHEAD] * w[TOPICS])
                target = targets[place]
                if not w[HAS_LINKS]:
                    dial_at_start(w, lists.owner(w, node), now, node, place)
                elif nodes32(w)[target, UP]:
                    dial(w, lists.owner(w, node), now, node, target)


@kernel
def _inject(w: World, th: int, now: int, message: int) -> None:
    """The script hands a message to a few routers, over links like any other."""
    info = messages(w)[message]
    script = w[SCRIPT]
    row(w, th, publish_row(now, script, info[TOPIC], message, 0, info[DATA_BYTES]))
    upper, lower = sending(
        w, now, _PUBLISH_PART, script, info[TOPIC], message, 1, info[ALONE_BYTES], 1, _INJECT_VIA
    )  # fmt: skip
    for place in range(info[INJECT_FROM], messages(w)[message + 1, INJECT_FROM]):
        target = inject_targets(w)[place]
        counts(w)[th, PUBLISHES] += 1
        delay = latency(w, script, target)
        sent(
            w, th, now, _PUBLISH_PART, script, target, info[TOPIC], message, 1, info[ALONE_BYTES], 1, _INJECT_VIA,
            delay, upper, lower,
        )  # fmt: skip
        on_the_way(w, th, now + delay)
        push(w, th, now + delay, target, _PUBLISH, script, message, 0, -1, 0)


@kernel
def close_windows(w: World, ends: bool) -> None:
    """Who was eligible for the messages whose window ends now, or, when the run ends, for all that are open."""
    while w[CLOSED_UP_TO] < w[MESSAGES]:
        message = w[CLOSED_UP_TO]
        info = messages(w)[message]
        if info[PUBLISHED] > w[NOW] or (not ends and info[PUBLISHED] + w[LINGER] > w[NOW]):
            return
        w[CLOSED_UP_TO] = message + 1
        topic = info[TOPIC]
        at = column(w, message)
        eligible = 0
        reached = 0
        for node in range(w[NODES]):
            if members(w)[node, topic] & JOINED == 0:
                continue
            if w[TRACKS_SINCE] and since_us(w)[node, topic] > info[PUBLISHED]:
                continue
            eligible += 1
            if bits(cells(w)[node, at], DELIVERED):
                reached += 1
            else:
                cells(w)[node, at] |= np.uint64(MISSED)
        if w[REJECT_SHARE] > 0:
            verdicts(w)[message, DUE_OF] = eligible
            verdicts(w)[message, REACHED_OF] = reached
        else:
            counts(w)[0, ELIGIBLE] += eligible
            counts(w)[0, REACHED] += reached


# The events of a part.


@kernel
def _run_share(w: World, th: int) -> None:
    """The blocks of nodes that a thread owns; all of them, by the first one, when nodes are not apart."""
    if w[NETWORK_STARTS]:
        connect_quietly(w, th)
    if w[LOOKAHEAD]:
        starts = block_starts(w)[0]
        blocks = w[PART_BLOCKS]
        known_asked = blocks if w[NODES] < _LARGE else th
        nodes_asked = known_asked
        neighbours_asked = known_asked
        for block in range(th, blocks, w[THREADS]):
            end = starts[block + 1]
            while known_asked < blocks and starts[known_asked] < end + _KNOWN_AHEAD * w[THREADS]:
                ask_what_is_known(w, known_asked)
                known_asked += w[THREADS]
            while nodes_asked < blocks and starts[nodes_asked] < end + _NODES_AHEAD * w[THREADS]:
                ask_for_nodes(w, nodes_asked)
                nodes_asked += w[THREADS]
            while neighbours_asked < blocks and starts[neighbours_asked] < end + _NEIGHBOURS_AHEAD * w[THREADS]:
                ask_for_neighbours(w, neighbours_asked)
                neighbours_asked += w[THREADS]
            _run_block(w, th, block)
    elif th == 0:
        _run_in_order(w)


@kernel
def _run_in_order(w: World) -> None:
    """All nodes together, by the heap."""
    base = w[BUCKET] << w[WIDTH_BITS]
    events = sorted_events(w)[0]
    for place in range(block_starts(w)[0, w[PART_BLOCKS]]):
        link = sorted_links(w)[0, place] if w[HAS_LINKS] else 0
        hold_near(w, 0, events[place, 0], events[place, 1], link)
    while control(w)[0, NEAR]:
        w0, w1, link = pop_near(w, 0)
        _dispatch(w, 0, base + (w0 >> OFFSET), w0, w1, link)


@kernel
def _run_block(w: World, th: int, block: int) -> None:
    """The nodes of a block, one after the other, each with its events in order."""
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
    """By node, time, kind and source; what is equal stays as it came."""
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
    """Nearly all events are RPCs of one message, and nearly all of those are duplicates: no calls on that path."""
    base = w[BUCKET] << w[WIDTH_BITS]
    plain = not (w[HAS_LINKS] or w[SERVICE] or w[SEEN_EXPIRES])
    events = sorted_events(w)[line]
    near_count = control(w)[th]
    duplicates = 0
    before = events[start, 1] >> NODE
    for place in range(start, end):
        w0 = events[place, 0]
        w1 = events[place, 1]
        while near_count[NEAR] and (w1 >> NODE != before or near_is_first(w, th, w0, w1)):
            late0, late1, late_link = pop_near(w, th)
            _dispatch(w, th, base + (late0 >> OFFSET), late0, late1, late_link)
        before = w1 >> NODE
        if plain and w1 & (INLINE | GOSSIP) and (w0 >> EVENT_KIND) & 15 == _RPC:
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
        _dispatch(w, th, base + (w0 >> OFFSET), w0, w1, link)
    while near_count[NEAR]:
        late0, late1, late_link = pop_near(w, th)
        _dispatch(w, th, base + (late0 >> OFFSET), late0, late1, late_link)
    counts(w)[th, EVENTS] += duplicates
    counts(w)[th, DUPLICATES] += duplicates


@kernel
def _dispatch(w: World, th: int, now: int, w0: int, w1: int, link: int) -> None:
    node = w1 >> NODE
    payload = w1 & PAYLOAD
    kind = (w0 >> EVENT_KIND) & 15
    header = nodes32(w)[node]
    if not header[UP]:
        _drop_for_down_node(w, th, now, node, kind, w0, payload)
    elif kind == _TIMER and payload != header[STARTS]:
        return  # of an earlier life of the node
    elif kind == _JOIN:
        if not members(w)[node, payload] & APPLICATION:
            members(w)[node, payload] |= APPLICATION
            call_join(w, th, now, node, payload)
    elif kind == _LEAVE:
        if members(w)[node, payload] & APPLICATION:
            members(w)[node, payload] &= ~APPLICATION
            call_leave(w, th, now, node, payload)
    elif kind == _SERVED:
        if payload == header[STARTS]:
            _serve_next(w, th, now, node)
    elif w[SERVICE]:
        _wait_for_service(w, th, now, node, w0, w1, link)
    else:
        _handle(w, th, now, node, kind, w0, payload, link)


@kernel
def _drop_for_down_node(w: World, th: int, now: int, node: int, kind: int, w0: int, payload: int) -> None:
    if kind == _RPC:
        unreachable(w, th, now, source_of(w0), node, payload, ((w0 >> VIA) & 15) - 1, w0 & 255)
    elif kind == _PUBLISH and source_of(w0) == w[SCRIPT]:
        info = messages(w)[payload]
        row(
            w, th, drop_rpc_row(
                now, _PUBLISH_PART, w[SCRIPT], node, info[TOPIC], payload, 1, info[ALONE_BYTES], 1, _INJECT_VIA,
                _UNREACHABLE,
            ),
        )  # fmt: skip
    elif kind == _JOIN:
        members(w)[node, payload] |= APPLICATION
    elif kind == _LEAVE:
        members(w)[node, payload] &= ~APPLICATION
    if carries_payload(w0, payload):
        release(w, th, payload)


@kernel
def _wait_for_service(w: World, th: int, now: int, node: int, w0: int, w1: int, link: int) -> None:
    header = nodes32(w)[node]
    place = lists.new_entry(w, node)
    entries = pool(w)[lists.owner(w, node)]
    entries[place, lists.NEXT] = -1
    entries[place, lists.FIRST] = w0
    entries[place, lists.SECOND] = w1
    entries[place, lists.VALUE] = link
    if header[BACKLOG] < 0:
        header[BACKLOG] = place
        header[BACKLOG_END] = place
        push(w, th, now + w[SERVICE], node, _SERVED, -1, header[STARTS], 0, -1, 0)
    else:
        entries[header[BACKLOG_END], lists.NEXT] = place
        header[BACKLOG_END] = place


@kernel
def _serve_next(w: World, th: int, now: int, node: int) -> None:
    header = nodes32(w)[node]
    entries = pool(w)[lists.owner(w, node)]
    place = header[BACKLOG]
    w0 = entries[place, lists.FIRST]
    w1 = entries[place, lists.SECOND]
    link = entries[place, lists.VALUE]
    header[BACKLOG] = entries[place, lists.NEXT]
    lists.free_entry(w, node, place)
    _handle(w, th, now, node, (w0 >> EVENT_KIND) & 15, w0, w1 & PAYLOAD, link)
    if header[BACKLOG] >= 0:
        push(w, th, now + w[SERVICE], node, _SERVED, -1, header[STARTS], 0, -1, 0)


@kernel
def _handle(w: World, th: int, now: int, node: int, kind: int, w0: int, payload: int, link: int) -> None:
    if kind == _RPC:
        via = ((w0 >> VIA) & 15) - 1
        if not is_up(w, link):
            unreachable(w, th, now, source_of(w0), node, payload, via, w0 & 255)
        elif payload & INLINE:
            call_message(w, th, now, node, source_of(w0), payload & MESSAGE, w0 & 255, via)
        elif payload & GOSSIP:
            call_gossip(w, th, now, node, source_of(w0), payload & MESSAGE, gossip_bits(w0, payload))
        elif payload & TOPIC_PART:
            call_topic_part(w, th, now, node, source_of(w0), payload & MESSAGE, topic_kind(payload))
        else:
            call_rpc(w, th, now, node, source_of(w0), payload)
        if carries_payload(w0, payload):
            release(w, th, payload)
    elif kind == _TIMER:
        call_timer(w, th, now, node)
    elif kind == _PUBLISH:
        call_publish(w, th, now, node, source_of(w0), payload)
    elif kind == _VALIDATED:
        if words_at(w, part_place(payload, 0))[PART_KIND] == nodes32(w)[node, STARTS]:
            call_validated(w, th, now, node, payload)
        release(w, th, payload)
    elif kind == _CONNECTED:
        on_connected(w, th, now, node, source_of(w0), payload)
    elif kind == _DISCONNECTED:
        on_disconnected(w, th, now, node, payload)
    elif kind == _FAILED:
        call_failed(w, th, now, node, source_of(w0), payload)
        if not payload & INLINE:
            release(w, th, payload)
