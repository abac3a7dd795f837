"""Groups of partial messages (a group is all parts of one message), the peers in a group, and sets of parts.

Layout: a line of `part_lines` is a group or a peer in a group, and the same line of `part_sets` has the sets of the
group or peer, PART_WORDS words each. `group_of` has the line of a node's group for a message. The line of a group
exists while KNOWN_TO_ROUTER, IS_HELD or HAS_REQUESTS is set in its STATE. The line of a peer exists while one of the
peer's MARKS is set. Line 0 is not used: 0 stands for no group and no peer. LINES_USED is the last line that was ever
used, LINES_FREE the first of a chain of free lines.

A run with partial messages uses one thread, because events must be handled in the order of time: if a message is
completed from parts, its hops depend on the hops of the message at the sender of the last part at that time.
"""

from __future__ import annotations

import numpy as np

from hearsay.sim.array.compiling import kernel, only_with
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
"""Fields of a group. NEXT_GROUP: the router's next group in the topic, ordered by message. BEATS_LEFT: the number of
heartbeats after which the router forgets the group. OPENER: the peer whose partial message created the group, -1 for
none. SERIAL: the number of the group in the order of creation. NEXT_HELD: the application's next group with parts.
NEXT_ASKED: the application's next group with requests. SHOWN_COUNT, OFFERS: the number of peers with HAS_SHOWN, and
of peers with OFFERS_PARTS."""
KNOWN_TO_ROUTER, IS_OWN, IS_PEERS, IS_HELD, IS_PUBLISHED, IS_COMPLETE, HAS_REQUESTS = 1, 2, 4, 8, 16, 32, 64
"""Bits of STATE. The first three are about the router. KNOWN_TO_ROUTER: the router knows the group. IS_OWN: the
application published in the group. IS_PEERS: a peer created the group, and the application has not published it to
all peers. The others are about the application. IS_HELD: it has parts. IS_PUBLISHED: it lacked parts when it got the
whole message, its own or a received one. IS_COMPLETE: it has all parts. HAS_REQUESTS: it has requested parts."""
HELD, REQUESTED, OVERDUE = range(3)
"""Sets of a group. HELD: parts that the node has. REQUESTED: parts that it has requested. OVERDUE: requested parts
that were already requested at the last heartbeat."""
NEXT_PEER, PEER, MARKS, OFFER = range(4)
"""Fields of a peer. NEXT_PEER: the next peer in the group. OFFER: the number of the peer in the order of offers."""
IS_NOTED, SPOKE, HAS_CLAIMED, GOT_CLAIM, HAS_SHOWN, OFFERS_PARTS, IS_CHANGED = 1, 2, 4, 8, 16, 32, 64
"""Bits of MARKS. A claim names the parts that a node holds and wants. The first four bits are the router's. IS_NOTED:
the router has notes of the peer. SPOKE: the peer sent a partial message of the group. HAS_CLAIMED: the peer sent a
claim. GOT_CLAIM: the node sent a claim to the peer. The other bits are the application's. HAS_SHOWN: the peer sent
parts. OFFERS_PARTS: the peer offers parts. IS_CHANGED: the parts that are requested of the peer changed."""
GIVEN, SHOWN, CLAIMED, WANTED, LAST_CLAIM, LAST_WANTED, OFFERED, ASKED_PARTS = range(8)
"""Sets of a peer. GIVEN: parts that the node sent to the peer. SHOWN: parts that the peer sent. CLAIMED, WANTED: the
parts that the peer holds and wants, according to its last claim. LAST_CLAIM, LAST_WANTED: the parts that the node
held and wanted, according to the last claim that it sent to the peer. OFFERED: parts that the peer offers.
ASKED_PARTS: parts that the node requests of the peer."""
SETS = 8
OF_ROUTER = IS_NOTED | SPOKE | HAS_CLAIMED | GOT_CLAIM
"""All bits of MARKS that are the router's."""

with_parts = only_with(PART_WORDS)


@with_parts
def new_line(w: World) -> int:
    line = w[LINES_FREE]
    if line:
        w[LINES_FREE] = part_lines(w)[line, NEXT_GROUP]
    else:
        line = min(w[LINES_USED] + 1, part_lines(w).shape[0] - 1)
        w[LINES_USED] = line
        if 2 * line > part_lines(w).shape[0]:  # the run stops at the end of the part
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
def without_line(w: World, first: int, line: int, following: int) -> int:
    """Remove a line from a chain; return the line that is the first one then.

    The chain begins at the line `first`; the field `following` of a line has the next line.
    """
    after = part_lines(w)[line, following]
    if line == first:
        return int(after)
    before = first
    while part_lines(w)[before, following] != line:
        before = part_lines(w)[before, following]
    part_lines(w)[before, following] = after
    return first


@with_parts
def group_at(w: World, node: int, message: int) -> int:
    """Return the line of a node's group for a message. If there is none, create it."""
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
    """Return the line of a peer in a group. If there is none, create it."""
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
    part_lines(w)[group, FIRST_PEER] = without_line(w, part_lines(w)[group, FIRST_PEER], line, NEXT_PEER)
    free_line(w, line)


@with_parts
def unmark_peers(w: World, group: int, marks: int) -> None:
    line = part_lines(w)[group, FIRST_PEER]
    while line:
        following = part_lines(w)[line, NEXT_PEER]
        unmark_peer(w, group, line, marks)
        line = following


# Kernels for sets of parts. `which` is a set of a line such as HELD, `number` the number of a word in the set.


@kernel
def first_parts(count: int, number: int) -> Word:
    """Return word `number` of the set that consists of the first `count` parts."""
    left = count - 64 * number
    if left <= 0:
        return np.uint64(0)
    return ~np.uint64(0) if left >= 64 else (np.uint64(1) << np.uint64(left)) - np.uint64(1)


@with_parts
def word_at(w: World, which: int, number: int) -> int:
    """Return the index of a set's word in a line of `part_sets`."""
    return which * w[PART_WORDS] + number


@with_parts
def clear(w: World, line: int, which: int) -> None:
    for number in range(w[PART_WORDS]):
        part_sets(w)[line, word_at(w, which, number)] = np.uint64(0)


@with_parts
def has_all(w: World, group: int) -> bool:
    """Return whether the node has all parts of a group."""
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
