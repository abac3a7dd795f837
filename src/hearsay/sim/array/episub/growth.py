"""Upkeep of the active list: links are added, removed, and replaced by links to nearer peers (`core.episub.upkeep`).

A link is random, or near if its round-trip time is among the shortest (`views.py`). A link request asks a peer to
become a neighbour. The table TRIED has the peers that `grow` does not ask again before the next round of
stabilisation.

Layout: `frames` is a stack of link requests that are not sent yet. A line has a peer, and 1 for a random or 0 for a
near link. If a request fails at once, requests to other peers are put on top of the stack, and are sent before those
below.
"""

from __future__ import annotations

from hearsay.core.language.rpc import PartKind
from hearsay.core.rules.randomness import Purpose
from hearsay.sim.array.episub.basics import (
    CONTENT,
    DUE,
    NONE,
    PEER,
    clear,
    place_of,
    put,
    with_overlay,
)
from hearsay.sim.array.episub.joining import ask_for_nodes, copy_candidates, find_contacts, is_alone
from hearsay.sim.array.episub.links import begin_request, drop_request, evict, is_closer, is_hyparview, send_neighbor
from hearsay.sim.array.episub.meetings import ping
from hearsay.sim.array.episub.overlay_parts import QUERY, number, number_of_peers, peer_at
from hearsay.sim.array.episub.views import (
    UNMEASURED_US,
    farthest_near,
    is_active,
    is_random,
    neighbours,
    passive_peers,
    random_links,
    relabel,
    rtt,
    sort_by_chance,
    sort_by_rtt,
    without_entries,
)
from hearsay.sim.array.world import lists
from hearsay.sim.array.world.draws import below, draw_topic, pick
from hearsay.sim.array.world.layout import (
    ACTIVE_COUNT,
    ASKS_LEFT,
    ATTEMPTS,
    AWAITS_LISTS,
    FRAMES,
    JOINS_LEFT,
    MOST_ACTIVE,
    OUTBOX_FULL,
    PASSIVE_COUNT,
    REPLIES,
    REQUESTS,
    SIZE_ACTIVE,
    SIZE_RANDOM,
    STATUS,
    TRIED,
    World,
    candidates,
    control,
    frames,
    overlays,
    pool,
    scratch,
    view_notes,
    view_peers,
)
from hearsay.sim.array.world.lists import FIRST, NEXT, entry_before, free_all, size_of

_PINGS_PER_ROUND = 2


@with_overlay
def grow(w: World, th: int, now: int, node: int, topic: int) -> None:
    """Send link requests until links and open requests together are SIZE_ACTIVE, or until only near links are missing
    and ASKS_LEFT is used up (UPKEEP-1). If no peer is left to ask, look for more peers (UPKEEP-2)."""
    bottom = control(w)[th, FRAMES]
    _choose_peers(w, th, now, node, topic)
    while control(w)[th, FRAMES] > bottom:
        top = control(w)[th, FRAMES] - 1
        control(w)[th, FRAMES] = top
        peer = frames(w)[th, top, 0]
        put(w, node, topic, TRIED, peer, NONE, 0)
        if begin_request(w, th, now, node, topic, peer, frames(w)[th, top, 1] != 0, NONE):
            _choose_peers(w, th, now, node, topic)


@with_overlay
def request(w: World, th: int, now: int, node: int, topic: int, peer: int, random: bool, replaces: int) -> None:
    """Send a peer a link request with which it may replace the neighbour `replaces` (`links.begin_request`). If the
    request fails at once, ask other peers."""
    if begin_request(w, th, now, node, topic, peer, random, replaces):
        _ask_others(w, th, now, node, topic, peer)


@with_overlay
def end_request(w: World, th: int, now: int, node: int, topic: int, peer: int, forget: bool) -> None:
    """If a link request to a peer is open, end it and ask other peers: the peer refused or cannot be reached.

    With `forget`, also remove the peer from the passive list.
    """
    if drop_request(w, th, now, node, topic, peer, forget):
        _ask_others(w, th, now, node, topic, peer)


@with_overlay
def _ask_others(w: World, th: int, now: int, node: int, topic: int, tried: int) -> None:
    """After the request to the peer `tried` failed, send link requests to other peers."""
    put(w, node, topic, TRIED, tried, NONE, 0)
    grow(w, th, now, node, topic)


@with_overlay
def _choose_peers(w: World, th: int, now: int, node: int, topic: int) -> None:
    """Push up to as many link requests onto `frames` as links are missing. The one to send first is pushed last. If
    no peer is left to ask, look for more peers."""
    line = overlays(w)[node, topic]
    short = line[SIZE_ACTIVE] - line[ACTIVE_COUNT] - size_of(w, node, line[REQUESTS])
    if short <= 0:
        return
    short_random = line[SIZE_RANDOM] - random_links(w, node, topic) - _asked_random(w, node, topic)
    short_random -= size_of(w, node, line[ATTEMPTS])
    known = candidates(w)[th]
    size = without_entries(w, th, node, topic, passive_peers(w, th, node, topic, NONE), REQUESTS)
    size = without_entries(w, th, node, topic, size, TRIED)
    if size == 0:
        _find_more_peers(w, th, now, node, topic)
        return
    if is_hyparview(w, node):
        short_random = short
    sort_by_chance(w, th, draw_topic(w, Purpose.GROW, node, topic, now), size)
    chosen = min(size, min(short, max(0, short_random)))
    near = 0
    if chosen < short and short_random < short:
        near = min(short - chosen, max(0, line[ASKS_LEFT]))
        line[ASKS_LEFT] -= near
        near = min(near, size - chosen)
    first = copy_candidates(w, th, size)
    for place in range(size - chosen):
        known[place] = scratch(w)[th, first + chosen + place]
    sort_by_rtt(w, th, node, topic, size - chosen, False)
    for place in range(near - 1, -1, -1):
        _push_frame(w, th, known[place], 0)
    for place in range(chosen - 1, -1, -1):
        _push_frame(w, th, scratch(w)[th, first + place], 1)


@with_overlay
def _push_frame(w: World, th: int, peer: int, random: int) -> None:
    top = control(w)[th, FRAMES]
    if top == frames(w).shape[1]:
        w[STATUS] = OUTBOX_FULL
        return
    frames(w)[th, top, 0] = peer
    frames(w)[th, top, 1] = random
    control(w)[th, FRAMES] = top + 1


@with_overlay
def _asked_random(w: World, node: int, topic: int) -> int:
    """Return the number of open requests for random links."""
    entries = pool(w)[lists.owner(w, node)]
    count = 0
    place = overlays(w)[node, topic, REQUESTS]
    while place >= 0:
        count += entries[place, CONTENT] & 1
        place = entries[place, NEXT]
    return int(count)


@with_overlay
def _find_more_peers(w: World, th: int, now: int, node: int, topic: int) -> None:
    """Ask discovery for contacts, or a random neighbour for nodes, if there are too few passive peers (UPKEEP-2)."""
    line = overlays(w)[node, topic]
    if is_alone(w, node, topic) or line[PASSIVE_COUNT] == 0:
        find_contacts(w, th, now, node, topic)
    elif line[PASSIVE_COUNT] < line[SIZE_ACTIVE]:
        count = line[ACTIVE_COUNT]
        chosen = below(draw_topic(w, Purpose.NODES, node, topic, now), count)
        ask_for_nodes(w, th, now, node, topic, view_peers(w)[node, topic, chosen])


# Rounds of stabilisation.


@with_overlay
def stabilise(w: World, th: int, now: int, node: int, topic: int) -> None:
    """Do a round of stabilisation (UPKEEP-1 to UPKEEP-5)."""
    line = overlays(w)[node, topic]
    clear(w, node, topic, TRIED)
    line[JOINS_LEFT] = 1
    line[ASKS_LEFT] = 2 * max(0, line[SIZE_ACTIVE] - line[ACTIVE_COUNT])
    if line[AWAITS_LISTS]:
        for place in range(line[ACTIVE_COUNT]):
            peer = view_peers(w)[node, topic, place]
            if place_of(w, node, topic, REPLIES, peer) < 0:
                ping(w, th, now, node, peer)
        _shrink(w, th, now, node, topic)
    if line[ACTIVE_COUNT] < line[SIZE_ACTIVE]:
        grow(w, th, now, node, topic)
    elif not is_hyparview(w, node):
        if line[ACTIVE_COUNT] > line[SIZE_ACTIVE]:
            _ask_for_lists(w, th, node, topic)
        if random_links(w, node, topic) < line[SIZE_RANDOM]:
            _regain_random(w, th, now, node, topic)
        else:
            _optimise(w, th, now, node, topic)
    _measure(w, th, now, node, topic)


@with_overlay
def _ask_for_lists(w: World, th: int, node: int, topic: int) -> None:
    """Ask the neighbours for their active lists, because there are too many links (UPKEEP-3)."""
    forget_replies(w, node, topic)
    overlays(w)[node, topic, AWAITS_LISTS] = 1
    for place in range(overlays(w)[node, topic, ACTIVE_COUNT]):
        send_neighbor(w, th, node, topic, view_peers(w)[node, topic, place], QUERY, False)


@with_overlay
def forget_replies(w: World, node: int, topic: int) -> None:
    """Forget the active lists that neighbours sent in REPLYs."""
    th = lists.owner(w, node)
    place = overlays(w)[node, topic, REPLIES]
    while place >= 0:
        free_all(w, node, pool(w)[th, place, CONTENT])
        place = pool(w)[th, place, NEXT]
    clear(w, node, topic, REPLIES)


@with_overlay
def on_reply(w: World, th: int, now: int, node: int, topic: int, sender: int, at: int) -> None:
    """Store the active list that a neighbour sent in a REPLY. When all lists are there, drop links.

    In the neighbour's entry in the table REPLIES, DUE is the number of the neighbour's random links, and CONTENT is
    the first entry of a list with the neighbour's neighbours.
    """
    line = overlays(w)[node, topic]
    if not line[AWAITS_LISTS] or not is_active(w, node, topic, sender):
        return
    entries = pool(w)[lists.owner(w, node)]
    known = place_of(w, node, topic, REPLIES, sender)
    if known >= 0:
        free_all(w, node, entries[known, CONTENT])
    head = NONE
    for place in range(number_of_peers(w, at)):
        head = entry_before(w, node, head, peer_at(w, at, PartKind.NEIGHBOR, place), 0, 0)
    put(w, node, topic, REPLIES, sender, number(w, at, 3), head)
    if size_of(w, node, line[REPLIES]) >= line[ACTIVE_COUNT]:
        _shrink(w, th, now, node, topic)


@with_overlay
def _shrink(w: World, th: int, now: int, node: int, topic: int) -> None:
    """End links until there are SIZE_ACTIVE, in the two steps of UPKEEP-3. Links to neighbours without a REPLY
    stay."""
    line = overlays(w)[node, topic]
    line[AWAITS_LISTS] = 0
    entries = pool(w)[lists.owner(w, node)]
    known = candidates(w)[th]
    size = 0
    place = line[REPLIES]
    while place >= 0:
        if is_active(w, node, topic, entries[place, PEER]):
            known[size] = entries[place, PEER]
            size += 1
        place = entries[place, NEXT]
    sort_by_rtt(w, th, node, topic, size, False)
    for place in range(size - 1, -1, -1):
        if line[ACTIVE_COUNT] <= line[SIZE_ACTIVE] or random_links(w, node, topic) <= line[SIZE_RANDOM]:
            break
        peer = known[place]
        random_there = entries[place_of(w, node, topic, REPLIES, peer), DUE]
        if is_random(w, node, topic, peer) and random_there > line[SIZE_RANDOM]:
            evict(w, th, now, node, topic, peer)
    for place in range(size - 1, -1, -1):
        peer = known[place]
        if line[ACTIVE_COUNT] > line[SIZE_ACTIVE] and is_active(w, node, topic, peer):
            is_spare = not is_random(w, node, topic, peer) or random_links(w, node, topic) > line[SIZE_RANDOM]
            if is_spare and _is_linked_to_another(w, node, topic, peer):
                evict(w, th, now, node, topic, peer)
    forget_replies(w, node, topic)


@with_overlay
def _is_linked_to_another(w: World, node: int, topic: int, peer: int) -> bool:
    """Return whether a neighbour is linked with another neighbour of the node, according to its last REPLY."""
    entries = pool(w)[lists.owner(w, node)]
    place = entries[place_of(w, node, topic, REPLIES, peer), CONTENT]
    while place >= 0:
        if entries[place, FIRST] != peer and is_active(w, node, topic, entries[place, FIRST]):
            return True
        place = entries[place, NEXT]
    return False


@with_overlay
def _regain_random(w: World, th: int, now: int, node: int, topic: int) -> None:
    """Ask a random passive peer for a random link in place of the farthest near link (UPKEEP-4)."""
    line = overlays(w)[node, topic]
    replaced = farthest_near(w, node, topic, UNMEASURED_US)
    if replaced >= 0 and line[PASSIVE_COUNT] > 0 and line[REQUESTS] < 0:
        chosen = below(draw_topic(w, Purpose.GROW, node, topic, now), line[PASSIVE_COUNT])
        peer = view_peers(w)[node, topic, w[MOST_ACTIVE] + chosen]
        request(w, th, now, node, topic, peer, True, replaced)


@with_overlay
def _optimise(w: World, th: int, now: int, node: int, topic: int) -> None:
    """Relabel the links. If the nearest passive peer is close enough, ask it for a near link in place of the farthest
    one (UPKEEP-5)."""
    line = overlays(w)[node, topic]
    relabel(w, th, node, topic, line[SIZE_RANDOM], line[SIZE_ACTIVE] - line[SIZE_RANDOM])
    farthest = farthest_near(w, node, topic, NONE)
    closest = NONE
    shortest = 0
    for place in range(w[MOST_ACTIVE], w[MOST_ACTIVE] + line[PASSIVE_COUNT]):
        note = view_notes(w)[node, topic, place]
        if note > 0 and (closest < 0 or note < shortest):
            closest = view_peers(w)[node, topic, place]
            shortest = note
    if farthest < 0 or closest < 0 or line[REQUESTS] >= 0:
        return
    if is_closer(w, node, topic, rtt(w, node, topic, closest), farthest):
        request(w, th, now, node, topic, closest, False, farthest)


@with_overlay
def _measure(w: World, th: int, now: int, node: int, topic: int) -> None:
    """Ping neighbours whose round-trip time is unknown; if there are none, ping random neighbours."""
    line = overlays(w)[node, topic]
    if line[SIZE_ACTIVE] == line[SIZE_RANDOM]:
        return
    known = candidates(w)[th]
    unmeasured = 0
    for place in range(line[ACTIVE_COUNT]):
        if view_notes(w)[node, topic, place] >> 1 == 0:
            known[unmeasured] = view_peers(w)[node, topic, place]
            unmeasured += 1
    if unmeasured == 0:
        neighbours(w, th, node, topic, NONE, NONE)
        state = draw_topic(w, Purpose.PING, node, topic, now)
        unmeasured = pick(w, th, state, line[ACTIVE_COUNT], _PINGS_PER_ROUND)
    for place in range(min(unmeasured, 2 * _PINGS_PER_ROUND)):
        ping(w, th, now, node, known[place])
