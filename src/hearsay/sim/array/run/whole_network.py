"""Events of the whole network: faults, injections, samples of state and scores, and the ends of messages' windows.

A sample of state has the entries and bytes of `Router.state_size`."""

from __future__ import annotations

import numpy as np

from hearsay.core.language.actions import Via
from hearsay.core.language.events import EventKind
from hearsay.core.language.sizes import SIMULATED_PEER_BYTES
from hearsay.sim.array.compiling import kernel
from hearsay.sim.array.episub.basics import has_overlay, has_trees
from hearsay.sim.array.episub.caches import expire_kept, stored_bytes
from hearsay.sim.array.rules.calls import call_start
from hearsay.sim.array.rules.scores import sample_scores
from hearsay.sim.array.rules.special_peers import with_direct
from hearsay.sim.array.run.dispatch import dial_arrives
from hearsay.sim.array.run.faults import cut, dial_live, heal, node_down
from hearsay.sim.array.run.links import dial, dial_at_start, has_room_for_links, with_links
from hearsay.sim.array.travel.dials import next_arrival
from hearsay.sim.array.world import lists
from hearsay.sim.array.world.knowledge import bits, column, is_cached, was_seen
from hearsay.sim.array.world.layout import (
    CLOSED_UP_TO,
    CONNECTED,
    DATA_BYTES,
    DELIVERED,
    DUE_OF,
    FANOUT,
    FIRST_MESSAGE,
    GLOBALS,
    GLOBALS_DONE,
    HAS_DIRECT,
    HAS_LINKS,
    HAS_NATTED,
    HAS_VERDICTS,
    IN_FANOUT,
    IN_MESH,
    INJECT_FROM,
    IS_LAZY,
    JOINED,
    KEPT_FIRST,
    KEPT_NEWER,
    LINGER,
    LINKS,
    LINKS_SPARE,
    LINKS_USED,
    LINKS_WANTED,
    MESSAGE_BYTES,
    MESSAGES,
    MISSED,
    NEEDS_LINKS,
    NEEDS_SLOTS,
    NETWORK_STARTS,
    NEWEST,
    NODES,
    NOW,
    OK,
    PASSIVE_COUNT,
    PUBLISHED,
    QUIET_UNTIL,
    REACHED_OF,
    REDIAL,
    SCRIPT,
    STATUS,
    SUBSCRIBED,
    TOPIC,
    TOPIC_LENGTH,
    TOPICS,
    TRACKS_SINCE,
    UP,
    World,
    cells,
    counts,
    dial_starts,
    dial_targets,
    direct_pairs,
    flags,
    inject_targets,
    kept32,
    members,
    messages,
    natted,
    nodes32,
    overlays,
    schedule,
    since_us,
    topics,
    touch_members,
    trees,
    verdicts,
)
from hearsay.sim.array.world.payload import message_part
from hearsay.sim.array.world.queue import push
from hearsay.sim.array.world.record import ELIGIBLE, PUBLISHES, REACHED, row, sending, sent
from hearsay.sim.array.world.slots import end_slot, find_slot, first_slot, is_in, latency
from hearsay.trace.language.event_rows import publish_row, state_row

_PEER = SIMULATED_PEER_BYTES
_SEEN_BYTES = SIMULATED_PEER_BYTES + 8


@kernel
def _sample(w: World, th: int, now: int, node: int) -> None:
    """Record the size of the state of a node's router."""
    count = 0
    size = 0
    for topic in range(w[TOPICS]):
        length = topics(w)[topic, TOPIC_LENGTH]
        if is_in(w, node, topic):
            count += 1
            size += length
        for slot in range(first_slot(w, node), end_slot(w, node)):
            flag = flags(w)[slot, topic]
            if flag & SUBSCRIBED:
                count += 1
                size += length
            if flag & IN_MESH:
                count += 1
                size += length + _PEER
            if flag & IN_FANOUT and members(w)[node, topic] & FANOUT:
                count += 1
                size += length + _PEER
        if has_trees(w, node) and is_in(w, node, topic):
            more, larger = _size_of_tree(w, now, node, topic)
            count += more
            size += larger
    for slot in range(first_slot(w, node), end_slot(w, node)):
        if flags(w)[slot, 0] & CONNECTED:
            count += 1
            size += _PEER
    for message in range(w[FIRST_MESSAGE], w[NEWEST]):
        if was_seen(w, now, node, message):
            count += 1
            size += _SEEN_BYTES
        if is_cached(w, node, column(w, message)):
            count += 1
            size += messages(w)[message, MESSAGE_BYTES]
    row(w, th, state_row(now, node, size, count))


@kernel
def _size_of_tree(w: World, now: int, node: int, topic: int) -> tuple[int, int]:
    """Return the number of entries and bytes of the lazy neighbours, the passive list and the kept messages of a
    tree."""
    count = overlays(w)[node, topic, PASSIVE_COUNT] if has_overlay(w, node) else 0
    for slot in range(first_slot(w, node), end_slot(w, node)):
        count += int(flags(w)[slot, topic] & IS_LAZY != 0)
    size = count * _PEER
    expire_kept(w, now, node, topic)
    message = trees(w)[node, topic, KEPT_FIRST]
    while message >= 0:
        count += 1
        size += stored_bytes(w, node, message)
        message = kept32(w)[node, column(w, message), KEPT_NEWER]
    return count, size


TIME, TYPE, FIRST_NUMBER, SECOND_NUMBER = range(4)
"""Columns of `schedule`."""
START_ALL, NODE_DOWN, NODE_UP, CUT_LINKS, HEAL_LINKS, SAMPLE_STATE, SAMPLE_SCORES, INJECT = range(8)
_DIALS_AHEAD = 16
"""While a first dial is made, memory is prefetched for the dial that is this number of places later."""
_NEVER = 1 << 62


@kernel
def next_due(w: World) -> int:
    """Return the time of the next line of `schedule`; a time after the end of every run if there is none."""
    return schedule(w)[w[GLOBALS_DONE], TIME] if w[GLOBALS_DONE] < w[GLOBALS] else _NEVER


@kernel
def next_close(w: World) -> int:
    """Return the time at which the window of the next message ends; a time after the end of every run if there is
    none."""
    message = w[CLOSED_UP_TO]
    return messages(w)[message, PUBLISHED] + w[LINGER] if message < w[MESSAGES] else _NEVER


@kernel
def run_due_events(w: World) -> bool:
    """Handle the events of the whole network that are due now. Return False if Python has to do something before all
    are handled; STATUS has the reason."""
    if next_close(w) == w[NOW]:
        close_windows(w, False)
    while w[STATUS] == OK and next_due(w) == w[NOW]:
        if w[HAS_LINKS] and not _has_room(w, _links_needed(w)):
            return False
        line = schedule(w)[w[GLOBALS_DONE]]
        w[GLOBALS_DONE] += 1
        _run_one(w, line[TYPE], line[FIRST_NUMBER], line[SECOND_NUMBER])
    while w[STATUS] == OK and next_arrival(w) == w[NOW]:
        if not _has_room(w, 2):
            return False
        dial_arrives(w)
    return w[STATUS] == OK


@with_links
def _has_room(w: World, links: int) -> bool:
    """Return whether there is room for `links` new links and their slots; if not, set STATUS to the reason."""
    if has_room_for_links(w, links):
        return True
    w[LINKS_WANTED] = links
    w[STATUS] = NEEDS_LINKS if w[LINKS_USED] + links > w[LINKS] + w[LINKS_SPARE] else NEEDS_SLOTS
    return False


@kernel
def _links_needed(w: World) -> int:
    kind = schedule(w)[w[GLOBALS_DONE], TYPE]
    if kind == NODE_UP:
        return 2 * w[REDIAL]
    if kind == HEAL_LINKS:
        return 2 * w[REDIAL] * w[NODES]
    return 0


@kernel
def _run_one(w: World, kind: int, first: int, second: int) -> None:
    now = w[NOW]
    if kind == START_ALL:
        _start_all(w, now)
    elif kind == NODE_DOWN:
        node_down(w, lists.owner(w, first), now, first, second != 0)
    elif kind == NODE_UP:
        call_start(w, lists.owner(w, first), now, first)
        dial_live(w, lists.owner(w, first), now, first, w[REDIAL])
    elif kind == CUT_LINKS:
        cut(w, 0, now, first)
    elif kind == HEAL_LINKS:
        heal(w, 0, now, first)
    elif kind == SAMPLE_STATE:
        for node in range(w[NODES]):
            if nodes32(w)[node, UP]:
                _sample(w, 0, now, node)
    elif kind == SAMPLE_SCORES:
        sample_all_scores(w)
    else:
        _inject(w, 0, now, first)


@kernel
def sample_all_scores(w: World) -> None:
    for node in range(w[NODES]):
        if nodes32(w)[node, UP]:
            sample_scores(w, lists.owner(w, node), w[NOW], node)


@kernel
def _start_all(w: World, now: int) -> None:
    """Start the nodes that are up at the beginning, and make their first connections. With QUIET_UNTIL, set
    NETWORK_STARTS instead of making connections."""
    for node in range(w[NODES]):
        if nodes32(w)[node, UP] == 0:
            continue
        call_start(w, lists.owner(w, node), now, node)
    if w[QUIET_UNTIL]:
        w[NETWORK_STARTS] = 1
        return
    targets = dial_targets(w)
    for node in range(w[NODES]):
        if nodes32(w)[node, UP] and not has_overlay(w, node):
            for place in range(dial_starts(w)[node], dial_starts(w)[node + 1]):
                if place + _DIALS_AHEAD < targets.shape[0]:
                    touch_members(w, targets[place + _DIALS_AHEAD] * w[TOPICS])
                target = targets[place]
                if not w[HAS_LINKS]:
                    dial_at_start(w, lists.owner(w, node), now, node, place)
                elif nodes32(w)[target, UP]:
                    dial(w, lists.owner(w, node), now, node, target)
    if w[HAS_DIRECT]:
        _connect_direct(w, now)


@with_direct
def _connect_direct(w: World, now: int) -> None:
    """Connect each pair of direct peers that are both up and not connected by the dials of the plan."""
    for place in range(direct_pairs(w).shape[0]):
        second = direct_pairs(w)[place, 1]
        reversed_ = w[HAS_NATTED] != 0 and natted(w)[second] != 0
        node = direct_pairs(w)[place, int(reversed_)]
        target = direct_pairs(w)[place, 1 - int(reversed_)]
        if nodes32(w)[node, UP] and nodes32(w)[target, UP] and find_slot(w, node, target) < 0:
            dial(w, lists.owner(w, node), now, node, target)


@kernel
def _inject(w: World, th: int, now: int, message: int) -> None:
    """Send a message of the script to the nodes that the plan names. Each of them gets an event PUBLISH after the
    latency."""
    info = messages(w)[message]
    script = w[SCRIPT]
    row(w, th, publish_row(now, script, info[TOPIC], message, 0, info[DATA_BYTES]))
    part = message_part(w, message, 1, Via.INJECT)
    common = sending(w, now, script, part)
    for place in range(info[INJECT_FROM], messages(w)[message + 1, INJECT_FROM]):
        target = inject_targets(w)[place]
        counts(w)[th, PUBLISHES] += 1
        delay = latency(w, script, target)
        sent(w, th, now, script, target, part, delay, common)
        push(w, th, now + delay, target, EventKind.PUBLISH, script, message, 0)


@kernel
def close_windows(w: World, ends: bool) -> None:
    """For each message whose window is over, count the eligible nodes, and the eligible nodes that got the message.

    If the run `ends`, do so for all published messages. Eligible nodes without the message get the bit MISSED.
    """
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
        if w[HAS_VERDICTS]:
            verdicts(w)[message, DUE_OF] = eligible
            verdicts(w)[message, REACHED_OF] += reached
        else:
            counts(w)[0, ELIGIBLE] += eligible
            counts(w)[0, REACHED] += reached
