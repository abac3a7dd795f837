"""The outbox of the router at work: what it wants to send, packed at the end of the call (`core.shell.outbox`).

Layout: most calls send one message, or one topic's gossip, to a few neighbours; then `outbox` is a list of slots and
`control` says what goes there (OUT_MODE). Anything else is a line per part: slot, key, value, place of the ids. The
key is class, topic and message, so that sorting by slot and key is the order in which parts stand in RPCs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hearsay.core.language import lengths
from hearsay.core.language.lengths import SIMULATED_ID_FIELD, SIMULATED_PEER_INFO
from hearsay.sim.array.machine.compiling import inlined, kernel, shared
from hearsay.sim.array.travel.transport import (
    ask_for_links,
    message_hash,
    send_copy,
    send_gossip,
    send_message,
    send_rpc,
    send_topic_part,
)
from hearsay.sim.array.world.knowledge import column
from hearsay.sim.array.world.layout import (
    COALESCE,
    HAS_LINKS,
    HOPS,
    MESSAGE_PART_BYTES,
    PUBLISHER,
    STATUS,
    TOPIC,
    TOPIC_LENGTH,
    World,
    arena,
    bytes_out,
    cells,
    control,
    messages,
    outbox,
    peers,
    scratch,
    topics,
    words_at,
)
from hearsay.sim.array.world.payload import (
    CONTROL,
    GRAFT,
    HEADER,
    IHAVE,
    IWANT,
    MESH_CONTROL,
    PART,
    PART_BYTES,
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
    allocate,
    hold,
    part_place,
    release,
)
from hearsay.sim.array.world.queue import (
    GOSSIP_SPAN,
    OUT_COUNT,
    OUT_MESSAGE,
    OUT_MODE,
    OUT_TOPIC,
    OUT_VIA,
    OUTBOX_FULL,
    SCRATCH_USED,
)
from hearsay.sim.array.world.record import sending
from hearsay.sim.array.world.routers import parameter

EMPTY, ONE_MESSAGE, ONE_IHAVE, MIXED = range(4)
_SLOT, _KEY, _VALUE, _IDS = range(4)
_CLASS, _TOPIC = 58, 29
_ID = (1 << 29) - 1
_SUBSCRIPTIONS, _MESSAGES = range(2)
_IHAVES, _WANTED, _MESH = (2 + CONTROL.index(kind) for kind in (IHAVE, IWANT, MESH_CONTROL[0]))
_OTHERS = 10
"""Bits for how many others a PRUNE names."""

field_size = shared(lengths.field_size)
subscription_size = shared(lengths.subscription_size)
ihave_size = shared(lengths.ihave_size)
iwant_size = shared(lengths.iwant_size)
graft_size = shared(lengths.graft_size)
prune_size = shared(lengths.prune_size)
rpc_size_of_parts = shared(lengths.rpc_size_of_parts)
framed_size = shared(lengths.framed_size)


@kernel
def hops_from(w: World, node: int, message: int) -> Any:
    """How far a copy will have come that the node sends."""
    return np.int64(cells(w)[node, column(w, message)] >> np.uint64(HOPS)) + 1


@kernel
def _put(w: World, th: int, slot: int, key: int, value: int, ids: int) -> None:
    line = control(w)[th]
    place = line[OUT_COUNT]
    entries = outbox(w)[th]
    if 2 * place >= entries.shape[0]:
        w[STATUS] = OUTBOX_FULL
        return
    line[OUT_COUNT] = place + 1
    entries[place, _SLOT] = slot
    entries[place, _KEY] = key
    entries[place, _VALUE] = value
    entries[place, _IDS] = ids


@kernel
def _mix_in(w: World, th: int) -> None:
    """Give up the short form."""
    line = control(w)[th]
    mode = line[OUT_MODE]
    if mode == MIXED:
        return
    entries = outbox(w)[th]
    for place in range(line[OUT_COUNT]):
        if mode == ONE_MESSAGE:
            entries[place, _KEY] = _message_key(w, line[OUT_MESSAGE])
            entries[place, _VALUE] = line[OUT_VIA]
        else:
            entries[place, _KEY] = _IHAVES << _CLASS | line[OUT_TOPIC] << _TOPIC
            entries[place, _VALUE] = line[OUT_VIA]
            entries[place, _IDS] = line[OUT_MESSAGE]
    line[OUT_MODE] = MIXED


@kernel
def _message_key(w: World, message: int) -> int:
    return _MESSAGES << _CLASS | messages(w)[message, TOPIC] << _TOPIC | message


@kernel
def begin_message(w: World, th: int, message: int, via: int) -> bool:
    """Before slots are named for a message: whether the short form will do."""
    line = control(w)[th]
    if line[OUT_COUNT]:
        _mix_in(w, th)
        return False
    line[OUT_MODE] = ONE_MESSAGE
    line[OUT_MESSAGE] = message
    line[OUT_VIA] = via
    return True


@kernel
def put_message(w: World, th: int, slot: int, message: int, via: int, short: bool) -> None:
    """A message for a neighbour; `short` is what `begin_message` said."""
    if short:
        line = control(w)[th]
        outbox(w)[th, line[OUT_COUNT], _SLOT] = slot
        line[OUT_COUNT] += 1
    else:
        _put(w, th, slot, _message_key(w, message), via, 0)


@kernel
def forward_one(w: World, th: int, slot: int, message: int, via: int, came_from: int, short: bool) -> None:
    """A message for a neighbour, unless it came from there or was written there."""
    peer = peers(w)[slot]
    if peer != came_from and peer != messages(w)[message, PUBLISHER]:
        put_message(w, th, slot, message, via, short)


@kernel
def answer(w: World, th: int, slot: int, message: int, via: int) -> None:
    _mix_in(w, th)
    _put(w, th, slot, _message_key(w, message), via, 0)


@kernel
def begin_ihave(w: World, th: int, topic: int, ids: int, count: int) -> bool:
    """Before slots are named for one topic's gossip, whose ids lie in `scratch`."""
    line = control(w)[th]
    if line[OUT_COUNT]:
        _mix_in(w, th)
        return False
    line[OUT_MODE] = ONE_IHAVE
    line[OUT_TOPIC] = topic
    line[OUT_MESSAGE] = ids
    line[OUT_VIA] = count
    return True


@kernel
def put_ihave(w: World, th: int, slot: int, topic: int, ids: int, count: int, short: bool) -> None:
    if short:
        line = control(w)[th]
        outbox(w)[th, line[OUT_COUNT], _SLOT] = slot
        line[OUT_COUNT] += 1
    else:
        _put(w, th, slot, _IHAVES << _CLASS | topic << _TOPIC, count, ids)


@kernel
def put_subscription(w: World, th: int, slot: int, topic: int, subscribe: bool) -> None:
    _mix_in(w, th)
    _put(w, th, slot, _SUBSCRIPTIONS << _CLASS | topic << _TOPIC, 1 if subscribe else 0, 0)


@kernel
def put_wanted(w: World, th: int, slot: int, message: int) -> None:
    _mix_in(w, th)
    _put(w, th, slot, _WANTED << _CLASS | message, 0, 0)


@kernel
def put_graft(w: World, th: int, slot: int, topic: int) -> None:
    _mix_in(w, th)
    _put(w, th, slot, _MESH << _CLASS | topic << _TOPIC, GRAFT, 0)


@kernel
def put_prune(w: World, th: int, slot: int, topic: int, told: int) -> None:
    """`told` is what it says beside the topic, see `told_in_prune`; 0 for nothing."""
    _mix_in(w, th)
    _put(w, th, slot, _MESH << _CLASS | topic << _TOPIC, PRUNE, told)


@inlined
def told_in_prune(seconds: int, others: int) -> int:
    """A backoff, and how many others it names; who they are changes nothing, because nobody dials them."""
    return seconds << _OTHERS | others


@inlined
def told_seconds(told: int) -> int:
    return told >> _OTHERS


@kernel
def is_addressed(w: World, th: int, slot: int) -> bool:
    """Whether something goes to this neighbour already."""
    entries = outbox(w)[th]
    for place in range(control(w)[th, OUT_COUNT]):
        if entries[place, _SLOT] == slot:
            return True
    return False


@kernel
def flush(w: World, th: int, now: int, node: int) -> None:
    """Send all that is there."""
    line = control(w)[th]
    count = line[OUT_COUNT]
    mode = line[OUT_MODE]
    line[OUT_COUNT] = 0
    line[OUT_MODE] = EMPTY
    if count:
        entries = outbox(w)[th]
        if w[HAS_LINKS] and mode != MIXED:
            ask_for_links(w, th, count)
        if mode == ONE_MESSAGE:
            message = line[OUT_MESSAGE]
            via = line[OUT_VIA]
            hops = hops_from(w, node, message)
            upper, lower = message_hash(w, now, node, message, hops, via)
            left = 0
            for place in range(count):
                left += send_copy(w, th, now, node, entries[place, _SLOT], message, hops, via, upper, lower)
            bytes_out(w)[node] += left
        elif mode == ONE_IHAVE and _is_short(w, th, line[OUT_MESSAGE], line[OUT_VIA]):
            _send_gossip(w, th, now, node, count, line[OUT_TOPIC], line[OUT_MESSAGE], line[OUT_VIA])
        elif mode == ONE_IHAVE:
            rpc = _ihave_alone(w, th, line[OUT_TOPIC], line[OUT_MESSAGE], line[OUT_VIA])
            hold(w, th, rpc)
            for place in range(count):
                send_rpc(w, th, now, node, entries[place, _SLOT], rpc)
            release(w, th, rpc)
        else:
            _flush_mixed(w, th, now, node, count)
    line[SCRATCH_USED] = 0


@kernel
def _is_short(w: World, th: int, ids: int, count: int) -> bool:
    """Whether gossip fits into the queue."""
    known = scratch(w)[th]
    return not w[HAS_LINKS] and known[ids + count - 1] - known[ids] <= GOSSIP_SPAN


@kernel
def _send_gossip(w: World, th: int, now: int, node: int, copies: int, topic: int, ids: int, count: int) -> None:
    known = scratch(w)[th]
    first = known[ids]
    others = 0
    for place in range(ids + 1, ids + count):
        others |= 1 << (known[place] - first - 1)
    size = _alone(_ihave_size(w, topic, count))
    upper, lower = sending(w, now, IHAVE, node, topic, -1, -1, size, count, -1)
    entries = outbox(w)[th]
    for place in range(copies):
        send_gossip(w, th, now, node, entries[place, _SLOT], topic, first, others, size, count, upper, lower)
    bytes_out(w)[node] += copies * size


@kernel
def _ihave_alone(w: World, th: int, topic: int, ids: int, count: int) -> int:
    rpc = allocate(w, th, HEADER + PART + count)
    arena(w)[rpc] = 1
    _write_ihave(w, th, rpc, 0, HEADER + PART, topic, ids, count)
    _frame(w, rpc)
    return rpc


@kernel
def _flush_mixed(w: World, th: int, now: int, node: int, count: int) -> None:
    entries = outbox(w)[th]
    _sort(entries, count)
    coalesce = parameter(w, node, COALESCE)
    start = 0
    while start < count:
        slot = entries[start, _SLOT]
        end = start
        kept = start
        while end < count and entries[end, _SLOT] == slot:
            if kept > start and entries[kept - 1, _KEY] == entries[end, _KEY]:
                if entries[end, _KEY] >> _CLASS != _MESSAGES:  # of messages the first counts, else the last
                    entries[kept - 1, _VALUE] = entries[end, _VALUE]
                    entries[kept - 1, _IDS] = entries[end, _IDS]
            else:
                for field in range(4):
                    entries[kept, field] = entries[end, field]
                kept += 1
            end += 1
        if kept == start + 1 and entries[start, _KEY] >> _CLASS == _MESSAGES:
            message = entries[start, _KEY] & _ID
            send_message(w, th, now, node, slot, message, hops_from(w, node, message), entries[start, _VALUE])
        elif kept == start + 1 and not w[HAS_LINKS] and _is_about_a_topic(entries, start):
            _send_topic_part(w, th, now, node, start)
        elif coalesce:
            _send_together(w, th, now, node, slot, start, kept)
        else:
            _send_singly(w, th, now, node, slot, start, kept)
        start = end


@inlined
def _is_about_a_topic(entries: Any, place: int) -> bool:
    """A part that is a kind and a topic, and no more."""
    part_class = entries[place, _KEY] >> _CLASS
    return (part_class == _MESH and entries[place, _IDS] == 0) or part_class == _SUBSCRIPTIONS


@kernel
def _send_topic_part(w: World, th: int, now: int, node: int, place: int) -> None:
    entry = outbox(w)[th, place]
    topic = (entry[_KEY] >> _TOPIC) & _ID
    if entry[_KEY] >> _CLASS == _MESH:
        kind = entry[_VALUE]
        size = _alone(_mesh_size(w, topic, kind, 0))
    else:
        kind = SUBSCRIBE if entry[_VALUE] else UNSUBSCRIBE
        size = framed_size(_subscription_size(w, topic))
    send_topic_part(w, th, now, node, entry[_SLOT], topic, kind, size)


@kernel
def _sort(entries: Any, count: int) -> None:
    """By slot and key, stable: runs of a few by insertion, then merged with the room behind the entries."""
    run = 16
    for start in range(0, count, run):
        _sort_run(entries, start, min(start + run, count))
    while run < count:
        for start in range(0, count, 2 * run):
            middle = min(start + run, count)
            _merge(entries, start, middle, min(middle + run, count), count)
        run *= 2


@kernel
def _is_after(entries: Any, a: int, b: int) -> bool:
    if entries[a, _SLOT] != entries[b, _SLOT]:
        return entries[a, _SLOT] > entries[b, _SLOT]
    return entries[a, _KEY] > entries[b, _KEY]


@kernel
def _merge(entries: Any, start: int, middle: int, end: int, spare: int) -> None:
    if middle >= end or not _is_after(entries, middle - 1, middle):
        return
    for place in range(start, end):
        for field in range(4):
            entries[spare + place, field] = entries[place, field]
    left = spare + start
    right = spare + middle
    for place in range(start, end):
        if right >= spare + end or (left < spare + middle and not _is_after(entries, left, right)):
            taken = left
            left += 1
        else:
            taken = right
            right += 1
        for field in range(4):
            entries[place, field] = entries[taken, field]


@kernel
def _sort_run(entries: Any, start: int, end: int) -> None:
    for place in range(start + 1, end):
        slot, key, value, ids = entries[place, 0], entries[place, 1], entries[place, 2], entries[place, 3]
        at = place
        while at > start and (
            entries[at - 1, _SLOT] > slot or (entries[at - 1, _SLOT] == slot and entries[at - 1, _KEY] > key)
        ):
            for field in range(4):
                entries[at, field] = entries[at - 1, field]
            at -= 1
        entries[at, 0] = slot
        entries[at, 1] = key
        entries[at, 2] = value
        entries[at, 3] = ids


@kernel
def _send_together(w: World, th: int, now: int, node: int, slot: int, start: int, end: int) -> None:
    """One RPC with all parts for a neighbour (OUT-1)."""
    entries = outbox(w)[th]
    parts = 0
    ids = 0
    wants = 0
    for place in range(start, end):
        kind = entries[place, _KEY] >> _CLASS
        if kind == _WANTED:
            wants += 1
        else:
            parts += 1
            if kind == _IHAVES:
                ids += entries[place, _VALUE]
            elif kind == _MESH and entries[place, _IDS]:
                ids += 1
    if wants:
        parts += 1
    rpc = allocate(w, th, HEADER + parts * PART + ids + wants)
    arena(w)[rpc] = parts
    at = HEADER + parts * PART
    index = 0
    place = start
    while place < end:
        key = entries[place, _KEY]
        kind = key >> _CLASS
        topic = (key >> _TOPIC) & _ID
        if kind == _SUBSCRIPTIONS:
            _write_subscription(w, rpc, index, topic, entries[place, _VALUE])
        elif kind == _MESSAGES:
            _write_message(w, node, rpc, index, key & _ID, entries[place, _VALUE])
        elif kind == _IHAVES:
            _write_ihave(w, th, rpc, index, at, topic, entries[place, _IDS], entries[place, _VALUE])
            at += entries[place, _VALUE]
        elif kind == _WANTED:
            _write_iwant(w, th, rpc, index, at, place, wants)
            at += wants
            place += wants - 1
        else:
            break
        index += 1
        place += 1
    for wanted in MESH_CONTROL:
        for mesh in range(place, end):
            if entries[mesh, _VALUE] == wanted:
                told = entries[mesh, _IDS]
                _write_mesh(w, rpc, index, at, (entries[mesh, _KEY] >> _TOPIC) & _ID, wanted, told)
                at += 1 if told else 0
                index += 1
    _frame(w, rpc)
    hold(w, th, rpc)
    send_rpc(w, th, now, node, slot, rpc)
    release(w, th, rpc)


@kernel
def _send_singly(w: World, th: int, now: int, node: int, slot: int, start: int, end: int) -> None:
    """An RPC for every part, in the same order (OUT-2)."""
    entries = outbox(w)[th]
    place = start
    while place < end:
        key = entries[place, _KEY]
        kind = key >> _CLASS
        topic = (key >> _TOPIC) & _ID
        if kind == _MESH:
            break
        if kind == _MESSAGES:
            message = key & _ID
            send_message(w, th, now, node, slot, message, hops_from(w, node, message), entries[place, _VALUE])
            place += 1
            continue
        following = place + 1
        if kind == _SUBSCRIPTIONS:
            rpc = allocate(w, th, HEADER + PART)
            arena(w)[rpc] = 1
            _write_subscription(w, rpc, 0, topic, entries[place, _VALUE])
        elif kind == _IHAVES:
            count = entries[place, _VALUE]
            rpc = allocate(w, th, HEADER + PART + count)
            arena(w)[rpc] = 1
            _write_ihave(w, th, rpc, 0, HEADER + PART, topic, entries[place, _IDS], count)
        else:
            while following < end and entries[following, _KEY] >> _CLASS == _WANTED:
                following += 1
            rpc = allocate(w, th, HEADER + PART + following - place)
            arena(w)[rpc] = 1
            _write_iwant(w, th, rpc, 0, HEADER + PART, place, following - place)
        _frame(w, rpc)
        hold(w, th, rpc)
        send_rpc(w, th, now, node, slot, rpc)
        release(w, th, rpc)
        place = following
    for wanted in MESH_CONTROL:
        for mesh in range(place, end):
            if entries[mesh, _VALUE] == wanted:
                rpc = allocate(w, th, HEADER + PART + 1)
                arena(w)[rpc] = 1
                topic = (entries[mesh, _KEY] >> _TOPIC) & _ID
                _write_mesh(w, rpc, 0, HEADER + PART, topic, wanted, entries[mesh, _IDS])
                _frame(w, rpc)
                hold(w, th, rpc)
                send_rpc(w, th, now, node, slot, rpc)
                release(w, th, rpc)


@kernel
def _write(w: World, rpc: int, index: int, kind: int, topic: int, size: int, count: int) -> None:
    part = words_at(w, part_place(rpc, index))
    part[PART_KIND] = kind
    part[PART_TOPIC] = topic
    part[PART_MESSAGE] = -1
    part[PART_HOPS] = -1
    part[PART_BYTES] = size
    part[PART_COUNT] = count
    part[PART_VIA] = -1
    part[PART_IDS] = 0


@kernel
def _topic_size(w: World, topic: int) -> int:
    return field_size(topics(w)[topic, TOPIC_LENGTH])


@kernel
def _write_subscription(w: World, rpc: int, index: int, topic: int, subscribe: int) -> None:
    kind = SUBSCRIBE if subscribe else UNSUBSCRIBE
    _write(w, rpc, index, kind, topic, _subscription_size(w, topic), 1)


@kernel
def _subscription_size(w: World, topic: int) -> int:
    return subscription_size(_topic_size(w, topic))


@kernel
def _write_message(w: World, node: int, rpc: int, index: int, message: int, via: int) -> None:
    info = messages(w)[message]
    _write(w, rpc, index, PUBLISH, info[TOPIC], info[MESSAGE_PART_BYTES], 1)
    part = words_at(w, part_place(rpc, index))
    part[PART_MESSAGE] = message
    part[PART_HOPS] = hops_from(w, node, message)
    part[PART_VIA] = via


@kernel
def _write_ihave(w: World, th: int, rpc: int, index: int, at: int, topic: int, ids: int, count: int) -> None:
    _write(w, rpc, index, IHAVE, topic, _ihave_size(w, topic, count), count)
    words_at(w, part_place(rpc, index))[PART_IDS] = at
    store = arena(w)
    known = scratch(w)[th]
    for place in range(count):
        store[rpc + at + place] = known[ids + place]


@kernel
def _ihave_size(w: World, topic: int, count: int) -> int:
    return ihave_size(_topic_size(w, topic), count * SIMULATED_ID_FIELD)


@kernel
def _write_iwant(w: World, th: int, rpc: int, index: int, at: int, place: int, count: int) -> None:
    _write(w, rpc, index, IWANT, -1, iwant_size(count * SIMULATED_ID_FIELD), count)
    words_at(w, part_place(rpc, index))[PART_IDS] = at
    store = arena(w)
    entries = outbox(w)[th]
    for wanted in range(count):
        store[rpc + at + wanted] = entries[place + wanted, _KEY] & _ID


@kernel
def _write_mesh(w: World, rpc: int, index: int, at: int, topic: int, kind: int, told: int) -> None:
    """GRAFT or PRUNE; what a PRUNE says beside the topic lies where the ids of other parts do."""
    _write(w, rpc, index, kind, topic, _mesh_size(w, topic, kind, told), 1)
    if told:
        words_at(w, part_place(rpc, index))[PART_IDS] = at
        arena(w)[rpc + at] = told


@kernel
def _mesh_size(w: World, topic: int, kind: int, told: int) -> int:
    if kind == GRAFT:
        return graft_size(_topic_size(w, topic))
    peers_named = (told & ((1 << _OTHERS) - 1)) * SIMULATED_PEER_INFO
    return prune_size(_topic_size(w, topic), told != 0, told_seconds(told), peers_named)


@kernel
def _alone(control_part: int) -> int:
    """The bytes of an RPC that is one part of control, as `_frame` counts them."""
    return framed_size(rpc_size_of_parts(0, True, control_part))


@kernel
def _frame(w: World, rpc: int) -> None:
    """The first part carries the bytes that hold the parts together (`core.language.sizes.framed_size`)."""
    own = 0
    inside = 0
    for index in range(arena(w)[rpc]):
        part = words_at(w, part_place(rpc, index))
        own += part[PART_BYTES]
        if part[PART_KIND] >= IHAVE:
            inside += part[PART_BYTES]
    size = framed_size(rpc_size_of_parts(own - inside, inside != 0, inside))
    words_at(w, part_place(rpc, 0))[PART_BYTES] += size - own
