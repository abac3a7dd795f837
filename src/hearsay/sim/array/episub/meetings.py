"""Connections on demand: errands with peers, dials, and idle connections (`core.episub.connections`).

An errand is something that the node does with a peer once the peer is met (connected) and in the topic, such as to
send a JOIN. A connection without a use is idle: the peer is no neighbour, there is no errand with it, and the node
does not wait for its answer.

Layout: an errand is a line of `errands`. ERRANDS is the first errand in a list of all stored errands of the node;
errands with the same peer follow each other. UNDER_WAY is the first entry of a list in `pool` of the peers that are
being dialled.
"""

from __future__ import annotations

from hearsay.core.language.events import EventKind
from hearsay.sim.array.episub.basics import (
    NEVER,
    NONE,
    earlier,
    life,
    place_of,
    remove_entry,
    with_overlay,
)
from hearsay.sim.array.episub.views import is_active
from hearsay.sim.array.travel.dials import dial_for_router
from hearsay.sim.array.travel.transport import lose_link, round_trip
from hearsay.sim.array.world import lists
from hearsay.sim.array.world.layout import (
    ASKED_NODES,
    CONNECTED,
    DEAD,
    DIAL_COUNT,
    ERRAND_FREE,
    ERRAND_FRESH,
    ERRANDS,
    EXPIRE_DUE,
    GOING,
    IDLE_FOR,
    IDLE_UNTIL,
    JUDGING,
    LAST_ARRIVAL,
    LATENCY,
    LINK_FLAGS,
    MOST_DIALS,
    OPEN,
    PING_UNTIL,
    POOL_FULL,
    REPLY_TIMEOUT,
    REQUESTS,
    SEQUENCE_NUMBER,
    STATUS,
    SUBSCRIBED,
    SWEEP_DUE,
    TOPICS,
    TWIN,
    UNDER_WAY,
    World,
    control,
    errands,
    flags,
    links32,
    links64,
    links_of,
    meetings,
    overlays,
    pool,
    slot_times,
)
from hearsay.sim.array.world.lists import FIRST, entry_before
from hearsay.sim.array.world.payload import hold, release
from hearsay.sim.array.world.queue import NODE, insert, word_0
from hearsay.sim.array.world.slots import end_slot, find_slot, first_slot, is_connected, is_native, parameter

READY, FAILED, WAITING, NO_ROOM = range(4)
"""Results of `meet`."""
FOR_NODES, FOR_REQUEST, FOR_JOIN, FOR_JOINER, FOR_FORWARDED, FOR_SHUFFLE, FOR_PROBE = range(7)
"""Kinds of errands: to send GETNODES, a link request or a JOIN; to make a joiner of a JOIN or a FORWARDJOIN a
neighbour; to answer a SHUFFLE; to probe."""
E_NEXT, E_PEER, E_TOPIC, E_KIND, E_DUE, E_TTL, E_SEQUENCE, E_ABOUT = range(8)
"""Fields of an errand. E_PEER: the peer to meet. E_DUE: the end of the wait. E_ABOUT: with FOR_JOINER, the peer that
sent the JOIN; with FOR_SHUFFLE, the RPC with the SHUFFLE in the arena, which is not freed as long as the errand is
stored. E_TTL: with FOR_SHUFFLE, the number of words of the RPC before the content of the SHUFFLE."""
ALL = -2
"""The value of an argument `topic` that stands for all topics."""


@with_overlay
def start_meetings(w: World, node: int) -> None:
    """Initialise the errands and dials of a node that starts: there are none."""
    line = meetings(w)[node]
    for field in (SWEEP_DUE, ERRANDS, UNDER_WAY, GOING):
        line[field] = NONE
    line[SEQUENCE_NUMBER] = 0
    line[DIAL_COUNT] = 0


@with_overlay
def next_sequence(w: World, now: int, node: int) -> int:
    """Return a sequence number for a part that peers pass on: the time, or the last number plus one if that is
    larger."""
    number = max(meetings(w)[node, SEQUENCE_NUMBER] + 1, now)
    meetings(w)[node, SEQUENCE_NUMBER] = number
    return int(number)


@with_overlay
def set_alarm_by(w: World, node: int, topic: int, alarm: int, due: int) -> None:
    """Set an alarm of a topic, unless it is set for an earlier time."""
    overlays(w)[node, topic, alarm] = earlier(overlays(w)[node, topic, alarm], due)


@with_overlay
def reply_due(w: World, now: int, node: int, topic: int) -> int:
    """Return the end of a wait for an answer that begins now, and set the alarm EXPIRE_DUE for that time."""
    due = now + parameter(w, node, REPLY_TIMEOUT)
    set_alarm_by(w, node, topic, EXPIRE_DUE, due)
    return int(due)


@with_overlay
def set_sweep_by(w: World, node: int, due: int) -> None:
    """Set the alarm SWEEP_DUE of a node, unless it is set for an earlier time."""
    meetings(w)[node, SWEEP_DUE] = earlier(meetings(w)[node, SWEEP_DUE], due)


# Meeting peers.


@with_overlay
def is_met(w: World, node: int, peer: int) -> bool:
    """Return whether a peer is connected and is not GOING, the peer whose disconnection is being handled."""
    return is_connected(w, node, peer) and peer != meetings(w)[node, GOING]


@with_overlay
def meet(
    w: World, th: int, now: int, node: int, topic: int, peer: int, kind: int, ttl: int, sequence: int, about: int
) -> int:
    """Begin an errand of a kind with a peer, and dial the peer if necessary (DIAL-1, DIAL-2).

    Return READY if the peer is met and in the topic: the caller does the errand at once, then calls `update_idle`.
    Return FAILED if the peer cannot be met, NO_ROOM if too many dials are under way, and WAITING if the errand is
    stored until the peer is met and in the topic.
    """
    met = is_met(w, node, peer)
    slot = find_slot(w, node, peer)
    line = meetings(w)[node]
    if peer == node or (met and not is_native(w, slot)):
        return FAILED
    if met and flags(w)[slot, topic] & SUBSCRIBED:
        slot_times(w)[slot, IDLE_UNTIL] = 0
        return READY
    if not met and lists.place_in(w, node, line[UNDER_WAY], peer) < 0:
        if line[DIAL_COUNT] >= parameter(w, node, MOST_DIALS):
            return NO_ROOM
        line[UNDER_WAY] = entry_before(w, node, line[UNDER_WAY], peer, 0, 0)
        line[DIAL_COUNT] += 1
        dial_for_router(w, th, now, node, peer)
    place = _new_errand(w)
    errand = errands(w)[place]
    errand[E_PEER] = peer
    errand[E_TOPIC] = topic
    errand[E_KIND] = kind
    errand[E_DUE] = now + parameter(w, node, REPLY_TIMEOUT)
    errand[E_TTL] = ttl
    errand[E_SEQUENCE] = sequence
    errand[E_ABOUT] = about
    if kind == FOR_SHUFFLE:
        hold(w, th, about)
    set_sweep_by(w, node, errand[E_DUE])
    _add_errand(w, node, place)
    return WAITING


@with_overlay
def free_errands(w: World, th: int, first: int) -> None:
    """Free an errand and the errands behind it in its list. `first` is -1 for an empty list."""
    place = first
    while place >= 0:
        line = errands(w)[place]
        following = line[E_NEXT]
        if line[E_KIND] == FOR_SHUFFLE:
            release(w, th, line[E_ABOUT])
        line[E_NEXT] = control(w)[0, ERRAND_FREE]
        control(w)[0, ERRAND_FREE] = place
        place = following


@with_overlay
def _new_errand(w: World) -> int:
    """Return an unused line of `errands`. All lines belong to thread 0, since runs whose routers choose their
    neighbours have one thread."""
    line = control(w)[0]
    place = line[ERRAND_FREE]
    if place >= 0:
        line[ERRAND_FREE] = errands(w)[place, E_NEXT]
        return int(place)
    place = line[ERRAND_FRESH]
    if place == errands(w).shape[0]:
        w[STATUS] = POOL_FULL
        return int(place - 1)
    line[ERRAND_FRESH] = place + 1
    return int(place)


@with_overlay
def dial_is_over(w: World, node: int, peer: int) -> None:
    """Remove a peer from the list of peers that are being dialled, if it is there."""
    line = meetings(w)[node]
    place = lists.place_in(w, node, line[UNDER_WAY], peer)
    if place >= 0:
        line[UNDER_WAY] = lists.without(w, node, line[UNDER_WAY], place)
        line[DIAL_COUNT] -= 1


# Errands.


@with_overlay
def _add_errand(w: World, node: int, errand: int) -> None:
    """Add an errand behind the other errands with the same peer; if there are none, at the end of the list."""
    before = NONE
    is_found = False
    place = meetings(w)[node, ERRANDS]
    while place >= 0:
        is_same = errands(w)[place, E_PEER] == errands(w)[errand, E_PEER]
        if is_same or not is_found:
            before = place
        is_found |= is_same
        place = errands(w)[place, E_NEXT]
    if before >= 0:
        errands(w)[errand, E_NEXT] = errands(w)[before, E_NEXT]
        errands(w)[before, E_NEXT] = errand
    else:
        errands(w)[errand, E_NEXT] = NONE
        meetings(w)[node, ERRANDS] = errand


@with_overlay
def has_errand(w: World, node: int, peer: int) -> bool:
    """Return whether a stored errand is with this peer."""
    place = meetings(w)[node, ERRANDS]
    while place >= 0 and errands(w)[place, E_PEER] != peer:
        place = errands(w)[place, E_NEXT]
    return place >= 0


@with_overlay
def peer_with_errand(w: World, node: int, due: int, topic: int) -> int:
    """Return the peer of the first errand that is in a topic or whose wait ends at `due` or earlier; -1 for none."""
    place = meetings(w)[node, ERRANDS]
    while place >= 0:
        if errands(w)[place, E_DUE] <= due or errands(w)[place, E_TOPIC] == topic:
            return int(errands(w)[place, E_PEER])
        place = errands(w)[place, E_NEXT]
    return NONE


@with_overlay
def take_errands(w: World, node: int, peer: int, due: int, topic: int) -> int:
    """Remove from the list a peer's errands that are in a topic (or ALL) or whose wait ends at `due` or earlier.

    Return the first of them, -1 for none; the others are behind it in a list of their own. Errands that stay keep
    their places.
    """
    taken = NONE
    last_taken = NONE
    before = NONE
    errand = meetings(w)[node, ERRANDS]
    while errand >= 0:
        line = errands(w)[errand]
        following = line[E_NEXT]
        if line[E_PEER] == peer and (line[E_DUE] <= due or line[E_TOPIC] == topic or topic == ALL):
            if before >= 0:
                errands(w)[before, E_NEXT] = following
            else:
                meetings(w)[node, ERRANDS] = following
            if last_taken >= 0:
                errands(w)[last_taken, E_NEXT] = errand
            else:
                taken = errand
            line[E_NEXT] = NONE
            last_taken = errand
        else:
            before = errand
        errand = following
    return int(taken)


@with_overlay
def move_errands_back(w: World, node: int, peer: int) -> None:
    """Move all errands with a peer to the end of the list."""
    errand = take_errands(w, node, peer, NEVER, ALL)
    while errand >= 0:
        following = errands(w)[errand, E_NEXT]
        _add_errand(w, node, errand)
        errand = following


# Idle connections.


@with_overlay
def mark_used(w: World, node: int, peer: int) -> None:
    """Note that the connection to a peer has a use, so that it is not closed (DIAL-3)."""
    slot = find_slot(w, node, peer)
    if slot >= 0:
        slot_times(w)[slot, IDLE_UNTIL] = 0


@with_overlay
def _has_use(w: World, node: int, peer: int) -> bool:
    """Return whether the connection to a peer has a use."""
    for topic in range(w[TOPICS]):
        if is_active(w, node, topic, peer):
            return True
        for table in (REQUESTS, JUDGING, ASKED_NODES):
            if place_of(w, node, topic, table, peer) >= 0:
                return True
    return has_errand(w, node, peer)


@with_overlay
def update_idle(w: World, now: int, node: int, peer: int) -> None:
    """If the connection to a peer has become idle, note when to close it. If it has a use, clear that time (DIAL-3,
    DIAL-5)."""
    slot = find_slot(w, node, peer)
    if not is_met(w, node, peer) or not is_native(w, slot):
        return
    times = slot_times(w)[slot]
    if _has_use(w, node, peer):
        times[IDLE_UNTIL] = 0
    elif times[IDLE_UNTIL] == 0:
        times[IDLE_UNTIL] = now + parameter(w, node, IDLE_FOR)
        set_sweep_by(w, node, times[IDLE_UNTIL])


@with_overlay
def split_errands(w: World, now: int, node: int, peer: int, due: int, topic: int) -> int:
    """Remove errands as `take_errands` does. If no errand with the peer is left, its connection may be idle now."""
    taken = take_errands(w, node, peer, due, topic)
    if not has_errand(w, node, peer):
        update_idle(w, now, node, peer)
    return taken


@with_overlay
def release_entry(w: World, now: int, node: int, topic: int, table: int, peer: int) -> bool:
    """Remove a peer's entry from a table; its connection may be idle now. Return whether there was an entry."""
    was_there = remove_entry(w, node, topic, table, peer)
    if was_there:
        update_idle(w, now, node, peer)
    return was_there


@with_overlay
def close_connection(w: World, th: int, now: int, node: int, slot: int) -> None:
    """Close the connection of a slot. The peer notices this after it has received all RPCs that were sent before."""
    link = links_of(w)[slot]
    if link < 0 or not links32(w)[link, LINK_FLAGS] & OPEN or links32(w)[link, LINK_FLAGS] & DEAD:
        return
    lose_link(w, th, link, now)
    times = links64(w)[link]
    lose_link(w, th, links32(w)[link, TWIN], max(now + times[LATENCY], times[LAST_ARRIVAL]))


@with_overlay
def ping(w: World, th: int, now: int, node: int, peer: int) -> None:
    """Ping a peer, unless it is not met or a ping to it is unanswered. Queue the event of the answer, and set an
    alarm for the case that no answer comes (DIAL-4)."""
    slot = find_slot(w, node, peer)
    if not is_met(w, node, peer) or slot_times(w)[slot, PING_UNTIL]:
        return
    due = now + parameter(w, node, REPLY_TIMEOUT)
    set_sweep_by(w, node, due)
    slot_times(w)[slot, PING_UNTIL] = due
    link = links_of(w)[slot]
    if link >= 0 and links32(w)[link, LINK_FLAGS] & OPEN:
        time = round_trip(w, node, peer, now, links64(w)[link, LATENCY])
        rest = word_0(EventKind.ROUND_TRIP_MEASURED, peer, -1, life(w, node))
        insert(w, th, now + time, rest, node << NODE | time, link, 1)


@with_overlay
def first_silent(w: World, now: int, node: int) -> int:
    """Return the slot of the first peer that did not answer a ping in time, and forget the ping; -1 for none."""
    for slot in range(first_slot(w, node), end_slot(w, node)):
        due = slot_times(w)[slot, PING_UNTIL]
        if 0 < due <= now:
            slot_times(w)[slot, PING_UNTIL] = 0
            return slot
    return NONE


@with_overlay
def sweep_idle(w: World, th: int, now: int, node: int) -> None:
    """Close the connections that have been idle for IDLE_FOR. Then set SWEEP_DUE to the earliest of these times: the
    ends of the waits for errands and for answers to pings, and the times at which idle connections are closed."""
    for slot in range(first_slot(w, node), end_slot(w, node)):
        due = slot_times(w)[slot, IDLE_UNTIL]
        if 0 < due <= now:
            slot_times(w)[slot, IDLE_UNTIL] = 0
            if flags(w)[slot, 0] & CONNECTED:
                close_connection(w, th, now, node, slot)
    due = NEVER
    errand = meetings(w)[node, ERRANDS]
    while errand >= 0:
        due = earlier(due, errands(w)[errand, E_DUE])
        errand = errands(w)[errand, E_NEXT]
    for slot in range(first_slot(w, node), end_slot(w, node)):
        for field in (IDLE_UNTIL, PING_UNTIL):
            if slot_times(w)[slot, field]:
                due = earlier(due, slot_times(w)[slot, field])
    if due != NEVER:
        set_sweep_by(w, node, due)


@with_overlay
def forget_meetings(w: World, th: int, node: int) -> None:
    """Forget all errands and dials of a node that goes down."""
    free_errands(w, th, meetings(w)[node, ERRANDS])
    meetings(w)[node, ERRANDS] = NONE
    while meetings(w)[node, UNDER_WAY] >= 0:
        dial_is_over(w, node, pool(w)[lists.owner(w, node), meetings(w)[node, UNDER_WAY], FIRST])
