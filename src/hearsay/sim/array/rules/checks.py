"""Invariants of all nodes of a checked run, those of `sim.checks` that arrays can express.

The check examines each delivery, the outbox at the end of each call, and meshes after each heartbeat. It does not
rely on the router's state of subscriptions and backoffs, but has its own.

Layout: `known_topics` has for a slot and topic whether the peer is subscribed, `apart` the end of the backoff that a
PRUNE from or to the peer named, 0 for none. A PRUNE names whole seconds, rounded up; for PRUNEs that the node sends,
the check assumes the shortest backoff that is rounded up to these.
"""

from __future__ import annotations

from hearsay.core.language.actions import Via
from hearsay.sim.array.rules.direct import is_direct
from hearsay.sim.array.rules.places import places
from hearsay.sim.array.rules.scores import has_scores, real, score, score_now
from hearsay.sim.array.travel.outbox import MIXED, ONE_IHAVE, ONE_MESSAGE
from hearsay.sim.array.travel.parts import (
    CLASS_SHIFT,
    ID_MASK,
    IDS,
    IHAVE_CLASS,
    KEY,
    MESH_CLASS,
    MESSAGE_CLASS,
    SLOT,
    TOPIC_SHIFT,
    VALUE,
    backoff_seconds,
)
from hearsay.sim.array.world import lists
from hearsay.sim.array.world.knowledge import bits, column
from hearsay.sim.array.world.layout import (
    BACKOFF,
    BACKOFF_LASTS,
    BACKOFF_SLACK,
    BACKOFFS,
    DEGREE,
    DEGREE_LOW,
    DEGREE_OUT,
    DELIVERED,
    EARLY_GRAFT,
    GOSSIP_FROM,
    HAS_11,
    HAS_DIRECT,
    HAS_SCORES,
    IN_MESH,
    INTERVAL,
    MAX_BACKOFF,
    MAX_SEEN_BINDS,
    OPPORTUNITY_PEERS,
    OPPORTUNITY_TICKS,
    OUT_COUNT,
    OUT_MESSAGE,
    OUT_MODE,
    OUT_TOPIC,
    OUT_VIA,
    PRUNE_FROM,
    PUBLISH_FROM,
    PUBLISHED,
    SCORES,
    SEEN_TTL,
    SEEN_WINDOWS,
    SUBSCRIBED,
    TOPIC,
    TOPICS,
    World,
    apart,
    arena,
    cells,
    control,
    direct_starts,
    flags,
    known_topics,
    messages,
    outbox,
    peers,
    witnesses,
    words_at,
)
from hearsay.sim.array.world.payload import GRAFT, PART_KIND, PART_TOPIC, SUBSCRIBE, part_place
from hearsay.sim.array.world.record import FORGETS, found, received, with_checks
from hearsay.sim.array.world.slots import end_slot, first_slot, is_in, is_native, parameter

WORDS = (
    "message {number} delivered twice",
    "message {number} delivered in topic {topic!r}, which is not joined",
    "message {number} sent to {peer}, a non-subscriber of {topic!r}",
    "IHAVE to {peer}, a non-subscriber of {topic!r}",
    "GRAFT to {peer}, a non-subscriber of {topic!r}",
    "mesh of {topic!r} holds {peer}, which does not subscribe to it",
    "mesh of {topic!r} has {number} peers after a heartbeat, above the bound",
    "mesh of {topic!r} has {number} peers after a heartbeat, below the bound, and could have more",
    "GRAFT to {peer}, {number} us before the backoff in {topic!r} is over",
    "accepts {peer}, {number} us before the backoff in {topic!r} is over",
    "mesh of {topic!r} holds {peer}, which has a negative score or is direct",
    "gossip with {peer}, whose score is below the threshold",
    "message {number} beyond the mesh to {peer}, whose score is below the threshold",
    "mesh link of {topic!r} to {peer} is not mutual",
)
"""The text of each kind of finding except the last, UNCOUNTED, which is about no single node."""
(
    TWICE, NOT_JOINED, MESSAGE_TO_STRANGER, IHAVE_TO_STRANGER, GRAFT_TO_STRANGER, STRANGER_IN_MESH, MANY_MEMBERS,
    FEW_MEMBERS, EARLY, ACCEPTED_EARLY, UNWORTHY_MEMBER, GOSSIP_BELOW, PUBLISHED_BELOW, ONE_SIDED, UNCOUNTED,
) = range(len(WORDS) + 1)  # fmt: skip
_SECOND_US = 1_000_000
_ASKED_FOR = (int(Via.IWANT), int(Via.LAZY))
_BEYOND_THE_MESH = (int(Via.FLOOD_PUBLISH), int(Via.TOP_UP), int(Via.FLOOD))
"""Values of `via` that require a score. The fan-out is left out: its scores are read only at heartbeats."""


@with_checks
def check_delivery(w: World, th: int, now: int, node: int, message: int) -> None:
    """Check that a delivered message's topic is joined, and that the node does not remember an earlier delivery."""
    topic = messages(w)[message, TOPIC]
    if not is_in(w, node, topic):
        found(w, th, now, NOT_JOINED, node, -1, topic, message)
    if not bits(cells(w)[node, column(w, message)], DELIVERED) or w[MAX_SEEN_BINDS]:
        return
    windows = parameter(w, node, SEEN_WINDOWS)
    seen_for = (windows - 1) * parameter(w, node, INTERVAL) if windows else parameter(w, node, SEEN_TTL)
    if now < messages(w)[message, PUBLISHED] + seen_for:
        found(w, th, now, TWICE, node, -1, topic, message)


@with_checks
def note_received(w: World, th: int, slot: int, rpc: int) -> None:
    """Count the parts of a received RPC. Its SUBSCRIBEs are noted even if the router ignores them."""
    for index in range(arena(w)[rpc]):
        part = words_at(w, part_place(rpc, index))
        received(w, th, part[PART_KIND], 1)
        if part[PART_KIND] == SUBSCRIBE:
            note_subscription(w, slot, part[PART_TOPIC], True)


@with_checks
def note_subscription(w: World, slot: int, topic: int, subscribe: bool) -> None:
    """Note whether a peer is subscribed, after its SUBSCRIBE, UNSUBSCRIBE, connection or disconnection."""
    known_topics(w)[slot, topic] = int(subscribe)


@with_checks
def note_prune(w: World, now: int, node: int, slot: int, topic: int, extras: int) -> None:
    """Note the backoff of a received PRUNE."""
    named = backoff_seconds(extras) * _SECOND_US if extras else parameter(w, node, BACKOFF)
    _note_backoff(w, node, slot, topic, now + min(named, parameter(w, node, MAX_BACKOFF)))


@with_checks
def _note_backoff(w: World, node: int, slot: int, topic: int, until: int) -> None:
    """Note the end of a backoff, unless the router has no backoffs."""
    if parameter(w, node, BACKOFF):
        apart(w)[slot, topic] = max(apart(w)[slot, topic], until)


@with_checks
def check_new_member(w: World, th: int, now: int, node: int, slot: int, topic: int) -> None:
    """Check that no backoff forbids a peer that enters a mesh."""
    _check_backoff(w, th, now, node, slot, topic, ACCEPTED_EARLY)


@with_checks
def _check_backoff(w: World, th: int, now: int, node: int, slot: int, topic: int, what: int) -> None:
    """Store a finding of the kind `what` if a backoff of the peer is not over and the router had to forget none."""
    left = apart(w)[slot, topic] - now - parameter(w, node, EARLY_GRAFT)
    if left > 0 and not witnesses(w)[node] & FORGETS:
        found(w, th, now, what, node, peers(w)[slot], topic, left)


@with_checks
def check_sending(w: World, th: int, now: int, node: int) -> None:
    """Check the parts in the outbox before a call sends them. Control parts of episub are not checked."""
    line = control(w)[th]
    count = line[OUT_COUNT]
    mode = line[OUT_MODE]
    entries = outbox(w)[th]
    if mode == ONE_MESSAGE:
        message = line[OUT_MESSAGE]
        for place in range(count):
            _check_message(w, th, now, node, entries[place, SLOT], message, line[OUT_VIA])
    elif mode == ONE_IHAVE:
        for place in range(count):
            _check_ihave(w, th, now, node, entries[place, SLOT], line[OUT_TOPIC])
    elif mode == MIXED:
        for place in range(count):
            slot = entries[place, SLOT]
            key = entries[place, KEY]
            topic = (key >> TOPIC_SHIFT) & ID_MASK
            if key >> CLASS_SHIFT == MESSAGE_CLASS:
                _check_message(w, th, now, node, slot, key & ID_MASK, entries[place, VALUE])
            elif key >> CLASS_SHIFT == IHAVE_CLASS:
                _check_ihave(w, th, now, node, slot, topic)
            elif key >> CLASS_SHIFT == MESH_CLASS and entries[place, VALUE] == GRAFT:
                _check_graft(w, th, now, node, slot, topic)
            elif key >> CLASS_SHIFT == MESH_CLASS and entries[place, IDS]:
                seconds = backoff_seconds(entries[place, IDS]) - 1
                _note_backoff(w, node, slot, topic, now + seconds * _SECOND_US)


@with_checks
def _check_message(w: World, th: int, now: int, node: int, slot: int, message: int, via: int) -> None:
    if via in _ASKED_FOR:
        return
    topic = messages(w)[message, TOPIC]
    if not known_topics(w)[slot, topic]:
        found(w, th, now, MESSAGE_TO_STRANGER, node, peers(w)[slot], topic, message)
    if w[HAS_SCORES] and via in _BEYOND_THE_MESH and _is_below(w, now, node, slot, PUBLISH_FROM):
        found(w, th, now, PUBLISHED_BELOW, node, peers(w)[slot], topic, message)


@with_checks
def _is_below(w: World, now: int, node: int, slot: int, threshold: int) -> bool:
    if not has_scores(w, node) or is_direct(w, node, slot):
        return False
    return score_now(w, now, node, slot) < real(w, node, threshold)


@with_checks
def _check_ihave(w: World, th: int, now: int, node: int, slot: int, topic: int) -> None:
    if not known_topics(w)[slot, topic]:
        found(w, th, now, IHAVE_TO_STRANGER, node, peers(w)[slot], topic, -1)
    check_gossip(w, th, now, node, slot)


@with_checks
def check_gossip(w: World, th: int, now: int, node: int, slot: int) -> None:
    """Check that the score of a peer is high enough for an IHAVE, or for the answer to its IWANT."""
    if _is_below(w, now, node, slot, GOSSIP_FROM):
        found(w, th, now, GOSSIP_BELOW, node, peers(w)[slot], -1, -1)


@with_checks
def _check_graft(w: World, th: int, now: int, node: int, slot: int, topic: int) -> None:
    if not known_topics(w)[slot, topic]:
        found(w, th, now, GRAFT_TO_STRANGER, node, peers(w)[slot], topic, -1)
    _check_backoff(w, th, now, node, slot, topic, EARLY)


@with_checks
def check_meshes(w: World, th: int, now: int, node: int) -> None:
    """Check the meshes of a node after a heartbeat: their members and sizes."""
    scored = has_scores(w, node)
    most = max(parameter(w, node, PRUNE_FROM) - 1, parameter(w, node, DEGREE))
    if places(w, node):
        most += parameter(w, node, DEGREE)  # members with lent places do not count for grafts
    if parameter(w, node, HAS_11):
        most += parameter(w, node, DEGREE_OUT)
        if parameter(w, node, OPPORTUNITY_TICKS) and parameter(w, node, SCORES):
            most += parameter(w, node, OPPORTUNITY_PEERS)
    least = 0 if scored or _has_direct(w, node) else parameter(w, node, DEGREE_LOW)
    for topic in range(w[TOPICS]):
        if not is_in(w, node, topic):
            continue
        size = 0
        for slot in range(first_slot(w, node), end_slot(w, node)):
            if flags(w)[slot, topic] & IN_MESH:
                size += 1
                if not known_topics(w)[slot, topic]:
                    found(w, th, now, STRANGER_IN_MESH, node, peers(w)[slot], topic, -1)
                if is_direct(w, node, slot) or (scored and _is_unworthy(w, th, now, node, slot)):
                    found(w, th, now, UNWORTHY_MEMBER, node, peers(w)[slot], topic, -1)
        if size > most:
            found(w, th, now, MANY_MEMBERS, node, -1, topic, size)
        if size < least and size < _available(w, now, node, topic):
            found(w, th, now, FEW_MEMBERS, node, -1, topic, size)


@with_checks
def _is_unworthy(w: World, th: int, now: int, node: int, slot: int) -> bool:
    """Return whether a peer's score is negative now, and was so when the heartbeat read it."""
    return score(w, th, now, node, slot) < 0.0 and score_now(w, now, node, slot) < 0.0


@with_checks
def _has_direct(w: World, node: int) -> bool:
    return w[HAS_DIRECT] != 0 and direct_starts(w)[node + 1] > direct_starts(w)[node]


@with_checks
def _available(w: World, now: int, node: int, topic: int) -> int:
    """Return how many members a mesh could have, with regard to the router's own backoffs."""
    count = 0
    for slot in range(first_slot(w, node), end_slot(w, node)):
        if known_topics(w)[slot, topic] and flags(w)[slot, topic] & SUBSCRIBED and is_native(w, slot):
            until = lists.value(w, node, BACKOFFS, topic, peers(w)[slot], -1)
            waits = until >= 0 and (
                parameter(w, node, BACKOFF_LASTS) != 0 or now < until + parameter(w, node, BACKOFF_SLACK)
            )
            count += int(not waits)
    return count
