"""The outbox of the present call: what the router sends, packed at the end of the call (`core.shell.outbox`).

Most calls send one message, or one topic's gossip, to a few neighbours. Then `outbox` has the short form, a list of
slots, and `control` describes the part: OUT_MODE, OUT_MESSAGE (the message, or the index of ids in `scratch`),
OUT_VIA (how the message is sent, or the number of ids) and OUT_TOPIC. Otherwise `outbox` has an entry for each part.
OUT_COUNT is the number of slots or entries.
"""

from __future__ import annotations

from hearsay.core.language.sizes import SIMULATED_ID_FIELD, iwant_size
from hearsay.sim.array.machine.compiling import kernel, only_with
from hearsay.sim.array.travel.packing import send_mixed
from hearsay.sim.array.travel.parts import (
    CLASS_SHIFT,
    FEATURES_CLASS,
    IDS,
    IHAVE_CLASS,
    IWANT_CLASS,
    KEY,
    MESH_CLASS,
    MESSAGE_CLASS,
    SLOT,
    SUBSCRIPTION_CLASS,
    TOPIC_SHIFT,
    VALUE,
    frame,
    hops_from,
    ihave_bytes,
    is_counted_alike,
    part_of_features,
    size_alone,
    tree_key,
    tree_value,
    without_others,
    write_ihave,
    write_message,
    write_tree_part,
)
from hearsay.sim.array.travel.sending import send_copy, send_gossip, send_rpc, send_unwanted
from hearsay.sim.array.travel.transport import ask_for_links
from hearsay.sim.array.world.layout import (
    ALONE,
    HAS_EPISUB,
    HAS_FEATURES,
    HAS_LINKS,
    NAMES,
    OUT_COUNT,
    OUT_MESSAGE,
    OUT_MODE,
    OUT_TOPIC,
    OUT_VIA,
    OUTBOX_FULL,
    PUBLISHER,
    SCRATCH_USED,
    STATUS,
    TOPIC,
    URGENT,
    USES_12,
    World,
    alone,
    arena,
    bytes_out,
    control,
    messages,
    outbox,
    peers,
    scratch,
    urgent,
)
from hearsay.sim.array.world.payload import (
    GRAFT,
    HEADER,
    IDONTWANT,
    IHAVE,
    PART,
    PRUNE,
    allocate,
    hold,
    message_part,
    release,
    topic_part,
    write_part,
)
from hearsay.sim.array.world.queue import GOSSIP_SPAN
from hearsay.sim.array.world.record import sending

EMPTY, ONE_MESSAGE, ONE_IHAVE, MIXED, ONE_ANNOUNCEMENT = range(5)
"""Values of OUT_MODE. MIXED: an entry for each part; ONE_…: the short form, ONE_ANNOUNCEMENT for an IHAVE of
episub."""
part_of_12 = only_with(USES_12)
part_of_episub = only_with(HAS_EPISUB)


@kernel
def _put(w: World, th: int, slot: int, key: int, value: int, ids: int) -> None:
    _mix_in(w, th)
    line = control(w)[th]
    place = line[OUT_COUNT]
    entries = outbox(w)[th]
    if 2 * place >= entries.shape[0]:
        w[STATUS] = OUTBOX_FULL
        return
    line[OUT_COUNT] = place + 1
    entries[place, SLOT] = slot
    entries[place, KEY] = key
    entries[place, VALUE] = value
    entries[place, IDS] = ids


@kernel
def _mix_in(w: World, th: int) -> None:
    """Turn the short form into entries."""
    line = control(w)[th]
    mode = line[OUT_MODE]
    if mode == MIXED:
        return
    entries = outbox(w)[th]
    for place in range(line[OUT_COUNT]):
        if mode == ONE_MESSAGE:
            entries[place, KEY] = _message_key(w, line[OUT_MESSAGE])
            entries[place, VALUE] = line[OUT_VIA]
        elif mode == ONE_ANNOUNCEMENT:
            entries[place, KEY] = tree_key(place, line[OUT_TOPIC])
            entries[place, VALUE] = tree_value(IHAVE, line[OUT_VIA])
            entries[place, IDS] = line[OUT_MESSAGE]
        else:
            entries[place, KEY] = IHAVE_CLASS << CLASS_SHIFT | line[OUT_TOPIC] << TOPIC_SHIFT
            entries[place, VALUE] = line[OUT_VIA]
            entries[place, IDS] = line[OUT_MESSAGE]
    line[OUT_MODE] = MIXED


@kernel
def _message_key(w: World, message: int) -> int:
    return MESSAGE_CLASS << CLASS_SHIFT | messages(w)[message, TOPIC] << TOPIC_SHIFT | message


@kernel
def begin_message(w: World, th: int, message: int, via: int) -> bool:
    """Begin to send a message; return whether the short form is used, as it is if the outbox is empty."""
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
    """Send a message to a neighbour; `short` is what `begin_message` returned."""
    if short:
        line = control(w)[th]
        outbox(w)[th, line[OUT_COUNT], SLOT] = slot
        line[OUT_COUNT] += 1
    else:
        _put(w, th, slot, _message_key(w, message), via, 0)


@kernel
def forward_one(w: World, th: int, slot: int, message: int, via: int, came_from: int, short: bool) -> None:
    """Send a message to a neighbour, unless that is `came_from` or the publisher."""
    peer = peers(w)[slot]
    if peer != came_from and peer != messages(w)[message, PUBLISHER]:
        put_message(w, th, slot, message, via, short)


@kernel
def begin_ihave(w: World, th: int, topic: int, ids: int, count: int) -> bool:
    """Begin to send an IHAVE, with `count` ids in `scratch` from `ids` on; return whether the short form is used."""
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
        outbox(w)[th, line[OUT_COUNT], SLOT] = slot
        line[OUT_COUNT] += 1
    else:
        _put(w, th, slot, IHAVE_CLASS << CLASS_SHIFT | topic << TOPIC_SHIFT, count, ids)


@part_of_episub
def begin_announcement(w: World, th: int, topic: int, ids: int, count: int) -> bool:
    """Begin to send an IHAVE of episub, as `begin_ihave` does, with announcements in place of ids."""
    is_short = begin_ihave(w, th, topic, ids, count)
    if is_short:
        control(w)[th, OUT_MODE] = ONE_ANNOUNCEMENT
    return is_short


@part_of_episub
def put_announcement(w: World, th: int, slot: int, topic: int, ids: int, count: int, short: bool) -> None:
    if short:
        put_ihave(w, th, slot, topic, ids, count, short)
    else:
        put_tree_part(w, th, slot, IHAVE, topic, ids, count)


@part_of_episub
def put_tree_part(w: World, th: int, slot: int, kind: int, topic: int, ids: int, count: int) -> None:
    """Send a part of episub, with its ids in `scratch`. Such parts keep the order in which they are put."""
    _put(w, th, slot, tree_key(control(w)[th, OUT_COUNT], topic), tree_value(kind, count), ids)


@kernel
def put_subscription(w: World, th: int, slot: int, topic: int, value: int) -> None:
    _put(w, th, slot, SUBSCRIPTION_CLASS << CLASS_SHIFT | topic << TOPIC_SHIFT, value, 0)


@part_of_features
def put_features(w: World, th: int, slot: int, own: int) -> None:
    """Send a peer the extensions of this router, in the first RPC that it receives (EXT-1)."""
    _put(w, th, slot, FEATURES_CLASS << CLASS_SHIFT, own, 0)


@part_of_features
def put_alone(w: World, th: int, slot: int, rpc: int) -> None:
    """Send an RPC in the arena after all others of the call (PARTIAL-5)."""
    line = control(w)[th]
    entries = alone(w)[th]
    place = line[ALONE]
    if place == entries.shape[0]:
        w[STATUS] = OUTBOX_FULL
        return
    line[ALONE] = place + 1
    entries[place, 0] = slot
    entries[place, 1] = rpc
    frame(w, rpc)
    hold(w, th, rpc)


@kernel
def put_wanted(w: World, th: int, slot: int, message: int) -> None:
    _put(w, th, slot, IWANT_CLASS << CLASS_SHIFT | message, 0, 0)


@kernel
def put_graft(w: World, th: int, slot: int, topic: int) -> None:
    _put(w, th, slot, MESH_CLASS << CLASS_SHIFT | topic << TOPIC_SHIFT, GRAFT, 0)


@kernel
def put_prune(w: World, th: int, slot: int, topic: int, extras: int) -> None:
    """Send a PRUNE; `extras` is its content except the topic, see `prune_extras`; 0 for none."""
    _put(w, th, slot, MESH_CLASS << CLASS_SHIFT | topic << TOPIC_SHIFT, PRUNE, extras)


@part_of_12
def put_unwanted(w: World, th: int, slot: int, message: int) -> None:
    """Send a neighbour an IDONTWANT, before all other parts of the call (OUT-3)."""
    line = control(w)[th]
    entries = urgent(w)[th]
    place = line[URGENT]
    if place == entries.shape[0]:
        w[STATUS] = OUTBOX_FULL
        return
    line[URGENT] = place + 1
    while place > 0 and entries[place - 1, 0] > slot:
        entries[place, 0] = entries[place - 1, 0]
        entries[place, 1] = entries[place - 1, 1]
        place -= 1
    entries[place, 0] = slot
    entries[place, 1] = message


@kernel
def clear_prune_peers(w: World, th: int, slot: int) -> None:
    """Remove the names of other peers from a neighbour's PRUNEs in the outbox."""
    entries = outbox(w)[th]
    if control(w)[th, OUT_MODE] == MIXED:
        for place in range(control(w)[th, OUT_COUNT]):
            if entries[place, SLOT] == slot and entries[place, KEY] >> CLASS_SHIFT == MESH_CLASS:
                entries[place, IDS] = without_others(entries[place, IDS])


@kernel
def is_addressed(w: World, th: int, slot: int) -> bool:
    """Return whether the outbox has a part for a neighbour."""
    entries = outbox(w)[th]
    for place in range(control(w)[th, OUT_COUNT]):
        if entries[place, SLOT] == slot:
            return True
    return False


@kernel
def flush(w: World, th: int, now: int, node: int) -> None:
    """Send the parts in the outbox, and empty it."""
    line = control(w)[th]
    if line[URGENT]:
        _flush_urgent(w, th, now, node)
    count = line[OUT_COUNT]
    mode = line[OUT_MODE]
    line[OUT_COUNT] = 0
    line[OUT_MODE] = EMPTY
    if count:
        entries = outbox(w)[th]
        if w[HAS_LINKS] and mode != MIXED:
            ask_for_links(w, th, count)
        if mode == ONE_MESSAGE and not is_counted_alike(w, node, line[OUT_MESSAGE], line[OUT_VIA]):
            _send_to_all(w, th, now, node, count, _message_alone(w, th, node, line[OUT_MESSAGE], line[OUT_VIA]))
        elif mode == ONE_MESSAGE:
            part = message_part(w, line[OUT_MESSAGE], hops_from(w, node, line[OUT_MESSAGE]), line[OUT_VIA])
            common = sending(w, now, node, part)
            left = 0
            for place in range(count):
                left += send_copy(w, th, now, node, entries[place, SLOT], part, common)
            bytes_out(w)[node] += left
        elif mode == ONE_IHAVE and _is_short(w, th, line[OUT_MESSAGE], line[OUT_VIA]):
            _send_gossip(w, th, now, node, count, line[OUT_TOPIC], line[OUT_MESSAGE], line[OUT_VIA])
        elif mode == ONE_IHAVE:
            rpc = _ihave_alone(w, th, line[OUT_TOPIC], line[OUT_MESSAGE], line[OUT_VIA])
            _send_to_all(w, th, now, node, count, rpc)
        elif mode == ONE_ANNOUNCEMENT:
            rpc = _announcement_alone(w, th, line[OUT_TOPIC], line[OUT_MESSAGE], line[OUT_VIA])
            _send_to_all(w, th, now, node, count, rpc)
        else:
            send_mixed(w, th, now, node, count)
    line[SCRATCH_USED] = 0
    line[NAMES] = 0
    if w[HAS_FEATURES]:
        _flush_alone(w, th, now, node)


@part_of_features
def _flush_alone(w: World, th: int, now: int, node: int) -> None:
    entries = alone(w)[th]
    count = control(w)[th, ALONE]
    control(w)[th, ALONE] = 0
    for place in range(count):
        send_rpc(w, th, now, node, entries[place, 0], entries[place, 1])
        release(w, th, entries[place, 1])


@kernel
def _send_to_all(w: World, th: int, now: int, node: int, count: int, rpc: int) -> None:
    """Send an RPC to all neighbours that the outbox names."""
    hold(w, th, rpc)
    for place in range(count):
        send_rpc(w, th, now, node, outbox(w)[th, place, SLOT], rpc)
    release(w, th, rpc)


@part_of_episub
def _message_alone(w: World, th: int, node: int, message: int, via: int) -> int:
    """Return an RPC with a message that names its hops."""
    rpc = allocate(w, th, HEADER + PART + 1)
    arena(w)[rpc] = 1
    write_message(w, node, rpc, 0, HEADER + PART, message, via)
    frame(w, rpc)
    return rpc


@part_of_episub
def _announcement_alone(w: World, th: int, topic: int, ids: int, count: int) -> int:
    rpc = allocate(w, th, HEADER + PART + count)
    arena(w)[rpc] = 1
    write_tree_part(w, th, rpc, 0, HEADER + PART, topic, tree_value(IHAVE, count), ids)
    frame(w, rpc)
    return rpc


@part_of_12
def _flush_urgent(w: World, th: int, now: int, node: int) -> None:
    """Send one IDONTWANT to each neighbour in `urgent`, whose entries are sorted by slot."""
    line = control(w)[th]
    entries = urgent(w)[th]
    size = size_alone(iwant_size(SIMULATED_ID_FIELD))
    common = sending(w, now, node, topic_part(IDONTWANT, -1, size, 1))
    count = line[URGENT]
    line[URGENT] = 0
    start = 0
    while start < count:
        slot = entries[start, 0]
        end = start + 1
        while end < count and entries[end, 0] == slot:
            end += 1
        if end == start + 1 and not w[HAS_LINKS]:
            send_unwanted(w, th, now, node, slot, entries[start, 1], size, common)
        else:
            rpc = allocate(w, th, HEADER + PART + end - start)
            arena(w)[rpc] = 1
            part = topic_part(IDONTWANT, -1, iwant_size((end - start) * SIMULATED_ID_FIELD), end - start)
            write_part(w, rpc, 0, part, HEADER + PART)
            for place in range(start, end):
                arena(w)[rpc + HEADER + PART + place - start] = entries[place, 1]
            frame(w, rpc)
            hold(w, th, rpc)
            send_rpc(w, th, now, node, slot, rpc)
            release(w, th, rpc)
        start = end


@kernel
def _is_short(w: World, th: int, ids: int, count: int) -> bool:
    """Return whether an IHAVE fits into the two words of an event."""
    known = scratch(w)[th]
    return not w[HAS_LINKS] and known[ids + count - 1] - known[ids] <= GOSSIP_SPAN


@kernel
def _send_gossip(w: World, th: int, now: int, node: int, copies: int, topic: int, ids: int, count: int) -> None:
    known = scratch(w)[th]
    first = known[ids]
    others = 0
    for place in range(ids + 1, ids + count):
        others |= 1 << (known[place] - first - 1)
    part = topic_part(IHAVE, topic, size_alone(ihave_bytes(w, topic, count)), count)
    common = sending(w, now, node, part)
    entries = outbox(w)[th]
    for place in range(copies):
        send_gossip(w, th, now, node, entries[place, SLOT], part, first, others, common)
    bytes_out(w)[node] += copies * part.size


@kernel
def _ihave_alone(w: World, th: int, topic: int, ids: int, count: int) -> int:
    rpc = allocate(w, th, HEADER + PART + count)
    arena(w)[rpc] = 1
    write_ihave(w, th, rpc, 0, HEADER + PART, topic, ids, count)
    frame(w, rpc)
    return rpc
