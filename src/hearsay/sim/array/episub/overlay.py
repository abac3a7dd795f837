"""The overlay of a topic: alarms and events, which it passes on (`core.episub.membership`, `core.episub.episub`).

An errand is what the node does with a peer once it is connected, see `meetings.py`. Errands are done or given up
here, because they belong to different files.
"""

from __future__ import annotations

import numpy as np

from hearsay.core.shell.randomness import Purpose
from hearsay.sim.array.episub import growth
from hearsay.sim.array.episub.alarms import NEVER
from hearsay.sim.array.episub.joining import (
    contacts_found,
    expire_joins,
    find_contacts,
    joining_lost,
    pass_join_on,
    send_join,
    start_is_gone,
    take_in_joiner,
)
from hearsay.sim.array.episub.links import (
    ask,
    drop_link,
    end_judging,
    is_hyparview,
    judge_measured,
    refuse,
    request_fails,
    take_in,
)
from hearsay.sim.array.episub.meetings import (
    E_KIND,
    E_NEXT,
    E_PEER,
    E_RPC,
    E_SEQUENCE,
    E_TOPIC,
    E_TTL,
    FOR_FORWARDED,
    FOR_JOIN,
    FOR_JOINER,
    FOR_NODES,
    FOR_PROBE,
    FOR_REQUEST,
    FOR_SHUFFLE,
    dial_is_over,
    first_silent,
    free_errand,
    keep_errand,
    next_sequence,
    peer_with_errand,
    review,
    ring_earlier,
    split_errands,
    sweep_idle,
    take_errands,
)
from hearsay.sim.array.episub.overlay_parts import (
    ACCEPT,
    DISCONNECT,
    GETNODES,
    LEAVE,
    NEIGHBOR,
    begin_part,
    number,
    say_disconnect,
    send_numbers,
    write_peer,
)
from hearsay.sim.array.episub.shuffles import examine, exchange, expire_shuffle, probe, start_shuffle
from hearsay.sim.array.episub.sketch import begin_sketch
from hearsay.sim.array.episub.tables import (
    DUE,
    NONE,
    clear,
    earliest,
    first_overdue,
    place_of,
    put,
    take,
    with_overlay,
)
from hearsay.sim.array.episub.views import add_passive, is_active, measured_view, remove_passive
from hearsay.sim.array.world import lists
from hearsay.sim.array.world.draws import below, draw_topic, extend
from hearsay.sim.array.world.layout import (
    ACTIVE_COUNT,
    ASKED_NODES,
    ASKS_LEFT,
    ATTEMPTS,
    AWAITS_LISTS,
    CONNECTED,
    CONTACTS_DUE,
    CONTACTS_INTERVAL,
    EXPIRE_DUE,
    GOING,
    IDLE_UNTIL,
    JOINED,
    JOINS_LEFT,
    JUDGING,
    LEAVE_TTL,
    LEAVES,
    LEAVES_COUNT,
    LOOKING_UNTIL,
    MOST_ACTIVE,
    NEAR_LINKS,
    OPEN_SEQUENCE,
    OPEN_UNTIL,
    OVERLAY_FIELDS,
    PASSIVE_COUNT,
    PASSIVE_SIZE,
    PING_UNTIL,
    PROBE_COUNT,
    PROBE_DUE,
    PROBE_INTERVAL,
    RANDOM_LINKS,
    REQUESTS,
    SAYS_LEAVE,
    SENT,
    SHUFFLE_DUE,
    SHUFFLE_INTERVAL,
    SHUFFLE_TTL,
    SIZE_ACTIVE,
    SIZE_PASSIVE,
    SIZE_RANDOM,
    SKETCH,
    STABILISE_DUE,
    STABILISE_MAX,
    STABILISE_MIN,
    SUBSCRIBED,
    SWEEP_DUE,
    TOPICS,
    TRIED,
    UNSAID_TO,
    World,
    arena,
    errands,
    flags,
    meetings,
    members,
    overlays,
    peers,
    pool,
    scratch,
    slot_times,
    view_peers,
    words_at,
)
from hearsay.sim.array.world.lists import FIRST, NEXT
from hearsay.sim.array.world.payload import PART_IDS, PART_KIND, PART_TOPIC, part_place
from hearsay.sim.array.world.slots import find_slot, is_in, is_native, parameter

_CONTACTS_AT_START = 3
_NO_TOPIC = -2
_STABILISE, _SHUFFLE, _PROBE, _CONTACTS = 1, 2, 3, 4
"""Tasks. Their numbers are those of `core.episub.agenda.Task`, which draws use, and fields of `overlays`."""


@with_overlay
def start_overlay(w: World, th: int, now: int, node: int, topic: int) -> None:
    line = overlays(w)[node, topic]
    for field in range(OVERLAY_FIELDS):
        line[field] = NONE
    for field in (ACTIVE_COUNT, PASSIVE_COUNT, LOOKING_UNTIL, LEAVES_COUNT, AWAITS_LISTS, ASKS_LEFT):
        line[field] = 0
    line[JOINS_LEFT] = _CONTACTS_AT_START
    line[SIZE_RANDOM] = parameter(w, node, RANDOM_LINKS)
    line[SIZE_ACTIVE] = parameter(w, node, RANDOM_LINKS) + parameter(w, node, NEAR_LINKS)
    line[SIZE_PASSIVE] = parameter(w, node, PASSIVE_SIZE)
    begin_sketch(w, node, topic)
    find_contacts(w, now, node, topic, th)
    _next(w, now, node, topic, _STABILISE, parameter(w, node, STABILISE_MIN), parameter(w, node, STABILISE_MAX))
    _next(w, now, node, topic, _SHUFFLE, 0, parameter(w, node, SHUFFLE_INTERVAL))
    if not is_hyparview(w, node) and parameter(w, node, PROBE_COUNT) > 0:
        _next(w, now, node, topic, _PROBE, 0, parameter(w, node, PROBE_INTERVAL))
    interval = parameter(w, node, CONTACTS_INTERVAL)
    if interval:
        _next(w, now, node, topic, _CONTACTS, interval // 2_000 * 1_000, interval)


@with_overlay
def _next(w: World, now: int, node: int, topic: int, task: int, low: int, high: int) -> None:
    """Set the alarm of a task to a random time, from `low` to `high` microseconds from now."""
    state = draw_topic(w, Purpose.PERIOD, node, topic, task)
    span = max(1, high - low)
    overlays(w)[node, topic, task] = now + max(1, low + below(extend(state, np.uint64(now)), span))


@with_overlay
def stop_overlay(w: World, th: int, now: int, node: int, topic: int) -> None:
    """Leave the overlay of a topic, after its tree was left: send LEAVE or DISCONNECT, and forget its state."""
    sequence = 0
    says_leave = parameter(w, node, SAYS_LEAVE) != 0
    if says_leave:
        sequence = next_sequence(w, now, node)
    while overlays(w)[node, topic, ACTIVE_COUNT]:
        peer = view_peers(w)[node, topic, 0]
        drop_link(w, th, now, node, topic, peer, False)
        if says_leave:
            send_numbers(w, th, node, peer, LEAVE, topic, node, parameter(w, node, LEAVE_TTL), sequence)
        else:
            say_disconnect(w, th, node, peer, topic, False)
    while overlays(w)[node, topic, PASSIVE_COUNT]:
        remove_passive(w, th, now, node, topic, view_peers(w)[node, topic, w[MOST_ACTIVE]])
    for table in (REQUESTS, JUDGING, ASKED_NODES):
        _release_all(w, th, now, node, topic, table)
    _forget_errands(w, th, now, node, topic)
    forget_overlay(w, node, topic)


@with_overlay
def _release_all(w: World, th: int, now: int, node: int, topic: int, table: int) -> None:
    """Remove all peers from a table; connections to them that have no other use become idle."""
    entries = pool(w)[lists.owner(w, node)]
    while overlays(w)[node, topic, table] >= 0:
        peer = entries[overlays(w)[node, topic, table], FIRST]
        take(w, node, topic, table, peer)
        review(w, now, node, peer)


@with_overlay
def _forget_errands(w: World, th: int, now: int, node: int, topic: int) -> None:
    while True:
        peer = peer_with_errand(w, node, NEVER, topic)
        if peer < 0:
            return
        errand = split_errands(w, now, node, peer, NEVER, topic)
        while errand >= 0:
            following = errands(w)[errand, E_NEXT]
            free_errand(w, th, errand)
            errand = following


@with_overlay
def forget_overlay(w: World, node: int, topic: int) -> None:
    """Forget the state of an overlay that the node leaves or that ends with the router."""
    line = overlays(w)[node, topic]
    growth.forget_replies(w, node, topic)
    for table in (REQUESTS, JUDGING, ASKED_NODES, ATTEMPTS, TRIED, LEAVES, UNSAID_TO, SENT, SKETCH):
        clear(w, node, topic, table)
    line[ACTIVE_COUNT] = 0
    line[PASSIVE_COUNT] = 0
    for alarm in (EXPIRE_DUE, STABILISE_DUE, SHUFFLE_DUE, PROBE_DUE, CONTACTS_DUE):
        line[alarm] = NEVER


# Alarms.


@with_overlay
def ring_overlay(w: World, th: int, now: int, node: int, topic: int, alarm: int) -> None:
    overlays(w)[node, topic, alarm] = NEVER
    if alarm == EXPIRE_DUE:
        _expire(w, th, now, node, topic)
    elif alarm == STABILISE_DUE:
        _next(w, now, node, topic, alarm, parameter(w, node, STABILISE_MIN), parameter(w, node, STABILISE_MAX))
        _say_again(w, th, node, topic)
        growth.stabilise(w, th, now, node, topic)
    elif alarm == SHUFFLE_DUE:
        _next_period(w, now, node, topic, alarm, parameter(w, node, SHUFFLE_INTERVAL))
        start_shuffle(w, th, now, node, topic, parameter(w, node, SHUFFLE_TTL))
    elif alarm == PROBE_DUE:
        _next_period(w, now, node, topic, alarm, parameter(w, node, PROBE_INTERVAL))
        probe(w, th, now, node, topic, parameter(w, node, PROBE_COUNT))
    else:
        _next_period(w, now, node, topic, alarm, parameter(w, node, CONTACTS_INTERVAL))
        find_contacts(w, now, node, topic, th)


@with_overlay
def _next_period(w: World, now: int, node: int, topic: int, task: int, interval: int) -> None:
    """Set an alarm after three to five quarters of an interval, in whole milliseconds."""
    low = interval // 1000 * 3 // 4 * 1000
    high = interval // 1000 * 5 // 4 * 1000
    _next(w, now, node, topic, task, low, high)


@with_overlay
def _expire(w: World, th: int, now: int, node: int, topic: int) -> None:
    """End requests, JOINs and shuffles that waited too long for an answer, and set the alarm of the next one."""
    start = begin_part(w, th)
    count = 0
    while True:
        peer = first_overdue(w, now, node, topic, REQUESTS)
        if peer < 0:
            break
        _mark_overdue(w, th, node, topic, peer, start)
        count += 1
    for place in range(start + 2, start + 2 + count):
        if request_fails(w, th, now, node, topic, scratch(w)[th, place], False):
            growth.refused(w, th, now, node, topic, scratch(w)[th, place])
    while True:
        peer = first_overdue(w, now, node, topic, JUDGING)
        if peer < 0:
            break
        end_judging(w, now, node, topic, peer)
        refuse(w, th, node, topic, peer)
    expire_joins(w, th, now, node, topic)
    expire_shuffle(w, th, now, node, topic)
    line = overlays(w)[node, topic]
    if line[ACTIVE_COUNT] == 0:
        growth.grow(w, th, now, node, topic)
    due = NEVER
    for table in (REQUESTS, JUDGING, ASKED_NODES, ATTEMPTS):
        due = earliest(w, node, topic, table, due)
    if line[LOOKING_UNTIL] > now and (due == NEVER or line[LOOKING_UNTIL] < due):
        due = line[LOOKING_UNTIL]
    if line[OPEN_SEQUENCE] >= 0 and (due == NEVER or line[OPEN_UNTIL] < due):
        due = line[OPEN_UNTIL]
    if due != NEVER:
        ring_earlier(w, node, topic, EXPIRE_DUE, max(due, now + 1))


@with_overlay
def _mark_overdue(w: World, th: int, node: int, topic: int, peer: int, start: int) -> None:
    """Add a peer whose request is overdue to the list at `start`, and clear the request's time."""
    pool(w)[lists.owner(w, node), place_of(w, node, topic, REQUESTS, peer), DUE] = NONE
    write_peer(w, th, start, peer)


@with_overlay
def _say_again(w: World, th: int, node: int, topic: int) -> None:
    """Send DISCONNECT again to peers to which it could not be sent."""
    entries = pool(w)[lists.owner(w, node)]
    start = begin_part(w, th)
    count = 0
    place = overlays(w)[node, topic, UNSAID_TO]
    while place >= 0:
        write_peer(w, th, start, entries[place, FIRST])
        count += 1
        place = entries[place, NEXT]
    clear(w, node, topic, UNSAID_TO)
    for at in range(start + 2, start + 2 + count):
        peer = scratch(w)[th, at]
        slot = find_slot(w, node, peer)
        if slot >= 0 and flags(w)[slot, 0] & CONNECTED and not is_active(w, node, topic, peer):
            say_disconnect(w, th, node, peer, topic, False)


@with_overlay
def sweep(w: World, th: int, now: int, node: int) -> None:
    """Give up overdue errands, handle unanswered pings, and close idle connections (DIAL-1, DIAL-3, DIAL-4)."""
    meetings(w)[node, SWEEP_DUE] = NEVER
    while True:
        peer = peer_with_errand(w, node, now, _NO_TOPIC)
        if peer < 0:
            break
        _end_errands(w, th, now, node, peer, split_errands(w, now, node, peer, now, _NO_TOPIC), False)
    while True:
        slot = first_silent(w, now, node)
        if slot < 0:
            break
        _silent(w, th, now, node, peers(w)[slot])
    sweep_idle(w, th, now, node)


@with_overlay
def _silent(w: World, th: int, now: int, node: int, peer: int) -> None:
    """Remove a peer that left a ping unanswered from all lists; it counts as failed."""
    for topic in range(w[TOPICS]):
        if members(w)[node, topic] & JOINED:
            remove_passive(w, th, now, node, topic, peer)
            if is_active(w, node, topic, peer):
                say_disconnect(w, th, node, peer, topic, False)
            _peer_lost(w, th, now, node, topic, peer)


# Errands.


@with_overlay
def _end_errands(w: World, th: int, now: int, node: int, peer: int, errand: int, is_ready: bool) -> None:
    """Do the chain of errands that begins with `errand` if the peer `is_ready`, or give them up; free them."""
    while errand >= 0:
        words = errands(w)[errand]
        following = words[E_NEXT]
        if is_ready:
            _do(w, th, now, node, words[E_TOPIC], peer, errand)
        else:
            _give_up(w, th, now, node, words[E_TOPIC], peer, errand)
        free_errand(w, th, errand)
        errand = following


@with_overlay
def _do(w: World, th: int, now: int, node: int, topic: int, peer: int, errand: int) -> None:
    words = errands(w)[errand]
    kind = words[E_KIND]
    if kind == FOR_NODES:
        send_numbers(w, th, node, peer, GETNODES, topic, NONE, 0, 0)
    elif kind == FOR_REQUEST:
        ask(w, th, now, node, topic, peer)
    elif kind == FOR_JOIN:
        send_join(w, th, node, topic, peer, words[E_TTL], words[E_SEQUENCE])
    elif kind == FOR_JOINER:
        take_in_joiner(w, th, now, node, topic, peer, words[E_SEQUENCE])
    elif kind == FOR_FORWARDED:
        take_in(w, th, now, node, topic, peer, True)
    elif kind == FOR_SHUFFLE:
        exchange(w, th, now, node, topic, words[E_RPC] + words[E_TTL])
    else:
        examine(w, th, now, node, topic, peer)


@with_overlay
def _give_up(w: World, th: int, now: int, node: int, topic: int, peer: int, errand: int) -> None:
    words = errands(w)[errand]
    kind = words[E_KIND]
    if kind == FOR_NODES:
        joining_lost(w, th, now, node, topic, peer)
    elif kind == FOR_REQUEST:
        if request_fails(w, th, now, node, topic, peer, True):
            growth.refused(w, th, now, node, topic, peer)
    elif kind == FOR_JOIN:
        start_is_gone(w, th, now, node, topic, peer)
    elif kind == FOR_JOINER:
        pass_join_on(w, th, now, node, topic, words[E_PEER], peer, words[E_TTL], words[E_SEQUENCE])
    elif kind == FOR_FORWARDED:
        add_passive(w, th, now, node, topic, peer)
    elif kind == FOR_PROBE:
        remove_passive(w, th, now, node, topic, peer)


# Connections.


@with_overlay
def overlay_connected(w: World, th: int, now: int, node: int, slot: int) -> None:
    """Handle a new connection: do errands in topics that the peer is known to subscribe to."""
    peer = peers(w)[slot]
    dial_is_over(w, node, peer)
    for topic in range(w[TOPICS]):
        if flags(w)[slot, topic] & SUBSCRIBED:
            overlay_subscribed(w, th, now, node, peer, topic)
    if not is_native(w, slot):
        _end_errands(w, th, now, node, peer, take_errands(w, node, peer), False)
    review(w, now, node, peer)


@with_overlay
def overlay_subscribed(w: World, th: int, now: int, node: int, peer: int, topic: int) -> None:
    """Do the errands that waited for a peer's subscription to a topic."""
    errand = take_errands(w, node, peer)
    if errand < 0:
        return
    first = NONE
    last = NONE
    while errand >= 0:
        following = errands(w)[errand, E_NEXT]
        errands(w)[errand, E_NEXT] = NONE
        if errands(w)[errand, E_TOPIC] != topic:
            keep_errand(w, node, peer, errand)
        else:
            if last >= 0:
                errands(w)[last, E_NEXT] = errand
            else:
                first = errand
            last = errand
        errand = following
    _end_errands(w, th, now, node, peer, first, True)
    review(w, now, node, peer)


@with_overlay
def overlay_dial_failed(w: World, th: int, now: int, node: int, peer: int) -> None:
    dial_is_over(w, node, peer)
    slot = find_slot(w, node, peer)
    if slot < 0 or not flags(w)[slot, 0] & CONNECTED:
        _end_errands(w, th, now, node, peer, take_errands(w, node, peer), False)


@with_overlay
def overlay_disconnected(w: World, th: int, now: int, node: int, slot: int) -> None:
    """Handle the loss of a connection. With GOING, its peer counts as disconnected during the call."""
    peer = peers(w)[slot]
    meetings(w)[node, GOING] = peer
    slot_times(w)[slot, IDLE_UNTIL] = 0
    slot_times(w)[slot, PING_UNTIL] = 0
    _end_errands(w, th, now, node, peer, take_errands(w, node, peer), False)
    for topic in range(w[TOPICS]):
        if members(w)[node, topic] & JOINED:
            _peer_lost(w, th, now, node, topic, peer)
    meetings(w)[node, GOING] = NONE


@with_overlay
def overlay_unsubscribed(w: World, th: int, now: int, node: int, peer: int, topic: int) -> None:
    if is_in(w, node, topic):
        _peer_lost(w, th, now, node, topic, peer)


@with_overlay
def _peer_lost(w: World, th: int, now: int, node: int, topic: int, peer: int) -> None:
    """Remove a peer that is disconnected or left the topic, and look for others in its place."""
    take(w, node, topic, UNSAID_TO, peer)
    joining_lost(w, th, now, node, topic, peer)
    end_judging(w, now, node, topic, peer)
    was_neighbour = is_active(w, node, topic, peer)
    if was_neighbour:
        drop_link(w, th, now, node, topic, peer, False)
    if request_fails(w, th, now, node, topic, peer, True):
        growth.refused(w, th, now, node, topic, peer)
    if was_neighbour:
        growth.grow(w, th, now, node, topic)


@with_overlay
def overlay_measured(w: World, th: int, now: int, node: int, peer: int, rtt_us: int) -> None:
    """Store a round-trip time in microseconds, and decide about a request that waited for it."""
    slot = find_slot(w, node, peer)
    if slot >= 0:
        slot_times(w)[slot, PING_UNTIL] = 0
    for topic in range(w[TOPICS]):
        if members(w)[node, topic] & JOINED:
            measured_view(w, node, topic, peer, rtt_us)
            judge_measured(w, th, now, node, topic, peer, rtt_us)


@with_overlay
def overlay_contacts(w: World, th: int, now: int, node: int, topic: int, count: int) -> None:
    """Handle the contacts that discovery found, the first `count` of `candidates`."""
    if is_in(w, node, topic):
        contacts_found(w, th, now, node, topic, count)


@with_overlay
def overlay_unsent(w: World, th: int, now: int, node: int, slot: int, rpc: int) -> None:
    """Handle an RPC that could not be sent: end a link whose ACCEPT it has, and send its DISCONNECT again later."""
    peer = peers(w)[slot]
    for topic in range(w[TOPICS]):
        if not members(w)[node, topic] & JOINED:
            continue
        for index in range(arena(w)[rpc]):
            part = words_at(w, part_place(rpc, index))
            kind = part[PART_KIND]
            if part[PART_TOPIC] != topic:
                continue
            if kind == NEIGHBOR and number(w, rpc + part[PART_IDS], 0) == ACCEPT:
                if is_active(w, node, topic, peer):
                    drop_link(w, th, now, node, topic, peer, True)
                    put(w, node, topic, UNSAID_TO, peer, NONE, 0)
            elif kind == DISCONNECT or kind == LEAVE:
                put(w, node, topic, UNSAID_TO, peer, NONE, 0)
