"""Entries of the outbox become RPCs: all for a neighbour in one, or one for each part (OUT-1, OUT-2)."""

from __future__ import annotations

from typing import Any

from hearsay.sim.array.machine.compiling import inlined, kernel
from hearsay.sim.array.travel.parts import (
    CLASS_SHIFT,
    FEATURES_CLASS,
    ID_MASK,
    IDS,
    IHAVE_CLASS,
    IWANT_CLASS,
    KEY,
    MESH_CLASS,
    MESSAGE_CLASS,
    SLOT,
    SUBSCRIPTION_CLASS,
    TOPIC_SHIFT,
    TREE_CLASS,
    VALUE,
    frame,
    framed_size,
    hops_from,
    is_counted_alike,
    mesh_control_bytes,
    size_alone,
    sort_entries,
    subscription_bytes,
    tree_ids,
    tree_kind,
    tree_part,
    write_features,
    write_ihave,
    write_iwant,
    write_mesh_control,
    write_message,
    write_subscription,
    write_tree_part,
)
from hearsay.sim.array.travel.sending import send_message, send_rpc, send_topic_part
from hearsay.sim.array.world.layout import (
    COALESCE,
    HAS_EPISUB,
    HAS_FEATURES,
    HAS_LINKS,
    World,
    arena,
    outbox,
)
from hearsay.sim.array.world.payload import (
    HEADER,
    MESH_CONTROL,
    PART,
    SUBSCRIBE,
    UNSUBSCRIBE,
    allocate,
    hold,
    message_part,
    names_hops,
    prune_words,
    release,
    topic_part,
)
from hearsay.sim.array.world.slots import parameter


@kernel
def send_mixed(w: World, th: int, now: int, node: int, count: int) -> None:
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
                if entries[end, KEY] >> CLASS_SHIFT != MESSAGE_CLASS:  # the first copy counts, else the last entry
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
            _send_together(w, th, now, node, slot, start, kept)
        else:
            _send_singly(w, th, now, node, slot, start, kept)
        start = end


@inlined
def _is_plain_message(w: World, node: int, entries: Any, place: int) -> bool:
    """Return whether a part is a message that fits into the two words of an event."""
    if entries[place, KEY] >> CLASS_SHIFT != MESSAGE_CLASS:
        return False
    return is_counted_alike(w, node, entries[place, KEY] & ID_MASK, entries[place, VALUE])


@inlined
def _is_about_a_topic(entries: Any, place: int) -> bool:
    """Return whether a part is a kind and a topic, and no more."""
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
    send_message(w, th, now, node, entry[SLOT], message_part(w, message, hops_from(w, node, message), entry[VALUE]))


@inlined
def _is_about_features(entries: Any, place: int) -> bool:
    return entries[place, KEY] >> CLASS_SHIFT == FEATURES_CLASS


@kernel
def _send_topic_part(w: World, th: int, now: int, node: int, place: int) -> None:
    entry = outbox(w)[th, place]
    topic = (entry[KEY] >> TOPIC_SHIFT) & ID_MASK
    if entry[KEY] >> CLASS_SHIFT == MESH_CLASS:
        part = topic_part(entry[VALUE], topic, size_alone(mesh_control_bytes(w, topic, entry[VALUE], 0)), 1)
    elif entry[KEY] >> CLASS_SHIFT == TREE_CLASS:
        topic = entry[KEY] & ID_MASK
        said = tree_part(w, th, tree_kind(entry[VALUE]), topic, 0, 0)
        part = topic_part(said.kind, topic, size_alone(said.size), said.amount)
    else:
        kind = SUBSCRIBE if entry[VALUE] else UNSUBSCRIBE
        part = topic_part(kind, topic, framed_size(subscription_bytes(w, topic, 0)), 1)
    send_topic_part(w, th, now, node, entry[SLOT], part)


@kernel
def _send_together(w: World, th: int, now: int, node: int, slot: int, start: int, end: int) -> None:
    """Send one RPC with all parts for a neighbour (OUT-1)."""
    entries = outbox(w)[th]
    parts = 0
    words = 0
    place = start
    while place < end:
        following = _part_end(entries, place, end)
        parts += 1
        words += _words_behind(w, entries, place, following)
        place = following
    rpc = allocate(w, th, HEADER + parts * PART + words)
    arena(w)[rpc] = parts
    has_features = w[HAS_FEATURES] != 0 and _is_about_features(entries, end - 1)
    end -= int(has_features)
    at = HEADER + parts * PART
    index = 0
    place = start
    while place < end and entries[place, KEY] >> CLASS_SHIFT != MESH_CLASS:
        following = _part_end(entries, place, end)
        _write_part(w, th, node, rpc, index, at, place, following)
        at += _words_behind(w, entries, place, following)
        index += 1
        place = following
    for wanted in MESH_CONTROL:
        for mesh in range(place, end):
            if entries[mesh, VALUE] == wanted:
                _write_part(w, th, node, rpc, index, at, mesh, mesh + 1)
                at += _words_behind(w, entries, mesh, mesh + 1)
                index += 1
    if has_features:
        write_features(w, rpc, index, entries[end, VALUE])
    _send_framed(w, th, now, node, slot, rpc)


@kernel
def _send_singly(w: World, th: int, now: int, node: int, slot: int, start: int, end: int) -> None:
    """Send an RPC for every part for a neighbour: extensions first, then the order of `_send_together` (OUT-2)."""
    entries = outbox(w)[th]
    if w[HAS_FEATURES] and _is_about_features(entries, end - 1):
        end -= 1
        _send_part(w, th, now, node, slot, end, end + 1)
    place = start
    while place < end and entries[place, KEY] >> CLASS_SHIFT != MESH_CLASS:
        following = _part_end(entries, place, end)
        if _is_plain_message(w, node, entries, place):
            _send_message(w, th, now, node, place)
        else:
            _send_part(w, th, now, node, slot, place, following)
        place = following
    for wanted in MESH_CONTROL:
        for mesh in range(place, end):
            if entries[mesh, VALUE] == wanted:
                _send_part(w, th, now, node, slot, mesh, mesh + 1)


@kernel
def _part_end(entries: Any, place: int, end: int) -> Any:
    """Return the end of the entries of one part: all ids requested of a neighbour form one IWANT."""
    following = place + 1
    if entries[place, KEY] >> CLASS_SHIFT == IWANT_CLASS:
        while following < end and entries[following, KEY] >> CLASS_SHIFT == IWANT_CLASS:
            following += 1
    return following


@kernel
def _words_behind(w: World, entries: Any, place: int, following: int) -> Any:
    """Return how many words a part needs in addition to its eight: ids, or the content in place of ids."""
    part_class = entries[place, KEY] >> CLASS_SHIFT
    if part_class == IHAVE_CLASS:
        return entries[place, VALUE]
    if part_class == IWANT_CLASS:
        return following - place
    if part_class == SUBSCRIPTION_CLASS:
        return int(entries[place, VALUE] >> 1 != 0)
    if w[HAS_EPISUB] and part_class == TREE_CLASS:
        return tree_ids(entries[place, VALUE])
    if w[HAS_EPISUB] and part_class == MESSAGE_CLASS:
        return int(names_hops(entries[place, VALUE]))
    return prune_words(w, entries[place, IDS]) if part_class == MESH_CLASS else 0


@kernel
def _write_part(w: World, th: int, node: int, rpc: int, index: int, at: int, place: int, following: int) -> None:
    entry = outbox(w)[th, place]
    part_class = entry[KEY] >> CLASS_SHIFT
    topic = (entry[KEY] >> TOPIC_SHIFT) & ID_MASK
    if part_class == SUBSCRIPTION_CLASS:
        write_subscription(w, rpc, index, at, topic, entry[VALUE])
    elif w[HAS_FEATURES] and part_class == FEATURES_CLASS:
        write_features(w, rpc, index, entry[VALUE])
    elif part_class == MESSAGE_CLASS:
        write_message(w, node, rpc, index, at, entry[KEY] & ID_MASK, entry[VALUE])
    elif w[HAS_EPISUB] and part_class == TREE_CLASS:
        write_tree_part(w, th, rpc, index, at, entry[KEY] & ID_MASK, entry[VALUE], entry[IDS])
    elif part_class == IHAVE_CLASS:
        write_ihave(w, th, rpc, index, at, topic, entry[IDS], entry[VALUE])
    elif part_class == IWANT_CLASS:
        write_iwant(w, th, rpc, index, at, place, following - place)
    else:
        write_mesh_control(w, th, rpc, index, at, topic, entry[VALUE], entry[IDS])


@kernel
def _send_part(w: World, th: int, now: int, node: int, slot: int, place: int, following: int) -> None:
    rpc = allocate(w, th, HEADER + PART + _words_behind(w, outbox(w)[th], place, following))
    arena(w)[rpc] = 1
    _write_part(w, th, node, rpc, 0, HEADER + PART, place, following)
    _send_framed(w, th, now, node, slot, rpc)


@kernel
def _send_framed(w: World, th: int, now: int, node: int, slot: int, rpc: int) -> None:
    frame(w, rpc)
    hold(w, th, rpc)
    send_rpc(w, th, now, node, slot, rpc)
    release(w, th, rpc)
