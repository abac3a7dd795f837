"""The places of addresses in meshes and fan-outs, the kernels of `core.mesh.graft_bounds.Spread`.

An address has PLACES places in a mesh or fan-out. A random order of the peers at an address decides which of them
have these places, places "of their own"; further peers at the address have "lent" places. Parameters: `state` is the
draw of the random order; `size` is the number of candidates; `group` is the bit of `flags` of peers that have places
already, 0 for none.
"""

from __future__ import annotations

import numpy as np

from hearsay.sim.array.machine.compiling import inlined, kernel, only_with
from hearsay.sim.array.world.draws import extend, shuffle
from hearsay.sim.array.world.layout import (
    HAS_PLACES,
    IN_MESH,
    PLACES,
    Word,
    World,
    addresses,
    candidates,
    flags,
    peers,
)
from hearsay.sim.array.world.slots import end_slot, first_slot, parameter

with_places = only_with(HAS_PLACES)
_NO_DRAW = np.uint64(0)


@inlined
def places(w: World, node: int) -> int:
    """Return the number of places that an address has, 0 for no limit."""
    return parameter(w, node, PLACES) if w[HAS_PLACES] else 0


@kernel
def collect_members(w: World, th: int, node: int, topic: int) -> int:
    """Collect the members of a mesh as candidates, ascending; return their number."""
    known = candidates(w)[th]
    size = 0
    for slot in range(first_slot(w, node), end_slot(w, node)):
        if flags(w)[slot, topic] & IN_MESH:
            known[size] = slot
            size += 1
    return size


@with_places
def _taken(w: World, node: int, topic: int, address: int, group: int) -> int:
    """Return the number of peers at an address that have the bit `group` of `flags`."""
    count = 0
    for slot in range(first_slot(w, node), end_slot(w, node)):
        count += int(flags(w)[slot, topic] & group != 0 and addresses(w)[peers(w)[slot]] == address)
    return count


@with_places
def _is_lent(w: World, th: int, node: int, topic: int, state: Word, slot: int, size: int, group: int) -> bool:
    """Return whether a candidate has a lent place, because others take all places of its address (PLACES-1)."""
    peer = peers(w)[slot]
    address = addresses(w)[peer]
    before = _taken(w, node, topic, address, group)
    key = extend(state, np.uint64(peer))
    for place in range(size):
        other = peers(w)[candidates(w)[th, place]]
        if addresses(w)[other] == address:
            others_key = extend(state, np.uint64(other))
            before += int(others_key < key or (others_key == key and other < peer))
    return before >= parameter(w, node, PLACES)


@with_places
def lent_last(w: World, th: int, node: int, topic: int, state: Word, size: int, group: int) -> int:
    """Move the candidates with lent places behind those with places of their own; return the number of the latter."""
    known = candidates(w)[th]
    own = 0
    for place in range(size):
        slot = known[place]
        if not _is_lent(w, th, node, topic, state, slot, size, group):
            for at in range(place, own, -1):
                known[at] = known[at - 1]
            known[own] = slot
            own += 1
    return own


@with_places
def choose(w: World, th: int, node: int, topic: int, state: Word, size: int, own: int, total: int, group: int) -> int:
    """Choose up to `own` candidates with places of their own, then others with lent places up to `total`.

    They become the first candidates; return their number.
    """
    known = candidates(w)[th]
    shuffle(w, th, state, 0, size)
    end = lent_last(w, th, node, topic, state, size, group)
    chosen = min(max(own, 0), end)
    for place in range(end, min(size, end + total - chosen)):
        known[chosen] = known[place]
        chosen += 1
    return chosen


@kernel
def lent_places(w: World, th: int, node: int, topic: int) -> int:
    """Return the number of lent places in a mesh (SIZE-2)."""
    return _lent_places(w, th, node, topic) if places(w, node) else 0


@with_places
def _lent_places(w: World, th: int, node: int, topic: int) -> int:
    size = collect_members(w, th, node, topic)
    return size - lent_last(w, th, node, topic, _NO_DRAW, size, 0)


@with_places
def divide_members(w: World, th: int, node: int, topic: int, state: Word) -> int:
    """Collect the members of a mesh as candidates, those with lent places last.

    Return the number of members with places of their own.
    """
    size = collect_members(w, th, node, topic)
    shuffle(w, th, state, 0, size)
    return lent_last(w, th, node, topic, state, size, 0)


@with_places
def has_place(w: World, node: int, slot: int, topic: int) -> bool:
    """Return whether a peer that is not a member would have a place of its own (PLACES-2)."""
    return _taken(w, node, topic, addresses(w)[peers(w)[slot]], IN_MESH) < parameter(w, node, PLACES)
