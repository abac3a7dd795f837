"""The neighbours of nodes at the start, and the routers of nodes."""

from __future__ import annotations

from hearsay.sim.array.machine.compiling import inlined, kernel
from hearsay.sim.array.machine.sorting import sort_numbers
from hearsay.sim.array.world.layout import (
    COUNT,
    DIALLED,
    FIRST_SLOT,
    HAS_NATTED,
    JOINED,
    NODE32,
    NODES,
    ROUTER,
    ROUTERS,
    World,
    candidates,
    dial_starts,
    dial_targets,
    flags,
    members,
    natted,
    nodes32,
    parameters,
    peers,
    touch_nodes32,
    touch_peers,
)


@inlined
def router(w: World, node: int) -> int:
    """Which of the scenario's routers a node runs."""
    return nodes32(w)[node, ROUTER] if w[ROUTERS] > 1 else 0


@inlined
def parameter(w: World, node: int, field: int) -> int:
    return parameters(w)[router(w, node), field]


@inlined
def is_in(w: World, node: int, topic: int) -> bool:
    """Whether the router has joined a topic, and so has a mesh for it if it has meshes at all."""
    return members(w)[node, topic] & JOINED != 0


_AHEAD = 16


@kernel
def lay_out_callers(w: World) -> None:
    """Slots for those who dial a node; there is room for both ends of every dial."""
    headers = nodes32(w)
    table = peers(w)
    targets = dial_targets(w)
    last = targets.shape[0] - 1
    for node in range(w[NODES]):
        for place in range(dial_starts(w)[node], dial_starts(w)[node + 1]):
            touch_nodes32(w, targets[min(place + 2 * _AHEAD, last)] * NODE32)
            soon = headers[targets[min(place + _AHEAD, last)]]
            touch_peers(w, soon[FIRST_SLOT] + soon[COUNT])
            target = targets[place]
            if not (w[HAS_NATTED] and natted(w)[target]):
                header = headers[target]
                table[header[FIRST_SLOT] + header[COUNT]] = node
                header[COUNT] += 1


@kernel
def lay_out_targets(w: World, th: int, node: int) -> None:
    """And for those it dials."""
    header = nodes32(w)[node]
    first = header[FIRST_SLOT]
    callers = header[COUNT]
    table = peers(w)
    end = first + callers
    for place in range(dial_starts(w)[node], dial_starts(w)[node + 1]):
        target = dial_targets(w)[place]
        if not (w[HAS_NATTED] and natted(w)[target]):
            table[end] = target
            end += 1
    sort_numbers(table, first + callers, end)
    header[COUNT] = _merge(w, th, first, callers, end - first)


@kernel
def _merge(w: World, th: int, first: int, callers: int, count: int) -> int:
    """The first `callers` of `count` slots ascend, and so do those it dials; returns how many differ."""
    table = peers(w)
    both = candidates(w)[th]
    for place in range(count):
        both[place] = table[first + place]
    left = 0
    right = callers
    kept = 0
    while left < callers or right < count:
        dialled = left == callers or (right < count and both[right] <= both[left])
        if dialled:
            peer = both[right]
            right += 1
            left += int(left < callers and both[left] == peer)
        else:
            peer = both[left]
            left += 1
        table[first + kept] = peer
        if dialled:
            flags(w)[first + kept, 0] = DIALLED
        kept += 1
    return kept
