"""Received RPCs, the kernels of `core.shell.router`: RPCs in the arena, and RPCs of one part that fit into their
event."""

from __future__ import annotations

from hearsay.core.language.actions import Reason
from hearsay.core.language.events import EventKind
from hearsay.sim.array.episub.alarms import (
    has_overlay,
    has_trees,
    with_episub,
    with_overlay,
)
from hearsay.sim.array.episub.links import claimed_as_neighbour
from hearsay.sim.array.episub.received import on_overlay_part
from hearsay.sim.array.episub.tree import on_tree_part
from hearsay.sim.array.machine.compiling import inlined, kernel
from hearsay.sim.array.rules.applications import receive_parts
from hearsay.sim.array.rules.calls import count_parts, end
from hearsay.sim.array.rules.checks import note_received
from hearsay.sim.array.rules.direct import is_direct
from hearsay.sim.array.rules.features import note_features, note_use, on_test, part_of_features
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
from hearsay.sim.array.rules.notes import (
    note_gossip,
    note_message,
    note_rpc,
    note_topic_part,
    note_unwanted,
)
from hearsay.sim.array.rules.partials import on_partial
from hearsay.sim.array.rules.promises import (
    admits_ihave,
    admits_iwant,
    control_handled,
    is_gated,
    trusts_gossip_of,
    uses_11,
)
from hearsay.sim.array.rules.scores import has_scores, is_graylisted
from hearsay.sim.array.rules.unwanted import (
    accepted_of,
    heed,
    part_of_12,
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
    USES_12,
    World,
    allowed,
    arena,
    control,
    counts,
    messages,
    peers,
    scratch,
    words_at,
)
from hearsay.sim.array.world.payload import (
    CONTROL,
    FEATURES,
    GRAFT,
    IDONTWANT,
    IHAVE,
    IWANT,
    METADATA,
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
    names_hops,
    part_place,
)
from hearsay.sim.array.world.record import EVENTS, ignored, is_witness, received
from hearsay.sim.array.world.slots import find_slot, parameter, router


@kernel
def call_message(w: World, th: int, now: int, node: int, sender: int, message: int, hops: int, via: int) -> None:
    """Handle an RPC that is one message."""
    counts(w)[th, EVENTS] += 1
    received(w, th, PUBLISH, 1)
    if is_witness(w, node):
        note_message(w, th, now, node, sender, message, hops, via)
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
    end(w, th, now, node)


@kernel
def call_gossip(w: World, th: int, now: int, node: int, sender: int, first: int, others: int) -> None:
    """Handle an RPC that is one IHAVE; `others` has a bit for each message after the first."""
    counts(w)[th, EVENTS] += 1
    received(w, th, IHAVE, 1)
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
    note_features(w, th, now, node, sender, False)
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
    end(w, th, now, node)


_ADMITS_IHAVE, _ADMITS_IWANT = 1, 2


@kernel
def _admits_gossip(w: World, th: int, now: int, node: int, sender: int, announced: int, requested: int) -> int:
    """Return bits: whether the router handles the IHAVEs of an RPC, and its IWANTs. Record the ids that it ignores.

    `announced` and `requested` are the numbers of ids in the IHAVEs and in the IWANTs.
    """
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
    received(w, th, kind, 1)
    if is_witness(w, node):
        note_topic_part(w, th, now, node, sender, topic, kind)
    note_features(w, th, now, node, sender, False)
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
        else:
            note_use(w, node, slot, topic, 0)
    elif parameter(w, node, MAX_CONTROL) < 1:
        ignored(w, th, now, node, sender, kind, 1, Reason.OVER_LIMIT)
    elif has_trees(w, node):
        _on_tree_part(w, th, now, node, slot, kind, topic, 0, 0)
    elif kind == GRAFT:
        on_graft(w, th, now, node, slot, topic)
    else:
        _on_prune(w, th, now, node, slot, topic, -1)
    control_handled(w, th, now, node, sender)
    end(w, th, now, node)


@part_of_12
def call_unwanted(w: World, th: int, now: int, node: int, sender: int, message: int) -> None:
    """Handle an RPC that is one IDONTWANT of one message."""
    counts(w)[th, EVENTS] += 1
    received(w, th, IDONTWANT, 1)
    if is_witness(w, node):
        note_unwanted(w, th, now, node, sender, message)
    note_features(w, th, now, node, sender, False)
    slot = find_slot(w, node, sender)
    if is_graylisted(w, now, node, slot):
        ignored(w, th, now, node, sender, IDONTWANT, 1, Reason.GRAYLISTED)
    elif parameter(w, node, MAX_CONTROL) < 1:
        ignored(w, th, now, node, sender, IDONTWANT, 1, Reason.OVER_LIMIT)
    elif accepted_of(w, th, now, node, slot, 1):
        heed(w, th, now, node, slot, message)
    control_handled(w, th, now, node, sender)
    end(w, th, now, node)


@kernel
def call_rpc(w: World, th: int, now: int, node: int, sender: int, rpc: int) -> None:
    """Handle an RPC that lies in the arena (SHELL-3, SHELL-8)."""
    counts(w)[th, EVENTS] += 1
    if is_witness(w, node):
        note_rpc(w, th, now, node, EventKind.RPC_RECEIVED, sender, rpc)
    slot = find_slot(w, node, sender)
    parts = arena(w)[rpc]
    note_received(w, th, slot, rpc)
    changes = count_parts(w, rpc, parts, SUBSCRIBE) + count_parts(w, rpc, parts, UNSUBSCRIBE)
    over = 0 < parameter(w, node, MAX_CHANGES) < changes
    if w[HAS_FILTERS] and changes and not over:
        changes -= _filter(w, th, now, node, sender, rpc, parts)
    is_refused = over or is_graylisted(w, now, node, slot)
    note_features(w, th, now, node, sender, not is_refused and count_parts(w, rpc, parts, FEATURES) > 0)
    content = -1
    if over:
        ignored(w, th, now, node, sender, SUBSCRIBE, changes, Reason.OVER_LIMIT)
        _drop_messages_and_control(w, th, now, node, sender, rpc, parts, Reason.OVER_LIMIT)
    elif is_refused:
        _drop_messages_and_control(w, th, now, node, sender, rpc, parts, Reason.GRAYLISTED)
        if parameter(w, node, GRAYLISTED_SUBSCRIBE):
            _receive_subscriptions(w, th, now, node, slot, rpc, parts)
        elif changes:
            ignored(w, th, now, node, sender, SUBSCRIBE, changes, Reason.GRAYLISTED)
    else:
        _receive_subscriptions(w, th, now, node, slot, rpc, parts)
        _receive_messages(w, th, now, node, sender, rpc, parts)
        if w[HAS_FEATURES]:
            content = _receive_alone(w, th, now, node, slot, rpc)
        _receive_control(w, th, now, node, slot, rpc, parts)
    end(w, th, now, node)
    if w[PART_WORDS] and content >= 0:
        receive_parts(w, th, now, node, slot, content)


@part_of_features
def _receive_alone(w: World, th: int, now: int, node: int, slot: int, rpc: int) -> int:
    """Handle a partial message or a test message, if the RPC has one: it is the only part then.

    Return the index in the arena of the content of an accepted partial message, otherwise -1.
    """
    kind = words_at(w, part_place(rpc, 0))[PART_KIND]
    if kind == TEST:
        on_test(w, th, now, node, slot)
    return on_partial(w, th, now, node, slot, rpc, 0) if w[PART_WORDS] and kind >= PARTIAL else -1


@kernel
def _drop_messages_and_control(
    w: World, th: int, now: int, node: int, sender: int, rpc: int, parts: int, reason: int
) -> None:  # fmt: skip
    """Record that all parts of an RPC except its subscriptions are ignored (JUDGE-1, SHELL-8)."""
    for kind in (PUBLISH, PARTIAL, METADATA, TEST, *CONTROL):
        count = count_parts(w, rpc, parts, kind)
        if count and (kind == PUBLISH or not has_trees(w, node)):
            ignored(w, th, now, node, sender, kind, count, reason)
    if w[HAS_EPISUB]:
        for index in range(parts):
            kind = words_at(w, part_place(rpc, index))[PART_KIND]
            if (IDONTWANT < kind < FEATURES and kind != TEST) or (kind >= IHAVE and has_trees(w, node)):
                ignored(w, th, now, node, sender, kind, 1, reason)


@inlined
def _is_filtered(w: World, node: int, topic: int) -> bool:
    """Return whether a router ignores subscriptions to a topic (SHELL-8)."""
    return w[HAS_FILTERS] != 0 and parameter(w, node, FILTERS) != 0 and not allowed(w)[router(w, node), topic]


@kernel
def _filter(w: World, th: int, now: int, node: int, sender: int, rpc: int, parts: int) -> int:
    """Record the subscriptions of an RPC that the router's filter ignores; return their number (SHELL-8).

    A simulated RPC names each topic once at most, so no SUBSCRIBE and UNSUBSCRIBE cancel each other.
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
            if w[PART_WORDS] and reason == ACCEPTED:
                note_use(w, node, slot, part[PART_TOPIC], arena(w)[rpc + part[PART_IDS]] if part[PART_IDS] else 0)
            over += int(reason == OVER_LIMIT)
            throttled += int(reason == THROTTLED)
    if over:
        ignored(w, th, now, node, peers(w)[slot], SUBSCRIBE, over, Reason.OVER_LIMIT)
    if throttled:
        ignored(w, th, now, node, peers(w)[slot], SUBSCRIBE, throttled, Reason.THROTTLED)


@kernel
def _receive_messages(w: World, th: int, now: int, node: int, sender: int, rpc: int, parts: int) -> None:
    """Handle the messages of an RPC, up to a limit (SHELL-6)."""
    count = count_parts(w, rpc, parts, PUBLISH)
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
def _receive_control(w: World, th: int, now: int, node: int, slot: int, rpc: int, parts: int) -> None:
    room = parameter(w, node, MAX_CONTROL)
    if has_trees(w, node):
        _receive_tree_parts(w, th, now, node, slot, rpc, parts, room)
        return
    if w[HAS_OVERLAY]:
        _refuse_overlay_parts(w, th, now, node, peers(w)[slot], rpc, parts, room)
    if parts > room:
        for kind in CONTROL:
            count = count_parts(w, rpc, parts, kind)
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
    """Record the parts of episub in an RPC as ignored, because the router is not episub."""
    for index in range(parts):
        kind = words_at(w, part_place(rpc, index))[PART_KIND]
        if IDONTWANT < kind < FEATURES and kind != TEST:
            ignored(w, th, now, node, sender, kind, 1, Reason.UNSUPPORTED if room > 0 else Reason.OVER_LIMIT)
        room -= int(kind >= IHAVE)


@kernel
def _receive_gossip(w: World, th: int, now: int, node: int, slot: int, rpc: int, first: int, end: int) -> None:
    """Handle the IHAVEs and IWANTs among the parts `first` to `end` of an RPC."""
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
    """Handle the IDONTWANT among the parts `first` to `end` of an RPC; there is one at most."""
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
