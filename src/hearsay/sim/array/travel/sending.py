"""Kernels that make RPCs from the entries of the outbox, and send RPCs to neighbours.

A neighbour gets one RPC, or one RPC for each part (OUT-1, OUT-2). If links need no memory of their own
(`world/slots.py`), an RPC that fits into an event is not written into the arena.
"""

from __future__ import annotations

from typing import Any

from hearsay.core.language.actions import Reason
from hearsay.core.language.events import EventKind
from hearsay.sim.array.compiling import inlined, kernel
from hearsay.sim.array.travel.parts import (
    CLASS_SHIFT,
    FEATURES_CLASS,
    ID_MASK,
    IDS,
    IWANT_CLASS,
    KEY,
    MESH_CLASS,
    MESSAGE_CLASS,
    SLOT,
    SUBSCRIPTION_CLASS,
    TREE_CLASS,
    VALUE,
    add_framing,
    entry_part,
    extra_words,
    framed_control_bytes,
    framed_size,
    has_one_hop_count,
    hops_from,
    sort_entries,
    tree_ids,
    write_entries,
)
from hearsay.sim.array.travel.transport import (
    MAX_INLINE_HOPS,
    arrival_on_link,
    has_room,
    is_lost,
    link_to,
    next_sequence,
    post,
    reserve_uplink,
    transmit,
)
from hearsay.sim.array.travel.uplink import has_queue, queue_up
from hearsay.sim.array.world.layout import (
    COALESCE,
    HAS_FEATURES,
    HAS_LINKS,
    HAS_LOSS,
    World,
    arena,
    bytes_out,
    outbox,
    peers,
)
from hearsay.sim.array.world.payload import (
    HEADER,
    MESH_CONTROL,
    PART,
    Part,
    allocate,
    hold,
    is_control,
    message_part,
    names_hops,
    part_at,
    release,
    rpc_bytes,
    topic_part,
    write_part,
)
from hearsay.sim.array.world.queue import INLINE, push, topic_payload
from hearsay.sim.array.world.record import Hash, dropped, sending, sent
from hearsay.sim.array.world.slots import latency, parameter


@inlined
def send_in_event(
    w: World, th: int, now: int, node: int, slot: int, part: Part, payload: int, via: int, hops: int, common: Hash
) -> None:
    """Send a copy of an RPC that fits into the two words of an event, in a run whose links need no memory.

    `common` is what `record.sending` returned for the part.
    """
    peer = peers(w)[slot]
    delay = latency(w, node, peer)
    sent(w, th, now, node, peer, part, delay, common)
    post(w, th, now + delay, peer, node, payload, slot, via, hops)


@inlined
def send_copy(w: World, th: int, now: int, node: int, slot: int, part: Part, common: Hash) -> int:
    """Send a copy of a message to a neighbour; return the number of bytes that the caller must add to `bytes_out`.

    The number is 0 if the copy is refused, or if another kernel adds its bytes. `part.hops` are the hops of the copy
    when it arrives.
    """
    if w[HAS_LINKS] or part.hops > MAX_INLINE_HOPS:
        return _send_over_link(w, th, now, node, slot, part, common)
    send_in_event(w, th, now, node, slot, part, INLINE | part.message, part.via, part.hops, common)
    return part.size


@kernel
def _send_over_link(w: World, th: int, now: int, node: int, slot: int, part: Part, common: Hash) -> int:
    if has_queue(w, node):
        rpc = _new_message_rpc(w, th, part)
        send_rpc(w, th, now, node, slot, rpc)
        release(w, th, rpc)
        return 0
    link = link_to(w, slot)
    peer = peers(w)[slot]
    if not has_room(w, node, part.size, now):
        dropped(w, th, now, node, peer, part, Reason.QUEUE_FULL)
        push(w, th, now, node, EventKind.SEND_FAILED, peer, INLINE | part.message, link)
        return 0
    sequence = next_sequence(w, link)
    arrival = arrival_on_link(w, node, peer, link, sequence, reserve_uplink(w, node, part.size, now))
    sent(w, th, now, node, peer, part, arrival - now, common)
    if w[HAS_LOSS] and is_lost(w, node, peer, sequence, 0):
        dropped(w, th, arrival, node, peer, part, Reason.LOST)
    elif part.hops <= MAX_INLINE_HOPS:
        post(w, th, arrival, peer, node, INLINE | part.message, link, part.via, part.hops)
    else:
        post(w, th, arrival, peer, node, _new_message_rpc(w, th, part), link, -1, 0)
    return part.size


@kernel
def _new_message_rpc(w: World, th: int, part: Part) -> int:
    """Allocate and hold an RPC with one message; return its index in the arena."""
    rpc = allocate(w, th, HEADER + PART + 1)
    arena(w)[rpc] = 1
    write_part(w, rpc, 0, part, HEADER + PART if names_hops(part.via) else 0)
    arena(w)[rpc + HEADER + PART] = part.hops
    hold(w, th, rpc)
    return rpc


@kernel
def send_rpc(w: World, th: int, now: int, node: int, slot: int, rpc: int) -> None:
    """Send a copy of an RPC in the arena to a neighbour. The caller must hold the RPC (`payload.hold`).

    If the queue of the node's uplink has no room, refuse the RPC instead, and queue an event SEND_FAILED.
    """
    link = link_to(w, slot)
    peer = peers(w)[slot]
    size = rpc_bytes(w, rpc)
    if not has_room(w, node, size, now):
        for index in range(arena(w)[rpc]):
            dropped(w, th, now, node, peer, part_at(w, rpc, index), Reason.QUEUE_FULL)
        hold(w, th, rpc)
        push(w, th, now, node, EventKind.SEND_FAILED, peer, rpc, link)
        return
    leaves = reserve_uplink(w, node, size, now)
    sequence = next_sequence(w, link)
    if has_queue(w, node):
        queue_up(w, th, now, node, link, rpc, sequence)
    else:
        transmit(w, th, now, arrival_on_link(w, node, peer, link, sequence, leaves), link, node, peer, rpc, sequence)


@kernel
def send_framed(w: World, th: int, now: int, node: int, slot: int, rpc: int) -> None:
    """Add the bytes of the framing to a new RPC in the arena, and send the RPC to one neighbour."""
    add_framing(w, rpc)
    hold(w, th, rpc)
    send_rpc(w, th, now, node, slot, rpc)
    release(w, th, rpc)


@kernel
def send_entries(w: World, th: int, now: int, node: int, count: int) -> None:
    """Send the parts of the first `count` entries: each neighbour's parts in one RPC, or each part in one RPC."""
    entries = outbox(w)[th]
    sort_entries(entries, count)
    coalesce = parameter(w, node, COALESCE)
    start = 0
    while start < count:
        slot = entries[start, SLOT]
        end = start
        kept = start
        while end < count and entries[end, SLOT] == slot:
            if kept > start and entries[kept - 1, KEY] == entries[end, KEY]:
                # If keys are equal, the first message remains, or the last part of another class.
                if entries[end, KEY] >> CLASS_SHIFT != MESSAGE_CLASS:
                    entries[kept - 1, VALUE] = entries[end, VALUE]
                    entries[kept - 1, IDS] = entries[end, IDS]
            else:
                for field in range(4):
                    entries[kept, field] = entries[end, field]
                kept += 1
            end += 1
        if kept == start + 1 and _is_plain_message(w, node, entries, start):
            _send_message(w, th, now, node, start)
        elif kept == start + 1 and not w[HAS_LINKS] and _is_about_a_topic(entries, start):
            _send_topic_part(w, th, now, node, start)
        elif coalesce:
            _send_in_one_rpc(w, th, now, node, slot, start, kept)
        else:
            _send_each_in_an_rpc(w, th, now, node, slot, start, kept)
        start = end


@inlined
def _is_plain_message(w: World, node: int, entries: Any, place: int) -> bool:
    """Return whether an entry is a message that `send_copy` can send: its copy needs at most one number of hops."""
    is_message = entries[place, KEY] >> CLASS_SHIFT == MESSAGE_CLASS
    return is_message and has_one_hop_count(w, node, entries[place, KEY] & ID_MASK, entries[place, VALUE])


@inlined
def _is_about_a_topic(entries: Any, place: int) -> bool:
    """Return whether the part of an entry has nothing but a kind and a topic."""
    part_class = entries[place, KEY] >> CLASS_SHIFT
    if part_class == TREE_CLASS:
        return tree_ids(entries[place, VALUE]) == 0
    if part_class == SUBSCRIPTION_CLASS:
        return entries[place, VALUE] >> 1 == 0
    return part_class == MESH_CLASS and entries[place, IDS] == 0


@kernel
def _send_message(w: World, th: int, now: int, node: int, place: int) -> None:
    entry = outbox(w)[th, place]
    message = entry[KEY] & ID_MASK
    part = message_part(w, message, hops_from(w, node, message), entry[VALUE])
    size = send_copy(w, th, now, node, entry[SLOT], part, sending(w, now, node, part))
    bytes_out(w)[node] += size  # two statements, because `send_copy` may also change `bytes_out`


@kernel
def _send_topic_part(w: World, th: int, now: int, node: int, place: int) -> None:
    bare = entry_part(w, th, node, place, 1)
    size = framed_control_bytes(bare.size) if is_control(bare.kind) else framed_size(bare.size)
    part = topic_part(bare.kind, bare.topic, size, bare.amount)
    payload = topic_payload(part.kind, part.topic)
    bytes_out(w)[node] += size
    slot = outbox(w)[th, place, SLOT]
    send_in_event(w, th, now, node, slot, part, payload, -1, 0, sending(w, now, node, part))


@kernel
def _send_in_one_rpc(w: World, th: int, now: int, node: int, slot: int, start: int, end: int) -> None:
    """Send one RPC with all parts for a neighbour: the entries from `start` to `end` - 1 (OUT-1)."""
    entries = outbox(w)[th]
    parts = 0
    words = 0
    place = start
    while place < end:
        following = _part_end(entries, place, end)
        parts += 1
        words += extra_words(w, entries, place, following)
        place = following
    rpc = allocate(w, th, HEADER + parts * PART + words)
    arena(w)[rpc] = parts
    has_features = w[HAS_FEATURES] != 0 and entries[end - 1, KEY] >> CLASS_SHIFT == FEATURES_CLASS
    end -= int(has_features)
    at = HEADER + parts * PART
    index = 0
    place = start
    while place < end and entries[place, KEY] >> CLASS_SHIFT != MESH_CLASS:
        following = _part_end(entries, place, end)
        at = write_entries(w, th, node, rpc, index, at, place, following)
        index += 1
        place = following
    for wanted in MESH_CONTROL:
        for mesh in range(place, end):
            if entries[mesh, VALUE] == wanted:
                at = write_entries(w, th, node, rpc, index, at, mesh, mesh + 1)
                index += 1
    if has_features:
        write_entries(w, th, node, rpc, index, at, end, end + 1)
    send_framed(w, th, now, node, slot, rpc)


@kernel
def _send_each_in_an_rpc(w: World, th: int, now: int, node: int, slot: int, start: int, end: int) -> None:
    """Send an RPC for each part to a neighbour: first the extensions, then all other parts in the order of
    `_send_in_one_rpc` (OUT-2)."""
    entries = outbox(w)[th]
    if w[HAS_FEATURES] and entries[end - 1, KEY] >> CLASS_SHIFT == FEATURES_CLASS:
        end -= 1
        send_framed(w, th, now, node, slot, new_part_rpc(w, th, node, end, end + 1))
    place = start
    while place < end and entries[place, KEY] >> CLASS_SHIFT != MESH_CLASS:
        following = _part_end(entries, place, end)
        if _is_plain_message(w, node, entries, place):
            _send_message(w, th, now, node, place)
        else:
            send_framed(w, th, now, node, slot, new_part_rpc(w, th, node, place, following))
        place = following
    for wanted in MESH_CONTROL:
        for mesh in range(place, end):
            if entries[mesh, VALUE] == wanted:
                send_framed(w, th, now, node, slot, new_part_rpc(w, th, node, mesh, mesh + 1))


@kernel
def _part_end(entries: Any, place: int, end: int) -> Any:
    """Return the end of the entries of the part that begins at `place`. All ids that the node requests of a neighbour
    form one IWANT."""
    following = place + 1
    if entries[place, KEY] >> CLASS_SHIFT == IWANT_CLASS:
        while following < end and entries[following, KEY] >> CLASS_SHIFT == IWANT_CLASS:
            following += 1
    return following


@kernel
def new_part_rpc(w: World, th: int, node: int, place: int, following: int) -> int:
    """Allocate and return an RPC with only the part of the entries from `place` to `following` - 1. The caller adds
    the framing."""
    rpc = allocate(w, th, HEADER + PART + extra_words(w, outbox(w)[th], place, following))
    arena(w)[rpc] = 1
    write_entries(w, th, node, rpc, 0, HEADER + PART, place, following)
    return rpc
