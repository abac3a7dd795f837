"""Partial messages: kernels of `core.mesh.partials`, and of the simulator's applications.

A partial message has parts of a message, a claim (the parts that the sender holds and wants), or both. In the arena
it is an RPC with one entry of the kind PARTIAL or METADATA, behind which its content is: the number of further words,
the message, the bits HAS_PARTS and HAS_CLAIM, and three sets of PART_WORDS words each. The sets are the parts, and
the held and the wanted parts of the claim. `content` is the index of the first of these words.
"""

from __future__ import annotations

import numpy as np

from hearsay.core.language.sizes import partial_size
from hearsay.core.rules.partial_rules import (
    ACCEPTED,
    REQUESTS,
    gets_partials,
    is_addressed,
    news,
    parts_to_send,
    refusal,
)
from hearsay.sim.array.compiling import inlined, kernel
from hearsay.sim.array.rules.features import exchanges_parts, own_use, partial_use, with_parts
from hearsay.sim.array.rules.part_groups import (
    find_group,
    forget_notes,
    group_for_peer,
    is_noted,
    note_peer,
    own_group,
)
from hearsay.sim.array.travel.outbox import put_alone
from hearsay.sim.array.travel.parts import topic_size
from hearsay.sim.array.world.layout import (
    ASKS_ONE,
    CHOSEN,
    CLAIM_BYTES,
    FIRST_GROUP,
    IS_EAGER_TOPIC,
    MAX_METADATA,
    NO_PARTS_BYTES,
    PART_BYTES,
    PART_WORDS,
    PARTS,
    TELLS_ALL,
    TOPIC,
    Word,
    World,
    arena,
    candidates,
    flags,
    messages,
    part_heads,
    part_lines,
    part_sets,
    part_topics,
    peers,
    words_at,
)
from hearsay.sim.array.world.part_lines import (
    ASKED_PARTS,
    CLAIMED,
    GIVEN,
    GOT_CLAIM,
    HAS_CLAIMED,
    HELD,
    IS_CHANGED,
    IS_NOTED,
    IS_OWN,
    IS_PUBLISHED,
    LAST_CLAIM,
    LAST_WANTED,
    MARKS,
    MESSAGE,
    NEXT_GROUP,
    SHOWN,
    SPOKE,
    STATE,
    WANTED,
    clear,
    count_bits,
    find_peer,
    first_parts,
    unmark_peers,
    word_at,
)
from hearsay.sim.array.world.payload import (
    HEADER,
    METADATA,
    PART,
    PART_IDS,
    PART_KIND,
    PART_TOPIC,
    PARTIAL,
    allocate,
    part_place,
    topic_part,
    write_part,
)
from hearsay.sim.array.world.record import ignored
from hearsay.sim.array.world.slots import end_slot, first_slot, parameter

_GROUP_BYTES = 8
MESSAGE_AT, _BITS_AT, _SETS_AT = 1, 2, 3
"""Indices in the content of a partial message: of the message, the bits and the first set."""
HAS_PARTS, HAS_CLAIM = 1, 2
"""Bits of the content of a partial message."""
PARTS_SET, HELD_SET, WANTED_SET = range(3)
"""The sets of a partial message: its parts, and the parts that its claim names as held and as wanted."""
TO_ALL, TO_CHANGED = -1, -2
"""Values in place of a slot. TO_ALL: the application publishes to all peers. TO_CHANGED: the application publishes to
the peers with the mark IS_CHANGED, from which it now requests more or fewer parts than before."""


@inlined
def _index_of_set(w: World, content: int, which: int) -> int:
    """Return the index in the arena of a set of a partial message."""
    return content + _SETS_AT + which * w[PART_WORDS]


@kernel
def index_of_set(w: World, content: int, which: int, bit: int) -> int:
    """Return the index in the arena of a set of a partial message; 0 if the content does not have the bit `bit`.

    For the set PARTS_SET the bit is HAS_PARTS, for HELD_SET it is HAS_CLAIM.
    """
    return _index_of_set(w, content, which) if arena(w)[content + _BITS_AT] & bit else 0


@with_parts
def on_partial(w: World, th: int, now: int, node: int, slot: int, rpc: int, index: int) -> int:
    """Handle a partial message, entry `index` of an RPC (PARTIAL-7).

    Return the index of its content in the arena; -1 if the partial message is ignored.
    """
    part = words_at(w, part_place(rpc, index))
    topic = part[PART_TOPIC]
    peer = peers(w)[slot]
    content = rpc + part[PART_IDS]
    words = words_at(w, content)
    claim_bytes = part_topics(w)[topic, CLAIM_BYTES] if words[_BITS_AT] & HAS_CLAIM else 0
    is_chosen = part_heads(w)[node, topic, CHOSEN] != 0
    reason = refusal(exchanges_parts(w, node, slot), is_chosen, claim_bytes, parameter(w, node, MAX_METADATA))
    group = 0
    if reason == ACCEPTED:
        group = group_for_peer(w, node, words[MESSAGE_AT], peer)
        if group < 0:
            reason = -1 - group
    if reason != ACCEPTED:
        ignored(w, th, now, node, peer, part[PART_KIND], 1, reason)
        return -1
    line = note_peer(w, group, peer)
    part_lines(w)[line, MARKS] |= SPOKE
    if words[_BITS_AT] & HAS_CLAIM:
        part_lines(w)[line, MARKS] |= HAS_CLAIMED
        for number in range(w[PART_WORDS]):
            held = np.uint64(words_at(w, _index_of_set(w, content, HELD_SET))[number])
            part_sets(w)[line, word_at(w, CLAIMED, number)] = held
            wanted = np.uint64(words_at(w, _index_of_set(w, content, WANTED_SET))[number])
            part_sets(w)[line, word_at(w, WANTED, number)] = wanted
    return int(content)


@with_parts
def partial_unsent(w: World, node: int, slot: int, rpc: int, index: int) -> None:
    """Forget which parts and claims of a group were sent to a peer, because an RPC could not be sent (PARTIAL-8)."""
    part = words_at(w, part_place(rpc, index))
    group = find_group(w, node, words_at(w, rpc + part[PART_IDS])[MESSAGE_AT])
    line = find_peer(w, group, peers(w)[slot]) if group else 0
    if not line or not part_lines(w)[line, MARKS] & IS_NOTED:
        return
    if not part_lines(w)[line, MARKS] & SPOKE:
        forget_notes(w, group, line)
        return
    part_lines(w)[line, MARKS] &= ~GOT_CLAIM
    clear(w, line, GIVEN)


@with_parts
def gossip_parts(w: World, th: int, now: int, node: int, topic: int, size: int) -> int:
    """Send partial messages as gossip to candidates that request parts (PARTIAL-6).

    Keep the other candidates, which get IHAVE; return their number.
    """
    if not part_heads(w)[node, topic, CHOSEN]:
        return size
    known = candidates(w)[th]
    kept = 0
    for place in range(size):
        slot = known[place]
        if partial_use(w, node, slot, topic) != REQUESTS:
            known[kept] = slot
            kept += 1
            continue
        group = part_heads(w)[node, topic, FIRST_GROUP]
        while group:
            if part_lines(w)[group, STATE] & IS_OWN and not is_noted(w, group, peers(w)[slot]):
                _send_parts(w, th, node, topic, group, slot, True)
            group = part_lines(w)[group, NEXT_GROUP]
    return kept


@with_parts
def publish_parts(w: World, th: int, node: int, message: int, to: int, routed: int) -> None:
    """Send parts and claims of a message to peers: `to` is a slot, TO_ALL or TO_CHANGED (PARTIAL-5).

    `routed` is the flag of the peers to which messages in the topic are forwarded: IN_MESH or IN_FANOUT.
    """
    topic = messages(w)[message, TOPIC]
    group = own_group(w, node, message, to == TO_ALL)
    for slot in range(first_slot(w, node), end_slot(w, node)):
        line = find_peer(w, group, peers(w)[slot])
        marks = part_lines(w)[line, MARKS] if line else 0
        if not (to == TO_ALL or to == slot or (to == TO_CHANGED and marks & IS_CHANGED)):
            continue
        gets = gets_partials(
            own_use(w, node, topic), partial_use(w, node, slot, topic), parameter(w, node, TELLS_ALL) != 0
        )
        is_routed = to != TO_ALL or flags(w)[slot, topic] & routed != 0
        if is_addressed(is_routed, gets, marks & SPOKE != 0, marks & IS_NOTED != 0):
            _send_parts(w, th, node, topic, group, slot, False)
    if to == TO_CHANGED:
        unmark_peers(w, group, IS_CHANGED)


@with_parts
def _send_parts(w: World, th: int, node: int, topic: int, group: int, slot: int, gossip: bool) -> None:
    """Send a peer the parts that it wants, and the application's claim if that is news for the peer (PARTIAL-2).

    If there are neither parts nor news, send nothing, but note the peer all the same. `gossip`: the partial message
    is sent as gossip.
    """
    settings = part_topics(w)[topic]
    line = note_peer(w, group, peers(w)[slot])
    marks = part_lines(w)[line, MARKS]
    unclaimed = settings[IS_EAGER_TOPIC] != 0 and part_lines(w)[group, STATE] & IS_PUBLISHED != 0 and not gossip
    requests = partial_use(w, node, slot, topic) == REQUESTS
    may_send = requests and (unclaimed or marks & HAS_CLAIMED != 0)
    knows_own = settings[ASKS_ONE] != 0 and marks & HAS_CLAIMED != 0
    count = 0
    is_news = marks & GOT_CLAIM == 0 and not knows_own
    for number in range(w[PART_WORDS]):
        held = part_sets(w)[group, word_at(w, HELD, number)]
        sent = _sent(w, topic, group, line, number) if may_send else np.uint64(0)
        count += count_bits(w, sent)
        known = sent | part_sets(w)[line, word_at(w, GIVEN, number)] | part_sets(w)[line, word_at(w, SHOWN, number)]
        if knows_own:
            known |= part_sets(w)[line, word_at(w, CLAIMED, number)]
        last = np.uint64(0)
        last_wanted = np.uint64(0)
        if marks & GOT_CLAIM:
            last = part_sets(w)[line, word_at(w, LAST_CLAIM, number)]
            last_wanted = part_sets(w)[line, word_at(w, LAST_WANTED, number)]
        unknown = news(held, _wants(w, topic, group, line, number), last, last_wanted, known)
        is_news = is_news or unknown != np.uint64(0)
    if count or is_news:
        put_alone(w, th, slot, _partial(w, th, topic, group, line, count, is_news))


@kernel
def _sent(w: World, topic: int, group: int, line: int, number: int) -> Word:
    """Return word `number` of the set of parts to send to a peer, without parts that it got or sent before.

    It has the held parts that the peer's claim wants; without a claim, all held parts.
    """
    wanted = first_parts(part_topics(w)[topic, PARTS], number)
    if part_lines(w)[line, MARKS] & HAS_CLAIMED:
        wanted = part_sets(w)[line, word_at(w, WANTED, number)]
    given = part_sets(w)[line, word_at(w, GIVEN, number)]
    shown = part_sets(w)[line, word_at(w, SHOWN, number)]
    return parts_to_send(part_sets(w)[group, word_at(w, HELD, number)], wanted, given, shown)


@kernel
def _wants(w: World, topic: int, group: int, line: int, number: int) -> Word:
    """Return word `number` of the set of parts that a claim to a peer wants.

    With ASKS_ONE it has the parts that are requested from the peer, otherwise all missing parts.
    """
    if part_topics(w)[topic, ASKS_ONE]:
        return part_sets(w)[line, word_at(w, ASKED_PARTS, number)]
    held = part_sets(w)[group, word_at(w, HELD, number)]
    return first_parts(part_topics(w)[topic, PARTS], number) & ~held


@with_parts
def _partial(w: World, th: int, topic: int, group: int, line: int, count: int, has_claim: bool) -> int:
    """Allocate and return an RPC that is a partial message with `count` parts, and with a claim if `has_claim`.

    Note the parts and the claim as sent to the peer.
    """
    words = _SETS_AT + 3 * w[PART_WORDS]
    rpc = allocate(w, th, HEADER + PART + words)
    arena(w)[rpc] = 1
    content = rpc + HEADER + PART
    arena(w)[content] = words - 1
    arena(w)[content + MESSAGE_AT] = part_lines(w)[group, MESSAGE]
    arena(w)[content + _BITS_AT] = (HAS_PARTS if count else 0) | (HAS_CLAIM if has_claim else 0)
    for number in range(w[PART_WORDS]):
        held = part_sets(w)[group, word_at(w, HELD, number)]
        wants = _wants(w, topic, group, line, number)
        sent = _sent(w, topic, group, line, number) if count else np.uint64(0)
        arena(w)[_index_of_set(w, content, PARTS_SET) + number] = np.int64(sent)
        arena(w)[_index_of_set(w, content, HELD_SET) + number] = np.int64(held)
        arena(w)[_index_of_set(w, content, WANTED_SET) + number] = np.int64(wants)
        part_sets(w)[line, word_at(w, GIVEN, number)] |= sent
        if has_claim:
            part_sets(w)[line, word_at(w, LAST_CLAIM, number)] = held
            part_sets(w)[line, word_at(w, LAST_WANTED, number)] = wants
    if has_claim:
        part_lines(w)[line, MARKS] |= GOT_CLAIM
    settings = part_topics(w)[topic]
    parts_bytes = settings[NO_PARTS_BYTES] + count * settings[PART_BYTES] if count else -1
    claim_bytes = settings[CLAIM_BYTES] if has_claim else -1
    size = partial_size(topic_size(w, topic), _GROUP_BYTES, parts_bytes, claim_bytes)
    kind = PARTIAL if count else METADATA
    write_part(w, rpc, 0, topic_part(kind, topic, size, 1), HEADER + PART)
    return rpc
