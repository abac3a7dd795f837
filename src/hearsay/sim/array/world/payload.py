"""RPCs that do not fit into an event's two words: they lie in the arena until they are received.

Layout: `arena` is divided into chunks; each thread has a range of them. A chunk holds RPCs one after the other, and
is used again once none of them is in flight: `pending` counts the copies in flight by chunk, with a line for each
thread, because the thread that receives a copy may not be the one that sent it. An RPC is its number of parts, then
eight words for each part: kind, topic, message, hops, bytes, count, via, and the index of its ids, counted from the
RPC's first word, 0 for none. Parts are in the order in which receivers handle them. In place of ids, an IHAVE of
episub has announcements, a message that names its hops has the hops, a SUBSCRIBE has the use of partial messages, a
PRUNE has its backoff and peers, a part about the overlay has its content (`episub/overlay_parts.py`), and so has a
partial message (`rules/partials.py`).
"""

from __future__ import annotations

from typing import NamedTuple

from numba import types

from hearsay.core.language.actions import Via
from hearsay.core.language.rpc import CONTROL_KINDS, PartKind
from hearsay.core.language.sizes import field_size, framed_size, hops_size
from hearsay.sim.array.machine.compiling import TYPES, inlined, kernel
from hearsay.sim.array.world.layout import (
    ALONE_BYTES,
    ARENA_AT,
    ARENA_CHUNK,
    ARENA_END,
    ARENA_FREE,
    ARENA_FRESH,
    ARENA_FULL,
    ARENA_LEFT,
    ARENA_TAKEN,
    HAS_DIALS,
    HAS_EPISUB,
    MESSAGE_BYTES,
    STATUS,
    THREADS,
    TOPIC,
    World,
    arena,
    control,
    messages,
    pending,
    words_at,
)

ARENA_BITS = 14
PART = 8
PART_KIND, PART_TOPIC, PART_MESSAGE, PART_HOPS, PART_BYTES, PART_COUNT, PART_VIA, PART_IDS = range(PART)
HEADER = 1

PUBLISH, SUBSCRIBE, UNSUBSCRIBE, IHAVE = (
    int(kind) for kind in (PartKind.PUBLISH, PartKind.SUBSCRIBE, PartKind.UNSUBSCRIBE, PartKind.IHAVE)
)
IWANT, GRAFT, PRUNE, IDONTWANT, CONNECT = (
    int(kind) for kind in (PartKind.IWANT, PartKind.GRAFT, PartKind.PRUNE, PartKind.IDONTWANT, PartKind.CONNECT)
)
TEST, FEATURES, PARTIAL, METADATA = (
    int(kind) for kind in (PartKind.EXTENSION, PartKind.FEATURES, PartKind.PARTIAL, PartKind.METADATA)
)
CONTROL = tuple(int(kind) for kind in CONTROL_KINDS if kind in (IHAVE, IWANT, GRAFT, PRUNE, IDONTWANT, FEATURES))
"""Kinds of control parts, in the order of handling."""
MESH_CONTROL = tuple(kind for kind in CONTROL if kind in (GRAFT, PRUNE))


class Part(NamedTuple):
    """A part of an RPC, as in its trace row; -1 where the kind has no such value."""

    kind: int
    topic: int
    message: int
    hops: int
    size: int
    amount: int
    via: int


TYPES["Part"] = types.NamedUniTuple(types.int64, len(Part._fields), Part)


@inlined
def make_part(kind: int, topic: int, message: int, hops: int, size: int, count: int, via: int) -> Part:
    return Part(kind, topic, message, hops, size, count, via)


@inlined
def topic_part(kind: int, topic: int, size: int, count: int) -> Part:
    """Return a part that is not a message."""
    return make_part(kind, topic, -1, -1, size, count, -1)


@inlined
def message_part(w: World, message: int, hops: int, via: int) -> Part:
    """Return a message that is the only part of its RPC. If copies name hops (`names_hops`), they name `hops`."""
    info = messages(w)[message]
    size = info[ALONE_BYTES]
    if w[HAS_EPISUB] and names_hops(via):
        size = framed_size(size_with_hops(w, message, hops))
    return make_part(PUBLISH, info[TOPIC], message, hops, size, 1, via)


@inlined
def names_hops(via: int) -> bool:
    """Return whether copies that are sent in this way have a field with their hops: those in an episub tree do."""
    return via == Via.EAGER or via == Via.LAZY


@kernel
def size_with_hops(w: World, message: int, named: int) -> int:
    """Return the bytes of a message that names its hops as a part of an RPC."""
    return field_size(messages(w)[message, MESSAGE_BYTES] + hops_size(named))


_NUMBERS = tuple(
    {PartKind.NEIGHBOR: 5, PartKind.DISCONNECT: 1, PartKind.NODES: 1, PartKind.SHUFFLEREPLY: 1}.get(
        kind, 2 if kind in (PartKind.JOIN, PartKind.FORWARDJOIN, PartKind.LEAVE, PartKind.SHUFFLE) else 0
    )
    for kind in PartKind
)
_ABOUT_OVERLAY = int(PartKind.GETNODES)


@inlined
def numbers_in(kind: int) -> int:
    """Return how many numbers a part about the overlay has in addition to peers (`episub/overlay_parts.py`)."""
    return _NUMBERS[kind]


@inlined
def is_control(kind: int) -> bool:
    """Return whether a part belongs to an RPC's control message."""
    return kind >= IHAVE and kind != TEST and kind < PARTIAL


OTHERS_BITS = 10
"""The number of bits, the lowest of a PRUNE's content, that count the peers that it names (`parts.prune_extras`)."""


@inlined
def others_named(extras: int) -> int:
    return extras & ((1 << OTHERS_BITS) - 1)


@inlined
def prune_words(w: World, extras: int) -> int:
    """Return the number of words of a PRUNE's content except its topic."""
    return 0 if extras == 0 else 1 + (others_named(extras) if w[HAS_DIALS] else 0)


@kernel
def words_behind(w: World, rpc: int, index: int) -> int:
    """Return how many words a part has in addition to its eight: ids, or the content in place of ids."""
    part = words_at(w, part_place(rpc, index))
    if not part[PART_IDS]:
        return 0
    if part[PART_KIND] == PRUNE:
        return prune_words(w, arena(w)[rpc + part[PART_IDS]])
    return 1 + arena(w)[rpc + part[PART_IDS]] if part[PART_KIND] >= _ABOUT_OVERLAY else part[PART_COUNT]


_HOPS_BITS = 32


@inlined
def announcement(message: int, hops: int) -> int:
    """Return the announcement of a message in an IHAVE of episub: the message and its hops in one word."""
    return message << _HOPS_BITS | hops


@inlined
def announced_message(word: int) -> int:
    return word >> _HOPS_BITS


@inlined
def hops_in_word(word: int) -> int:
    return word & ((1 << _HOPS_BITS) - 1)


@inlined
def part_at(w: World, rpc: int, index: int) -> Part:
    words = words_at(w, part_place(rpc, index))
    return make_part(
        words[PART_KIND], words[PART_TOPIC], words[PART_MESSAGE], words[PART_HOPS], words[PART_BYTES],
        words[PART_COUNT], words[PART_VIA],
    )  # fmt: skip


@kernel
def write_part(w: World, rpc: int, index: int, part: Part, ids: int) -> None:
    """Write a part into the arena; `ids` is the index of its ids from the RPC's first word on, 0 for none."""
    words = words_at(w, part_place(rpc, index))
    words[PART_KIND] = part.kind
    words[PART_TOPIC] = part.topic
    words[PART_MESSAGE] = part.message
    words[PART_HOPS] = part.hops
    words[PART_BYTES] = part.size
    words[PART_COUNT] = part.amount
    words[PART_VIA] = part.via
    words[PART_IDS] = ids


@kernel
def allocate(w: World, th: int, words: int) -> int:
    """Allocate `words` words for an RPC; return the index of the first.

    The caller sends or holds the RPC before it allocates another one: else the chunk could be used again.
    """
    line = control(w)[th]
    if words > line[ARENA_LEFT]:
        _next_chunk(w, th, words)
    at = line[ARENA_AT]
    line[ARENA_AT] = at + words
    line[ARENA_LEFT] -= words
    return at


@kernel
def _next_chunk(w: World, th: int, words: int) -> None:
    """Continue in another chunk, or in several consecutive ones for an RPC that is longer than one."""
    line = control(w)[th]
    size = 1 << ARENA_BITS
    needed = (words + size - 1) >> ARENA_BITS
    if needed == 1:
        _reclaim(w, th)
        if line[ARENA_FREE] >= 0:
            chunk = line[ARENA_FREE]
            line[ARENA_FREE] = arena(w)[chunk << ARENA_BITS]
        else:
            chunk = line[ARENA_FRESH]
            line[ARENA_FRESH] += 1
    else:
        chunk = line[ARENA_FRESH]
        line[ARENA_FRESH] += needed
    if line[ARENA_FRESH] > line[ARENA_END]:
        w[STATUS] = ARENA_FULL
        line[ARENA_FRESH] = line[ARENA_END]
        chunk = line[ARENA_END] - needed
    line[ARENA_CHUNK] = chunk
    line[ARENA_AT] = chunk << ARENA_BITS
    line[ARENA_LEFT] = needed << ARENA_BITS


@kernel
def _reclaim(w: World, th: int) -> None:
    """Free the chunks without RPCs in flight, if none is free and many were taken since the last search."""
    line = control(w)[th]
    first = _first_chunk(w, th)
    line[ARENA_TAKEN] += 1
    if line[ARENA_FREE] >= 0 or line[ARENA_TAKEN] < max(16, (line[ARENA_FRESH] - first) // 2):
        return
    line[ARENA_TAKEN] = 0
    counts = pending(w)
    for chunk in range(first, line[ARENA_FRESH]):
        copies = 0
        for each in range(w[THREADS]):
            copies += counts[each, chunk]
        if copies == 0 and chunk != line[ARENA_CHUNK]:
            arena(w)[chunk << ARENA_BITS] = line[ARENA_FREE]
            line[ARENA_FREE] = chunk


@kernel
def _first_chunk(w: World, th: int) -> int:
    return th * (pending(w).shape[1] // w[THREADS])


@kernel
def hold(w: World, th: int, rpc: int) -> None:
    """Count one more copy of an RPC in flight, so that its chunk is not used again."""
    pending(w)[th, rpc >> ARENA_BITS] += 1


@kernel
def release(w: World, th: int, rpc: int) -> None:
    """Count one copy in flight less, because it was received or never will be."""
    pending(w)[th, rpc >> ARENA_BITS] -= 1


@kernel
def rpc_bytes(w: World, rpc: int) -> int:
    size = 0
    for index in range(arena(w)[rpc]):
        size += words_at(w, part_place(rpc, index))[PART_BYTES]
    return size


@kernel
def part_place(rpc: int, index: int) -> int:
    """Return the index in the arena of a part; `words_at(w, part_place(rpc, index))` are its words."""
    return rpc + HEADER + index * PART
