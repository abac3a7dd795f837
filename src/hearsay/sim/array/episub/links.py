"""The links of the active list: how nodes agree on a link, and how one of them ends it (`core.episub.neighbours`).

After a link request was refused or failed, `growth.py` may send one to another peer. The table REQUESTS has the peers
to which the node has an open link request, the table JUDGING the peers whose own request waits for the answer to a
ping. The argument `random` is True for a random link, False for a near one (`views.py`).
"""

from __future__ import annotations

import numpy as np

from hearsay.core.language.rpc import PartKind
from hearsay.core.rules.randomness import Purpose
from hearsay.sim.array.episub.basics import CONTENT, DUE, NONE, place_of, put, with_overlay
from hearsay.sim.array.episub.meetings import (
    FAILED,
    FOR_REQUEST,
    READY,
    WAITING,
    mark_used,
    meet,
    ping,
    release_entry,
    reply_due,
    update_idle,
)
from hearsay.sim.array.episub.overlay_parts import (
    ACCEPT,
    QUERY,
    REPLY,
    REQUEST,
    begin_part,
    number,
    send_disconnect,
    send_part,
    write_peer,
)
from hearsay.sim.array.episub.views import (
    add_active,
    farthest_near,
    is_active,
    random_links,
    remove_active,
    remove_passive,
    rtt,
)
from hearsay.sim.array.travel.outbox import write_word
from hearsay.sim.array.world import lists
from hearsay.sim.array.world.draws import below, draw_topic
from hearsay.sim.array.world.layout import (
    ACTIVE_COUNT,
    ACTIVE_LIMIT,
    ALPHA,
    HYPARVIEW,
    JUDGING,
    OVERLAY,
    REQUESTS,
    SIZE_ACTIVE,
    SIZE_RANDOM,
    World,
    overlays,
    pool,
    view_peers,
)
from hearsay.sim.array.world.slots import is_connected, parameter


@with_overlay
def is_hyparview(w: World, node: int) -> bool:
    return parameter(w, node, OVERLAY) == HYPARVIEW


# Requests.


@with_overlay
def begin_request(w: World, th: int, now: int, node: int, topic: int, peer: int, random: bool, replaces: int) -> bool:
    """Begin a link request to a peer; dial the peer if necessary. Return True if the request has failed at once.

    If the active list is too long after the peer has accepted, the link to `replaces` ends (-1: no link ends).
    """
    put(w, node, topic, REQUESTS, peer, NONE, (replaces + 1) << 1 | int(random))
    mark_used(w, node, peer)
    result = meet(w, th, now, node, topic, peer, FOR_REQUEST, 0, 0, NONE)
    if result == READY:
        send_request(w, th, now, node, topic, peer)
        update_idle(w, now, node, peer)
    if result == READY or result == WAITING:
        return False
    return drop_request(w, th, now, node, topic, peer, result == FAILED)


@with_overlay
def send_request(w: World, th: int, now: int, node: int, topic: int, peer: int) -> None:
    """Send the link request to a peer that is connected now, unless the request has ended. If the peer is a neighbour
    already, end the request instead."""
    place = place_of(w, node, topic, REQUESTS, peer)
    if place < 0:
        return
    if is_active(w, node, topic, peer):
        release_entry(w, now, node, topic, REQUESTS, peer)
        return
    entry = pool(w)[lists.owner(w, node), place]
    entry[DUE] = reply_due(w, now, node, topic)
    send_neighbor(w, th, node, topic, peer, REQUEST, entry[CONTENT] & 1 != 0)


@with_overlay
def drop_request(w: World, th: int, now: int, node: int, topic: int, peer: int, forget: bool) -> bool:
    """End a request that made no link. With `forget`, also remove the peer from the passive list.

    Return whether there was a request to the peer. If so, the caller sends a request to another peer.
    """
    had_one = release_entry(w, now, node, topic, REQUESTS, peer)
    if had_one and forget:
        remove_passive(w, th, now, node, topic, peer)
    return had_one


@with_overlay
def send_neighbor(w: World, th: int, node: int, topic: int, peer: int, role: int, random: bool) -> None:
    """Send a NEIGHBOR with the role REQUEST, ACCEPT, QUERY or REPLY. A REPLY names the node's other neighbours."""
    start = begin_part(w, th)
    write_word(w, th, role)
    write_word(w, th, int(random))
    write_word(w, th, overlays(w)[node, topic, ACTIVE_COUNT])
    write_word(w, th, random_links(w, node, topic))
    write_word(w, th, max(0, rtt(w, node, topic, peer)))
    if role == REPLY:
        for place in range(overlays(w)[node, topic, ACTIVE_COUNT]):
            other = view_peers(w)[node, topic, place]
            if other != peer:
                write_peer(w, th, start, other)
    send_part(w, th, node, peer, PartKind.NEIGHBOR, topic, start)


# Links.


@with_overlay
def accept_neighbour(w: World, th: int, now: int, node: int, topic: int, peer: int, random: bool) -> bool:
    """Make a connected peer a neighbour, unless it is one already, and send it ACCEPT (NEIGHBOR-3). Return False if
    there is no room; then do neither."""
    if not is_active(w, node, topic, peer):
        if not _make_room(w, th, now, node, topic):
            return False
        mark_used(w, node, peer)
        add_active(w, th, now, node, topic, peer, random)
    send_neighbor(w, th, node, topic, peer, ACCEPT, random)
    return True


@with_overlay
def _make_room(w: World, th: int, now: int, node: int, topic: int) -> bool:
    """Return whether there is room for one more neighbour. With HyParView, drop a random neighbour to make room."""
    count = overlays(w)[node, topic, ACTIVE_COUNT]
    if not is_hyparview(w, node):
        return count < parameter(w, node, ACTIVE_LIMIT)
    if count >= overlays(w)[node, topic, SIZE_ACTIVE]:
        chosen = below(draw_topic(w, Purpose.ACTIVE_EVICT, node, topic, now), count)
        evict(w, th, now, node, topic, view_peers(w)[node, topic, chosen])
    return True


@with_overlay
def evict(w: World, th: int, now: int, node: int, topic: int, peer: int) -> None:
    """Remove a neighbour and send it DISCONNECT."""
    drop_link(w, th, now, node, topic, peer, True)
    send_disconnect(w, th, node, peer, topic, False)


@with_overlay
def drop_link(w: World, th: int, now: int, node: int, topic: int, peer: int, remember: bool) -> None:
    """End the link to a neighbour without a DISCONNECT. With `remember`, the peer becomes a passive entry."""
    remove_active(w, th, now, node, topic, peer, remember)
    update_idle(w, now, node, peer)


@with_overlay
def disconnect_stranger(w: World, th: int, node: int, topic: int, peer: int) -> None:
    """Send DISCONNECT to a peer that wrongly treats the node as its neighbour (NEIGHBOR-4). Do nothing if a link
    request to the peer is open."""
    if place_of(w, node, topic, REQUESTS, peer) < 0:
        send_disconnect(w, th, node, peer, topic, False)


# Received parts.


@with_overlay
def on_neighbor(w: World, th: int, now: int, node: int, topic: int, sender: int, at: int) -> bool:
    """Handle a NEIGHBOR, except REPLY. Return True if the part is an ACCEPT that made the active list longer."""
    role = number(w, at, 0)
    if role == REQUEST:
        _on_request(w, th, now, node, topic, sender, at)
    elif role == ACCEPT:
        return _on_accept(w, th, now, node, topic, sender, number(w, at, 1) != 0)
    elif role == QUERY:
        if is_active(w, node, topic, sender):
            send_neighbor(w, th, node, topic, sender, REPLY, False)
        else:
            disconnect_stranger(w, th, node, topic, sender)
    return False


@with_overlay
def _on_request(w: World, th: int, now: int, node: int, topic: int, sender: int, at: int) -> None:
    """Grant a link request, refuse it, or ping the peer first (NEIGHBOR-1, NEIGHBOR-2, NEIGHBOR-5)."""
    sizes = overlays(w)[node, topic]
    random = number(w, at, 1) != 0
    links = number(w, at, 2)
    wanted = is_active(w, node, topic, sender) or place_of(w, node, topic, REQUESTS, sender) >= 0
    has_near = not is_hyparview(w, node) and sizes[SIZE_ACTIVE] != sizes[SIZE_RANDOM]
    if wanted or sizes[ACTIVE_COUNT] < sizes[SIZE_ACTIVE]:
        _grant(w, th, now, node, topic, sender, random)
    elif links == 0 if is_hyparview(w, node) else links < sizes[SIZE_RANDOM]:
        _grant(w, th, now, node, topic, sender, True)
    elif not random and has_near and place_of(w, node, topic, JUDGING, sender) < 0:
        put(w, node, topic, JUDGING, sender, reply_due(w, now, node, topic), 0)
        mark_used(w, node, sender)
        ping(w, th, now, node, sender)
    else:
        refuse(w, th, node, topic, sender)


@with_overlay
def _grant(w: World, th: int, now: int, node: int, topic: int, peer: int, random: bool) -> None:
    if not accept_neighbour(w, th, now, node, topic, peer, random):
        refuse(w, th, node, topic, peer)


@with_overlay
def refuse(w: World, th: int, node: int, topic: int, peer: int) -> None:
    if is_connected(w, node, peer):
        send_disconnect(w, th, node, peer, topic, True)


@with_overlay
def _on_accept(w: World, th: int, now: int, node: int, topic: int, sender: int, random: bool) -> bool:
    """Make the sender of an ACCEPT a neighbour. Return whether the active list has another length than before."""
    entries = pool(w)[lists.owner(w, node)]
    place = place_of(w, node, topic, REQUESTS, sender)
    replaces = (entries[place, CONTENT] >> 1) - 1 if place >= 0 else NONE
    release_entry(w, now, node, topic, REQUESTS, sender)
    if is_active(w, node, topic, sender):
        return False
    before = int(overlays(w)[node, topic, ACTIVE_COUNT])
    if not _make_room(w, th, now, node, topic):
        send_disconnect(w, th, node, sender, topic, False)
        return False
    mark_used(w, node, sender)
    add_active(w, th, now, node, topic, sender, random)
    line = overlays(w)[node, topic]
    if replaces >= 0 and line[ACTIVE_COUNT] > line[SIZE_ACTIVE] and is_active(w, node, topic, replaces):
        evict(w, th, now, node, topic, replaces)
    return overlays(w)[node, topic, ACTIVE_COUNT] != before


@with_overlay
def is_closer(w: World, node: int, topic: int, rtt_us: int, near: int) -> bool:
    """Return whether a round-trip time is below `alpha_percent` of that to the neighbour `near`; False if the latter
    is unknown."""
    other_us = rtt(w, node, topic, near)
    if other_us < 0:
        return False
    return bool(np.uint64(rtt_us) * np.uint64(100) < np.uint64(other_us) * np.uint64(parameter(w, node, ALPHA)))


@with_overlay
def decide_measured(w: World, th: int, now: int, node: int, topic: int, peer: int, rtt_us: int) -> None:
    """If a peer's request for a near link waits for this round-trip time, decide about the request (NEIGHBOR-1)."""
    if not release_entry(w, now, node, topic, JUDGING, peer) or is_active(w, node, topic, peer):
        return
    farthest = farthest_near(w, node, topic, NONE)
    sizes = overlays(w)[node, topic]
    has_enough = sizes[ACTIVE_COUNT] > sizes[SIZE_RANDOM]
    if farthest >= 0 and has_enough and is_closer(w, node, topic, rtt_us, farthest):
        evict(w, th, now, node, topic, farthest)
        accept_neighbour(w, th, now, node, topic, peer, False)
    else:
        refuse(w, th, node, topic, peer)
