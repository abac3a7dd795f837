"""The outbox of the present call: the parts that the router sends (`core.shell.outbox`).

The parts are packed into RPCs at the end of the call. IDONTWANTs wait in `urgent` instead, and RPCs that have no
other parts (partial messages, test messages) in `alone`.

Layout: `outbox` has an entry for each part and neighbour (`parts.py`). Most calls send one message, or the gossip of
one topic, to a few neighbours. Then the outbox has the short form: OUT_SHORT is 1, OUT_KEY, OUT_VALUE and OUT_IDS
describe the part, and the entries have only the slots of the neighbours that get this part. OUT_COUNT is the number
of entries.
"""

from __future__ import annotations

from hearsay.core.language.sizes import SIMULATED_ID_FIELD, field_size
from hearsay.sim.array.compiling import kernel, only_with
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
    VALUE,
    add_framing,
    framed_control_bytes,
    has_one_hop_count,
    hops_from,
    ihave_bytes,
    tree_key,
    tree_value,
    with_features,
    without_others,
)
from hearsay.sim.array.travel.sending import (
    new_part_rpc,
    send_copy,
    send_entries,
    send_framed,
    send_in_event,
    send_rpc,
)
from hearsay.sim.array.world.layout import (
    ALONE,
    HAS_EPISUB,
    HAS_FEATURES,
    HAS_LINKS,
    LINK32,
    NAMES,
    OUT_COUNT,
    OUT_IDS,
    OUT_KEY,
    OUT_SHORT,
    OUT_VALUE,
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
    links_of,
    messages,
    outbox,
    peers,
    scratch,
    touch_links32,
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
from hearsay.sim.array.world.queue import GOSSIP_SPAN, gossip_payload, gossip_rest, topic_payload
from hearsay.sim.array.world.record import sending

with_12 = only_with(USES_12)
with_episub = only_with(HAS_EPISUB)


@kernel
def _put(w: World, th: int, slot: int, key: int, value: int, ids: int) -> None:
    _use_long_form(w, th)
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
def _use_long_form(w: World, th: int) -> None:
    """If the outbox has the short form, change it into the form in which each entry describes its part."""
    line = control(w)[th]
    if not line[OUT_SHORT]:
        return
    line[OUT_SHORT] = 0
    entries = outbox(w)[th]
    for place in range(line[OUT_COUNT]):
        entries[place, KEY] = line[OUT_KEY]
        entries[place, VALUE] = line[OUT_VALUE]
        entries[place, IDS] = line[OUT_IDS]


@kernel
def _begin(w: World, th: int, key: int, value: int, ids: int) -> bool:
    """Begin to send a part to neighbours, in the short form if the outbox is empty. Return whether the short form is
    used."""
    line = control(w)[th]
    if line[OUT_COUNT]:
        _use_long_form(w, th)
        return False
    line[OUT_SHORT] = 1
    line[OUT_KEY] = key
    line[OUT_VALUE] = value
    line[OUT_IDS] = ids
    return True


@kernel
def _put_slot(w: World, th: int, slot: int) -> None:
    """Add a neighbour to those that get the part of the short form."""
    line = control(w)[th]
    outbox(w)[th, line[OUT_COUNT], SLOT] = slot
    line[OUT_COUNT] += 1


@kernel
def _message_key(w: World, message: int) -> int:
    return MESSAGE_CLASS << CLASS_SHIFT | messages(w)[message, TOPIC] << TOPIC_SHIFT | message


@kernel
def begin_message(w: World, th: int, message: int, via: int) -> bool:
    """Begin to send a message to neighbours. Return whether the short form is used; `put_message` needs this
    value."""
    return _begin(w, th, _message_key(w, message), via, 0)


@kernel
def put_message(w: World, th: int, slot: int, message: int, via: int, short: bool) -> None:
    """Put a message to a neighbour into the outbox; `short` is what `begin_message` returned."""
    if short:
        _put_slot(w, th, slot)
    else:
        _put(w, th, slot, _message_key(w, message), via, 0)


@kernel
def put_forwarded(w: World, th: int, slot: int, message: int, via: int, came_from: int, short: bool) -> None:
    """Put a message to a neighbour into the outbox, unless the neighbour is `came_from` or the publisher."""
    peer = peers(w)[slot]
    if peer != came_from and peer != messages(w)[message, PUBLISHER]:
        put_message(w, th, slot, message, via, short)


@kernel
def begin_ihave(w: World, th: int, topic: int, ids: int, count: int) -> bool:
    """Begin to send an IHAVE, with `count` ids in `scratch` from the index `ids` on. Return whether the short form is
    used."""
    return _begin(w, th, IHAVE_CLASS << CLASS_SHIFT | topic << TOPIC_SHIFT, count, ids)


@kernel
def put_ihave(w: World, th: int, slot: int, topic: int, ids: int, count: int, short: bool) -> None:
    """Put an IHAVE to a neighbour into the outbox; `short` is what `begin_ihave` returned."""
    if short:
        _put_slot(w, th, slot)
    else:
        _put(w, th, slot, IHAVE_CLASS << CLASS_SHIFT | topic << TOPIC_SHIFT, count, ids)


@with_episub
def write_word(w: World, th: int, word: int) -> None:
    """Add a word to the end of `scratch`; if `scratch` is full, set STATUS."""
    line = control(w)[th]
    place = line[SCRATCH_USED]
    if place == scratch(w).shape[1]:
        w[STATUS] = OUTBOX_FULL
        return
    scratch(w)[th, place] = word
    line[SCRATCH_USED] = place + 1


@with_episub
def begin_announcement(w: World, th: int, topic: int, ids: int, count: int) -> bool:
    """Begin to send an IHAVE of episub, with `count` announcements (`payload.announcement`) in `scratch` from the
    index `ids` on. Return whether the short form is used."""
    return _begin(w, th, tree_key(0, topic), tree_value(IHAVE, count), ids)


@with_episub
def put_announcement(w: World, th: int, slot: int, topic: int, ids: int, count: int, short: bool) -> None:
    """Put an IHAVE of episub to a neighbour into the outbox; `short` is what `begin_announcement` returned."""
    if short:
        _put_slot(w, th, slot)
    else:
        put_tree_part(w, th, slot, IHAVE, topic, ids, count)


@with_episub
def put_tree_part(w: World, th: int, slot: int, kind: int, topic: int, ids: int, count: int) -> None:
    """Put a part of episub into the outbox. `ids` is the index in `scratch` of its `count` ids or words of content.
    Parts of episub are sent in the order in which they are put."""
    _put(w, th, slot, tree_key(control(w)[th, OUT_COUNT], topic), tree_value(kind, count), ids)


@kernel
def put_subscription(w: World, th: int, slot: int, topic: int, value: int) -> None:
    _put(w, th, slot, SUBSCRIPTION_CLASS << CLASS_SHIFT | topic << TOPIC_SHIFT, value, 0)


@with_features
def put_features(w: World, th: int, slot: int, own: int) -> None:
    """Put the extensions of the node's router into the outbox, for the first RPC to a neighbour (EXT-1)."""
    _put(w, th, slot, FEATURES_CLASS << CLASS_SHIFT, own, 0)


@with_features
def put_alone(w: World, th: int, slot: int, rpc: int) -> None:
    """Put an RPC in the arena into `alone`: the RPC is sent after the parts in the outbox (PARTIAL-5)."""
    line = control(w)[th]
    entries = alone(w)[th]
    place = line[ALONE]
    if place == entries.shape[0]:
        w[STATUS] = OUTBOX_FULL
        return
    line[ALONE] = place + 1
    entries[place, 0] = slot
    entries[place, 1] = rpc
    add_framing(w, rpc)
    hold(w, th, rpc)


@kernel
def put_iwant(w: World, th: int, slot: int, message: int) -> None:
    _put(w, th, slot, IWANT_CLASS << CLASS_SHIFT | message, 0, 0)


@kernel
def put_graft(w: World, th: int, slot: int, topic: int) -> None:
    _put(w, th, slot, MESH_CLASS << CLASS_SHIFT | topic << TOPIC_SHIFT, GRAFT, 0)


@kernel
def put_prune(w: World, th: int, slot: int, topic: int, extras: int) -> None:
    """Put a PRUNE into the outbox; `extras` is its content except the topic (`prune_extras`), 0 for none."""
    _put(w, th, slot, MESH_CLASS << CLASS_SHIFT | topic << TOPIC_SHIFT, PRUNE, extras)


@with_12
def put_idontwant(w: World, th: int, slot: int, message: int) -> None:
    """Put an IDONTWANT to a neighbour into `urgent`: the IDONTWANT is sent before the parts in the outbox (OUT-3)."""
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
    if not control(w)[th, OUT_SHORT]:
        for place in range(control(w)[th, OUT_COUNT]):
            if entries[place, SLOT] == slot and entries[place, KEY] >> CLASS_SHIFT == MESH_CLASS:
                entries[place, IDS] = without_others(entries[place, IDS])


@kernel
def has_part_for(w: World, th: int, slot: int) -> bool:
    """Return whether the outbox has a part for a neighbour."""
    entries = outbox(w)[th]
    for place in range(control(w)[th, OUT_COUNT]):
        if entries[place, SLOT] == slot:
            return True
    return False


@kernel
def flush(w: World, th: int, now: int, node: int) -> None:
    """Send the IDONTWANTs in `urgent`, then the parts in the outbox, then the RPCs in `alone`, and empty these
    three."""
    line = control(w)[th]
    if line[URGENT]:
        _flush_urgent(w, th, now, node)
    if line[OUT_COUNT] and line[OUT_SHORT]:
        _flush_short(w, th, now, node)
    elif line[OUT_COUNT]:
        send_entries(w, th, now, node, line[OUT_COUNT])
    line[OUT_COUNT] = 0
    line[OUT_SHORT] = 0
    line[SCRATCH_USED] = 0
    line[NAMES] = 0
    if w[HAS_FEATURES]:
        _flush_alone(w, th, now, node)


@kernel
def _flush_short(w: World, th: int, now: int, node: int) -> None:
    """Send the part of the short form to all neighbours in the entries."""
    line = control(w)[th]
    entries = outbox(w)[th]
    count = line[OUT_COUNT]
    if w[HAS_LINKS]:
        for place in range(count):
            touch_links32(w, links_of(w)[entries[place, SLOT]] * LINK32)
    part_class = line[OUT_KEY] >> CLASS_SHIFT
    message = line[OUT_KEY] & ID_MASK
    if part_class == MESSAGE_CLASS and has_one_hop_count(w, node, message, line[OUT_VALUE]):
        part = message_part(w, message, hops_from(w, node, message), line[OUT_VALUE])
        common = sending(w, now, node, part)
        left = 0
        for place in range(count):
            left += send_copy(w, th, now, node, entries[place, SLOT], part, common)
        bytes_out(w)[node] += left
    elif part_class == IHAVE_CLASS and _fits_an_event(w, th, line[OUT_IDS], line[OUT_VALUE]):
        _send_gossip(w, th, now, node, count, line[OUT_KEY] >> TOPIC_SHIFT & ID_MASK, line[OUT_IDS], line[OUT_VALUE])
    else:
        _use_long_form(w, th)
        rpc = new_part_rpc(w, th, node, 0, 1)
        add_framing(w, rpc)
        hold(w, th, rpc)
        for place in range(count):
            send_rpc(w, th, now, node, entries[place, SLOT], rpc)
        release(w, th, rpc)


@with_features
def _flush_alone(w: World, th: int, now: int, node: int) -> None:
    entries = alone(w)[th]
    count = control(w)[th, ALONE]
    control(w)[th, ALONE] = 0
    for place in range(count):
        send_rpc(w, th, now, node, entries[place, 0], entries[place, 1])
        release(w, th, entries[place, 1])


@with_12
def _flush_urgent(w: World, th: int, now: int, node: int) -> None:
    """Send each neighbour in `urgent` one IDONTWANT with all ids for it. The entries are sorted by slot."""
    line = control(w)[th]
    entries = urgent(w)[th]
    alone_part = topic_part(IDONTWANT, -1, framed_control_bytes(field_size(SIMULATED_ID_FIELD)), 1)
    common = sending(w, now, node, alone_part)
    count = line[URGENT]
    line[URGENT] = 0
    start = 0
    while start < count:
        slot = entries[start, 0]
        end = start + 1
        while end < count and entries[end, 0] == slot:
            end += 1
        if end == start + 1 and not w[HAS_LINKS]:
            bytes_out(w)[node] += alone_part.size
            payload = topic_payload(IDONTWANT, entries[start, 1])
            send_in_event(w, th, now, node, slot, alone_part, payload, -1, 0, common)
        else:
            rpc = allocate(w, th, HEADER + PART + end - start)
            arena(w)[rpc] = 1
            part = topic_part(IDONTWANT, -1, field_size((end - start) * SIMULATED_ID_FIELD), end - start)
            write_part(w, rpc, 0, part, HEADER + PART)
            for place in range(start, end):
                arena(w)[rpc + HEADER + PART + place - start] = entries[place, 1]
            send_framed(w, th, now, node, slot, rpc)
        start = end


@kernel
def _fits_an_event(w: World, th: int, ids: int, count: int) -> bool:
    """Return whether an IHAVE fits into the two words of an event, and links need no memory."""
    known = scratch(w)[th]
    return not w[HAS_LINKS] and known[ids + count - 1] - known[ids] <= GOSSIP_SPAN


@kernel
def _send_gossip(w: World, th: int, now: int, node: int, copies: int, topic: int, ids: int, count: int) -> None:
    """Send an IHAVE to the neighbours in the first `copies` entries, as events. An event has the first message, and
    for each further one a bit: bit i for the message with the number of the first plus 1 + i."""
    known = scratch(w)[th]
    first = known[ids]
    others = 0
    for place in range(ids + 1, ids + count):
        others |= 1 << (known[place] - first - 1)
    part = topic_part(IHAVE, topic, framed_control_bytes(ihave_bytes(w, topic, count)), count)
    common = sending(w, now, node, part)
    payload = gossip_payload(first, others)
    via, hops = gossip_rest(others)
    entries = outbox(w)[th]
    for place in range(copies):
        send_in_event(w, th, now, node, entries[place, SLOT], part, payload, via, hops, common)
    bytes_out(w)[node] += copies * part.size
