"""Ratings of neighbours by the application (P5), and neighbours that share an address (P6)."""

from __future__ import annotations

import numpy as np

from hearsay.core.rules import score_parts as parts
from hearsay.sim.array.machine.compiling import only_with
from hearsay.sim.array.world.layout import (
    ADDRESS_THRESHOLD,
    ADDRESS_WEIGHT,
    APPLICATION_WEIGHT,
    BY,
    CONNECTED,
    HAS_ADDRESSES,
    HAS_RATINGS,
    RATED,
    RETAINS,
    World,
    address_names,
    flags,
    peers,
    rated,
    ratings,
    reals,
    retained,
)
from hearsay.sim.array.world.slots import end_slot, first_slot, router

with_ratings = only_with(HAS_RATINGS)
with_addresses = only_with(HAS_ADDRESSES)
_NONE = -1


@with_ratings
def _entry(w: World, node: int, peer: int) -> int:
    """Return the index in `ratings` of the last entry by which the node rates the peer, or `_NONE`."""
    for entry in range(ratings(w).shape[0] - 1, -1, -1):
        if rated(w)[entry, peer] & RATED and rated(w)[entry, node] & BY:
            return int(entry)
    return _NONE


@with_ratings
def is_rated(w: World, node: int, peer: int) -> bool:
    return _entry(w, node, peer) != _NONE


@with_ratings
def application_part(w: World, node: int, slot: int) -> float:
    """Return what the application's rating adds to a score (SCORE-7)."""
    entry = _entry(w, node, peers(w)[slot])
    return ratings(w)[entry] * reals(w)[router(w, node), APPLICATION_WEIGHT] if entry != _NONE else 0.0


@with_addresses
def address_part(w: World, node: int, slot: int) -> float:
    """Return what neighbours at the same address add to a score (SCORE-8, ADDRESS-2, ADDRESS-3)."""
    own = reals(w)[router(w, node)]
    if own[ADDRESS_WEIGHT] == 0.0:
        return 0.0
    names = address_names(w)[router(w, node)]
    beyond = 0.0
    for place in range(2):
        name = names[peers(w)[slot], place]
        if name == _NONE:
            continue
        count = 0
        for other in range(first_slot(w, node), end_slot(w, node)):
            other_names = names[peers(w)[other]]
            if _is_counted(w, other) and (other_names[0] == name or other_names[1] == name):
                count += 1
        beyond += parts.excess_square(np.float64(count), own[ADDRESS_THRESHOLD])
    return beyond * own[ADDRESS_WEIGHT]


@with_addresses
def _is_counted(w: World, slot: int) -> bool:
    return flags(w)[slot, 0] & CONNECTED != 0 or (w[RETAINS] != 0 and retained(w)[slot] != 0)
