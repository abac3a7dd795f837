"""Delivery, forwarding and publishing of messages (`core.shell.router`; the strategies' `accepted` and `publish`)."""

from __future__ import annotations

import numpy as np

from hearsay.core.language.actions import Reason, Via
from hearsay.core.language.events import EventKind
from hearsay.core.rules.message_rules import ACCEPTED, DUPLICATE, first_copy, served_in_a_heartbeat
from hearsay.core.rules.message_rules import ASKED as ASKED_NOW
from hearsay.core.rules.randomness import Purpose
from hearsay.core.rules.score_parts import gets_published
from hearsay.sim.array.compiling import inlined, kernel
from hearsay.sim.array.episub.basics import has_trees
from hearsay.sim.array.episub.tree import OWN, accept_in_tree, duplicate_in_tree, spread
from hearsay.sim.array.rules.checks import check_delivery
from hearsay.sim.array.rules.features import may_send_parts, without_requesters
from hearsay.sim.array.rules.mesh import mesh_size
from hearsay.sim.array.rules.promises import note_accepted, note_duplicate, note_first_copy, note_rejected, uses_11
from hearsay.sim.array.rules.scores import has_scores, real, score
from hearsay.sim.array.rules.special_peers import choose, direct_subscribers, is_direct, places, with_direct
from hearsay.sim.array.rules.unwanted import (
    is_sender,
    note_sender,
    send_idontwants,
    skips_senders,
    uses_idontwant,
    without_unwanted,
)
from hearsay.sim.array.travel.outbox import begin_message, put_forwarded, put_message
from hearsay.sim.array.world import lists
from hearsay.sim.array.world.draws import draw_topic, extend, pick
from hearsay.sim.array.world.knowledge import bits, cache, column, mark_seen, was_seen
from hearsay.sim.array.world.layout import (
    ACCEPTING,
    ALL_NATIVE,
    ASKED,
    CHOSEN,
    DATA_BYTES,
    DEGREE,
    DEGREE_LOW,
    DELIVERED,
    FANOUT,
    FANOUT_AT_PUBLISH,
    FLOOD_PUBLISH,
    FLOOD_RATE,
    FLOODSUB,
    GOSSIPSUB,
    HANDED,
    HAS_DIRECT,
    HAS_VERDICTS,
    HOPS,
    HOPS_CAP,
    IN_FANOUT,
    IN_MESH,
    INTERVAL,
    MAX_PENDING,
    MESHSUB,
    MISSED,
    NAMED_HOPS,
    PART_WORDS,
    PENDING,
    PUBLISH_FROM,
    PUBLISHED,
    PUBLISHER,
    RANDOMSUB,
    REACH,
    REACHED_OF,
    REASON,
    REFUSED,
    ROUTER_KIND,
    SCRIPT,
    SENDERS,
    STARTS,
    SUBSCRIBED,
    TELLS_OWN,
    TICK,
    TOP_UP_MESH,
    TOPIC,
    USES_12,
    VALIDATE,
    VALIDATION,
    World,
    accepting,
    candidates,
    cells,
    control,
    counts,
    fanout_us,
    flags,
    handed,
    members,
    messages,
    nodes32,
    nodes64,
    part_heads,
    peers,
    verdicts,
    words_at,
)
from hearsay.sim.array.world.payload import (
    HEADER,
    PART,
    PART_COUNT,
    PART_HOPS,
    PART_MESSAGE,
    PART_TOPIC,
    PART_VIA,
    PUBLISH,
    allocate,
    hold,
    make_part,
    part_place,
    write_part,
)
from hearsay.sim.array.world.queue import push
from hearsay.sim.array.world.record import DELIVERIES, DUPLICATES, PUBLISHES, REACHED, count_delivery, row
from hearsay.sim.array.world.slots import end_slot, first_slot, is_in, is_native, parameter
from hearsay.trace.language.event_rows import deliver_row, publish_row, reject_row

_HOPS_CLEAR = ~(np.uint64(HOPS_CAP) << np.uint64(HOPS))


@kernel
def deliver(w: World, th: int, now: int, node: int, message: int, remote: int, hops: int, via: int) -> None:
    info = messages(w)[message]
    at = column(w, message)
    cell = cells(w)[node, at]
    check_delivery(w, th, now, node, message)
    if bits(cell, MISSED):
        cell &= ~np.uint64(MISSED)
        if w[HAS_VERDICTS]:
            verdicts(w)[message, REACHED_OF + th] += 1
        else:
            counts(w)[th, REACHED] += 1
    cell = cell & _HOPS_CLEAR | np.uint64(DELIVERED) | np.uint64(min(hops, HOPS_CAP)) << np.uint64(HOPS)
    cells(w)[node, at] = cell
    counts(w)[th, DELIVERIES] += 1
    row(w, th, deliver_row(now, node, remote, info[TOPIC], message, hops, via))
    if node != info[PUBLISHER]:
        count_delivery(w, th, now - info[PUBLISHED], hops)
    if w[PART_WORDS] and part_heads(w)[node, info[TOPIC], CHOSEN]:
        handed(w)[th, control(w)[th, HANDED]] = message
        control(w)[th, HANDED] += 1


@kernel
def receive(w: World, th: int, now: int, node: int, sender: int, message: int, hops: int, via: int) -> None:
    """Handle a copy of a message that a peer sent (SHELL-2, COPY-1, COPY-2, COPY-3, COPY-4, COPY-5, COPY-6)."""
    if was_seen(w, now, node, message):
        _count_duplicate(w, th, now, node, sender, message)
        return
    info = messages(w)[message]
    topic = info[TOPIC]
    at = column(w, message)
    verdict = first_copy(
        is_in(w, node, topic),
        info[PUBLISHER] == node,
        bits(cells(w)[node, at], ASKED),
        parameter(w, node, VALIDATE) == 0,
        nodes64(w)[node, PENDING],
        parameter(w, node, MAX_PENDING),
    )
    if verdict == ACCEPTED or verdict == ASKED_NOW:
        if uses_idontwant(w, node):
            send_idontwants(w, th, node, message, sender)
        if uses_11(w, node):
            note_first_copy(w, now, node, sender, message)
        mark_seen(w, now, node, message)
    if verdict == ACCEPTED:
        _accept(w, th, now, node, sender, message, hops, via)
    elif verdict == ASKED_NOW:
        cells(w)[node, at] |= np.uint64(ASKED)
        nodes64(w)[node, PENDING] += 1
        _start_validation(w, th, now, node, sender, message, hops, via)
    elif verdict == DUPLICATE:
        _count_duplicate(w, th, now, node, sender, message)
    else:
        _reject(w, th, now, node, sender, message, verdict)


@kernel
def _count_duplicate(w: World, th: int, now: int, node: int, sender: int, message: int) -> None:
    counts(w)[th, DUPLICATES] += 1
    if uses_11(w, node):
        note_duplicate(w, now, node, sender, message)
    if skips_senders(w, node):
        note_sender(w, node, message, sender)
    if has_trees(w, node):
        duplicate_in_tree(w, th, now, node, sender, message)


@kernel
def _reject(w: World, th: int, now: int, node: int, sender: int, message: int, reason: int) -> None:
    topic = messages(w)[message, TOPIC]
    row(w, th, reject_row(now, PUBLISH, node, sender, topic, message, 1, reason))
    if uses_11(w, node):
        note_rejected(w, now, node, sender, message, reason)


@kernel
def _start_validation(w: World, th: int, now: int, node: int, sender: int, message: int, hops: int, via: int) -> None:
    """Ask the application to validate a message, and queue the event of the answer.

    Until the answer, the arena has these values in the layout of a part: the node's STARTS, the sender, the message,
    its hops, the hops field of the copy (0 for none), and its via.
    """
    place = allocate(w, th, HEADER + PART)
    waiting = make_part(nodes32(w)[node, STARTS], sender, message, hops, 0, control(w)[th, NAMED_HOPS], via)
    write_part(w, place, 0, waiting, 0)
    hold(w, th, place)
    push(w, th, now + w[VALIDATION], node, EventKind.MESSAGE_VALIDATED, message, place, 0)


@kernel
def on_validated(w: World, th: int, now: int, node: int, place: int) -> None:
    """Handle the application's verdict on a message (SHELL-4).

    `place` is the index of the values that `_start_validation` stored. The caller checks that the node has not
    restarted since then.
    """
    note = words_at(w, part_place(place, 0))
    message = note[PART_MESSAGE]
    nodes64(w)[node, PENDING] -= 1
    cells(w)[node, column(w, message)] &= ~np.uint64(ASKED)
    reason = _refusal(w, node, message)
    if reason >= 0:
        verdicts(w)[message, REFUSED] = 1
        _reject(w, th, now, node, note[PART_TOPIC], message, reason)
    elif not is_in(w, node, messages(w)[message, TOPIC]):
        _reject(w, th, now, node, note[PART_TOPIC], message, Reason.NOT_SUBSCRIBED)
    else:
        control(w)[th, NAMED_HOPS] = note[PART_COUNT]
        _accept(w, th, now, node, note[PART_TOPIC], message, note[PART_HOPS], note[PART_VIA])


@kernel
def _refusal(w: World, node: int, message: int) -> int:
    """Return the reason for which a node's application refuses a message; -1 if the application accepts it."""
    if not w[HAS_VERDICTS] or accepting(w)[verdicts(w)[message, ACCEPTING], node]:
        return -1
    return verdicts(w)[message, REASON]


@kernel
def _accept(w: World, th: int, now: int, node: int, sender: int, message: int, hops: int, via: int) -> None:
    deliver(w, th, now, node, message, sender, hops, via)
    kind = parameter(w, node, ROUTER_KIND)
    if uses_11(w, node):
        note_accepted(w, now, node, sender, message)
    if kind == GOSSIPSUB:
        cache(w, node, message)
    if kind >= MESHSUB:
        _forward(w, th, now, node, message, sender)
        if skips_senders(w, node):
            lists.remove(w, node, SENDERS, message, -1)
    elif has_trees(w, node):
        accept_in_tree(w, th, now, node, sender, message, control(w)[th, NAMED_HOPS])
        if not w[ALL_NATIVE]:
            _flood(w, th, now, node, message, sender)
    elif kind == RANDOMSUB:
        _send_by_randomsub(w, th, now, node, message, sender)
    else:
        _flood(w, th, now, node, message, sender)


@kernel
def publish(w: World, th: int, now: int, node: int, source: int, message: int) -> None:
    """Publish a message of the node's application, or one that the script injects (`source` is the script)."""
    if source != w[SCRIPT]:
        counts(w)[th, PUBLISHES] += 1
    if messages(w)[message, PUBLISHER] == w[SCRIPT]:
        publish_message(w, th, now, node, message, w[SCRIPT], 1, Via.INJECT)
    else:
        publish_message(w, th, now, node, message, -1, 0, -1)


@kernel
def publish_message(w: World, th: int, now: int, node: int, message: int, remote: int, hops: int, via: int) -> None:
    """Publish a message; if the node has seen it, count a duplicate instead.

    The row of the delivery gets `remote`, `hops` and `via`.
    """
    info = messages(w)[message]
    topic = info[TOPIC]
    if was_seen(w, now, node, message):
        counts(w)[th, DUPLICATES] += 1
        return
    mark_seen(w, now, node, message)
    if info[PUBLISHER] == node:
        row(w, th, publish_row(now, node, topic, message, 0, info[DATA_BYTES]))
    if is_in(w, node, topic):
        deliver(w, th, now, node, message, remote, hops, via)
    kind = parameter(w, node, ROUTER_KIND)
    if kind == FLOODSUB:
        _flood(w, th, now, node, message, -1)
    elif kind == RANDOMSUB:
        _send_by_randomsub(w, th, now, node, message, -1)
    elif has_trees(w, node):
        if is_in(w, node, topic):
            spread(w, th, now, node, message, 0, 0, OWN)
        else:
            _forward_to_candidates(w, th, message, native_subscribers(w, th, node, topic, 0), Via.FANOUT, -1)
        if not w[ALL_NATIVE]:
            _flood(w, th, now, node, message, -1)
    elif kind == MESHSUB:
        if not is_in(w, node, topic):
            _to_random_peers(w, th, node, message)
        _forward(w, th, now, node, message, -1)
    else:
        _publish_gossipsub(w, th, now, node, message)


@kernel
def _publish_gossipsub(w: World, th: int, now: int, node: int, message: int) -> None:
    if uses_11(w, node):
        note_accepted(w, now, node, -1, message)
    cache(w, node, message)
    if uses_idontwant(w, node) and parameter(w, node, TELLS_OWN):
        send_idontwants(w, th, node, message, -1)
    floods = parameter(w, node, FLOOD_PUBLISH) != 0
    if is_in(w, node, messages(w)[message, TOPIC]):
        if parameter(w, node, TOP_UP_MESH):
            _top_up(w, th, now, node, message)
    elif not floods or parameter(w, node, FLOOD_RATE) > 0:
        use_fanout(w, th, now, node, messages(w)[message, TOPIC])
        _to_marked(w, th, now, node, message, -1, IN_FANOUT, Via.FANOUT)
    _forward(w, th, now, node, message, -1)
    if floods:
        _flood_publish(w, th, now, node, message)


@kernel
def _flood_publish(w: World, th: int, now: int, node: int, message: int) -> None:
    """Send a message of the node to native subscribers that do not get it by the mesh or the fan-out (JUDGE-3).

    With FLOOD_RATE, only a random sample of these subscribers gets it (JUDGE-7).
    """
    topic = messages(w)[message, TOPIC]
    rate = parameter(w, node, FLOOD_RATE)
    inside = IN_MESH if is_in(w, node, topic) else IN_FANOUT if rate else 0
    size = _outside(w, th, now, node, topic, inside)
    if rate:
        served = mesh_size(w, node, topic) if inside == IN_MESH else fanout_size(w, node, topic)
        interval_ms = parameter(w, node, INTERVAL) // 1000
        data_bytes = messages(w)[message, DATA_BYTES]
        places = served_in_a_heartbeat(data_bytes, rate, interval_ms, parameter(w, node, DEGREE_LOW))
        state = draw_topic(w, Purpose.PUBLISH_TOP_UP, node, topic, message)
        size = pick(w, th, state, size, max(0, places - served))
    if may_send_parts(w, node, topic):
        size = without_requesters(w, th, node, topic, size)
    _forward_to_candidates(w, th, message, size, Via.FLOOD_PUBLISH, -1)


@kernel
def may_get_published(w: World, th: int, now: int, node: int, slot: int) -> bool:
    """Return whether a peer may get the node's own messages (THRESHOLD-3, STANDING-1).

    It may if it is a direct peer or its score is high enough.
    """
    return is_direct(w, node, slot) or gets_published(score(w, th, now, node, slot), real(w, node, PUBLISH_FROM))


@kernel
def _outside(w: World, th: int, now: int, node: int, topic: int, inside: int) -> int:
    """Collect as candidates the native subscribers that lack the flag `inside`; return their number.

    Direct peers are left out, and so are peers whose scores are too low to get the node's own messages.
    """
    size = native_subscribers(w, th, node, topic, inside)
    if not has_scores(w, node) and not w[HAS_DIRECT]:
        return size
    known = candidates(w)[th]
    kept = 0
    for place in range(size):
        if not is_direct(w, node, known[place]) and may_get_published(w, th, now, node, known[place]):
            known[kept] = known[place]
            kept += 1
    return kept


@kernel
def _forward(w: World, th: int, now: int, node: int, message: int, came_from: int) -> None:
    """Forward a message to the mesh, to peers that are not native, and to direct peers (GOSSIP-1)."""
    topic = messages(w)[message, TOPIC]
    if is_in(w, node, topic):
        _to_marked(w, th, now, node, message, came_from, IN_MESH, Via.MESH)
    if not w[ALL_NATIVE]:
        _flood(w, th, now, node, message, came_from)
    if w[HAS_DIRECT]:
        _to_direct(w, th, now, node, message, came_from)


@inlined
def _recipients(w: World, th: int, now: int, node: int, message: int, via: int, size: int) -> int:
    """Remove the candidates that get no copy of a message; return the number of those that are left."""
    if may_send_parts(w, node, messages(w)[message, TOPIC]):
        size = without_requesters(w, th, node, messages(w)[message, TOPIC], size)
    return without_unwanted(w, th, now, node, message, via, size) if w[USES_12] else size


@with_direct
def _to_direct(w: World, th: int, now: int, node: int, message: int, came_from: int) -> None:
    """Forward a message to the native direct peers that are subscribed to its topic, whatever their scores."""
    info = messages(w)[message]
    known = candidates(w)[th]
    size = 0
    for place in range(direct_subscribers(w, th, node, info[TOPIC])):
        known[size] = known[place]
        peer = peers(w)[known[place]]
        size += int(peer != came_from and peer != info[PUBLISHER])
    _forward_to_candidates(w, th, message, _recipients(w, th, now, node, message, Via.DIRECT, size), Via.DIRECT, -1)


@kernel
def _to_marked(w: World, th: int, now: int, node: int, message: int, came_from: int, flag: int, via: int) -> None:
    """Forward a message to the mesh (`flag` is IN_MESH) or the fan-out (`flag` is IN_FANOUT) of its topic."""
    info = messages(w)[message]
    topic = info[TOPIC]
    publisher = info[PUBLISHER]
    table = flags(w)
    numbers = peers(w)
    known = candidates(w)[th]
    size = 0
    for slot in range(first_slot(w, node), end_slot(w, node)):
        known[size] = slot
        peer = numbers[slot]
        size += np.int64((table[slot, topic] & flag != 0) & (peer != came_from) & (peer != publisher))
    size = _recipients(w, th, now, node, message, via, int(size))
    short = begin_message(w, th, message, via)
    for place in range(size):
        put_message(w, th, known[place], message, via, short)


@kernel
def _flood(w: World, th: int, now: int, node: int, message: int, came_from: int) -> None:
    """Send a message to the subscribers that are not native, unless their scores are too low.

    Rules: FLOOD-1, FLOOD-2, JUDGE-4.
    """
    topic = messages(w)[message, TOPIC]
    table = flags(w)
    begun = False
    short = False
    for slot in range(first_slot(w, node), end_slot(w, node)):
        if table[slot, topic] & SUBSCRIBED and not is_native(w, slot):
            if has_scores(w, node) and not may_get_published(w, th, now, node, slot):
                continue
            if skips_senders(w, node) and is_sender(w, node, message, peers(w)[slot]):
                continue
            if not begun:
                short = begin_message(w, th, message, Via.FLOOD)
                begun = True
            put_forwarded(w, th, slot, message, Via.FLOOD, came_from, short)


@kernel
def _forward_to_candidates(w: World, th: int, message: int, size: int, via: int, came_from: int) -> None:
    known = candidates(w)[th]
    short = begin_message(w, th, message, via)
    for place in range(size):
        put_forwarded(w, th, known[place], message, via, came_from, short)


@kernel
def _send_by_randomsub(w: World, th: int, now: int, node: int, message: int, came_from: int) -> None:
    """Send a message as randomsub does (RANDOM-1, RANDOM-2).

    It goes to up to REACH random native subscribers, then to all subscribers that are not native.
    """
    info = messages(w)[message]
    topic = info[TOPIC]
    known = candidates(w)[th]
    size = 0
    for slot in range(first_slot(w, node), end_slot(w, node)):
        peer = peers(w)[slot]
        native = flags(w)[slot, topic] & SUBSCRIBED and is_native(w, slot)
        if native and peer != came_from and peer != info[PUBLISHER]:
            known[size] = slot
            size += 1
    state = draw_topic(w, Purpose.RANDOMSUB, node, topic, message)
    size = pick(w, th, state, size, parameter(w, node, REACH))
    _forward_to_candidates(w, th, message, size, Via.RANDOM, came_from)
    _flood(w, th, now, node, message, came_from)


@kernel
def native_subscribers(w: World, th: int, node: int, topic: int, without: int) -> int:
    """Collect as candidates the native subscribers of a topic that lack the flag `without`; return their number.

    If `without` is 0, these are all native subscribers.
    """
    known = candidates(w)[th]
    table = flags(w)
    size = 0
    for slot in range(first_slot(w, node), end_slot(w, node)):
        known[size] = slot
        size += np.int64((table[slot, topic] & (SUBSCRIBED | without) == SUBSCRIBED) & is_native(w, slot))
    return int(size)


@kernel
def _to_random_peers(w: World, th: int, node: int, message: int) -> None:
    """Send a message as meshsub does if the topic is not joined: to up to D random native subscribers (MESH-7)."""
    topic = messages(w)[message, TOPIC]
    size = native_subscribers(w, th, node, topic, 0)
    size = pick(w, th, draw_topic(w, Purpose.FANOUT, node, topic, message), size, parameter(w, node, DEGREE))
    _forward_to_candidates(w, th, message, size, Via.FANOUT, -1)


@kernel
def _top_up(w: World, th: int, now: int, node: int, message: int) -> None:
    """Send a message of the node to random peers outside the mesh, as many as members are missing for D
    (GOSSIP-2)."""
    topic = messages(w)[message, TOPIC]
    missing = parameter(w, node, DEGREE) - mesh_size(w, node, topic)
    size = _outside(w, th, now, node, topic, IN_MESH)
    size = pick(w, th, draw_topic(w, Purpose.PUBLISH_TOP_UP, node, topic, message), size, missing)
    size = _recipients(w, th, now, node, message, Via.TOP_UP, size)
    _forward_to_candidates(w, th, message, size, Via.TOP_UP, -1)


@kernel
def use_fanout(w: World, th: int, now: int, node: int, topic: int) -> None:
    """Create or renew the fan-out of a topic that is not joined, because the node publishes a message (FANOUT-1)."""
    members(w)[node, topic] |= FANOUT
    fanout_us(w)[node, topic] = now
    if parameter(w, node, FANOUT_AT_PUBLISH) or fanout_size(w, node, topic) == 0:
        top_up_fanout(w, th, now, node, topic)


@kernel
def fanout_size(w: World, node: int, topic: int) -> int:
    size = 0
    for slot in range(first_slot(w, node), end_slot(w, node)):
        size += int(flags(w)[slot, topic] & IN_FANOUT != 0)
    return size


@kernel
def top_up_fanout(w: World, th: int, now: int, node: int, topic: int) -> None:
    """Fill the fan-out of a topic up to D peers (FANOUT-2)."""
    size = fanout_size(w, node, topic)
    missing = parameter(w, node, DEGREE) - size
    if missing <= 0:
        return
    state = extend(draw_topic(w, Purpose.FANOUT, node, topic, nodes32(w)[node, TICK]), np.uint64(size))
    count = _outside(w, th, now, node, topic, IN_FANOUT)
    if places(w, node):
        chosen = choose(w, th, node, topic, state, count, missing, missing, IN_FANOUT)
    else:
        chosen = pick(w, th, state, count, missing)
    for place in range(chosen):
        flags(w)[candidates(w)[th, place], topic] |= IN_FANOUT
