"""The active and the passive list of a topic (`core.episub.views`).

Layout: both lists are in `view_peers`, each ascending: the active list from index 0, the passive list from
MOST_ACTIVE on. `view_notes` has the round-trip time of the same entry in microseconds plus one, 0 if it is unknown;
in the active list this is doubled, plus one for a random link. A link that is not random is near.
"""

from __future__ import annotations

import numpy as np

from hearsay.core.shell.randomness import Purpose
from hearsay.sim.array.episub.tables import NONE, with_overlay
from hearsay.sim.array.episub.tree import neighbour_down, neighbour_up
from hearsay.sim.array.machine.compiling import kernel
from hearsay.sim.array.world.draws import below, draw_topic, extend
from hearsay.sim.array.world.layout import (
    ACTIVE_COUNT,
    MOST_ACTIVE,
    PASSIVE_COUNT,
    SIZE_PASSIVE,
    Word,
    World,
    candidates,
    keys,
    overlays,
    view_notes,
    view_peers,
)
from hearsay.sim.array.world.record import row
from hearsay.sim.array.world.slots import find_slot
from hearsay.trace.language.event_rows import passive_add_row, passive_remove_row

UNMEASURED_US = 1 << 62
_NEW_SAMPLE_SHARE = 8


@with_overlay
def active_place(w: World, node: int, topic: int, peer: int) -> int:
    """Return the index of a peer in the active list, -1 if it is no neighbour."""
    for place in range(overlays(w)[node, topic, ACTIVE_COUNT]):
        if view_peers(w)[node, topic, place] == peer:
            return place
    return NONE


@with_overlay
def passive_place(w: World, node: int, topic: int, peer: int) -> int:
    first = w[MOST_ACTIVE]
    low = first
    high = first + overlays(w)[node, topic, PASSIVE_COUNT]
    while low < high:
        middle = (low + high) // 2
        if view_peers(w)[node, topic, middle] < peer:
            low = middle + 1
        else:
            high = middle
    if low < first + overlays(w)[node, topic, PASSIVE_COUNT] and view_peers(w)[node, topic, low] == peer:
        return int(low)
    return NONE


@with_overlay
def is_active(w: World, node: int, topic: int, peer: int) -> bool:
    return active_place(w, node, topic, peer) >= 0


@with_overlay
def _insert(w: World, node: int, topic: int, first: int, count: int, peer: int, note: int) -> None:
    numbers = view_peers(w)[node, topic]
    notes = view_notes(w)[node, topic]
    place = first + count
    while place > first and numbers[place - 1] > peer:
        numbers[place] = numbers[place - 1]
        notes[place] = notes[place - 1]
        place -= 1
    numbers[place] = peer
    notes[place] = note


@with_overlay
def _remove(w: World, node: int, topic: int, place: int, end: int) -> None:
    numbers = view_peers(w)[node, topic]
    notes = view_notes(w)[node, topic]
    for at in range(place, end - 1):
        numbers[at] = numbers[at + 1]
        notes[at] = notes[at + 1]


@with_overlay
def random_links(w: World, node: int, topic: int) -> int:
    count = 0
    for place in range(overlays(w)[node, topic, ACTIVE_COUNT]):
        count += view_notes(w)[node, topic, place] & 1
    return count


@with_overlay
def rtt(w: World, node: int, topic: int, peer: int) -> int:
    """Return the round-trip time to a peer of either list in microseconds, -1 if it is unknown."""
    place = active_place(w, node, topic, peer)
    if place >= 0:
        return int(view_notes(w)[node, topic, place] >> 1) - 1
    place = passive_place(w, node, topic, peer)
    return int(view_notes(w)[node, topic, place]) - 1 if place >= 0 else -1


@with_overlay
def add_active(w: World, th: int, now: int, node: int, topic: int, peer: int, random: bool) -> None:
    known = rtt(w, node, topic, peer)
    remove_passive(w, th, now, node, topic, peer)
    count = overlays(w)[node, topic, ACTIVE_COUNT]
    _insert(w, node, topic, 0, count, peer, (known + 1) << 1 | int(random))
    overlays(w)[node, topic, ACTIVE_COUNT] = count + 1
    neighbour_up(w, th, now, node, find_slot(w, node, peer), topic)


@with_overlay
def remove_active(w: World, th: int, now: int, node: int, topic: int, peer: int, remember: bool) -> None:
    """Remove a neighbour; with `remember` it becomes a passive entry, because it is still in the overlay."""
    place = active_place(w, node, topic, peer)
    known = view_notes(w)[node, topic, place] >> 1
    count = overlays(w)[node, topic, ACTIVE_COUNT]
    _remove(w, node, topic, place, count)
    overlays(w)[node, topic, ACTIVE_COUNT] = count - 1
    neighbour_down(w, th, now, node, find_slot(w, node, peer), topic, remember)
    if remember:
        add_passive(w, th, now, node, topic, peer)
        at = passive_place(w, node, topic, peer)
        if at >= 0:
            view_notes(w)[node, topic, at] = known


@with_overlay
def add_passive(w: World, th: int, now: int, node: int, topic: int, peer: int) -> None:
    """Add a peer to the passive list; if the list is full, remove a random entry first (VIEW-1)."""
    if not is_new(w, node, topic, peer):
        return
    if is_passive_full(w, node, topic):
        count = overlays(w)[node, topic, PASSIVE_COUNT]
        draw = draw_view(w, Purpose.PASSIVE_EVICT, now, node, topic)
        chosen = w[MOST_ACTIVE] + below(extend(draw, np.uint64(peer)), count)
        remove_passive(w, th, now, node, topic, view_peers(w)[node, topic, chosen])
    insert_passive(w, th, now, node, topic, peer)


@with_overlay
def is_new(w: World, node: int, topic: int, peer: int) -> bool:
    """Return whether a peer is in neither list, and is not the node itself."""
    if peer == node or is_active(w, node, topic, peer):
        return False
    return passive_place(w, node, topic, peer) < 0


@with_overlay
def is_passive_full(w: World, node: int, topic: int) -> bool:
    return overlays(w)[node, topic, PASSIVE_COUNT] >= overlays(w)[node, topic, SIZE_PASSIVE]


@with_overlay
def insert_passive(w: World, th: int, now: int, node: int, topic: int, peer: int) -> None:
    count = overlays(w)[node, topic, PASSIVE_COUNT]
    _insert(w, node, topic, w[MOST_ACTIVE], count, peer, 0)
    overlays(w)[node, topic, PASSIVE_COUNT] = count + 1
    row(w, th, passive_add_row(now, node, peer, topic))


@with_overlay
def remove_passive(w: World, th: int, now: int, node: int, topic: int, peer: int) -> bool:
    """Remove a passive entry; return whether there was one."""
    place = passive_place(w, node, topic, peer)
    if place < 0:
        return False
    count = overlays(w)[node, topic, PASSIVE_COUNT]
    _remove(w, node, topic, place, w[MOST_ACTIVE] + count)
    overlays(w)[node, topic, PASSIVE_COUNT] = count - 1
    row(w, th, passive_remove_row(now, node, peer, topic))
    return True


@with_overlay
def measured_view(w: World, node: int, topic: int, peer: int, rtt_us: int) -> None:
    """Update the smoothed round-trip time of a peer in either list by a measured one (VIEW-3)."""
    place = active_place(w, node, topic, peer)
    if place >= 0:
        note = view_notes(w)[node, topic, place]
        view_notes(w)[node, topic, place] = (_smoothed((note >> 1) - 1, rtt_us) + 1) << 1 | note & 1
        return
    place = passive_place(w, node, topic, peer)
    if place >= 0:
        view_notes(w)[node, topic, place] = _smoothed(view_notes(w)[node, topic, place] - 1, rtt_us) + 1


@kernel
def _smoothed(before_us: int, sample_us: int) -> int:
    if before_us < 0:
        return sample_us
    return before_us + (sample_us - before_us) // _NEW_SAMPLE_SHARE


# Choices. `candidates` has peers here, ascending before they are sorted.


@kernel
def draw_view(w: World, purpose: int, now: int, node: int, topic: int) -> Word:
    return draw_topic(w, purpose, node, topic, now)


@with_overlay
def neighbours(w: World, th: int, node: int, topic: int, without: int, nor: int) -> int:
    """Collect the neighbours, except the peers `without` and `nor`, as candidates; return their number."""
    known = candidates(w)[th]
    size = 0
    for place in range(overlays(w)[node, topic, ACTIVE_COUNT]):
        peer = view_peers(w)[node, topic, place]
        if peer != without and peer != nor:
            known[size] = peer
            size += 1
    return size


@with_overlay
def passive_peers(w: World, th: int, node: int, topic: int, without: int) -> int:
    """Collect the passive list, except the peer `without`, as candidates; return their number."""
    known = candidates(w)[th]
    size = 0
    for place in range(w[MOST_ACTIVE], w[MOST_ACTIVE] + overlays(w)[node, topic, PASSIVE_COUNT]):
        peer = view_peers(w)[node, topic, place]
        if peer != without:
            known[size] = peer
            size += 1
    return size


@with_overlay
def sort_by_rtt(w: World, th: int, node: int, topic: int, size: int, by_kind: bool) -> None:
    """Sort candidates by round-trip time, unknown times last; with `by_kind`, near links before equal random ones."""
    known = candidates(w)[th]
    ranks = keys(w)[th]
    for place in range(size):
        time = rtt(w, node, topic, known[place])
        rank = np.uint64(UNMEASURED_US if time < 0 else time) << np.uint64(1)
        if by_kind:
            rank |= np.uint64(view_notes(w)[node, topic, active_place(w, node, topic, known[place])] & 1)
        ranks[place] = rank
    _sort_ranked(w, th, size)


@with_overlay
def sort_by_chance(w: World, th: int, state: Word, size: int) -> None:
    """Put candidates in random order."""
    for place in range(size):
        keys(w)[th, place] = extend(state, np.uint64(candidates(w)[th, place]))
    _sort_ranked(w, th, size)


@with_overlay
def _sort_ranked(w: World, th: int, size: int) -> None:
    """Sort candidates by their keys, and those with equal keys by peer, ascending."""
    known = candidates(w)[th]
    ranks = keys(w)[th]
    for place in range(1, size):
        peer = known[place]
        rank = ranks[place]
        at = place
        while at > 0 and (ranks[at - 1] > rank or (ranks[at - 1] == rank and known[at - 1] > peer)):
            known[at] = known[at - 1]
            ranks[at] = ranks[at - 1]
            at -= 1
        known[at] = peer
        ranks[at] = rank


@with_overlay
def relabel(w: World, th: int, node: int, topic: int, random_wanted: int, near_wanted: int) -> None:
    """Make the links with the shortest round-trip times the near ones, and the others random (VIEW-2)."""
    count = overlays(w)[node, topic, ACTIVE_COUNT]
    keep = min(random_links(w, node, topic), max(random_wanted, count - near_wanted))
    neighbours(w, th, node, topic, NONE, NONE)
    sort_by_rtt(w, th, node, topic, count, True)
    for place in range(count):
        at = active_place(w, node, topic, candidates(w)[th, place])
        note = view_notes(w)[node, topic, at]
        view_notes(w)[node, topic, at] = note & ~1 | int(place >= count - keep)


@with_overlay
def farthest_near(w: World, node: int, topic: int) -> int:
    """Return the neighbour by a near link with the longest known round-trip time, -1 for none."""
    found = NONE
    longest = -1
    for place in range(overlays(w)[node, topic, ACTIVE_COUNT]):
        note = view_notes(w)[node, topic, place]
        time = (note >> 1) - 1
        if not note & 1 and time >= 0 and time >= longest:
            longest = time
            found = view_peers(w)[node, topic, place]
    return int(found)
