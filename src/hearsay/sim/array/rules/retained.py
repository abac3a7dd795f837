"""Scores of neighbours that disconnect, the kernels of `core.scores.records.RetainedPeers`; only in runs with faults.

Layout: a neighbour of a router with scores keeps its slot when it disconnects, so that the bits of `senders` keep
their meaning. `retained` has the time until which the neighbour's score is kept, doubled, plus 1 if it is blameless
(no counter lowers its score); it is 0 for connected neighbours and for those that are forgotten.
"""

from __future__ import annotations

import numpy as np

from hearsay.core.rules import score_parts as parts
from hearsay.sim.array.machine.compiling import inlined, only_with
from hearsay.sim.array.rules.gater import has_gater
from hearsay.sim.array.rules.scores import change, forget_slot, go_away, has_scores, neighbourhood_changes, score_now
from hearsay.sim.array.world.knowledge import column
from hearsay.sim.array.world.layout import (
    COUNTED,
    FAILURES,
    FIRST_MESSAGE,
    FIRST_SLOT,
    INVALID,
    MAX_RETAINED,
    MESH_BITS,
    MISBEHAVIOUR,
    NEWEST,
    NOT_POSITIVE_ONLY,
    RECORD,
    RETAIN,
    RETAINS,
    ROWS_FULL,
    SLOWNESS,
    STATUS,
    TOPICS,
    UNSUBSCRIBED,
    UNTIL_RETURN,
    World,
    members,
    mesh_times,
    nodes32,
    peer_scores,
    records,
    retained,
    senders,
    topic_scores,
)
from hearsay.sim.array.world.slots import end_slot, first_slot, own_place, parameter

retaining = only_with(RETAINS)
_BLAMELESS = 1


@inlined
def keeps_scores(w: World, node: int) -> bool:
    """Return whether neighbours may keep their scores when they disconnect."""
    return w[RETAINS] != 0 and has_scores(w, node)


@inlined
def keeps_slots(w: World, node: int) -> bool:
    return keeps_scores(w, node) or has_gater(w, node)


@retaining
def connects(w: World, node: int, slot: int) -> None:
    """Let a neighbour that connects have its kept score again, or none (RETAIN-3)."""
    if not retained(w)[slot] or parameter(w, node, UNTIL_RETURN):
        forget_slot(w, slot)
    retained(w)[slot] = 0
    for place in range(mesh_times(w).shape[1]):
        mesh_times(w)[slot, place, MESH_BITS] &= ~UNSUBSCRIBED
    change(w, slot)


@retaining
def disconnects(w: World, now: int, node: int, slot: int) -> None:
    """Keep the score of a neighbour that disconnects, if its rules allow that (RETAIN-1, RETAIN-2, RETAIN-5)."""
    positive_too = parameter(w, node, NOT_POSITIVE_ONLY) == 0
    retain = parameter(w, node, RETAIN)
    if not parts.is_kept(score_now(w, now, node, slot), positive_too, retain):
        return
    for topic in range(w[TOPICS]):
        if members(w)[node, topic] & COUNTED:
            go_away(w, now, node, slot, topic)
    change(w, slot)
    retained(w)[slot] = (now + retain) << 1 | (_BLAMELESS if _is_blameless(w, node, slot) else 0)
    _make_room(w, node)


@retaining
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


@retaining
def _make_room(w: World, node: int) -> None:
    """Forget a kept score if there are too many: of the blameless neighbours, or else of all, the first that left."""
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
        if retained(w)[slot] & _BLAMELESS and (first_blameless < 0 or until < retained(w)[first_blameless] >> 1):
            first_blameless = slot
    if kept > parameter(w, node, MAX_RETAINED):
        retained(w)[first_blameless if first_blameless >= 0 else first] = 0


@retaining
def forget_old(w: World, now: int, node: int) -> None:
    """Forget the kept scores whose time is over (RETAIN-3)."""
    for slot in range(first_slot(w, node), end_slot(w, node)):
        if retained(w)[slot] and parts.is_forgotten(now, retained(w)[slot] >> 1):
            retained(w)[slot] = 0
            neighbourhood_changes(w, node)


@retaining
def move_senders(w: World, node: int, slot: int) -> None:
    """Shift the bits of a node in `senders`, because `slot` was inserted; if they lack room, set STATUS."""
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
