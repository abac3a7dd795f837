"""Effects of peers' messages and gossip on scores, the gater and promises (`core.mesh.standing`).

If a node requests an id by IWANT, the receiver of the IWANT owes the message: this is its promise. Layout: promises
are a list of the node. An entry has the message, the peer, and the time until which the promise must be kept. In the
list NEWS (`gossip.py`) further entries have the number of a peer's RPCs with IHAVE, and of those with IWANT, since
the last heartbeat.
"""

from __future__ import annotations

import numpy as np

from hearsay.core.language.actions import Reason
from hearsay.core.rules.deliveries import has_room, is_broken, rejection_keeps
from hearsay.core.rules.message_rules import rpc_is_accepted
from hearsay.core.rules.randomness import Purpose
from hearsay.core.rules.score_parts import may_gossip
from hearsay.core.scores.promises import MAX_PROMISES, MAX_PROMISES_OF_PEER
from hearsay.sim.array.compiling import inlined, only_with
from hearsay.sim.array.rules.gater import (
    count_accepted_at_address,
    count_gated,
    count_refused_at_address,
    has_gater,
    passes_gater,
)
from hearsay.sim.array.rules.scores import (
    count_delivery,
    count_duplicate,
    count_rejection,
    count_validation,
    has_scores,
    penalise,
    real,
    score_now,
)
from hearsay.sim.array.rules.special_peers import is_direct
from hearsay.sim.array.travel.parts import CLASS_SHIFT, ID_MASK, IWANT_CLASS, KEY
from hearsay.sim.array.world import lists
from hearsay.sim.array.world.draws import below, draw2, extend
from hearsay.sim.array.world.layout import (
    ASKED_MUST_SEND,
    FOLLOWUP,
    GOSSIP_FROM,
    HAS_11,
    HIDES_PEERS,
    IDS_IN_RPC,
    KEEPS_SCORES,
    KEPT,
    MAX_IHAVE_RPCS,
    MAX_IWANT_RPCS,
    NEWS,
    NODES,
    OUT_COUNT,
    OUT_SHORT,
    PROMISES,
    PUBLISHER,
    REPEATED,
    TOPIC,
    TOPICS,
    TRACKED,
    USES_11,
    VALIDATED,
    WELCOMES,
    World,
    control,
    gaters,
    messages,
    outbox,
    peer_scores,
    pool,
)
from hearsay.sim.array.world.payload import IHAVE
from hearsay.sim.array.world.record import row
from hearsay.sim.array.world.slots import end_slot, find_slot, first_slot, parameter
from hearsay.trace.language.event_rows import reject_row

TRACKS_NONE, TRACKS_ONE, TRACKS_ALL = range(3)
"""Values of TRACKED: which ids of an IWANT count as promises."""
with_11 = only_with(USES_11)
_IHAVES, _IWANTS = 2, 3
"""Numbers that are added to TOPICS in entries of the list NEWS, like _REQUESTED_OF and _REQUESTED_BY of
`gossip.py`."""


@inlined
def uses_11(w: World, node: int) -> bool:
    return w[USES_11] != 0 and parameter(w, node, HAS_11) != 0


# Messages.


@with_11
def note_first_copy(w: World, now: int, node: int, sender: int, message: int) -> None:
    """Count the first copy of a message, which keeps promises to send the message (PROMISE-2)."""
    count_validation(w, now, node, message)
    if has_gater(w, node):
        gaters(w)[node, VALIDATED] += 1.0
    _remove_kept(w, node, sender, message)


@with_11
def note_accepted(w: World, now: int, node: int, sender: int, message: int) -> None:
    """Count an accepted message. `sender` is the peer that sent its first copy, -1 if the node published it."""
    slot = find_slot(w, node, sender) if sender >= 0 and has_scores(w, node) else -1
    count_delivery(w, now, node, slot, message)
    if has_gater(w, node):
        count_accepted_at_address(w, node, sender, messages(w)[message, TOPIC])
    _remove_kept(w, node, sender, message)


@with_11
def note_duplicate(w: World, now: int, node: int, sender: int, message: int) -> None:
    """Count a further copy of a message; a copy of a message that the node published counts as rejected."""
    if messages(w)[message, PUBLISHER] == node:
        note_rejected(w, now, node, sender, message, Reason.SELF_ORIGIN)
        return
    if has_scores(w, node):
        count_duplicate(w, now, node, find_slot(w, node, sender), message)
    if has_gater(w, node):
        count_gated(w, node, sender, REPEATED, 1.0)
    if parameter(w, node, ASKED_MUST_SEND):
        _remove_kept(w, node, sender, message)


@with_11
def note_rejected(w: World, now: int, node: int, sender: int, message: int, reason: int) -> None:
    if has_scores(w, node):
        count_rejection(w, now, node, find_slot(w, node, sender), message, reason)
    if has_gater(w, node):
        count_refused_at_address(w, now, node, sender, reason)
    if rejection_keeps(reason):
        _remove_kept(w, node, sender, message)


@with_11
def is_gated(w: World, now: int, node: int, sender: int) -> bool:
    """Return whether the gater ignores the messages of a peer's RPC; if so, remove its promises (PROMISE-4)."""
    if not has_gater(w, node) or is_direct(w, node, find_slot(w, node, sender)) or passes_gater(w, now, node, sender):
        return False
    lists.remove(w, node, PROMISES, -1, sender)
    return True


# Promises.


@inlined
def _remove_kept(w: World, node: int, sender: int, message: int) -> None:
    """Remove the promises that a copy of a message keeps.

    These are the promises of all peers to send the message; with ASKED_MUST_SEND only the promise of the sender.
    """
    if not parameter(w, node, ASKED_MUST_SEND):
        lists.remove(w, node, PROMISES, message, -1)
    elif sender >= 0:
        lists.remove(w, node, PROMISES, message, sender)


@with_11
def end_control(w: World, th: int, now: int, node: int, sender: int) -> None:
    """When the control parts of an RPC are handled, reset the fields of `control` that are about one RPC.

    Then note the sender's promises for the ids that this call requests (PROMISE-1).
    """
    if not uses_11(w, node):
        return
    line = control(w)[th]
    line[WELCOMES] = 0
    line[HIDES_PEERS] = 0
    line[IDS_IN_RPC] = 0
    if parameter(w, node, TRACKED) == TRACKS_NONE or line[OUT_SHORT]:
        return
    count = 0
    first = -1
    for place in range(line[OUT_COUNT]):
        if outbox(w)[th, place, KEY] >> CLASS_SHIFT == IWANT_CLASS:
            count += 1
            if first < 0:
                first = outbox(w)[th, place, KEY] & ID_MASK
    if not count:
        return
    chosen = -1
    if parameter(w, node, TRACKED) == TRACKS_ONE:
        draw = extend(extend(draw2(w, Purpose.PROMISED, node, sender), np.uint64(first)), np.uint64(now))
        chosen = below(draw, count)
    count = 0
    for place in range(line[OUT_COUNT]):
        key = outbox(w)[th, place, KEY]
        if key >> CLASS_SHIFT == IWANT_CLASS:
            if chosen < 0 or count == chosen:
                _promise(w, now, node, sender, key & ID_MASK)
            count += 1


@with_11
def _promise(w: World, now: int, node: int, sender: int, message: int) -> None:
    """Note a promise, unless it is known or there are too many promises (PROMISE-5)."""
    entries = pool(w)[lists.owner(w, node)]
    place = lists.first_entry(w, node, PROMISES)
    of_peer = 0
    of_all = 0
    known = False
    while place >= 0:
        of_all += 1
        if entries[place, lists.SECOND] == sender:
            of_peer += 1
            known |= entries[place, lists.FIRST] == message
        place = entries[place, lists.NEXT]
    if has_room(of_peer, MAX_PROMISES_OF_PEER, of_all, MAX_PROMISES) and not known:
        lists.add(w, node, PROMISES, message, sender, now + parameter(w, node, FOLLOWUP))


@with_11
def begin_heartbeat(w: World, th: int, now: int, node: int) -> None:
    """Record and penalise broken promises (PROMISE-3). Then let the heartbeat read each score only once."""
    entries = pool(w)[lists.owner(w, node)]
    while True:
        peer = _next_breaker(w, now, node)
        if peer == w[NODES]:
            break
        broken = 0
        place = lists.first_entry(w, node, PROMISES)
        while place >= 0:
            following = entries[place, lists.NEXT]
            if entries[place, lists.SECOND] == peer and is_broken(now, entries[place, lists.VALUE]):
                broken += 1
                lists.remove(w, node, PROMISES, entries[place, lists.FIRST], peer)
            place = following
        row(w, th, reject_row(now, IHAVE, node, peer, -1, -1, broken, Reason.GIVEN_UP))
        penalise(w, node, find_slot(w, node, peer), np.float64(broken))
    if has_scores(w, node):
        control(w)[th, KEEPS_SCORES] = 1
        for slot in range(first_slot(w, node), end_slot(w, node)):
            peer_scores(w)[slot, KEPT] = np.nan


@with_11
def _next_breaker(w: World, now: int, node: int) -> int:
    """Return the peer with the lowest number that has broken a promise; the number of nodes if there is none."""
    entries = pool(w)[lists.owner(w, node)]
    found = w[NODES]
    place = lists.first_entry(w, node, PROMISES)
    while place >= 0:
        peer = entries[place, lists.SECOND]
        if peer < found and is_broken(now, entries[place, lists.VALUE]):
            found = peer
        place = entries[place, lists.NEXT]
    return int(found)


# Requests.


@with_11
def trusts_gossip(w: World, now: int, node: int, slot: int) -> bool:
    """Return whether a peer's score is high enough for gossip (JUDGE-2); True without scores."""
    return not has_scores(w, node) or may_gossip(score_now(w, now, node, slot), real(w, node, GOSSIP_FROM))


@with_11
def admits(w: World, th: int, now: int, node: int, peer: int, ids: int, kind: int) -> bool:
    """Return whether the router handles the IHAVEs, or the IWANTs, of an RPC (GOSSIP-14).

    `kind` is IHAVE or IWANT, `ids` the number of ids in these parts. If they are handled and there is a limit,
    count the RPC; if they are not handled, record their ids as ignored. With COUNTS_IHAVES, each IHAVE counts like an
    RPC.
    """
    key = w[TOPICS] + (_IHAVES if kind == IHAVE else _IWANTS)
    most = parameter(w, node, MAX_IHAVE_RPCS) if kind == IHAVE else parameter(w, node, MAX_IWANT_RPCS)
    if not most:
        return True
    if rpc_is_accepted(lists.value(w, node, NEWS, key, peer, 0), most):
        lists.increase(w, node, NEWS, key, peer, 1)
        return True
    row(w, th, reject_row(now, kind, node, peer, -1, -1, ids, Reason.OVER_LIMIT))
    return False
