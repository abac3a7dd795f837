"""The active and the passive list of a topic (`core.episub.views`).

Layout: both lists are in `view_peers`, each ascending: the active list from index 0, the passive list from
MOST_ACTIVE on. `view_notes` has a number at the same index. For a passive peer it is the round-trip time in
microseconds plus one, or 0 if that time is unknown. For a neighbour it is twice this number, plus one if the link is
random. All other links are near: `relabel` makes the links with the shortest round-trip times near.
"""

from __future__ import annotations

import numpy as np

from hearsay.core.rules.randomness import Purpose
from hearsay.sim.array.compiling import kernel, lower_bound
from hearsay.sim.array.episub.basics import NONE, place_of, with_overlay
from hearsay.sim.array.episub.tree import neighbour_down, neighbour_up
from hearsay.sim.array.world.draws import below, draw_topic, extend, sort_by_keys
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
    """Return the index of a peer in the active list, -1 if the peer is no neighbour."""
    return _place_in(w, node, topic, peer, 0, overlays(w)[node, topic, ACTIVE_COUNT])


@with_overlay
def passive_place(w: World, node: int, topic: int, peer: int) -> int:
    """Return the index of a peer in the passive list, -1 if the peer is not in that list."""
    return _place_in(w, node, topic, peer, w[MOST_ACTIVE], overlays(w)[node, topic, PASSIVE_COUNT])


@with_overlay
def _place_in(w: World, node: int, topic: int, peer: int, first: int, count: int) -> int:
    """Return the index of a peer in the node's row of `view_peers`, or -1; search `count` entries from `first` on."""
    known = view_peers(w)[node, topic]
    place = lower_bound(known, first, first + count, peer)
    return place if place < first + count and known[place] == peer else NONE


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
def is_random(w: World, node: int, topic: int, neighbour: int) -> bool:
    """Return whether the link to a neighbour is random."""
    return view_notes(w)[node, topic, active_place(w, node, topic, neighbour)] & 1 != 0


@with_overlay
def rtt(w: World, node: int, topic: int, peer: int) -> int:
    """Return the round-trip time to a peer of either list in microseconds; -1 if the time is unknown, or if the peer
    is in neither list."""
    place = active_place(w, node, topic, peer)
    if place >= 0:
        return int(view_notes(w)[node, topic, place] >> 1) - 1
    place = passive_place(w, node, topic, peer)
    return int(view_notes(w)[node, topic, place]) - 1 if place >= 0 else -1


@with_overlay
def add_active(w: World, th: int, now: int, node: int, topic: int, peer: int, random: bool) -> None:
    """Make a connected peer a neighbour. If the peer is in the passive list, remove it there."""
    known = rtt(w, node, topic, peer)
    remove_passive(w, th, now, node, topic, peer)
    count = overlays(w)[node, topic, ACTIVE_COUNT]
    _insert(w, node, topic, 0, count, peer, (known + 1) << 1 | int(random))
    overlays(w)[node, topic, ACTIVE_COUNT] = count + 1
    neighbour_up(w, th, now, node, find_slot(w, node, peer), topic)


@with_overlay
def remove_active(w: World, th: int, now: int, node: int, topic: int, peer: int, remember: bool) -> None:
    """Remove a neighbour. With `remember` the peer is still in the overlay, so it becomes a passive entry."""
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
    """Add a peer to the passive list, unless `is_new` is False for it. If the list is full, remove a random entry
    first (VIEW-1)."""
    if not is_new(w, node, topic, peer):
        return
    if overlays(w)[node, topic, PASSIVE_COUNT] >= overlays(w)[node, topic, SIZE_PASSIVE]:
        count = overlays(w)[node, topic, PASSIVE_COUNT]
        draw = draw_topic(w, Purpose.PASSIVE_EVICT, node, topic, now)
        chosen = w[MOST_ACTIVE] + below(extend(draw, np.uint64(peer)), count)
        remove_passive(w, th, now, node, topic, view_peers(w)[node, topic, chosen])
    insert_passive(w, th, now, node, topic, peer)


@with_overlay
def is_new(w: World, node: int, topic: int, peer: int) -> bool:
    """Return whether a peer is in neither list and is not the node itself."""
    if peer == node or is_active(w, node, topic, peer):
        return False
    return passive_place(w, node, topic, peer) < 0


@with_overlay
def insert_passive(w: World, th: int, now: int, node: int, topic: int, peer: int) -> None:
    """Add a peer to the passive list, which must have room; the peer must be in neither list."""
    count = overlays(w)[node, topic, PASSIVE_COUNT]
    _insert(w, node, topic, w[MOST_ACTIVE], count, peer, 0)
    overlays(w)[node, topic, PASSIVE_COUNT] = count + 1
    row(w, th, passive_add_row(now, node, peer, topic))


@with_overlay
def remove_passive(w: World, th: int, now: int, node: int, topic: int, peer: int) -> bool:
    """Remove a peer from the passive list; return whether it was there."""
    place = passive_place(w, node, topic, peer)
    if place < 0:
        return False
    count = overlays(w)[node, topic, PASSIVE_COUNT]
    _remove(w, node, topic, place, w[MOST_ACTIVE] + count)
    overlays(w)[node, topic, PASSIVE_COUNT] = count - 1
    row(w, th, passive_remove_row(now, node, peer, topic))
    return True


@with_overlay
def store_rtt(w: World, node: int, topic: int, peer: int, rtt_us: int) -> None:
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


# Choices among peers. `candidates` has peers here, in ascending order unless a kernel has sorted them otherwise.


@with_overlay
def neighbours(w: World, th: int, node: int, topic: int, without: int, nor: int) -> int:
    """Write the neighbours except `without` and `nor` to `candidates`, and return their number."""
    return _collect(w, th, node, topic, 0, overlays(w)[node, topic, ACTIVE_COUNT], without, nor)


@with_overlay
def passive_peers(w: World, th: int, node: int, topic: int, without: int) -> int:
    """Write the passive peers except `without` to `candidates`, and return their number."""
    return _collect(w, th, node, topic, w[MOST_ACTIVE], overlays(w)[node, topic, PASSIVE_COUNT], without, NONE)


@with_overlay
def without_entries(w: World, th: int, node: int, topic: int, size: int, table: int) -> int:
    """Remove from the first `size` candidates those that have an entry in a table, and return the number of the
    others."""
    known = candidates(w)[th]
    left = 0
    for place in range(size):
        if place_of(w, node, topic, table, known[place]) < 0:
            known[left] = known[place]
            left += 1
    return left


@with_overlay
def _collect(w: World, th: int, node: int, topic: int, first: int, count: int, without: int, nor: int) -> int:
    known = candidates(w)[th]
    size = 0
    for place in range(first, first + count):
        peer = view_peers(w)[node, topic, place]
        if peer != without and peer != nor:
            known[size] = peer
            size += 1
    return size


@with_overlay
def sort_by_rtt(w: World, th: int, node: int, topic: int, size: int, by_kind: bool) -> None:
    """Sort the first `size` candidates by round-trip time, those with unknown times last. Among equal times, with
    `by_kind` near links come before random ones; then peers ascend."""
    known = candidates(w)[th]
    ranks = keys(w)[th]
    for place in range(size):
        time = rtt(w, node, topic, known[place])
        rank = np.uint64(UNMEASURED_US if time < 0 else time) << np.uint64(1)
        if by_kind:
            rank |= np.uint64(int(is_random(w, node, topic, known[place])))
        ranks[place] = rank
    sort_by_keys(w, th, 0, size)


@with_overlay
def sort_by_chance(w: World, th: int, state: Word, size: int) -> None:
    """Put the first `size` candidates in random order; `state` is a draw."""
    for place in range(size):
        keys(w)[th, place] = extend(state, np.uint64(candidates(w)[th, place]))
    sort_by_keys(w, th, 0, size)


@with_overlay
def relabel(w: World, th: int, node: int, topic: int, random_wanted: int, near_wanted: int) -> None:
    """Label the links with the shortest round-trip times as near, and all others as random (VIEW-2)."""
    count = overlays(w)[node, topic, ACTIVE_COUNT]
    keep = min(random_links(w, node, topic), max(random_wanted, count - near_wanted))
    neighbours(w, th, node, topic, NONE, NONE)
    sort_by_rtt(w, th, node, topic, count, True)
    for place in range(count):
        at = active_place(w, node, topic, candidates(w)[th, place])
        note = view_notes(w)[node, topic, at]
        view_notes(w)[node, topic, at] = note & ~1 | int(place >= count - keep)


@with_overlay
def farthest_near(w: World, node: int, topic: int, unknown_us: int) -> int:
    """Return the neighbour with a near link whose round-trip time is longest, -1 if there is none.

    `unknown_us` is used for an unknown round-trip time; with -1, neighbours with an unknown time are left out.
    """
    found = NONE
    longest = -1
    for place in range(overlays(w)[node, topic, ACTIVE_COUNT]):
        note = view_notes(w)[node, topic, place]
        time = (note >> 1) - 1 if note > 1 else unknown_us
        if not note & 1 and time >= 0 and time >= longest:
            longest = time
            found = view_peers(w)[node, topic, place]
    return int(found)
