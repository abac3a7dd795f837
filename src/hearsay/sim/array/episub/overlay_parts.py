"""Parts about the overlay, and the sketch in them, by which nodes estimate the size of the overlay.

Senders write a part into `scratch`, and receivers read it from the arena. Layout: the content of a part consists of
these words: the number of words that follow, the number of peers, the numbers that the part's kind has
(`numbers_in`), the peers, and the sketch. A note of a witness's call has the same words (`rules/checks.py`);
`episub_part` is a Python function, which returns the object of the core that they describe.

The sketch of an overlay has the smallest hashes of the overlay's nodes. The more nodes there are, the smaller these
hashes are. The sizes of lists follow from the estimate (`core.episub.views.TargetSizes`). With fixed sizes
(IS_ESTIMATED is 0) there is no sketch. Layout: the sketch is a list in `pool`. An entry has a hash and its age, which
is a number of shuffles; hashes ascend.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt

import numpy as np

from hearsay.core.language.episub_parts import (
    Disconnect,
    EpisubGraft,
    EpisubIHave,
    EpisubJoin,
    EpisubLeave,
    EpisubPart,
    EpisubPrune,
    ForwardJoin,
    GetNodes,
    GetTopics,
    Neighbor,
    Nodes,
    Role,
    Shuffle,
    ShuffleReply,
    Topics,
)
from hearsay.core.language.rpc import PartKind
from hearsay.core.rules.randomness import Purpose
from hearsay.sim.array.compiling import in_python, inlined, kernel
from hearsay.sim.array.episub.basics import NONE, with_overlay
from hearsay.sim.array.episub.views import remove_passive
from hearsay.sim.array.travel.outbox import put_tree_part, write_word
from hearsay.sim.array.world import lists, payload
from hearsay.sim.array.world.draws import below, draw_topic, extend
from hearsay.sim.array.world.layout import (
    ACTIVE_LIMIT,
    IS_ESTIMATED,
    MAX_PART_PEERS,
    MOST_ACTIVE,
    PASSIVE_COUNT,
    PASSIVE_FACTOR,
    SCRATCH_USED,
    SIZE_ACTIVE,
    SIZE_CONSTANT,
    SIZE_PASSIVE,
    SIZE_RANDOM,
    SKETCH,
    World,
    arena,
    control,
    overlays,
    pool,
    scratch,
    view_peers,
)
from hearsay.sim.array.world.lists import FIRST, NEXT, SECOND, entry_before, free_all, size_of
from hearsay.sim.array.world.payload import numbers_in
from hearsay.sim.array.world.slots import find_slot, parameter

REQUEST, ACCEPT, QUERY, REPLY = range(4)
"""The roles of a NEIGHBOR (`core.language.episub_parts.Role`)."""
_HEAD = 2
_SIZE = 32
"""The number of hashes in a sketch, at most."""
_LIFETIME = 30
"""The highest age of a hash in a sketch, in shuffles."""
_AGE_BITS = 8
_SPACE = 1 << 56
_SALT = np.uint64(0x5CA1AB1E)
_HALVES_OF_TENS = tuple(isqrt(10 ** (2 * power + 1) - 1) + 1 for power in range(18))
"""At index i, the smallest number of nodes whose decimal logarithm is rounded to i + 1 (SKETCH-1)."""
_announced_message = in_python(payload.announced_message)
_hops_in_word = in_python(payload.hops_in_word)
_WORD = (1 << 64) - 1
"""A mask that makes a word unsigned. Kernels write the unsigned words of sketches as signed integers."""
_numbers_in = in_python(payload.numbers_in)


@with_overlay
def begin_part(w: World, th: int) -> int:
    """Begin the content of a part at the end of `scratch`; return the index of its first word."""
    start = control(w)[th, SCRATCH_USED]
    write_word(w, th, 0)
    write_word(w, th, 0)
    return int(start)


@with_overlay
def write_peer(w: World, th: int, start: int, peer: int) -> None:
    """Add a peer to the content that begins at `start`."""
    write_word(w, th, peer)
    scratch(w)[th, start + 1] += 1


@with_overlay
def send_part(w: World, th: int, node: int, peer: int, kind: int, topic: int, start: int) -> None:
    """Send a connected peer the part whose content begins at `start`."""
    size = control(w)[th, SCRATCH_USED] - start
    scratch(w)[th, start] = size - 1
    put_tree_part(w, th, find_slot(w, node, peer), kind, topic, start, size)


@with_overlay
def send_numbers(
    w: World, th: int, node: int, peer: int, kind: int, topic: int, named: int, first: int, second: int
) -> None:
    """Send a part. It has the number `first`, if its kind has numbers, and `second`, if its kind has two. It names
    the peer `named`, or no peer if that is -1."""
    start = begin_part(w, th)
    if numbers_in(kind) > 0:
        write_word(w, th, first)
    if numbers_in(kind) > 1:
        write_word(w, th, second)
    if named >= 0:
        write_peer(w, th, start, named)
    send_part(w, th, node, peer, kind, topic, start)


@with_overlay
def send_disconnect(w: World, th: int, node: int, peer: int, topic: int, refused: bool) -> None:
    send_numbers(w, th, node, peer, PartKind.DISCONNECT, topic, -1, int(refused), 0)


# Received parts. `at` is the index of a part's content in the arena.


@with_overlay
def number(w: World, at: int, place: int) -> int:
    return int(arena(w)[at + _HEAD + place])


@with_overlay
def number_of_peers(w: World, at: int) -> int:
    return int(arena(w)[at + 1])


@with_overlay
def peer_at(w: World, at: int, kind: int, place: int) -> int:
    return int(arena(w)[at + _HEAD + numbers_in(kind) + place])


@with_overlay
def sketch_at(w: World, at: int, kind: int) -> int:
    """Return the index in the arena at which a part's sketch begins. The sketch ends the content."""
    return at + _HEAD + numbers_in(kind) + number_of_peers(w, at)


@with_overlay
def content_end(w: World, at: int) -> int:
    return at + 1 + int(arena(w)[at])


@inlined
def bounded(value: int, most: int) -> int:
    return max(0, min(value, most))


@with_overlay
def peers_within(w: World, node: int, count: int) -> int:
    """Return the number of peers that the node handles, if a part has `count` peers."""
    return min(count, parameter(w, node, MAX_PART_PEERS))


# Sketches.


@kernel
def _own_hash(node: int) -> int:
    return int(extend(_SALT, np.uint64(node)) >> np.uint64(_AGE_BITS))


@with_overlay
def _put_hash(w: World, node: int, topic: int, known: int, age: int) -> None:
    """Insert a hash into the sketch. If the hash is there already, it gets the lower of the two ages."""
    entries = pool(w)[lists.owner(w, node)]
    before = -1
    place = overlays(w)[node, topic, SKETCH]
    while place >= 0 and entries[place, FIRST] < known:
        before = place
        place = entries[place, NEXT]
    if place >= 0 and entries[place, FIRST] == known:
        entries[place, SECOND] = min(age, entries[place, SECOND])
        return
    fresh = entry_before(w, node, place, known, age, 0)
    if before >= 0:
        entries[before, NEXT] = fresh
    else:
        overlays(w)[node, topic, SKETCH] = fresh


@with_overlay
def begin_sketch(w: World, node: int, topic: int) -> None:
    """Begin the sketch of an overlay that the node joins: it has the node's own hash. Do nothing with fixed sizes."""
    if parameter(w, node, IS_ESTIMATED):
        _put_hash(w, node, topic, _own_hash(node), 0)


@with_overlay
def age_sketch(w: World, node: int, topic: int) -> None:
    """Add 1 to the ages of all hashes, remove the hashes that are too old, and set the age of the node's own hash to
    0. Then set the sizes of lists by the new estimate. Do nothing with fixed sizes."""
    if not parameter(w, node, IS_ESTIMATED):
        return
    entries = pool(w)[lists.owner(w, node)]
    place = overlays(w)[node, topic, SKETCH]
    while place >= 0:
        following = entries[place, NEXT]
        if entries[place, SECOND] < _LIFETIME:
            entries[place, SECOND] += 1
        else:
            overlays(w)[node, topic, SKETCH] = lists.without(w, node, overlays(w)[node, topic, SKETCH], place)
        place = following
    _put_hash(w, node, topic, _own_hash(node), 0)
    _resize(w, node, topic)


@with_overlay
def write_sketch(w: World, th: int, node: int, topic: int) -> None:
    """Append the sketch to the part that is being written, at most _SIZE hashes. Do nothing with fixed sizes."""
    if not parameter(w, node, IS_ESTIMATED):
        return
    entries = pool(w)[lists.owner(w, node)]
    place = overlays(w)[node, topic, SKETCH]
    for _ in range(_SIZE):
        if place < 0:
            return
        word = np.uint64(entries[place, FIRST]) << np.uint64(_AGE_BITS) | np.uint64(entries[place, SECOND])
        write_word(w, th, int(np.int64(word)))
        place = entries[place, NEXT]


@with_overlay
def merge_sketch(w: World, th: int, now: int, node: int, topic: int, first: int, end: int) -> None:
    """Merge another node's sketch, the words from `first` to `end` of the arena, with the own one. Then set the
    sizes of lists by the new estimate, and shorten the passive list if necessary. Do nothing with fixed sizes."""
    if not parameter(w, node, IS_ESTIMATED):
        return
    for at in range(first, min(end, first + _SIZE)):
        word = np.uint64(arena(w)[at])
        age = int(word & np.uint64((1 << _AGE_BITS) - 1))
        if age <= _LIFETIME:
            _put_hash(w, node, topic, int(word >> np.uint64(_AGE_BITS)), age)
    _remove_largest_hashes(w, node, topic)
    _resize(w, node, topic)
    trim_passive(w, th, now, node, topic)


@with_overlay
def _last_counted(w: World, node: int, topic: int) -> int:
    """Return the index of the entry with the hash number _SIZE, the last one that the estimate uses; -1 if there are
    fewer hashes."""
    place = overlays(w)[node, topic, SKETCH]
    for _ in range(_SIZE - 1):
        if place >= 0:
            place = pool(w)[lists.owner(w, node), place, NEXT]
    return int(place)


@with_overlay
def _remove_largest_hashes(w: World, node: int, topic: int) -> None:
    """Remove all but the _SIZE smallest hashes."""
    entries = pool(w)[lists.owner(w, node)]
    place = _last_counted(w, node, topic)
    if place >= 0:
        free_all(w, node, entries[place, NEXT])
        entries[place, NEXT] = NONE


@with_overlay
def _resize(w: World, node: int, topic: int) -> None:
    """Set SIZE_RANDOM, SIZE_ACTIVE and SIZE_PASSIVE by the estimated number of nodes in the overlay (SKETCH-1)."""
    place = _last_counted(w, node, topic)
    estimate = size_of(w, node, overlays(w)[node, topic, SKETCH])
    if place >= 0:
        estimate = (_SIZE - 1) * _SPACE // max(1, pool(w)[lists.owner(w, node), place, FIRST])
    magnitude = 0
    for half in _HALVES_OF_TENS:
        magnitude += int(estimate >= half)
    limit = parameter(w, node, ACTIVE_LIMIT)
    line = overlays(w)[node, topic]
    line[SIZE_RANDOM] = min(max(1, magnitude), limit)
    line[SIZE_ACTIVE] = min(line[SIZE_RANDOM] + parameter(w, node, SIZE_CONSTANT), limit)
    line[SIZE_PASSIVE] = parameter(w, node, PASSIVE_FACTOR) * line[SIZE_ACTIVE]


@with_overlay
def trim_passive(w: World, th: int, now: int, node: int, topic: int) -> None:
    """Remove random entries from the passive list until it has at most SIZE_PASSIVE entries."""
    line = overlays(w)[node, topic]
    while line[PASSIVE_COUNT] > line[SIZE_PASSIVE]:
        count = line[PASSIVE_COUNT]
        state = extend(draw_topic(w, Purpose.PASSIVE_EVICT, node, topic, now), np.uint64(count))
        remove_passive(w, th, now, node, topic, view_peers(w)[node, topic, w[MOST_ACTIVE] + below(state, count)])


# Notes of witnesses.


def episub_part(kind: int, topic: str, words: list[int], topics: Sequence[str]) -> EpisubPart:
    """Return the part that these words describe. `topics` are the names of the run's topics, sorted."""
    match kind:
        case PartKind.IHAVE:
            return EpisubIHave(topic, tuple(map(_announced_message, words)), tuple(map(_hops_in_word, words)))
        case PartKind.GRAFT:
            return EpisubGraft(topic, tuple(words))
        case PartKind.PRUNE:
            return EpisubPrune(topic)
        case PartKind.GETTOPICS:
            return GetTopics()
        case PartKind.TOPICS:
            return Topics(tuple(topics[place] for place in words[2:]))
        case _:
            return _part_about_membership(kind, topic, words)


def _part_about_membership(kind: int, topic: str, words: list[int]) -> EpisubPart:
    """Return a part about membership. Its words are the number of words, the number of peers, the part's numeric
    fields, the peers, and a sketch, in this order."""
    first = 2 + _numbers_in(kind)
    numbers = words[2:first]
    peers = tuple(words[first : first + words[1]])
    sketch = tuple(word & _WORD for word in words[first + words[1] :])
    match kind:
        case PartKind.GETNODES:
            return GetNodes(topic)
        case PartKind.NODES:
            return Nodes(topic, peers, numbers[0])
        case PartKind.JOIN:
            return EpisubJoin(topic, peers[0], *numbers)
        case PartKind.FORWARDJOIN:
            return ForwardJoin(topic, peers[0], *numbers)
        case PartKind.NEIGHBOR:
            role, random, links, random_links, rtt_us = numbers
            return Neighbor(topic, Role(role), random == 1, links, random_links, rtt_us, peers)
        case PartKind.DISCONNECT:
            return Disconnect(topic, numbers[0] == 1)
        case PartKind.LEAVE:
            return EpisubLeave(topic, peers[0], *numbers)
        case PartKind.SHUFFLE:
            return Shuffle(topic, peers[0], peers[1:], numbers[0], numbers[1], sketch)
        case PartKind.SHUFFLEREPLY:
            return ShuffleReply(topic, peers, numbers[0], sketch)
        case _:
            raise ValueError(f"unknown kind of part in a note: {kind}")
