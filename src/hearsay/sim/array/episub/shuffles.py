"""Passive lists: shuffles, which exchange peers with other nodes, and probes of peers (`core.episub.upkeep`)."""

from __future__ import annotations

import numpy as np

from hearsay.core.language.rpc import PartKind
from hearsay.core.rules.randomness import Purpose
from hearsay.sim.array.compiling import sort_numbers
from hearsay.sim.array.episub.basics import NONE, PEER, clear, put, remove_entry, with_overlay
from hearsay.sim.array.episub.joining import copy_candidates
from hearsay.sim.array.episub.meetings import (
    FAILED,
    FOR_PROBE,
    FOR_SHUFFLE,
    READY,
    meet,
    next_sequence,
    ping,
    reply_due,
    update_idle,
)
from hearsay.sim.array.episub.overlay_parts import (
    age_sketch,
    begin_part,
    bounded,
    content_end,
    merge_sketch,
    number,
    number_of_peers,
    peer_at,
    peers_within,
    send_numbers,
    send_part,
    sketch_at,
    trim_passive,
    write_peer,
    write_sketch,
)
from hearsay.sim.array.episub.views import (
    add_passive,
    insert_passive,
    is_new,
    neighbours,
    passive_peers,
    passive_place,
    remove_passive,
)
from hearsay.sim.array.travel.outbox import write_word
from hearsay.sim.array.world import lists
from hearsay.sim.array.world.draws import below, draw_topic, extend, pick
from hearsay.sim.array.world.layout import (
    ACTIVE_COUNT,
    OPEN_SEQUENCE,
    OPEN_TTL,
    OPEN_UNTIL,
    PASSIVE_COUNT,
    SCRATCH_USED,
    SENT,
    SHUFFLE_ACTIVE,
    SHUFFLE_PASSIVE,
    SHUFFLE_TTL,
    SIZE_PASSIVE,
    World,
    arena,
    candidates,
    control,
    overlays,
    pool,
    scratch,
    view_peers,
)
from hearsay.sim.array.world.slots import parameter


@with_overlay
def start_shuffle(w: World, th: int, now: int, node: int, topic: int, ttl: int) -> None:
    """Send a SHUFFLE to a random neighbour (SHUFFLE-1)."""
    line = overlays(w)[node, topic]
    count = line[ACTIVE_COUNT]
    if count == 0:
        return
    sequence = next_sequence(w, now, node)
    word = np.uint64(ttl)
    chosen = below(extend(draw_topic(w, Purpose.SHUFFLE, node, topic, now), word), count)
    target = view_peers(w)[node, topic, chosen]
    start = begin_part(w, th)
    write_word(w, th, ttl)
    write_word(w, th, sequence)
    write_peer(w, th, start, node)
    size = neighbours(w, th, node, topic, target, NONE)
    state = extend(draw_topic(w, Purpose.SHUFFLE_ACTIVE, node, topic, now), word)
    active = pick(w, th, state, size, parameter(w, node, SHUFFLE_ACTIVE))
    for place in range(active):
        write_peer(w, th, start, candidates(w)[th, place])
    size = passive_peers(w, th, node, topic, NONE)
    state = extend(draw_topic(w, Purpose.SHUFFLE_PASSIVE, node, topic, now), word)
    passive = pick(w, th, state, size, parameter(w, node, SHUFFLE_PASSIVE))
    clear(w, node, topic, SENT)
    for place in range(passive):
        write_peer(w, th, start, candidates(w)[th, place])
        put(w, node, topic, SENT, candidates(w)[th, place], NONE, 0)
    first = start + 5
    sort_numbers(scratch(w)[th], first, first + active + passive)
    line[OPEN_SEQUENCE] = sequence
    line[OPEN_TTL] = ttl
    line[OPEN_UNTIL] = reply_due(w, now, node, topic)
    age_sketch(w, node, topic)
    write_sketch(w, th, node, topic)
    trim_passive(w, th, now, node, topic)
    send_part(w, th, node, target, PartKind.SHUFFLE, topic, start)


@with_overlay
def expire_shuffle(w: World, th: int, now: int, node: int, topic: int) -> None:
    """If the last SHUFFLE of the node was not answered in time, send another one with half the TTL (SHUFFLE-3)."""
    line = overlays(w)[node, topic]
    if line[OPEN_SEQUENCE] >= 0 and line[OPEN_UNTIL] <= now:
        line[OPEN_SEQUENCE] = NONE
        if line[OPEN_TTL] > 0:
            start_shuffle(w, th, now, node, topic, line[OPEN_TTL] // 2)


@with_overlay
def on_shuffle(w: World, th: int, now: int, node: int, topic: int, sender: int, at: int, rpc: int) -> None:
    ttl = bounded(number(w, at, 0), parameter(w, node, SHUFFLE_TTL))
    sequence = number(w, at, 1)
    origin = peer_at(w, at, PartKind.SHUFFLE, 0)
    if origin == node:
        return
    onward = neighbours(w, th, node, topic, origin, sender)
    if ttl > 0 and onward > 0:
        state = extend(draw_topic(w, Purpose.SHUFFLE_WALK, node, topic, now), np.uint64(origin))
        target = candidates(w)[th, below(extend(state, np.uint64(sequence)), onward)]
        start = begin_part(w, th)
        write_word(w, th, ttl - 1)
        write_word(w, th, sequence)
        write_peer(w, th, start, origin)
        for place in range(peers_within(w, node, number_of_peers(w, at) - 1)):
            write_peer(w, th, start, peer_at(w, at, PartKind.SHUFFLE, place + 1))
        for place in range(sketch_at(w, at, PartKind.SHUFFLE), content_end(w, at)):
            write_word(w, th, arena(w)[place])
        send_part(w, th, node, target, PartKind.SHUFFLE, topic, start)
        return
    if meet(w, th, now, node, topic, origin, FOR_SHUFFLE, at - rpc, 0, rpc) == READY:
        exchange(w, th, now, node, topic, at)
        update_idle(w, now, node, origin)


@with_overlay
def exchange(w: World, th: int, now: int, node: int, topic: int, at: int) -> None:
    """Answer a SHUFFLE whose random walk ends at this node, and add its peers to the passive list (SHUFFLE-1)."""
    origin = peer_at(w, at, PartKind.SHUFFLE, 0)
    sequence = number(w, at, 1)
    count = peers_within(w, node, number_of_peers(w, at) - 1)
    state = extend(draw_topic(w, Purpose.SHUFFLE_REPLY, node, topic, now), np.uint64(origin))
    size = passive_peers(w, th, node, topic, origin)
    answered = pick(w, th, extend(state, np.uint64(sequence)), size, count + 1)
    start = begin_part(w, th)
    write_word(w, th, sequence)
    for place in range(answered):
        write_peer(w, th, start, candidates(w)[th, place])
    write_sketch(w, th, node, topic)
    send_part(w, th, node, origin, PartKind.SHUFFLEREPLY, topic, start)
    handed_out = start + 3
    taken = control(w)[th, SCRATCH_USED]
    for place in range(count):
        write_word(w, th, peer_at(w, at, PartKind.SHUFFLE, place + 1))
    write_word(w, th, origin)
    _add_received(w, th, now, node, topic, taken, count + 1, handed_out, answered)
    merge_sketch(w, th, now, node, topic, sketch_at(w, at, PartKind.SHUFFLE), content_end(w, at))


@with_overlay
def on_shuffle_reply(w: World, th: int, now: int, node: int, topic: int, at: int) -> None:
    line = overlays(w)[node, topic]
    if line[OPEN_SEQUENCE] < 0 or number(w, at, 0) != line[OPEN_SEQUENCE]:
        return
    line[OPEN_SEQUENCE] = NONE
    entries = pool(w)[lists.owner(w, node)]
    handed_out = control(w)[th, SCRATCH_USED]
    sent = 0
    while line[SENT] >= 0:
        write_word(w, th, entries[line[SENT], PEER])
        remove_entry(w, node, topic, SENT, entries[line[SENT], PEER])
        sent += 1
    sort_numbers(scratch(w)[th], handed_out, handed_out + sent)
    count = number_of_peers(w, at)
    taken = control(w)[th, SCRATCH_USED]
    for place in range(count):
        write_word(w, th, peer_at(w, at, PartKind.SHUFFLEREPLY, place))
    _add_received(w, th, now, node, topic, taken, count, handed_out, sent)
    merge_sketch(w, th, now, node, topic, sketch_at(w, at, PartKind.SHUFFLEREPLY), content_end(w, at))


@with_overlay
def _add_received(
    w: World, th: int, now: int, node: int, topic: int, first: int, count: int, handed_out: int, sent: int
) -> None:  # fmt: skip
    """Add to the passive list the `count` received peers that begin at `scratch[first]` (VIEW-1).

    If the list is full, a received peer replaces one of the `sent` peers that this node has sent in the same shuffle,
    which begin at `scratch[handed_out]`. If none of these is left in the list, the received peer replaces a random
    one.
    """
    known = scratch(w)[th]
    count = peers_within(w, node, count)
    sort_numbers(known, first, first + count)
    for place in range(first, first + count):
        peer = known[place]
        if place > first and known[place - 1] == peer:
            continue
        if not is_new(w, node, topic, peer):
            continue
        if overlays(w)[node, topic, PASSIVE_COUNT] >= overlays(w)[node, topic, SIZE_PASSIVE]:
            while sent > 0 and passive_place(w, node, topic, known[handed_out + sent - 1]) < 0:
                sent -= 1
            if sent > 0:
                sent -= 1
                remove_passive(w, th, now, node, topic, known[handed_out + sent])
                insert_passive(w, th, now, node, topic, peer)
                continue
        add_passive(w, th, now, node, topic, peer)


# Probes.


@with_overlay
def probe(w: World, th: int, now: int, node: int, topic: int, count: int) -> None:
    """Probe `count` random passive peers, or all if there are fewer. Remove those that cannot be met (PROBE-1)."""
    size = passive_peers(w, th, node, topic, NONE)
    size = pick(w, th, draw_topic(w, Purpose.PROBE, node, topic, now), size, count)
    first = copy_candidates(w, th, size)
    for place in range(first, first + size):
        peer = scratch(w)[th, place]
        result = meet(w, th, now, node, topic, peer, FOR_PROBE, 0, 0, NONE)
        if result == READY:
            examine(w, th, now, node, topic, peer)
            update_idle(w, now, node, peer)
        elif result == FAILED:
            remove_passive(w, th, now, node, topic, peer)


@with_overlay
def examine(w: World, th: int, now: int, node: int, topic: int, peer: int) -> None:
    """Ask a connected peer for its topics, and ping the peer (PROBE-1)."""
    send_numbers(w, th, node, peer, PartKind.GETTOPICS, 0, NONE, 0, 0)
    ping(w, th, now, node, peer)


@with_overlay
def on_topics(w: World, th: int, now: int, node: int, topic: int, sender: int, at: int) -> None:
    """Remove the sender of a TOPICS from the passive list of a topic that the part does not name."""
    for place in range(number_of_peers(w, at)):
        if arena(w)[at + 2 + place] == topic:
            return
    remove_passive(w, th, now, node, topic, sender)
