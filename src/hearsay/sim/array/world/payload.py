"""RPCs that do not fit into the two words of an event: they are stored in the arena until they are received.

Layout: `arena` is divided into chunks, and each thread has a range of chunks. A chunk contains RPCs one after the
other, and is used again once none of its RPCs is in flight. `pending` has the number of copies in flight for each
chunk. It has a line for each thread, because the thread that receives a copy may differ from the thread that sent the
copy.

The first word of an RPC is the number of parts. Eight words for each part follow: kind, topic, message, hops, bytes,
count, via, and the index of the part's ids, counted from the first word of the RPC, 0 for none. Parts are in the
order in which receivers handle them. Some parts have other content in place of ids: an IHAVE of episub has
announcements, a message with a field for its hops has the hops, a SUBSCRIBE has the use of partial messages, and a
PRUNE has its backoff and peers. A part about the overlay also has its content there (`episub/overlay_parts.py`), and
so has a partial message (`rules/partials.py`).
"""

from __future__ import annotations

from typing import NamedTuple

from numba import types

from hearsay.core.language.actions import Via
from hearsay.core.language.rpc import CONTROL_KINDS, PartKind
from hearsay.core.language.sizes import field_size, framed_size, hops_size
from hearsay.sim.array.compiling import TYPES, inlined, kernel
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

PUBLISH, SUBSCRIBE, UNSUBSCRIBE = map(int, (PartKind.PUBLISH, PartKind.SUBSCRIBE, PartKind.UNSUBSCRIBE))
IHAVE, IWANT, GRAFT, PRUNE = map(int, (PartKind.IHAVE, PartKind.IWANT, PartKind.GRAFT, PartKind.PRUNE))
IDONTWANT, CONNECT, TEST = map(int, (PartKind.IDONTWANT, PartKind.CONNECT, PartKind.EXTENSION))
FEATURES, PARTIAL, METADATA = map(int, (PartKind.FEATURES, PartKind.PARTIAL, PartKind.METADATA))
CONTROL = tuple(int(kind) for kind in CONTROL_KINDS if kind in (IHAVE, IWANT, GRAFT, PRUNE, IDONTWANT, FEATURES))
"""Kinds of control parts, in the order in which receivers handle them."""
MESH_CONTROL = tuple(kind for kind in CONTROL if kind in (GRAFT, PRUNE))


class Part(NamedTuple):
    """A part of an RPC with the values of its trace row; a value is -1 if parts of the kind have no such value. The
    words of a part in the arena begin with these values."""

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
    """Return a part that is not a message; `topic` may be -1."""
    return make_part(kind, topic, -1, -1, size, count, -1)


@inlined
def message_part(w: World, message: int, hops: int, via: int) -> Part:
    """Return a message as the only part of an RPC, with the size of the framed RPC. If copies have a field with their
    hops (`names_hops`), its value is `hops`."""
    info = messages(w)[message]
    size = info[ALONE_BYTES]
    if w[HAS_EPISUB] and names_hops(via):
        size = framed_size(size_with_hops(w, message, hops))
    return make_part(PUBLISH, info[TOPIC], message, hops, size, 1, via)


@inlined
def names_hops(via: int) -> bool:
    """Return whether copies with this `via` have a field with their hops, as copies in an episub tree do."""
    return via == Via.EAGER or via == Via.LAZY


@kernel
def size_with_hops(w: World, message: int, named: int) -> int:
    """Return the bytes, as a part of an RPC, of a message that has a field with its hops."""
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
    """Return the number of numbers that a part about the overlay has in addition to peers, by the kind of the part
    (`episub/overlay_parts.py`)."""
    return _NUMBERS[kind]


@inlined
def is_control(kind: int) -> bool:
    """Return whether parts of a kind belong to the control message of an RPC."""
    return kind >= IHAVE and kind != TEST and kind < PARTIAL


OTHERS_BITS = 10
"""The number of lowest bits in a PRUNE's content that have the number of named peers (`parts.prune_extras`)."""


@inlined
def others_named(extras: int) -> int:
    return extras & ((1 << OTHERS_BITS) - 1)


@inlined
def prune_words(w: World, extras: int) -> int:
    """Return the number of words of a PRUNE's content, which does not include the topic; `extras` is its first
    word."""
    return 0 if extras == 0 else 1 + (others_named(extras) if w[HAS_DIALS] else 0)


@kernel
def words_behind(w: World, rpc: int, index: int) -> int:
    """Return the number of words that a part has in addition to its eight words: ids, or the content in place of
    ids."""
    part = words_at(w, part_place(rpc, index))
    if not part[PART_IDS]:
        return 0
    if part[PART_KIND] == PRUNE:
        return prune_words(w, arena(w)[rpc + part[PART_IDS]])
    return 1 + arena(w)[rpc + part[PART_IDS]] if part[PART_KIND] >= _ABOUT_OVERLAY else part[PART_COUNT]


_HOPS_BITS = 32


@inlined
def announcement(message: int, hops: int) -> int:
    """Return the announcement of a message in an IHAVE of episub: the message and the hops in one word."""
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
    """Write a part into the arena; `ids` is the index of the part's ids, counted from the first word of the RPC, 0
    for none."""
    words = words_at(w, part_place(rpc, index))
    for field in range(len(part)):
        words[field] = part[field]
    words[PART_IDS] = ids


UNPACKED = 32
"""The number of words at the end of the arena that each thread has for a received RPC which it unpacks from an
event."""


@kernel
def unpacked_rpc(w: World, th: int) -> int:
    """Return the index in the arena of an RPC of one part. The caller writes the part, and the part's ids after it.

    The RPC is valid until the thread unpacks the next RPC.
    """
    rpc = arena(w).shape[0] - (th + 1) * UNPACKED
    arena(w)[rpc] = 1
    return rpc


@kernel
def allocate(w: World, th: int, words: int) -> int:
    """Allocate `words` words for an RPC; return the index of the first. If there is no room, set STATUS to
    ARENA_FULL.

    The caller must send or hold the RPC before it allocates another one: otherwise the chunk could be used again.
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
    """Let the thread continue in another chunk. An RPC that is longer than a chunk gets several consecutive
    chunks."""
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
    """Free the thread's chunks that have no RPCs in flight, if no chunk is free and many chunks were needed since the
    last search."""
    line = control(w)[th]
    first = th * (pending(w).shape[1] // w[THREADS])
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
def hold(w: World, th: int, rpc: int) -> None:
    """Count one more copy of an RPC in flight, so that the chunk of the RPC is not used again."""
    pending(w)[th, rpc >> ARENA_BITS] += 1


@kernel
def release(w: World, th: int, rpc: int) -> None:
    """Count one copy of an RPC fewer in flight, because it was received or will never be received."""
    pending(w)[th, rpc >> ARENA_BITS] -= 1


@kernel
def rpc_bytes(w: World, rpc: int) -> int:
    size = 0
    for index in range(arena(w)[rpc]):
        size += words_at(w, part_place(rpc, index))[PART_BYTES]
    return size


@kernel
def part_place(rpc: int, index: int) -> int:
    """Return the index in the arena of part `index` of an RPC; `words_at(w, part_place(rpc, index))` are its
    words."""
    return rpc + HEADER + index * PART
