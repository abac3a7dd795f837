"""Peers that rules treat specially: direct peers, peers that applications rate, and peers at one address.

Direct peers: the router's parameters name them (`core.mesh.standing`, `core.mesh.gossipsub`). Routers dial direct
peers that are not connected. Layout: `direct_targets` has the direct peers of one node after the other, in ascending
order for each node. The direct peers of a node begin at the place `direct_starts[node]`.

Two terms of scores: the application's ratings of neighbours (P5), and neighbours that share an address (P6).

Places: kernels of `core.mesh.graft_bounds.Spread` limit the peers of one address in a mesh or fan-out. An address has
PLACES places in a mesh or fan-out. A random order of the peers at an address decides which of them have these places,
which are places "of their own". All other peers at the address have "lent" places. Arguments of these kernels:
`state` is the draw of the random order. `size` is the number of candidates. `group` is a bit of `flags`: peers with
this bit already occupy places. It is 0 if no peers do.
"""

from __future__ import annotations

import numpy as np

from hearsay.core.rules import score_parts as parts
from hearsay.sim.array.compiling import inlined, kernel, only_with
from hearsay.sim.array.travel.dials import dial_for_router
from hearsay.sim.array.world.draws import extend, shuffle
from hearsay.sim.array.world.layout import (
    ADDRESS_THRESHOLD,
    ADDRESS_WEIGHT,
    APPLICATION_WEIGHT,
    BY,
    CONNECTED,
    DIRECT_TICKS,
    HAS_ADDRESSES,
    HAS_DIRECT,
    HAS_PLACES,
    HAS_RATINGS,
    IN_MESH,
    PLACES,
    RATED,
    RETAINS,
    SUBSCRIBED,
    Word,
    World,
    address_names,
    addresses,
    candidates,
    direct_starts,
    direct_targets,
    flags,
    peers,
    rated,
    ratings,
    reals,
    retained,
)
from hearsay.sim.array.world.slots import end_slot, find_slot, first_slot, is_connected, is_native, parameter, router

GRAFT_IS_PRUNED, GRAFT_IS_PENALISED, GRAFT_IS_IGNORED = range(3)
"""Values of DIRECT_GRAFT: the answer to a GRAFT of a direct peer."""
with_direct = only_with(HAS_DIRECT)
with_ratings = only_with(HAS_RATINGS)
with_addresses = only_with(HAS_ADDRESSES)
with_places = only_with(HAS_PLACES)


# Direct peers.


@with_direct
def is_direct(w: World, node: int, slot: int) -> bool:
    """Return whether a neighbour is a direct peer, to which scores do not apply (STANDING-1)."""
    if w[HAS_DIRECT]:
        for place in range(direct_starts(w)[node], direct_starts(w)[node + 1]):
            if direct_targets(w)[place] == peers(w)[slot]:
                return True
    return False


@with_direct
def dial_direct(w: World, th: int, now: int, node: int, tick: int) -> None:
    """Dial the direct peers that are not connected, at the first of every DIRECT_TICKS heartbeats (JUDGE-5)."""
    every = parameter(w, node, DIRECT_TICKS)
    if not every or tick % every != 1 % every:
        return
    for place in range(direct_starts(w)[node], direct_starts(w)[node + 1]):
        if not is_connected(w, node, direct_targets(w)[place]):
            dial_for_router(w, th, now, node, direct_targets(w)[place])


@with_direct
def direct_subscribers(w: World, th: int, node: int, topic: int) -> int:
    """Collect the native direct peers that are subscribed to a topic as candidates; return their number."""
    known = candidates(w)[th]
    size = 0
    for place in range(direct_starts(w)[node], direct_starts(w)[node + 1]):
        slot = find_slot(w, node, direct_targets(w)[place])
        if slot >= 0 and flags(w)[slot, topic] & SUBSCRIBED and is_native(w, slot):
            known[size] = slot
            size += 1
    return size


# Terms of scores.


@with_ratings
def rating_of(w: World, node: int, peer: int) -> int:
    """Return the index in `ratings` of the last entry by which a node rates a peer, -1 if there is none."""
    for entry in range(ratings(w).shape[0] - 1, -1, -1):
        if rated(w)[entry, peer] & RATED and rated(w)[entry, node] & BY:
            return int(entry)
    return -1


@with_ratings
def application_part(w: World, node: int, slot: int) -> float:
    """Return P5 times its weight (SCORE-7); 0 if the application does not rate the neighbour."""
    entry = rating_of(w, node, peers(w)[slot])
    return ratings(w)[entry] * reals(w)[router(w, node), APPLICATION_WEIGHT] if entry >= 0 else 0.0


@with_addresses
def address_part(w: World, node: int, slot: int) -> float:
    """Return P6 times its weight (SCORE-8, ADDRESS-2, ADDRESS-3)."""
    own = reals(w)[router(w, node)]
    if own[ADDRESS_WEIGHT] == 0.0:
        return 0.0
    names = address_names(w)[router(w, node)]
    beyond = 0.0
    for place in range(2):
        name = names[peers(w)[slot], place]
        if name < 0:
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


# Places.


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
    """Return whether a candidate has a lent place, because others occupy all places of its address (PLACES-1)."""
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
    """Move the candidates with lent places to the end; return the number of candidates with places of their own."""
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
    """Choose random candidates: up to `own` with places of their own, then with lent places up to `total` in all.

    Move the chosen candidates to the front, and return their number.
    """
    known = candidates(w)[th]
    shuffle(w, th, state, 0, size)
    end = lent_last(w, th, node, topic, state, size, group)
    chosen = min(max(own, 0), end)
    for place in range(end, min(size, end + total - chosen)):
        known[chosen] = known[place]
        chosen += 1
    return chosen


@with_places
def lent_places(w: World, th: int, node: int, topic: int) -> int:
    """Return the number of members of a mesh with lent places (SIZE-2)."""
    if not places(w, node):
        return 0
    size = collect_members(w, th, node, topic)
    return size - lent_last(w, th, node, topic, np.uint64(0), size, 0)


@with_places
def divide_members(w: World, th: int, node: int, topic: int, state: Word) -> int:
    """Collect the members of a mesh as candidates in random order, those with lent places last.

    Return the number of members with places of their own.
    """
    size = collect_members(w, th, node, topic)
    shuffle(w, th, state, 0, size)
    return lent_last(w, th, node, topic, state, size, 0)


@with_places
def has_place(w: World, node: int, slot: int, topic: int) -> bool:
    """Return whether a peer that is not a member would have a place of its own (PLACES-2)."""
    return _taken(w, node, topic, addresses(w)[peers(w)[slot]], IN_MESH) < parameter(w, node, PLACES)
