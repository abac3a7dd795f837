"""The timer of a router of episub. It is set to the first alarm of episub and of the shell (`core.episub.agenda`).

The alarms in `alarms` serve all trees of the node. If the timer is set to another time, its earlier event remains in
the queue, and is ignored when it is handled.
"""

from __future__ import annotations

from hearsay.core.language.events import EventKind
from hearsay.sim.array.machine.compiling import inlined, only_with
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
    PROBE_DUE,
    ROUTER_KIND,
    SHUFFLE_DUE,
    STABILISE_DUE,
    STARTS,
    SWEEP_DUE,
    TIMER,
    TOPICS,
    World,
    alarms,
    meetings,
    nodes32,
    overlays,
)
from hearsay.sim.array.world.queue import NODE, TOPIC_PART, insert, word_0
from hearsay.sim.array.world.slots import parameter

with_episub = only_with(HAS_EPISUB)
with_overlay = only_with(HAS_OVERLAY)
NEVER = -1
_TIME = TOPIC_PART - 1
"""The bits of a time in the payload of a timer's event; they distinguish two timers of a node."""
_LIFE = 255


@inlined
def has_trees(w: World, node: int) -> bool:
    """Return whether a node runs episub."""
    return w[HAS_EPISUB] != 0 and parameter(w, node, ROUTER_KIND) == EPISUB


@inlined
def has_overlay(w: World, node: int) -> bool:
    """Return whether the router of a node runs episub and chooses its neighbours itself."""
    return w[HAS_OVERLAY] != 0 and has_trees(w, node) and parameter(w, node, OVERLAY) != FIXED_OVERLAY


@with_episub
def clear_alarms(w: World, node: int) -> None:
    for alarm in (TIMER, ANNOUNCE, FLUSH_DUE, MISSING_DUE):
        alarms(w)[node, alarm] = NEVER


@inlined
def earlier(one: int, other: int) -> int:
    """Return the earlier of two alarms; NEVER if neither is set."""
    return other if one == NEVER or (other != NEVER and other < one) else one


@with_overlay
def _first_of_overlays(w: World, node: int, due: int) -> int:
    due = earlier(due, meetings(w)[node, SWEEP_DUE])
    for topic in range(w[TOPICS]):
        for alarm in (EXPIRE_DUE, STABILISE_DUE, SHUFFLE_DUE, PROBE_DUE, CONTACTS_DUE):
            due = earlier(due, overlays(w)[node, topic, alarm])
    return due


@with_episub
def set_timer(w: World, th: int, now: int, node: int) -> None:
    """Set the timer to the first alarm at the end of a call, and queue an event for it if its time changed."""
    line = alarms(w)[node]
    due = int(line[ANNOUNCE])
    for alarm in (FLUSH_DUE, MISSING_DUE):
        due = earlier(due, line[alarm])
    if has_overlay(w, node):
        due = _first_of_overlays(w, node, due)
    if due == line[TIMER]:
        return
    line[TIMER] = due
    if due != NEVER:
        rest = word_0(EventKind.TIMER_FIRED, -1, -1, nodes32(w)[node, STARTS] & _LIFE)
        insert(w, th, max(due, now), rest, node << NODE | due & _TIME, 0, 1)


@with_episub
def is_moved(w: World, node: int, w0: int, payload: int) -> bool:
    """Return whether an event of a timer is void: the timer was set again, or the node was started again."""
    return payload != alarms(w)[node, TIMER] & _TIME or w0 & _LIFE != nodes32(w)[node, STARTS] & _LIFE
