"""The basis of all kernels of episub: which nodes run it, then the timer with its alarms, then tables.

An alarm is a time at which the router has a task. A router of episub has one timer, which is set to the earliest
alarm of episub and of the shell (`core.episub.connections`). The alarms in `alarms` are for all trees of the node,
those in `overlays` for the overlay of one topic. When the timer is set to another time, the event for the previous
time remains in the queue, and is ignored when it is due.

A table of a topic's overlay is a list in `pool` with at most one entry for each peer. Layout: a field of `overlays`,
such as REQUESTS, has the index of the table's first entry, -1 if there is none. The argument `table` is this field.
An entry has a peer, a time or -1, and a content that depends on the table.
"""

from __future__ import annotations

from hearsay.core.language.events import EventKind
from hearsay.sim.array.compiling import inlined, only_with
from hearsay.sim.array.travel.outbox import with_episub
from hearsay.sim.array.world import lists
from hearsay.sim.array.world.layout import (
    ANNOUNCE,
    CONTACTS_DUE,
    EPISUB,
    EXPIRE_DUE,
    FIXED_OVERLAY,
    FLUSH_DUE,
    HAS_EPISUB,
    HAS_OVERLAY,
    MISSING_DUE,
    OVERLAY,
    ROUTER_KIND,
    STARTS,
    SWEEP_DUE,
    TIMER,
    TOPICS,
    World,
    alarms,
    meetings,
    nodes32,
    overlays,
    pool,
)
from hearsay.sim.array.world.lists import FIRST, NEXT, SECOND, VALUE, entry_before, free_all
from hearsay.sim.array.world.queue import NODE, TOPIC_PART, insert, word_0
from hearsay.sim.array.world.slots import parameter

with_overlay = only_with(HAS_OVERLAY)
NEVER = -1
_TIME = TOPIC_PART - 1
"""A mask: the lowest bits of the time for which the timer is set are the payload of the timer's event. They
distinguish the events of a node's timer."""
_LIFE = 255
PEER, DUE, CONTENT = FIRST, SECOND, VALUE
NONE = -1


@inlined
def has_trees(w: World, node: int) -> bool:
    """Return whether the router of a node is episub."""
    return w[HAS_EPISUB] != 0 and parameter(w, node, ROUTER_KIND) == EPISUB


@inlined
def has_overlay(w: World, node: int) -> bool:
    """Return whether the router of a node is episub and chooses its neighbours itself."""
    return w[HAS_OVERLAY] != 0 and has_trees(w, node) and parameter(w, node, OVERLAY) != FIXED_OVERLAY


@inlined
def life(w: World, node: int) -> int:
    """Return the number of the node's present life, modulo 256. A life begins with a start of the node. Some events
    have the number in word 0."""
    return nodes32(w)[node, STARTS] & _LIFE


@inlined
def is_of_this_life(w: World, node: int, w0: int) -> bool:
    """Return whether an event was queued in the node's present life. `w0` is the event's word 0 (`queue.py`)."""
    return w0 & _LIFE == life(w, node)


@with_episub
def clear_alarms(w: World, node: int) -> None:
    for alarm in (TIMER, ANNOUNCE, FLUSH_DUE, MISSING_DUE):
        alarms(w)[node, alarm] = NEVER


@inlined
def earlier(one: int, other: int) -> int:
    """Return the earlier of two times of alarms; NEVER if neither alarm is set."""
    return other if one == NEVER or (other != NEVER and other < one) else one


@with_episub
def set_timer(w: World, th: int, now: int, node: int) -> None:
    """Set the timer to the earliest alarm, at the end of a call. If this changes the timer, queue an event for it."""
    line = alarms(w)[node]
    due = int(line[ANNOUNCE])
    for alarm in (FLUSH_DUE, MISSING_DUE):
        due = earlier(due, line[alarm])
    if has_overlay(w, node):
        due = earlier(due, meetings(w)[node, SWEEP_DUE])
        for topic in range(w[TOPICS]):
            for alarm in range(EXPIRE_DUE, CONTACTS_DUE + 1):
                due = earlier(due, overlays(w)[node, topic, alarm])
    if due == line[TIMER]:
        return
    line[TIMER] = due
    if due != NEVER:
        rest = word_0(EventKind.TIMER_FIRED, -1, -1, life(w, node))
        insert(w, th, max(due, now), rest, node << NODE | due & _TIME, 0, 1)


@with_episub
def is_moved(w: World, node: int, w0: int, payload: int) -> bool:
    """Return whether to ignore an event of the timer: the timer was set to another time since, or the node was
    started again."""
    return payload != alarms(w)[node, TIMER] & _TIME or not is_of_this_life(w, node, w0)


# Tables.


@with_overlay
def place_of(w: World, node: int, topic: int, table: int, peer: int) -> int:
    """Return the index of a peer's entry in a table, -1 if there is none."""
    return lists.place_in(w, node, overlays(w)[node, topic, table], peer)


@with_overlay
def put(w: World, node: int, topic: int, table: int, peer: int, due: int, content: int) -> None:
    """Set the time and the content of a peer's entry in a table. If there is no entry, add one in front."""
    place = place_of(w, node, topic, table, peer)
    if place < 0:
        overlays(w)[node, topic, table] = entry_before(w, node, overlays(w)[node, topic, table], peer, due, content)
    else:
        pool(w)[lists.owner(w, node), place, DUE] = due
        pool(w)[lists.owner(w, node), place, CONTENT] = content


@with_overlay
def remove_entry(w: World, node: int, topic: int, table: int, peer: int) -> bool:
    """Remove a peer's entry from a table; return whether there was one."""
    place = place_of(w, node, topic, table, peer)
    if place < 0:
        return False
    overlays(w)[node, topic, table] = lists.without(w, node, overlays(w)[node, topic, table], place)
    return True


@with_overlay
def clear(w: World, node: int, topic: int, table: int) -> None:
    """Remove all entries of a table."""
    free_all(w, node, overlays(w)[node, topic, table])
    overlays(w)[node, topic, table] = NONE


@with_overlay
def first_overdue(w: World, now: int, node: int, topic: int, table: int) -> int:
    """Return the peer with the lowest number whose entry has a time up to `now`, -1 if there is none."""
    entries = pool(w)[lists.owner(w, node)]
    found = NONE
    place = overlays(w)[node, topic, table]
    while place >= 0:
        if 0 <= entries[place, DUE] <= now and (found < 0 or entries[place, PEER] < found):
            found = entries[place, PEER]
        place = entries[place, NEXT]
    return int(found)


@with_overlay
def earliest(w: World, node: int, topic: int, table: int, known: int) -> int:
    """Return the earliest of `known` and the times of the entries; -1 stands for no time."""
    entries = pool(w)[lists.owner(w, node)]
    place = overlays(w)[node, topic, table]
    while place >= 0:
        known = earlier(known, entries[place, DUE])
        place = entries[place, NEXT]
    return known
