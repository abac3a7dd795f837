"""The overlay of a topic: its beginning and its end, its alarms, and events that change it
(`core.episub.membership`).

An errand is something that the node does with a peer once the peer is connected (`meetings.py`). This file does
errands and lets them fail, because it imports the kernels of all kinds of errands.
"""

from __future__ import annotations

import numpy as np

from hearsay.core.language.rpc import PartKind
from hearsay.core.rules.randomness import Purpose
from hearsay.sim.array.episub import growth
from hearsay.sim.array.episub.basics import (
    DUE,
    NEVER,
    NONE,
    PEER,
    clear,
    earlier,
    earliest,
    first_overdue,
    place_of,
    put,
    remove_entry,
    with_overlay,
)
from hearsay.sim.array.episub.joining import (
    CONTACTS,
    accept_joiner,
    ask_for_nodes,
    copy_candidates,
    expire_joins,
    find_contacts,
    is_alone,
    joining_failed,
    pass_on,
)
from hearsay.sim.array.episub.links import (
    accept_neighbour,
    decide_measured,
    drop_link,
    is_hyparview,
    refuse,
    send_request,
)
from hearsay.sim.array.episub.meetings import (
    ALL,
    E_ABOUT,
    E_KIND,
    E_NEXT,
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
    free_errands,
    has_errand,
    move_errands_back,
    next_sequence,
    peer_with_errand,
    release_entry,
    set_alarm_by,
    split_errands,
    sweep_idle,
    take_errands,
    update_idle,
)
from hearsay.sim.array.episub.overlay_parts import (
    ACCEPT,
    begin_sketch,
    number,
    send_disconnect,
    send_numbers,
)
from hearsay.sim.array.episub.shuffles import examine, exchange, expire_shuffle, probe, start_shuffle
from hearsay.sim.array.episub.views import add_passive, is_active, remove_passive, store_rtt
from hearsay.sim.array.travel.outbox import write_word
from hearsay.sim.array.world import lists
from hearsay.sim.array.world.draws import below, draw_topic, extend, pick
from hearsay.sim.array.world.layout import (
    ACTIVE_COUNT,
    ASKED_NODES,
    ASKS_LEFT,
    ATTEMPTS,
    AWAITS_LISTS,
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
    MAX_PART_PEERS,
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
    SCRATCH_USED,
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
    candidates,
    control,
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
from hearsay.sim.array.world.slots import find_slot, is_connected, is_in, is_native, parameter

_JOINS_AT_START = 3
"""The number of JOINs that a node with HyParView may send before its first round of stabilisation (JOIN-6)."""


@with_overlay
def start_overlay(w: World, th: int, now: int, node: int, topic: int) -> None:
    """Begin the overlay of a topic that the node joins: look for contacts, and set the alarms."""
    line = overlays(w)[node, topic]
    for field in range(OVERLAY_FIELDS):
        line[field] = NONE
    for field in (ACTIVE_COUNT, PASSIVE_COUNT, LOOKING_UNTIL, LEAVES_COUNT, AWAITS_LISTS, ASKS_LEFT):
        line[field] = 0
    line[JOINS_LEFT] = _JOINS_AT_START
    line[SIZE_RANDOM] = parameter(w, node, RANDOM_LINKS)
    line[SIZE_ACTIVE] = parameter(w, node, RANDOM_LINKS) + parameter(w, node, NEAR_LINKS)
    line[SIZE_PASSIVE] = parameter(w, node, PASSIVE_SIZE)
    begin_sketch(w, node, topic)
    find_contacts(w, th, now, node, topic)
    _set_due(w, now, node, topic, STABILISE_DUE, parameter(w, node, STABILISE_MIN), parameter(w, node, STABILISE_MAX))
    _set_due(w, now, node, topic, SHUFFLE_DUE, 0, parameter(w, node, SHUFFLE_INTERVAL))
    if not is_hyparview(w, node) and parameter(w, node, PROBE_COUNT) > 0:
        _set_due(w, now, node, topic, PROBE_DUE, 0, parameter(w, node, PROBE_INTERVAL))
    interval = parameter(w, node, CONTACTS_INTERVAL)
    if interval:
        _set_due(w, now, node, topic, CONTACTS_DUE, interval // 2_000 * 1_000, interval)


@with_overlay
def _set_due(w: World, now: int, node: int, topic: int, alarm: int, low: int, high: int) -> None:
    """Set an alarm of a topic to a random time, from `low` to `high` microseconds from now."""
    state = draw_topic(w, Purpose.PERIOD, node, topic, alarm)
    span = max(1, high - low)
    overlays(w)[node, topic, alarm] = now + max(1, low + below(extend(state, np.uint64(now)), span))


@with_overlay
def stop_overlay(w: World, th: int, now: int, node: int, topic: int) -> None:
    """Leave the overlay of a topic, whose tree the node has left before: send LEAVE or DISCONNECT, and forget the
    overlay."""
    sequence = 0
    says_leave = parameter(w, node, SAYS_LEAVE) != 0
    if says_leave:
        sequence = next_sequence(w, now, node)
    while overlays(w)[node, topic, ACTIVE_COUNT]:
        peer = view_peers(w)[node, topic, 0]
        drop_link(w, th, now, node, topic, peer, False)
        if says_leave:
            send_numbers(w, th, node, peer, PartKind.LEAVE, topic, node, parameter(w, node, LEAVE_TTL), sequence)
        else:
            send_disconnect(w, th, node, peer, topic, False)
    while overlays(w)[node, topic, PASSIVE_COUNT]:
        remove_passive(w, th, now, node, topic, view_peers(w)[node, topic, w[MOST_ACTIVE]])
    for table in (REQUESTS, JUDGING, ASKED_NODES):
        while overlays(w)[node, topic, table] >= 0:
            peer = pool(w)[lists.owner(w, node), overlays(w)[node, topic, table], PEER]
            release_entry(w, now, node, topic, table, peer)
    peer = peer_with_errand(w, node, NEVER, topic)
    while peer >= 0:
        free_errands(w, th, split_errands(w, now, node, peer, NEVER, topic))
        peer = peer_with_errand(w, node, NEVER, topic)
    forget_overlay(w, node, topic)


@with_overlay
def forget_overlay(w: World, node: int, topic: int) -> None:
    """Forget the state of an overlay, when the node has left it or the router stops."""
    line = overlays(w)[node, topic]
    growth.forget_replies(w, node, topic)
    for table in (REQUESTS, JUDGING, ASKED_NODES, ATTEMPTS, TRIED, LEAVES, UNSAID_TO, SENT, SKETCH):
        clear(w, node, topic, table)
    line[ACTIVE_COUNT] = 0
    line[PASSIVE_COUNT] = 0
    for alarm in range(EXPIRE_DUE, CONTACTS_DUE + 1):
        line[alarm] = NEVER


# Alarms.


@with_overlay
def ring_overlay(w: World, th: int, now: int, node: int, topic: int, alarm: int) -> None:
    """Handle an alarm of a topic that is due."""
    overlays(w)[node, topic, alarm] = NEVER
    if alarm == EXPIRE_DUE:
        _expire(w, th, now, node, topic)
    elif alarm == STABILISE_DUE:
        _set_due(w, now, node, topic, alarm, parameter(w, node, STABILISE_MIN), parameter(w, node, STABILISE_MAX))
        _repeat_unsent(w, th, node, topic)
        growth.stabilise(w, th, now, node, topic)
    elif alarm == SHUFFLE_DUE:
        _set_next_due(w, now, node, topic, alarm, parameter(w, node, SHUFFLE_INTERVAL))
        start_shuffle(w, th, now, node, topic, parameter(w, node, SHUFFLE_TTL))
    elif alarm == PROBE_DUE:
        _set_next_due(w, now, node, topic, alarm, parameter(w, node, PROBE_INTERVAL))
        probe(w, th, now, node, topic, parameter(w, node, PROBE_COUNT))
    else:
        _set_next_due(w, now, node, topic, alarm, parameter(w, node, CONTACTS_INTERVAL))
        find_contacts(w, th, now, node, topic)


@with_overlay
def _set_next_due(w: World, now: int, node: int, topic: int, alarm: int, interval: int) -> None:
    """Set an alarm of a topic to a random time, three to five quarters of an interval from now. Both bounds are
    rounded down to whole milliseconds, as in the core."""
    low = interval // 1000 * 3 // 4 * 1000
    high = interval // 1000 * 5 // 4 * 1000
    _set_due(w, now, node, topic, alarm, low, high)


@with_overlay
def _expire(w: World, th: int, now: int, node: int, topic: int) -> None:
    """End the link requests, JOINs, GETNODES and shuffles that were not answered in time. Refuse link requests of
    peers that did not answer a ping in time. If the node has no neighbour then, ask for links. Set the alarm to the
    next end of a wait."""
    start = control(w)[th, SCRATCH_USED]
    peer = first_overdue(w, now, node, topic, REQUESTS)
    while peer >= 0:
        pool(w)[lists.owner(w, node), place_of(w, node, topic, REQUESTS, peer), DUE] = NONE
        write_word(w, th, peer)
        peer = first_overdue(w, now, node, topic, REQUESTS)
    for place in range(start, control(w)[th, SCRATCH_USED]):
        growth.end_request(w, th, now, node, topic, scratch(w)[th, place], False)
    peer = first_overdue(w, now, node, topic, JUDGING)
    while peer >= 0:
        release_entry(w, now, node, topic, JUDGING, peer)
        refuse(w, th, node, topic, peer)
        peer = first_overdue(w, now, node, topic, JUDGING)
    expire_joins(w, th, now, node, topic)
    expire_shuffle(w, th, now, node, topic)
    line = overlays(w)[node, topic]
    if line[ACTIVE_COUNT] == 0:
        growth.grow(w, th, now, node, topic)
    due = NEVER
    for table in (REQUESTS, JUDGING, ASKED_NODES, ATTEMPTS):
        due = earliest(w, node, topic, table, due)
    if line[LOOKING_UNTIL] > now:
        due = earlier(due, line[LOOKING_UNTIL])
    if line[OPEN_SEQUENCE] >= 0:
        due = earlier(due, line[OPEN_UNTIL])
    if due != NEVER:
        set_alarm_by(w, node, topic, EXPIRE_DUE, max(due, now + 1))


@with_overlay
def _repeat_unsent(w: World, th: int, node: int, topic: int) -> None:
    """Send DISCONNECT to the peers to which an ACCEPT, DISCONNECT or LEAVE could not be sent, except to neighbours
    and to peers that are no longer connected."""
    entries = pool(w)[lists.owner(w, node)]
    start = control(w)[th, SCRATCH_USED]
    place = overlays(w)[node, topic, UNSAID_TO]
    while place >= 0:
        write_word(w, th, entries[place, FIRST])
        place = entries[place, NEXT]
    clear(w, node, topic, UNSAID_TO)
    for at in range(start, control(w)[th, SCRATCH_USED]):
        peer = scratch(w)[th, at]
        if is_connected(w, node, peer) and not is_active(w, node, topic, peer):
            send_disconnect(w, th, node, peer, topic, False)


@with_overlay
def sweep(w: World, th: int, now: int, node: int) -> None:
    """Let errands fail whose wait is over, handle pings that were not answered in time, and close idle connections
    (DIAL-1, DIAL-3, DIAL-4)."""
    meetings(w)[node, SWEEP_DUE] = NEVER
    peer = peer_with_errand(w, node, now, NONE)
    while peer >= 0:
        _end_errands(w, th, now, node, peer, split_errands(w, now, node, peer, now, NONE), False)
        peer = peer_with_errand(w, node, now, NONE)
    slot = first_silent(w, now, node)
    while slot >= 0:
        _peer_failed(w, th, now, node, peers(w)[slot])
        slot = first_silent(w, now, node)
    sweep_idle(w, th, now, node)


@with_overlay
def _peer_failed(w: World, th: int, now: int, node: int, peer: int) -> None:
    """Remove a peer that did not answer a ping in time from the lists of all topics: the peer has failed."""
    for topic in range(w[TOPICS]):
        if members(w)[node, topic] & JOINED:
            remove_passive(w, th, now, node, topic, peer)
            if is_active(w, node, topic, peer):
                send_disconnect(w, th, node, peer, topic, False)
            _peer_lost(w, th, now, node, topic, peer)


# Errands.


@with_overlay
def _end_errands(w: World, th: int, now: int, node: int, peer: int, errand: int, is_ready: bool) -> None:
    """Do an errand and the errands behind it if `is_ready`, otherwise let them fail. Then free them. `errand` is -1
    for none."""
    first = errand
    while errand >= 0:
        if is_ready:
            _do_errand(w, th, now, node, peer, errand)
        else:
            _fail_errand(w, th, now, node, peer, errand)
        errand = errands(w)[errand, E_NEXT]
    free_errands(w, th, first)


@with_overlay
def _do_errand(w: World, th: int, now: int, node: int, peer: int, errand: int) -> None:
    """Do an errand with a peer that is connected and in the topic."""
    words = errands(w)[errand]
    topic = words[E_TOPIC]
    kind = words[E_KIND]
    if kind == FOR_NODES:
        send_numbers(w, th, node, peer, PartKind.GETNODES, topic, NONE, 0, 0)
    elif kind == FOR_REQUEST:
        send_request(w, th, now, node, topic, peer)
    elif kind == FOR_JOIN:
        send_numbers(w, th, node, peer, PartKind.JOIN, topic, node, words[E_TTL], words[E_SEQUENCE])
    elif kind == FOR_JOINER:
        accept_joiner(w, th, now, node, topic, peer, words[E_SEQUENCE])
    elif kind == FOR_FORWARDED:
        accept_neighbour(w, th, now, node, topic, peer, True)
    elif kind == FOR_SHUFFLE:
        exchange(w, th, now, node, topic, words[E_ABOUT] + words[E_TTL])
    else:
        examine(w, th, now, node, topic, peer)


@with_overlay
def _fail_errand(w: World, th: int, now: int, node: int, peer: int, errand: int) -> None:
    """Handle the failure of an errand: its peer cannot be met."""
    words = errands(w)[errand]
    topic = words[E_TOPIC]
    kind = words[E_KIND]
    if kind == FOR_JOIN or kind == FOR_PROBE:
        remove_passive(w, th, now, node, topic, peer)
    if kind == FOR_NODES or kind == FOR_JOIN:
        joining_failed(w, th, now, node, topic, peer)
    elif kind == FOR_REQUEST:
        growth.end_request(w, th, now, node, topic, peer, True)
    elif kind == FOR_JOINER:
        ttl = words[E_TTL]
        sequence = words[E_SEQUENCE]
        pass_on(w, th, Purpose.JOIN_WALK, now, node, topic, PartKind.JOIN, words[E_ABOUT], peer, ttl, sequence)
    elif kind == FOR_FORWARDED:
        add_passive(w, th, now, node, topic, peer)


# Connections.


@with_overlay
def overlay_connected(w: World, th: int, now: int, node: int, slot: int) -> None:
    """Handle a new connection. Do the errands with the peer in topics to which it is known to subscribe. If the peer
    does not speak episub, let all other errands with it fail."""
    peer = peers(w)[slot]
    dial_is_over(w, node, peer)
    for topic in range(w[TOPICS]):
        if flags(w)[slot, topic] & SUBSCRIBED:
            overlay_subscribed(w, th, now, node, peer, topic)
    if not is_native(w, slot):
        _end_errands(w, th, now, node, peer, take_errands(w, node, peer, NEVER, ALL), False)
    update_idle(w, now, node, peer)


@with_overlay
def overlay_subscribed(w: World, th: int, now: int, node: int, peer: int, topic: int) -> None:
    """Do the errands with a peer in a topic to which it subscribes now."""
    if not has_errand(w, node, peer):
        return
    first = take_errands(w, node, peer, NEVER, topic)
    move_errands_back(w, node, peer)
    _end_errands(w, th, now, node, peer, first, True)
    update_idle(w, now, node, peer)


@with_overlay
def overlay_dial_failed(w: World, th: int, now: int, node: int, peer: int) -> None:
    dial_is_over(w, node, peer)
    if not is_connected(w, node, peer):
        _end_errands(w, th, now, node, peer, take_errands(w, node, peer, NEVER, ALL), False)


@with_overlay
def overlay_disconnected(w: World, th: int, now: int, node: int, slot: int) -> None:
    """Handle a disconnection. During the call GOING is the peer, so that `is_met` is False for it."""
    peer = peers(w)[slot]
    meetings(w)[node, GOING] = peer
    slot_times(w)[slot, IDLE_UNTIL] = 0
    slot_times(w)[slot, PING_UNTIL] = 0
    _end_errands(w, th, now, node, peer, take_errands(w, node, peer, NEVER, ALL), False)
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
    """Handle a peer that disconnected, left the topic or failed: end its link, requests and JOINs, and ask other
    peers."""
    remove_entry(w, node, topic, UNSAID_TO, peer)
    joining_failed(w, th, now, node, topic, peer)
    release_entry(w, now, node, topic, JUDGING, peer)
    was_neighbour = is_active(w, node, topic, peer)
    if was_neighbour:
        drop_link(w, th, now, node, topic, peer, False)
    growth.end_request(w, th, now, node, topic, peer, True)
    if was_neighbour:
        growth.grow(w, th, now, node, topic)


@with_overlay
def overlay_measured(w: World, th: int, now: int, node: int, peer: int, rtt_us: int) -> None:
    """Handle the answer to a ping: store the round-trip time in microseconds, and decide about a link request that
    waits for it."""
    slot = find_slot(w, node, peer)
    if slot >= 0:
        slot_times(w)[slot, PING_UNTIL] = 0
    for topic in range(w[TOPICS]):
        if members(w)[node, topic] & JOINED:
            store_rtt(w, node, topic, peer, rtt_us)
            decide_measured(w, th, now, node, topic, peer, rtt_us)


@with_overlay
def overlay_contacts(w: World, th: int, now: int, node: int, topic: int, count: int) -> None:
    """Handle the contacts that discovery found: the first `count` of `candidates`, which ascend.

    If the node must join, it sends GETNODES to some of the contacts; otherwise all become passive entries.
    """
    if not is_in(w, node, topic):
        return
    overlays(w)[node, topic, LOOKING_UNTIL] = 0
    known = candidates(w)[th]
    count = min(count, parameter(w, node, MAX_PART_PEERS))
    if not is_alone(w, node, topic):
        for place in range(count):
            add_passive(w, th, now, node, topic, known[place])
        return
    count = pick(w, th, draw_topic(w, Purpose.CONTACT, node, topic, now), count, CONTACTS)
    first = copy_candidates(w, th, count)
    for place in range(first, first + count):
        ask_for_nodes(w, th, now, node, topic, scratch(w)[th, place])


@with_overlay
def overlay_unsent(w: World, th: int, now: int, node: int, slot: int, rpc: int) -> None:
    """Handle an RPC that could not be sent to the peer of a slot.

    Only parts about joined topics count. If one is an ACCEPT to a neighbour, end the link, and note the peer. If one
    is a DISCONNECT or LEAVE, note the peer. A noted peer gets a DISCONNECT in the next round of stabilisation.
    """
    peer = peers(w)[slot]
    for topic in range(w[TOPICS]):
        if not members(w)[node, topic] & JOINED:
            continue
        for index in range(arena(w)[rpc]):
            part = words_at(w, part_place(rpc, index))
            kind = part[PART_KIND]
            if part[PART_TOPIC] != topic:
                continue
            if kind == PartKind.NEIGHBOR and number(w, rpc + part[PART_IDS], 0) == ACCEPT:
                if is_active(w, node, topic, peer):
                    drop_link(w, th, now, node, topic, peer, True)
                    put(w, node, topic, UNSAID_TO, peer, NONE, 0)
            elif kind == PartKind.DISCONNECT or kind == PartKind.LEAVE:
                put(w, node, topic, UNSAID_TO, peer, NONE, 0)
