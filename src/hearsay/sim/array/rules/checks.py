"""A checked run: notes of witnesses' calls, and the check of all nodes.

A witness is a node that a checked run compares with a router of the core (`sim/witnesses.py`). With the notes,
routers of the core can repeat the calls of witnesses' routers after the run. A note is a row with a negative event.
The notes of a call come before the other rows of the call: first a note of the call itself. If the call is for an
RPC, a note of each part follows, and behind the note of a part one note for each id in the part. In place of ids, a
PRUNE has its backoff and the peers that it names, and a partial message has its content. The note of a partial
message has the hops of the message at the sender. The note of a connection has 1 in place of a message if the node
dialled, otherwise 0.

The check of all nodes has those invariants of `sim.checks` that arrays can express. It examines each delivery, each
IWANT, each peer that enters a mesh, the outbox at the end of each call, and all meshes after each heartbeat. It has
its own record of subscriptions and backoffs. It reads the router's record only to compute how many members a mesh
could have.

Layout: `known_topics` has 1 for a slot and topic if the peer is subscribed. `apart` has for a slot and topic the
latest end of a backoff, 0 for none. A PRUNE from the peer begins a backoff, and so does a PRUNE to the peer that
names one. A PRUNE names whole seconds, rounded up. For a PRUNE that the node sends, the check therefore assumes a
backoff that is one second shorter than the named one.
"""

from __future__ import annotations

from typing import Any

from hearsay.core.language.actions import Via
from hearsay.core.language.events import EventKind
from hearsay.sim.array.rules.scores import has_scores, real, score, score_now
from hearsay.sim.array.rules.special_peers import is_direct, places
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
    hops_from,
)
from hearsay.sim.array.world import lists
from hearsay.sim.array.world.knowledge import bits, column
from hearsay.sim.array.world.layout import (
    APPLICATION,
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
    OUT_KEY,
    OUT_SHORT,
    OUT_VALUE,
    PART_WORDS,
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
    members,
    messages,
    outbox,
    peers,
    witnesses,
    words_at,
)
from hearsay.sim.array.world.payload import (
    GRAFT,
    PART_IDS,
    PART_KIND,
    PART_TOPIC,
    PARTIAL,
    SUBSCRIBE,
    Part,
    make_part,
    part_at,
    part_place,
    topic_part,
    words_behind,
)
from hearsay.sim.array.world.record import CALL_NOTE, FORGETS, ID_NOTE, PART_NOTE, found, note, received, with_checks
from hearsay.sim.array.world.slots import end_slot, first_slot, is_in, is_native, parameter

STARTED, STOPPED = -1, -2
"""Calls that are no events: the node started with a new router, or it went down and its router ended."""
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
"""The text of each kind of finding except UNCOUNTED, the last kind, which is not about a single node."""
(
    TWICE, NOT_JOINED, MESSAGE_TO_STRANGER, IHAVE_TO_STRANGER, GRAFT_TO_STRANGER, STRANGER_IN_MESH, MANY_MEMBERS,
    FEW_MEMBERS, EARLY, ACCEPTED_EARLY, UNWORTHY_MEMBER, GOSSIP_BELOW, PUBLISHED_BELOW, ONE_SIDED, UNCOUNTED,
) = range(len(WORDS) + 1)  # fmt: skip
_SECOND_US = 1_000_000
_ASKED_FOR = (int(Via.IWANT), int(Via.LAZY))
_BEYOND_THE_MESH = (int(Via.FLOOD_PUBLISH), int(Via.TOP_UP), int(Via.FLOOD))
"""Values of `via` of copies whose receivers need a high enough score. Copies to the fan-out are left out, because
the router does not read the scores of a fan-out's peers at each publication."""


@with_checks
def note_call(w: World, th: int, now: int, node: int, kind: int, remote: int, topic: int, message: int) -> None:
    note(w, th, now, CALL_NOTE, node, remote, make_part(kind, topic, message, -1, -1, -1, -1))


@with_checks
def note_with_topics(w: World, th: int, now: int, node: int, kind: int, remote: int, number: int, of: int) -> None:
    """Note a call, and the topics of the application of the node `of`. `number` is in place of a message.

    If the call is the start of a node, `of` is the node itself. If it is a connection, `of` is the peer; a router
    without a hello gets the topics of the peer with the connection.
    """
    note_call(w, th, now, node, kind, remote, -1, number)
    for topic in range(w[TOPICS]):
        if members(w)[of, topic] & APPLICATION:
            note(w, th, now, PART_NOTE, node, remote, topic_part(SUBSCRIBE, topic, -1, 1))


@with_checks
def _note_id(w: World, th: int, now: int, node: int, message: int) -> None:
    note(w, th, now, ID_NOTE, node, -1, make_part(-1, -1, message, -1, -1, -1, -1))


@with_checks
def note_message(w: World, th: int, now: int, node: int, kind: int, remote: int, part: Part) -> None:
    """Note the call for an RPC with one message that was received, or that could not be sent."""
    note_call(w, th, now, node, kind, remote, -1, -1)
    note(w, th, now, PART_NOTE, node, remote, part)


@with_checks
def note_contacts(w: World, th: int, now: int, node: int, topic: int, contacts: Any, count: int) -> None:
    note_call(w, th, now, node, EventKind.CONTACTS_FOUND, -1, topic, -1)
    note(w, th, now, PART_NOTE, node, -1, topic_part(-1, topic, -1, count))
    for place in range(count):
        _note_id(w, th, now, node, contacts[place])


@with_checks
def note_rpc(w: World, th: int, now: int, node: int, kind: int, remote: int, rpc: int) -> None:
    """Note the call for an RPC in the arena that was received, or that could not be sent."""
    note_call(w, th, now, node, kind, remote, -1, -1)
    for index in range(arena(w)[rpc]):
        part = part_at(w, rpc, index)
        if w[PART_WORDS] and part.kind >= PARTIAL:
            hops = hops_from(w, remote, arena(w)[rpc + words_at(w, part_place(rpc, index))[PART_IDS] + 1]) - 1
            part = make_part(part.kind, part.topic, -1, hops, -1, 1, -1)
        note(w, th, now, PART_NOTE, node, remote, part)
        ids = words_at(w, part_place(rpc, index))[PART_IDS]
        if ids:
            for place in range(words_behind(w, rpc, index)):
                _note_id(w, th, now, node, arena(w)[rpc + ids + place])


@with_checks
def check_delivery(w: World, th: int, now: int, node: int, message: int) -> None:
    """Check that the topic of a delivered message is joined, and that the message is not delivered twice.

    A second delivery is allowed once the node may have forgotten the message.
    """
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
    """Count the parts of a received RPC, and note its SUBSCRIBEs, even those that the router ignores."""
    for index in range(arena(w)[rpc]):
        part = words_at(w, part_place(rpc, index))
        received(w, th, part[PART_KIND], 1)
        if part[PART_KIND] == SUBSCRIBE:
            note_subscription(w, slot, part[PART_TOPIC], True)


@with_checks
def note_subscription(w: World, slot: int, topic: int, subscribe: bool) -> None:
    """Note whether a peer is subscribed to a topic."""
    known_topics(w)[slot, topic] = int(subscribe)


@with_checks
def note_prune(w: World, now: int, node: int, slot: int, topic: int, extras: int) -> None:
    """Note the backoff of a received PRUNE. If the PRUNE names none, it is the backoff of the node's parameters."""
    named = backoff_seconds(extras) * _SECOND_US if extras else parameter(w, node, BACKOFF)
    _note_backoff(w, node, slot, topic, now + min(named, parameter(w, node, MAX_BACKOFF)))


@with_checks
def _note_backoff(w: World, node: int, slot: int, topic: int, until: int) -> None:
    """Note the end of a backoff, unless a noted end is later or the router has no backoffs."""
    if parameter(w, node, BACKOFF):
        apart(w)[slot, topic] = max(apart(w)[slot, topic], until)


@with_checks
def check_backoff(w: World, th: int, now: int, node: int, slot: int, topic: int, what: int) -> None:
    """Store a finding of the kind `what` if the backoff of a peer ends more than EARLY_GRAFT from now.

    Do nothing if the router had to forget a backoff before its end.
    """
    left = apart(w)[slot, topic] - now - parameter(w, node, EARLY_GRAFT)
    if left > 0 and not witnesses(w)[node] & FORGETS:
        found(w, th, now, what, node, peers(w)[slot], topic, left)


@with_checks
def check_sending(w: World, th: int, now: int, node: int) -> None:
    """Check the messages, IHAVEs and GRAFTs in the outbox before a call sends them.

    Note the backoffs that PRUNEs name. IHAVEs and GRAFTs of episub are not checked.
    """
    line = control(w)[th]
    entries = outbox(w)[th]
    for place in range(line[OUT_COUNT]):
        slot = entries[place, SLOT]
        key = line[OUT_KEY] if line[OUT_SHORT] else entries[place, KEY]
        value = line[OUT_VALUE] if line[OUT_SHORT] else entries[place, VALUE]
        topic = (key >> TOPIC_SHIFT) & ID_MASK
        if key >> CLASS_SHIFT == MESSAGE_CLASS:
            _check_message(w, th, now, node, slot, key & ID_MASK, value)
        elif key >> CLASS_SHIFT == IHAVE_CLASS:
            if not known_topics(w)[slot, topic]:
                found(w, th, now, IHAVE_TO_STRANGER, node, peers(w)[slot], topic, -1)
            check_gossip(w, th, now, node, slot)
        elif key >> CLASS_SHIFT == MESH_CLASS and value == GRAFT:
            if not known_topics(w)[slot, topic]:
                found(w, th, now, GRAFT_TO_STRANGER, node, peers(w)[slot], topic, -1)
            check_backoff(w, th, now, node, slot, topic, EARLY)
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
def check_gossip(w: World, th: int, now: int, node: int, slot: int) -> None:
    """Check that the score of a peer is high enough for an IHAVE, or for the answer to its IWANT."""
    if _is_below(w, now, node, slot, GOSSIP_FROM):
        found(w, th, now, GOSSIP_BELOW, node, peers(w)[slot], -1, -1)


@with_checks
def check_meshes(w: World, th: int, now: int, node: int) -> None:
    """Check the members and the sizes of all meshes of a node after a heartbeat."""
    scored = has_scores(w, node)
    most = max(parameter(w, node, PRUNE_FROM) - 1, parameter(w, node, DEGREE))
    if places(w, node):
        most += parameter(w, node, DEGREE)  # grafts do not count members with lent places
    if parameter(w, node, HAS_11):
        most += parameter(w, node, DEGREE_OUT)
        if parameter(w, node, OPPORTUNITY_TICKS) and parameter(w, node, SCORES):
            most += parameter(w, node, OPPORTUNITY_PEERS)
    has_direct = w[HAS_DIRECT] != 0 and direct_starts(w)[node + 1] > direct_starts(w)[node]
    least = 0 if scored or has_direct else parameter(w, node, DEGREE_LOW)
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
    """Return whether a peer's score is negative now and was negative when the heartbeat read it."""
    return score(w, th, now, node, slot) < 0.0 and score_now(w, now, node, slot) < 0.0


@with_checks
def _available(w: World, now: int, node: int, topic: int) -> int:
    """Return how many members a mesh could have: native subscribers that no backoff of the router excludes."""
    count = 0
    for slot in range(first_slot(w, node), end_slot(w, node)):
        if known_topics(w)[slot, topic] and flags(w)[slot, topic] & SUBSCRIBED and is_native(w, slot):
            until = lists.value(w, node, BACKOFFS, topic, peers(w)[slot], -1)
            waits = until >= 0 and (
                parameter(w, node, BACKOFF_LASTS) != 0 or now < until + parameter(w, node, BACKOFF_SLACK)
            )
            count += int(not waits)
    return count
