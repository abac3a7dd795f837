"""Mesh upkeep and control, the kernels of `core.mesh.mesh`, `core.mesh.mesh_requests` and `core.mesh.graft_bounds`.

Layout: the mesh of a topic is the bit IN_MESH of the node's slots for that topic; walking the slots is walking the
mesh in ascending order. Backoffs are a list of the node: topic, peer, until when.
"""

from __future__ import annotations

import numpy as np

from hearsay.core.mesh.mesh import EXPIRE_EVERY
from hearsay.core.rules.mesh_rules import (
    BARE_PRUNE,
    EXCHANGE_PRUNE,
    MEMBER,
    NO_PRUNE,
    TAKEN_IN,
    graft_answer,
    has_room_for_one,
    is_early,
    is_early_of_us,
    is_full,
    later_end,
    mesh_change,
    received_backoff,
    seconds_to_name,
    time_left,
)
from hearsay.core.shell.randomness import Purpose
from hearsay.sim.array.machine.compiling import inlined, kernel
from hearsay.sim.array.travel.outbox import put_graft, put_prune
from hearsay.sim.array.travel.parts import backoff_seconds, prune_extras
from hearsay.sim.array.world import lists
from hearsay.sim.array.world.draws import draw_topic, pick
from hearsay.sim.array.world.layout import (
    BACKOFF,
    BACKOFF_SLACK,
    BACKOFFS,
    COUNT,
    DEGREE,
    DEGREE_LOW,
    EXCHANGE,
    FIRST_SLOT,
    IN_FANOUT,
    IN_MESH,
    MAX_BACKOFF,
    MAX_BACKOFFS,
    MESH_SIZE,
    MESHSUB,
    PRUNE_FROM,
    REFUSE_FROM,
    ROUTER_KIND,
    SUBSCRIBED,
    TAKES_BACKOFFS,
    TOPICS,
    UNKNOWN_GRAFT_PRUNES,
    UNSUBSCRIBE_BACKOFF,
    World,
    candidates,
    flags,
    members,
    natives,
    nodes32,
    peers,
    pool,
)
from hearsay.sim.array.world.payload import GRAFT
from hearsay.sim.array.world.record import row
from hearsay.sim.array.world.slots import is_in, is_native, parameter, router
from hearsay.trace.language.event_rows import graft_row, prune_row, reject_row


@inlined
def first_slot(w: World, node: int) -> int:
    return nodes32(w)[node, FIRST_SLOT]


@inlined
def end_slot(w: World, node: int) -> int:
    return nodes32(w)[node, FIRST_SLOT] + nodes32(w)[node, COUNT]


@kernel
def has_mesh(w: World, node: int) -> bool:
    return parameter(w, node, ROUTER_KIND) >= MESHSUB


@kernel
def drop(w: World, th: int, now: int, node: int, peer: int, kind: int, count: int, reason: int) -> None:
    """Record parts of an RPC that are ignored."""
    row(w, th, reject_row(now, kind, node, peer, -1, -1, count, reason))


@inlined
def mesh_size(w: World, node: int, topic: int) -> int:
    return members(w)[node, topic] >> MESH_SIZE


@kernel
def _take_in(w: World, node: int, slot: int, topic: int) -> None:
    flags(w)[slot, topic] |= IN_MESH
    members(w)[node, topic] += 1 << MESH_SIZE


@kernel
def _let_go(w: World, node: int, slot: int, topic: int) -> None:
    flags(w)[slot, topic] &= ~IN_MESH
    members(w)[node, topic] -= 1 << MESH_SIZE


@kernel
def join_mesh(w: World, th: int, now: int, node: int, topic: int, tick: int) -> None:
    """Build the mesh of a topic just joined: the fan-out first, then random peers, up to D (MESH-1, FANOUT-3)."""
    table = flags(w)
    size = 0
    for slot in range(first_slot(w, node), end_slot(w, node)):
        if table[slot, topic] & IN_FANOUT:
            table[slot, topic] &= ~IN_FANOUT
            if not _forbids_graft(w, now, node, topic, peers(w)[slot]):
                _graft(w, th, now, node, slot, topic)
                size += 1
    _graft_random(w, th, now, node, topic, parameter(w, node, DEGREE) - size, Purpose.JOIN, tick)


@kernel
def leave_mesh(w: World, th: int, now: int, node: int, topic: int) -> None:
    """Rules: MESH-1, BACKOFF-5."""
    table = flags(w)
    for slot in range(first_slot(w, node), end_slot(w, node)):
        if table[slot, topic] & IN_MESH:
            _let_go(w, node, slot, topic)
            row(w, th, prune_row(now, node, peers(w)[slot], topic))
            _part(w, th, now, node, slot, topic, parameter(w, node, UNSUBSCRIBE_BACKOFF), True)


@kernel
def on_graft(w: World, th: int, now: int, node: int, slot: int, topic: int) -> None:
    """Rules: MESH-3, GRAFT-1, GRAFT-2, GRAFT-3, GRAFT-4, GRAFT-5, GRAFT-6, GRAFT-7."""
    peer = peers(w)[slot]
    flag = flags(w)[slot, topic]
    reason, prune = graft_answer(
        has_mesh(w, node) and is_native(w, slot),
        is_in(w, node, topic),
        parameter(w, node, UNKNOWN_GRAFT_PRUNES) != 0,
        flag & SUBSCRIBED != 0,
        flag & IN_MESH != 0,
        False,
        is_early(now, _until(w, node, topic, peer)),
        False,
        is_full(mesh_size(w, node, topic), parameter(w, node, REFUSE_FROM)),
    )
    if reason == TAKEN_IN:
        _take_in(w, node, slot, topic)
        row(w, th, graft_row(now, node, peer, topic))
        return
    if prune == BARE_PRUNE:
        put_prune(w, th, slot, topic, 0)
    elif prune != NO_PRUNE:
        _part(w, th, now, node, slot, topic, parameter(w, node, BACKOFF), prune == EXCHANGE_PRUNE)
    if reason != MEMBER:
        drop(w, th, now, node, peer, GRAFT, 1, reason)


@kernel
def on_prune(w: World, th: int, now: int, node: int, slot: int, topic: int, extras: int) -> None:
    """Handle a PRUNE; without a time it counts as one's own backoff (BACKOFF-4)."""
    leave_peer(w, th, now, node, slot, topic)
    own = parameter(w, node, BACKOFF)
    if own and is_in(w, node, topic):
        backoff = received_backoff(extras != 0, backoff_seconds(extras), own, parameter(w, node, MAX_BACKOFF))
        _keep_apart(w, now, node, topic, peers(w)[slot], backoff)


@kernel
def leave_peer(w: World, th: int, now: int, node: int, slot: int, topic: int) -> None:
    """Remove a peer from the mesh of a topic without a PRUNE."""
    if flags(w)[slot, topic] & IN_MESH:
        _let_go(w, node, slot, topic)
        row(w, th, prune_row(now, node, peers(w)[slot], topic))


@kernel
def graft_one(w: World, th: int, now: int, node: int, slot: int, topic: int) -> None:
    """Take a given peer into the mesh if there is room."""
    has_room = has_room_for_one(mesh_size(w, node, topic), parameter(w, node, PRUNE_FROM))
    if flags(w)[slot, topic] & IN_MESH or not has_room:
        return
    if not _forbids_graft(w, now, node, topic, peers(w)[slot]):
        _graft(w, th, now, node, slot, topic)


@kernel
def keep_meshes(w: World, th: int, now: int, node: int, tick: int) -> None:
    """Keep the meshes at a heartbeat (MESH-2, SIZE-1)."""
    if nodes32(w)[node, BACKOFFS] >= 0 and tick % EXPIRE_EVERY == 0:
        _expire_backoffs(w, now, node)
    degree = parameter(w, node, DEGREE)
    low = parameter(w, node, DEGREE_LOW)
    prune_from = parameter(w, node, PRUNE_FROM)
    for topic in range(w[TOPICS]):
        if is_in(w, node, topic):
            size = mesh_size(w, node, topic)
            grafts, prunes = mesh_change(size, size, low, degree, prune_from)
            if grafts:
                _graft_random(w, th, now, node, topic, grafts, Purpose.GRAFT, tick)
            if prunes:
                _prune_random(w, th, now, node, topic, prunes, tick)


@kernel
def say_link(w: World, th: int, now: int, node: int, slot: int, topic: int) -> None:
    """Send the present GRAFT or PRUNE again after one could not be sent (MESH-4)."""
    if flags(w)[slot, topic] & IN_MESH:
        put_graft(w, th, slot, topic)
    else:
        left_us = time_left(now, _until(w, node, topic, peers(w)[slot]))
        _say_prune(w, th, node, slot, topic, left_us, False)


@kernel
def _part(w: World, th: int, now: int, node: int, slot: int, topic: int, backoff: int, exchanges: bool) -> None:
    """Set a backoff, if there are backoffs, and send a PRUNE."""
    if parameter(w, node, BACKOFF):
        _keep_apart(w, now, node, topic, peers(w)[slot], backoff)
    _say_prune(w, th, node, slot, topic, backoff, exchanges)


@kernel
def _say_prune(w: World, th: int, node: int, slot: int, topic: int, backoff: int, exchanges: bool) -> None:
    """Send a PRUNE, with the time and, with `exchanges`, other peers, if both sides support that.

    Rules: MESH-5, BACKOFF-3.
    """
    extras = 0
    if backoff > 0 and natives(w)[router(w, node), router(w, peers(w)[slot])] == TAKES_BACKOFFS:
        others = _others(w, node, slot, topic) if exchanges and parameter(w, node, EXCHANGE) else 0
        extras = prune_extras(seconds_to_name(backoff), others)
    put_prune(w, th, slot, topic, extras)


@kernel
def _others(w: World, node: int, slot: int, topic: int) -> int:
    """Return how many others of a topic a PRUNE names."""
    count = 0
    for other in range(first_slot(w, node), end_slot(w, node)):
        count += np.int64((flags(w)[other, topic] & SUBSCRIBED != 0) & is_native(w, other) & (other != slot))
    return min(int(count), parameter(w, node, EXCHANGE))


@kernel
def _keep_apart(w: World, now: int, node: int, topic: int, peer: int, backoff: int) -> None:
    """Rules: BACKOFF-1, BACKOFF-6."""
    until = later_end(lists.value(w, node, BACKOFFS, topic, peer, now), now, backoff)
    lists.remove(w, node, BACKOFFS, topic, peer)
    lists.add(w, node, BACKOFFS, topic, peer, until)
    if lists.length(w, node, BACKOFFS) > parameter(w, node, MAX_BACKOFFS):
        lists.remove_last(w, node, BACKOFFS)


@kernel
def _until(w: World, node: int, topic: int, peer: int) -> int:
    return lists.value(w, node, BACKOFFS, topic, peer, -1)


@kernel
def _forbids_graft(w: World, now: int, node: int, topic: int, peer: int) -> bool:
    """Rules: BACKOFF-2."""
    until = _until(w, node, topic, peer)
    return until >= 0 and is_early_of_us(now, until, parameter(w, node, BACKOFF_SLACK))


@kernel
def _expire_backoffs(w: World, now: int, node: int) -> None:
    entries = pool(w)[lists.owner(w, node)]
    slack = parameter(w, node, BACKOFF_SLACK)
    place = nodes32(w)[node, BACKOFFS]
    while place >= 0:
        following = entries[place, lists.NEXT]
        if not is_early_of_us(now, entries[place, lists.VALUE], slack):
            lists.remove(w, node, BACKOFFS, entries[place, lists.FIRST], entries[place, lists.SECOND])
        place = following


@kernel
def _graft(w: World, th: int, now: int, node: int, slot: int, topic: int) -> None:
    _take_in(w, node, slot, topic)
    row(w, th, graft_row(now, node, peers(w)[slot], topic))
    put_graft(w, th, slot, topic)


@kernel
def _graft_random(
    w: World, th: int, now: int, node: int, topic: int, count: int, purpose: int, tick: int
) -> None:  # fmt: skip
    if count <= 0:
        return
    known = candidates(w)[th]
    table = flags(w)
    size = 0
    for slot in range(first_slot(w, node), end_slot(w, node)):
        flag = table[slot, topic]
        able = flag & SUBSCRIBED and not flag & IN_MESH and is_native(w, slot)
        if able and not _forbids_graft(w, now, node, topic, peers(w)[slot]):
            known[size] = slot
            size += 1
    for place in range(pick(w, th, draw_topic(w, purpose, node, topic, tick), size, count)):
        _graft(w, th, now, node, known[place], topic)


@kernel
def _prune_random(w: World, th: int, now: int, node: int, topic: int, count: int, tick: int) -> None:
    known = candidates(w)[th]
    table = flags(w)
    size = 0
    for slot in range(first_slot(w, node), end_slot(w, node)):
        if table[slot, topic] & IN_MESH:
            known[size] = slot
            size += 1
    for place in range(pick(w, th, draw_topic(w, Purpose.PRUNE, node, topic, tick), size, count)):
        slot = known[place]
        _let_go(w, node, slot, topic)
        row(w, th, prune_row(now, node, peers(w)[slot], topic))
        _part(w, th, now, node, slot, topic, parameter(w, node, BACKOFF), True)
