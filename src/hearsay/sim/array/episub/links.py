"""Links of the active list: NEIGHBOR with its rules, and DISCONNECT (`core.episub.neighbours`).

After a request that was refused or failed, `growth.py` may send a request to another peer. Parameters: `random` is
True for a random link, False for a near one (to a peer with a short round-trip time).
"""

from __future__ import annotations

import numpy as np

from hearsay.core.shell.randomness import Purpose
from hearsay.sim.array.episub.meetings import (
    FAILED,
    FOR_REQUEST,
    NO_ROOM,
    READY,
    meet,
    ping,
    reply_due,
    review,
    use,
)
from hearsay.sim.array.episub.overlay_parts import (
    ACCEPT,
    NEIGHBOR,
    QUERY,
    REPLY,
    REQUEST,
    begin_part,
    number,
    say_disconnect,
    send_part,
    write,
    write_peer,
)
from hearsay.sim.array.episub.tables import CONTENT, DUE, NONE, place_of, put, take, with_overlay
from hearsay.sim.array.episub.views import (
    add_active,
    draw_view,
    farthest_near,
    is_active,
    random_links,
    remove_active,
    remove_passive,
    rtt,
)
from hearsay.sim.array.world import lists
from hearsay.sim.array.world.draws import below
from hearsay.sim.array.world.layout import (
    ACTIVE_COUNT,
    ACTIVE_LIMIT,
    ALPHA,
    CONNECTED,
    HYPARVIEW,
    JUDGING,
    OVERLAY,
    REQUESTS,
    SIZE_ACTIVE,
    SIZE_RANDOM,
    World,
    flags,
    overlays,
    pool,
    view_peers,
)
from hearsay.sim.array.world.slots import find_slot, parameter


@with_overlay
def is_hyparview(w: World, node: int) -> bool:
    return parameter(w, node, OVERLAY) == HYPARVIEW


# Requests.


@with_overlay
def begin_request(w: World, th: int, now: int, node: int, topic: int, peer: int, random: bool, replaces: int) -> bool:
    """Ask a peer to become a neighbour, in place of `replaces`, -1 for none; return whether that failed at once."""
    put(w, node, topic, REQUESTS, peer, NONE, (replaces + 1) << 1 | int(random))
    use(w, node, peer)
    result = meet(w, th, now, node, topic, peer, FOR_REQUEST, 0, 0, 0, -1)
    if result == READY:
        ask(w, th, now, node, topic, peer)
        review(w, now, node, peer)
    elif result == FAILED:
        return request_fails(w, th, now, node, topic, peer, True)
    elif result == NO_ROOM:
        return request_fails(w, th, now, node, topic, peer, False)
    return False


@with_overlay
def ask(w: World, th: int, now: int, node: int, topic: int, peer: int) -> None:
    """Send the request, if it is still wanted, to a peer that is connected now."""
    place = place_of(w, node, topic, REQUESTS, peer)
    if place < 0:
        return
    if is_active(w, node, topic, peer):
        finish_request(w, now, node, topic, peer)
        return
    entry = pool(w)[lists.owner(w, node), place]
    entry[DUE] = reply_due(w, now, node, topic)
    say(w, th, node, topic, peer, REQUEST, entry[CONTENT] & 1 != 0)


@with_overlay
def finish_request(w: World, now: int, node: int, topic: int, peer: int) -> None:
    if take(w, node, topic, REQUESTS, peer):
        review(w, now, node, peer)


@with_overlay
def request_fails(w: World, th: int, now: int, node: int, topic: int, peer: int, forget: bool) -> bool:
    """End a request without a link; return whether there was one: then the caller asks other peers.

    If the last argument is True, also remove the peer from the passive list.
    """
    if place_of(w, node, topic, REQUESTS, peer) < 0:
        return False
    finish_request(w, now, node, topic, peer)
    if forget:
        remove_passive(w, th, now, node, topic, peer)
    return True


@with_overlay
def say(w: World, th: int, node: int, topic: int, peer: int, role: int, random: bool) -> None:
    """Send a NEIGHBOR, of role REQUEST, ACCEPT, QUERY or REPLY; a REPLY names the other neighbours of the node."""
    start = begin_part(w, th)
    write(w, th, role)
    write(w, th, int(random))
    write(w, th, overlays(w)[node, topic, ACTIVE_COUNT])
    write(w, th, random_links(w, node, topic))
    write(w, th, max(0, rtt(w, node, topic, peer)))
    if role == REPLY:
        for place in range(overlays(w)[node, topic, ACTIVE_COUNT]):
            other = view_peers(w)[node, topic, place]
            if other != peer:
                write_peer(w, th, start, other)
    send_part(w, th, node, peer, NEIGHBOR, topic, start)


# Links.


@with_overlay
def take_in(w: World, th: int, now: int, node: int, topic: int, peer: int, random: bool) -> bool:
    """Make a connected peer a neighbour and send it ACCEPT; return False if there is no room (NEIGHBOR-3)."""
    if not is_active(w, node, topic, peer):
        if not _make_room(w, th, now, node, topic):
            return False
        _add(w, th, now, node, topic, peer, random)
    say(w, th, node, topic, peer, ACCEPT, random)
    return True


@with_overlay
def _add(w: World, th: int, now: int, node: int, topic: int, peer: int, random: bool) -> None:
    use(w, node, peer)
    add_active(w, th, now, node, topic, peer, random)


@with_overlay
def _make_room(w: World, th: int, now: int, node: int, topic: int) -> bool:
    count = overlays(w)[node, topic, ACTIVE_COUNT]
    if not is_hyparview(w, node):
        return count < parameter(w, node, ACTIVE_LIMIT)
    if count >= overlays(w)[node, topic, SIZE_ACTIVE]:
        chosen = below(draw_view(w, Purpose.ACTIVE_EVICT, now, node, topic), count)
        evict(w, th, now, node, topic, view_peers(w)[node, topic, chosen])
    return True


@with_overlay
def evict(w: World, th: int, now: int, node: int, topic: int, peer: int) -> None:
    """Remove a neighbour and send it DISCONNECT."""
    drop_link(w, th, now, node, topic, peer, True)
    say_disconnect(w, th, node, peer, topic, False)


@with_overlay
def drop_link(w: World, th: int, now: int, node: int, topic: int, peer: int, remember: bool) -> None:
    remove_active(w, th, now, node, topic, peer, remember)
    review(w, now, node, peer)


@with_overlay
def claimed_as_neighbour(w: World, th: int, node: int, topic: int, peer: int) -> None:
    """Send DISCONNECT to a peer that treats the node as a neighbour without being one itself (NEIGHBOR-4)."""
    if place_of(w, node, topic, REQUESTS, peer) < 0:
        say_disconnect(w, th, node, peer, topic, False)


# Received parts.


@with_overlay
def on_neighbor(w: World, th: int, now: int, node: int, topic: int, sender: int, at: int) -> bool:
    """Handle a NEIGHBOR; return whether it made a link by ACCEPT."""
    role = number(w, at, 0)
    if role == REQUEST:
        _judge(w, th, now, node, topic, sender, at)
    elif role == ACCEPT:
        return _accepted(w, th, now, node, topic, sender, number(w, at, 1) != 0)
    elif role == QUERY:
        if is_active(w, node, topic, sender):
            say(w, th, node, topic, sender, REPLY, False)
        else:
            claimed_as_neighbour(w, th, node, topic, sender)
    return False


@with_overlay
def _judge(w: World, th: int, now: int, node: int, topic: int, sender: int, at: int) -> None:
    """Grant a request for a link, refuse it, or ping the peer first (NEIGHBOR-1, NEIGHBOR-2, NEIGHBOR-5)."""
    sizes = overlays(w)[node, topic]
    random = number(w, at, 1) != 0
    links = number(w, at, 2)
    wanted = is_active(w, node, topic, sender) or place_of(w, node, topic, REQUESTS, sender) >= 0
    if wanted or sizes[ACTIVE_COUNT] < sizes[SIZE_ACTIVE]:
        _grant(w, th, now, node, topic, sender, random)
    elif is_hyparview(w, node):
        if links == 0:
            _grant(w, th, now, node, topic, sender, True)
        else:
            refuse(w, th, node, topic, sender)
    elif links < sizes[SIZE_RANDOM]:
        _grant(w, th, now, node, topic, sender, True)
    elif not random and sizes[SIZE_ACTIVE] != sizes[SIZE_RANDOM] and place_of(w, node, topic, JUDGING, sender) < 0:
        put(w, node, topic, JUDGING, sender, reply_due(w, now, node, topic), 0)
        use(w, node, sender)
        ping(w, th, now, node, sender)
    else:
        refuse(w, th, node, topic, sender)


@with_overlay
def _grant(w: World, th: int, now: int, node: int, topic: int, peer: int, random: bool) -> None:
    if not take_in(w, th, now, node, topic, peer, random):
        refuse(w, th, node, topic, peer)


@with_overlay
def refuse(w: World, th: int, node: int, topic: int, peer: int) -> None:
    slot = find_slot(w, node, peer)
    if slot >= 0 and flags(w)[slot, 0] & CONNECTED:
        say_disconnect(w, th, node, peer, topic, True)


@with_overlay
def _accepted(w: World, th: int, now: int, node: int, topic: int, sender: int, random: bool) -> bool:
    entries = pool(w)[lists.owner(w, node)]
    place = place_of(w, node, topic, REQUESTS, sender)
    replaces = (entries[place, CONTENT] >> 1) - 1 if place >= 0 else NONE
    finish_request(w, now, node, topic, sender)
    if is_active(w, node, topic, sender):
        return False
    before = int(overlays(w)[node, topic, ACTIVE_COUNT])
    if not _make_room(w, th, now, node, topic):
        say_disconnect(w, th, node, sender, topic, False)
        return False
    _add(w, th, now, node, topic, sender, random)
    line = overlays(w)[node, topic]
    if replaces >= 0 and line[ACTIVE_COUNT] > line[SIZE_ACTIVE] and is_active(w, node, topic, replaces):
        evict(w, th, now, node, topic, replaces)
    return overlays(w)[node, topic, ACTIVE_COUNT] != before


@with_overlay
def is_closer(w: World, node: int, topic: int, rtt_us: int, near: int) -> bool:
    """Return whether a round-trip time is below `alpha_percent` of that to the neighbour `near`."""
    other_us = rtt(w, node, topic, near)
    if other_us < 0:
        return False
    return bool(np.uint64(rtt_us) * np.uint64(100) < np.uint64(other_us) * np.uint64(parameter(w, node, ALPHA)))


@with_overlay
def judge_measured(w: World, th: int, now: int, node: int, topic: int, peer: int, rtt_us: int) -> None:
    """Decide about a request for a near link once the round-trip time is known (NEIGHBOR-1)."""
    if not take(w, node, topic, JUDGING, peer):
        return
    review(w, now, node, peer)
    if is_active(w, node, topic, peer):
        return
    farthest = farthest_near(w, node, topic)
    sizes = overlays(w)[node, topic]
    has_enough = sizes[ACTIVE_COUNT] > sizes[SIZE_RANDOM]
    if farthest >= 0 and has_enough and is_closer(w, node, topic, rtt_us, farthest):
        evict(w, th, now, node, topic, farthest)
        take_in(w, th, now, node, topic, peer, False)
    else:
        refuse(w, th, node, topic, peer)


@with_overlay
def end_judging(w: World, now: int, node: int, topic: int, peer: int) -> bool:
    """Forget the request of a peer that waits for its round-trip time; return whether there was one."""
    if not take(w, node, topic, JUDGING, peer):
        return False
    review(w, now, node, peer)
    return True
