"""Kernels of `partial.exchange`: the parts of messages that applications hold, and their requests for missing parts.

A group is all parts of one message at one node (`part_lines.py`). The offer of a peer is the set of parts that its
last claim names as held.
"""

from __future__ import annotations

import numpy as np

from hearsay.partial.exchange import MAX_GROUPS, MAX_OFFERS, MAX_SENDERS
from hearsay.sim.array.rules.features import with_parts
from hearsay.sim.array.world.layout import (
    ASKED_COUNT,
    ASKS_ONE,
    FIRST_ASKED,
    FIRST_HELD,
    HELD_COUNT,
    KNOWN_PARTS,
    LAST_HELD,
    PART_WORDS,
    PARTS,
    TOPIC,
    Word,
    World,
    messages,
    part_heads,
    part_lines,
    part_sets,
    part_topics,
    words_at,
)
from hearsay.sim.array.world.part_lines import (
    ASKED_PARTS,
    FIRST_PEER,
    HAS_REQUESTS,
    HAS_SHOWN,
    HELD,
    IS_CHANGED,
    IS_COMPLETE,
    IS_HELD,
    IS_PUBLISHED,
    MARKS,
    MESSAGE,
    NEXT_ASKED,
    NEXT_HELD,
    NEXT_PEER,
    OFFER,
    OFFERED,
    OFFERS,
    OFFERS_PARTS,
    OVERDUE,
    REQUESTED,
    SHOWN,
    SHOWN_COUNT,
    STATE,
    clear,
    count_in,
    find_peer,
    first_parts,
    free_group_if_unknown,
    group_at,
    has_all,
    peer_at,
    unmark_peers,
    without_line,
    word_at,
)


@with_parts
def hold_group(w: World, node: int, message: int) -> int:
    """Return the group of a message, and let the application hold it.

    If the application already holds MAX_GROUPS groups of the topic, it drops the parts of the oldest one.
    """
    group = group_at(w, node, message)
    if part_lines(w)[group, STATE] & IS_HELD:
        return group
    head = part_heads(w)[node, messages(w)[message, TOPIC]]
    if head[HELD_COUNT] >= MAX_GROUPS:
        oldest = head[FIRST_HELD]
        head[FIRST_HELD] = part_lines(w)[oldest, NEXT_HELD]
        _drop_parts(w, node, oldest)
    else:
        head[HELD_COUNT] += 1
    if head[FIRST_HELD]:
        part_lines(w)[head[LAST_HELD], NEXT_HELD] = group
    else:
        head[FIRST_HELD] = group
    head[LAST_HELD] = group
    part_lines(w)[group, NEXT_HELD] = 0
    part_lines(w)[group, STATE] |= IS_HELD
    return group


@with_parts
def _drop_parts(w: World, node: int, group: int) -> None:
    clear(w, group, HELD)
    line = part_lines(w)[group, FIRST_PEER]
    while line:
        clear(w, line, SHOWN)
        line = part_lines(w)[line, NEXT_PEER]
    unmark_peers(w, group, HAS_SHOWN)
    part_lines(w)[group, SHOWN_COUNT] = 0
    part_lines(w)[group, STATE] &= ~(IS_HELD | IS_PUBLISHED | IS_COMPLETE)
    free_group_if_unknown(w, node, group)


@with_parts
def _add_first_parts(w: World, group: int, count: int) -> None:
    for number in range(w[PART_WORDS]):
        part_sets(w)[group, word_at(w, HELD, number)] |= first_parts(count, number)


@with_parts
def hold_all(w: World, node: int, message: int) -> bool:
    """Add all parts of a message that was delivered whole; return whether any part was missing."""
    topic = messages(w)[message, TOPIC]
    group = group_at(w, node, message)
    if part_lines(w)[group, STATE] & IS_HELD and has_all(w, group):
        return False
    hold_group(w, node, message)
    _add_first_parts(w, group, part_topics(w)[topic, PARTS])
    part_lines(w)[group, STATE] |= IS_PUBLISHED | IS_COMPLETE
    _end_answered_requests(w, node, group)
    return True


@with_parts
def becomes_complete(w: World, group: int) -> bool:
    """Return True if all parts of a group are held and IS_COMPLETE is not set yet; then set it."""
    if part_lines(w)[group, STATE] & IS_COMPLETE or not has_all(w, group):
        return False
    part_lines(w)[group, STATE] |= IS_COMPLETE
    return True


NOTHING, FROM_ELSEWHERE, USEFUL = range(3)
"""Results of `add_parts`. NOTHING: no part is new. FROM_ELSEWHERE: the only new parts are those that the application
has from elsewhere (KNOWN_PARTS). USEFUL: the peer sent new parts."""


@with_parts
def add_parts(w: World, node: int, message: int, sender: int, parts: int, offer: int) -> int:
    """Add the parts that a peer sent; with ASKS_ONE, also note its offer. Return NOTHING, FROM_ELSEWHERE or USEFUL.

    If the application does not hold the group yet, also add the parts that it has from elsewhere (KNOWN_PARTS).
    `parts` and `offer` are the indices of these two sets in the arena, 0 for none.
    """
    topic = part_topics(w)[messages(w)[message, TOPIC]]
    group = group_at(w, node, message)
    known = topic[KNOWN_PARTS] if not part_lines(w)[group, STATE] & IS_HELD else 0
    result = FROM_ELSEWHERE if known else NOTHING
    if known or parts:
        hold_group(w, node, message)
        _add_first_parts(w, group, known)
        if parts:
            for number in range(w[PART_WORDS]):
                place = word_at(w, HELD, number)
                brought = np.uint64(words_at(w, parts)[number])
                if brought & ~part_sets(w)[group, place] != np.uint64(0):
                    result = USEFUL
                part_sets(w)[group, place] |= brought
        _note_shown(w, group, sender, parts)
        _end_answered_requests(w, node, group)
    if topic[ASKS_ONE] and offer:
        _note_offer(w, node, group, sender, offer)
    free_group_if_unknown(w, node, group)
    return result


@with_parts
def _note_shown(w: World, group: int, sender: int, parts: int) -> None:
    """Note the parts that a peer sent, unless MAX_SENDERS other peers are noted."""
    line = find_peer(w, group, sender)
    if not line or not part_lines(w)[line, MARKS] & HAS_SHOWN:
        if part_lines(w)[group, SHOWN_COUNT] >= MAX_SENDERS:
            return
        part_lines(w)[group, SHOWN_COUNT] += 1
        line = peer_at(w, group, sender)
        part_lines(w)[line, MARKS] |= HAS_SHOWN
    if parts:
        for number in range(w[PART_WORDS]):
            part_sets(w)[line, word_at(w, SHOWN, number)] |= np.uint64(words_at(w, parts)[number])


# Requests: each missing part is requested from one peer (only with ASKS_ONE).


@with_parts
def _note_offer(w: World, node: int, group: int, sender: int, offer: int) -> None:
    """Note the offer of a peer if it has parts that the node lacks; request the parts that are not requested yet.

    Do nothing if the offers of MAX_OFFERS other peers are noted.
    """
    count = part_topics(w)[messages(w)[part_lines(w)[group, MESSAGE], TOPIC], PARTS]
    lacks_some = False
    for number in range(w[PART_WORDS]):
        lacking = first_parts(count, number) & ~part_sets(w)[group, word_at(w, HELD, number)]
        lacks_some |= np.uint64(words_at(w, offer)[number]) & lacking != np.uint64(0)
    if not lacks_some:
        return
    if not part_lines(w)[group, STATE] & HAS_REQUESTS:
        _begin_requests(w, node, group)
    line = find_peer(w, group, sender)
    if not line or not part_lines(w)[line, MARKS] & OFFERS_PARTS:
        if part_lines(w)[group, OFFERS] >= MAX_OFFERS:
            return
        line = peer_at(w, group, sender)
        part_lines(w)[line, MARKS] |= OFFERS_PARTS
        part_lines(w)[line, OFFER] = part_lines(w)[group, OFFERS]
        part_lines(w)[group, OFFERS] += 1
    for number in range(w[PART_WORDS]):
        offered = np.uint64(words_at(w, offer)[number])
        requested = word_at(w, REQUESTED, number)
        lacking = first_parts(count, number) & ~part_sets(w)[group, word_at(w, HELD, number)]
        new = offered & lacking & ~part_sets(w)[group, requested]
        part_sets(w)[line, word_at(w, OFFERED, number)] = offered
        part_sets(w)[line, word_at(w, ASKED_PARTS, number)] |= new
        part_sets(w)[group, requested] |= new


@with_parts
def _begin_requests(w: World, node: int, group: int) -> None:
    """Add a group to those with requests.

    If there are then more than MAX_GROUPS, end the requests of the oldest other group without held parts. If there is
    none, end the requests of the oldest group.
    """
    head = part_heads(w)[node, messages(w)[part_lines(w)[group, MESSAGE], TOPIC]]
    last = 0
    bare = 0
    place = int(head[FIRST_ASKED])
    while place:
        if not bare and not part_lines(w)[place, STATE] & IS_HELD:
            bare = place
        last = place
        place = int(part_lines(w)[place, NEXT_ASKED])
    if last:
        part_lines(w)[last, NEXT_ASKED] = group
    else:
        head[FIRST_ASKED] = group
    part_lines(w)[group, NEXT_ASKED] = 0
    part_lines(w)[group, STATE] |= HAS_REQUESTS
    head[ASKED_COUNT] += 1
    if head[ASKED_COUNT] > MAX_GROUPS:
        _end_requests(w, node, bare if bare else head[FIRST_ASKED])


@with_parts
def _end_requests(w: World, node: int, group: int) -> None:
    head = part_heads(w)[node, messages(w)[part_lines(w)[group, MESSAGE], TOPIC]]
    head[FIRST_ASKED] = without_line(w, head[FIRST_ASKED], group, NEXT_ASKED)
    head[ASKED_COUNT] -= 1
    line = part_lines(w)[group, FIRST_PEER]
    while line:
        clear(w, line, OFFERED)
        clear(w, line, ASKED_PARTS)
        line = part_lines(w)[line, NEXT_PEER]
    unmark_peers(w, group, OFFERS_PARTS | IS_CHANGED)
    clear(w, group, REQUESTED)
    clear(w, group, OVERDUE)
    part_lines(w)[group, OFFERS] = 0
    part_lines(w)[group, STATE] &= ~HAS_REQUESTS
    free_group_if_unknown(w, node, group)


@with_parts
def _end_answered_requests(w: World, node: int, group: int) -> None:
    """End the requests for parts that are held."""
    if not part_lines(w)[group, STATE] & HAS_REQUESTS:
        return
    if has_all(w, group):
        _end_requests(w, node, group)
        return
    for number in range(w[PART_WORDS]):
        missing = ~part_sets(w)[group, word_at(w, HELD, number)]
        part_sets(w)[group, word_at(w, REQUESTED, number)] &= missing
        part_sets(w)[group, word_at(w, OVERDUE, number)] &= missing
        line = part_lines(w)[group, FIRST_PEER]
        while line:
            part_sets(w)[line, word_at(w, ASKED_PARTS, number)] &= missing
            line = part_lines(w)[line, NEXT_PEER]


@with_parts
def request_late_parts_again(w: World, group: int) -> bool:
    """End the requests that were open at the last heartbeat already; return whether there were any.

    Each of these parts is requested from another peer that offers it, if there is one. Peers whose requests change
    get the mark IS_CHANGED.
    """
    changed = False
    if not part_lines(w)[group, STATE] & HAS_REQUESTS:
        return changed
    for number in range(w[PART_WORDS]):
        late = part_sets(w)[group, word_at(w, OVERDUE, number)]
        part_sets(w)[group, word_at(w, OVERDUE, number)] = part_sets(w)[group, word_at(w, REQUESTED, number)]
        while late != np.uint64(0):
            part = late & ~(late - np.uint64(1))
            late &= ~part
            part_sets(w)[group, word_at(w, OVERDUE, number)] &= ~part
            changed = True
            line = part_lines(w)[group, FIRST_PEER]
            while not part_sets(w)[line, word_at(w, ASKED_PARTS, number)] & part:
                line = part_lines(w)[line, NEXT_PEER]
            part_lines(w)[line, MARKS] |= IS_CHANGED
            part_sets(w)[line, word_at(w, OFFERED, number)] &= ~part
            part_sets(w)[line, word_at(w, ASKED_PARTS, number)] &= ~part
            part_sets(w)[group, word_at(w, REQUESTED, number)] &= ~part
            other = _least_requested(w, group, number, part)
            if other:
                part_lines(w)[other, MARKS] |= IS_CHANGED
                part_sets(w)[other, word_at(w, ASKED_PARTS, number)] |= part
                part_sets(w)[group, word_at(w, REQUESTED, number)] |= part
    return changed


@with_parts
def _least_requested(w: World, group: int, number: int, part: Word) -> int:
    """Return the line of the peer with the fewest requests among those that offer a part, 0 for none.

    Among peers with equally few requests, it is the one that made its first offer earliest.
    """
    best = 0
    least = 0
    line = part_lines(w)[group, FIRST_PEER]
    while line:
        if part_sets(w)[line, word_at(w, OFFERED, number)] & part != np.uint64(0):
            count = count_in(w, line, ASKED_PARTS)
            is_first = part_lines(w)[line, OFFER] < part_lines(w)[best, OFFER]
            if not best or count < least or (count == least and is_first):
                best = line
                least = count
        line = part_lines(w)[line, NEXT_PEER]
    return int(best)
