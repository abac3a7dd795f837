"""Entries of the outbox: their order, the encoded sizes of their parts, and kernels that write parts into the arena.

Layout: an entry is a slot, a key, a value and the index of the part's ids in `scratch`. In place of the index, a
PRUNE has its content (`prune_extras`). The key has three fields: a class (one or more kinds of parts), a topic and a
message. So entries that are sorted by slot and key are in the order of parts in RPCs. There is one exception: GRAFT
and PRUNE share MESH_CLASS, and `sending.py` sends the parts of this class by kind.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hearsay.core.language.rpc import PartKind
from hearsay.core.language.sizes import (
    SIMULATED_ID_FIELD,
    SIMULATED_PEER_BYTES,
    SIMULATED_PEER_INFO,
    episub_size,
    features_size,
    field_size,
    framed_size,
    ihave_size,
    number_size,
    packed_size,
    prune_size,
    rpc_size_of_parts,
    subscription_size,
    use_size,
    varint_size,
)
from hearsay.sim.array.compiling import inlined, kernel, only_with
from hearsay.sim.array.world.knowledge import column
from hearsay.sim.array.world.layout import (
    EXCHANGES_PARTS,
    HAS_EPISUB,
    HAS_FEATURES,
    HAS_OVERLAY,
    HOPS,
    KEPT_HOPS,
    MESSAGE_PART_BYTES,
    TESTS,
    TOPIC_LENGTH,
    World,
    arena,
    cells,
    kept32,
    messages,
    names,
    outbox,
    scratch,
    topics,
    words_at,
)
from hearsay.sim.array.world.payload import (
    CONTROL,
    FEATURES,
    GRAFT,
    IHAVE,
    IWANT,
    MESH_CONTROL,
    OTHERS_BITS,
    PART_BYTES,
    PART_KIND,
    PRUNE,
    PUBLISH,
    SUBSCRIBE,
    UNSUBSCRIBE,
    Part,
    hops_in_word,
    is_control,
    make_part,
    names_hops,
    numbers_in,
    others_named,
    part_place,
    prune_words,
    size_with_hops,
    topic_part,
    write_part,
)

SLOT, KEY, VALUE, IDS = range(4)
CLASS_SHIFT, TOPIC_SHIFT = 58, 29
ID_MASK = (1 << 29) - 1
SUBSCRIPTION_CLASS, MESSAGE_CLASS = range(2)
IHAVE_CLASS, IWANT_CLASS, MESH_CLASS = (2 + CONTROL.index(kind) for kind in (IHAVE, IWANT, MESH_CONTROL[0]))
FEATURES_CLASS = 2 + CONTROL.index(FEATURES)
TREE_CLASS = 2 + len(CONTROL)
"""The class of all parts of episub. The key of such a part has the index of the entry in the outbox in place of the
topic, and the topic in place of the message."""
_TREE_KIND = 8
"""The number of bits of the kind, the lowest bits in the value of an entry with a part of episub. The bits above are
the number of ids."""
with_features = only_with(HAS_FEATURES)


@kernel
def sort_entries(entries: Any, count: int) -> None:
    """Sort the first `count` entries by slot and key with a stable merge sort. It needs room for `count` entries
    behind them."""
    run = 1
    while run < count:
        for start in range(0, count, 2 * run):
            middle = min(start + run, count)
            _merge(entries, start, middle, min(middle + run, count), count)
        run *= 2


@kernel
def _is_after(entries: Any, a: int, b: int) -> bool:
    if entries[a, SLOT] != entries[b, SLOT]:
        return entries[a, SLOT] > entries[b, SLOT]
    return entries[a, KEY] > entries[b, KEY]


@kernel
def _merge(entries: Any, start: int, middle: int, end: int, spare: int) -> None:
    if middle >= end or not _is_after(entries, middle - 1, middle):
        return
    for place in range(start, end):
        for field in range(4):
            entries[spare + place, field] = entries[place, field]
    left = spare + start
    right = spare + middle
    for place in range(start, end):
        if right >= spare + end or (left < spare + middle and not _is_after(entries, left, right)):
            taken = left
            left += 1
        else:
            taken = right
            right += 1
        for field in range(4):
            entries[place, field] = entries[taken, field]


@inlined
def tree_key(place: int, topic: int) -> int:
    return TREE_CLASS << CLASS_SHIFT | place << TOPIC_SHIFT | topic


@inlined
def tree_value(kind: int, count: int) -> int:
    return count << _TREE_KIND | kind


@inlined
def tree_kind(value: int) -> int:
    return value & ((1 << _TREE_KIND) - 1)


@inlined
def tree_ids(value: int) -> int:
    return value >> _TREE_KIND


_NAMES = 40
"""The number of the lowest bit, in the content of a PRUNE, of an index in `names`. The peers that the PRUNE names
begin there."""
_SECONDS = (1 << (_NAMES - OTHERS_BITS)) - 1


@kernel
def hops_from(w: World, node: int, message: int) -> Any:
    """Return the number of hops from the publisher of a message to the receiver of a copy that the node sends."""
    return np.int64(cells(w)[node, column(w, message)] >> np.uint64(HOPS)) + 1


@kernel
def hops_named(w: World, node: int, message: int) -> int:
    """Return the value of the hops field in copies that the node sends in a tree: the hops that its router computed,
    plus one."""
    return (kept32(w)[node, column(w, message), KEPT_HOPS] >> 1) + 1


@kernel
def has_one_hop_count(w: World, node: int, message: int, via: int) -> bool:
    """Return whether a copy has no hops field, or one with the real number of hops from the publisher to its
    receiver. Then it fits into an event, which has room for one number of hops."""
    if not w[HAS_EPISUB] or not names_hops(via):
        return True
    return hops_named(w, node, message) == hops_from(w, node, message)


@inlined
def prune_extras(seconds: int, others: int, names_at: int) -> int:
    """Return the content of a PRUNE in one word: its backoff in seconds, the number of peers that it names, and the
    index of the first of these peers in `names`."""
    return names_at << _NAMES | seconds << OTHERS_BITS | others


@inlined
def without_others(extras: int) -> int:
    return prune_extras(backoff_seconds(extras), 0, 0)


@inlined
def backoff_seconds(extras: int) -> int:
    return extras >> OTHERS_BITS & _SECONDS


@kernel
def topic_size(w: World, topic: int) -> int:
    return field_size(topics(w)[topic, TOPIC_LENGTH])


@inlined
def subscription_value(subscribe: int, use: int) -> int:
    """Return the value of a subscription's entry; `use` is the router's use of partial messages, 0 for none."""
    return use << 1 | subscribe


@kernel
def subscription_bytes(w: World, topic: int, use: int) -> int:
    return subscription_size(topic_size(w, topic) + use_size(use))


@kernel
def entry_part(w: World, th: int, node: int, place: int, count: int) -> Part:
    """Return the part of the entry `place`; its size does not include the framing. If the part is an IWANT, `count`
    is the number of its ids."""
    entry = outbox(w)[th, place]
    part_class = entry[KEY] >> CLASS_SHIFT
    topic = entry[KEY] >> TOPIC_SHIFT & ID_MASK
    value = entry[VALUE]
    if part_class == MESSAGE_CLASS:
        message = entry[KEY] & ID_MASK
        size = messages(w)[message, MESSAGE_PART_BYTES]
        if w[HAS_EPISUB] and names_hops(value):
            size = size_with_hops(w, message, hops_named(w, node, message))
        return make_part(PUBLISH, topic, message, hops_from(w, node, message), size, 1, value)
    if part_class == SUBSCRIPTION_CLASS:
        return topic_part(SUBSCRIBE if value & 1 else UNSUBSCRIBE, topic, subscription_bytes(w, topic, value >> 1), 1)
    if part_class == IHAVE_CLASS:
        return topic_part(IHAVE, topic, ihave_bytes(w, topic, value), value)
    if part_class == IWANT_CLASS:
        return topic_part(IWANT, -1, field_size(count * SIMULATED_ID_FIELD), count)
    if w[HAS_EPISUB] and part_class == TREE_CLASS:
        return _tree_part(w, th, tree_kind(value), entry[KEY] & ID_MASK, entry[IDS], tree_ids(value))
    if w[HAS_FEATURES] and part_class == FEATURES_CLASS:
        return topic_part(FEATURES, -1, features_size(value & EXCHANGES_PARTS != 0, value & TESTS != 0), 1)
    return topic_part(value, topic, mesh_control_bytes(w, topic, value, entry[IDS]), 1)


@kernel
def extra_words(w: World, entries: Any, place: int, following: int) -> Any:
    """Return the number of words that a part needs after its first eight: ids, or the content of a part without ids.

    The part is that of the entries from `place` to `following` - 1.
    """
    part_class = entries[place, KEY] >> CLASS_SHIFT
    if part_class == IHAVE_CLASS:
        return entries[place, VALUE]
    if part_class == IWANT_CLASS:
        return following - place
    if part_class == SUBSCRIPTION_CLASS:
        return int(entries[place, VALUE] >> 1 != 0)
    if w[HAS_EPISUB] and part_class == TREE_CLASS:
        return tree_ids(entries[place, VALUE])
    if w[HAS_EPISUB] and part_class == MESSAGE_CLASS:
        return int(names_hops(entries[place, VALUE]))
    return prune_words(w, entries[place, IDS]) if part_class == MESH_CLASS else 0


@kernel
def write_entries(w: World, th: int, node: int, rpc: int, index: int, at: int, place: int, following: int) -> int:
    """Write the part of the entries from `place` to `following` - 1 as part `index` of an RPC.

    `at` is the index of the part's ids, counted from the first word of the RPC. Return this index for the next part.
    """
    entries = outbox(w)[th]
    store = arena(w)
    words = extra_words(w, entries, place, following)
    write_part(w, rpc, index, entry_part(w, th, node, place, following - place), at if words else 0)
    part_class = entries[place, KEY] >> CLASS_SHIFT
    ids = entries[place, IDS]
    for number in range(words):
        if part_class == IHAVE_CLASS or part_class == TREE_CLASS:
            word = scratch(w)[th, ids + number]
        elif part_class == IWANT_CLASS:
            word = entries[place + number, KEY] & ID_MASK
        elif part_class == SUBSCRIPTION_CLASS:
            word = entries[place, VALUE] >> 1
        elif part_class == MESSAGE_CLASS:
            word = hops_named(w, node, entries[place, KEY] & ID_MASK)
        else:
            word = ids if number == 0 else names(w)[th, (ids >> _NAMES) + number - 1]
        store[rpc + at + number] = word
    return int(at + words)


@kernel
def _tree_part(w: World, th: int, kind: int, topic: int, ids: int, count: int) -> Part:
    """Return a part of episub; `ids` is the index in `scratch` of its ids or content, and `count` their number."""
    if w[HAS_OVERLAY] and kind > PRUNE:
        return _overlay_part(w, th, kind, topic, ids, count)
    hops = 0
    if kind == IHAVE:
        for place in range(ids, ids + count):
            hops += varint_size(hops_in_word(scratch(w)[th, place]))
    size = episub_size(topic_size(w, topic) + count * SIMULATED_ID_FIELD + packed_size(hops))
    return topic_part(kind, topic, size, 1 if kind == PRUNE else count)


_LONGEST_VARINT = 10
"""The encoded bytes of a number from 2 ** 63 on, which is negative as a word."""


@kernel
def _overlay_part(w: World, th: int, kind: int, topic: int, start: int, count: int) -> Part:
    """Return a part about the overlay; `start` is the index of its content in `scratch`
    (`episub/overlay_parts.py`)."""
    content = scratch(w)[th]
    named = content[start + 1]
    if kind == PartKind.GETTOPICS:
        return topic_part(kind, -1, episub_size(0), 1)
    size = 0
    if kind == PartKind.TOPICS:
        for place in range(start + 2, start + 2 + named):
            size += topic_size(w, content[place])
        return topic_part(kind, -1, episub_size(size), 1)
    first = start + 2
    for place in range(first, first + numbers_in(kind)):
        size += number_size(content[place]) if content[place] else 0
    size += named * field_size(SIMULATED_PEER_BYTES)
    sketch = 0
    for place in range(first + numbers_in(kind) + named, start + count):
        sketch += varint_size(content[place]) if content[place] >= 0 else _LONGEST_VARINT
    return topic_part(kind, topic, episub_size(topic_size(w, topic) + size + packed_size(sketch)), 1)


@kernel
def ihave_bytes(w: World, topic: int, count: int) -> int:
    return ihave_size(topic_size(w, topic), count * SIMULATED_ID_FIELD)


@kernel
def mesh_control_bytes(w: World, topic: int, kind: int, extras: int) -> int:
    if kind == GRAFT:
        return field_size(topic_size(w, topic))
    peers_named = others_named(extras) * SIMULATED_PEER_INFO
    return prune_size(topic_size(w, topic), extras != 0, backoff_seconds(extras), peers_named)


@kernel
def framed_control_bytes(control_part: int) -> int:
    """Return the bytes of a framed RPC that consists of one control part of `control_part` bytes."""
    return framed_size(rpc_size_of_parts(0, True, control_part))


@kernel
def add_framing(w: World, rpc: int) -> None:
    """Add the bytes of the framing of an RPC to its first part (`core.language.sizes.framed_size`)."""
    own = 0
    inside = 0
    for index in range(arena(w)[rpc]):
        part = words_at(w, part_place(rpc, index))
        own += part[PART_BYTES]
        if is_control(part[PART_KIND]):
            inside += part[PART_BYTES]
    size = framed_size(rpc_size_of_parts(own - inside, inside != 0, inside))
    words_at(w, part_place(rpc, 0))[PART_BYTES] += size - own
