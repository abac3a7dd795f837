"""The alarms of trees: messages are announced, and missing ones are requested (`core.episub.tree`)."""

from __future__ import annotations

from hearsay.core.language.actions import Reason
from hearsay.core.rules.message_rules import needs_samples
from hearsay.core.rules.tree_rules import is_given_up, is_requested
from hearsay.core.shell.randomness import Purpose
from hearsay.sim.array.episub.alarms import NEVER, with_episub
from hearsay.sim.array.episub.kept import kept_hops
from hearsay.sim.array.episub.missing import (
    ANNOUNCERS,
    MESSAGE,
    PEER,
    TOUCHES,
    announcer_to_ask,
    has_announced,
    remove_missing,
)
from hearsay.sim.array.episub.tree import clear_queue, make_eager
from hearsay.sim.array.machine.memory import sort_numbers
from hearsay.sim.array.travel.outbox import begin_announcement, put_announcement, put_tree_part
from hearsay.sim.array.world import lists
from hearsay.sim.array.world.draws import choose, draw_topic
from hearsay.sim.array.world.knowledge import bits, column, was_seen
from hearsay.sim.array.world.layout import (
    ASKED,
    FLUSH_DUE,
    GRAFT_ATTEMPTS,
    IS_EAGER,
    IS_LAZY,
    KEPT_LAST,
    KEPT_OLDER,
    MAX_PART_IDS,
    MISSING_COUNT,
    MISSING_DUE,
    MISSING_FIRST,
    MISSING_TICK,
    NEWLY_EAGER,
    NEWLY_UP,
    OUTBOX_FULL,
    QUEUE,
    QUEUED,
    RECENT,
    SCRATCH_USED,
    STATUS,
    TOPICS,
    World,
    alarms,
    cells,
    control,
    flags,
    kept32,
    kept64,
    marks,
    pool,
    scratch,
    tree_marks,
    trees,
)
from hearsay.sim.array.world.lists import FIRST, NEXT, SECOND
from hearsay.sim.array.world.payload import GRAFT, IHAVE, announcement
from hearsay.sim.array.world.record import ignored
from hearsay.sim.array.world.slots import end_slot, find_slot, first_slot, is_in, parameter

_DUE, _REQUESTED, _GIVEN_UP = 1 << 40, 1 << 41, 1 << 42
"""Marks of missing messages while the alarm is handled, above the bits of the number of touches. _DUE: to be
requested. _GIVEN_UP: to be removed. _REQUESTED: given up, and already recorded together with others."""
_MARKS = _DUE | _REQUESTED | _GIVEN_UP


# Announcements.


@with_episub
def flush_all(w: World, th: int, now: int, node: int) -> None:
    alarms(w)[node, FLUSH_DUE] = NEVER
    for topic in range(w[TOPICS]):
        if is_in(w, node, topic):
            _flush(w, th, now, node, topic)


@with_episub
def _flush(w: World, th: int, now: int, node: int, topic: int) -> None:
    """Send IHAVE for messages received since the last IHAVE, to new neighbours also for recent ones (TREE-1)."""
    has_neighbours = False
    has_new_ones = False
    for slot in range(first_slot(w, node), end_slot(w, node)):
        has_neighbours |= flags(w)[slot, topic] & (IS_EAGER | IS_LAZY) != 0
        has_new_ones |= tree_marks(w)[slot, topic] & NEWLY_UP != 0
    if not has_neighbours:
        return
    start = control(w)[th, SCRATCH_USED]
    _collect_queue(w, th, node, topic)
    _announce(w, th, now, node, topic, start, False)
    if has_new_ones:
        start = control(w)[th, SCRATCH_USED]
        _collect_queue(w, th, node, topic)
        _collect_recent(w, th, now, node, topic)
        _announce(w, th, now, node, topic, start, True)
    clear_queue(w, node, topic)
    for slot in range(first_slot(w, node), end_slot(w, node)):
        tree_marks(w)[slot, topic] = 0


@with_episub
def _collect_queue(w: World, th: int, node: int, topic: int) -> None:
    """Append the announcements that wait for the next IHAVE to `scratch`."""
    entries = pool(w)[lists.owner(w, node)]
    place = trees(w)[node, topic, QUEUE]
    while place >= 0:
        _collect(w, th, entries[place, FIRST], entries[place, SECOND])
        place = entries[place, NEXT]


@with_episub
def _collect_recent(w: World, th: int, now: int, node: int, topic: int) -> None:
    """Append announcements of recent messages to `scratch`, except those that wait for the next IHAVE."""
    since_us = now - parameter(w, node, RECENT)
    message = trees(w)[node, topic, KEPT_LAST]
    for _ in range(parameter(w, node, MAX_PART_IDS)):
        if message < 0 or kept64(w)[node, column(w, message)] < since_us:
            return
        if not bits(cells(w)[node, column(w, message)], QUEUED):
            _collect(w, th, message, kept_hops(w, node, message))
        message = kept32(w)[node, column(w, message), KEPT_OLDER]


@with_episub
def _collect(w: World, th: int, message: int, hops: int) -> None:
    line = control(w)[th]
    place = line[SCRATCH_USED]
    if place == scratch(w).shape[1]:
        w[STATUS] = OUTBOX_FULL
        return
    scratch(w)[th, place] = announcement(message, hops)
    line[SCRATCH_USED] = place + 1


@with_episub
def _announce(w: World, th: int, now: int, node: int, topic: int, start: int, to_new: bool) -> None:
    """Send an IHAVE with announcements in `scratch` from `start` on to lazy neighbours, or (`to_new`) to new ones."""
    known = scratch(w)[th]
    count = control(w)[th, SCRATCH_USED] - start
    if count == 0:
        return
    sort_numbers(known, start, start + count)
    most = parameter(w, node, MAX_PART_IDS)
    if needs_samples(count, most):
        chosen = marks(w)[th]
        choose(draw_topic(w, Purpose.GOSSIP_IDS, node, topic, now), count, most, chosen)
        kept = start
        for place in range(count):
            if chosen[place]:
                known[kept] = known[start + place]
                kept += 1
                chosen[place] = 0
        count = most
    short = begin_announcement(w, th, topic, start, count)
    for slot in range(first_slot(w, node), end_slot(w, node)):
        mark = tree_marks(w)[slot, topic]
        if mark & NEWLY_UP:
            is_meant = to_new
        else:
            is_meant = not to_new and (mark & NEWLY_EAGER != 0 or flags(w)[slot, topic] & IS_LAZY != 0)
        if is_meant:
            put_announcement(w, th, slot, topic, start, count, short)


# Missing messages.


@with_episub
def touch_all(w: World, th: int, now: int, node: int) -> None:
    """Handle the missing messages of all trees, and set the next alarm if messages are still missing."""
    left = False
    for topic in range(w[TOPICS]):
        if is_in(w, node, topic) and trees(w)[node, topic, MISSING_COUNT]:
            _touch(w, th, now, node, topic)
            left |= trees(w)[node, topic, MISSING_COUNT] > 0
    alarms(w)[node, MISSING_DUE] = now + parameter(w, node, MISSING_TICK) if left else NEVER


@with_episub
def _touch(w: World, th: int, now: int, node: int, topic: int) -> None:
    """Count a touch of each missing message of a tree; request it or give it up if it is time (TREE-3, REPAIR-1)."""
    entries = pool(w)[lists.owner(w, node)]
    attempts = parameter(w, node, GRAFT_ATTEMPTS)
    before = -1
    place = trees(w)[node, topic, MISSING_FIRST]
    while place >= 0:
        following = entries[place, NEXT]
        message = entries[place, MESSAGE]
        if bits(cells(w)[node, column(w, message)], ASKED):
            before = place
        elif was_seen(w, now, node, message):
            remove_missing(w, node, topic, place, before)
        else:
            entries[place, TOUCHES] += 1
            if is_given_up(entries[place, TOUCHES], attempts):
                entries[place, TOUCHES] |= _GIVEN_UP
            elif is_requested(entries[place, TOUCHES], attempts):
                entries[place, TOUCHES] |= _DUE
            before = place
        place = following
    _give_up(w, th, now, node, topic)
    place = trees(w)[node, topic, MISSING_FIRST]
    while place >= 0:
        if entries[place, TOUCHES] & _DUE:
            _request(w, th, now, node, topic, place)
        place = entries[place, NEXT]


@with_episub
def _give_up(w: World, th: int, now: int, node: int, topic: int) -> None:
    """Remove the messages marked _GIVEN_UP, and record their number for each first announcer."""
    entries = pool(w)[lists.owner(w, node)]
    place = trees(w)[node, topic, MISSING_FIRST]
    before = -1
    while place >= 0:
        following = entries[place, NEXT]
        if not entries[place, TOUCHES] & _GIVEN_UP:
            before = place
            place = following
            continue
        if not entries[place, TOUCHES] & _REQUESTED:
            peer = entries[entries[place, ANNOUNCERS], PEER]
            count = 0
            other = place
            while other >= 0:
                is_of_peer = entries[entries[other, ANNOUNCERS], PEER] == peer
                if is_of_peer and entries[other, TOUCHES] & _GIVEN_UP:
                    entries[other, TOUCHES] |= _REQUESTED
                    count += 1
                other = entries[other, NEXT]
            ignored(w, th, now, node, peer, IHAVE, count, Reason.GIVEN_UP)
        remove_missing(w, node, topic, place, before)
        place = following


@with_episub
def _request(w: World, th: int, now: int, node: int, topic: int, place: int) -> None:
    """Send a GRAFT to an announcer of a missing message, for all messages marked _DUE that it announced."""
    line = control(w)[th]
    entries = pool(w)[lists.owner(w, node)]
    entries[place, TOUCHES] &= ~_MARKS
    peer = announcer_to_ask(w, node, place)
    known = scratch(w)[th]
    start = line[SCRATCH_USED]
    end = start
    if start + trees(w)[node, topic, MISSING_COUNT] > known.shape[0]:
        w[STATUS] = OUTBOX_FULL
        return
    known[end] = entries[place, MESSAGE]
    end += 1
    other = entries[place, NEXT]
    while other >= 0:
        if entries[other, TOUCHES] & _DUE and has_announced(w, node, other, peer):
            entries[other, TOUCHES] &= ~_MARKS
            known[end] = entries[other, MESSAGE]
            end += 1
        other = entries[other, NEXT]
    sort_numbers(known, start, end)
    line[SCRATCH_USED] = end
    slot = find_slot(w, node, peer)
    make_eager(w, th, now, node, slot, topic)
    put_tree_part(w, th, slot, GRAFT, topic, start, end - start)
