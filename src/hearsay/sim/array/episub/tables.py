"""Small tables of a topic's overlay, whose keys are peers.

Layout: a table is a list in `pool`, whose head is the field `table` of `overlays`. An entry has the peer, a time or
-1, and a content that depends on the table.
"""

from __future__ import annotations

from hearsay.sim.array.episub.alarms import with_overlay
from hearsay.sim.array.world import lists
from hearsay.sim.array.world.layout import World, overlays, pool
from hearsay.sim.array.world.lists import FIRST, NEXT, SECOND, VALUE

PEER, DUE, CONTENT = FIRST, SECOND, VALUE
NONE = -1


@with_overlay
def place_of(w: World, node: int, topic: int, table: int, peer: int) -> int:
    """Return the index in `pool` of a peer's entry, -1 if there is none."""
    return lists.place_in(w, node, overlays(w)[node, topic, table], peer)


@with_overlay
def put(w: World, node: int, topic: int, table: int, peer: int, due: int, content: int) -> None:
    entries = pool(w)[lists.owner(w, node)]
    place = place_of(w, node, topic, table, peer)
    if place < 0:
        place = lists.new_entry(w, node)
        entries[place, NEXT] = overlays(w)[node, topic, table]
        entries[place, PEER] = peer
        overlays(w)[node, topic, table] = place
    entries[place, DUE] = due
    entries[place, CONTENT] = content


@with_overlay
def take(w: World, node: int, topic: int, table: int, peer: int) -> bool:
    """Remove a peer's entry; return whether there was one."""
    place = place_of(w, node, topic, table, peer)
    if place < 0:
        return False
    overlays(w)[node, topic, table] = lists.without(w, node, overlays(w)[node, topic, table], place)
    return True


@with_overlay
def clear(w: World, node: int, topic: int, table: int) -> None:
    th = lists.owner(w, node)
    place = overlays(w)[node, topic, table]
    while place >= 0:
        following = pool(w)[th, place, NEXT]
        lists.free_entry(w, th, place)
        place = following
    overlays(w)[node, topic, table] = NONE


@with_overlay
def size_of(w: World, node: int, topic: int, table: int) -> int:
    count = 0
    place = overlays(w)[node, topic, table]
    while place >= 0:
        count += 1
        place = pool(w)[lists.owner(w, node), place, NEXT]
    return count


@with_overlay
def first_overdue(w: World, now: int, node: int, topic: int, table: int) -> int:
    """Return the peer with the lowest number whose entry's time is over, -1 for none."""
    entries = pool(w)[lists.owner(w, node)]
    found = NONE
    place = overlays(w)[node, topic, table]
    while place >= 0:
        if 0 <= entries[place, DUE] <= now and (found < 0 or entries[place, PEER] < found):
            found = entries[place, PEER]
        place = entries[place, NEXT]
    return int(found)


@with_overlay
def earliest(w: World, node: int, topic: int, table: int, known: int) -> int:
    """Return the earliest of `known` and the times of the entries, -1 if none is a time."""
    entries = pool(w)[lists.owner(w, node)]
    place = overlays(w)[node, topic, table]
    while place >= 0:
        due = entries[place, DUE]
        if due >= 0 and (known < 0 or due < known):
            known = due
        place = entries[place, NEXT]
    return int(known)
