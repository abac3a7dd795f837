"""Messages that a tree can send again (`core.episub.caches.PayloadCache`).

Layout: these messages have the bit HELD in their cells. `kept32` links those of a topic in a list, from KEPT_FIRST in
`trees`, the oldest, to KEPT_LAST."""

from __future__ import annotations

import numpy as np

from hearsay.core.language.sizes import hops_size
from hearsay.sim.array.episub.alarms import with_episub
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
    MAX_CACHED,
    MAX_CACHED_BYTES,
    MESSAGE_BYTES,
    PAYLOAD_TTL,
    TOPIC,
    World,
    cells,
    kept32,
    kept64,
    messages,
    topics,
    trees,
)
from hearsay.sim.array.world.slots import parameter


@with_episub
def keep(w: World, now: int, node: int, message: int, hops: int, named: int, parent: int) -> None:
    """Keep a message, and forget the oldest if there are too many (REPAIR-1).

    A message that is kept already stays where it is in the list; the counts of its answers are forgotten.
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
        _forget_oldest(w, node, topic)


@with_episub
def _footprint(w: World, message: int) -> int:
    return topics(w)[messages(w)[message, TOPIC], EMPTY_MESSAGE] + messages(w)[message, DATA_BYTES]


@with_episub
def expire_kept(w: World, now: int, node: int, topic: int) -> None:
    """Forget the messages of a topic that are kept since PAYLOAD_TTL or longer."""
    ttl = parameter(w, node, PAYLOAD_TTL)
    while trees(w)[node, topic, KEPT_COUNT] > 0:
        if now - kept64(w)[node, column(w, trees(w)[node, topic, KEPT_FIRST])] < ttl:
            return
        _forget_oldest(w, node, topic)


@with_episub
def _forget_oldest(w: World, node: int, topic: int) -> None:
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
def forget_kept(w: World, node: int, topic: int) -> None:
    while trees(w)[node, topic, KEPT_COUNT] > 0:
        _forget_oldest(w, node, topic)


@with_episub
def is_kept(w: World, now: int, node: int, message: int) -> bool:
    """Return whether a message can be sent again now."""
    at = column(w, message)
    is_there = bits(cells(w)[node, at], HELD)
    return is_there and now - kept64(w)[node, at] < parameter(w, node, PAYLOAD_TTL)


@with_episub
def kept_hops(w: World, node: int, message: int) -> int:
    return kept32(w)[node, column(w, message), KEPT_HOPS] >> 1


@with_episub
def stored_bytes(w: World, node: int, message: int) -> int:
    """Return the encoded bytes of a kept message as it was received, with the field of hops if it had one."""
    hops = kept32(w)[node, column(w, message), KEPT_HOPS]
    return messages(w)[message, MESSAGE_BYTES] + (hops_size(hops >> 1) if hops & 1 else 0)


@with_episub
def kept_parent(w: World, node: int, message: int) -> int:
    """Return the peer that a kept message came from, -1 for an own message."""
    return int(kept32(w)[node, column(w, message), KEPT_PARENT])
