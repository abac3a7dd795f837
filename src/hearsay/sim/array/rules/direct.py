"""Direct peers: known before the run, and dialled again after a disconnection (`core.mesh.standing`,
`core.mesh.gossipsub`).

Layout: `direct_targets` has the direct peers of each node, ascending; those of a node begin at its index in
`direct_starts`.
"""

from __future__ import annotations

from hearsay.sim.array.machine.compiling import inlined, only_with
from hearsay.sim.array.travel.dials import dial_for_router
from hearsay.sim.array.world.layout import (
    DIRECT_TICKS,
    HAS_DIRECT,
    SUBSCRIBED,
    World,
    candidates,
    direct_starts,
    direct_targets,
    flags,
    peers,
)
from hearsay.sim.array.world.slots import find_slot, is_connected, is_native, parameter

GRAFT_IS_PRUNED, GRAFT_IS_PENALISED, GRAFT_IS_IGNORED = range(3)
"""Values of DIRECT_GRAFT."""
with_direct = only_with(HAS_DIRECT)


@inlined
def is_direct(w: World, node: int, slot: int) -> bool:
    """Return whether a neighbour is a direct peer, to which scores do not apply (STANDING-1)."""
    return w[HAS_DIRECT] != 0 and _is_direct(w, node, slot)


@with_direct
def _is_direct(w: World, node: int, slot: int) -> bool:
    for place in range(direct_starts(w)[node], direct_starts(w)[node + 1]):
        if direct_targets(w)[place] == peers(w)[slot]:
            return True
    return False


@with_direct
def dial_direct(w: World, th: int, now: int, node: int, tick: int) -> None:
    """Dial the direct peers that are not connected, every few heartbeats (JUDGE-5)."""
    every = parameter(w, node, DIRECT_TICKS)
    if not every or tick % every != 1 % every:
        return
    for place in range(direct_starts(w)[node], direct_starts(w)[node + 1]):
        if not is_connected(w, node, direct_targets(w)[place]):
            dial_for_router(w, th, now, node, direct_targets(w)[place])


@with_direct
def direct_subscribers(w: World, th: int, node: int, topic: int) -> int:
    """Collect the direct peers in a topic as candidates; return their number."""
    known = candidates(w)[th]
    size = 0
    for place in range(direct_starts(w)[node], direct_starts(w)[node + 1]):
        slot = find_slot(w, node, direct_targets(w)[place])
        if slot >= 0 and flags(w)[slot, topic] & SUBSCRIBED and is_native(w, slot):
            known[size] = slot
            size += 1
    return size
