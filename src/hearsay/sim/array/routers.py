"""Which router a node runs, and with which parameters."""

from __future__ import annotations

from hearsay.sim.array.compiling import inlined
from hearsay.sim.array.layout import ROUTER, ROUTERS, World, nodes32, parameters


@inlined
def router(w: World, node: int) -> int:
    """Which of the scenario's routers a node runs."""
    return nodes32(w)[node, ROUTER] if w[ROUTERS] > 1 else 0


@inlined
def parameter(w: World, node: int, field: int) -> int:
    return parameters(w)[router(w, node), field]
