"""Dials that routers request, until they arrive (`sim.reference.connections.Connections.dial_for_router`).

A dial arrives at its target after the latency between the two nodes. Then `run/dispatch.py` connects the nodes or
lets the dial fail.

Layout: a thread stores the new dials of its nodes in the first DIALS of its lines of `dials`. Between two parts of a
bucket, these dials move to `arrivals`, a heap of ARRIVALS lines, which begins with the next dial to arrive. The
fields of a line are: the time at which the dial arrives, the node that dials, the number of the dial (DIALS_MADE
counts dials), the target of the dial, the time at which the node dialled, and STARTS of the node at that time (LIFE).
"""

from __future__ import annotations

from typing import Any

from hearsay.core.language.events import EventKind
from hearsay.sim.array.compiling import kernel, only_with
from hearsay.sim.array.world.layout import (
    ARRIVALS,
    DIALLING,
    DIALS,
    DIALS_MADE,
    HAS_DIALS,
    QUEUE_FULL,
    STARTS,
    STATUS,
    THREADS,
    World,
    arrivals,
    control,
    dials,
    more32,
    nodes32,
)
from hearsay.sim.array.world.queue import push, swap
from hearsay.sim.array.world.slots import latency
from hearsay.sim.reference.connections import MAX_DIALS

ARRIVES, DIALLER, _NUMBER, TARGET, DIALLED, LIFE = range(6)
BY_ROUTER = 1 << 32
"""A bit in the payload of PEER_CONNECTED: the connection answers a dial of the node's router. The bits below are LIFE
of the dial."""
_NEVER = 1 << 62

with_dials = only_with(HAS_DIALS)


@with_dials
def dial_for_router(w: World, th: int, now: int, node: int, target: int) -> None:
    """Dial a target for the router of a node. If MAX_DIALS dials of the node are unanswered, the dial fails at
    once."""
    life = nodes32(w)[node, STARTS]
    if more32(w)[node, DIALLING] >= MAX_DIALS:
        push(w, th, now, node, EventKind.DIAL_FAILED, target, life, 0)
        return
    place = control(w)[th, DIALS]
    if place == dials(w).shape[1]:
        w[STATUS] = QUEUE_FULL
        return
    control(w)[th, DIALS] = place + 1
    more32(w)[node, DIALLING] += 1
    line = dials(w)[th, place]
    line[ARRIVES] = now + latency(w, node, target)
    line[DIALLER] = node
    line[TARGET] = target
    line[DIALLED] = now
    line[LIFE] = life


@kernel
def next_arrival(w: World) -> int:
    """Return the time at which the next dial arrives; a time after the end of every run if there is none."""
    return arrivals(w)[0, ARRIVES] if w[HAS_DIALS] and w[ARRIVALS] else _NEVER


@with_dials
def collect_dials(w: World) -> None:
    """Move new dials from `dials` to the heap `arrivals`. Dials of a node that arrive at the same time keep the order
    in which they began."""
    heap = arrivals(w)
    for th in range(w[THREADS]):
        for made in range(control(w)[th, DIALS]):
            place = w[ARRIVALS]
            if place == heap.shape[0]:
                w[STATUS] = QUEUE_FULL
                return
            w[ARRIVALS] = place + 1
            for field in range(heap.shape[1]):
                heap[place, field] = dials(w)[th, made, field]
            heap[place, _NUMBER] = w[DIALS_MADE]
            w[DIALS_MADE] += 1
            while place > 0 and _is_earlier(heap, place, (place - 1) // 2):
                swap(heap, place, (place - 1) // 2)
                place = (place - 1) // 2
        control(w)[th, DIALS] = 0


@with_dials
def remove_arrival(w: World) -> None:
    """Remove the first dial from the heap `arrivals`. Its line is then the line at the index ARRIVALS, behind the
    heap."""
    heap = arrivals(w)
    size = w[ARRIVALS] - 1
    w[ARRIVALS] = size
    swap(heap, 0, size)
    place = 0
    while 2 * place + 1 < size:
        child = 2 * place + 1
        if child + 1 < size and _is_earlier(heap, child + 1, child):
            child += 1
        if not _is_earlier(heap, child, place):
            return
        swap(heap, child, place)
        place = child


@kernel
def _is_earlier(heap: Any, a: int, b: int) -> bool:
    for field in range(_NUMBER):
        if heap[a, field] != heap[b, field]:
            return heap[a, field] < heap[b, field]
    return heap[a, _NUMBER] < heap[b, _NUMBER]
