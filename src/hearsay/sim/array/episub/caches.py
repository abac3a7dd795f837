"""Kept messages, which a tree can send again, and missing messages, which it knows from announcements only.

These are kernels of `core.episub.caches`.

Layout: kept messages have the bit HELD in their cells. `kept32` links the kept messages of a topic in a list, from
the oldest, which is KEPT_FIRST in `trees`, to the newest, KEPT_LAST.

Missing messages have the bit MISSING in their cells. They are a list in `pool`, the oldest first; MISSING_FIRST in
`trees` is its first entry. An entry has a message, the number of its touches, and the first entry of the list of its
announcers. An entry of that list has a peer and the hops that the peer announced. At each alarm MISSING_DUE, the node
touches each missing message: it requests the message, waits longer, or gives the message up (REPAIR-1).
"""

from __future__ import annotations

import numpy as np

from hearsay.core.language.sizes import hops_size
from hearsay.core.rules.message_rules import announcer_in_turn
from hearsay.sim.array.episub.basics import NONE, with_episub
from hearsay.sim.array.world import lists
from hearsay.sim.array.world.knowledge import bits, column
from hearsay.sim.array.world.layout import (
    ANSWERS,
    DATA_BYTES,
    EMPTY_MESSAGE,
    HELD,
    KEPT_COUNT,
    KEPT_FIRST,
    KEPT_HOPS,
    KEPT_LAST,
    KEPT_NEWER,
    KEPT_OLDER,
    KEPT_PARENT,
    KEPT_SIZE,
    MAX_ANNOUNCERS,
    MAX_CACHED,
    MAX_CACHED_BYTES,
    MAX_MISSING,
    MESSAGE_BYTES,
    MISSING,
    MISSING_COUNT,
    MISSING_FIRST,
    MISSING_LAST,
    PAYLOAD_TTL,
    TOPIC,
    World,
    cells,
    kept32,
    kept64,
    messages,
    pool,
    topics,
    trees,
)
from hearsay.sim.array.world.lists import FIRST, NEXT, SECOND, VALUE, entry_before, free_all, last_of, size_of
from hearsay.sim.array.world.slots import parameter

MESSAGE, TOUCHES, ANNOUNCERS = FIRST, SECOND, VALUE
PEER, HOPS = FIRST, SECOND


# Kept messages.


@with_episub
def keep_message(w: World, now: int, node: int, message: int, hops: int, named: int, parent: int) -> None:
    """Keep a message; if there are too many, forget the oldest ones (REPAIR-1).

    A message that is kept already stays where it is in the list; the node forgets how often it sent the message on
    request. `tree.spread` describes `hops`, `named` and `parent`.
    """
    topic = messages(w)[message, TOPIC]
    tree = trees(w)[node, topic]
    expire_kept(w, now, node, topic)
    at = column(w, message)
    line = kept32(w)[node, at]
    if bits(cells(w)[node, at], HELD):
        lists.remove(w, node, ANSWERS, message, -1)
    else:
        cells(w)[node, at] |= np.uint64(HELD)
        line[KEPT_OLDER] = tree[KEPT_LAST]
        line[KEPT_NEWER] = -1
        if tree[KEPT_LAST] >= 0:
            kept32(w)[node, column(w, tree[KEPT_LAST]), KEPT_NEWER] = message
        else:
            tree[KEPT_FIRST] = message
        tree[KEPT_LAST] = message
        tree[KEPT_COUNT] += 1
        tree[KEPT_SIZE] += _footprint(w, message)
    line[KEPT_HOPS] = hops << 1 | int(named > 0)
    line[KEPT_PARENT] = parent
    kept64(w)[node, at] = now
    most = parameter(w, node, MAX_CACHED)
    most_bytes = parameter(w, node, MAX_CACHED_BYTES)
    while tree[KEPT_COUNT] > most or 0 < most_bytes < tree[KEPT_SIZE]:
        forget_oldest(w, node, topic)


@with_episub
def _footprint(w: World, message: int) -> int:
    return topics(w)[messages(w)[message, TOPIC], EMPTY_MESSAGE] + messages(w)[message, DATA_BYTES]


@with_episub
def expire_kept(w: World, now: int, node: int, topic: int) -> None:
    """Forget the messages of a topic that have been kept for PAYLOAD_TTL or longer."""
    ttl = parameter(w, node, PAYLOAD_TTL)
    while trees(w)[node, topic, KEPT_COUNT] > 0:
        if now - kept64(w)[node, column(w, trees(w)[node, topic, KEPT_FIRST])] < ttl:
            return
        forget_oldest(w, node, topic)


@with_episub
def forget_oldest(w: World, node: int, topic: int) -> None:
    """Forget the oldest kept message of a topic."""
    tree = trees(w)[node, topic]
    message = tree[KEPT_FIRST]
    at = column(w, message)
    following = kept32(w)[node, at, KEPT_NEWER]
    tree[KEPT_FIRST] = following
    if following >= 0:
        kept32(w)[node, column(w, following), KEPT_OLDER] = -1
    else:
        tree[KEPT_LAST] = -1
    tree[KEPT_COUNT] -= 1
    tree[KEPT_SIZE] -= _footprint(w, message)
    cells(w)[node, at] &= ~np.uint64(HELD)
    lists.remove(w, node, ANSWERS, message, -1)


@with_episub
def is_kept(w: World, now: int, node: int, message: int) -> bool:
    """Return whether a message can be sent again now."""
    at = column(w, message)
    is_there = bits(cells(w)[node, at], HELD)
    return is_there and now - kept64(w)[node, at] < parameter(w, node, PAYLOAD_TTL)


@with_episub
def kept_hops(w: World, node: int, message: int) -> int:
    """Return the hops of a kept message from its publisher to this node."""
    return kept32(w)[node, column(w, message), KEPT_HOPS] >> 1


@with_episub
def stored_bytes(w: World, node: int, message: int) -> int:
    """Return the number of bytes of a kept message as it was received, with the hops field if it had one."""
    hops = kept32(w)[node, column(w, message), KEPT_HOPS]
    return messages(w)[message, MESSAGE_BYTES] + (hops_size(hops >> 1) if hops & 1 else 0)


@with_episub
def kept_parent(w: World, node: int, message: int) -> int:
    """Return the peer that sent the first copy of a kept message, -1 if this node published the message."""
    return int(kept32(w)[node, column(w, message), KEPT_PARENT])


# Missing messages.


@with_episub
def note_announcement(w: World, node: int, topic: int, message: int, peer: int, hops: int) -> int:
    """Note that a peer announced a missing message with a hop count.

    If the list now has more than MAX_MISSING messages, remove the oldest one and return its first announcer.
    Otherwise return -1.
    """
    tree = trees(w)[node, topic]
    entries = pool(w)[lists.owner(w, node)]
    at = column(w, message)
    if bits(cells(w)[node, at], MISSING):
        _add_announcer(w, node, lists.place_in(w, node, tree[MISSING_FIRST], message), peer, hops)
        return NONE
    place = entry_before(w, node, NONE, message, 0, entry_before(w, node, NONE, peer, hops, 0))
    if tree[MISSING_COUNT]:
        entries[tree[MISSING_LAST], NEXT] = place
    else:
        tree[MISSING_FIRST] = place
    tree[MISSING_LAST] = place
    tree[MISSING_COUNT] += 1
    cells(w)[node, at] |= np.uint64(MISSING)
    if tree[MISSING_COUNT] <= parameter(w, node, MAX_MISSING):
        return NONE
    oldest = tree[MISSING_FIRST]
    pushed_out = entries[entries[oldest, ANNOUNCERS], PEER]
    remove_missing(w, node, topic, oldest)
    return int(pushed_out)


@with_episub
def _add_announcer(w: World, node: int, place: int, peer: int, hops: int) -> None:
    """Append a peer to the announcers in the entry `place`, unless the peer is one already or there are
    MAX_ANNOUNCERS."""
    entries = pool(w)[lists.owner(w, node)]
    announcers = entries[place, ANNOUNCERS]
    count = size_of(w, node, announcers)
    if lists.place_in(w, node, announcers, peer) < 0 and count < parameter(w, node, MAX_ANNOUNCERS):
        entries[last_of(w, node, announcers), NEXT] = entry_before(w, node, NONE, peer, hops, 0)


@with_episub
def take_announcers(w: World, node: int, topic: int, message: int) -> int:
    """Remove a message from the missing messages, because it has arrived. Return the first entry of its announcers.

    Return -1 if the message was not missing. The caller frees the announcers (`lists.free_all`).
    """
    if not bits(cells(w)[node, column(w, message)], MISSING):
        return NONE
    entries = pool(w)[lists.owner(w, node)]
    place = lists.place_in(w, node, trees(w)[node, topic, MISSING_FIRST], message)
    announcers = entries[place, ANNOUNCERS]
    entries[place, ANNOUNCERS] = NONE
    remove_missing(w, node, topic, place)
    return int(announcers)


@with_episub
def remove_missing(w: World, node: int, topic: int, place: int) -> None:
    """Remove the entry `place` of the missing messages, and free its announcers."""
    tree = trees(w)[node, topic]
    entry = pool(w)[lists.owner(w, node), place]
    cells(w)[node, column(w, entry[MESSAGE])] &= ~np.uint64(MISSING)
    free_all(w, node, entry[ANNOUNCERS])
    is_last = place == tree[MISSING_LAST]
    tree[MISSING_FIRST] = lists.without(w, node, tree[MISSING_FIRST], place)
    tree[MISSING_COUNT] -= 1
    if is_last and tree[MISSING_COUNT]:
        tree[MISSING_LAST] = last_of(w, node, tree[MISSING_FIRST])


@with_episub
def forget_announcer(w: World, node: int, topic: int, peer: int) -> None:
    """Remove a peer from the announcers in a topic, and remove the missing messages that no other peer announced."""
    entries = pool(w)[lists.owner(w, node)]
    place = trees(w)[node, topic, MISSING_FIRST]
    while place >= 0:
        following = entries[place, NEXT]
        at = lists.place_in(w, node, entries[place, ANNOUNCERS], peer)
        if at >= 0:
            entries[place, ANNOUNCERS] = lists.without(w, node, entries[place, ANNOUNCERS], at)
        if entries[place, ANNOUNCERS] < 0:
            remove_missing(w, node, topic, place)
        place = following


@with_episub
def announcer_to_ask(w: World, node: int, place: int) -> int:
    """Return the announcer that gets the GRAFT for the missing message of an entry at this touch (REPAIR-1)."""
    entries = pool(w)[lists.owner(w, node)]
    at = entries[place, ANNOUNCERS]
    for _ in range(announcer_in_turn(entries[place, TOUCHES], size_of(w, node, at))):
        at = entries[at, NEXT]
    return int(entries[at, PEER])
