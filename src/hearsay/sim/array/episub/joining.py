"""Joining the overlay: contacts, GETNODES, random walks of JOIN, and FORWARDJOIN (`core.episub.join_protocol`).

Discovery finds contacts, which are random members of the topic. The node sends GETNODES to contacts, and JOIN to some
of the peers in their answers. A peer has an entry in the table ATTEMPTS from the JOIN to it until an ACCEPT, or until
the wait for one ends. The joiner is the node that joins.
"""

from __future__ import annotations

import numpy as np

from hearsay.core.language.events import EventKind
from hearsay.core.language.rpc import PartKind
from hearsay.core.rules.randomness import Purpose
from hearsay.sim.array.compiling import sort_numbers
from hearsay.sim.array.episub.basics import (
    CONTENT,
    DUE,
    NONE,
    PEER,
    clear,
    first_overdue,
    life,
    place_of,
    put,
    remove_entry,
    with_overlay,
)
from hearsay.sim.array.episub.links import accept_neighbour, is_hyparview
from hearsay.sim.array.episub.meetings import (
    FAILED,
    FOR_FORWARDED,
    FOR_JOIN,
    FOR_JOINER,
    FOR_NODES,
    NO_ROOM,
    READY,
    WAITING,
    mark_used,
    meet,
    next_sequence,
    release_entry,
    reply_due,
    update_idle,
)
from hearsay.sim.array.episub.overlay_parts import (
    begin_part,
    bounded,
    number,
    number_of_peers,
    peer_at,
    peers_within,
    send_numbers,
    send_part,
    write_peer,
)
from hearsay.sim.array.episub.views import (
    add_passive,
    is_active,
    neighbours,
    passive_peers,
    random_links,
    without_entries,
)
from hearsay.sim.array.episub.views import remove_passive as forget_passive
from hearsay.sim.array.travel.outbox import write_word
from hearsay.sim.array.world import lists
from hearsay.sim.array.world.draws import below, draw_topic, extend, pick
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
    SCRATCH_USED,
    SIZE_ACTIVE,
    SIZE_PASSIVE,
    SIZE_RANDOM,
    World,
    candidates,
    control,
    meetings,
    overlays,
    pool,
    scratch,
)
from hearsay.sim.array.world.lists import NEXT, size_of
from hearsay.sim.array.world.queue import NODE, insert, word_0
from hearsay.sim.array.world.slots import parameter

_LAST_FIRST = 1 << 27
"""If several answers of discovery come at the same time, the answer to the last request is handled first, as in the
reference engine (`Connections._push`). Events at the same time are ordered by source. So the sources of a node's
requests count down from this number."""
CONTACTS = 3
"""The maximum number of contacts to which the node sends GETNODES at once (`core.episub.join_protocol.CONTACTS`)."""


@with_overlay
def is_alone(w: World, node: int, topic: int) -> bool:
    """Return whether the node must join the overlay: it has no link, or with HyParView fewer than two."""
    return overlays(w)[node, topic, ACTIVE_COUNT] < (2 if is_hyparview(w, node) else 1)


@with_overlay
def find_contacts(w: World, th: int, now: int, node: int, topic: int) -> None:
    """Ask discovery for contacts (JOIN-1, JOIN-2). Do nothing while the node waits for discovery, for a NODES, or for
    an answer to a JOIN."""
    line = overlays(w)[node, topic]
    if line[ATTEMPTS] >= 0 or line[ASKED_NODES] >= 0 or now < line[LOOKING_UNTIL]:
        return
    line[LOOKING_UNTIL] = reply_due(w, now, node, topic)
    meetings(w)[node, ASKED_DISCOVERY] += 1
    source = _LAST_FIRST - meetings(w)[node, ASKED_DISCOVERY] % _LAST_FIRST
    rest = word_0(EventKind.CONTACTS_FOUND, source, -1, life(w, node))
    insert(w, th, now + w[RENDEZVOUS], rest, node << NODE | topic, 0, 1)


@with_overlay
def ask_for_nodes(w: World, th: int, now: int, node: int, topic: int, peer: int) -> None:
    """Send GETNODES to a peer; dial the peer if necessary (JOIN-1)."""
    if place_of(w, node, topic, ASKED_NODES, peer) >= 0:
        return
    put(w, node, topic, ASKED_NODES, peer, reply_due(w, now, node, topic), 0)
    mark_used(w, node, peer)
    result = meet(w, th, now, node, topic, peer, FOR_NODES, 0, 0, NONE)
    if result == READY:
        send_numbers(w, th, node, peer, PartKind.GETNODES, topic, -1, 0, 0)
        update_idle(w, now, node, peer)
    elif result == FAILED:
        joining_failed(w, th, now, node, topic, peer)
    elif result == NO_ROOM:
        release_entry(w, now, node, topic, ASKED_NODES, peer)


@with_overlay
def on_get_nodes(w: World, th: int, now: int, node: int, topic: int, sender: int) -> None:
    """Answer a GETNODES with random passive peers. If there are few, add neighbours."""
    limit = min(parameter(w, node, MAX_PART_PEERS), overlays(w)[node, topic, SIZE_PASSIVE])
    start = begin_part(w, th)
    write_word(w, th, parameter(w, node, JOIN_TTL))
    state = extend(draw_topic(w, Purpose.NODES, node, topic, now), np.uint64(sender))
    shown = pick(w, th, state, passive_peers(w, th, node, topic, sender), limit)
    for place in range(shown):
        write_peer(w, th, start, candidates(w)[th, place])
    for place in range(min(neighbours(w, th, node, topic, sender, NONE), limit - shown)):
        write_peer(w, th, start, candidates(w)[th, place])
        shown += 1
    sort_numbers(scratch(w)[th], start + 3, start + 3 + shown)
    send_part(w, th, node, sender, PartKind.NODES, topic, start)


@with_overlay
def on_nodes(w: World, th: int, now: int, node: int, topic: int, sender: int, at: int) -> None:
    """Add the peers of a NODES and its sender to the passive list, and send JOINs if links are missing. Do nothing if
    the node does not wait for the NODES."""
    if place_of(w, node, topic, ASKED_NODES, sender) < 0:
        return
    count = peers_within(w, node, number_of_peers(w, at))
    for place in range(count):
        add_passive(w, th, now, node, topic, peer_at(w, at, PartKind.NODES, place))
    add_passive(w, th, now, node, topic, sender)
    ttl = bounded(number(w, at, 0), parameter(w, node, JOIN_TTL))
    line = overlays(w)[node, topic]
    if is_hyparview(w, node):
        wanted = is_alone(w, node, topic) and line[ATTEMPTS] < 0 and not is_active(w, node, topic, sender)
        if wanted and line[JOINS_LEFT] > 0:
            line[JOINS_LEFT] -= 1
            _send_join(w, th, now, node, topic, sender, ttl)
    else:
        short = line[SIZE_RANDOM] - line[ACTIVE_COUNT] - size_of(w, node, line[ATTEMPTS])
        size = without_entries(w, th, node, topic, passive_peers(w, th, node, topic, NONE), ATTEMPTS)
        size = pick(w, th, draw_topic(w, Purpose.JOIN_AT, node, topic, now), size, short)
        first = copy_candidates(w, th, size)
        for place in range(first, first + size):
            _send_join(w, th, now, node, topic, scratch(w)[th, place], ttl)
    release_entry(w, now, node, topic, ASKED_NODES, sender)


@with_overlay
def copy_candidates(w: World, th: int, size: int) -> int:
    """Copy the first `size` candidates to `scratch`, where they stay during the call. Return the index of the first
    copy."""
    start = control(w)[th, SCRATCH_USED]
    for place in range(size):
        write_word(w, th, candidates(w)[th, place])
    return int(start)


@with_overlay
def _send_join(w: World, th: int, now: int, node: int, topic: int, peer: int, ttl: int) -> None:
    """Send a JOIN to a peer; dial the peer if necessary. If the peer cannot be met, try another one with a lower TTL
    (JOIN-3, JOIN-5)."""
    while True:
        put(w, node, topic, ATTEMPTS, peer, reply_due(w, now, node, topic), ttl)
        sequence = next_sequence(w, now, node)
        result = meet(w, th, now, node, topic, peer, FOR_JOIN, ttl, sequence, NONE)
        if result == READY:
            send_numbers(w, th, node, peer, PartKind.JOIN, topic, node, ttl, sequence)
            update_idle(w, now, node, peer)
        if result != FAILED:
            return
        forget_passive(w, th, now, node, topic, peer)
        release_entry(w, now, node, topic, ASKED_NODES, peer)
        remove_entry(w, node, topic, ATTEMPTS, peer)
        peer = _next_start(w, th, now, node, topic, peer, ttl)
        if peer < 0:
            return
        ttl -= 1


@with_overlay
def _next_start(w: World, th: int, now: int, node: int, topic: int, failed: int, ttl: int) -> int:
    """Return a random passive peer, which gets the JOIN that the peer `failed` did not answer.

    Return -1 if no random links are missing, there is no other peer, or the TTL is 0.
    """
    line = overlays(w)[node, topic]
    short = random_links(w, node, topic) + size_of(w, node, line[ATTEMPTS]) < line[SIZE_RANDOM]
    size = without_entries(w, th, node, topic, passive_peers(w, th, node, topic, failed), ATTEMPTS)
    if not short or size == 0 or ttl <= 0:
        return NONE
    state = extend(draw_topic(w, Purpose.JOIN_AT, node, topic, now), np.uint64(failed))
    return int(candidates(w)[th, below(extend(state, np.uint64(ttl)), size)])


@with_overlay
def _send_join_elsewhere(w: World, th: int, now: int, node: int, topic: int, failed: int, ttl: int) -> None:
    """Send the JOIN that `failed` did not answer to another peer, with a TTL lower by one (JOIN-5)."""
    peer = _next_start(w, th, now, node, topic, failed, ttl)
    if peer >= 0:
        _send_join(w, th, now, node, topic, peer, ttl - 1)


@with_overlay
def joining_failed(w: World, th: int, now: int, node: int, topic: int, peer: int) -> None:
    """Handle a peer that cannot be reached: do not wait for its NODES, and send a JOIN that went to it to another
    peer."""
    release_entry(w, now, node, topic, ASKED_NODES, peer)
    place = place_of(w, node, topic, ATTEMPTS, peer)
    if place >= 0:
        ttl = pool(w)[lists.owner(w, node), place, CONTENT]
        remove_entry(w, node, topic, ATTEMPTS, peer)
        _send_join_elsewhere(w, th, now, node, topic, peer, ttl)


@with_overlay
def join_accepted(w: World, node: int, topic: int) -> None:
    """Handle an ACCEPT that made a neighbour: stop waiting for the answer to the oldest JOIN. If there are enough
    random links, stop waiting for the answers to all JOINs."""
    entries = pool(w)[lists.owner(w, node)]
    place = overlays(w)[node, topic, ATTEMPTS]
    first = place
    while place >= 0:
        due = entries[place, DUE]
        if due < entries[first, DUE] or (due == entries[first, DUE] and entries[place, PEER] < entries[first, PEER]):
            first = place
        place = entries[place, NEXT]
    if first >= 0:
        remove_entry(w, node, topic, ATTEMPTS, entries[first, PEER])
    if random_links(w, node, topic) >= overlays(w)[node, topic, SIZE_RANDOM]:
        clear(w, node, topic, ATTEMPTS)


@with_overlay
def expire_joins(w: World, th: int, now: int, node: int, topic: int) -> None:
    """Send each JOIN that was not answered in time to another peer. Stop waiting for the NODES of peers that did not
    answer in time."""
    entries = pool(w)[lists.owner(w, node)]
    start = control(w)[th, SCRATCH_USED]
    peer = first_overdue(w, now, node, topic, ATTEMPTS)
    while peer >= 0:
        write_word(w, th, peer)
        write_word(w, th, entries[place_of(w, node, topic, ATTEMPTS, peer), CONTENT])
        remove_entry(w, node, topic, ATTEMPTS, peer)
        peer = first_overdue(w, now, node, topic, ATTEMPTS)
    for place in range(start, control(w)[th, SCRATCH_USED], 2):
        _send_join_elsewhere(w, th, now, node, topic, scratch(w)[th, place], scratch(w)[th, place + 1])
    peer = first_overdue(w, now, node, topic, ASKED_NODES)
    while peer >= 0:
        release_entry(w, now, node, topic, ASKED_NODES, peer)
        peer = first_overdue(w, now, node, topic, ASKED_NODES)


# JOIN and FORWARDJOIN.


@with_overlay
def on_join(w: World, th: int, now: int, node: int, topic: int, sender: int, at: int) -> None:
    joiner = peer_at(w, at, PartKind.JOIN, 0)
    ttl = bounded(number(w, at, 0), parameter(w, node, JOIN_TTL))
    sequence = number(w, at, 1)
    if joiner == node:
        return
    if is_hyparview(w, node):
        if joiner == sender:
            accept_joiner(w, th, now, node, topic, joiner, sequence)
        return
    line = overlays(w)[node, topic]
    onward = neighbours(w, th, node, topic, joiner, sender)
    room = line[ACTIVE_COUNT] < line[SIZE_ACTIVE] and not is_active(w, node, topic, joiner)
    if room or ttl == 0 or onward == 0:
        result = meet(w, th, now, node, topic, joiner, FOR_JOINER, ttl, sequence, sender)
        if result == READY:
            accept_joiner(w, th, now, node, topic, joiner, sequence)
            update_idle(w, now, node, joiner)
        if result == READY or result == WAITING:
            return
    pass_on(w, th, Purpose.JOIN_WALK, now, node, topic, PartKind.JOIN, sender, joiner, ttl, sequence)


@with_overlay
def pass_on(
    w: World, th: int, purpose: int, now: int, node: int, topic: int, kind: int, sender: int, joiner: int, ttl: int,
    sequence: int,
) -> None:  # fmt: skip
    """Send a JOIN or FORWARDJOIN that came from `sender` to a random other neighbour, unless its TTL is 0."""
    onward = neighbours(w, th, node, topic, joiner, sender)
    if ttl > 0 and onward > 0:
        target = _step(w, th, purpose, now, node, topic, joiner, sequence, onward)
        send_numbers(w, th, node, target, kind, topic, joiner, ttl - 1, sequence)


@with_overlay
def _step(
    w: World, th: int, purpose: int, now: int, node: int, topic: int, joiner: int, sequence: int, onward: int
) -> int:
    """Return the next peer of a random walk: a random one of the first `onward` candidates."""
    state = extend(extend(draw_topic(w, purpose, node, topic, now), np.uint64(joiner)), np.uint64(sequence))
    return int(candidates(w)[th, below(state, onward)])


@with_overlay
def accept_joiner(w: World, th: int, now: int, node: int, topic: int, joiner: int, sequence: int) -> None:
    """Make a joiner a neighbour, and send FORWARDJOIN (JOIN-4, JOIN-6). Do nothing if there is no room."""
    if not accept_neighbour(w, th, now, node, topic, joiner, True):
        return
    ttl = parameter(w, node, JOIN_TTL)
    others = neighbours(w, th, node, topic, joiner, NONE)
    if not is_hyparview(w, node) and others > 0:
        target = _step(w, th, Purpose.FORWARD_JOIN, now, node, topic, joiner, sequence, others)
        send_numbers(w, th, node, target, PartKind.FORWARDJOIN, topic, joiner, ttl, sequence)
        return
    for place in range(others):
        send_numbers(w, th, node, candidates(w)[th, place], PartKind.FORWARDJOIN, topic, joiner, ttl, sequence)


@with_overlay
def on_forward_join(w: World, th: int, now: int, node: int, topic: int, sender: int, at: int) -> None:
    joiner = peer_at(w, at, PartKind.FORWARDJOIN, 0)
    ttl = bounded(number(w, at, 0), parameter(w, node, JOIN_TTL))
    sequence = number(w, at, 1)
    if joiner == node:
        return
    if is_hyparview(w, node):
        onward = neighbours(w, th, node, topic, joiner, sender)
        if (ttl == 0 or onward == 0) and not is_active(w, node, topic, joiner):
            result = meet(w, th, now, node, topic, joiner, FOR_FORWARDED, 0, 0, NONE)
            if result == READY:
                accept_neighbour(w, th, now, node, topic, joiner, True)
                update_idle(w, now, node, joiner)
            elif result == FAILED or result == NO_ROOM:
                add_passive(w, th, now, node, topic, joiner)
            return
        if ttl == parameter(w, node, PASSIVE_TTL):
            add_passive(w, th, now, node, topic, joiner)
    else:
        add_passive(w, th, now, node, topic, joiner)
    pass_on(w, th, Purpose.FORWARD_JOIN, now, node, topic, PartKind.FORWARDJOIN, sender, joiner, ttl, sequence)
