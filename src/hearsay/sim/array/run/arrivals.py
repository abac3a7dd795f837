"""Dials of routers that arrive, and are accepted or refused (`sim.reference.connections.Connections`)."""

from __future__ import annotations

from hearsay.core.language.events import EventKind
from hearsay.sim.array.run.faults import reachable
from hearsay.sim.array.run.links import connect_pair, record_connect
from hearsay.sim.array.travel.dials import (
    ARRIVES,
    BY_ROUTER,
    DIALLED,
    DIALLER,
    LIFE,
    TARGET,
    remove_arrival,
    with_dials,
)
from hearsay.sim.array.world.layout import (
    ARRIVALS,
    DEAD,
    DETECTION,
    DIALLING,
    HAS_NATTED,
    LAST_ARRIVAL,
    LINK_FLAGS,
    STARTS,
    TWIN,
    UP,
    World,
    arrivals,
    links32,
    links64,
    links_of,
    more32,
    natted,
    nodes32,
)
from hearsay.sim.array.world.lists import owner
from hearsay.sim.array.world.queue import push
from hearsay.sim.array.world.slots import find_slot


@with_dials
def dial_arrives(w: World) -> None:
    """Remove the first dial from the heap and answer it, unless its node was stopped or restarted since."""
    remove_arrival(w)
    line = arrivals(w)[w[ARRIVALS]]
    node = line[DIALLER]
    more32(w)[node, DIALLING] -= 1
    if nodes32(w)[node, UP] and nodes32(w)[node, STARTS] == line[LIFE]:
        _accept(w, line[ARRIVES], node, line[TARGET], line[DIALLED], line[LIFE])


@with_dials
def _accept(w: World, now: int, node: int, target: int, dialled: int, life: int) -> None:
    """Accept or refuse a dial. The answer takes as long as the dial did."""
    th = owner(w, node)
    delay = now - dialled
    answered = now + delay
    natted_target = w[HAS_NATTED] and natted(w)[target]
    if not nodes32(w)[target, UP] or natted_target or not reachable(w, node, target):
        push(w, th, max(answered, dialled + w[DETECTION]), node, EventKind.DIAL_FAILED, target, life, 0)
        return
    slot = find_slot(w, node, target)
    link = links_of(w)[slot] if slot >= 0 else -1
    if link < 0 or links32(w)[link, LINK_FLAGS] & DEAD:
        link = connect_pair(w, node, target, link)
    twin = links32(w)[link, TWIN]
    record_connect(w, th, dialled, node, target, delay)
    links64(w)[link, LAST_ARRIVAL] = max(links64(w)[link, LAST_ARRIVAL], now)
    links64(w)[twin, LAST_ARRIVAL] = max(links64(w)[twin, LAST_ARRIVAL], answered)
    push(w, owner(w, target), now, target, EventKind.PEER_CONNECTED, node, 0, twin)
    push(w, th, answered, node, EventKind.PEER_CONNECTED, target, BY_ROUTER | life, link)
