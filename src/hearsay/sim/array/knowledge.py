"""What nodes know of messages.

Layout: what a node has seen and what it has cached is a bit each, in pairs of words (`known`), which are small and
asked for most often. Whatever else it knows of a message is one word, `cells(w)[node, column]`: bits ASKED, DELIVERED
and MISSED, the heartbeats in which it was seen and cached, and the hops it came. Columns are message numbers modulo
their count. `first_us` says when a message was first seen, where a run is long enough for that to be forgotten.
"""

from __future__ import annotations

import numpy as np

from hearsay.sim.array import lists
from hearsay.sim.array.compiling import inlined, kernel
from hearsay.sim.array.layout import (
    ANSWERS,
    BEATS,
    CACHE_BEAT,
    FIRST_MESSAGE,
    MAX_CACHED,
    MAX_CACHED_BINDS,
    MAX_SEEN,
    MAX_SEEN_BINDS,
    NEWEST,
    OLDEST,
    SEEN_BEAT,
    SEEN_EXPIRES,
    SEEN_TTL,
    SERIAL,
    TICK,
    Word,
    World,
    cache_serials,
    cells,
    first_us,
    known,
    nodes32,
    nodes64,
    seen_serials,
)
from hearsay.sim.array.outbox import column
from hearsay.sim.array.routers import parameter

_BEATS = np.uint64(BEATS)
_SEEN_BEAT_CLEAR = ~(_BEATS << np.uint64(SEEN_BEAT))
_CACHE_BEAT_CLEAR = ~(_BEATS << np.uint64(CACHE_BEAT))


@inlined
def bits(cell: Word, mask: int) -> bool:
    return cell & np.uint64(mask) != np.uint64(0)


@inlined
def _bit(at: int) -> Word:
    return np.uint64(1) << np.uint64(at & 63)


@inlined
def is_marked(w: World, node: int, at: int) -> bool:
    """Whether the message of a column was seen, without looking at the time."""
    return known(w)[node, at >> 6, 0] & _bit(at) != np.uint64(0)


@inlined
def is_cached(w: World, node: int, at: int) -> bool:
    return known(w)[node, at >> 6, 1] & _bit(at) != np.uint64(0)


@kernel
def has_cached(w: World, node: int) -> bool:
    for place in range(known(w).shape[1]):
        if known(w)[node, place, 1] != np.uint64(0):
            return True
    return False


@kernel
def unmark(w: World, node: int, at: int) -> None:
    known(w)[node, at >> 6, 0] &= ~_bit(at)


@inlined
def was_seen(w: World, now: int, node: int, message: int) -> bool:
    """Whether the router remembers a message."""
    if message < w[FIRST_MESSAGE]:
        return False
    at = column(w, message)
    if not is_marked(w, node, at):
        return False
    if w[SEEN_EXPIRES]:
        ttl = parameter(w, node, SEEN_TTL)
        if ttl and now >= first_us(w)[node, at] + ttl:
            unmark(w, node, at)
            return False
    return True


@kernel
def mark_seen(w: World, now: int, node: int, message: int) -> None:
    at = column(w, message)
    header = nodes32(w)[node]
    beat = np.uint64(header[TICK]) & _BEATS
    cells(w)[node, at] = cells(w)[node, at] & _SEEN_BEAT_CLEAR | beat << np.uint64(SEEN_BEAT)
    known(w)[node, at >> 6, 0] |= _bit(at)
    if w[SEEN_EXPIRES]:
        first_us(w)[node, at] = now
    header[OLDEST] = min(header[OLDEST], message)
    if w[MAX_SEEN_BINDS]:
        _forget_oldest_seen(w, now, node, at)


@kernel
def cache(w: World, now: int, node: int, message: int) -> None:
    at = column(w, message)
    if is_cached(w, node, at):
        return
    header = nodes32(w)[node]
    beat = np.uint64(header[TICK]) & _BEATS
    cells(w)[node, at] = cells(w)[node, at] & _CACHE_BEAT_CLEAR | beat << np.uint64(CACHE_BEAT)
    known(w)[node, at >> 6, 1] |= _bit(at)
    header[OLDEST] = min(header[OLDEST], message)
    if w[MAX_CACHED_BINDS]:
        _forget_oldest_cached(w, node, at)


@kernel
def _forget_oldest_seen(w: World, now: int, node: int, newest: int) -> None:
    """A seen cache that is full forgets its oldest entry; `serials` says in which order they came."""
    order = seen_serials(w)[node]
    nodes64(w)[node, SERIAL] += 1
    order[newest] = nodes64(w)[node, SERIAL]
    count = 0
    oldest = newest
    for message in range(w[FIRST_MESSAGE], w[NEWEST]):
        if was_seen(w, now, node, message):
            count += 1
            at = column(w, message)
            if order[at] < order[oldest]:
                oldest = at
    if count > parameter(w, node, MAX_SEEN):
        unmark(w, node, oldest)


@kernel
def _forget_oldest_cached(w: World, node: int, newest: int) -> None:
    """The same for a message cache."""
    order = cache_serials(w)[node]
    nodes64(w)[node, SERIAL] += 1
    order[newest] = nodes64(w)[node, SERIAL]
    count = 0
    oldest = newest
    gone = -1
    for message in range(w[FIRST_MESSAGE], w[NEWEST]):
        at = column(w, message)
        if is_cached(w, node, at):
            count += 1
            if order[at] <= order[oldest]:
                oldest = at
                gone = message
    if count > parameter(w, node, MAX_CACHED):
        forget_cached(w, node, gone)


@kernel
def forget_cached(w: World, node: int, message: int) -> None:
    """A message leaves the cache, and with it the answers that were counted for it."""
    at = column(w, message)
    known(w)[node, at >> 6, 1] &= ~_bit(at)
    if nodes32(w)[node, ANSWERS] >= 0:
        lists.remove(w, node, ANSWERS, message, -1)


@kernel
def forget_seen(w: World, node: int, message: int) -> None:
    unmark(w, node, column(w, message))
