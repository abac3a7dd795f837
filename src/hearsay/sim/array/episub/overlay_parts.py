"""Parts about the overlay: senders write them into `scratch`, receivers read them from the arena.

Layout: the content of a part is the number of words that follow, the number of peers, the numbers that its kind has
(`numbers_in`), the peers, and the sketch (`sketch.py`).
"""

from __future__ import annotations

from hearsay.core.language.rpc import PartKind
from hearsay.sim.array.episub.tables import with_overlay
from hearsay.sim.array.machine.compiling import inlined
from hearsay.sim.array.travel.outbox import put_tree_part
from hearsay.sim.array.world.layout import (
    MAX_PART_PEERS,
    OUTBOX_FULL,
    SCRATCH_USED,
    STATUS,
    World,
    arena,
    control,
    scratch,
)
from hearsay.sim.array.world.payload import numbers_in
from hearsay.sim.array.world.slots import find_slot, parameter

GETNODES, NODES, GETTOPICS, TOPICS_PART, JOIN, FORWARDJOIN, NEIGHBOR, DISCONNECT, LEAVE, SHUFFLE, SHUFFLEREPLY = (
    int(kind)
    for kind in (
        PartKind.GETNODES,
        PartKind.NODES,
        PartKind.GETTOPICS,
        PartKind.TOPICS,
        PartKind.JOIN,
        PartKind.FORWARDJOIN,
        PartKind.NEIGHBOR,
        PartKind.DISCONNECT,
        PartKind.LEAVE,
        PartKind.SHUFFLE,
        PartKind.SHUFFLEREPLY,
    )
)
REQUEST, ACCEPT, QUERY, REPLY = range(4)
"""Roles of a NEIGHBOR."""
_HEAD = 2


@with_overlay
def begin_part(w: World, th: int) -> int:
    """Begin the content of a part at the end of `scratch`; return the index of its first word."""
    start = control(w)[th, SCRATCH_USED]
    write(w, th, 0)
    write(w, th, 0)
    return int(start)


@with_overlay
def write(w: World, th: int, word: int) -> None:
    """Add a word to the content that is being written; if `scratch` is full, set STATUS."""
    line = control(w)[th]
    place = line[SCRATCH_USED]
    if place == scratch(w).shape[1]:
        w[STATUS] = OUTBOX_FULL
        return
    scratch(w)[th, place] = word
    line[SCRATCH_USED] = place + 1


@with_overlay
def write_peer(w: World, th: int, start: int, peer: int) -> None:
    """Add a peer to the content that begins at `start`."""
    write(w, th, peer)
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
    """Send a part with at most two numbers, as its kind has, and one peer, `named`, -1 for none."""
    start = begin_part(w, th)
    if numbers_in(kind) > 0:
        write(w, th, first)
    if numbers_in(kind) > 1:
        write(w, th, second)
    if named >= 0:
        write_peer(w, th, start, named)
    send_part(w, th, node, peer, kind, topic, start)


@with_overlay
def say_disconnect(w: World, th: int, node: int, peer: int, topic: int, refused: bool) -> None:
    send_numbers(w, th, node, peer, DISCONNECT, topic, -1, int(refused), 0)


# Received parts; `at` is the index in the arena of a part's content.


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
    """Return the index in the arena of a part's sketch, which is the last piece of its content."""
    return at + _HEAD + numbers_in(kind) + number_of_peers(w, at)


@with_overlay
def content_end(w: World, at: int) -> int:
    return at + 1 + int(arena(w)[at])


@inlined
def bounded(value: int, most: int) -> int:
    return max(0, min(value, most))


@with_overlay
def peers_within(w: World, node: int, count: int) -> int:
    """Return how many of the `count` peers in a part the node handles."""
    return min(count, parameter(w, node, MAX_PART_PEERS))
