"""Columns for messages: how memory stays bounded by the network and not by the length of the run.

Message m has column m modulo the number of columns, so only as many messages are known at a time, from FIRST_MESSAGE
to NEWEST. A message is dead when its window is over and no node remembers, caches or validates it. Copies and gossip
may still be under way then, so DEAD_UP_TO is only noted; once all that was sent before has arrived (DEAD_SURE) and
nothing has come back to life, FIRST_MESSAGE moves up. When there is no column for a new message, Python makes more.

With a service time events wait at nodes for as long as it takes, so nothing is recycled then (RECYCLES).
"""

from __future__ import annotations

import numpy as np

from hearsay.sim.array.machine.compiling import kernel
from hearsay.sim.array.world.knowledge import bits, column, is_cached, unmark, was_seen
from hearsay.sim.array.world.layout import (
    ASKED,
    CLOSED_UP_TO,
    COLUMNS,
    DEAD_SURE,
    DEAD_UP_TO,
    FIRST_MESSAGE,
    LOOKED,
    MESSAGES,
    NEWEST,
    NODES,
    NOW,
    PUBLISHED,
    RECYCLES,
    STATUS,
    THREADS,
    World,
    cells,
    counts,
    messages,
)
from hearsay.sim.array.world.record import LAST_ARRIVAL_SENT
from hearsay.sim.array.world.status import NEEDS_COLUMNS

_LOOK_EVERY = 500_000


@kernel
def admit(w: World, end: int) -> bool:
    """Give columns to the messages that are published before `end`; False when there are not enough."""
    while w[NEWEST] < w[MESSAGES] and messages(w)[w[NEWEST], PUBLISHED] < end:
        if w[RECYCLES] and 2 * (w[NEWEST] - w[FIRST_MESSAGE]) >= w[COLUMNS] and w[NOW] >= w[LOOKED] + _LOOK_EVERY:
            _recycle(w)
        if w[NEWEST] - w[FIRST_MESSAGE] >= w[COLUMNS]:
            w[STATUS] = NEEDS_COLUMNS
            return False
        if w[NEWEST] >= w[COLUMNS]:
            at = column(w, w[NEWEST])
            for node in range(w[NODES]):
                cells(w)[node, at] = np.uint64(0)
                unmark(w, node, at)
        w[NEWEST] += 1
    return True


@kernel
def _recycle(w: World) -> None:
    w[LOOKED] = w[NOW]
    if w[NOW] > w[DEAD_SURE]:
        while w[FIRST_MESSAGE] < w[DEAD_UP_TO] and _is_dead(w, w[FIRST_MESSAGE]):
            w[FIRST_MESSAGE] += 1
        dead = w[FIRST_MESSAGE]
        while dead < w[NEWEST] and _is_dead(w, dead):
            dead += 1
        w[DEAD_UP_TO] = dead
        w[DEAD_SURE] = 0
        for th in range(w[THREADS]):
            w[DEAD_SURE] = max(w[DEAD_SURE], counts(w)[th, LAST_ARRIVAL_SENT])


@kernel
def _is_dead(w: World, message: int) -> bool:
    if message >= w[CLOSED_UP_TO]:
        return False
    at = column(w, message)
    for node in range(w[NODES]):
        if bits(cells(w)[node, at], ASKED) or is_cached(w, node, at) or was_seen(w, w[NOW], node, message):
            return False
    return True
