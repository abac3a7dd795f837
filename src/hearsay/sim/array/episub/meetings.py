"""Connections on demand: peers to meet (to be connected with), errands, and unused connections
(`core.episub.connections`).

An errand is what the node does with a peer once it has met it and the peer is in the topic, such as sending a JOIN.

Layout: an errand is a line of `errands`. ERRANDS is the head of a list in `pool` with an entry for each peer that has
errands, ordered by the peers' first errands; an entry has the peer, its first and its last errand. UNDER_WAY is the
head of a list of the peers that are being dialled.
"""

from __future__ import annotations

from hearsay.core.language.events import EventKind
from hearsay.sim.array.episub.alarms import NEVER
from hearsay.sim.array.episub.tables import NONE, place_of, with_overlay
from hearsay.sim.array.episub.views import is_active
from hearsay.sim.array.travel.dials import dial_for_router
from hearsay.sim.array.travel.transport import round_trip
from hearsay.sim.array.world import lists
from hearsay.sim.array.world.layout import (
    ASKED_NODES,
    CONNECTED,
    DEAD,
    DESTINATION,
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
    LINK_SOURCE,
    MOST_DIALS,
    OPEN,
    PING_UNTIL,
    POOL_FULL,
    REPLY_TIMEOUT,
    REQUESTS,
    SEQUENCE_NUMBER,
    STARTS,
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
    nodes32,
    overlays,
    pool,
    slot_times,
)
from hearsay.sim.array.world.lists import FIRST, NEXT, SECOND, VALUE
from hearsay.sim.array.world.payload import hold, release
from hearsay.sim.array.world.queue import NODE, insert, push, word_0
from hearsay.sim.array.world.slots import end_slot, find_slot, first_slot, is_native, parameter

READY, FAILED, WAITING, NO_ROOM = range(4)
"""Results of `meet`."""
FOR_NODES, FOR_REQUEST, FOR_JOIN, FOR_JOINER, FOR_FORWARDED, FOR_SHUFFLE, FOR_PROBE = range(7)
"""Kinds of errands: the purpose for which a peer is met."""
E_NEXT, E_TOPIC, E_KIND, E_DUE, E_TTL, E_SEQUENCE, E_PEER, E_RPC = range(8)
"""Fields of an errand. E_PEER: another peer that it is about; E_RPC: an RPC that it holds in the arena, or -1."""
_LIFE = 255


@with_overlay
def start_meetings(w: World, node: int) -> None:
    line = meetings(w)[node]
    for field in (SWEEP_DUE, ERRANDS, UNDER_WAY, GOING):
        line[field] = NONE
    line[SEQUENCE_NUMBER] = 0
    line[DIAL_COUNT] = 0


@with_overlay
def next_sequence(w: World, now: int, node: int) -> int:
    """Return a sequence number for a part that is passed on: the time, or one more than the last number."""
    number = max(meetings(w)[node, SEQUENCE_NUMBER] + 1, now)
    meetings(w)[node, SEQUENCE_NUMBER] = number
    return int(number)


@with_overlay
def ring_earlier(w: World, node: int, topic: int, alarm: int, due: int) -> None:
    """Set an alarm of a topic, unless it is set for an earlier time."""
    current = overlays(w)[node, topic, alarm]
    if current == NEVER or due < current:
        overlays(w)[node, topic, alarm] = due


@with_overlay
def reply_due(w: World, now: int, node: int, topic: int) -> int:
    """Return the time until which the node waits for an answer, and set the alarm EXPIRE_DUE for it."""
    due = now + parameter(w, node, REPLY_TIMEOUT)
    ring_earlier(w, node, topic, EXPIRE_DUE, due)
    return int(due)


@with_overlay
def sweep_by(w: World, node: int, due: int) -> None:
    current = meetings(w)[node, SWEEP_DUE]
    if current == NEVER or due < current:
        meetings(w)[node, SWEEP_DUE] = due


# Peers to meet.


@with_overlay
def is_met(w: World, node: int, peer: int) -> bool:
    """Return whether a peer is connected, and is not the peer whose disconnection is being handled."""
    slot = find_slot(w, node, peer)
    return slot >= 0 and flags(w)[slot, 0] & CONNECTED != 0 and peer != meetings(w)[node, GOING]


@with_overlay
def meet(
    w: World, th: int, now: int, node: int, topic: int, peer: int, kind: int, ttl: int, sequence: int, other: int,
    rpc: int,
) -> int:  # fmt: skip
    """Meet a peer for an errand, and dial it if necessary (DIAL-1, DIAL-2).

    READY: the peer is met and in the topic; the caller does the errand at once, then calls `review`. FAILED: the peer
    cannot be met. NO_ROOM: too many dials are under way. WAITING: the errand is stored until the peer is ready.
    """
    met = is_met(w, node, peer)
    slot = find_slot(w, node, peer)
    if peer == node or (met and not is_native(w, slot)):
        return FAILED
    if met and flags(w)[slot, topic] & SUBSCRIBED:
        slot_times(w)[slot, IDLE_UNTIL] = 0
        return READY
    if not met and not _is_dialled(w, node, peer):
        if meetings(w)[node, DIAL_COUNT] >= parameter(w, node, MOST_DIALS):
            return NO_ROOM
        _note_dial(w, node, peer)
        dial_for_router(w, th, now, node, peer)
    place = _new_errand(w)
    errand = errands(w)[place]
    errand[E_NEXT] = NONE
    errand[E_TOPIC] = topic
    errand[E_KIND] = kind
    errand[E_DUE] = now + parameter(w, node, REPLY_TIMEOUT)
    errand[E_TTL] = ttl
    errand[E_SEQUENCE] = sequence
    errand[E_PEER] = other
    errand[E_RPC] = rpc
    if rpc >= 0:
        hold(w, th, rpc)
    sweep_by(w, node, errand[E_DUE])
    _add_errand(w, node, peer, place)
    return WAITING


@with_overlay
def free_errand(w: World, th: int, place: int) -> None:
    if errands(w)[place, E_RPC] >= 0:
        release(w, th, errands(w)[place, E_RPC])
    errands(w)[place, E_NEXT] = control(w)[0, ERRAND_FREE]
    control(w)[0, ERRAND_FREE] = place


@with_overlay
def _new_errand(w: World) -> int:
    """Return an unused line of `errands`. There is one thread in runs whose routers choose their neighbours."""
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
def _is_dialled(w: World, node: int, peer: int) -> bool:
    return lists.place_in(w, node, meetings(w)[node, UNDER_WAY], peer) >= 0


@with_overlay
def _note_dial(w: World, node: int, peer: int) -> None:
    place = lists.new_entry(w, node)
    entry = pool(w)[lists.owner(w, node), place]
    entry[NEXT] = meetings(w)[node, UNDER_WAY]
    entry[FIRST] = peer
    meetings(w)[node, UNDER_WAY] = place
    meetings(w)[node, DIAL_COUNT] += 1


@with_overlay
def dial_is_over(w: World, node: int, peer: int) -> None:
    line = meetings(w)[node]
    place = lists.place_in(w, node, line[UNDER_WAY], peer)
    if place >= 0:
        line[UNDER_WAY] = lists.without(w, node, line[UNDER_WAY], place)
        line[DIAL_COUNT] -= 1


# Errands.


@with_overlay
def _entry_of(w: World, node: int, peer: int) -> int:
    return lists.place_in(w, node, meetings(w)[node, ERRANDS], peer)


@with_overlay
def _add_errand(w: World, node: int, peer: int, errand: int) -> None:
    """Add an errand behind the other errands of its peer."""
    entries = pool(w)[lists.owner(w, node)]
    place = _entry_of(w, node, peer)
    if place >= 0:
        errands(w)[entries[place, VALUE], E_NEXT] = errand
        entries[place, VALUE] = errand
        return
    fresh = lists.new_entry(w, node)
    entries[fresh, NEXT] = NONE
    entries[fresh, FIRST] = peer
    entries[fresh, SECOND] = errand
    entries[fresh, VALUE] = errand
    last = meetings(w)[node, ERRANDS]
    if last < 0:
        meetings(w)[node, ERRANDS] = fresh
        return
    while entries[last, NEXT] >= 0:
        last = entries[last, NEXT]
    entries[last, NEXT] = fresh


@with_overlay
def take_errands(w: World, node: int, peer: int) -> int:
    """Remove all errands of a peer from the list; return the first, to which the others are linked; -1 for none."""
    place = _entry_of(w, node, peer)
    if place < 0:
        return NONE
    first = pool(w)[lists.owner(w, node), place, SECOND]
    meetings(w)[node, ERRANDS] = lists.without(w, node, meetings(w)[node, ERRANDS], place)
    return int(first)


@with_overlay
def keep_errand(w: World, node: int, peer: int, errand: int) -> None:
    """Add an errand to its peer again after `take_errands`."""
    errands(w)[errand, E_NEXT] = NONE
    _add_errand(w, node, peer, errand)


@with_overlay
def peer_with_errand(w: World, node: int, due: int, topic: int) -> int:
    """Return the first peer with an errand of a topic, or with one due by `due`; -1 for none."""
    entries = pool(w)[lists.owner(w, node)]
    place = meetings(w)[node, ERRANDS]
    while place >= 0:
        errand = entries[place, SECOND]
        while errand >= 0:
            if errands(w)[errand, E_DUE] <= due or errands(w)[errand, E_TOPIC] == topic:
                return int(entries[place, FIRST])
            errand = errands(w)[errand, E_NEXT]
        place = entries[place, NEXT]
    return NONE


@with_overlay
def split_errands(w: World, now: int, node: int, peer: int, due: int, topic: int) -> int:
    """Remove a peer's errands in a topic, and those due by `due`; return the first, -1 for none.

    The removed errands are linked. A peer with other errands stays where it is in the list; the connection to a peer
    without any may be idle now.
    """
    entries = pool(w)[lists.owner(w, node)]
    place = _entry_of(w, node, peer)
    errand = entries[place, SECOND]
    taken = NONE
    last_taken = NONE
    kept = NONE
    last_kept = NONE
    while errand >= 0:
        words = errands(w)[errand]
        following = words[E_NEXT]
        words[E_NEXT] = NONE
        if words[E_DUE] <= due or words[E_TOPIC] == topic:
            if last_taken >= 0:
                errands(w)[last_taken, E_NEXT] = errand
            else:
                taken = errand
            last_taken = errand
        else:
            if last_kept >= 0:
                errands(w)[last_kept, E_NEXT] = errand
            else:
                kept = errand
            last_kept = errand
        errand = following
    entries[place, SECOND] = kept
    entries[place, VALUE] = last_kept
    if kept < 0:
        take_errands(w, node, peer)
        review(w, now, node, peer)
    return int(taken)


@with_overlay
def earliest_errand(w: World, node: int) -> int:
    entries = pool(w)[lists.owner(w, node)]
    earliest = NEVER
    place = meetings(w)[node, ERRANDS]
    while place >= 0:
        errand = entries[place, SECOND]
        while errand >= 0:
            due = errands(w)[errand, E_DUE]
            if earliest == NEVER or due < earliest:
                earliest = due
            errand = errands(w)[errand, E_NEXT]
        place = entries[place, NEXT]
    return int(earliest)


# Connections without a use.


@with_overlay
def use(w: World, node: int, peer: int) -> None:
    """Mark the connection to a peer as used, so that it is not closed (DIAL-3)."""
    slot = find_slot(w, node, peer)
    if slot >= 0:
        slot_times(w)[slot, IDLE_UNTIL] = 0


@with_overlay
def _has_use(w: World, node: int, peer: int) -> bool:
    for topic in range(w[TOPICS]):
        if is_active(w, node, topic, peer):
            return True
        for table in (REQUESTS, JUDGING, ASKED_NODES):
            if place_of(w, node, topic, table, peer) >= 0:
                return True
    return _entry_of(w, node, peer) >= 0


@with_overlay
def review(w: World, now: int, node: int, peer: int) -> None:
    """Start the idle time of the connection to a peer if it has no use, else clear it (DIAL-3, DIAL-5)."""
    slot = find_slot(w, node, peer)
    if not is_met(w, node, peer) or not is_native(w, slot):
        return
    times = slot_times(w)[slot]
    if _has_use(w, node, peer):
        times[IDLE_UNTIL] = 0
    elif times[IDLE_UNTIL] == 0:
        times[IDLE_UNTIL] = now + parameter(w, node, IDLE_FOR)
        sweep_by(w, node, times[IDLE_UNTIL])


@with_overlay
def hang_up(w: World, th: int, now: int, node: int, slot: int) -> None:
    """Close the connection of a slot. The peer notices that after it has received all RPCs sent before."""
    link = links_of(w)[slot]
    if link < 0 or not links32(w)[link, LINK_FLAGS] & OPEN or links32(w)[link, LINK_FLAGS] & DEAD:
        return
    _end_link(w, th, link, now)
    times = links64(w)[link]
    _end_link(w, th, links32(w)[link, TWIN], max(now + times[LATENCY], times[LAST_ARRIVAL]))


@with_overlay
def _end_link(w: World, th: int, link: int, time: int) -> None:
    line = links32(w)[link]
    line[LINK_FLAGS] |= DEAD
    push(w, th, time, line[LINK_SOURCE], EventKind.PEER_DISCONNECTED, line[DESTINATION], link, link)


@with_overlay
def ping(w: World, th: int, now: int, node: int, peer: int) -> None:
    """Ping a connected peer: queue the event of the answer, and set an alarm in case there is none (DIAL-4)."""
    slot = find_slot(w, node, peer)
    if not is_met(w, node, peer) or slot_times(w)[slot, PING_UNTIL]:
        return
    due = now + parameter(w, node, REPLY_TIMEOUT)
    sweep_by(w, node, due)
    slot_times(w)[slot, PING_UNTIL] = due
    link = links_of(w)[slot]
    if link >= 0 and links32(w)[link, LINK_FLAGS] & OPEN:
        time = round_trip(w, node, peer, now, links64(w)[link, LATENCY])
        rest = word_0(EventKind.ROUND_TRIP_MEASURED, peer, -1, nodes32(w)[node, STARTS] & _LIFE)
        insert(w, th, now + time, rest, node << NODE | time, link, 1)


@with_overlay
def is_of_this_life(w: World, node: int, w0: int) -> bool:
    """Return whether an event was queued since the node's last start."""
    return w0 & _LIFE == nodes32(w)[node, STARTS] & _LIFE


@with_overlay
def first_silent(w: World, now: int, node: int) -> int:
    """Return the slot of the first peer that left a ping unanswered, and forget the ping; -1 for none."""
    for slot in range(first_slot(w, node), end_slot(w, node)):
        due = slot_times(w)[slot, PING_UNTIL]
        if 0 < due <= now:
            slot_times(w)[slot, PING_UNTIL] = 0
            return slot
    return NONE


@with_overlay
def sweep_idle(w: World, th: int, now: int, node: int) -> None:
    """Close connections that were idle for IDLE_FOR, and set SWEEP_DUE for the next time."""
    for slot in range(first_slot(w, node), end_slot(w, node)):
        due = slot_times(w)[slot, IDLE_UNTIL]
        if 0 < due <= now:
            slot_times(w)[slot, IDLE_UNTIL] = 0
            if flags(w)[slot, 0] & CONNECTED:
                hang_up(w, th, now, node, slot)
    due = earliest_errand(w, node)
    for slot in range(first_slot(w, node), end_slot(w, node)):
        for field in (IDLE_UNTIL, PING_UNTIL):
            time = slot_times(w)[slot, field]
            if time and (due == NEVER or time < due):
                due = time
    if due != NEVER:
        sweep_by(w, node, due)


@with_overlay
def forget_meetings(w: World, th: int, node: int) -> None:
    """Forget all errands and dials of a node that goes down."""
    while meetings(w)[node, ERRANDS] >= 0:
        peer = pool(w)[lists.owner(w, node), meetings(w)[node, ERRANDS], FIRST]
        errand = take_errands(w, node, peer)
        while errand >= 0:
            following = errands(w)[errand, E_NEXT]
            free_errand(w, th, errand)
            errand = following
    while meetings(w)[node, UNDER_WAY] >= 0:
        dial_is_over(w, node, pool(w)[lists.owner(w, node), meetings(w)[node, UNDER_WAY], FIRST])
