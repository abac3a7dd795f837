"""Links that nothing refers to any more may be used again, so that memory does not grow with the length of a run.

A link is needed while it is a neighbour's, while something is under way on it, or while a needed link names it as its
twin or as the one before. When links run out, all that are needed are marked, and the others become a list.
"""

from __future__ import annotations

from hearsay.sim.array.machine.compiling import kernel
from hearsay.sim.array.rules.mesh import end_slot, first_slot
from hearsay.sim.array.world import lists
from hearsay.sim.array.world.layout import (
    BACKLOG,
    BUCKETS,
    FAR,
    LINK_SOURCE,
    LINKS_FREE,
    LINKS_SPARE,
    LINKS_USED,
    NODES,
    PREVIOUS,
    SERVICE,
    THREADS,
    TWIN,
    World,
    chunk_next,
    control,
    far,
    fills,
    heads,
    link_marks,
    links32,
    links_of,
    nodes32,
    pool,
    queued_links,
)
from hearsay.sim.array.world.queue import CHUNK, DIVISIONS


@kernel
def collect_links(w: World) -> None:
    marks = link_marks(w)
    for link in range(w[LINKS_USED]):
        marks[link] = 0
    _mark_neighbours(w)
    _mark_events(w)
    _mark_what_these_need(w)
    w[LINKS_FREE] = -1
    w[LINKS_SPARE] = 0
    for link in range(w[LINKS_USED]):
        if not marks[link]:
            links32(w)[link, LINK_SOURCE] = w[LINKS_FREE]
            w[LINKS_FREE] = link
            w[LINKS_SPARE] += 1


@kernel
def _mark_neighbours(w: World) -> None:
    for node in range(w[NODES]):
        for slot in range(first_slot(w, node), end_slot(w, node)):
            if links_of(w)[slot] >= 0:
                link_marks(w)[links_of(w)[slot]] = 1
        if w[SERVICE]:
            entries = pool(w)[lists.owner(w, node)]
            place = nodes32(w)[node, BACKLOG]
            while place >= 0:
                link_marks(w)[entries[place, lists.VALUE]] = 1
                place = entries[place, lists.NEXT]


@kernel
def _mark_events(w: World) -> None:
    """Events that have nothing to do with a link name the first one, which does no harm."""
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


@kernel
def _mark_what_these_need(w: World) -> None:
    marks = link_marks(w)
    found = True
    while found:
        found = False
        for link in range(w[LINKS_USED]):
            if marks[link]:
                line = links32(w)[link]
                if line[TWIN] >= 0 and not marks[line[TWIN]]:
                    marks[line[TWIN]] = 1
                    found = True
                if line[PREVIOUS] >= 0 and not marks[line[PREVIOUS]]:
                    marks[line[PREVIOUS]] = 1
                    found = True
