"""Entries of the outbox, and the parts of RPCs: written into the arena, with their sizes on the wire.

Layout: an entry is a slot, a key, a value and the index of its ids in `scratch`; in place of the index, a PRUNE has
its content (`prune_extras`). The key is made of a class, which stands for kinds of parts, a topic and a message, so
the order by slot and key is the order of parts in RPCs."""

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
    graft_size,
    ihave_size,
    iwant_size,
    number_size,
    packed_size,
    prune_size,
    rpc_size_of_parts,
    subscription_size,
    use_size,
    varint_size,
)
from hearsay.sim.array.machine.compiling import inlined, kernel, only_with
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
    TOPIC,
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
"""The class of parts of episub. In place of the topic, their keys have the index of the entry in the outbox; in place
of the message, the topic."""
_TREE_KIND = 8
"""The number of bits for the kind of a part of episub in its value; above them is the number of its ids."""
part_of_features = only_with(HAS_FEATURES)


@kernel
def sort_entries(entries: Any, count: int) -> None:
    """Sort by slot and key, stably: short runs by insertion, then by merges that use the room behind the entries."""
    run = 16
    for start in range(0, count, run):
        _sort_run(entries, start, min(start + run, count))
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


@kernel
def _sort_run(entries: Any, start: int, end: int) -> None:
    for place in range(start + 1, end):
        slot, key, value, ids = entries[place, 0], entries[place, 1], entries[place, 2], entries[place, 3]
        at = place
        while at > start and (
            entries[at - 1, SLOT] > slot or (entries[at - 1, SLOT] == slot and entries[at - 1, KEY] > key)
        ):
            for field in range(4):
                entries[at, field] = entries[at - 1, field]
            at -= 1
        entries[at, 0] = slot
        entries[at, 1] = key
        entries[at, 2] = value
        entries[at, 3] = ids


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
"""The lowest bit, in the content of a PRUNE, of the index in `names` of the peers that it names."""
_SECONDS = (1 << (_NAMES - OTHERS_BITS)) - 1


@kernel
def hops_from(w: World, node: int, message: int) -> Any:
    """Return the hops from the publisher to the receiver of a copy that the node sends."""
    return np.int64(cells(w)[node, column(w, message)] >> np.uint64(HOPS)) + 1


@kernel
def hops_named(w: World, node: int, message: int) -> int:
    """Return the hops that the node's copies in a tree name: those that its router counts, plus one."""
    return (kept32(w)[node, column(w, message), KEPT_HOPS] >> 1) + 1


@kernel
def is_counted_alike(w: World, node: int, message: int, via: int) -> bool:
    """Return whether a copy names no hops, or those from the publisher: an event has room for one number of hops."""
    if not w[HAS_EPISUB] or not names_hops(via):
        return True
    return hops_named(w, node, message) == hops_from(w, node, message)


@inlined
def prune_extras(seconds: int, others: int, names_at: int) -> int:
    """Return the content of a PRUNE: its backoff, the number of peers that it names, and their index in `names`."""
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
def write_subscription(w: World, rpc: int, index: int, at: int, topic: int, value: int) -> None:
    kind = SUBSCRIBE if value & 1 else UNSUBSCRIBE
    use = value >> 1
    if use:
        arena(w)[rpc + at] = use
    part = topic_part(kind, topic, subscription_bytes(w, topic, use), 1)
    write_part(w, rpc, index, part, at if use else 0)


@kernel
def subscription_bytes(w: World, topic: int, use: int) -> int:
    return subscription_size(topic_size(w, topic) + use_size(use))


@part_of_features
def write_features(w: World, rpc: int, index: int, own: int) -> None:
    size = features_size(own & EXCHANGES_PARTS != 0, own & TESTS != 0)
    write_part(w, rpc, index, topic_part(FEATURES, -1, size, 1), 0)


@kernel
def write_message(w: World, node: int, rpc: int, index: int, at: int, message: int, via: int) -> None:
    info = messages(w)[message]
    hops = hops_from(w, node, message)
    size = info[MESSAGE_PART_BYTES]
    if w[HAS_EPISUB] and names_hops(via):
        named = hops_named(w, node, message)
        size = size_with_hops(w, message, named)
        arena(w)[rpc + at] = named
    else:
        at = 0
    write_part(w, rpc, index, make_part(PUBLISH, info[TOPIC], message, hops, size, 1, via), at)


@kernel
def write_tree_part(w: World, th: int, rpc: int, index: int, at: int, topic: int, value: int, ids: int) -> None:
    kind = tree_kind(value)
    count = tree_ids(value)
    known = scratch(w)[th]
    for place in range(count):
        arena(w)[rpc + at + place] = known[ids + place]
    part = tree_part(w, th, kind, topic, ids, count)
    if w[HAS_OVERLAY] and kind > PRUNE:
        part = _overlay_part(w, th, kind, topic, ids, count)
    write_part(w, rpc, index, part, at if count else 0)


@kernel
def tree_part(w: World, th: int, kind: int, topic: int, ids: int, count: int) -> Part:
    """Return an IHAVE, GRAFT or PRUNE of episub, with its ids in `scratch`."""
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
    """Return a part about the overlay, with its content in `scratch` (`episub/overlay_parts.py`)."""
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
def write_ihave(w: World, th: int, rpc: int, index: int, at: int, topic: int, ids: int, count: int) -> None:
    write_part(w, rpc, index, topic_part(IHAVE, topic, ihave_bytes(w, topic, count), count), at)
    store = arena(w)
    known = scratch(w)[th]
    for place in range(count):
        store[rpc + at + place] = known[ids + place]


@kernel
def ihave_bytes(w: World, topic: int, count: int) -> int:
    return ihave_size(topic_size(w, topic), count * SIMULATED_ID_FIELD)


@kernel
def write_iwant(w: World, th: int, rpc: int, index: int, at: int, place: int, count: int) -> None:
    write_part(w, rpc, index, topic_part(IWANT, -1, iwant_size(count * SIMULATED_ID_FIELD), count), at)
    store = arena(w)
    entries = outbox(w)[th]
    for wanted in range(count):
        store[rpc + at + wanted] = entries[place + wanted, KEY] & ID_MASK


@kernel
def write_mesh_control(w: World, th: int, rpc: int, index: int, at: int, topic: int, kind: int, extras: int) -> None:
    """Write a GRAFT or PRUNE; the content of a PRUNE except its topic takes the place of ids."""
    part = topic_part(kind, topic, mesh_control_bytes(w, topic, kind, extras), 1)
    write_part(w, rpc, index, part, at if extras else 0)
    if extras:
        arena(w)[rpc + at] = extras
    for place in range(1, prune_words(w, extras)):
        arena(w)[rpc + at + place] = names(w)[th, (extras >> _NAMES) + place - 1]


@kernel
def mesh_control_bytes(w: World, topic: int, kind: int, extras: int) -> int:
    if kind == GRAFT:
        return graft_size(topic_size(w, topic))
    peers_named = others_named(extras) * SIMULATED_PEER_INFO
    return prune_size(topic_size(w, topic), extras != 0, backoff_seconds(extras), peers_named)


@kernel
def size_alone(control_part: int) -> int:
    """Return the bytes of an RPC that is one control part, as `frame` counts them."""
    return framed_size(rpc_size_of_parts(0, True, control_part))


@kernel
def frame(w: World, rpc: int) -> None:
    """Add the bytes of the framing to the first part (`core.language.sizes.framed_size`)."""
    own = 0
    inside = 0
    for index in range(arena(w)[rpc]):
        part = words_at(w, part_place(rpc, index))
        own += part[PART_BYTES]
        if is_control(part[PART_KIND]):
            inside += part[PART_BYTES]
    size = framed_size(rpc_size_of_parts(own - inside, inside != 0, inside))
    words_at(w, part_place(rpc, 0))[PART_BYTES] += size - own
