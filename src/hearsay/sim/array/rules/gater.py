"""The peer gater, which ignores messages at random while validation is overloaded (`core.scores.gater`).

Layout: the slots of all connected peers at an address have the same counts, so a decision reads one slot. When the
last of these peers disconnects, its slot keeps the counts until AWAY_UNTIL.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hearsay.core.rules import gater
from hearsay.core.rules.score_parts import decayed
from hearsay.core.shell.randomness import Purpose
from hearsay.sim.array.machine.compiling import inlined, only_with
from hearsay.sim.array.world.draws import draw2, extend
from hearsay.sim.array.world.layout import (
    AWAY_UNTIL,
    BROUGHT,
    CONNECTED,
    COUNTED,
    DUPLICATE_WEIGHT,
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
    NODE_DECAY,
    REJECTED,
    REJECTED_WEIGHT,
    REPEATED,
    SHARES_ADDRESSES,
    SOURCE_DECAY,
    THROTTLED,
    THROTTLED_AT,
    VALIDATED,
    World,
    addresses,
    flags,
    gated,
    gaters,
    members,
    peers,
    reals,
    topic_reals,
)
from hearsay.sim.array.world.slots import end_slot, find_slot, first_slot, parameter, router

gating = only_with(HAS_GATER)


@inlined
def has_gater(w: World, node: int) -> bool:
    return w[HAS_GATER] != 0 and parameter(w, node, GATES) != 0


@gating
def start_gater(w: World, now: int, node: int) -> None:
    line = gaters(w)[node]
    for field in range(4):
        line[field] = 0.0
    line[GATER_DUE] = now + parameter(w, node, GATER_EVERY)


@gating
def gater_due(w: World, node: int) -> int:
    return int(gaters(w)[node, GATER_DUE])


# Addresses.


@inlined
def _is_connected(w: World, slot: int) -> bool:
    return flags(w)[slot, 0] & CONNECTED != 0


@gating
def _share_address(w: World, slot: int, other: int) -> bool:
    return slot != other and addresses(w)[peers(w)[slot]] == addresses(w)[peers(w)[other]]


@inlined
def _end_of_sharing(w: World, node: int) -> int:
    """Return the end of the slots to search for peers at the same address; none if no address is shared."""
    return end_slot(w, node) if w[SHARES_ADDRESSES] else first_slot(w, node)


@gating
def gater_connects(w: World, node: int, slot: int) -> None:
    """When a peer connects, give its slot the counts of its address (GATER-3)."""
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


@gating
def gater_disconnects(w: World, now: int, node: int, slot: int) -> None:
    """When the last peer at an address disconnects, keep its counts; of too many, forget the oldest (GATER-3)."""
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


@gating
def decay_gater(w: World, now: int, node: int) -> None:
    """If a decay is due, let counts decay, and forget addresses whose time is over (GATER-3)."""
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


@gating
def _count(w: World, node: int, peer: int, field: int, amount: float) -> None:
    """Add to a counter of a peer's address, unless the peer is disconnected."""
    slot = find_slot(w, node, peer)
    if slot < 0 or not _is_connected(w, slot):
        return
    gated(w)[slot, field] += amount
    for other in range(first_slot(w, node), _end_of_sharing(w, node)):
        if _share_address(w, slot, other):
            gated(w)[other, field] = gated(w)[slot, field]


@gating
def gater_asks(w: World, node: int) -> None:
    gaters(w)[node, VALIDATED] += 1.0


@gating
def gater_delivers(w: World, node: int, peer: int, topic: int) -> None:
    """Count an accepted message with the weight of its topic, or with 1 before the first join of the topic."""
    weighs = members(w)[node, topic] & COUNTED
    if peer >= 0:
        _count(w, node, peer, BROUGHT, topic_reals(w)[router(w, node), topic, GATER_WEIGHT] if weighs else 1.0)


@gating
def gater_repeats(w: World, node: int, peer: int) -> None:
    _count(w, node, peer, REPEATED, 1.0)


@gating
def gater_rejects(w: World, now: int, node: int, peer: int, reason: int) -> None:
    counts_as = gater.rejection(reason)
    if counts_as == gater.TURNED_AWAY:
        gaters(w)[node, THROTTLED] += 1.0
        gaters(w)[node, THROTTLED_AT] = now
    elif counts_as == gater.IGNORED:
        _count(w, node, peer, IGNORED, 1.0)
    elif counts_as == gater.REJECTED:
        _count(w, node, peer, REJECTED, 1.0)


@gating
def is_let_in(w: World, now: int, node: int, peer: int) -> bool:
    """Return whether a peer's messages are accepted (GATER-1, GATER-2, GATER-4)."""
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
