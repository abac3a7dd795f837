"""Which router a node runs, with which parameters, and for which topics."""

from __future__ import annotations

from hearsay.sim.array.machine.compiling import inlined
from hearsay.sim.array.world.layout import JOINED, ROUTER, ROUTERS, World, members, nodes32, parameters


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
