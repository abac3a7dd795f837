"""Calls of a router: each handles an event, and at its end sends all that is in the outbox (`Router.handle`)."""

from __future__ import annotations

from hearsay.core.language.actions import Reason
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
from hearsay.sim.array.episub.links import claimed_as_neighbour
from hearsay.sim.array.episub.meetings import start_meetings
from hearsay.sim.array.episub.overlay import (
    on_overlay_part,
    overlay_contacts,
    overlay_dial_failed,
    overlay_measured,
)
from hearsay.sim.array.episub.ringing import ring
from hearsay.sim.array.episub.tree import on_tree_part
from hearsay.sim.array.machine.compiling import inlined, kernel, only_with
from hearsay.sim.array.rules.direct import dial_direct, is_direct
from hearsay.sim.array.rules.forwarding import publish, receive, validated
from hearsay.sim.array.rules.gater import decay_gater, gater_due, has_gater, start_gater
from hearsay.sim.array.rules.gossip import (
    age,
    forget_asked,
    forget_requests,
    gossip,
    keep_fanout,
    on_ihave,
    on_iwant,
)
from hearsay.sim.array.rules.membership import (
    ACCEPTED,
    OVER_LIMIT,
    SAID_AGAIN,
    THROTTLED,
    connect,
    disconnect,
    has_dialled,
    join,
    leave,
    note_unsent,
    on_subscription,
    say_again,
)
from hearsay.sim.array.rules.mesh import has_mesh, on_graft, on_prune
from hearsay.sim.array.rules.notes import (
    STARTED,
    note_call,
    note_connection,
    note_contacts,
    note_gossip,
    note_message,
    note_rpc,
    note_topic_part,
    note_unsent_message,
    note_unwanted,
)
from hearsay.sim.array.rules.opinions import is_rated
from hearsay.sim.array.rules.promises import (
    admits_ihave,
    admits_iwant,
    begin_heartbeat,
    control_handled,
    end_heartbeat,
    is_gated,
    trusts_gossip_of,
    uses_11,
)
from hearsay.sim.array.rules.retained import forget_old, keeps_scores
from hearsay.sim.array.rules.scores import decay, has_scores, is_graylisted, penalise_slow
from hearsay.sim.array.rules.unwanted import (
    accepted_of,
    forget_old_senders,
    forget_old_unwanted,
    heed,
    part_of_12,
    skips_senders,
    uses_idontwant,
)
from hearsay.sim.array.rules.upkeep import keep_meshes
from hearsay.sim.array.travel.outbox import flush
from hearsay.sim.array.travel.uplink import has_queue, start_uplink
from hearsay.sim.array.world import lists
from hearsay.sim.array.world.draws import below, draw1
from hearsay.sim.array.world.layout import (
    ANNOUNCE,
    APPLICATION,
    ASK_AGAIN,
    BEAT_SPREAD,
    COUNTS_IHAVES,
    DUE,
    FILTERS,
    FIRST_BEAT,
    GOSSIPSUB,
    GRAYLISTED_SUBSCRIBE,
    HAS_DIALS,
    HAS_DIRECT,
    HAS_EPISUB,
    HAS_FILTERS,
    HAS_GATER,
    HAS_LINKS,
    HAS_OVERLAY,
    HAS_RATINGS,
    HAS_SCORES,
    INTERVAL,
    MAX_CHANGES,
    MAX_CONTROL,
    MAX_MESSAGES,
    MESH_FIRST,
    MISSING_WINDOW,
    NAMED_DIALLED,
    NAMED_HOPS,
    NEWS,
    OUT_COUNT,
    OWED,
    REFRESH,
    REFRESH_DUE,
    REFRESHED,
    ROUTER_KIND,
    SERVICE,
    STARTS,
    TICK,
    TOPIC,
    TOPICS,
    UNANNOUNCED,
    UP,
    UPLINK,
    UPLINK_FREE,
    USES_12,
    WAITS_TO_ANNOUNCE,
    World,
    alarms,
    allowed,
    arena,
    candidates,
    control,
    counts,
    flags,
    members,
    messages,
    more32,
    more64,
    nodes32,
    nodes64,
    peers,
    scratch,
    words_at,
)
from hearsay.sim.array.world.layout import CONNECTED as IS_CONNECTED
from hearsay.sim.array.world.payload import (
    CONTROL,
    GRAFT,
    IDONTWANT,
    IHAVE,
    IWANT,
    PART_COUNT,
    PART_HOPS,
    PART_IDS,
    PART_KIND,
    PART_MESSAGE,
    PART_TOPIC,
    PART_VIA,
    PRUNE,
    PUBLISH,
    SUBSCRIBE,
    UNSUBSCRIBE,
    names_hops,
    part_place,
)
from hearsay.sim.array.world.queue import INLINE, MESSAGE, push
from hearsay.sim.array.world.record import EVENTS, ignored, is_witness, row
from hearsay.sim.array.world.slots import find_slot, parameter, router
from hearsay.trace.language.event_rows import node_up_row


@inlined
def _begin(w: World, th: int, now: int, node: int, kind: int, remote: int, topic: int, message: int) -> None:
    """Begin a call that is not an RPC."""
    counts(w)[th, EVENTS] += 1
    if is_witness(w, node):
        note_call(w, th, now, node, kind, remote, topic, message)


@kernel
def _end(w: World, th: int, now: int, node: int) -> None:
    """End a call: send what it put into the outbox."""
    if control(w)[th, OUT_COUNT] and nodes32(w)[node, OWED] & SAID_AGAIN:
        say_again(w, th, now, node, 0)
    flush(w, th, now, node)
    if has_trees(w, node):
        set_timer(w, th, now, node)


@kernel
def call_start(w: World, th: int, now: int, node: int) -> None:
    """Start a node: a new, empty router that joins the application's topics (BEAT-1)."""
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
        note_call(w, th, now, node, STARTED, -1, -1, -1)
    row(w, th, node_up_row(now, node))
    if w[HAS_EPISUB]:
        clear_alarms(w, node)
    if w[HAS_OVERLAY]:
        start_meetings(w, node)
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
    _begin(w, th, now, node, EventKind.TIMER_FIRED, -1, -1, -1)
    if has_mesh(w, node):
        decays = has_scores(w, node) or has_gater(w, node)
        due = _beat_and_decay(w, th, now, node) if decays else _beat(w, th, now, node)
        _end(w, th, now, node)
        push(w, th, due, node, EventKind.TIMER_FIRED, -1, nodes32(w)[node, STARTS], 0)
        return
    nodes32(w)[node, OWED] &= ~WAITS_TO_ANNOUNCE
    if nodes32(w)[node, OWED]:
        say_again(w, th, now, node, SAID_AGAIN)
    if has_trees(w, node):
        _ring(w, th, now, node)
    _end(w, th, now, node)


@with_episub
def _ring(w: World, th: int, now: int, node: int) -> None:
    line = alarms(w)[node]
    if line[ANNOUNCE] != NEVER and now >= line[ANNOUNCE]:
        line[ANNOUNCE] = NEVER
    ring(w, th, now, node)


@kernel
def _beat_and_decay(w: World, th: int, now: int, node: int) -> int:
    """Do what is due: decays, then a heartbeat; return when something is due again (STANDING-3)."""
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
        if header[NEWS] >= 0:
            forget_requests(w, node)
            if tick % parameter(w, node, MISSING_WINDOW) == 0:
                lists.remove(w, node, NEWS, -1, -1)
        if parameter(w, node, ASK_AGAIN):
            forget_asked(w, node, tick)
        age(w, node, tick)
    if has_11:
        end_heartbeat(w, th)
    return int(due)


@kernel
def call_connected(w: World, th: int, now: int, node: int, slot: int) -> None:
    if w[HAS_RATINGS] and has_scores(w, node) and is_rated(w, node, peers(w)[slot]):
        counts(w)[th, EVENTS] += 1  # before, the application rates the peer
    counts(w)[th, EVENTS] += 1
    if is_witness(w, node):
        note_connection(w, th, now, node, peers(w)[slot], int(has_dialled(w, node, slot)))
    connect(w, th, now, node, slot)
    _end(w, th, now, node)


@kernel
def call_disconnected(w: World, th: int, now: int, node: int, slot: int) -> None:
    _begin(w, th, now, node, EventKind.PEER_DISCONNECTED, peers(w)[slot], -1, -1)
    disconnect(w, th, now, node, slot)
    _end(w, th, now, node)


@kernel
def call_dial_failed(w: World, th: int, now: int, node: int, peer: int) -> None:
    _begin(w, th, now, node, EventKind.DIAL_FAILED, peer, -1, -1)
    if has_overlay(w, node):
        overlay_dial_failed(w, th, now, node, peer)
    _end(w, th, now, node)


@with_overlay
def call_measured(w: World, th: int, now: int, node: int, peer: int, rtt_us: int) -> None:
    """Hand over the answer to a ping."""
    _begin(w, th, now, node, EventKind.ROUND_TRIP_MEASURED, peer, -1, rtt_us)
    overlay_measured(w, th, now, node, peer, rtt_us)
    _end(w, th, now, node)


@with_overlay
def call_contacts(w: World, th: int, now: int, node: int, topic: int, count: int) -> None:
    """Hand over contacts, which stand in `candidates`, ascending."""
    counts(w)[th, EVENTS] += 1
    if is_witness(w, node):
        note_contacts(w, th, now, node, topic, candidates(w)[th], count)
    overlay_contacts(w, th, now, node, topic, count)
    _end(w, th, now, node)


@kernel
def call_join(w: World, th: int, now: int, node: int, topic: int) -> None:
    _begin(w, th, now, node, EventKind.JOIN, -1, topic, -1)
    join(w, th, now, node, topic)
    _end(w, th, now, node)


@kernel
def call_leave(w: World, th: int, now: int, node: int, topic: int) -> None:
    _begin(w, th, now, node, EventKind.LEAVE, -1, topic, -1)
    leave(w, th, now, node, topic)
    _end(w, th, now, node)


@kernel
def call_publish(w: World, th: int, now: int, node: int, source: int, message: int) -> None:
    _begin(w, th, now, node, EventKind.PUBLISH, source, -1, message)
    publish(w, th, now, node, source, message)
    _end(w, th, now, node)


@kernel
def call_validated(w: World, th: int, now: int, node: int, place: int) -> None:
    _begin(w, th, now, node, EventKind.MESSAGE_VALIDATED, -1, -1, words_at(w, part_place(place, 0))[PART_MESSAGE])
    validated(w, th, now, node, place)
    _end(w, th, now, node)


@kernel
def call_message(w: World, th: int, now: int, node: int, sender: int, message: int, hops: int, via: int) -> None:
    """Handle an RPC that is one message."""
    counts(w)[th, EVENTS] += 1
    if is_witness(w, node):
        note_message(w, th, now, node, sender, message, hops, via)
    if w[HAS_SCORES] and is_graylisted(w, now, node, find_slot(w, node, sender)):
        ignored(w, th, now, node, sender, PUBLISH, 1, Reason.GRAYLISTED)
        return
    if w[HAS_GATER] and is_gated(w, now, node, sender):
        ignored(w, th, now, node, sender, PUBLISH, 1, Reason.GATED)
        return
    if w[HAS_EPISUB]:
        control(w)[th, NAMED_HOPS] = hops if names_hops(via) else 0
    receive(w, th, now, node, sender, message, hops, via)
    _end(w, th, now, node)


@kernel
def call_gossip(w: World, th: int, now: int, node: int, sender: int, first: int, others: int) -> None:
    """Handle an RPC that is one IHAVE; `others` has a bit for each message after the first."""
    counts(w)[th, EVENTS] += 1
    ids = scratch(w)[th]
    ids[0] = first
    count = 1
    message = first
    while others:
        message += 1
        if others & 1:
            ids[count] = message
            count += 1
        others >>= 1
    if is_witness(w, node):
        note_gossip(w, th, now, node, sender, ids, count)
    if w[HAS_SCORES] and is_graylisted(w, now, node, find_slot(w, node, sender)):
        ignored(w, th, now, node, sender, IHAVE, 1, Reason.GRAYLISTED)
        return
    if parameter(w, node, MAX_CONTROL) < 1:
        ignored(w, th, now, node, sender, IHAVE, 1, Reason.OVER_LIMIT)
        return
    if not uses_11(w, node):
        on_ihave(w, th, now, node, sender, messages(w)[first, TOPIC], ids, 0, count)
    elif _admits_gossip(w, th, now, node, sender, count, 0) & _ADMITS_IHAVE:
        on_ihave(w, th, now, node, sender, messages(w)[first, TOPIC], ids, 0, count)
        control_handled(w, th, now, node, sender)
    _end(w, th, now, node)


_ADMITS_IHAVE, _ADMITS_IWANT = 1, 2


@kernel
def _admits_gossip(w: World, th: int, now: int, node: int, sender: int, announced: int, requested: int) -> int:
    """Return whether the IHAVEs and the IWANTs of an RPC are handled, as bits; report the ids that are not."""
    if w[HAS_DIRECT] and is_direct(w, node, find_slot(w, node, sender)):
        return _ADMITS_IHAVE | _ADMITS_IWANT
    if has_scores(w, node) and not trusts_gossip_of(w, now, node, find_slot(w, node, sender)):
        if announced:
            ignored(w, th, now, node, sender, IHAVE, announced, Reason.LOW_SCORE)
        if requested:
            ignored(w, th, now, node, sender, IWANT, requested, Reason.LOW_SCORE)
        return 0
    admitted = 0
    if announced and (parameter(w, node, COUNTS_IHAVES) or admits_ihave(w, th, now, node, sender, announced)):
        admitted |= _ADMITS_IHAVE
    if requested and admits_iwant(w, th, now, node, sender, requested):
        admitted |= _ADMITS_IWANT
    return admitted


@kernel
def call_topic_part(w: World, th: int, now: int, node: int, sender: int, topic: int, kind: int) -> None:
    """Handle an RPC that is one SUBSCRIBE, UNSUBSCRIBE, GRAFT or PRUNE."""
    counts(w)[th, EVENTS] += 1
    if is_witness(w, node):
        note_topic_part(w, th, now, node, sender, topic, kind)
    slot = find_slot(w, node, sender)
    about = kind == SUBSCRIBE or kind == UNSUBSCRIBE
    if about and _is_filtered(w, node, topic):
        ignored(w, th, now, node, sender, SUBSCRIBE, 1, Reason.FILTERED)
    elif is_graylisted(w, now, node, slot) and not (about and parameter(w, node, GRAYLISTED_SUBSCRIBE)):
        ignored(w, th, now, node, sender, SUBSCRIBE if about else kind, 1, Reason.GRAYLISTED)
    elif about:
        reason = on_subscription(w, th, now, node, slot, topic, kind == SUBSCRIBE)
        if reason != ACCEPTED:
            ignored(w, th, now, node, sender, SUBSCRIBE, 1, reason)
    elif parameter(w, node, MAX_CONTROL) < 1:
        ignored(w, th, now, node, sender, kind, 1, Reason.OVER_LIMIT)
    elif has_trees(w, node):
        _on_tree_part(w, th, now, node, slot, kind, topic, 0, 0)
    elif kind == GRAFT:
        on_graft(w, th, now, node, slot, topic)
    else:
        _on_prune(w, th, now, node, slot, topic, -1)
    control_handled(w, th, now, node, sender)
    _end(w, th, now, node)


@part_of_12
def call_unwanted(w: World, th: int, now: int, node: int, sender: int, message: int) -> None:
    """Handle an RPC that is one IDONTWANT of one message."""
    counts(w)[th, EVENTS] += 1
    if is_witness(w, node):
        note_unwanted(w, th, now, node, sender, message)
    slot = find_slot(w, node, sender)
    if is_graylisted(w, now, node, slot):
        ignored(w, th, now, node, sender, IDONTWANT, 1, Reason.GRAYLISTED)
    elif parameter(w, node, MAX_CONTROL) < 1:
        ignored(w, th, now, node, sender, IDONTWANT, 1, Reason.OVER_LIMIT)
    elif accepted_of(w, th, now, node, slot, 1):
        heed(w, th, now, node, slot, message)
    control_handled(w, th, now, node, sender)
    _end(w, th, now, node)


@kernel
def call_rpc(w: World, th: int, now: int, node: int, sender: int, rpc: int) -> None:
    """Handle an RPC that lies in the arena (SHELL-3, SHELL-8)."""
    counts(w)[th, EVENTS] += 1
    if is_witness(w, node):
        note_rpc(w, th, now, node, EventKind.RPC_RECEIVED, sender, rpc)
    slot = find_slot(w, node, sender)
    parts = arena(w)[rpc]
    changes = _count(w, rpc, parts, SUBSCRIBE) + _count(w, rpc, parts, UNSUBSCRIBE)
    over = 0 < parameter(w, node, MAX_CHANGES) < changes
    if w[HAS_FILTERS] and changes and not over:
        changes -= _filter(w, th, now, node, sender, rpc, parts)
    if over:
        ignored(w, th, now, node, sender, SUBSCRIBE, changes, Reason.OVER_LIMIT)
        _drop_messages_and_control(w, th, now, node, sender, rpc, parts, Reason.OVER_LIMIT)
    elif is_graylisted(w, now, node, slot):
        _drop_messages_and_control(w, th, now, node, sender, rpc, parts, Reason.GRAYLISTED)
        if parameter(w, node, GRAYLISTED_SUBSCRIBE):
            _receive_subscriptions(w, th, now, node, slot, rpc, parts)
        elif changes:
            ignored(w, th, now, node, sender, SUBSCRIBE, changes, Reason.GRAYLISTED)
    else:
        _receive_subscriptions(w, th, now, node, slot, rpc, parts)
        _receive_messages(w, th, now, node, sender, rpc, parts)
        _receive_control(w, th, now, node, slot, rpc, parts)
    _end(w, th, now, node)


@kernel
def _drop_messages_and_control(
    w: World, th: int, now: int, node: int, sender: int, rpc: int, parts: int, reason: int
) -> None:  # fmt: skip
    """Drop an RPC without its subscriptions (JUDGE-1, SHELL-8)."""
    for kind in (PUBLISH, *CONTROL):
        count = _count(w, rpc, parts, kind)
        if count and (kind == PUBLISH or not has_trees(w, node)):
            ignored(w, th, now, node, sender, kind, count, reason)
    if w[HAS_EPISUB]:
        for index in range(parts):
            kind = words_at(w, part_place(rpc, index))[PART_KIND]
            if kind > IDONTWANT or (kind >= IHAVE and has_trees(w, node)):
                ignored(w, th, now, node, sender, kind, 1, reason)


@inlined
def _is_filtered(w: World, node: int, topic: int) -> bool:
    """Return whether a router ignores subscriptions to a topic (SHELL-8)."""
    return w[HAS_FILTERS] != 0 and parameter(w, node, FILTERS) != 0 and not allowed(w)[router(w, node), topic]


@kernel
def _filter(w: World, th: int, now: int, node: int, sender: int, rpc: int, parts: int) -> int:
    """Report the subscriptions of an RPC that a router ignores; return how many (SHELL-8).

    An RPC of a router names a topic once, so no SUBSCRIBE and UNSUBSCRIBE cancel out.
    """
    filtered = 0
    for index in range(parts):
        part = words_at(w, part_place(rpc, index))
        if part[PART_KIND] == SUBSCRIBE or part[PART_KIND] == UNSUBSCRIBE:
            filtered += int(_is_filtered(w, node, part[PART_TOPIC]))
    if filtered:
        ignored(w, th, now, node, sender, SUBSCRIBE, filtered, Reason.FILTERED)
    return filtered


@kernel
def _receive_subscriptions(w: World, th: int, now: int, node: int, slot: int, rpc: int, parts: int) -> None:
    over = 0
    throttled = 0
    for index in range(parts):
        part = words_at(w, part_place(rpc, index))
        kind = part[PART_KIND]
        about = kind == SUBSCRIBE or kind == UNSUBSCRIBE
        if about and not _is_filtered(w, node, part[PART_TOPIC]):
            reason = on_subscription(w, th, now, node, slot, part[PART_TOPIC], kind == SUBSCRIBE)
            over += int(reason == OVER_LIMIT)
            throttled += int(reason == THROTTLED)
    if over:
        ignored(w, th, now, node, peers(w)[slot], SUBSCRIBE, over, Reason.OVER_LIMIT)
    if throttled:
        ignored(w, th, now, node, peers(w)[slot], SUBSCRIBE, throttled, Reason.THROTTLED)


@kernel
def _receive_messages(w: World, th: int, now: int, node: int, sender: int, rpc: int, parts: int) -> None:
    """Handle the messages of an RPC, up to a limit (SHELL-6)."""
    count = _count(w, rpc, parts, PUBLISH)
    if w[HAS_GATER] and count and is_gated(w, now, node, sender):
        ignored(w, th, now, node, sender, PUBLISH, count, Reason.GATED)
        return
    allowed = parameter(w, node, MAX_MESSAGES)
    if count > allowed:
        ignored(w, th, now, node, sender, PUBLISH, count - allowed, Reason.OVER_LIMIT)
    for index in range(parts):
        part = words_at(w, part_place(rpc, index))
        if part[PART_KIND] == PUBLISH and allowed > 0:
            allowed -= 1
            if w[HAS_EPISUB]:
                control(w)[th, NAMED_HOPS] = arena(w)[rpc + part[PART_IDS]] if part[PART_IDS] else 0
            receive(w, th, now, node, sender, part[PART_MESSAGE], part[PART_HOPS], part[PART_VIA])


@kernel
def _count(w: World, rpc: int, parts: int, kind: int) -> int:
    count = 0
    for index in range(parts):
        if words_at(w, part_place(rpc, index))[PART_KIND] == kind:
            count += 1
    return count


@kernel
def _receive_control(w: World, th: int, now: int, node: int, slot: int, rpc: int, parts: int) -> None:
    room = parameter(w, node, MAX_CONTROL)
    if has_trees(w, node):
        _receive_tree_parts(w, th, now, node, slot, rpc, parts, room)
        return
    if w[HAS_OVERLAY]:
        _refuse_overlay_parts(w, th, now, node, peers(w)[slot], rpc, parts, room)
    if parts > room:
        for kind in CONTROL:
            count = _count(w, rpc, parts, kind)
            if count > room:
                ignored(w, th, now, node, peers(w)[slot], kind, count - room, Reason.OVER_LIMIT)
            room = max(0, room - count)
        room = parameter(w, node, MAX_CONTROL)
    first = parts
    end = parts
    for index in range(parts):
        if words_at(w, part_place(rpc, index))[PART_KIND] >= IHAVE:
            first = min(first, index)
            if room == 0:
                end = index
                break
            room -= 1
    if first == parts:
        return
    if not parameter(w, node, MESH_FIRST):
        _receive_gossip(w, th, now, node, slot, rpc, first, end)
    for index in range(first, end):
        part = words_at(w, part_place(rpc, index))
        kind = part[PART_KIND]
        if kind == GRAFT:
            on_graft(w, th, now, node, slot, part[PART_TOPIC])
        elif kind == PRUNE:
            _on_prune(w, th, now, node, slot, part[PART_TOPIC], rpc + part[PART_IDS] if part[PART_IDS] else -1)
    if parameter(w, node, MESH_FIRST):
        _receive_gossip(w, th, now, node, slot, rpc, first, end)
    if w[USES_12]:
        _receive_unwanted(w, th, now, node, slot, rpc, first, end)
    control_handled(w, th, now, node, peers(w)[slot])


@with_episub
def _on_tree_part(
    w: World, th: int, now: int, node: int, slot: int, kind: int, topic: int, ids: int, count: int
) -> None:  # fmt: skip
    is_strange = on_tree_part(w, th, now, node, slot, kind, topic, ids, count)
    if is_strange and has_overlay(w, node):
        claimed_as_neighbour(w, th, node, topic, peers(w)[slot])


@with_episub
def _receive_tree_parts(
    w: World, th: int, now: int, node: int, slot: int, rpc: int, parts: int, room: int
) -> None:  # fmt: skip
    for index in range(parts):
        part = words_at(w, part_place(rpc, index))
        if part[PART_KIND] < IHAVE:
            continue
        if room > 0:
            ids = rpc + part[PART_IDS]
            count = part[PART_COUNT] if part[PART_IDS] else 0
            if part[PART_KIND] > PRUNE:
                on_overlay_part(w, th, now, node, slot, rpc, part_place(rpc, index))
            else:
                _on_tree_part(w, th, now, node, slot, part[PART_KIND], part[PART_TOPIC], ids, count)
        else:
            ignored(w, th, now, node, peers(w)[slot], part[PART_KIND], 1, Reason.OVER_LIMIT)
        room -= 1


@with_overlay
def _refuse_overlay_parts(
    w: World, th: int, now: int, node: int, sender: int, rpc: int, parts: int, room: int
) -> None:  # fmt: skip
    """Report parts of episub that a node without it receives."""
    for index in range(parts):
        kind = words_at(w, part_place(rpc, index))[PART_KIND]
        if kind > IDONTWANT:
            ignored(w, th, now, node, sender, kind, 1, Reason.UNSUPPORTED if room > 0 else Reason.OVER_LIMIT)
        room -= int(kind >= IHAVE)


@kernel
def _receive_gossip(w: World, th: int, now: int, node: int, slot: int, rpc: int, first: int, end: int) -> None:
    """Handle the IHAVEs and IWANTs among these parts of an RPC."""
    peer = peers(w)[slot]
    admitted = _ADMITS_IHAVE | _ADMITS_IWANT
    if uses_11(w, node):
        announced = _ids(w, rpc, first, end, IHAVE)
        requested = _ids(w, rpc, first, end, IWANT)
        admitted = _admits_gossip(w, th, now, node, peer, announced, requested)
    for index in range(first, end):
        part = words_at(w, part_place(rpc, index))
        kind = part[PART_KIND]
        if kind == IHAVE and admitted & _ADMITS_IHAVE:
            on_ihave(w, th, now, node, peer, part[PART_TOPIC], arena(w), rpc + part[PART_IDS], part[PART_COUNT])
        elif kind == IWANT and admitted & _ADMITS_IWANT:
            on_iwant(w, th, now, node, slot, rpc + part[PART_IDS], part[PART_COUNT])


@part_of_12
def _receive_unwanted(w: World, th: int, now: int, node: int, slot: int, rpc: int, first: int, end: int) -> None:
    """Handle the IDONTWANT among these parts of an RPC; there is one at most."""
    for index in range(first, end):
        part = words_at(w, part_place(rpc, index))
        if part[PART_KIND] == IDONTWANT:
            ids = rpc + part[PART_IDS]
            for place in range(accepted_of(w, th, now, node, slot, part[PART_COUNT])):
                heed(w, th, now, node, slot, arena(w)[ids + place])


@kernel
def _ids(w: World, rpc: int, first: int, end: int, kind: int) -> int:
    """Return the number of ids in the parts of one kind."""
    count = 0
    for index in range(first, end):
        part = words_at(w, part_place(rpc, index))
        if part[PART_KIND] == kind:
            count += part[PART_COUNT]
    return count


@kernel
def _on_prune(w: World, th: int, now: int, node: int, slot: int, topic: int, place: int) -> None:
    if has_mesh(w, node):
        on_prune(w, th, now, node, slot, topic, place)
    else:
        ignored(w, th, now, node, peers(w)[slot], PRUNE, 1, Reason.UNSUPPORTED)


@only_with(HAS_LINKS)
def call_failed(w: World, th: int, now: int, node: int, peer: int, payload: int) -> None:
    """Handle an RPC that could not be sent."""
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
        _end(w, th, now, node)
        return
    if payload & INLINE:
        penalise_slow(w, node, slot, 1)
        return
    note_unsent(w, th, now, node, slot, payload)
    sent = _count(w, payload, arena(w)[payload], PUBLISH)
    if sent:
        penalise_slow(w, node, slot, sent)
