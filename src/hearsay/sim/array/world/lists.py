"""Short lists of a node: answers to IWANT, counts of gossip, backoffs, events that wait.

Layout: a list is a chain of entries in `pool`, whose fields are the index of the next entry, -1 at the end, two keys
and a value. The field `head` of a node in `nodes32`, from NODE32 on in `more32`, has the index of the list's newest
entry, -1 for an empty list. Entries of a node are taken from the line of `pool` of the thread that owns the node, and
freed there.
"""

from __future__ import annotations

from hearsay.sim.array.machine.compiling import inlined, kernel
from hearsay.sim.array.world.layout import (
    BLOCK_BITS,
    NODE32,
    POOL_FREE,
    POOL_FRESH,
    POOL_FULL,
    STATUS,
    THREADS,
    World,
    control,
    more32,
    nodes32,
    pool,
)

NEXT, FIRST, SECOND, VALUE = range(4)


@kernel
def owner(w: World, node: int) -> int:
    """Return the thread that handles a node; blocks of nodes are assigned round-robin."""
    return (node >> w[BLOCK_BITS]) % w[THREADS]


@inlined
def first_entry(w: World, node: int, head: int) -> int:
    """Return the index in `pool` of a list's newest entry, -1 for an empty list."""
    return nodes32(w)[node, head] if head < NODE32 else more32(w)[node, head - NODE32]


@inlined
def _set_first_entry(w: World, node: int, head: int, place: int) -> None:
    if head < NODE32:
        nodes32(w)[node, head] = place
    else:
        more32(w)[node, head - NODE32] = place


@kernel
def new_entry(w: World, node: int) -> int:
    th = owner(w, node)
    line = control(w)[th]
    place = line[POOL_FREE]
    entries = pool(w)[th]
    if place >= 0:
        line[POOL_FREE] = entries[place, NEXT]
    else:
        place = line[POOL_FRESH]
        if place + 1 >= entries.shape[0]:
            w[STATUS] = POOL_FULL
            return place
        line[POOL_FRESH] = place + 1
    return place


@kernel
def free_entry(w: World, th: int, place: int) -> None:
    line = control(w)[th]
    pool(w)[th, place, NEXT] = line[POOL_FREE]
    line[POOL_FREE] = place


@kernel
def add(w: World, node: int, head: int, first: int, second: int, value: int) -> None:
    """Add an entry to the front of a list."""
    th = owner(w, node)
    place = new_entry(w, node)
    entry = pool(w)[th, place]
    entry[NEXT] = first_entry(w, node, head)
    entry[FIRST] = first
    entry[SECOND] = second
    entry[VALUE] = value
    _set_first_entry(w, node, head, place)


@kernel
def find(w: World, node: int, head: int, first: int, second: int) -> int:
    """Return the index in `pool` of the entry with these keys, -1 if there is none."""
    entries = pool(w)[owner(w, node)]
    place = first_entry(w, node, head)
    while place >= 0 and (entries[place, FIRST] != first or entries[place, SECOND] != second):
        place = entries[place, NEXT]
    return place


@kernel
def value(w: World, node: int, head: int, first: int, second: int, default: int) -> int:
    """Return the value of the entry with these keys, or `default`."""
    place = find(w, node, head, first, second)
    return pool(w)[owner(w, node), place, VALUE] if place >= 0 else default


@kernel
def increase(w: World, node: int, head: int, first: int, second: int, by: int) -> int:
    """Add `by` to the value of the entry with these keys, a new one with value 0 if there is none; return the sum."""
    place = find(w, node, head, first, second)
    if place < 0:
        add(w, node, head, first, second, by)
        return by
    entry = pool(w)[owner(w, node), place]
    entry[VALUE] += by
    return entry[VALUE]


@kernel
def remove(w: World, node: int, head: int, first: int, second: int) -> None:
    """Remove all entries with these keys; -1 matches any."""
    if first_entry(w, node, head) < 0:
        return
    th = owner(w, node)
    entries = pool(w)[th]
    before = -1
    place = first_entry(w, node, head)
    while place >= 0:
        following = entries[place, NEXT]
        if (first < 0 or entries[place, FIRST] == first) and (second < 0 or entries[place, SECOND] == second):
            if before < 0:
                _set_first_entry(w, node, head, following)
            else:
                entries[before, NEXT] = following
            free_entry(w, th, place)
        else:
            before = place
        place = following


@kernel
def length(w: World, node: int, head: int) -> int:
    entries = pool(w)[owner(w, node)]
    count = 0
    place = first_entry(w, node, head)
    while place >= 0:
        count += 1
        place = entries[place, NEXT]
    return count


@kernel
def remove_last(w: World, node: int, head: int) -> None:
    """Remove the oldest entry, which is the last one."""
    th = owner(w, node)
    entries = pool(w)[th]
    before = -1
    place = first_entry(w, node, head)
    while entries[place, NEXT] >= 0:
        before = place
        place = entries[place, NEXT]
    if before < 0:
        _set_first_entry(w, node, head, -1)
    else:
        entries[before, NEXT] = -1
    free_entry(w, th, place)


# Lists whose head is in another array. `start` is the index of the list's first entry, -1 for an empty list.


@kernel
def place_in(w: World, node: int, start: int, first: int) -> int:
    """Return the index in `pool` of the entry with this first key, -1 if the list has none."""
    entries = pool(w)[owner(w, node)]
    place = start
    while place >= 0 and entries[place, FIRST] != first:
        place = entries[place, NEXT]
    return int(place)


@kernel
def without(w: World, node: int, start: int, place: int) -> int:
    """Remove and free the entry `place` of a list; return the index of the list's first entry after that."""
    th = owner(w, node)
    entries = pool(w)[th]
    following = entries[place, NEXT]
    if place == start:
        free_entry(w, th, place)
        return int(following)
    before = start
    while entries[before, NEXT] != place:
        before = entries[before, NEXT]
    entries[before, NEXT] = following
    free_entry(w, th, place)
    return int(start)
