"""Short lists of a node: answers to IWANT, counts of gossip, backoffs, events that wait for service.

Layout: a list is a chain of entries in `pool`. The fields of an entry are the index of the next entry, -1 at the end,
two keys and a value. A list is named by a field `head` of the node in `nodes32`, or in `more32` if `head` is NODE32
or more. The field has the index of the first entry, -1 for an empty list. The first entry is the newest one, except
in BACKLOG and UNWANTED_QUEUE, where it is the oldest one. Each thread has a line of `pool` with the entries of its
nodes.
"""

from __future__ import annotations

from hearsay.sim.array.compiling import inlined, kernel
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
    """Return the index in `pool` of a list's first entry, -1 for an empty list."""
    return nodes32(w)[node, head] if head < NODE32 else more32(w)[node, head - NODE32]


@inlined
def _set_field(w: World, node: int, field: int, place: int) -> None:
    """Set a field that has the index of a list's first or last entry."""
    if field < NODE32:
        nodes32(w)[node, field] = place
    else:
        more32(w)[node, field - NODE32] = place


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
    _set_field(w, node, head, entry_before(w, node, first_entry(w, node, head), first, second, value))


@kernel
def append(w: World, node: int, head: int, last: int, first: int, second: int, value: int) -> None:
    """Add an entry to the end of a list. `last` is the field with the index of the last entry."""
    place = entry_before(w, node, -1, first, second, value)
    if first_entry(w, node, head) < 0:
        _set_field(w, node, head, place)
    else:
        pool(w)[owner(w, node), first_entry(w, node, last), NEXT] = place
    _set_field(w, node, last, place)


@kernel
def find(w: World, node: int, head: int, first: int, second: int) -> int:
    """Return the index in `pool` of the entry with these keys, -1 if there is none."""
    return place_with(w, node, first_entry(w, node, head), first, second)


@kernel
def value(w: World, node: int, head: int, first: int, second: int, default: int) -> int:
    """Return the value of the entry with these keys, or `default` if there is none."""
    place = find(w, node, head, first, second)
    return pool(w)[owner(w, node), place, VALUE] if place >= 0 else default


@kernel
def increase(w: World, node: int, head: int, first: int, second: int, by: int) -> int:
    """Add `by` to the value of the entry with these keys, and return the sum. If there is no such entry, add one with
    the value `by`."""
    place = find(w, node, head, first, second)
    if place < 0:
        add(w, node, head, first, second, by)
        return by
    entry = pool(w)[owner(w, node), place]
    entry[VALUE] += by
    return entry[VALUE]


@kernel
def remove(w: World, node: int, head: int, first: int, second: int) -> None:
    """Remove all entries with these keys from a list; the key -1 matches every key."""
    entries = pool(w)[owner(w, node)]
    place = first_entry(w, node, head)
    while place >= 0:
        following = entries[place, NEXT]
        if (first < 0 or entries[place, FIRST] == first) and (second < 0 or entries[place, SECOND] == second):
            _set_field(w, node, head, without(w, node, first_entry(w, node, head), place))
        place = following


@kernel
def remove_up_to(w: World, node: int, head: int, last: int) -> None:
    """Remove all entries whose value is at most `last` from a list."""
    entries = pool(w)[owner(w, node)]
    place = first_entry(w, node, head)
    while place >= 0:
        following = entries[place, NEXT]
        if entries[place, VALUE] <= last:
            remove(w, node, head, entries[place, FIRST], entries[place, SECOND])
        place = following


@kernel
def length(w: World, node: int, head: int) -> int:
    return size_of(w, node, first_entry(w, node, head))


@kernel
def remove_last(w: World, node: int, head: int) -> None:
    """Remove the last entry of a list, which is the oldest one. The list must not be empty."""
    first = first_entry(w, node, head)
    _set_field(w, node, head, without(w, node, first, last_of(w, node, first)))


# Kernels for lists whose head may be in another array. `start` is the index of the first entry, -1 for an empty list.


@kernel
def entry_before(w: World, node: int, following: int, first: int, second: int, value: int) -> int:
    """Make an entry with these values, whose next entry is `following` (-1 for none). Return the index of the new
    entry."""
    place = new_entry(w, node)
    entry = pool(w)[owner(w, node), place]
    entry[NEXT] = following
    entry[FIRST] = first
    entry[SECOND] = second
    entry[VALUE] = value
    return place


@kernel
def size_of(w: World, node: int, start: int) -> int:
    """Return the number of entries of a list."""
    entries = pool(w)[owner(w, node)]
    count = 0
    place = start
    while place >= 0:
        count += 1
        place = entries[place, NEXT]
    return count


@kernel
def last_of(w: World, node: int, start: int) -> int:
    """Return the index of the last entry of a list that is not empty."""
    entries = pool(w)[owner(w, node)]
    place = start
    while entries[place, NEXT] >= 0:
        place = entries[place, NEXT]
    return int(place)


@kernel
def free_all(w: World, node: int, start: int) -> None:
    """Free all entries of a list."""
    th = owner(w, node)
    place = start
    while place >= 0:
        following = pool(w)[th, place, NEXT]
        free_entry(w, th, place)
        place = following


@kernel
def place_in(w: World, node: int, start: int, first: int) -> int:
    """Return the index in `pool` of the entry with this first key, -1 if the list has none."""
    entries = pool(w)[owner(w, node)]
    place = start
    while place >= 0 and entries[place, FIRST] != first:
        place = entries[place, NEXT]
    return int(place)


@kernel
def place_with(w: World, node: int, start: int, first: int, second: int) -> int:
    """Return the index in `pool` of the entry with these keys, -1 if the list has none."""
    entries = pool(w)[owner(w, node)]
    place = start
    while place >= 0 and (entries[place, FIRST] != first or entries[place, SECOND] != second):
        place = entries[place, NEXT]
    return int(place)


@kernel
def without(w: World, node: int, start: int, place: int) -> int:
    """Remove and free the entry `place` of a list; return the index of the entry that is the first one then."""
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
