"""Messages that a tree knows from announcements only (`core.episub.caches.MissingList`).

Layout: these messages have the bit MISSING in their cells. `trees` has the head of a list in `pool`, the oldest
first. An entry has the message, how often the timer has handled it (touches), and the first entry of the list of its
announcers. An entry of an announcer has the peer and the hops that it announced."""

from __future__ import annotations

import numpy as np

from hearsay.core.rules.tree_rules import announcer_in_turn
from hearsay.sim.array.episub.alarms import with_episub
from hearsay.sim.array.world import lists
from hearsay.sim.array.world.knowledge import bits, column
from hearsay.sim.array.world.layout import (
    MAX_ANNOUNCERS,
    MAX_MISSING,
    MISSING,
    MISSING_COUNT,
    MISSING_FIRST,
    MISSING_LAST,
    World,
    cells,
    pool,
    trees,
)
from hearsay.sim.array.world.lists import FIRST, NEXT, SECOND, VALUE
from hearsay.sim.array.world.slots import parameter

MESSAGE, TOUCHES, ANNOUNCERS = FIRST, SECOND, VALUE
PEER, HOPS = FIRST, SECOND
_NONE = -1


@with_episub
def announce(w: World, node: int, topic: int, message: int, peer: int, hops: int) -> int:
    """Note an announcement. If that removes the oldest missing message, return its first announcer, else -1."""
    tree = trees(w)[node, topic]
    entries = pool(w)[lists.owner(w, node)]
    at = column(w, message)
    if bits(cells(w)[node, at], MISSING):
        _add_announcer(w, node, _find(w, node, topic, message), peer, hops)
        return _NONE
    place = lists.new_entry(w, node)
    entry = entries[place]
    entry[NEXT] = _NONE
    entry[MESSAGE] = message
    entry[TOUCHES] = 0
    entry[ANNOUNCERS] = _NONE
    _add_announcer(w, node, place, peer, hops)
    if tree[MISSING_COUNT]:
        entries[tree[MISSING_LAST], NEXT] = place
    else:
        tree[MISSING_FIRST] = place
    tree[MISSING_LAST] = place
    tree[MISSING_COUNT] += 1
    cells(w)[node, at] |= np.uint64(MISSING)
    if tree[MISSING_COUNT] <= parameter(w, node, MAX_MISSING):
        return _NONE
    oldest = tree[MISSING_FIRST]
    pushed_out = entries[entries[oldest, ANNOUNCERS], PEER]
    remove_missing(w, node, topic, oldest, _NONE)
    return int(pushed_out)


@with_episub
def _find(w: World, node: int, topic: int, message: int) -> int:
    entries = pool(w)[lists.owner(w, node)]
    place = trees(w)[node, topic, MISSING_FIRST]
    while entries[place, MESSAGE] != message:
        place = entries[place, NEXT]
    return int(place)


@with_episub
def _add_announcer(w: World, node: int, place: int, peer: int, hops: int) -> None:
    """Add a peer at the end of a message's announcers, unless it is one already or there are MAX_ANNOUNCERS."""
    entries = pool(w)[lists.owner(w, node)]
    last = _NONE
    count = 0
    at = entries[place, ANNOUNCERS]
    while at >= 0:
        if entries[at, PEER] == peer:
            return
        last = at
        count += 1
        at = entries[at, NEXT]
    if count > 0 and count >= parameter(w, node, MAX_ANNOUNCERS):
        return
    fresh = lists.new_entry(w, node)
    entries[fresh, NEXT] = _NONE
    entries[fresh, PEER] = peer
    entries[fresh, HOPS] = hops
    if last >= 0:
        entries[last, NEXT] = fresh
    else:
        entries[place, ANNOUNCERS] = fresh


@with_episub
def arrived(w: World, node: int, topic: int, message: int) -> int:
    """Remove a message that has arrived from the missing ones; return the index of its first announcer.

    Return -1 if the message was not missing. The caller frees the announcers (`free_announcers`).
    """
    if not bits(cells(w)[node, column(w, message)], MISSING):
        return _NONE
    entries = pool(w)[lists.owner(w, node)]
    before = _NONE
    place = trees(w)[node, topic, MISSING_FIRST]
    while entries[place, MESSAGE] != message:
        before = place
        place = entries[place, NEXT]
    announcers = entries[place, ANNOUNCERS]
    entries[place, ANNOUNCERS] = _NONE
    remove_missing(w, node, topic, place, before)
    return int(announcers)


@with_episub
def free_announcers(w: World, node: int, announcers: int) -> None:
    th = lists.owner(w, node)
    while announcers >= 0:
        following = pool(w)[th, announcers, NEXT]
        lists.free_entry(w, th, announcers)
        announcers = following


@with_episub
def remove_missing(w: World, node: int, topic: int, place: int, before: int) -> None:
    """Remove the missing message of an entry; `before` is the entry in front of it, -1 if it is the first."""
    tree = trees(w)[node, topic]
    th = lists.owner(w, node)
    entry = pool(w)[th, place]
    following = entry[NEXT]
    if before >= 0:
        pool(w)[th, before, NEXT] = following
    else:
        tree[MISSING_FIRST] = following
    if following < 0:
        tree[MISSING_LAST] = before
    tree[MISSING_COUNT] -= 1
    cells(w)[node, column(w, entry[MESSAGE])] &= ~np.uint64(MISSING)
    free_announcers(w, node, entry[ANNOUNCERS])
    lists.free_entry(w, th, place)


@with_episub
def forget_announcer(w: World, node: int, topic: int, peer: int) -> None:
    """Remove a peer from the announcers of a topic, and missing messages that no other peer announced."""
    th = lists.owner(w, node)
    entries = pool(w)[th]
    before = _NONE
    place = trees(w)[node, topic, MISSING_FIRST]
    while place >= 0:
        following = entries[place, NEXT]
        last = _NONE
        at = entries[place, ANNOUNCERS]
        while at >= 0 and entries[at, PEER] != peer:
            last = at
            at = entries[at, NEXT]
        if at >= 0:
            if last >= 0:
                entries[last, NEXT] = entries[at, NEXT]
            else:
                entries[place, ANNOUNCERS] = entries[at, NEXT]
            lists.free_entry(w, th, at)
        if entries[place, ANNOUNCERS] < 0:
            remove_missing(w, node, topic, place, before)
        else:
            before = place
        place = following


@with_episub
def forget_missing(w: World, node: int, topic: int) -> None:
    while trees(w)[node, topic, MISSING_COUNT] > 0:
        remove_missing(w, node, topic, trees(w)[node, topic, MISSING_FIRST], _NONE)


@with_episub
def announcer_to_ask(w: World, node: int, place: int) -> int:
    """Return the announcer that gets the next GRAFT for a missing message (REPAIR-1)."""
    entries = pool(w)[lists.owner(w, node)]
    count = 0
    at = entries[place, ANNOUNCERS]
    while at >= 0:
        count += 1
        at = entries[at, NEXT]
    at = entries[place, ANNOUNCERS]
    for _ in range(announcer_in_turn(entries[place, TOUCHES], count)):
        at = entries[at, NEXT]
    return int(entries[at, PEER])


@with_episub
def has_announced(w: World, node: int, place: int, peer: int) -> bool:
    entries = pool(w)[lists.owner(w, node)]
    at = entries[place, ANNOUNCERS]
    while at >= 0 and entries[at, PEER] != peer:
        at = entries[at, NEXT]
    return at >= 0
