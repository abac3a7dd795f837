"""Extensions of gossipsub 1.3, and the uses of partial messages (`core.mesh.features`, `core.mesh.partials`).

Layout: `traits` has a line for each slot: the bits HAS_SENT, EXCHANGES_PARTS, TESTS and UNSAID, then the peer's use
of partial messages in each topic (NO_USE, SUPPORTS or REQUESTS of `core.rules.partial_rules`). A FEATURES part in the
arena does not list extensions; the receiver reads them from the parameters of the sender's router.
"""

from __future__ import annotations

from hearsay.core.language.actions import Reason
from hearsay.core.language.sizes import TEST_MESSAGE_BYTES
from hearsay.core.mesh.features import LATE_PENALTY
from hearsay.core.rules.partial_rules import REQUESTS, needs_no_idontwant
from hearsay.sim.array.compiling import inlined, kernel
from hearsay.sim.array.rules.scores import penalise
from hearsay.sim.array.travel.outbox import has_part_for, put_alone, put_features, put_subscription
from hearsay.sim.array.travel.parts import subscription_value, with_features
from hearsay.sim.array.world.layout import (
    CHOSEN,
    EXCHANGES_PARTS,
    FEATURES_OWED,
    HAS_FEATURES,
    HAS_SENT,
    LATE_PENALISES,
    OWED,
    OWN_FEATURES,
    PART_WORDS,
    SPEAKS_13,
    TAKES_FEATURES,
    TESTS,
    UNSAID,
    USE,
    World,
    arena,
    candidates,
    nodes32,
    part_heads,
    part_topics,
    peers,
    traits,
)
from hearsay.sim.array.world.part_lines import with_parts
from hearsay.sim.array.world.payload import FEATURES, HEADER, PART, TEST, allocate, topic_part, write_part
from hearsay.sim.array.world.record import ignored
from hearsay.sim.array.world.slots import end_slot, find_slot, first_slot, parameter, treatment


@with_features
def announce_features(w: World, th: int, node: int, slot: int) -> None:
    """Send a peer the extensions of the router, if there are any and the common protocol has extensions (EXT-1)."""
    if parameter(w, node, OWN_FEATURES) and treatment(w, node, peers(w)[slot]) == TAKES_FEATURES:
        put_features(w, th, slot, parameter(w, node, OWN_FEATURES))


@with_features
def note_features(w: World, th: int, now: int, node: int, peer: int, announces: bool) -> None:
    """Note that a peer sent an RPC; if this is its first RPC, store the extensions that it announces (EXT-2, EXT-3).

    If both routers have the test extension then, send the peer a test message (EXT-5). An announcement in a later RPC
    is recorded as ignored, and penalised if LATE_PENALISES is set. `announces`: the RPC announces extensions.
    """
    if not w[HAS_FEATURES] or not parameter(w, node, SPEAKS_13):
        return
    slot = find_slot(w, node, peer)
    line = traits(w)[slot]
    if not line[0] & HAS_SENT:
        line[0] |= HAS_SENT
        if announces:
            line[0] |= parameter(w, peer, OWN_FEATURES)
            if line[0] & parameter(w, node, OWN_FEATURES) & TESTS:
                _send_test(w, th, slot)
    elif announces:
        ignored(w, th, now, node, peer, FEATURES, 1, Reason.NOT_FIRST)
        if parameter(w, node, LATE_PENALISES):
            penalise(w, node, slot, LATE_PENALTY)


@with_features
def _send_test(w: World, th: int, slot: int) -> None:
    """Send a test message (EXT-5)."""
    rpc = allocate(w, th, HEADER + PART)
    arena(w)[rpc] = 1
    write_part(w, rpc, 0, topic_part(TEST, -1, TEST_MESSAGE_BYTES, 1), 0)
    put_alone(w, th, slot, rpc)


@with_features
def on_test(w: World, th: int, now: int, node: int, slot: int) -> None:
    """Record a test message as ignored unless both routers have the extension (EXT-5)."""
    if not traits(w)[slot, 0] & parameter(w, node, OWN_FEATURES) & TESTS:
        ignored(w, th, now, node, peers(w)[slot], TEST, 1, Reason.UNSUPPORTED)


@with_features
def note_unsent_features(w: World, node: int, slot: int) -> None:
    traits(w)[slot, 0] |= UNSAID
    nodes32(w)[node, OWED] |= FEATURES_OWED


@with_features
def announce_features_again(w: World, th: int, node: int) -> None:
    """Send the router's extensions to peers that get an RPC now and did not get the extensions before (EXT-4)."""
    left = 0
    known = candidates(w)[th]
    count = 0
    for slot in range(first_slot(w, node), end_slot(w, node)):
        if traits(w)[slot, 0] & UNSAID:
            if has_part_for(w, th, slot):
                known[count] = slot
                count += 1
            else:
                left = FEATURES_OWED
    for place in range(count):
        traits(w)[known[place], 0] &= ~UNSAID
        announce_features(w, th, node, known[place])
    nodes32(w)[node, OWED] = nodes32(w)[node, OWED] & ~FEATURES_OWED | left


# Uses of partial messages.


@kernel
def send_subscription(w: World, th: int, node: int, slot: int, topic: int, subscribe: bool) -> None:
    """Announce to a peer that the router joined or left a topic, and its use of partial messages (PARTIAL-1)."""
    use = 0
    if w[PART_WORDS] and subscribe and treatment(w, node, peers(w)[slot]) == TAKES_FEATURES:
        use = own_use(w, node, topic)
    put_subscription(w, th, slot, topic, subscription_value(int(subscribe), use))


@inlined
def own_use(w: World, node: int, topic: int) -> int:
    return part_topics(w)[topic, USE] if part_heads(w)[node, topic, CHOSEN] else 0


@kernel
def note_use(w: World, node: int, slot: int, topic: int, use: int) -> None:
    """Store a peer's use of partial messages: `use` is in its SUBSCRIBE, and 0 after UNSUBSCRIBE (PARTIAL-1)."""
    if w[PART_WORDS] and parameter(w, node, OWN_FEATURES) & EXCHANGES_PARTS:
        traits(w)[slot, 1 + topic] = use


@inlined
def exchanges_parts(w: World, node: int, slot: int) -> bool:
    return traits(w)[slot, 0] & parameter(w, node, OWN_FEATURES) & EXCHANGES_PARTS != 0


@with_parts
def partial_use(w: World, node: int, slot: int, topic: int) -> int:
    """Return a neighbour's use of partial messages in a topic.

    It is 0 if the node does not use them in the topic, or if not both routers have the extension (EXT-3).
    """
    has_use = part_heads(w)[node, topic, CHOSEN] != 0 and exchanges_parts(w, node, slot)
    return int(traits(w)[slot, 1 + topic]) if has_use else 0


@inlined
def may_send_parts(w: World, node: int, topic: int) -> bool:
    """Return whether the node uses partial messages in a topic, so that peers may get parts in place of messages."""
    return w[PART_WORDS] != 0 and part_heads(w)[node, topic, CHOSEN] != 0


@with_parts
def without_requesters(w: World, th: int, node: int, topic: int, size: int) -> int:
    """Remove the candidates that get parts in place of full messages; return the number of the others (PARTIAL-3)."""
    known = candidates(w)[th]
    kept = 0
    for place in range(size):
        if partial_use(w, node, known[place], topic) != REQUESTS:
            known[kept] = known[place]
            kept += 1
    return kept


@kernel
def gets_no_idontwant(w: World, node: int, slot: int, topic: int) -> bool:
    """Return whether a neighbour gets no IDONTWANT (PARTIAL-4)."""
    return may_send_parts(w, node, topic) and needs_no_idontwant(
        own_use(w, node, topic), partial_use(w, node, slot, topic)
    )
