"""Reuse of messages' columns and of links, so that memory does not grow with the length of a run.

A message is dead if its window is over and all nodes have forgotten it. A column is free once its message is dead and
no copy of the message can be in flight. At the last search for dead messages, all messages before DEAD_UP_TO were
dead. Every RPC that was sent before that search arrives at the time DEAD_SURE or earlier. If none of these RPCs made
a node see a dead message again (`revived`), the column of the message is free after DEAD_SURE. LOOKED is the time of
the last call of `_recycle`, which searches again only after DEAD_SURE.
"""

from __future__ import annotations

import numpy as np

from hearsay.sim.array.compiling import kernel
from hearsay.sim.array.run.links import with_links
from hearsay.sim.array.travel.uplink import has_queue, mark_links
from hearsay.sim.array.world import lists
from hearsay.sim.array.world.knowledge import bits, column, is_cached, unmark, was_seen
from hearsay.sim.array.world.layout import (
    ASKED,
    BACKLOG,
    BUCKETS,
    CLOSED_UP_TO,
    COLUMNS,
    DEAD_SURE,
    DEAD_UP_TO,
    FAR,
    FIRST_MESSAGE,
    HAS_SCORES,
    HELD,
    LINK_SOURCE,
    LINKS_FREE,
    LINKS_SPARE,
    LINKS_USED,
    LOOKED,
    MESSAGES,
    MISSING,
    NEEDS_COLUMNS,
    NEWEST,
    NODES,
    NOW,
    PREVIOUS,
    PUBLISHED,
    QUEUED,
    RECORD,
    RECYCLES,
    SERVICE,
    STATUS,
    THREADS,
    TWIN,
    USES_12,
    World,
    cells,
    chunk_next,
    control,
    counts,
    far,
    fills,
    heads,
    link_marks,
    links32,
    links_of,
    messages,
    nodes32,
    pool,
    queued_links,
    records,
    revived,
    unwanted,
)
from hearsay.sim.array.world.queue import CHUNK, DIVISIONS
from hearsay.sim.array.world.record import LAST_ARRIVAL_SENT
from hearsay.sim.array.world.slots import end_slot, first_slot

_SEARCH_US = 500_000
"""The minimum time between two searches for dead messages, in microseconds."""
_ALIVE = ASKED | HELD | MISSING | QUEUED


@kernel
def admit(w: World, end: int) -> bool:
    """Give a cleared column to each message that is published before `end`. If there are too few columns, set STATUS
    to NEEDS_COLUMNS and return False."""
    while w[NEWEST] < w[MESSAGES] and messages(w)[w[NEWEST], PUBLISHED] < end:
        if w[RECYCLES] and 2 * (w[NEWEST] - w[FIRST_MESSAGE]) >= w[COLUMNS] and w[NOW] >= w[LOOKED] + _SEARCH_US:
            _recycle(w)
        if w[NEWEST] - w[FIRST_MESSAGE] >= w[COLUMNS]:
            w[STATUS] = NEEDS_COLUMNS
            return False
        if w[NEWEST] >= w[COLUMNS]:
            at = column(w, w[NEWEST])
            for node in range(w[NODES]):
                cells(w)[node, at] = np.uint64(0)
                unmark(w, node, at)
                if w[HAS_SCORES]:
                    records(w)[node, at, RECORD] = 0
                if w[USES_12]:
                    for part in range(unwanted(w).shape[2]):
                        unwanted(w)[node, at, part] = np.uint64(0)
        w[NEWEST] += 1
    return True


@kernel
def _recycle(w: World) -> None:
    """If the time DEAD_SURE is over, free the columns of messages that were dead at the last search and have not been
    seen again. Then search for dead messages again."""
    w[LOOKED] = w[NOW]
    if w[NOW] > w[DEAD_SURE]:
        first = w[FIRST_MESSAGE]
        while first < w[DEAD_UP_TO] and not revived(w)[column(w, first)] and _is_dead(w, first):
            first += 1
        w[FIRST_MESSAGE] = first
        dead = first
        while dead < w[NEWEST] and _is_dead(w, dead):
            revived(w)[column(w, dead)] = 0
            dead += 1
        w[DEAD_UP_TO] = dead
        w[DEAD_SURE] = 0
        for th in range(w[THREADS]):
            w[DEAD_SURE] = max(w[DEAD_SURE], counts(w)[th, LAST_ARRIVAL_SENT])


@kernel
def _is_dead(w: World, message: int) -> bool:
    """Return whether the window of a message is over, and all nodes have forgotten the message."""
    if message >= w[CLOSED_UP_TO]:
        return False
    at = column(w, message)
    for node in range(w[NODES]):
        if bits(cells(w)[node, at], _ALIVE) or is_cached(w, node, at) or was_seen(w, w[NOW], node, message):
            return False
    return True


@with_links
def collect_links(w: World) -> None:
    """Find the links that no slot, event, waiting RPC or other used link names, and chain them for use again."""
    marks = link_marks(w)
    for link in range(w[LINKS_USED]):
        marks[link] = 0
    _mark_neighbours(w)
    _mark_events(w)
    _mark_related_links(w)
    w[LINKS_FREE] = -1
    w[LINKS_SPARE] = 0
    for link in range(w[LINKS_USED]):
        if not marks[link]:
            links32(w)[link, LINK_SOURCE] = w[LINKS_FREE]
            w[LINKS_FREE] = link
            w[LINKS_SPARE] += 1


@with_links
def _mark_neighbours(w: World) -> None:
    for node in range(w[NODES]):
        for slot in range(first_slot(w, node), end_slot(w, node)):
            if links_of(w)[slot] >= 0:
                link_marks(w)[links_of(w)[slot]] = 1
        if has_queue(w, node):
            mark_links(w, node)
        if w[SERVICE]:
            entries = pool(w)[lists.owner(w, node)]
            place = nodes32(w)[node, BACKLOG]
            while place >= 0:
                link_marks(w)[entries[place, lists.VALUE]] = 1
                place = entries[place, lists.NEXT]


@with_links
def _mark_events(w: World) -> None:
    """Mark the links that events name. Events without a link have 0 and so mark the first link; that does no harm."""
    for th in range(w[THREADS]):
        for ring in range(w[BUCKETS] + DIVISIONS):
            chunk = heads(w)[th, ring]
            while chunk >= 0:
                last = chunk_next(w)[chunk] < 0
                for place in range(chunk * CHUNK, chunk * CHUNK + (fills(w)[th, ring] if last else CHUNK)):
                    link_marks(w)[queued_links(w)[place]] = 1
                chunk = chunk_next(w)[chunk]
        for place in range(control(w)[th, FAR]):
            link_marks(w)[far(w)[th, place, 3]] = 1


@with_links
def _mark_related_links(w: World) -> None:
    """For each marked link, mark the link in the other direction and the earlier link to the same peer, and repeat
    this for the newly marked links."""
    marks = link_marks(w)
    found = True
    while found:
        found = False
        for link in range(w[LINKS_USED]):
            if marks[link]:
                for field in (TWIN, PREVIOUS):
                    other = links32(w)[link, field]
                    if other >= 0 and not marks[other]:
                        marks[other] = 1
                        found = True
