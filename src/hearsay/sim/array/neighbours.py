"""Who is connected to whom at the start, where links need no memory of their own.

A node's slots are to ascend. Going through the dials in the order of who dials gives every node those who dial it, in
ascending order; going through those gives every node whom it dials, in ascending order too. Then the two are merged.
"""

from __future__ import annotations

from hearsay.sim.array.compiling import kernel
from hearsay.sim.array.layout import (
    COUNT,
    DIALLED,
    FIRST_SLOT,
    HAS_NATTED,
    NODES,
    TICK,
    World,
    candidates,
    dial_starts,
    dial_targets,
    flags,
    natted,
    nodes32,
    peers,
)


@kernel
def lay_out_neighbours(w: World) -> None:
    """Slots are counted, and have room for both ends of every dial. TICK, which has not begun, counts callers."""
    headers = nodes32(w)
    table = peers(w)
    for node in range(w[NODES]):
        for place in range(dial_starts(w)[node], dial_starts(w)[node + 1]):
            target = dial_targets(w)[place]
            if not (w[HAS_NATTED] and natted(w)[target]):
                header = headers[target]
                table[header[FIRST_SLOT] + header[COUNT]] = node
                header[COUNT] += 1
    for node in range(w[NODES]):
        headers[node, TICK] = headers[node, COUNT]
    for node in range(w[NODES]):
        first = headers[node, FIRST_SLOT]
        for place in range(first, first + headers[node, TICK]):
            header = headers[table[place]]
            table[header[FIRST_SLOT] + header[COUNT]] = node
            header[COUNT] += 1
    for node in range(w[NODES]):
        header = headers[node]
        header[COUNT] = _merge(w, header[FIRST_SLOT], header[TICK], header[COUNT])
        header[TICK] = 0


@kernel
def _merge(w: World, first: int, callers: int, count: int) -> int:
    """The first `callers` of `count` slots ascend, and so do those it dials; returns how many differ."""
    table = peers(w)
    both = candidates(w)[0]
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
