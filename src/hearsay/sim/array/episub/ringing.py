"""Alarms of episub that are due: their order, and the work of trees (`core.episub.tree`).

`ring` handles alarms in the order of `core.episub.connections.Agenda.ringing`. At the alarms of trees the node
announces messages, or requests missing ones. The alarms of overlays are in `overlay.py`.
"""

from __future__ import annotations

from hearsay.core.language.actions import Reason
from hearsay.core.rules.message_rules import is_given_up, is_requested, needs_samples
from hearsay.core.rules.randomness import Purpose
from hearsay.sim.array.compiling import sort_numbers
from hearsay.sim.array.episub.basics import NEVER, earlier, has_overlay, with_episub
from hearsay.sim.array.episub.caches import (
    ANNOUNCERS,
    MESSAGE,
    PEER,
    TOUCHES,
    announcer_to_ask,
    kept_hops,
    remove_missing,
)
from hearsay.sim.array.episub.overlay import ring_overlay, sweep
from hearsay.sim.array.episub.tree import clear_queue, make_eager
from hearsay.sim.array.travel.outbox import begin_announcement, put_announcement, put_tree_part, write_word
from hearsay.sim.array.world import lists
from hearsay.sim.array.world.draws import draw_topic, keep_sample
from hearsay.sim.array.world.knowledge import bits, column, was_seen
from hearsay.sim.array.world.layout import (
    ASKED,
    CONTACTS_DUE,
    EXPIRE_DUE,
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
    QUEUE,
    QUEUED,
    RECENT,
    SCRATCH_USED,
    SWEEP_DUE,
    TOPICS,
    World,
    alarms,
    cells,
    control,
    flags,
    kept32,
    kept64,
    marks,
    meetings,
    overlays,
    pool,
    scratch,
    topic_keys,
    tree_marks,
    trees,
)
from hearsay.sim.array.world.lists import FIRST, NEXT, SECOND
from hearsay.sim.array.world.payload import GRAFT, IHAVE, announcement
from hearsay.sim.array.world.record import ignored
from hearsay.sim.array.world.slots import end_slot, find_slot, first_slot, is_in, parameter

_DUE, _GIVEN_UP = 1 << 40, 1 << 41
"""Marks of missing messages while the alarm is handled, in bits above the number of touches. _DUE: the message will
be requested. _GIVEN_UP: the message will be removed."""


_MISSING, _FLUSH, _SWEEP, _NOTHING = 5, 6, 7, 8
"""The tasks of the whole node, with the numbers of `core.episub.connections.Task`; _NOTHING if no task is due. The
tasks of topics have lower numbers, which are also the fields of `overlays` with their alarms."""

# Announcements.


@with_episub
def flush_all(w: World, th: int, now: int, node: int) -> None:
    """Send the announcements that wait in all trees of a node."""
    alarms(w)[node, FLUSH_DUE] = NEVER
    for topic in range(w[TOPICS]):
        if is_in(w, node, topic):
            _flush(w, th, now, node, topic)


@with_episub
def _flush(w: World, th: int, now: int, node: int, topic: int) -> None:
    """Send IHAVE for the messages of a tree that wait for the next IHAVE, and to new neighbours also for recent
    messages (TREE-1). Do nothing if there are no neighbours."""
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
    """Append to `scratch` the announcements that wait for the next IHAVE."""
    entries = pool(w)[lists.owner(w, node)]
    place = trees(w)[node, topic, QUEUE]
    while place >= 0:
        write_word(w, th, announcement(entries[place, FIRST], entries[place, SECOND]))
        place = entries[place, NEXT]


@with_episub
def _collect_recent(w: World, th: int, now: int, node: int, topic: int) -> None:
    """Append to `scratch` announcements of recent messages, except messages that wait for the next IHAVE."""
    since_us = now - parameter(w, node, RECENT)
    message = trees(w)[node, topic, KEPT_LAST]
    for _ in range(parameter(w, node, MAX_PART_IDS)):
        if message < 0 or kept64(w)[node, column(w, message)] < since_us:
            return
        if not bits(cells(w)[node, column(w, message)], QUEUED):
            write_word(w, th, announcement(message, kept_hops(w, node, message)))
        message = kept32(w)[node, column(w, message), KEPT_OLDER]


@with_episub
def _announce(w: World, th: int, now: int, node: int, topic: int, start: int, to_new: bool) -> None:
    """Send the announcements that begin at `start` in `scratch`: with `to_new` to new neighbours, otherwise to lazy
    neighbours and to those that became eager since the last IHAVE."""
    known = scratch(w)[th]
    count = control(w)[th, SCRATCH_USED] - start
    if count == 0:
        return
    sort_numbers(known, start, start + count)
    most = parameter(w, node, MAX_PART_IDS)
    if needs_samples(count, most):
        state = draw_topic(w, Purpose.GOSSIP_IDS, node, topic, now)
        count = keep_sample(known, start, count, most, state, marks(w)[th])
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
    """Touch the missing messages of all trees. If messages are still missing after that, set the next alarm."""
    left = False
    for topic in range(w[TOPICS]):
        if is_in(w, node, topic) and trees(w)[node, topic, MISSING_COUNT]:
            _touch(w, th, now, node, topic)
            left |= trees(w)[node, topic, MISSING_COUNT] > 0
    alarms(w)[node, MISSING_DUE] = now + parameter(w, node, MISSING_TICK) if left else NEVER


@with_episub
def _touch(w: World, th: int, now: int, node: int, topic: int) -> None:
    """Touch each missing message of a tree: request the messages that are due, and give up others (REPAIR-1)."""
    entries = pool(w)[lists.owner(w, node)]
    attempts = parameter(w, node, GRAFT_ATTEMPTS)
    place = trees(w)[node, topic, MISSING_FIRST]
    while place >= 0:
        following = entries[place, NEXT]
        message = entries[place, MESSAGE]
        is_asked = bits(cells(w)[node, column(w, message)], ASKED)
        if not is_asked and was_seen(w, now, node, message):
            remove_missing(w, node, topic, place)
        elif not is_asked:
            entries[place, TOUCHES] += 1
            if is_given_up(entries[place, TOUCHES], attempts):
                entries[place, TOUCHES] |= _GIVEN_UP
            elif is_requested(entries[place, TOUCHES], attempts):
                entries[place, TOUCHES] |= _DUE
        place = following
    _give_up(w, th, now, node, topic)
    place = trees(w)[node, topic, MISSING_FIRST]
    while place >= 0:
        if entries[place, TOUCHES] & _DUE:
            _request(w, th, now, node, topic, place)
        place = entries[place, NEXT]


@with_episub
def _give_up(w: World, th: int, now: int, node: int, topic: int) -> None:
    """Remove the messages marked _GIVEN_UP. Record, for each peer that announced some of them first, their number."""
    entries = pool(w)[lists.owner(w, node)]
    place = trees(w)[node, topic, MISSING_FIRST]
    while place >= 0:
        if not entries[place, TOUCHES] & _GIVEN_UP:
            place = entries[place, NEXT]
            continue
        peer = entries[entries[place, ANNOUNCERS], PEER]
        count = 0
        while place >= 0:
            following = entries[place, NEXT]
            if entries[place, TOUCHES] & _GIVEN_UP and entries[entries[place, ANNOUNCERS], PEER] == peer:
                remove_missing(w, node, topic, place)
                count += 1
            place = following
        ignored(w, th, now, node, peer, IHAVE, count, Reason.GIVEN_UP)
        place = trees(w)[node, topic, MISSING_FIRST]


@with_episub
def _request(w: World, th: int, now: int, node: int, topic: int, place: int) -> None:
    """Send a GRAFT to the next announcer of a missing message. It requests this message and all other messages marked
    _DUE that the same peer announced."""
    entries = pool(w)[lists.owner(w, node)]
    entries[place, TOUCHES] &= ~_DUE
    peer = announcer_to_ask(w, node, place)
    start = control(w)[th, SCRATCH_USED]
    write_word(w, th, entries[place, MESSAGE])
    other = entries[place, NEXT]
    while other >= 0:
        if entries[other, TOUCHES] & _DUE and lists.place_in(w, node, entries[other, ANNOUNCERS], peer) >= 0:
            entries[other, TOUCHES] &= ~_DUE
            write_word(w, th, entries[other, MESSAGE])
        other = entries[other, NEXT]
    end = control(w)[th, SCRATCH_USED]
    sort_numbers(scratch(w)[th], start, end)
    slot = find_slot(w, node, peer)
    make_eager(w, th, now, node, slot, topic)
    put_tree_part(w, th, slot, GRAFT, topic, start, end - start)


# The order of alarms.


@with_episub
def ring(w: World, th: int, now: int, node: int) -> None:
    """Handle the alarms of a node that are due, in the order of time, then task, then key of the topic."""
    line = alarms(w)[node]
    while True:
        due = now + 1
        task = _NOTHING
        topic = -1
        if has_overlay(w, node):
            for alarm in range(EXPIRE_DUE, CONTACTS_DUE + 1):
                for other in range(w[TOPICS]):
                    time = overlays(w)[node, other, alarm]
                    is_tie = time == due and alarm == task
                    is_first = time < due or (is_tie and topic_keys(w)[other] < topic_keys(w)[topic])
                    if time != NEVER and is_first:
                        due = time
                        task = alarm
                        topic = other
        if earlier(due, line[MISSING_DUE]) < due:
            due = line[MISSING_DUE]
            task = _MISSING
        if earlier(due, line[FLUSH_DUE]) < due:
            due = line[FLUSH_DUE]
            task = _FLUSH
        if has_overlay(w, node) and earlier(due, meetings(w)[node, SWEEP_DUE]) < due:
            task = _SWEEP
        if task == _NOTHING:
            return
        if task == _MISSING:
            touch_all(w, th, now, node)
        elif task == _FLUSH:
            flush_all(w, th, now, node)
        elif task == _SWEEP:
            sweep(w, th, now, node)
        else:
            ring_overlay(w, th, now, node, topic, task)
