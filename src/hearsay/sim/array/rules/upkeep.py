"""Upkeep of meshes at heartbeats: kernels of `core.mesh.meshsub.MeshUpkeep`."""

from __future__ import annotations

import numpy as np

from hearsay.core.mesh.mesh import EXPIRE_EVERY
from hearsay.core.rules.mesh_rules import is_too_large, is_too_small, mesh_change
from hearsay.core.rules.randomness import Purpose
from hearsay.core.rules.score_parts import (
    dialled_to_graft,
    dialled_to_keep,
    may_be_in_mesh,
    median,
    mesh_is_poor,
    opportunity_is_due,
)
from hearsay.sim.array.compiling import kernel, sort_numbers
from hearsay.sim.array.rules.exchange import WITHOUT_NAMES
from hearsay.sim.array.rules.mesh import (
    collect_candidates,
    dialled_members,
    graft,
    graft_random,
    is_dialled,
    may_graft,
    mesh_size,
    prune,
)
from hearsay.sim.array.rules.promises import with_11
from hearsay.sim.array.rules.scores import real, score
from hearsay.sim.array.rules.special_peers import collect_members, divide_members, lent_last, lent_places, places
from hearsay.sim.array.world import lists
from hearsay.sim.array.world.draws import draw_topic, extend, pick, shuffle
from hearsay.sim.array.world.layout import (
    BACKOFF_LASTS,
    BACKOFF_SLACK,
    BACKOFFS,
    DEGREE,
    DEGREE_LOW,
    DEGREE_OUT,
    DEGREE_SCORE,
    EXCHANGE_ALWAYS,
    GRAFTS_BEST,
    HAS_11,
    IN_MESH,
    MEDIAN,
    OPPORTUNITY_BELOW,
    OPPORTUNITY_CHOICE,
    OPPORTUNITY_PEERS,
    OPPORTUNITY_TICKS,
    PRUNE_FROM,
    REPAIR_TO,
    TOPICS,
    World,
    candidates,
    flags,
    marks,
    nodes32,
    ranks,
)
from hearsay.sim.array.world.slots import end_slot, first_slot, is_in, parameter

DRAWN_ABOVE, FIRST_ABOVE, FIRST_FROM = range(3)
"""Values of OPPORTUNITY_CHOICE: the peers that are grafted if the median score of a mesh is low. They are random
peers with scores above the median, the first such peers, or the first peers with scores from the median on."""


@kernel
def maintain_meshes(w: World, th: int, now: int, node: int, tick: int) -> None:
    """GRAFT and PRUNE in all meshes at a heartbeat (MESH-2, SIZE-1).

    Every EXPIRE_EVERY heartbeats, also remove backoffs that are over.
    """
    if nodes32(w)[node, BACKOFFS] >= 0 and tick % EXPIRE_EVERY == 0:
        slack = parameter(w, node, BACKOFF_SLACK) + parameter(w, node, BACKOFF_LASTS)
        lists.remove_up_to(w, node, BACKOFFS, now - slack)
    degree = parameter(w, node, DEGREE)
    low = parameter(w, node, DEGREE_LOW)
    prune_from = parameter(w, node, PRUNE_FROM)
    by_scores = parameter(w, node, HAS_11) != 0
    for topic in range(w[TOPICS]):
        if not is_in(w, node, topic):
            continue
        if by_scores:
            _maintain_by_scores(w, th, now, node, topic, tick)
            continue
        size = mesh_size(w, node, topic)
        grafts, prunes = mesh_change(size, size - lent_places(w, th, node, topic), low, degree, prune_from)
        if grafts:
            graft_random(w, th, now, node, topic, grafts, degree - size, Purpose.GRAFT, tick)
        if prunes:
            _prune_random(w, th, now, node, topic, prunes, tick)


@with_11
def graft_subscriber(w: World, th: int, now: int, node: int, slot: int, topic: int) -> None:
    """GRAFT a peer that subscribes to a topic, if it may be grafted and the mesh is below D_low (JUDGE-6)."""
    if not is_in(w, node, topic) or not is_too_small(mesh_size(w, node, topic), parameter(w, node, DEGREE_LOW)):
        return
    if not flags(w)[slot, topic] & IN_MESH and may_graft(w, th, now, node, slot, topic):
        graft(w, th, now, node, slot, topic)


@kernel
def _prune_random(w: World, th: int, now: int, node: int, topic: int, count: int, tick: int) -> None:
    """PRUNE `count` random members: first members with lent places, then other members (PLACES-2)."""
    state = draw_topic(w, Purpose.PRUNE, node, topic, tick)
    if places(w, node):
        own = divide_members(w, th, node, topic, state)
        lent = min(mesh_size(w, node, topic) - own, count)
        known = candidates(w)[th]
        for place in range(own, own + lent):
            prune(w, th, now, node, known[place], topic, tick)
        count -= lent
    size = collect_members(w, th, node, topic)
    for place in range(pick(w, th, state, size, count)):
        prune(w, th, now, node, candidates(w)[th, place], topic, tick)


@with_11
def _maintain_by_scores(w: World, th: int, now: int, node: int, topic: int, tick: int) -> None:
    """Maintain a mesh with regard to scores and to dialled peers (KEEP-1, KEEP-2, KEEP-3, KEEP-4, KEEP-5)."""
    for slot in range(first_slot(w, node), end_slot(w, node)):
        if flags(w)[slot, topic] & IN_MESH and not may_be_in_mesh(score(w, th, now, node, slot)):
            prune(w, th, now, node, slot, topic, tick if parameter(w, node, EXCHANGE_ALWAYS) else WITHOUT_NAMES)
    size = mesh_size(w, node, topic)
    degree = parameter(w, node, DEGREE)
    own = size - lent_places(w, th, node, topic)
    if is_too_small(own, parameter(w, node, DEGREE_LOW)):
        _graft_to_degree(w, th, now, node, topic, degree - own, degree - size, tick)
    elif is_too_large(size, parameter(w, node, PRUNE_FROM)) and size > degree:
        _prune_to_degree(w, th, now, node, topic, tick)
    _graft_dialled(w, th, now, node, topic, tick)
    if opportunity_is_due(tick, parameter(w, node, OPPORTUNITY_TICKS), mesh_size(w, node, topic)):
        _graft_better(w, th, now, node, topic, tick)


@with_11
def _graft_to_degree(w: World, th: int, now: int, node: int, topic: int, own: int, total: int, tick: int) -> None:
    """GRAFT random peers (`graft_random`); with GRAFTS_BEST, the `total` peers with the best scores instead."""
    if not parameter(w, node, GRAFTS_BEST):
        graft_random(w, th, now, node, topic, own, total, Purpose.GRAFT, tick)
        return
    size = collect_candidates(w, th, now, node, topic)
    shuffle(w, th, draw_topic(w, Purpose.GRAFT, node, topic, tick), 0, size)
    _sort_by_score(w, th, now, node, size)
    for place in range(min(total, size)):
        graft(w, th, now, node, candidates(w)[th, place], topic)


@with_11
def _prune_to_degree(w: World, th: int, now: int, node: int, topic: int, tick: int) -> None:
    """PRUNE members until D are left.

    `candidates` has the members in the order of preference; `marks` has 1 for each member that stays.
    """
    order = candidates(w)[th]
    stays = marks(w)[th]
    degree = parameter(w, node, DEGREE)
    size = collect_members(w, th, node, topic)
    state = draw_topic(w, Purpose.KEPT, node, topic, tick)
    shuffle(w, th, state, 0, size)
    _sort_by_score(w, th, now, node, size)
    best = min(parameter(w, node, DEGREE_SCORE), size)
    shuffle(w, th, extend(state, np.uint64(1)), best, size)
    if places(w, node):
        lent_last(w, th, node, topic, state, size, 0)
    kept = 0
    gone = 0
    for place in range(size):
        stays[place] = place < degree
        if is_dialled(w, order[place]):
            kept += int(place < degree)
            gone += int(place >= degree)
    saved = dialled_to_keep(kept, gone, parameter(w, node, DEGREE_OUT), parameter(w, node, REPAIR_TO))
    place = degree - 1
    left = saved
    while left > 0:
        if not is_dialled(w, order[place]):
            stays[place] = 0
            left -= 1
        place -= 1
    for place in range(degree, size):
        if saved > 0 and is_dialled(w, order[place]):
            stays[place] = 1
            saved -= 1
    pruned = 0
    for place in range(size):
        if not stays[place]:
            order[pruned] = order[place]
            pruned += 1
        stays[place] = 0
    sort_numbers(order, 0, pruned)
    for place in range(pruned):
        prune(w, th, now, node, order[place], topic, tick)


@with_11
def _graft_dialled(w: World, th: int, now: int, node: int, topic: int, tick: int) -> None:
    """GRAFT random dialled peers if the node dialled too few of the members (DEGREE_OUT)."""
    known = candidates(w)[th]
    degree_out = parameter(w, node, DEGREE_OUT)
    if not degree_out:
        return
    dialled = dialled_members(w, node, topic)
    count = dialled_to_graft(mesh_size(w, node, topic), dialled, parameter(w, node, DEGREE_LOW), degree_out)
    if not count:
        return
    size = 0
    for place in range(collect_candidates(w, th, now, node, topic)):
        if is_dialled(w, known[place]):
            known[size] = known[place]
            size += 1
    for place in range(pick(w, th, draw_topic(w, Purpose.OUTBOUND, node, topic, tick), size, count)):
        graft(w, th, now, node, known[place], topic)


@with_11
def _graft_better(w: World, th: int, now: int, node: int, topic: int, tick: int) -> None:
    """If the median score of the members is too low, GRAFT peers with better scores (OPPORTUNITY_CHOICE)."""
    known = candidates(w)[th]
    size = collect_members(w, th, node, topic)
    _sort_by_score(w, th, now, node, size)
    upper = ranks(w)[th, size - 1 - size // 2]
    lower = ranks(w)[th, size - 1 - (size - 1) // 2]
    middle = median(lower, upper, parameter(w, node, MEDIAN))
    if not mesh_is_poor(middle, real(w, node, OPPORTUNITY_BELOW)):
        return
    rule = parameter(w, node, OPPORTUNITY_CHOICE)
    count = parameter(w, node, OPPORTUNITY_PEERS)
    size = 0
    for place in range(collect_candidates(w, th, now, node, topic)):
        found = score(w, th, now, node, known[place])
        if found > middle or (found == middle and rule == FIRST_FROM):
            known[size] = known[place]
            size += 1
    if rule == DRAWN_ABOVE:
        size = pick(w, th, draw_topic(w, Purpose.OPPORTUNITY, node, topic, tick), size, count)
    for place in range(min(size, count)):
        graft(w, th, now, node, known[place], topic)


@with_11
def _sort_by_score(w: World, th: int, now: int, node: int, size: int) -> None:
    """Sort the candidates by score, the best first; those with equal scores keep their order."""
    known = candidates(w)[th]
    found = ranks(w)[th]
    for place in range(size):
        slot = known[place]
        rank = score(w, th, now, node, slot)
        at = place
        while at > 0 and found[at - 1] < rank:
            found[at] = found[at - 1]
            known[at] = known[at - 1]
            at -= 1
        found[at] = rank
        known[at] = slot
