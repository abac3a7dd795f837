"""Calls of a router: each handles an event, and at its end sends all that is in the outbox (`Router.handle`)."""

from __future__ import annotations

from hearsay.core.language.events import EventKind
from hearsay.core.rules.mesh_rules import first_heartbeat, next_heartbeat
from hearsay.core.shell.randomness import Purpose
from hearsay.sim.array.episub.alarms import (
    NEVER,
    clear_alarms,
    has_overlay,
    has_trees,
    set_timer,
    with_episub,
    with_overlay,
)
from hearsay.sim.array.episub.meetings import start_meetings
from hearsay.sim.array.episub.overlay import (
    overlay_contacts,
    overlay_dial_failed,
    overlay_measured,
)
from hearsay.sim.array.episub.ringing import ring
from hearsay.sim.array.machine.compiling import inlined, kernel, only_with
from hearsay.sim.array.rules.applications import choose_parts, hand_over
from hearsay.sim.array.rules.checks import check_meshes
from hearsay.sim.array.rules.direct import dial_direct
from hearsay.sim.array.rules.forwarding import publish, validated
from hearsay.sim.array.rules.gater import decay_gater, gater_due, has_gater, start_gater
from hearsay.sim.array.rules.gossip import (
    age,
    forget_asked,
    forget_requests,
    gossip,
    keep_fanout,
)
from hearsay.sim.array.rules.membership import (
    SAID_AGAIN,
    connect,
    disconnect,
    has_dialled,
    join,
    leave,
    note_unsent,
    say_again,
    send_off,
)
from hearsay.sim.array.rules.mesh import has_mesh
from hearsay.sim.array.rules.notes import (
    note_call,
    note_connection,
    note_contacts,
    note_rpc,
    note_start,
    note_unsent_message,
)
from hearsay.sim.array.rules.opinions import is_rated
from hearsay.sim.array.rules.part_groups import age_groups
from hearsay.sim.array.rules.promises import (
    begin_heartbeat,
    end_heartbeat,
    uses_11,
)
from hearsay.sim.array.rules.retained import forget_old, keeps_scores
from hearsay.sim.array.rules.scores import decay, has_scores, penalise_slow
from hearsay.sim.array.rules.unwanted import (
    forget_old_senders,
    forget_old_unwanted,
    skips_senders,
    uses_idontwant,
)
from hearsay.sim.array.rules.upkeep import keep_meshes
from hearsay.sim.array.travel.uplink import has_queue, start_uplink
from hearsay.sim.array.world import lists
from hearsay.sim.array.world.draws import below, draw1
from hearsay.sim.array.world.layout import (
    ANNOUNCE,
    APPLICATION,
    ASK_AGAIN,
    BEAT_SPREAD,
    DUE,
    FIRST_BEAT,
    GOSSIPSUB,
    HAS_DIALS,
    HAS_DIRECT,
    HAS_EPISUB,
    HAS_GATER,
    HAS_LINKS,
    HAS_OVERLAY,
    HAS_RATINGS,
    HAS_SCORES,
    INTERVAL,
    MISSING_WINDOW,
    NAMED_DIALLED,
    NEWS,
    OWED,
    PART_WORDS,
    REFRESH,
    REFRESH_DUE,
    REFRESHED,
    REMINDS,
    ROUTER_KIND,
    SCRIPT,
    SERVICE,
    STARTS,
    TICK,
    TOPICS,
    UNANNOUNCED,
    UP,
    UPLINK,
    UPLINK_FREE,
    WAITS_TO_ANNOUNCE,
    World,
    alarms,
    arena,
    candidates,
    control,
    counts,
    flags,
    members,
    more32,
    more64,
    nodes32,
    nodes64,
    peers,
    words_at,
)
from hearsay.sim.array.world.layout import CONNECTED as IS_CONNECTED
from hearsay.sim.array.world.payload import (
    PART_KIND,
    PART_MESSAGE,
    PUBLISH,
    part_place,
)
from hearsay.sim.array.world.queue import INLINE, MESSAGE, push
from hearsay.sim.array.world.record import EVENTS, is_witness, received, row
from hearsay.sim.array.world.slots import find_slot, parameter
from hearsay.trace.language.event_rows import node_up_row


@inlined
def begin(w: World, th: int, now: int, node: int, kind: int, remote: int, topic: int, message: int) -> None:
    """Count a call that handles no RPC; note it if the node is a witness, whose calls real routers repeat."""
    counts(w)[th, EVENTS] += 1
    if is_witness(w, node):
        note_call(w, th, now, node, kind, remote, topic, message)


@kernel
def end(w: World, th: int, now: int, node: int) -> None:
    """End a call: send the parts in the outbox, set the timer of episub, and pass messages to applications."""
    send_off(w, th, now, node)
    if has_trees(w, node):
        set_timer(w, th, now, node)
    if w[PART_WORDS]:
        hand_over(w, th, now, node)


@kernel
def call_start(w: World, th: int, now: int, node: int) -> None:
    """Start a node with a new, empty router, which joins the application's topics; queue its first timer (BEAT-1)."""
    header = nodes32(w)[node]
    header[UP] = 1
    header[STARTS] += 1
    header[TICK] = 0
    if w[HAS_DIALS]:
        more32(w)[node, NAMED_DIALLED] = 0
    if w[UPLINK]:
        nodes64(w)[node, UPLINK_FREE] = now
    if has_queue(w, node):
        start_uplink(w, th, now, node)
    if is_witness(w, node):
        note_start(w, th, now, node)
    row(w, th, node_up_row(now, node))
    if w[HAS_EPISUB]:
        clear_alarms(w, node)
    if w[HAS_OVERLAY]:
        start_meetings(w, node)
    if w[PART_WORDS]:
        choose_parts(w, th, node)
    for topic in range(w[TOPICS]):
        if members(w)[node, topic] & APPLICATION:
            call_join(w, th, now, node, topic)
    if has_mesh(w, node):
        phase = below(draw1(w, Purpose.HEARTBEAT_PHASE, node), parameter(w, node, BEAT_SPREAD) + 1)
        due = first_heartbeat(now, parameter(w, node, FIRST_BEAT), phase)
        if w[SERVICE] or w[HAS_SCORES] or w[HAS_GATER]:
            nodes64(w)[node, DUE] = due
        if has_gater(w, node):
            start_gater(w, now, node)
            due = min(due, gater_due(w, node))
        if has_scores(w, node):
            more64(w)[node, REFRESHED] = now
            more64(w)[node, REFRESH_DUE] = now + parameter(w, node, REFRESH)
            due = min(due, more64(w)[node, REFRESH_DUE])
        push(w, th, due, node, EventKind.TIMER_FIRED, -1, header[STARTS], 0)


@kernel
def call_timer(w: World, th: int, now: int, node: int) -> None:
    begin(w, th, now, node, EventKind.TIMER_FIRED, -1, -1, -1)
    if has_mesh(w, node):
        decays = has_scores(w, node) or has_gater(w, node)
        due = _beat_and_decay(w, th, now, node) if decays else _beat(w, th, now, node)
        end(w, th, now, node)
        push(w, th, due, node, EventKind.TIMER_FIRED, -1, nodes32(w)[node, STARTS], 0)
        return
    nodes32(w)[node, OWED] &= ~WAITS_TO_ANNOUNCE
    if nodes32(w)[node, OWED]:
        say_again(w, th, now, node, SAID_AGAIN)
    if has_trees(w, node):
        _ring(w, th, now, node)
    end(w, th, now, node)


@with_episub
def _ring(w: World, th: int, now: int, node: int) -> None:
    line = alarms(w)[node]
    if line[ANNOUNCE] != NEVER and now >= line[ANNOUNCE]:
        line[ANNOUNCE] = NEVER
    ring(w, th, now, node)


@kernel
def _beat_and_decay(w: World, th: int, now: int, node: int) -> int:
    """Do the decays and the heartbeat if they are due; return when the next of them is due (STANDING-3)."""
    times = more64(w)[node]
    if nodes32(w)[node, OWED] & UNANNOUNCED:
        say_again(w, th, now, node, UNANNOUNCED)
    if has_scores(w, node) and now >= times[REFRESH_DUE]:
        if keeps_scores(w, node):
            forget_old(w, now, node)
        decay(w, now, node)
        interval = parameter(w, node, REFRESH)
        times[REFRESH_DUE] += ((now - times[REFRESH_DUE]) // interval + 1) * interval
    if has_gater(w, node):
        decay_gater(w, now, node)
    due = nodes64(w)[node, DUE]
    if now >= due:
        due = _beat(w, th, now, node)
    if has_scores(w, node):
        due = min(due, times[REFRESH_DUE])
    return min(due, gater_due(w, node)) if has_gater(w, node) else due


@kernel
def _beat(w: World, th: int, now: int, node: int) -> int:
    """Do a heartbeat; return when the next one is due (BEAT-2)."""
    header = nodes32(w)[node]
    has_11 = uses_11(w, node)
    if has_11:
        begin_heartbeat(w, th, now, node)
    tick = header[TICK] + 1
    header[TICK] = tick
    if w[HAS_DIRECT]:
        dial_direct(w, th, now, node, tick)
    if uses_idontwant(w, node):
        forget_old_unwanted(w, node, tick)
    if skips_senders(w, node):
        forget_old_senders(w, node)
    due = now  # a timer for heartbeats alone fires when one is due, unless the event waits for service
    if w[SERVICE] or w[HAS_SCORES] or w[HAS_GATER]:
        due = nodes64(w)[node, DUE]
    due = next_heartbeat(due, parameter(w, node, INTERVAL), now)
    if w[SERVICE] or w[HAS_SCORES] or w[HAS_GATER]:
        nodes64(w)[node, DUE] = due
    if w[HAS_DIALS]:
        more32(w)[node, NAMED_DIALLED] = 0
    if header[OWED]:
        say_again(w, th, now, node, SAID_AGAIN)
    keep_meshes(w, th, now, node, tick)
    if parameter(w, node, ROUTER_KIND) == GOSSIPSUB:
        keep_fanout(w, th, now, node)
        gossip(w, th, now, node, tick)
        if w[PART_WORDS]:
            age_groups(w, node)
            control(w)[th, REMINDS] = 1
        if header[NEWS] >= 0:
            forget_requests(w, node)
            if tick % parameter(w, node, MISSING_WINDOW) == 0:
                lists.remove(w, node, NEWS, -1, -1)
        if parameter(w, node, ASK_AGAIN):
            forget_asked(w, node, tick)
        age(w, node, tick)
    check_meshes(w, th, now, node)
    if has_11:
        end_heartbeat(w, th)
    return int(due)


@kernel
def call_connected(w: World, th: int, now: int, node: int, slot: int) -> None:
    if w[HAS_RATINGS] and has_scores(w, node) and is_rated(w, node, peers(w)[slot]):
        counts(w)[th, EVENTS] += 1  # the application rates the peer first
    counts(w)[th, EVENTS] += 1
    if is_witness(w, node):
        note_connection(w, th, now, node, peers(w)[slot], int(has_dialled(w, node, slot)))
    connect(w, th, now, node, slot)
    end(w, th, now, node)


@kernel
def call_disconnected(w: World, th: int, now: int, node: int, slot: int) -> None:
    begin(w, th, now, node, EventKind.PEER_DISCONNECTED, peers(w)[slot], -1, -1)
    disconnect(w, th, now, node, slot)
    end(w, th, now, node)


@kernel
def call_dial_failed(w: World, th: int, now: int, node: int, peer: int) -> None:
    begin(w, th, now, node, EventKind.DIAL_FAILED, peer, -1, -1)
    if has_overlay(w, node):
        overlay_dial_failed(w, th, now, node, peer)
    end(w, th, now, node)


@with_overlay
def call_measured(w: World, th: int, now: int, node: int, peer: int, rtt_us: int) -> None:
    """Pass the round-trip time of a ping to the router."""
    begin(w, th, now, node, EventKind.ROUND_TRIP_MEASURED, peer, -1, rtt_us)
    overlay_measured(w, th, now, node, peer, rtt_us)
    end(w, th, now, node)


@with_overlay
def call_contacts(w: World, th: int, now: int, node: int, topic: int, count: int) -> None:
    """Pass the contacts that discovery found to the router: the first `count` of `candidates`, ascending."""
    counts(w)[th, EVENTS] += 1
    if is_witness(w, node):
        note_contacts(w, th, now, node, topic, candidates(w)[th], count)
    overlay_contacts(w, th, now, node, topic, count)
    end(w, th, now, node)


@kernel
def call_join(w: World, th: int, now: int, node: int, topic: int) -> None:
    begin(w, th, now, node, EventKind.JOIN, -1, topic, -1)
    join(w, th, now, node, topic)
    end(w, th, now, node)


@kernel
def call_leave(w: World, th: int, now: int, node: int, topic: int) -> None:
    begin(w, th, now, node, EventKind.LEAVE, -1, topic, -1)
    leave(w, th, now, node, topic)
    end(w, th, now, node)


@kernel
def call_publish(w: World, th: int, now: int, node: int, source: int, message: int) -> None:
    begin(w, th, now, node, EventKind.PUBLISH, source, -1, message)
    received(w, th, PUBLISH, int(source == w[SCRIPT]))
    publish(w, th, now, node, source, message)
    end(w, th, now, node)


@kernel
def call_validated(w: World, th: int, now: int, node: int, place: int) -> None:
    begin(w, th, now, node, EventKind.MESSAGE_VALIDATED, -1, -1, words_at(w, part_place(place, 0))[PART_MESSAGE])
    validated(w, th, now, node, place)
    end(w, th, now, node)


@kernel
def count_parts(w: World, rpc: int, parts: int, kind: int) -> int:
    count = 0
    for index in range(parts):
        if words_at(w, part_place(rpc, index))[PART_KIND] == kind:
            count += 1
    return count


@only_with(HAS_LINKS)
def call_failed(w: World, th: int, now: int, node: int, peer: int, payload: int) -> None:
    """Handle an RPC to a peer that could not be sent; `payload` is that of its event."""
    counts(w)[th, EVENTS] += 1
    if is_witness(w, node):
        if payload & INLINE:
            note_unsent_message(w, th, now, node, peer, payload & MESSAGE)
        else:
            note_rpc(w, th, now, node, EventKind.SEND_FAILED, peer, payload)
    slot = find_slot(w, node, peer)
    if slot < 0 or not flags(w)[slot, 0] & IS_CONNECTED:
        return
    if has_trees(w, node) and not payload & INLINE:
        note_unsent(w, th, now, node, slot, payload)
        end(w, th, now, node)
        return
    if payload & INLINE:
        penalise_slow(w, node, slot, 1)
        return
    note_unsent(w, th, now, node, slot, payload)
    sent = count_parts(w, payload, arena(w)[payload], PUBLISH)
    if sent:
        penalise_slow(w, node, slot, sent)
