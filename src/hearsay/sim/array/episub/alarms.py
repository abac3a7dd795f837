"""The timer of a router of episub: the first of its alarms and of the shell's (`core.episub.agenda`).

An alarm of the node serves all its trees. The queue keeps timers that were moved; they are ignored when they come.
"""

from __future__ import annotations

from hearsay.core.language.events import EventKind
from hearsay.sim.array.machine.compiling import inlined, only_with
from hearsay.sim.array.world.layout import (
    ANNOUNCE,
    EPISUB,
    FLUSH_DUE,
    HAS_EPISUB,
    MISSING_DUE,
    ROUTER_KIND,
    STARTS,
    TIMER,
    World,
    alarms,
    nodes32,
)
from hearsay.sim.array.world.queue import NODE, TOPIC_PART, insert, word_0
from hearsay.sim.array.world.slots import parameter

with_episub = only_with(HAS_EPISUB)
NEVER = -1
_TIME = TOPIC_PART - 1
"""The bits of a time that tell two timers of a node apart."""
_LIFE = 255


@inlined
def has_trees(w: World, node: int) -> bool:
    """Return whether a node runs episub."""
    return w[HAS_EPISUB] != 0 and parameter(w, node, ROUTER_KIND) == EPISUB


@with_episub
def clear_alarms(w: World, node: int) -> None:
    for alarm in (TIMER, ANNOUNCE, FLUSH_DUE, MISSING_DUE):
        alarms(w)[node, alarm] = NEVER


@with_episub
def set_timer(w: World, th: int, now: int, node: int) -> None:
    """Set the timer to the first alarm, at the end of a call."""
    line = alarms(w)[node]
    due = NEVER
    for alarm in (ANNOUNCE, FLUSH_DUE, MISSING_DUE):
        if line[alarm] != NEVER and (due == NEVER or line[alarm] < due):
            due = line[alarm]
    if due == line[TIMER]:
        return
    line[TIMER] = due
    if due != NEVER:
        rest = word_0(EventKind.TIMER_FIRED, -1, -1, nodes32(w)[node, STARTS] & _LIFE)
        insert(w, th, max(due, now), rest, node << NODE | due & _TIME, 0, 1)


@with_episub
def is_moved(w: World, node: int, w0: int, payload: int) -> bool:
    """Return whether a timer was moved, or belongs to an earlier life of the node."""
    return payload != alarms(w)[node, TIMER] & _TIME or w0 & _LIFE != nodes32(w)[node, STARTS] & _LIFE
