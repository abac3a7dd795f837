"""Kernels of `core.shell.router` for received RPCs.

An RPC lies in the arena, or it has only one part and fits into its event.
"""

from __future__ import annotations

from hearsay.core.language.actions import Reason
from hearsay.core.language.events import EventKind
from hearsay.sim.array.compiling import inlined, kernel
from hearsay.sim.array.episub.basics import has_overlay, has_trees, with_episub, with_overlay
from hearsay.sim.array.episub.links import disconnect_stranger
from hearsay.sim.array.episub.received import on_overlay_part
from hearsay.sim.array.episub.tree import on_tree_part
from hearsay.sim.array.rules.applications import receive_parts
from hearsay.sim.array.rules.calls import count_parts, end_call
from hearsay.sim.array.rules.checks import note_message, note_received, note_rpc
from hearsay.sim.array.rules.features import note_features, note_use, on_test, with_features
from hearsay.sim.array.rules.forwarding import receive
from hearsay.sim.array.rules.gossip import (
    on_ihave,
    on_iwant,
)
from hearsay.sim.array.rules.membership import (
    ACCEPTED,
    OVER_LIMIT,
    THROTTLED,
    on_subscription,
)
from hearsay.sim.array.rules.mesh import has_mesh, on_graft, on_prune
from hearsay.sim.array.rules.partials import on_partial
from hearsay.sim.array.rules.promises import (
    admits,
    end_control,
    is_gated,
    trusts_gossip,
    uses_11,
)
from hearsay.sim.array.rules.scores import has_scores, is_graylisted
from hearsay.sim.array.rules.special_peers import is_direct
from hearsay.sim.array.rules.unwanted import (
    accept_ids,
    on_unwanted,
    with_12,
)
from hearsay.sim.array.world.layout import (
    COUNTS_IHAVES,
    FILTERS,
    GRAYLISTED_SUBSCRIBE,
    HAS_DIRECT,
    HAS_EPISUB,
    HAS_FEATURES,
    HAS_FILTERS,
    HAS_GATER,
    HAS_OVERLAY,
    HAS_SCORES,
    MAX_CHANGES,
    MAX_CONTROL,
    MAX_MESSAGES,
    MESH_FIRST,
    NAMED_HOPS,
    PART_WORDS,
    TOPIC,
    USES_11,
    USES_12,
    WITNESSES,
    World,
    allowed,
    arena,
    control,
    counts,
    messages,
    peers,
    words_at,
)
from hearsay.sim.array.world.payload import (
    CONTROL,
    FEATURES,
    GRAFT,
    HEADER,
    IDONTWANT,
    IHAVE,
    IWANT,
    METADATA,
    PART,
    PART_COUNT,
    PART_HOPS,
    PART_IDS,
    PART_KIND,
    PART_MESSAGE,
    PART_TOPIC,
    PART_VIA,
    PARTIAL,
    PRUNE,
    PUBLISH,
    SUBSCRIBE,
    TEST,
    UNSUBSCRIBE,
    is_control,
    message_part,
    names_hops,
    part_place,
    topic_part,
    unpacked_rpc,
    write_part,
)
from hearsay.sim.array.world.record import EVENTS, ignored, is_witness, received
from hearsay.sim.array.world.slots import find_slot, parameter, router


@kernel
def call_message(w: World, th: int, now: int, node: int, sender: int, message: int, hops: int, via: int) -> None:
    """Handle an RPC whose only part is a message."""
    counts(w)[th, EVENTS] += 1
    received(w, th, PUBLISH, 1)
    if is_witness(w, node):
        note_message(w, th, now, node, EventKind.RPC_RECEIVED, sender, message_part(w, message, hops, via))
    note_features(w, th, now, node, sender, False)
    if w[HAS_SCORES] and is_graylisted(w, now, node, find_slot(w, node, sender)):
        ignored(w, th, now, node, sender, PUBLISH, 1, Reason.GRAYLISTED)
        return
    if w[HAS_GATER] and is_gated(w, now, node, sender):
        ignored(w, th, now, node, sender, PUBLISH, 1, Reason.GATED)
        return
    if w[HAS_EPISUB]:
        control(w)[th, NAMED_HOPS] = hops if names_hops(via) else 0
    receive(w, th, now, node, sender, message, hops, via)
    end_call(w, th, now, node)


@kernel
def call_gossip(w: World, th: int, now: int, node: int, sender: int, first: int, others: int) -> None:
    """Handle an RPC whose only part is an IHAVE.

    It names the message `first` and, for each bit i of `others` that is set, the message `first` + 1 + i.
    """
    rpc = unpacked_rpc(w, th)
    ids = rpc + HEADER + PART
    arena(w)[ids] = first
    count = 1
    message = first
    while others:
        message += 1
        if others & 1:
            arena(w)[ids + count] = message
            count += 1
        others >>= 1
    topic = messages(w)[first, TOPIC]
    if w[USES_11] or w[HAS_FEATURES] or w[HAS_EPISUB] or w[WITNESSES] or parameter(w, node, MAX_CONTROL) < 1:
        write_part(w, rpc, 0, topic_part(IHAVE, topic, -1, count), HEADER + PART)
        call_rpc(w, th, now, node, sender, rpc)
    else:  # as `call_rpc` does, but faster: such runs have more IHAVEs than other RPCs except messages
        counts(w)[th, EVENTS] += 1
        on_ihave(w, th, now, node, sender, topic, ids, count)
        end_call(w, th, now, node)


@kernel
def call_topic_part(w: World, th: int, now: int, node: int, sender: int, topic: int, kind: int) -> None:
    """Handle an RPC whose only part is a SUBSCRIBE, UNSUBSCRIBE, GRAFT or PRUNE."""
    rpc = unpacked_rpc(w, th)
    write_part(w, rpc, 0, topic_part(kind, topic, -1, 1), 0)
    call_rpc(w, th, now, node, sender, rpc)


@with_12
def call_unwanted(w: World, th: int, now: int, node: int, sender: int, message: int) -> None:
    """Handle an RPC whose only part is an IDONTWANT of one message."""
    rpc = unpacked_rpc(w, th)
    arena(w)[rpc + HEADER + PART] = message
    write_part(w, rpc, 0, topic_part(IDONTWANT, -1, -1, 1), HEADER + PART)
    call_rpc(w, th, now, node, sender, rpc)


_ADMITS_IHAVE, _ADMITS_IWANT = 1, 2


@kernel
def _admits_gossip(w: World, th: int, now: int, node: int, sender: int, announced: int, requested: int) -> int:
    """Return which gossip of an RPC the router handles: the bits _ADMITS_IHAVE and _ADMITS_IWANT.

    The ids of IHAVEs and IWANTs that it does not handle are recorded as ignored. `announced` and `requested` are the
    numbers of ids in the IHAVEs and in the IWANTs.
    """
    if w[HAS_DIRECT] and is_direct(w, node, find_slot(w, node, sender)):
        return _ADMITS_IHAVE | _ADMITS_IWANT
    if has_scores(w, node) and not trusts_gossip(w, now, node, find_slot(w, node, sender)):
        if announced:
            ignored(w, th, now, node, sender, IHAVE, announced, Reason.LOW_SCORE)
        if requested:
            ignored(w, th, now, node, sender, IWANT, requested, Reason.LOW_SCORE)
        return 0
    admitted = 0
    if announced and (parameter(w, node, COUNTS_IHAVES) or admits(w, th, now, node, sender, announced, IHAVE)):
        admitted |= _ADMITS_IHAVE
    if requested and admits(w, th, now, node, sender, requested, IWANT):
        admitted |= _ADMITS_IWANT
    return admitted


@kernel
def call_rpc(w: World, th: int, now: int, node: int, sender: int, rpc: int) -> None:
    """Handle an RPC that lies in the arena (SHELL-3, SHELL-8)."""
    counts(w)[th, EVENTS] += 1
    if is_witness(w, node):
        note_rpc(w, th, now, node, EventKind.RPC_RECEIVED, sender, rpc)
    slot = find_slot(w, node, sender)
    note_received(w, th, slot, rpc)
    changes = count_parts(w, rpc, SUBSCRIBE) + count_parts(w, rpc, UNSUBSCRIBE)
    over = 0 < parameter(w, node, MAX_CHANGES) < changes
    if w[HAS_FILTERS] and changes and not over:
        changes -= _filter(w, th, now, node, sender, rpc)
    is_refused = over or is_graylisted(w, now, node, slot)
    note_features(w, th, now, node, sender, not is_refused and count_parts(w, rpc, FEATURES) > 0)
    content = -1
    if over:
        ignored(w, th, now, node, sender, SUBSCRIBE, changes, Reason.OVER_LIMIT)
        _drop_messages_and_control(w, th, now, node, sender, rpc, Reason.OVER_LIMIT)
    elif is_refused:
        _drop_messages_and_control(w, th, now, node, sender, rpc, Reason.GRAYLISTED)
        if parameter(w, node, GRAYLISTED_SUBSCRIBE):
            _receive_subscriptions(w, th, now, node, slot, rpc)
        elif changes:
            ignored(w, th, now, node, sender, SUBSCRIBE, changes, Reason.GRAYLISTED)
    else:
        _receive_subscriptions(w, th, now, node, slot, rpc)
        _receive_messages(w, th, now, node, sender, rpc)
        if w[HAS_FEATURES]:
            content = _receive_alone(w, th, now, node, slot, rpc)
        _receive_control(w, th, now, node, slot, rpc)
    end_call(w, th, now, node)
    if w[PART_WORDS] and content >= 0:
        receive_parts(w, th, now, node, slot, content)


@with_features
def _receive_alone(w: World, th: int, now: int, node: int, slot: int, rpc: int) -> int:
    """Handle an RPC that is a partial message or a test message. Such an RPC has no other parts.

    Do nothing for any other RPC.

    Return the index in the arena of the content of an accepted partial message, otherwise -1.
    """
    kind = words_at(w, part_place(rpc, 0))[PART_KIND]
    if kind == TEST:
        on_test(w, th, now, node, slot)
    return on_partial(w, th, now, node, slot, rpc, 0) if w[PART_WORDS] and kind >= PARTIAL else -1


@kernel
def _drop_messages_and_control(w: World, th: int, now: int, node: int, sender: int, rpc: int, reason: int) -> None:
    """Record that all parts of an RPC except its subscriptions are ignored (JUDGE-1, SHELL-8)."""
    for kind in (PUBLISH, PARTIAL, METADATA, TEST, *CONTROL):
        count = count_parts(w, rpc, kind)
        if count and (kind == PUBLISH or not has_trees(w, node)):
            ignored(w, th, now, node, sender, kind, count, reason)
    if w[HAS_EPISUB]:
        for index in range(arena(w)[rpc]):
            kind = words_at(w, part_place(rpc, index))[PART_KIND]
            if (IDONTWANT < kind < FEATURES and kind != TEST) or (kind >= IHAVE and has_trees(w, node)):
                ignored(w, th, now, node, sender, kind, 1, reason)


@inlined
def _is_filtered(w: World, node: int, topic: int) -> bool:
    """Return whether a router ignores subscriptions to a topic (SHELL-8)."""
    return w[HAS_FILTERS] != 0 and parameter(w, node, FILTERS) != 0 and not allowed(w)[router(w, node), topic]


@kernel
def _filter(w: World, th: int, now: int, node: int, sender: int, rpc: int) -> int:
    """Record the subscriptions of an RPC that the router's filter ignores; return their number (SHELL-8).

    A simulated RPC names each topic once at most, so no SUBSCRIBE and UNSUBSCRIBE cancel each other.
    """
    filtered = 0
    for index in range(arena(w)[rpc]):
        part = words_at(w, part_place(rpc, index))
        if part[PART_KIND] == SUBSCRIBE or part[PART_KIND] == UNSUBSCRIBE:
            filtered += int(_is_filtered(w, node, part[PART_TOPIC]))
    if filtered:
        ignored(w, th, now, node, sender, SUBSCRIBE, filtered, Reason.FILTERED)
    return filtered


@kernel
def _receive_subscriptions(w: World, th: int, now: int, node: int, slot: int, rpc: int) -> None:
    over = 0
    throttled = 0
    for index in range(arena(w)[rpc]):
        part = words_at(w, part_place(rpc, index))
        kind = part[PART_KIND]
        about = kind == SUBSCRIBE or kind == UNSUBSCRIBE
        if about and not _is_filtered(w, node, part[PART_TOPIC]):
            reason = on_subscription(w, th, now, node, slot, part[PART_TOPIC], kind == SUBSCRIBE)
            if w[PART_WORDS] and reason == ACCEPTED:
                note_use(w, node, slot, part[PART_TOPIC], arena(w)[rpc + part[PART_IDS]] if part[PART_IDS] else 0)
            over += int(reason == OVER_LIMIT)
            throttled += int(reason == THROTTLED)
    if over:
        ignored(w, th, now, node, peers(w)[slot], SUBSCRIBE, over, Reason.OVER_LIMIT)
    if throttled:
        ignored(w, th, now, node, peers(w)[slot], SUBSCRIBE, throttled, Reason.THROTTLED)


@kernel
def _receive_messages(w: World, th: int, now: int, node: int, sender: int, rpc: int) -> None:
    """Handle the messages of an RPC, up to a limit (SHELL-6), unless the gater ignores them."""
    count = count_parts(w, rpc, PUBLISH)
    if w[HAS_GATER] and count and is_gated(w, now, node, sender):
        ignored(w, th, now, node, sender, PUBLISH, count, Reason.GATED)
        return
    allowed = parameter(w, node, MAX_MESSAGES)
    if count > allowed:
        ignored(w, th, now, node, sender, PUBLISH, count - allowed, Reason.OVER_LIMIT)
    for index in range(arena(w)[rpc]):
        part = words_at(w, part_place(rpc, index))
        if part[PART_KIND] == PUBLISH and allowed > 0:
            allowed -= 1
            if w[HAS_EPISUB]:
                control(w)[th, NAMED_HOPS] = arena(w)[rpc + part[PART_IDS]] if part[PART_IDS] else 0
            receive(w, th, now, node, sender, part[PART_MESSAGE], part[PART_HOPS], part[PART_VIA])


@kernel
def _receive_control(w: World, th: int, now: int, node: int, slot: int, rpc: int) -> None:
    if has_trees(w, node):
        _receive_tree_parts(w, th, now, node, slot, rpc)
        return
    if w[HAS_OVERLAY]:
        _refuse_overlay_parts(w, th, now, node, peers(w)[slot], rpc)
    parts = arena(w)[rpc]
    room = parameter(w, node, MAX_CONTROL)
    if parts > room:
        for kind in CONTROL:
            count = count_parts(w, rpc, kind)
            if count > room:
                ignored(w, th, now, node, peers(w)[slot], kind, count - room, Reason.OVER_LIMIT)
            room = max(0, room - count)
        room = parameter(w, node, MAX_CONTROL)
    first = parts
    end = parts
    for index in range(parts):
        if is_control(words_at(w, part_place(rpc, index))[PART_KIND]):
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
        elif kind == PRUNE and has_mesh(w, node):
            on_prune(w, th, now, node, slot, part[PART_TOPIC], rpc + part[PART_IDS] if part[PART_IDS] else -1)
        elif kind == PRUNE:
            ignored(w, th, now, node, peers(w)[slot], PRUNE, 1, Reason.UNSUPPORTED)
    if parameter(w, node, MESH_FIRST):
        _receive_gossip(w, th, now, node, slot, rpc, first, end)
    if w[USES_12]:
        _receive_unwanted(w, th, now, node, slot, rpc, first, end)
    end_control(w, th, now, node, peers(w)[slot])


@with_episub
def _receive_tree_parts(w: World, th: int, now: int, node: int, slot: int, rpc: int) -> None:
    room = parameter(w, node, MAX_CONTROL)
    for index in range(arena(w)[rpc]):
        part = words_at(w, part_place(rpc, index))
        if part[PART_KIND] < IHAVE:
            continue
        if room > 0:
            if part[PART_KIND] > PRUNE:
                on_overlay_part(w, th, now, node, slot, rpc, part_place(rpc, index))
            else:
                topic = part[PART_TOPIC]
                ids = rpc + part[PART_IDS]
                count = part[PART_COUNT] if part[PART_IDS] else 0
                is_strange = on_tree_part(w, th, now, node, slot, part[PART_KIND], topic, ids, count)
                if is_strange and has_overlay(w, node):
                    disconnect_stranger(w, th, node, topic, peers(w)[slot])
        else:
            ignored(w, th, now, node, peers(w)[slot], part[PART_KIND], 1, Reason.OVER_LIMIT)
        room -= 1


@with_overlay
def _refuse_overlay_parts(w: World, th: int, now: int, node: int, sender: int, rpc: int) -> None:
    """Record the parts about overlays in an RPC as ignored, because the router is not episub."""
    room = parameter(w, node, MAX_CONTROL)
    for index in range(arena(w)[rpc]):
        kind = words_at(w, part_place(rpc, index))[PART_KIND]
        if IDONTWANT < kind < FEATURES and kind != TEST:
            ignored(w, th, now, node, sender, kind, 1, Reason.UNSUPPORTED if room > 0 else Reason.OVER_LIMIT)
        room -= int(kind >= IHAVE)


@kernel
def _receive_gossip(w: World, th: int, now: int, node: int, slot: int, rpc: int, first: int, end: int) -> None:
    """Handle the IHAVEs and IWANTs among the parts `first` to `end` - 1 of an RPC."""
    peer = peers(w)[slot]
    admitted = _ADMITS_IHAVE | _ADMITS_IWANT
    if uses_11(w, node):
        announced = _count_ids(w, rpc, first, end, IHAVE)
        requested = _count_ids(w, rpc, first, end, IWANT)
        admitted = _admits_gossip(w, th, now, node, peer, announced, requested)
    for index in range(first, end):
        part = words_at(w, part_place(rpc, index))
        kind = part[PART_KIND]
        if kind == IHAVE and admitted & _ADMITS_IHAVE:
            on_ihave(w, th, now, node, peer, part[PART_TOPIC], rpc + part[PART_IDS], part[PART_COUNT])
        elif kind == IWANT and admitted & _ADMITS_IWANT:
            on_iwant(w, th, now, node, slot, rpc + part[PART_IDS], part[PART_COUNT])


@with_12
def _receive_unwanted(w: World, th: int, now: int, node: int, slot: int, rpc: int, first: int, end: int) -> None:
    """Handle the IDONTWANT among the parts `first` to `end` - 1 of an RPC, which has at most one."""
    for index in range(first, end):
        part = words_at(w, part_place(rpc, index))
        if part[PART_KIND] == IDONTWANT:
            ids = rpc + part[PART_IDS]
            for place in range(accept_ids(w, th, now, node, slot, part[PART_COUNT])):
                on_unwanted(w, th, now, node, slot, arena(w)[ids + place])


@kernel
def _count_ids(w: World, rpc: int, first: int, end: int, kind: int) -> int:
    """Return the number of ids in those parts `first` to `end` - 1 of an RPC that have one kind."""
    count = 0
    for index in range(first, end):
        part = words_at(w, part_place(rpc, index))
        if part[PART_KIND] == kind:
            count += part[PART_COUNT]
    return count
