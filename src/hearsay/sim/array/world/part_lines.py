"""Groups of partial messages (a group is all parts of one message), their peers, and sets of parts.

Layout: a line of `part_lines` is a group or a peer in it, and `part_sets` has the sets of the same line, PART_WORDS
words each. `group_of` has the line of a node's group for a message. A group exists while the router or the
application knows it, or the application requests parts of it; a peer while one of its marks is set. Line 0 is not
used: 0 stands for no group and no peer. LINES_USED is the last line that was ever used, LINES_FREE the first of a
chain of free lines. A run with parts uses one thread, because nodes must be handled in the order of time: the hops of
a message that is completed from parts depend on the hops that the sender of the last part has by then.
"""

from __future__ import annotations

import numpy as np

from hearsay.sim.array.machine.compiling import kernel, only_with
from hearsay.sim.array.world.knowledge import column
from hearsay.sim.array.world.layout import (
    LINES_FREE,
    LINES_USED,
    PART_WORDS,
    PARTS,
    PARTS_FULL,
    STATUS,
    TOPIC,
    Word,
    World,
    group_of,
    messages,
    part_lines,
    part_sets,
    part_topics,
)

NEXT_GROUP, MESSAGE, STATE, BEATS_LEFT, OPENER, SERIAL, NEXT_HELD, NEXT_ASKED, FIRST_PEER, SHOWN_COUNT, OFFERS = (
    range(11)
)
"""Fields of a group. NEXT_GROUP: the router's next group in the topic, ordered by message. BEATS_LEFT: for how many
more heartbeats the router keeps the group. OPENER: the peer that opened it, -1 for none. SERIAL: its number in the
order of creation. NEXT_HELD, NEXT_ASKED: the application's next group with parts, and its next one with requests.
SHOWN_COUNT, OFFERS: the number of peers with HAS_SHOWN, and of peers with OFFERS_PARTS."""
KNOWN_TO_ROUTER, IS_OWN, IS_PEERS, IS_HELD, IS_PUBLISHED, IS_COMPLETE, HAS_REQUESTS = 1, 2, 4, 8, 16, 32, 64
"""Bits of STATE. KNOWN_TO_ROUTER, IS_OWN and IS_PEERS are the router's; IS_OWN: the application published in the
group; IS_PEERS: a peer opened it, and the application has not published it to all peers. The others are the
application's; IS_HELD: it has parts; IS_PUBLISHED: it published the message itself, or got it whole."""
HELD, REQUESTED, OVERDUE = range(3)
"""Sets of a group: held parts, requested parts, and requested parts that were already missing at a heartbeat."""
NEXT_PEER, PEER, MARKS, OFFER = range(4)
"""Fields of a peer. OFFER: its number in the order of offers."""
IS_NOTED, SPOKE, HAS_CLAIMED, GOT_CLAIM, HAS_SHOWN, OFFERS_PARTS, IS_CHANGED = 1, 2, 4, 8, 16, 32, 64
"""Bits of MARKS. A claim names the parts that a node holds and wants. The router's bits are IS_NOTED: it has notes of
the peer; SPOKE: the peer sent a partial message; HAS_CLAIMED: the peer's claim is known; GOT_CLAIM: the peer was sent
a claim. The application's bits are HAS_SHOWN: it knows parts that the peer sent; OFFERS_PARTS: the peer offers parts;
IS_CHANGED: the parts requested of the peer changed."""
GIVEN, SHOWN, CLAIMED, WANTED, LAST_CLAIM, LAST_WANTED, OFFERED, ASKED_PARTS = range(8)
"""Sets of a peer. GIVEN, SHOWN: parts sent to it, and by it. CLAIMED, WANTED: the parts that it holds and wants, by
its last claim. LAST_CLAIM, LAST_WANTED: the same of the last claim sent to it. OFFERED, ASKED_PARTS: parts that it
offers, and parts that are requested of it."""
SETS = 8
OF_ROUTER = IS_NOTED | SPOKE | HAS_CLAIMED | GOT_CLAIM
"""The router's bits of MARKS."""

with_parts = only_with(PART_WORDS)


@with_parts
def new_line(w: World) -> int:
    line = w[LINES_FREE]
    if line:
        w[LINES_FREE] = part_lines(w)[line, NEXT_GROUP]
    else:
        line = min(w[LINES_USED] + 1, part_lines(w).shape[0] - 1)
        w[LINES_USED] = line
        if 2 * line > part_lines(w).shape[0]:  # the run stops at the end of the bucket
            w[STATUS] = PARTS_FULL
    for field in range(part_lines(w).shape[1]):
        part_lines(w)[line, field] = 0
    for place in range(part_sets(w).shape[1]):
        part_sets(w)[line, place] = np.uint64(0)
    return int(line)


@with_parts
def free_line(w: World, line: int) -> None:
    part_lines(w)[line, NEXT_GROUP] = w[LINES_FREE]
    w[LINES_FREE] = line


@with_parts
def group_at(w: World, node: int, message: int) -> int:
    """Return the line of a message's group, a new one if there is none."""
    at = column(w, message)
    group = group_of(w)[node, at]
    if not group:
        group = new_line(w)
        part_lines(w)[group, MESSAGE] = message
        group_of(w)[node, at] = group
    return int(group)


@with_parts
def free_group_if_unknown(w: World, node: int, group: int) -> None:
    line = part_lines(w)[group]
    if not line[STATE] & (KNOWN_TO_ROUTER | IS_HELD | HAS_REQUESTS):
        group_of(w)[node, column(w, line[MESSAGE])] = 0
        free_line(w, group)


@with_parts
def find_peer(w: World, group: int, peer: int) -> int:
    """Return the line of a peer in a group, 0 if there is none."""
    line = part_lines(w)[group, FIRST_PEER]
    while line and part_lines(w)[line, PEER] != peer:
        line = part_lines(w)[line, NEXT_PEER]
    return int(line)


@with_parts
def peer_at(w: World, group: int, peer: int) -> int:
    """Return the line of a peer in a group, a new one if there is none."""
    line = find_peer(w, group, peer)
    if not line:
        line = new_line(w)
        part_lines(w)[line, PEER] = peer
        part_lines(w)[line, NEXT_PEER] = part_lines(w)[group, FIRST_PEER]
        part_lines(w)[group, FIRST_PEER] = line
    return line


@with_parts
def unmark_peer(w: World, group: int, line: int, marks: int) -> None:
    """Clear marks of a peer, and free its line if no mark is left."""
    part_lines(w)[line, MARKS] &= ~marks
    if part_lines(w)[line, MARKS]:
        return
    if part_lines(w)[group, FIRST_PEER] == line:
        part_lines(w)[group, FIRST_PEER] = part_lines(w)[line, NEXT_PEER]
    else:
        before = part_lines(w)[group, FIRST_PEER]
        while part_lines(w)[before, NEXT_PEER] != line:
            before = part_lines(w)[before, NEXT_PEER]
        part_lines(w)[before, NEXT_PEER] = part_lines(w)[line, NEXT_PEER]
    free_line(w, line)


@with_parts
def unmark_peers(w: World, group: int, marks: int) -> None:
    line = part_lines(w)[group, FIRST_PEER]
    while line:
        following = part_lines(w)[line, NEXT_PEER]
        unmark_peer(w, group, line, marks)
        line = following


# Sets of parts. `which` is a set of a line, `number` the number of a word in the set.


@kernel
def first_parts(count: int, number: int) -> Word:
    """Return word `number` of the set that consists of the first `count` parts."""
    left = count - 64 * number
    if left <= 0:
        return np.uint64(0)
    return ~np.uint64(0) if left >= 64 else (np.uint64(1) << np.uint64(left)) - np.uint64(1)


@with_parts
def word_at(w: World, which: int, number: int) -> int:
    """Return the index in a line of `part_sets` of a word of a set."""
    return which * w[PART_WORDS] + number


@with_parts
def clear(w: World, line: int, which: int) -> None:
    for number in range(w[PART_WORDS]):
        part_sets(w)[line, word_at(w, which, number)] = np.uint64(0)


@with_parts
def has_all(w: World, group: int) -> bool:
    """Return whether all parts of a group are held."""
    count = part_topics(w)[messages(w)[part_lines(w)[group, MESSAGE], TOPIC], PARTS]
    for number in range(w[PART_WORDS]):
        if part_sets(w)[group, word_at(w, HELD, number)] != first_parts(count, number):
            return False
    return True


@with_parts
def count_in(w: World, line: int, which: int) -> int:
    count = 0
    for number in range(w[PART_WORDS]):
        count += count_bits(w, part_sets(w)[line, word_at(w, which, number)])
    return count


@with_parts
def count_bits(w: World, word: Word) -> int:
    count = 0
    while word != np.uint64(0):
        word &= word - np.uint64(1)
        count += 1
    return count
