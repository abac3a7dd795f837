"""Upkeep of the active list: links that are added, removed, and replaced by nearer ones (`core.episub.upkeep`).

Layout: `frames` is a stack of link requests to send; a line is a peer and whether the link would be a random one. A
request that fails at once puts other requests on top, which are sent before those below.
"""

from __future__ import annotations

from hearsay.core.shell.randomness import Purpose
from hearsay.sim.array.episub.joining import ask_for_nodes, begin_list, find_contacts, is_alone
from hearsay.sim.array.episub.links import begin_request, evict, is_closer, is_hyparview, say
from hearsay.sim.array.episub.meetings import ping
from hearsay.sim.array.episub.overlay_parts import NEIGHBOR as NEIGHBOR_PART
from hearsay.sim.array.episub.overlay_parts import QUERY, number, number_of_peers, peer_at
from hearsay.sim.array.episub.tables import CONTENT, DUE, NONE, PEER, clear, place_of, put, size_of, with_overlay
from hearsay.sim.array.episub.views import (
    draw_view,
    farthest_near,
    is_active,
    neighbours,
    passive_peers,
    random_links,
    relabel,
    rtt,
    sort_by_chance,
    sort_by_rtt,
)
from hearsay.sim.array.world import lists
from hearsay.sim.array.world.draws import below, pick
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
from hearsay.sim.array.world.lists import FIRST, NEXT

_PINGS_PER_ROUND = 2


@with_overlay
def grow(w: World, th: int, now: int, node: int, topic: int) -> None:
    """Send link requests to peers until enough are under way for SIZE_ACTIVE neighbours (UPKEEP-1)."""
    bottom = control(w)[th, FRAMES]
    _choose_peers(w, th, now, node, topic)
    while control(w)[th, FRAMES] > bottom:
        top = control(w)[th, FRAMES] - 1
        control(w)[th, FRAMES] = top
        peer = frames(w)[th, top, 0]
        _note_try(w, node, topic, peer)
        if begin_request(w, th, now, node, topic, peer, frames(w)[th, top, 1] != 0, NONE):
            _note_try(w, node, topic, peer)
            _choose_peers(w, th, now, node, topic)


@with_overlay
def request(w: World, th: int, now: int, node: int, topic: int, peer: int, random: bool, replaces: int) -> None:
    """Ask a peer for a link that takes the place of the link to `replaces`."""
    if begin_request(w, th, now, node, topic, peer, random, replaces):
        refused(w, th, now, node, topic, peer)


@with_overlay
def refused(w: World, th: int, now: int, node: int, topic: int, peer: int) -> None:
    """After a request was refused or failed, note that, and ask other peers."""
    _note_try(w, node, topic, peer)
    grow(w, th, now, node, topic)


@with_overlay
def _note_try(w: World, node: int, topic: int, peer: int) -> None:
    put(w, node, topic, TRIED, peer, NONE, 0)


@with_overlay
def _choose_peers(w: World, th: int, now: int, node: int, topic: int) -> None:
    """Push requests to passive peers onto the stack, the first one last; if there is none to ask, find others."""
    line = overlays(w)[node, topic]
    short = line[SIZE_ACTIVE] - line[ACTIVE_COUNT] - size_of(w, node, topic, REQUESTS)
    if short <= 0:
        return
    short_random = line[SIZE_RANDOM] - random_links(w, node, topic) - _asked_random(w, node, topic)
    short_random -= size_of(w, node, topic, ATTEMPTS)
    known = candidates(w)[th]
    size = 0
    for place in range(passive_peers(w, th, node, topic, NONE)):
        peer = known[place]
        if place_of(w, node, topic, TRIED, peer) < 0 and place_of(w, node, topic, REQUESTS, peer) < 0:
            known[size] = peer
            size += 1
    if size == 0:
        _look_around(w, th, now, node, topic)
        return
    if is_hyparview(w, node):
        short_random = short
    sort_by_chance(w, th, draw_view(w, Purpose.GROW, now, node, topic), size)
    chosen = min(size, min(short, max(0, short_random)))
    near = 0
    if chosen < short and short_random < short:
        near = min(short - chosen, max(0, line[ASKS_LEFT]))
        line[ASKS_LEFT] -= near
        near = min(near, size - chosen)
    first = begin_list(w, th, size)
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
    entries = pool(w)[lists.owner(w, node)]
    count = 0
    place = overlays(w)[node, topic, REQUESTS]
    while place >= 0:
        count += entries[place, CONTENT] & 1
        place = entries[place, NEXT]
    return int(count)


@with_overlay
def _look_around(w: World, th: int, now: int, node: int, topic: int) -> None:
    """Ask discovery for contacts, or a random neighbour for nodes, if the passive list is short (UPKEEP-2)."""
    line = overlays(w)[node, topic]
    if is_alone(w, node, topic) or line[PASSIVE_COUNT] == 0:
        find_contacts(w, now, node, topic, th)
    elif line[PASSIVE_COUNT] < line[SIZE_ACTIVE]:
        count = line[ACTIVE_COUNT]
        chosen = below(draw_view(w, Purpose.NODES, now, node, topic), count)
        ask_for_nodes(w, th, now, node, topic, view_peers(w)[node, topic, chosen])


# The rounds of stabilisation.


@with_overlay
def stabilise(w: World, th: int, now: int, node: int, topic: int) -> None:
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
        say(w, th, node, topic, view_peers(w)[node, topic, place], QUERY, False)


@with_overlay
def forget_replies(w: World, node: int, topic: int) -> None:
    th = lists.owner(w, node)
    place = overlays(w)[node, topic, REPLIES]
    while place >= 0:
        _free_named(w, th, pool(w)[th, place, CONTENT])
        place = pool(w)[th, place, NEXT]
    clear(w, node, topic, REPLIES)


@with_overlay
def _free_named(w: World, th: int, place: int) -> None:
    while place >= 0:
        following = pool(w)[th, place, NEXT]
        lists.free_entry(w, th, place)
        place = following


@with_overlay
def on_reply(w: World, th: int, now: int, node: int, topic: int, sender: int, at: int) -> None:
    """Store a neighbour's active list.

    In its entry of REPLIES, DUE is its number of random links, CONTENT the first entry of a list of its neighbours.
    """
    line = overlays(w)[node, topic]
    if not line[AWAITS_LISTS] or not is_active(w, node, topic, sender):
        return
    entries = pool(w)[lists.owner(w, node)]
    known = place_of(w, node, topic, REPLIES, sender)
    if known >= 0:
        _free_named(w, lists.owner(w, node), entries[known, CONTENT])
    head = NONE
    for place in range(number_of_peers(w, at)):
        fresh = lists.new_entry(w, node)
        entries[fresh, NEXT] = head
        entries[fresh, FIRST] = peer_at(w, at, NEIGHBOR_PART, place)
        head = fresh
    put(w, node, topic, REPLIES, sender, number(w, at, 3), head)
    if size_of(w, node, topic, REPLIES) >= line[ACTIVE_COUNT]:
        _shrink(w, th, now, node, topic)


@with_overlay
def _shrink(w: World, th: int, now: int, node: int, topic: int) -> None:
    """End links beyond SIZE_ACTIVE that neither node needs, the farthest first (UPKEEP-3)."""
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
    first = begin_list(w, th, size)
    for place in range(first + size - 1, first - 1, -1):
        if line[ACTIVE_COUNT] <= line[SIZE_ACTIVE] or random_links(w, node, topic) <= line[SIZE_RANDOM]:
            break
        peer = scratch(w)[th, place]
        random_there = entries[place_of(w, node, topic, REPLIES, peer), DUE]
        if _is_random(w, node, topic, peer) and random_there > line[SIZE_RANDOM]:
            evict(w, th, now, node, topic, peer)
    for place in range(size):
        known[place] = scratch(w)[th, first + place]
    sort_by_rtt(w, th, node, topic, size, False)
    second = begin_list(w, th, size)
    for place in range(second + size - 1, second - 1, -1):
        if line[ACTIVE_COUNT] <= line[SIZE_ACTIVE]:
            break
        peer = scratch(w)[th, place]
        if not is_active(w, node, topic, peer):
            continue
        is_spare = not _is_random(w, node, topic, peer) or random_links(w, node, topic) > line[SIZE_RANDOM]
        if is_spare and _is_linked(w, node, topic, peer):
            evict(w, th, now, node, topic, peer)
    forget_replies(w, node, topic)


@with_overlay
def _is_random(w: World, node: int, topic: int, peer: int) -> bool:
    for place in range(overlays(w)[node, topic, ACTIVE_COUNT]):
        if view_peers(w)[node, topic, place] == peer:
            return view_notes(w)[node, topic, place] & 1 != 0
    return False


@with_overlay
def _is_linked(w: World, node: int, topic: int, peer: int) -> bool:
    """Return whether a neighbour is linked with another neighbour of the node."""
    entries = pool(w)[lists.owner(w, node)]
    place = entries[place_of(w, node, topic, REPLIES, peer), CONTENT]
    while place >= 0:
        if entries[place, FIRST] != peer and is_active(w, node, topic, entries[place, FIRST]):
            return True
        place = entries[place, NEXT]
    return False


@with_overlay
def _regain_random(w: World, th: int, now: int, node: int, topic: int) -> None:
    """Ask a random peer for a link in place of the farthest near one (UPKEEP-4)."""
    line = overlays(w)[node, topic]
    neighbours(w, th, node, topic, NONE, NONE)
    sort_by_rtt(w, th, node, topic, line[ACTIVE_COUNT], False)
    replaced = NONE
    for place in range(line[ACTIVE_COUNT]):
        if not _is_random(w, node, topic, candidates(w)[th, place]):
            replaced = candidates(w)[th, place]
    if replaced >= 0 and line[PASSIVE_COUNT] > 0 and line[REQUESTS] < 0:
        chosen = below(draw_view(w, Purpose.GROW, now, node, topic), line[PASSIVE_COUNT])
        peer = view_peers(w)[node, topic, w[MOST_ACTIVE] + chosen]
        request(w, th, now, node, topic, peer, True, replaced)


@with_overlay
def _optimise(w: World, th: int, now: int, node: int, topic: int) -> None:
    """Ask the nearest passive peer for a link in place of the farthest near one, if that peer is closer
    (UPKEEP-5)."""
    line = overlays(w)[node, topic]
    relabel(w, th, node, topic, line[SIZE_RANDOM], line[SIZE_ACTIVE] - line[SIZE_RANDOM])
    farthest = farthest_near(w, node, topic)
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
    """Ping neighbours whose RTT is unknown, or some random ones if all are known."""
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
        state = draw_view(w, Purpose.PING, now, node, topic)
        unmeasured = pick(w, th, state, line[ACTIVE_COUNT], _PINGS_PER_ROUND)
    for place in range(min(unmeasured, 2 * _PINGS_PER_ROUND)):
        ping(w, th, now, node, known[place])
