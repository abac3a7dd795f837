"""Calls of a router: each handles one event, and at its end sends the parts in the outbox (`Router.handle`)."""

from __future__ import annotations

from hearsay.core.language.events import EventKind
from hearsay.core.rules.mesh_rules import first_heartbeat, next_heartbeat
from hearsay.core.rules.randomness import Purpose
from hearsay.sim.array.compiling import inlined, kernel, only_with
from hearsay.sim.array.episub.basics import NEVER, clear_alarms, has_overlay, has_trees, set_timer, with_overlay
from hearsay.sim.array.episub.meetings import start_meetings
from hearsay.sim.array.episub.overlay import (
    overlay_contacts,
    overlay_dial_failed,
    overlay_measured,
)
from hearsay.sim.array.episub.ringing import ring
from hearsay.sim.array.rules.applications import choose_partials, pass_to_applications
from hearsay.sim.array.rules.checks import (
    STARTED,
    check_meshes,
    note_call,
    note_contacts,
    note_message,
    note_rpc,
    note_with_topics,
)
from hearsay.sim.array.rules.forwarding import on_validated, publish
from hearsay.sim.array.rules.gater import (
    decay_gater,
    forget_old_scores,
    gater_due,
    has_gater,
    retains_scores,
    start_gater,
)
from hearsay.sim.array.rules.gossip import (
    forget_old_messages,
    forget_requests,
    gossip,
    maintain_fanouts,
)
from hearsay.sim.array.rules.membership import (
    SENT_AGAIN,
    connect,
    disconnect,
    has_dialled,
    join,
    leave,
    note_unsent,
    send_again,
    send_outbox,
)
from hearsay.sim.array.rules.mesh import has_mesh
from hearsay.sim.array.rules.part_groups import age_groups
from hearsay.sim.array.rules.promises import (
    begin_heartbeat,
    uses_11,
)
from hearsay.sim.array.rules.scores import decay, has_scores, penalise_slow
from hearsay.sim.array.rules.special_peers import dial_direct, rating_of
from hearsay.sim.array.rules.unwanted import (
    forget_old_senders,
    forget_old_unwanted,
    skips_senders,
    uses_idontwant,
)
from hearsay.sim.array.rules.upkeep import maintain_meshes
from hearsay.sim.array.travel.uplink import has_queue, start_uplink
from hearsay.sim.array.world import lists
from hearsay.sim.array.world.draws import below, draw1
from hearsay.sim.array.world.layout import (
    ANNOUNCE,
    APPLICATION,
    ASK_AGAIN,
    ASKED_AT,
    BEAT_SPREAD,
    CONNECTED,
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
    KEEPS_SCORES,
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
from hearsay.sim.array.world.payload import (
    PART_KIND,
    PART_MESSAGE,
    PUBLISH,
    message_part,
    part_place,
)
from hearsay.sim.array.world.queue import INLINE, MESSAGE, push
from hearsay.sim.array.world.record import EVENTS, is_witness, received, row
from hearsay.sim.array.world.slots import find_slot, parameter
from hearsay.trace.language.event_rows import node_up_row


@inlined
def begin_call(w: World, th: int, now: int, node: int, kind: int, remote: int, topic: int, message: int) -> None:
    """Count the event of a call that handles no RPC. If the node is a witness, note the call (`checks.py`)."""
    counts(w)[th, EVENTS] += 1
    if is_witness(w, node):
        note_call(w, th, now, node, kind, remote, topic, message)


@kernel
def end_call(w: World, th: int, now: int, node: int) -> None:
    """End a call: send the parts in the outbox, set the timer of episub, and pass messages to applications."""
    send_outbox(w, th, now, node)
    if has_trees(w, node):
        set_timer(w, th, now, node)
    if w[PART_WORDS]:
        pass_to_applications(w, th, now, node)


@kernel
def call_start(w: World, th: int, now: int, node: int) -> None:
    """Start a node with a new router, which joins the application's topics.

    If the router has meshes, queue the event of its first timer (BEAT-1).
    """
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
        note_with_topics(w, th, now, node, STARTED, -1, -1, node)
    row(w, th, node_up_row(now, node))
    if w[HAS_EPISUB]:
        clear_alarms(w, node)
    if w[HAS_OVERLAY]:
        start_meetings(w, node)
    if w[PART_WORDS]:
        choose_partials(w, th, node)
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
    begin_call(w, th, now, node, EventKind.TIMER_FIRED, -1, -1, -1)
    if has_mesh(w, node):
        decays = has_scores(w, node) or has_gater(w, node)
        due = _beat_and_decay(w, th, now, node) if decays else _beat(w, th, now, node)
        end_call(w, th, now, node)
        push(w, th, due, node, EventKind.TIMER_FIRED, -1, nodes32(w)[node, STARTS], 0)
        return
    nodes32(w)[node, OWED] &= ~WAITS_TO_ANNOUNCE
    if nodes32(w)[node, OWED]:
        send_again(w, th, now, node, SENT_AGAIN)
    if has_trees(w, node):
        if alarms(w)[node, ANNOUNCE] != NEVER and now >= alarms(w)[node, ANNOUNCE]:
            alarms(w)[node, ANNOUNCE] = NEVER
        ring(w, th, now, node)
    end_call(w, th, now, node)


@kernel
def _beat_and_decay(w: World, th: int, now: int, node: int) -> int:
    """Do the decays and the heartbeat that are due; return the time at which the next one is due (STANDING-3).

    First, send subscriptions that could not be sent before.
    """
    times = more64(w)[node]
    if nodes32(w)[node, OWED] & UNANNOUNCED:
        send_again(w, th, now, node, UNANNOUNCED)
    if has_scores(w, node) and now >= times[REFRESH_DUE]:
        if retains_scores(w, node):
            forget_old_scores(w, now, node)
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
    """Do a heartbeat; return the time at which the next heartbeat is due (BEAT-2)."""
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
    keeps_due = w[SERVICE] or w[HAS_SCORES] or w[HAS_GATER]
    # Without decays, a timer fires exactly when a heartbeat is due, unless the event waits for service.
    due = next_heartbeat(nodes64(w)[node, DUE] if keeps_due else now, parameter(w, node, INTERVAL), now)
    if keeps_due:
        nodes64(w)[node, DUE] = due
    if w[HAS_DIALS]:
        more32(w)[node, NAMED_DIALLED] = 0
    if header[OWED]:
        send_again(w, th, now, node, SENT_AGAIN)
    maintain_meshes(w, th, now, node, tick)
    if parameter(w, node, ROUTER_KIND) == GOSSIPSUB:
        maintain_fanouts(w, th, now, node)
        gossip(w, th, now, node, tick)
        if w[PART_WORDS]:
            age_groups(w, node)
            control(w)[th, REMINDS] = 1
        if header[NEWS] >= 0:
            forget_requests(w, node)
            if tick % parameter(w, node, MISSING_WINDOW) == 0:
                lists.remove(w, node, NEWS, -1, -1)
        if parameter(w, node, ASK_AGAIN):
            lists.remove_up_to(w, node, ASKED_AT, tick - parameter(w, node, ASK_AGAIN))
        forget_old_messages(w, node, tick)
    check_meshes(w, th, now, node)
    if has_11:
        control(w)[th, KEEPS_SCORES] = 0
    return int(due)


@kernel
def call_connected(w: World, th: int, now: int, node: int, slot: int) -> None:
    if w[HAS_RATINGS] and has_scores(w, node) and rating_of(w, node, peers(w)[slot]) >= 0:
        counts(w)[th, EVENTS] += 1  # the application rates the peer first
    counts(w)[th, EVENTS] += 1
    if is_witness(w, node):
        dialled = int(has_dialled(w, node, slot))
        note_with_topics(w, th, now, node, EventKind.PEER_CONNECTED, peers(w)[slot], dialled, peers(w)[slot])
    connect(w, th, now, node, slot)
    end_call(w, th, now, node)


@kernel
def call_disconnected(w: World, th: int, now: int, node: int, slot: int) -> None:
    begin_call(w, th, now, node, EventKind.PEER_DISCONNECTED, peers(w)[slot], -1, -1)
    disconnect(w, th, now, node, slot)
    end_call(w, th, now, node)


@kernel
def call_dial_failed(w: World, th: int, now: int, node: int, peer: int) -> None:
    begin_call(w, th, now, node, EventKind.DIAL_FAILED, peer, -1, -1)
    if has_overlay(w, node):
        overlay_dial_failed(w, th, now, node, peer)
    end_call(w, th, now, node)


@with_overlay
def call_round_trip(w: World, th: int, now: int, node: int, peer: int, rtt_us: int) -> None:
    """Pass the round-trip time that a ping to `peer` measured to the router."""
    begin_call(w, th, now, node, EventKind.ROUND_TRIP_MEASURED, peer, -1, rtt_us)
    overlay_measured(w, th, now, node, peer, rtt_us)
    end_call(w, th, now, node)


@with_overlay
def call_contacts(w: World, th: int, now: int, node: int, topic: int, count: int) -> None:
    """Pass the contacts that discovery found to the router.

    The contacts are the nodes in the first `count` entries of `candidates`, ascending.
    """
    counts(w)[th, EVENTS] += 1
    if is_witness(w, node):
        note_contacts(w, th, now, node, topic, candidates(w)[th], count)
    overlay_contacts(w, th, now, node, topic, count)
    end_call(w, th, now, node)


@kernel
def call_join(w: World, th: int, now: int, node: int, topic: int) -> None:
    begin_call(w, th, now, node, EventKind.JOIN, -1, topic, -1)
    join(w, th, now, node, topic)
    end_call(w, th, now, node)


@kernel
def call_leave(w: World, th: int, now: int, node: int, topic: int) -> None:
    begin_call(w, th, now, node, EventKind.LEAVE, -1, topic, -1)
    leave(w, th, now, node, topic)
    end_call(w, th, now, node)


@kernel
def call_publish(w: World, th: int, now: int, node: int, source: int, message: int) -> None:
    begin_call(w, th, now, node, EventKind.PUBLISH, source, -1, message)
    received(w, th, PUBLISH, int(source == w[SCRIPT]))
    publish(w, th, now, node, source, message)
    end_call(w, th, now, node)


@kernel
def call_validated(w: World, th: int, now: int, node: int, place: int) -> None:
    begin_call(w, th, now, node, EventKind.MESSAGE_VALIDATED, -1, -1, words_at(w, part_place(place, 0))[PART_MESSAGE])
    on_validated(w, th, now, node, place)
    end_call(w, th, now, node)


@kernel
def count_parts(w: World, rpc: int, kind: int) -> int:
    """Return the number of parts of one kind in an RPC."""
    count = 0
    for index in range(arena(w)[rpc]):
        count += int(words_at(w, part_place(rpc, index))[PART_KIND] == kind)
    return count


@only_with(HAS_LINKS)
def call_failed(w: World, th: int, now: int, node: int, peer: int, payload: int) -> None:
    """Handle the event that an RPC to a peer could not be sent; `payload` is the payload of this event."""
    counts(w)[th, EVENTS] += 1
    if is_witness(w, node):
        if payload & INLINE:
            part = message_part(w, payload & MESSAGE, 1, -1)
            note_message(w, th, now, node, EventKind.SEND_FAILED, peer, part)
        else:
            note_rpc(w, th, now, node, EventKind.SEND_FAILED, peer, payload)
    slot = find_slot(w, node, peer)
    if slot < 0 or not flags(w)[slot, 0] & CONNECTED:
        return
    unsent = 1
    if not payload & INLINE:
        note_unsent(w, th, now, node, slot, payload)
        unsent = count_parts(w, payload, PUBLISH)
        if has_trees(w, node):
            end_call(w, th, now, node)
    if unsent:
        penalise_slow(w, node, slot, unsent)
