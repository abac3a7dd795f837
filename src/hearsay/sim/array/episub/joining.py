"""Joining the overlay: contacts, GETNODES, random walks of JOIN, and FORWARDJOIN (`core.episub.join_protocol`).

Discovery finds contacts, which are random members of the topic. Contacts are sent GETNODES; peers in their answers
are sent JOIN, and have an entry in ATTEMPTS until it is answered.
"""

from __future__ import annotations

import numpy as np

from hearsay.core.language.events import EventKind
from hearsay.core.shell.randomness import Purpose
from hearsay.sim.array.episub.links import is_hyparview, take_in
from hearsay.sim.array.episub.meetings import (
    FAILED,
    FOR_FORWARDED,
    FOR_JOIN,
    FOR_JOINER,
    FOR_NODES,
    NO_ROOM,
    READY,
    meet,
    next_sequence,
    reply_due,
    review,
    use,
)
from hearsay.sim.array.episub.overlay_parts import (
    FORWARDJOIN,
    GETNODES,
    JOIN,
    NODES,
    begin_part,
    bounded,
    number,
    number_of_peers,
    peer_at,
    peers_within,
    send_numbers,
    send_part,
    write,
    write_peer,
)
from hearsay.sim.array.episub.tables import (
    CONTENT,
    DUE,
    NONE,
    PEER,
    clear,
    first_overdue,
    place_of,
    put,
    size_of,
    take,
    with_overlay,
)
from hearsay.sim.array.episub.views import add_passive, draw_view, is_active, neighbours, passive_peers, random_links
from hearsay.sim.array.episub.views import remove_passive as forget_passive
from hearsay.sim.array.machine.memory import sort_numbers
from hearsay.sim.array.world import lists
from hearsay.sim.array.world.draws import below, extend, pick
from hearsay.sim.array.world.layout import (
    ACTIVE_COUNT,
    ASKED_DISCOVERY,
    ASKED_NODES,
    ATTEMPTS,
    JOIN_TTL,
    JOINS_LEFT,
    LOOKING_UNTIL,
    MAX_PART_PEERS,
    PASSIVE_TTL,
    RENDEZVOUS,
    SIZE_ACTIVE,
    SIZE_PASSIVE,
    SIZE_RANDOM,
    STARTS,
    World,
    candidates,
    meetings,
    nodes32,
    overlays,
    pool,
    scratch,
)
from hearsay.sim.array.world.lists import NEXT
from hearsay.sim.array.world.queue import NODE, insert, word_0
from hearsay.sim.array.world.slots import parameter

_LAST_FIRST = 1 << 27
"""If several answers of discovery come at the same time, the last one is handled first, as in the reference engine
(`Connections._push`). Events are ordered by source, so the sources of these events descend from this number."""
CONTACTS = 3
"""The number of contacts that are sent GETNODES at once (`core.episub.join_protocol.CONTACTS`)."""


@with_overlay
def is_alone(w: World, node: int, topic: int) -> bool:
    """Return whether the node must join: it has no link, or with HyParView fewer than two."""
    return overlays(w)[node, topic, ACTIVE_COUNT] < (2 if is_hyparview(w, node) else 1)


@with_overlay
def find_contacts(w: World, now: int, node: int, topic: int, th: int) -> None:
    """Ask discovery for contacts, unless its answer is awaited or a join is under way (JOIN-1, JOIN-2)."""
    line = overlays(w)[node, topic]
    if line[ATTEMPTS] >= 0 or line[ASKED_NODES] >= 0 or now < line[LOOKING_UNTIL]:
        return
    line[LOOKING_UNTIL] = reply_due(w, now, node, topic)
    meetings(w)[node, ASKED_DISCOVERY] += 1
    source = _LAST_FIRST - meetings(w)[node, ASKED_DISCOVERY] % _LAST_FIRST
    rest = word_0(EventKind.CONTACTS_FOUND, source, -1, nodes32(w)[node, STARTS] & 255)
    insert(w, th, now + w[RENDEZVOUS], rest, node << NODE | topic, 0, 1)


@with_overlay
def contacts_found(w: World, th: int, now: int, node: int, topic: int, count: int) -> None:
    """Handle the first `count` of `candidates`, contacts that ascend: send GETNODES to some if the node must join."""
    overlays(w)[node, topic, LOOKING_UNTIL] = 0
    known = candidates(w)[th]
    count = min(count, parameter(w, node, MAX_PART_PEERS))
    if not is_alone(w, node, topic):
        for place in range(count):
            add_passive(w, th, now, node, topic, known[place])
        return
    count = pick(w, th, draw_view(w, Purpose.CONTACT, now, node, topic), count, CONTACTS)
    first = begin_list(w, th, count)
    for place in range(first, first + count):
        ask_for_nodes(w, th, now, node, topic, scratch(w)[th, place])


@with_overlay
def ask_for_nodes(w: World, th: int, now: int, node: int, topic: int, peer: int) -> None:
    if place_of(w, node, topic, ASKED_NODES, peer) >= 0:
        return
    put(w, node, topic, ASKED_NODES, peer, reply_due(w, now, node, topic), 0)
    use(w, node, peer)
    result = meet(w, th, now, node, topic, peer, FOR_NODES, 0, 0, 0, -1)
    if result == READY:
        send_numbers(w, th, node, peer, GETNODES, topic, -1, 0, 0)
        review(w, now, node, peer)
    elif result == FAILED:
        joining_lost(w, th, now, node, topic, peer)
    elif result == NO_ROOM:
        end_asking(w, now, node, topic, peer)


@with_overlay
def end_asking(w: World, now: int, node: int, topic: int, peer: int) -> None:
    if take(w, node, topic, ASKED_NODES, peer):
        review(w, now, node, peer)


@with_overlay
def on_get_nodes(w: World, th: int, now: int, node: int, topic: int, sender: int) -> None:
    limit = min(parameter(w, node, MAX_PART_PEERS), overlays(w)[node, topic, SIZE_PASSIVE])
    start = begin_part(w, th)
    write(w, th, parameter(w, node, JOIN_TTL))
    state = extend(draw_view(w, Purpose.NODES, now, node, topic), np.uint64(sender))
    shown = pick(w, th, state, passive_peers(w, th, node, topic, sender), limit)
    for place in range(shown):
        write_peer(w, th, start, candidates(w)[th, place])
    for place in range(min(neighbours(w, th, node, topic, sender, NONE), limit - shown)):
        write_peer(w, th, start, candidates(w)[th, place])
        shown += 1
    sort_numbers(scratch(w)[th], start + 3, start + 3 + shown)
    send_part(w, th, node, sender, NODES, topic, start)


@with_overlay
def on_nodes(w: World, th: int, now: int, node: int, topic: int, sender: int, at: int) -> None:
    if place_of(w, node, topic, ASKED_NODES, sender) < 0:
        return
    count = peers_within(w, node, number_of_peers(w, at))
    for place in range(count):
        add_passive(w, th, now, node, topic, peer_at(w, at, NODES, place))
    add_passive(w, th, now, node, topic, sender)
    ttl = bounded(number(w, at, 0), parameter(w, node, JOIN_TTL))
    line = overlays(w)[node, topic]
    if is_hyparview(w, node):
        wanted = is_alone(w, node, topic) and line[ATTEMPTS] < 0 and not is_active(w, node, topic, sender)
        if wanted and line[JOINS_LEFT] > 0:
            line[JOINS_LEFT] -= 1
            _join_at(w, th, now, node, topic, sender, ttl)
    else:
        short = line[SIZE_RANDOM] - line[ACTIVE_COUNT] - size_of(w, node, topic, ATTEMPTS)
        size = _not_attempted(w, th, node, topic, NONE)
        size = pick(w, th, draw_view(w, Purpose.JOIN_AT, now, node, topic), size, short)
        first = begin_list(w, th, size)
        for place in range(first, first + size):
            _join_at(w, th, now, node, topic, scratch(w)[th, place], ttl)
    end_asking(w, now, node, topic, sender)


@with_overlay
def begin_list(w: World, th: int, size: int) -> int:
    """Copy the first `size` candidates to `scratch`, where they stay during the call; return the first index."""
    start = begin_part(w, th)
    for place in range(size):
        write(w, th, candidates(w)[th, place])
    return int(start + 2)


@with_overlay
def _not_attempted(w: World, th: int, node: int, topic: int, without: int) -> int:
    """Collect, as candidates, the passive peers without an entry in ATTEMPTS; return their number."""
    known = candidates(w)[th]
    kept = 0
    for place in range(passive_peers(w, th, node, topic, without)):
        if place_of(w, node, topic, ATTEMPTS, known[place]) < 0:
            known[kept] = known[place]
            kept += 1
    return kept


@with_overlay
def _join_at(w: World, th: int, now: int, node: int, topic: int, peer: int, ttl: int) -> None:
    """Send a JOIN to a peer; if it cannot be connected, to another, and so on (JOIN-3, JOIN-5)."""
    while True:
        put(w, node, topic, ATTEMPTS, peer, reply_due(w, now, node, topic), ttl)
        sequence = next_sequence(w, now, node)
        result = meet(w, th, now, node, topic, peer, FOR_JOIN, ttl, sequence, 0, -1)
        if result == READY:
            send_join(w, th, node, topic, peer, ttl, sequence)
            review(w, now, node, peer)
        if result != FAILED:
            return
        forget_passive(w, th, now, node, topic, peer)
        end_asking(w, now, node, topic, peer)
        take(w, node, topic, ATTEMPTS, peer)
        following = _next_start(w, th, now, node, topic, peer, ttl)
        if following < 0:
            return
        peer = following
        ttl -= 1


@with_overlay
def send_join(w: World, th: int, node: int, topic: int, peer: int, ttl: int, sequence: int) -> None:
    send_numbers(w, th, node, peer, JOIN, topic, node, ttl, sequence)


@with_overlay
def _next_start(w: World, th: int, now: int, node: int, topic: int, failed: int, ttl: int) -> int:
    """Return another peer to which to send a JOIN, after that to `failed` was lost; -1 for none."""
    line = overlays(w)[node, topic]
    short = random_links(w, node, topic) + size_of(w, node, topic, ATTEMPTS) < line[SIZE_RANDOM]
    size = _not_attempted(w, th, node, topic, failed)
    if not short or size == 0 or ttl <= 0:
        return NONE
    state = extend(draw_view(w, Purpose.JOIN_AT, now, node, topic), np.uint64(failed))
    return int(candidates(w)[th, below(extend(state, np.uint64(ttl)), size)])


@with_overlay
def _join_elsewhere(w: World, th: int, now: int, node: int, topic: int, failed: int, ttl: int) -> None:
    peer = _next_start(w, th, now, node, topic, failed, ttl)
    if peer >= 0:
        _join_at(w, th, now, node, topic, peer, ttl - 1)


@with_overlay
def joining_lost(w: World, th: int, now: int, node: int, topic: int, peer: int) -> None:
    """Handle that a peer cannot be reached that was to be sent GETNODES or JOIN."""
    end_asking(w, now, node, topic, peer)
    place = place_of(w, node, topic, ATTEMPTS, peer)
    if place >= 0:
        ttl = pool(w)[lists.owner(w, node), place, CONTENT]
        take(w, node, topic, ATTEMPTS, peer)
        _join_elsewhere(w, th, now, node, topic, peer, ttl)


@with_overlay
def start_is_gone(w: World, th: int, now: int, node: int, topic: int, peer: int) -> None:
    forget_passive(w, th, now, node, topic, peer)
    joining_lost(w, th, now, node, topic, peer)


@with_overlay
def join_accepted(w: World, node: int, topic: int) -> None:
    """After an ACCEPT, forget the JOIN that has waited longest, or all if there are enough random links."""
    entries = pool(w)[lists.owner(w, node)]
    place = overlays(w)[node, topic, ATTEMPTS]
    first = place
    while place >= 0:
        due = entries[place, DUE]
        if due < entries[first, DUE] or (due == entries[first, DUE] and entries[place, PEER] < entries[first, PEER]):
            first = place
        place = entries[place, NEXT]
    if first >= 0:
        take(w, node, topic, ATTEMPTS, entries[first, PEER])
    if random_links(w, node, topic) >= overlays(w)[node, topic, SIZE_RANDOM]:
        clear(w, node, topic, ATTEMPTS)


@with_overlay
def expire_joins(w: World, th: int, now: int, node: int, topic: int) -> None:
    """Send JOINs that were not answered in time to other peers, and forget contacts that did not answer."""
    entries = pool(w)[lists.owner(w, node)]
    start = begin_part(w, th)
    count = 0
    while True:
        peer = first_overdue(w, now, node, topic, ATTEMPTS)
        if peer < 0:
            break
        write(w, th, peer)
        write(w, th, entries[place_of(w, node, topic, ATTEMPTS, peer), CONTENT])
        take(w, node, topic, ATTEMPTS, peer)
        count += 1
    for place in range(start + 2, start + 2 + 2 * count, 2):
        _join_elsewhere(w, th, now, node, topic, scratch(w)[th, place], scratch(w)[th, place + 1])
    while True:
        peer = first_overdue(w, now, node, topic, ASKED_NODES)
        if peer < 0:
            return
        end_asking(w, now, node, topic, peer)


# JOIN and FORWARDJOIN.


@with_overlay
def on_join(w: World, th: int, now: int, node: int, topic: int, sender: int, at: int) -> None:
    joiner = peer_at(w, at, JOIN, 0)
    ttl = bounded(number(w, at, 0), parameter(w, node, JOIN_TTL))
    sequence = number(w, at, 1)
    if joiner == node:
        return
    if is_hyparview(w, node):
        if joiner == sender:
            take_in_joiner(w, th, now, node, topic, joiner, sequence)
        return
    line = overlays(w)[node, topic]
    onward = neighbours(w, th, node, topic, joiner, sender)
    room = line[ACTIVE_COUNT] < line[SIZE_ACTIVE] and not is_active(w, node, topic, joiner)
    if room or ttl == 0 or onward == 0:
        result = meet(w, th, now, node, topic, joiner, FOR_JOINER, ttl, sequence, sender, -1)
        if result == READY:
            take_in_joiner(w, th, now, node, topic, joiner, sequence)
            review(w, now, node, joiner)
        if result == FAILED:
            pass_join_on(w, th, now, node, topic, sender, joiner, ttl, sequence)
        if result != NO_ROOM:
            return
    pass_join_on(w, th, now, node, topic, sender, joiner, ttl, sequence)


@with_overlay
def pass_join_on(
    w: World, th: int, now: int, node: int, topic: int, sender: int, joiner: int, ttl: int, sequence: int
) -> None:  # fmt: skip
    onward = neighbours(w, th, node, topic, joiner, sender)
    if ttl > 0 and onward > 0:
        target = _step(w, th, Purpose.JOIN_WALK, now, node, topic, joiner, sequence, onward)
        send_numbers(w, th, node, target, JOIN, topic, joiner, ttl - 1, sequence)


@with_overlay
def _step(
    w: World, th: int, purpose: int, now: int, node: int, topic: int, about: int, sequence: int, onward: int
) -> int:  # fmt: skip
    """Return the next peer of a random walk: one of the first `onward` candidates. `about` is the joiner."""
    state = extend(extend(draw_view(w, purpose, now, node, topic), np.uint64(about)), np.uint64(sequence))
    return int(candidates(w)[th, below(state, onward)])


@with_overlay
def take_in_joiner(w: World, th: int, now: int, node: int, topic: int, joiner: int, sequence: int) -> None:
    """Accept a joiner, and announce it by FORWARDJOIN (JOIN-4)."""
    if not take_in(w, th, now, node, topic, joiner, True):
        return
    ttl = parameter(w, node, JOIN_TTL)
    others = neighbours(w, th, node, topic, joiner, NONE)
    if not is_hyparview(w, node) and others > 0:
        target = _step(w, th, Purpose.FORWARD_JOIN, now, node, topic, joiner, sequence, others)
        send_numbers(w, th, node, target, FORWARDJOIN, topic, joiner, ttl, sequence)
        return
    for place in range(others):
        send_numbers(w, th, node, candidates(w)[th, place], FORWARDJOIN, topic, joiner, ttl, sequence)


@with_overlay
def on_forward_join(w: World, th: int, now: int, node: int, topic: int, sender: int, at: int) -> None:
    joiner = peer_at(w, at, FORWARDJOIN, 0)
    ttl = bounded(number(w, at, 0), parameter(w, node, JOIN_TTL))
    sequence = number(w, at, 1)
    if joiner == node:
        return
    if is_hyparview(w, node):
        onward = neighbours(w, th, node, topic, joiner, sender)
        if (ttl == 0 or onward == 0) and not is_active(w, node, topic, joiner):
            result = meet(w, th, now, node, topic, joiner, FOR_FORWARDED, 0, 0, 0, -1)
            if result == READY:
                take_in(w, th, now, node, topic, joiner, True)
                review(w, now, node, joiner)
            elif result == FAILED or result == NO_ROOM:
                add_passive(w, th, now, node, topic, joiner)
            return
        if ttl == parameter(w, node, PASSIVE_TTL):
            add_passive(w, th, now, node, topic, joiner)
    else:
        add_passive(w, th, now, node, topic, joiner)
    onward = neighbours(w, th, node, topic, joiner, sender)
    if ttl > 0 and onward > 0:
        target = _step(w, th, Purpose.FORWARD_JOIN, now, node, topic, joiner, sequence, onward)
        send_numbers(w, th, node, target, FORWARDJOIN, topic, joiner, ttl - 1, sequence)
