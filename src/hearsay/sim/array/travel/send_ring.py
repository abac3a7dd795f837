"""Copies on their way into the queue, and those that need not go there.

A copy that will be a duplicate for sure, because its receiver has seen the message already, changes nothing: it is
counted here and does not travel. That is so for nearly all gossip and for two of five messages. To look into what the
receiver knows is a wait for memory, so copies stay here for a while after that memory was asked for.

Layout: `leaving` is a ring per thread, of lines of time, word 0 of the queue without its time, and word 1. When it is
full the older half leaves. All that goes over a connection goes through the ring, so that it stays in order.
"""

from __future__ import annotations

from hearsay.core.language.events import EventKind
from hearsay.sim.array.machine.compiling import inlined, kernel
from hearsay.sim.array.world.knowledge import column, surely_seen, word_of
from hearsay.sim.array.world.layout import (
    DEFERS,
    HEARD,
    LEAVING_FIRST,
    LEAVING_NEXT,
    THREADS,
    World,
    control,
    counts,
    leaving,
    touch_seen,
)
from hearsay.sim.array.world.queue import (
    GOSSIP,
    INLINE,
    MESSAGE,
    NODE,
    gossip_bits,
    gossip_payload,
    gossip_rest,
    insert,
    word_0,
)
from hearsay.sim.array.world.record import DUPLICATES, EVENTS

ROOM = 128
_TIME, _REST, _GOAL = range(3)


@inlined
def post(
    w: World, th: int, time: int, node: int, source: int, payload: int, link: int, via: int, hops: int
) -> None:  # fmt: skip
    """An RPC that arrives at a time."""
    rest = word_0(EventKind.RPC_RECEIVED, source, via, hops)
    if not w[DEFERS]:
        insert(w, th, time, rest, node << NODE | payload, link, 1)
        return
    line = control(w)[th]
    place = line[LEAVING_NEXT]
    entry = leaving(w)[th, place & (ROOM - 1)]
    entry[_TIME] = time
    entry[_REST] = rest
    entry[_GOAL] = node << NODE | payload
    touch_seen(w, word_of(w, node, column(w, payload & MESSAGE)))
    line[LEAVING_NEXT] = place + 1
    if place + 1 - line[LEAVING_FIRST] == ROOM:
        _depart(w, th, ROOM // 2)


@inlined
def post_gossip(w: World, th: int, time: int, node: int, source: int, link: int, first: int, others: int) -> None:
    """IHAVE for a message, and for those after it whose bits are set."""
    via, hops = gossip_rest(others)
    post(w, th, time, node, source, gossip_payload(first, others), link, via, hops)


@kernel
def all_depart(w: World) -> None:
    """What is left when a part is over."""
    for th in range(w[THREADS]):
        _depart(w, th, control(w)[th, LEAVING_NEXT] - control(w)[th, LEAVING_FIRST])


@kernel
def _depart(w: World, th: int, count: int) -> None:
    """There is no branch on whether a copy travels, which is chance."""
    line = control(w)[th]
    first = line[LEAVING_FIRST]
    line[LEAVING_FIRST] = first + count
    events = 0
    duplicates = 0
    for place in range(first, first + count):
        entry = leaving(w)[th, place & (ROOM - 1)]
        time = entry[_TIME]
        rest = entry[_REST]
        goal = entry[_GOAL]
        heard = 0
        if goal & w[HEARD]:
            others = gossip_bits(rest, goal) if goal & GOSSIP else 0
            heard = int(surely_seen(w, goal >> NODE, goal & MESSAGE, others, time))
            events += heard
            duplicates += heard & int(goal & INLINE != 0)
        insert(w, th, time, rest, goal, 0, 1 - heard)
    counts(w)[th, EVENTS] += events
    counts(w)[th, DUPLICATES] += duplicates
