"""The knowledge of nodes about messages.

Layout: each message that nodes may know has a column. The column is the number of the message modulo the number of
columns, unless CLUSTERS is set. `seen` and `cached` have a bit for each node and column, one node after the other.
These two arrays are read most often, and as bits they fit into the processor's caches. All else that a node knows of
a message is one word, `cells(w)[node, column]`: bits such as ASKED, DELIVERED and MISSED, the heartbeats in which the
message was seen and cached, and the hops to the node. With SEEN_EXPIRES, `first_us` has the time at which a node
first saw a message.
"""

from __future__ import annotations

import numpy as np

from hearsay.sim.array.compiling import inlined, kernel
from hearsay.sim.array.world import lists
from hearsay.sim.array.world.layout import (
    AGES_AT,
    ANSWERS,
    BEATS,
    CACHE_BEAT,
    CLUSTERS,
    COLUMNS,
    DATA_BYTES,
    EMPTY_MESSAGE,
    END,
    FIRST_MESSAGE,
    GOSSIPS_FROM,
    HISTORY,
    MAX_CACHED,
    MAX_CACHED_BINDS,
    MAX_CACHED_BYTES,
    MAX_SEEN,
    MAX_SEEN_BINDS,
    NEWEST,
    OLDEST,
    PUBLISHED,
    RECYCLES,
    SEEN_BEAT,
    SEEN_EXPIRES,
    SEEN_FOR,
    SEEN_TTL,
    SEEN_WINDOWS,
    SERIAL,
    TICK,
    TOPIC,
    Word,
    World,
    cache_serials,
    cached,
    cells,
    columns_of,
    first_us,
    messages,
    nodes32,
    nodes64,
    revived,
    seen,
    seen_serials,
    topics,
)
from hearsay.sim.array.world.slots import parameter

_BEATS = np.uint64(BEATS)
_SEEN_BEAT_CLEAR = ~(_BEATS << np.uint64(SEEN_BEAT))
_CACHE_BEAT_CLEAR = ~(_BEATS << np.uint64(CACHE_BEAT))


@inlined
def column(w: World, message: int) -> int:
    """Return the column of a message."""
    return columns_of(w)[message] if w[CLUSTERS] else message & (w[COLUMNS] - 1)


@inlined
def bits(cell: Word, mask: int) -> bool:
    return cell & np.uint64(mask) != np.uint64(0)


@inlined
def place_of(w: World, node: int, at: int) -> int:
    """Return the index of a node's bit for a column among the bits of `seen` or `cached`."""
    return node * w[COLUMNS] + at


@inlined
def word_of(w: World, node: int, at: int) -> int:
    return place_of(w, node, at) >> 6


@inlined
def bit_of(w: World, node: int, at: int) -> Word:
    return np.uint64(1) << np.uint64(place_of(w, node, at) & 63)


@inlined
def is_marked(w: World, node: int, at: int) -> bool:
    """Return whether a node saw the message of a column, even if the time of the message in the seen cache is
    over."""
    return seen(w)[word_of(w, node, at)] & bit_of(w, node, at) != np.uint64(0)


@inlined
def is_cached(w: World, node: int, at: int) -> bool:
    return cached(w)[word_of(w, node, at)] & bit_of(w, node, at) != np.uint64(0)


@inlined
def _own_bits(w: World) -> Word:
    """Return a mask for the bits that a node has in a word of `seen`: COLUMNS bits, but at most 64."""
    return (np.uint64(1) << np.uint64(w[COLUMNS])) - np.uint64(1) if w[COLUMNS] < 64 else ~np.uint64(0)


@kernel
def forget_all(w: World, node: int) -> None:
    first = place_of(w, node, 0)
    own = _own_bits(w) << np.uint64(first & 63)
    for place in range(first >> 6, word_of(w, node, w[COLUMNS] - 1) + 1):
        seen(w)[place] &= ~own
        cached(w)[place] &= ~own


@kernel
def unmark(w: World, node: int, at: int) -> None:
    seen(w)[word_of(w, node, at)] &= ~bit_of(w, node, at)


@inlined
def was_seen(w: World, now: int, node: int, message: int) -> bool:
    """Return whether a node's router has a message in its seen cache; forget an expired message (SEEN-1)."""
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


@inlined
def surely_seen(w: World, node: int, message: int, others: int, arrival: int) -> bool:
    """Return True only if a node is sure to have seen all messages of a copy or IHAVE at its `arrival`.

    That can be known when the copy or IHAVE is sent: it arrives after all events that the node has handled so far
    (`queue.py`), and the node remembers the messages that it has seen for at least SEEN_FOR. `others` has a bit for
    each message of an IHAVE after the first, and is 0 for a copy.
    """
    at = column(w, message)
    place = place_of(w, node, at)
    bits = np.uint64(others << 1 | 1)
    missing = bits & ~(seen(w)[place >> 6] >> np.uint64(place & 63))
    within = bits >> np.uint64(min(64, w[COLUMNS]) - (at & 63)) == np.uint64(0)
    remembered = arrival < min(messages(w)[message, PUBLISHED] + w[SEEN_FOR], w[END])
    return (missing == np.uint64(0)) & remembered & within


@kernel
def mark_seen(w: World, now: int, node: int, message: int) -> None:
    at = column(w, message)
    header = nodes32(w)[node]
    beat = np.uint64(header[TICK]) & _BEATS
    cells(w)[node, at] = cells(w)[node, at] & _SEEN_BEAT_CLEAR | beat << np.uint64(SEEN_BEAT)
    seen(w)[word_of(w, node, at)] |= bit_of(w, node, at)
    if w[RECYCLES] and not revived(w)[at]:
        revived(w)[at] = 1
    if w[SEEN_EXPIRES]:
        first_us(w)[node, at] = now
    header[OLDEST] = min(header[OLDEST], message)
    if parameter(w, node, SEEN_WINDOWS):
        header[AGES_AT] = min(header[AGES_AT], header[TICK] + parameter(w, node, SEEN_WINDOWS))
    if w[MAX_SEEN_BINDS]:
        _forget_oldest_seen(w, now, node, at)


@kernel
def cache(w: World, node: int, message: int) -> None:
    at = column(w, message)
    if is_cached(w, node, at):
        return
    header = nodes32(w)[node]
    beat = np.uint64(header[TICK]) & _BEATS
    cells(w)[node, at] = cells(w)[node, at] & _CACHE_BEAT_CLEAR | beat << np.uint64(CACHE_BEAT)
    cached(w)[word_of(w, node, at)] |= bit_of(w, node, at)
    header[OLDEST] = min(header[OLDEST], message)
    header[AGES_AT] = min(header[AGES_AT], header[TICK] + parameter(w, node, HISTORY))
    header[GOSSIPS_FROM] = min(header[GOSSIPS_FROM], message)
    if w[MAX_CACHED_BINDS]:
        _forget_oldest_cached(w, node, at)


@kernel
def _forget_oldest_seen(w: World, now: int, node: int, newest: int) -> None:
    """Number the new entry of the seen cache, at column `newest`. If the cache has more than MAX_SEEN entries, forget
    the oldest one (SEEN-3)."""
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
    """Number the new message of the message cache, at column `newest`. While the cache has too many messages or
    bytes, remove the oldest one (CACHE-1)."""
    order = cache_serials(w)[node]
    nodes64(w)[node, SERIAL] += 1
    order[newest] = nodes64(w)[node, SERIAL]
    most_bytes = parameter(w, node, MAX_CACHED_BYTES)
    while True:
        count = 0
        size = 0
        oldest = newest
        gone = -1
        for message in range(w[FIRST_MESSAGE], w[NEWEST]):
            at = column(w, message)
            if is_cached(w, node, at):
                count += 1
                size += topics(w)[messages(w)[message, TOPIC], EMPTY_MESSAGE] + messages(w)[message, DATA_BYTES]
                if order[at] <= order[oldest]:
                    oldest = at
                    gone = message
        if count <= parameter(w, node, MAX_CACHED) and not 0 < most_bytes < size:
            return
        forget_cached(w, node, gone)


@kernel
def forget_cached(w: World, node: int, message: int) -> None:
    """Remove a message from the message cache, and the counts of IWANTs that were answered with this message."""
    at = column(w, message)
    cached(w)[word_of(w, node, at)] &= ~bit_of(w, node, at)
    lists.remove(w, node, ANSWERS, message, -1)
