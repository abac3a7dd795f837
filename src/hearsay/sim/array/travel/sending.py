"""Sending RPCs to neighbours, over links with memory or without."""

from __future__ import annotations

from hearsay.core.language.actions import Reason
from hearsay.core.language.events import EventKind
from hearsay.sim.array.machine.compiling import inlined, kernel
from hearsay.sim.array.travel.transport import (
    MAX_INLINE_HOPS,
    arrives_at,
    has_room,
    is_lost,
    leaves_at,
    let_go,
    link_to,
    next_sequence,
    post,
)
from hearsay.sim.array.travel.uplink import has_queue, queue_up
from hearsay.sim.array.world.layout import HAS_LINKS, HAS_LOSS, World, arena, bytes_out, peers
from hearsay.sim.array.world.payload import (
    HEADER,
    IDONTWANT,
    PART,
    Part,
    allocate,
    hold,
    names_hops,
    part_at,
    release,
    rpc_bytes,
    topic_part,
    write_part,
)
from hearsay.sim.array.world.queue import INLINE, gossip_payload, gossip_rest, push, topic_payload
from hearsay.sim.array.world.record import Hash, dropped, sending, sent
from hearsay.sim.array.world.slots import latency


@kernel
def send_message(w: World, th: int, now: int, node: int, slot: int, part: Part) -> None:
    """Send a message as an RPC of its own. `part.hops` are the hops that the copy has when it arrives."""
    size = send_copy(w, th, now, node, slot, part, sending(w, now, node, part))
    bytes_out(w)[node] += size  # not in one statement: `send_copy` changes `bytes_out`, too


@inlined
def send_copy(w: World, th: int, now: int, node: int, slot: int, part: Part, common: Hash) -> int:
    """Send a copy of a message to a neighbour; return the bytes that the caller must add to `bytes_out`.

    `common` is the hash that the rows of all copies have in common (`record.sending`).
    """
    if w[HAS_LINKS] or part.hops > MAX_INLINE_HOPS:
        return _send_over_link(w, th, now, node, slot, part, common)
    peer = peers(w)[slot]
    delay = latency(w, node, peer)
    sent(w, th, now, node, peer, part, delay, common)
    post(w, th, now + delay, peer, node, INLINE | part.message, slot, part.via, part.hops)
    return part.size


@kernel
def _send_over_link(w: World, th: int, now: int, node: int, slot: int, part: Part, common: Hash) -> int:
    if has_queue(w, node):
        rpc = _alone(w, th, part)
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
    arrival = arrives_at(w, node, peer, link, sequence, leaves_at(w, node, part.size, now))
    sent(w, th, now, node, peer, part, arrival - now, common)
    if w[HAS_LOSS] and is_lost(w, node, peer, sequence, 0):
        dropped(w, th, arrival, node, peer, part, Reason.LOST)
    elif part.hops <= MAX_INLINE_HOPS:
        post(w, th, arrival, peer, node, INLINE | part.message, link, part.via, part.hops)
    else:
        post(w, th, arrival, peer, node, _alone(w, th, part), link, -1, 0)
    return part.size


@kernel
def _alone(w: World, th: int, part: Part) -> int:
    """Allocate and hold an RPC with one message; return it."""
    rpc = allocate(w, th, HEADER + PART + 1)
    arena(w)[rpc] = 1
    write_part(w, rpc, 0, part, HEADER + PART if names_hops(part.via) else 0)
    arena(w)[rpc + HEADER + PART] = part.hops
    hold(w, th, rpc)
    return rpc


@inlined
def send_gossip(
    w: World, th: int, now: int, node: int, slot: int, part: Part, first: int, others: int, common: Hash
) -> None:
    """Send one of the copies of an IHAVE, where links need no memory; `others` has a bit for each later message."""
    peer = peers(w)[slot]
    delay = latency(w, node, peer)
    sent(w, th, now, node, peer, part, delay, common)
    via, hops = gossip_rest(others)
    post(w, th, now + delay, peer, node, gossip_payload(first, others), slot, via, hops)


@kernel
def send_topic_part(w: World, th: int, now: int, node: int, slot: int, part: Part) -> None:
    """Send one SUBSCRIBE, UNSUBSCRIBE, GRAFT or PRUNE, where links need no memory."""
    peer = peers(w)[slot]
    delay = latency(w, node, peer)
    bytes_out(w)[node] += part.size
    sent(w, th, now, node, peer, part, delay, sending(w, now, node, part))
    post(w, th, now + delay, peer, node, topic_payload(part.kind, part.topic), slot, -1, 0)


@inlined
def send_unwanted(
    w: World, th: int, now: int, node: int, slot: int, message: int, size: int, common: Hash
) -> None:  # fmt: skip
    """Send an IDONTWANT of one message, where links need no memory."""
    peer = peers(w)[slot]
    delay = latency(w, node, peer)
    bytes_out(w)[node] += size
    sent(w, th, now, node, peer, topic_part(IDONTWANT, -1, size, 1), delay, common)
    post(w, th, now + delay, peer, node, topic_payload(IDONTWANT, message), slot, -1, 0)


@kernel
def send_rpc(w: World, th: int, now: int, node: int, slot: int, rpc: int) -> None:
    """Send a copy of an RPC in the arena, which the caller holds (`payload.hold`), over the neighbour's link."""
    link = link_to(w, slot)
    peer = peers(w)[slot]
    size = rpc_bytes(w, rpc)
    if not has_room(w, node, size, now):
        for index in range(arena(w)[rpc]):
            dropped(w, th, now, node, peer, part_at(w, rpc, index), Reason.QUEUE_FULL)
        hold(w, th, rpc)
        push(w, th, now, node, EventKind.SEND_FAILED, peer, rpc, link)
        return
    leaves = leaves_at(w, node, size, now)
    sequence = next_sequence(w, link)
    if has_queue(w, node):
        queue_up(w, th, now, node, link, rpc, sequence)
    else:
        let_go(w, th, now, arrives_at(w, node, peer, link, sequence, leaves), link, node, peer, rpc, sequence)
