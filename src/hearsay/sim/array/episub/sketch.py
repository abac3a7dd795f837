"""The estimated size of an overlay, and the sizes of lists that follow from it (`core.episub.views.TargetSizes`).

The sketch has the smallest hashes of nodes in the overlay; the larger the overlay, the smaller they are.

Layout: the sketch is a list in `pool` of hashes, ascending, each with its age in shuffles of the node.
"""

from __future__ import annotations

from math import isqrt

import numpy as np

from hearsay.core.shell.randomness import Purpose
from hearsay.sim.array.episub.alarms import with_overlay
from hearsay.sim.array.episub.overlay_parts import write
from hearsay.sim.array.episub.tables import clear
from hearsay.sim.array.episub.views import draw_view, remove_passive
from hearsay.sim.array.machine.compiling import kernel
from hearsay.sim.array.world import lists
from hearsay.sim.array.world.draws import below, extend
from hearsay.sim.array.world.layout import (
    ACTIVE_LIMIT,
    IS_ESTIMATED,
    MOST_ACTIVE,
    PASSIVE_COUNT,
    PASSIVE_FACTOR,
    SIZE_ACTIVE,
    SIZE_CONSTANT,
    SIZE_PASSIVE,
    SIZE_RANDOM,
    SKETCH,
    World,
    arena,
    overlays,
    pool,
    view_peers,
)
from hearsay.sim.array.world.lists import FIRST, NEXT, SECOND
from hearsay.sim.array.world.slots import parameter

_SIZE = 32
_LIFETIME = 30
_AGE_BITS = 8
_SPACE = 1 << 56
_SALT = np.uint64(0x5CA1AB1E)
_HALVES_OF_TENS = tuple(isqrt(10 ** (2 * power + 1) - 1) + 1 for power in range(18))
"""For 1, 2, 3, …: the smallest number of nodes whose decimal logarithm is rounded to it (SKETCH-1)."""


@kernel
def _own_hash(node: int) -> int:
    return int(extend(_SALT, np.uint64(node)) >> np.uint64(_AGE_BITS))


@with_overlay
def _put_hash(w: World, node: int, topic: int, known: int, age: int) -> None:
    """Insert a hash into the sketch. If it is there already, keep the lower of the two ages."""
    entries = pool(w)[lists.owner(w, node)]
    before = -1
    place = overlays(w)[node, topic, SKETCH]
    while place >= 0 and entries[place, FIRST] < known:
        before = place
        place = entries[place, NEXT]
    if place >= 0 and entries[place, FIRST] == known:
        entries[place, SECOND] = min(age, entries[place, SECOND])
        return
    fresh = lists.new_entry(w, node)
    entries[fresh, NEXT] = place
    entries[fresh, FIRST] = known
    entries[fresh, SECOND] = age
    if before >= 0:
        entries[before, NEXT] = fresh
    else:
        overlays(w)[node, topic, SKETCH] = fresh


@with_overlay
def begin_sketch(w: World, node: int, topic: int) -> None:
    clear(w, node, topic, SKETCH)
    if parameter(w, node, IS_ESTIMATED):
        _put_hash(w, node, topic, _own_hash(node), 0)


@with_overlay
def age_sketch(w: World, th: int, now: int, node: int, topic: int) -> None:
    """Add 1 to the ages of all hashes, remove those that are too old, and set the node's own to age 0."""
    if not parameter(w, node, IS_ESTIMATED):
        return
    thread = lists.owner(w, node)
    entries = pool(w)[thread]
    before = -1
    place = overlays(w)[node, topic, SKETCH]
    while place >= 0:
        following = entries[place, NEXT]
        if entries[place, SECOND] < _LIFETIME:
            entries[place, SECOND] += 1
            before = place
        else:
            if before >= 0:
                entries[before, NEXT] = following
            else:
                overlays(w)[node, topic, SKETCH] = following
            lists.free_entry(w, thread, place)
        place = following
    _put_hash(w, node, topic, _own_hash(node), 0)
    _resize(w, node, topic)


@with_overlay
def write_sketch(w: World, th: int, node: int, topic: int) -> None:
    """Add the sketch to the part that is being written."""
    if not parameter(w, node, IS_ESTIMATED):
        return
    entries = pool(w)[lists.owner(w, node)]
    place = overlays(w)[node, topic, SKETCH]
    for _ in range(_SIZE):
        if place < 0:
            return
        word = np.uint64(entries[place, FIRST]) << np.uint64(_AGE_BITS) | np.uint64(entries[place, SECOND])
        write(w, th, int(np.int64(word)))
        place = entries[place, NEXT]


@with_overlay
def merge_sketch(w: World, th: int, now: int, node: int, topic: int, first: int, end: int) -> None:
    """Merge the sketch of another node, in the arena from `first` to `end`, into the node's sketch."""
    if not parameter(w, node, IS_ESTIMATED):
        return
    for at in range(first, min(end, first + _SIZE)):
        word = np.uint64(arena(w)[at])
        age = int(word & np.uint64((1 << _AGE_BITS) - 1))
        if age <= _LIFETIME:
            _put_hash(w, node, topic, int(word >> np.uint64(_AGE_BITS)), age)
    _cut(w, node, topic)
    _resize(w, node, topic)
    follow_size(w, th, now, node, topic)


@with_overlay
def _cut(w: World, node: int, topic: int) -> None:
    """Remove all but the _SIZE smallest hashes."""
    thread = lists.owner(w, node)
    entries = pool(w)[thread]
    place = overlays(w)[node, topic, SKETCH]
    for _ in range(_SIZE - 1):
        if place < 0:
            return
        place = entries[place, NEXT]
    if place < 0:
        return
    following = entries[place, NEXT]
    entries[place, NEXT] = -1
    while following >= 0:
        place = following
        following = entries[place, NEXT]
        lists.free_entry(w, thread, place)


@with_overlay
def _estimate(w: World, node: int, topic: int) -> int:
    """Return the estimated number of nodes."""
    entries = pool(w)[lists.owner(w, node)]
    count = 0
    place = overlays(w)[node, topic, SKETCH]
    while place >= 0:
        count += 1
        if count == _SIZE:
            return (_SIZE - 1) * _SPACE // max(1, entries[place, FIRST])
        place = entries[place, NEXT]
    return count


@with_overlay
def _resize(w: World, node: int, topic: int) -> None:
    estimate = _estimate(w, node, topic)
    magnitude = 0
    for half in _HALVES_OF_TENS:
        magnitude += int(estimate >= half)
    limit = parameter(w, node, ACTIVE_LIMIT)
    line = overlays(w)[node, topic]
    line[SIZE_RANDOM] = min(max(1, magnitude), limit)
    line[SIZE_ACTIVE] = min(line[SIZE_RANDOM] + parameter(w, node, SIZE_CONSTANT), limit)
    line[SIZE_PASSIVE] = parameter(w, node, PASSIVE_FACTOR) * line[SIZE_ACTIVE]


@with_overlay
def follow_size(w: World, th: int, now: int, node: int, topic: int) -> None:
    """Remove random entries from the passive list until it has SIZE_PASSIVE."""
    line = overlays(w)[node, topic]
    while line[PASSIVE_COUNT] > line[SIZE_PASSIVE]:
        count = line[PASSIVE_COUNT]
        state = extend(draw_view(w, Purpose.PASSIVE_EVICT, now, node, topic), np.uint64(count))
        remove_passive(w, th, now, node, topic, view_peers(w)[node, topic, w[MOST_ACTIVE] + below(state, count)])
