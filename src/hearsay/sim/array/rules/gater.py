"""Data about peers that a node retains after they disconnect: first the peer gater, then retained scores.

The gater ignores messages at random while validation is overloaded (`core.scores.gater`). It counts the messages from
each address. Layout: the slots of all connected peers at an address have the same counts, so a decision reads one
slot. The slot of the peer that disconnects last retains the counts of the address until the time AWAY_UNTIL.

Retained scores are kernels of `core.scores.records.RetainedPeers`. Only runs with faults or with dials of routers use
them. Layout: a neighbour of a router with scores retains its slot when it disconnects, so that the bits of `senders`
retain their meaning. `retained` has twice the time until which the neighbour's score is retained, plus IS_BLAMELESS
if the neighbour is blameless: it has no misbehaviour, slowness, mesh failures or invalid messages. `retained` is 0
for connected and for forgotten neighbours.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hearsay.core.rules import gater
from hearsay.core.rules import score_parts as parts
from hearsay.core.rules.randomness import Purpose
from hearsay.core.rules.score_parts import decayed
from hearsay.sim.array.compiling import inlined, only_with
from hearsay.sim.array.rules.scores import (
    IS_BLAMELESS,
    forget_slot,
    has_scores,
    mark_all_outdated,
    mark_outdated,
    retain_counters,
    score_now,
)
from hearsay.sim.array.world.draws import draw2, extend
from hearsay.sim.array.world.knowledge import column
from hearsay.sim.array.world.layout import (
    AWAY_UNTIL,
    BROUGHT,
    CONNECTED,
    COUNTED,
    DUPLICATE_WEIGHT,
    FAILURES,
    FIRST_MESSAGE,
    FIRST_SLOT,
    GATER_DUE,
    GATER_EVERY,
    GATER_QUIET,
    GATER_RETAIN,
    GATER_RETAINED,
    GATER_THRESHOLD,
    GATER_WEIGHT,
    GATER_ZERO,
    GATES,
    HAS_GATER,
    IGNORED,
    IGNORED_WEIGHT,
    INVALID,
    MAX_RETAINED,
    MESH_BITS,
    MISBEHAVIOUR,
    NEWEST,
    NODE_DECAY,
    NOT_POSITIVE_ONLY,
    RECORD,
    REJECTED,
    REJECTED_WEIGHT,
    REPEATED,
    RETAIN,
    RETAINS,
    ROWS_FULL,
    SHARES_ADDRESSES,
    SLOWNESS,
    SOURCE_DECAY,
    STATUS,
    THROTTLED,
    THROTTLED_AT,
    TOPICS,
    UNSUBSCRIBED,
    UNTIL_RETURN,
    VALIDATED,
    World,
    addresses,
    flags,
    gated,
    gaters,
    members,
    mesh_times,
    nodes32,
    peer_scores,
    peers,
    reals,
    records,
    retained,
    senders,
    topic_reals,
    topic_scores,
)
from hearsay.sim.array.world.slots import end_slot, find_slot, first_slot, own_place, parameter, router

with_gater = only_with(HAS_GATER)
with_retained = only_with(RETAINS)


@inlined
def has_gater(w: World, node: int) -> bool:
    return w[HAS_GATER] != 0 and parameter(w, node, GATES) != 0


@with_gater
def start_gater(w: World, now: int, node: int) -> None:
    line = gaters(w)[node]
    for field in range(4):
        line[field] = 0.0
    line[GATER_DUE] = now + parameter(w, node, GATER_EVERY)


@with_gater
def gater_due(w: World, node: int) -> int:
    return int(gaters(w)[node, GATER_DUE])


# Addresses.


@inlined
def _is_connected(w: World, slot: int) -> bool:
    return flags(w)[slot, 0] & CONNECTED != 0


@with_gater
def _share_address(w: World, slot: int, other: int) -> bool:
    return slot != other and addresses(w)[peers(w)[slot]] == addresses(w)[peers(w)[other]]


@inlined
def _end_of_sharing(w: World, node: int) -> int:
    """Return the end of a node's slots for a loop over slots that may share an address.

    If no nodes share an address, return the first slot, so that the loop is empty.
    """
    return end_slot(w, node) if w[SHARES_ADDRESSES] else first_slot(w, node)


@with_gater
def restore_gater_counts(w: World, node: int, slot: int) -> None:
    """When a peer connects, give its slot the counts of its address; 0 if the address has none (GATER-3)."""
    line = gated(w)[slot]
    known = line[AWAY_UNTIL] != 0.0
    for other in range(first_slot(w, node), _end_of_sharing(w, node)):
        counted = gated(w)[other]
        if _share_address(w, slot, other) and (_is_connected(w, other) or counted[AWAY_UNTIL] != 0.0):
            for field in range(AWAY_UNTIL):
                line[field] = counted[field]
            counted[AWAY_UNTIL] = 0.0
            known = True
    line[AWAY_UNTIL] = 0.0
    if not known:
        for field in range(AWAY_UNTIL):
            line[field] = 0.0


@with_gater
def retain_gater_counts(w: World, now: int, node: int, slot: int) -> None:
    """Retain the counts of an address when its last peer disconnects (GATER-3).

    If the node then retains the counts of more than GATER_RETAINED addresses, forget the address whose last peer
    disconnected first.
    """
    for other in range(first_slot(w, node), _end_of_sharing(w, node)):
        if _share_address(w, slot, other) and _is_connected(w, other):
            return
    gated(w)[slot, AWAY_UNTIL] = now + parameter(w, node, GATER_RETAIN)
    away = 0
    oldest = -1
    for other in range(first_slot(w, node), end_slot(w, node)):
        if gated(w)[other, AWAY_UNTIL] != 0.0:
            away += 1
            if oldest < 0 or gated(w)[other, AWAY_UNTIL] < gated(w)[oldest, AWAY_UNTIL]:
                oldest = other
    if away > parameter(w, node, GATER_RETAINED):
        gated(w)[oldest, AWAY_UNTIL] = 0.0


@with_gater
def decay_gater(w: World, now: int, node: int) -> None:
    """If a decay is due, let the counts of the node and of connected peers' addresses decay (GATER-3).

    Also forget the addresses without connected peers whose AWAY_UNTIL is over.
    """
    line = gaters(w)[node]
    if now < line[GATER_DUE]:
        return
    own = reals(w)[router(w, node)]
    line[VALIDATED] = decayed(line[VALIDATED], own[NODE_DECAY], own[GATER_ZERO])
    line[THROTTLED] = decayed(line[THROTTLED], own[NODE_DECAY], own[GATER_ZERO])
    for slot in range(first_slot(w, node), end_slot(w, node)):
        counted = gated(w)[slot]
        if _is_connected(w, slot):
            for field in range(AWAY_UNTIL):
                counted[field] = decayed(counted[field], own[SOURCE_DECAY], own[GATER_ZERO])
        elif counted[AWAY_UNTIL] < now:
            counted[AWAY_UNTIL] = 0.0
    interval = parameter(w, node, GATER_EVERY)
    line[GATER_DUE] += ((now - gater_due(w, node)) // interval + 1) * interval


# Messages.


@with_gater
def count_gated(w: World, node: int, peer: int, field: int, amount: float) -> None:
    """Add an amount to a counter of a peer's address, if the peer is connected."""
    slot = find_slot(w, node, peer)
    if slot < 0 or not _is_connected(w, slot):
        return
    gated(w)[slot, field] += amount
    for other in range(first_slot(w, node), _end_of_sharing(w, node)):
        if _share_address(w, slot, other):
            gated(w)[other, field] = gated(w)[slot, field]


@with_gater
def count_accepted_at_address(w: World, node: int, peer: int, topic: int) -> None:
    """Count an accepted message at the address of its sender; `peer` is -1 for a message of the node.

    The message counts with the weight of its topic, or with 1 if the topic does not count for scores yet.
    """
    weighs = members(w)[node, topic] & COUNTED
    if peer >= 0:
        count_gated(w, node, peer, BROUGHT, topic_reals(w)[router(w, node), topic, GATER_WEIGHT] if weighs else 1.0)


@with_gater
def count_refused_at_address(w: World, now: int, node: int, peer: int, reason: int) -> None:
    counts_as = gater.rejection(reason)
    if counts_as == gater.TURNED_AWAY:
        gaters(w)[node, THROTTLED] += 1.0
        gaters(w)[node, THROTTLED_AT] = now
    elif counts_as == gater.IGNORED:
        count_gated(w, node, peer, IGNORED, 1.0)
    elif counts_as == gater.REJECTED:
        count_gated(w, node, peer, REJECTED, 1.0)


@with_gater
def passes_gater(w: World, now: int, node: int, peer: int) -> bool:
    """Return whether the messages of a peer's RPC are accepted (GATER-1, GATER-2, GATER-4)."""
    line = gaters(w)[node]
    own = reals(w)[router(w, node)]
    since = now - int(line[THROTTLED_AT])
    quiet = parameter(w, node, GATER_QUIET)
    if gater.is_open(since, quiet, line[THROTTLED], line[VALIDATED], own[GATER_THRESHOLD]):
        return True
    counted = gated(w)[find_slot(w, node, peer)]
    sent = gater.sent_by_address(
        counted[BROUGHT],
        counted[REPEATED] * own[DUPLICATE_WEIGHT],
        counted[IGNORED] * own[IGNORED_WEIGHT],
        counted[REJECTED] * own[REJECTED_WEIGHT],
    )
    draw: Any = extend(draw2(w, Purpose.GATED, node, peer), np.uint64(now))
    return gater.is_let_in(draw, counted[BROUGHT], sent)


# Retained scores.


@inlined
def retains_scores(w: World, node: int) -> bool:
    """Return whether a node may retain the scores of neighbours that disconnect."""
    return w[RETAINS] != 0 and has_scores(w, node)


@inlined
def retains_slots(w: World, node: int) -> bool:
    return retains_scores(w, node) or has_gater(w, node)


@with_retained
def restore_score(w: World, node: int, slot: int) -> None:
    """Let a neighbour that connects continue with its retained score (RETAIN-3).

    If no score was retained, or with UNTIL_RETURN, set its counters to 0 instead.
    """
    if not retained(w)[slot] or parameter(w, node, UNTIL_RETURN):
        forget_slot(w, slot)
    retained(w)[slot] = 0
    for place in range(mesh_times(w).shape[1]):
        mesh_times(w)[slot, place, MESH_BITS] &= ~UNSUBSCRIBED
    mark_outdated(w, slot)


@with_retained
def retain_score(w: World, now: int, node: int, slot: int) -> None:
    """Retain the score of a neighbour that disconnects, if the parameters allow it (RETAIN-1, RETAIN-2, RETAIN-5)."""
    retain = parameter(w, node, RETAIN)
    if not parts.is_kept(score_now(w, now, node, slot), parameter(w, node, NOT_POSITIVE_ONLY) == 0, retain):
        return
    for topic in range(w[TOPICS]):
        if members(w)[node, topic] & COUNTED:
            retain_counters(w, now, node, slot, topic)
    mark_outdated(w, slot)
    retained(w)[slot] = (now + retain) << 1 | (IS_BLAMELESS if _is_blameless(w, node, slot) else 0)
    _make_room(w, node)


@with_retained
def _is_blameless(w: World, node: int, slot: int) -> bool:
    line = peer_scores(w)[slot]
    if line[MISBEHAVIOUR] or line[SLOWNESS]:
        return False
    for topic in range(w[TOPICS]):
        if members(w)[node, topic] & COUNTED:
            counted = topic_scores(w)[slot, own_place(w, node, topic)]
            if counted[FAILURES] or counted[INVALID]:
                return False
    return True


@with_retained
def _make_room(w: World, node: int) -> None:
    """If more than MAX_RETAINED scores are retained, forget the score of the blameless neighbour that left first.

    If no neighbour is blameless, forget the score of the neighbour that left first.
    """
    kept = 0
    first = -1
    first_blameless = -1
    for slot in range(first_slot(w, node), end_slot(w, node)):
        if not retained(w)[slot]:
            continue
        kept += 1
        until = retained(w)[slot] >> 1
        if first < 0 or until < retained(w)[first] >> 1:
            first = slot
        if retained(w)[slot] & IS_BLAMELESS and (first_blameless < 0 or until < retained(w)[first_blameless] >> 1):
            first_blameless = slot
    if kept > parameter(w, node, MAX_RETAINED):
        retained(w)[first_blameless if first_blameless >= 0 else first] = 0


@with_retained
def forget_old_scores(w: World, now: int, node: int) -> None:
    """Forget the retained scores whose time is over (RETAIN-3)."""
    for slot in range(first_slot(w, node), end_slot(w, node)):
        if retained(w)[slot] and parts.is_forgotten(now, retained(w)[slot] >> 1):
            retained(w)[slot] = 0
            mark_all_outdated(w, node)


@with_retained
def move_senders(w: World, node: int, slot: int) -> None:
    """Shift the bits of a node in `senders`, because `slot` was inserted. If the bits lack room, set STATUS."""
    place = slot - nodes32(w)[node, FIRST_SLOT]
    words = senders(w).shape[2]
    if end_slot(w, node) - first_slot(w, node) > words << 6:
        w[STATUS] = ROWS_FULL
        return
    below = (np.uint64(1) << np.uint64(place & 63)) - np.uint64(1)
    for message in range(w[FIRST_MESSAGE], w[NEWEST]):
        at = column(w, message)
        if not records(w)[node, at, RECORD]:
            continue
        line = senders(w)[node, at]
        for word in range(words - 1, place >> 6, -1):
            line[word] = line[word] << np.uint64(1) | line[word - 1] >> np.uint64(63)
        own = line[place >> 6]
        line[place >> 6] = own & below | (own & ~below) << np.uint64(1)
