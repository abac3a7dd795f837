"""Peer exchange: PRUNEs name peers, which the receiver dials (`core.mesh.mesh`, `core.mesh.mesh_requests`).

Layout: `names` has the peers that the PRUNEs of a call name, one PRUNE after the other, in ascending order for each
PRUNE. NAMES in `control` is the number of these peers. Offered peers are those that the next PRUNE may name. They are
written behind the named peers; then all of them except a sample are removed.
"""

from __future__ import annotations

import numpy as np

from hearsay.core.mesh.mesh_requests import MAX_DIALS
from hearsay.core.rules.randomness import Purpose
from hearsay.core.rules.score_parts import exchange_is_accepted
from hearsay.sim.array.rules.scores import has_scores, real, score
from hearsay.sim.array.travel.dials import dial_for_router, with_dials
from hearsay.sim.array.world.draws import draw_topic, extend, keep_sample
from hearsay.sim.array.world.layout import (
    ACCEPT_EXCHANGE_FROM,
    DIALS_PER_PRUNE,
    HAS_11,
    NAMED_DIALLED,
    NAMES,
    OUTBOX_FULL,
    STATUS,
    WELCOMES,
    Word,
    World,
    arena,
    control,
    more32,
    name_marks,
    names,
    peers,
)
from hearsay.sim.array.world.record import row
from hearsay.sim.array.world.slots import is_connected, parameter
from hearsay.trace.language.event_rows import dial_row

WITHOUT_NAMES = -3
"""The occasion of a PRUNE that names no peers. Any other occasion is the number of the heartbeat, LEAVING or
REFUSING, and the draw of the named peers depends on it."""
_TRUST_READ, _TRUSTED = 8, 16
"""Bits of WELCOMES. _TRUST_READ: the sender's score was read, which is done once for all PRUNEs of an RPC. _TRUSTED:
the score permits dials to the peers that the PRUNEs name."""


@with_dials
def offer_name(w: World, th: int, place: int, peer: int) -> None:
    """Offer a peer for the next PRUNE: write it into `names`, after `place` other offered peers.

    If `names` is full, set STATUS.
    """
    at = control(w)[th, NAMES] + place
    if at >= names(w).shape[1]:
        w[STATUS] = OUTBOX_FULL
        return
    names(w)[th, at] = peer


@with_dials
def choose_names(w: World, th: int, node: int, slot: int, topic: int, occasion: int, size: int, count: int) -> None:
    """Choose `count` of the `size` offered peers for a PRUNE to the peer of `slot` (MESH-5)."""
    state = extend(draw_topic(w, Purpose.PEER_EXCHANGE, node, topic, occasion), np.uint64(peers(w)[slot]))
    _keep_sample(w, th, state, size, count)
    control(w)[th, NAMES] += count


@with_dials
def _keep_sample(w: World, th: int, state: Word, size: int, count: int) -> None:
    """Remove all but a random sample of the `size` offered peers (`core.rules.randomness.sample`)."""
    if count >= size or w[STATUS] == OUTBOX_FULL:
        return
    keep_sample(names(w)[th], control(w)[th, NAMES], size, count, state, name_marks(w)[th])


@with_dials
def trusts_exchange(w: World, th: int, now: int, node: int, slot: int) -> bool:
    """Return whether the node dials peers that the sender of a PRUNE names (THRESHOLD-5)."""
    if not has_scores(w, node):
        return True
    line = control(w)[th]
    if not line[WELCOMES] & _TRUST_READ:
        accepted = exchange_is_accepted(score(w, th, now, node, slot), real(w, node, ACCEPT_EXCHANGE_FROM))
        line[WELCOMES] |= _TRUST_READ | (_TRUSTED if accepted else 0)
    return line[WELCOMES] & _TRUSTED != 0


@with_dials
def dial_named(
    w: World, th: int, now: int, node: int, slot: int, topic: int, place: int, named: int, trusted: bool
) -> None:
    """Dial up to DIALS_PER_PRUNE of the `named` peers that a PRUNE names (MESH-6).

    Without 1.1, dial the first ones. With 1.1, dial a random sample if the sender is trusted, otherwise none. Skip
    connected peers. Between two heartbeats, dial at most MAX_DIALS named peers. The named peers are in the arena from
    `place` on.
    """
    has_11 = parameter(w, node, HAS_11) != 0
    most = parameter(w, node, DIALS_PER_PRUNE)
    if not most or (has_11 and not trusted):
        return
    first = control(w)[th, NAMES]
    if first + named >= names(w).shape[1]:
        w[STATUS] = OUTBOX_FULL
        return
    for at in range(named):
        names(w)[th, first + at] = arena(w)[place + at]
    if has_11:
        state = extend(draw_topic(w, Purpose.EXCHANGE_DIAL, node, topic, peers(w)[slot]), np.uint64(now))
        _keep_sample(w, th, state, named, most)
    for at in range(first, first + min(most, named)):
        peer = names(w)[th, at]
        if not is_connected(w, node, peer) and more32(w)[node, NAMED_DIALLED] < MAX_DIALS:
            more32(w)[node, NAMED_DIALLED] += 1
            row(w, th, dial_row(now, node, peer, topic))
            dial_for_router(w, th, now, node, peer)
