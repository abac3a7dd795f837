"""The transport of RPCs: latency, jitter, loss and the bandwidth of uplinks.

Rules:

* A link is a stream: RPCs arrive in the order in which they leave the node.
* If uplinks have a limited bandwidth, the uplink of a node sends one RPC after the other (`nodes.py`). If an RPC
  does not fit into the queue of the uplink, the RPC is refused, and the router is notified (`SendFailed`).
* A random draw for each part of an RPC decides whether this part is lost. Only messages, partial messages, IHAVE and
  IWANT can be lost; with `loss.control`, GRAFT and PRUNE can also be lost.
* Each part has a SEND_RPC row. The row of the first part includes the bytes of the framing, so that the sizes in all
  rows of an RPC sum to the size of the RPC.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, cast

from hearsay.core.language.actions import CopyWithheld, Reason, Send, Via, Withdraw, fast_init
from hearsay.core.language.events import EventKind, RpcReceived, SendFailed
from hearsay.core.language.identifiers import Micros
from hearsay.core.language.rpc import Message, PartKind, Rpc, knows_idontwant
from hearsay.core.language.sizes import part_sizes
from hearsay.core.language.sizes import rpc_framed_size as framed_size
from hearsay.core.rules.randomness import Purpose
from hearsay.sim.recorder import Parts
from hearsay.sim.reference.nodes import (
    PART_BYTES,
    UPLINK_FREE,
    Link,
    Network,
    SimNode,
    Uplink,
    WaitingRpc,
    framed,
    is_copy,
    is_only_idontwant,
    with_only,
)
from hearsay.trace.language.event_rows import Part, drop_rpc_row
from hearsay.trace.language.schema import NONE

_PUBLISH = int(PartKind.PUBLISH)
_RPC = int(EventKind.RPC_RECEIVED)
_received = fast_init(RpcReceived)
_NOTHING_SENT = RpcReceived(-1, Rpc())
_CONNECT: Part = (int(PartKind.CONNECT), NONE, NONE, NONE, NONE, 1, NONE)


@dataclass(slots=True)
class _MessageState:
    """The topic and size of a message, and the nodes that have the message."""

    topic: int
    size: int
    """The size in bytes of an RPC with only this message."""
    hops: dict[int, int] = field(default_factory=dict[int, int])
    """For each node that has the message: the hops of the message to that node."""


class Transport:
    """The sender of all RPCs of a run; it also writes their trace rows."""

    def __init__(self, network: Network) -> None:
        scenario = network.plan.scenario
        self._latency = network.latency
        self._jitter = network.latency.has_jitter
        self._randomness = network.randomness
        self._queue = network.queue
        self._recorder = network.recorder
        self._topic_numbers = network.topic_numbers
        self._loss_millionths = scenario.loss.rate_millionths
        self._lossy_kinds = {PartKind.PUBLISH, PartKind.PARTIAL, PartKind.METADATA, PartKind.IHAVE, PartKind.IWANT}
        if scenario.loss.control:
            self._lossy_kinds |= {PartKind.GRAFT, PartKind.PRUNE}
        self._uplink_bits_per_s = scenario.links.uplink_bits_per_s
        self._queue_bytes = scenario.links.uplink_queue_bytes
        self._undisturbed = not self._jitter and not self._uplink_bits_per_s
        """True if only latency delays RPCs. Then the RPCs on a link arrive in order without a check."""
        self._messages: dict[Any, _MessageState] = {}
        self._refusals = 0
        self._uplinks: dict[int, Uplink] = {}
        self._busy: dict[Uplink, None] = {}
        """The uplinks for which an UPLINK_FREE entry is queued; a dictionary serves as a set with an order."""
        self._turns = 0
        """The number of UPLINK_FREE entries so far."""

    def register(self, message: Message) -> None:
        """Register a message of the plan before it is published."""
        alone = Rpc(messages=(message,))
        size = framed_size(alone, part_sizes(alone))
        self._messages[message.id] = _MessageState(self._topic_numbers[message.topic], size)

    def set_hops(self, node: SimNode, message: Message, hops: int) -> None:
        """Store that a message reached a node after this number of hops."""
        self._messages[message.id].hops[node.id] = hops

    def hops_at(self, node: int, message: Message) -> int:
        """Return the hops of a message to a node; 0 if the node does not have it."""
        return self._messages[message.id].hops.get(node, 0)

    def create_uplink(self, node: SimNode, now: Micros) -> None:
        """Create an uplink without RPCs for a node that starts."""
        assert node.router is not None
        overtakes = any(map(knows_idontwant, node.router.strategy.protocols))
        self._uplinks[node.id] = Uplink(now, in_order=not overtakes)

    def forget_node(self, node: SimNode) -> None:
        """Forget which messages a node has, because the node stops."""
        for carried in self._messages.values():
            carried.hops.pop(node.id, None)

    def record_dial(self, link: Link, now: Micros) -> None:
        """Record the CONNECT of a dial that begins now. Later RPCs on the link do not arrive before the CONNECT."""
        link.last_arrival_us = now + link.latency_us
        self._recorder.record_send(now, link.source, _CONNECT, link.destination, link.latency_us)

    def record_arrived_dial(self, link: Link, dialled_us: Micros, now: Micros) -> None:
        """Record the CONNECT of a router's dial that began at `dialled_us` and arrives now. Later RPCs on the link do
        not arrive before now."""
        link.last_arrival_us = max(link.last_arrival_us, now)
        self._recorder.record_send(dialled_us, link.source, _CONNECT, link.destination, now - dialled_us)

    def send(self, node: SimNode, sends: Iterable[Any], now: Micros) -> None:
        """Send the RPCs that one event causes, in the order of `sends`. If consecutive sends have the same RPC
        object, their copies share one event and one list of parts."""
        links = node.links
        source = node.id
        record_part = self._recorder.record_part
        destinations = self._recorder.destinations
        delays = self._recorder.delays
        queue = self._queue
        buckets = queue.buckets
        width_us = queue.width_us
        undisturbed = self._undisturbed
        event = _NOTHING_SENT
        rpc = event.rpc
        parts: Parts = ()
        alone = False
        action: Send
        for action in sends:
            destination: Any = action.peer  # the id of a simulated peer is a number
            link = links[destination]
            if not link.open and link.previous is not None:
                link = link.previous  # the peer has returned before the node noticed the loss of the old connection
            if action.rpc is not rpc:
                rpc = action.rpc
                event = _received(source, rpc)
                parts = self._parts(source, action)
                alone = len(parts) == 1 and not self._uplink_bits_per_s
                if alone:
                    record_part(now, source, parts[0])
            if undisturbed:
                delay = link.latency_us
                arrival = now + delay
            elif self._uplink_bits_per_s:
                self._queue_up(node, link, action, event, parts, now)
                continue
            else:
                link.last_arrival_us = arrival = self._arrival(link, link.sequence, now, link.last_arrival_us)
                delay = arrival - now
            if alone:
                destinations.append(destination)
                delays.append(delay)
            else:
                for part in parts:
                    self._recorder.record_send(now, source, part, destination, delay)
            sequence = link.sequence
            link.sequence = sequence + 1
            if self._loss_millionths:
                kept = self._draw_losses(link, event, parts, sequence, arrival)
                if kept is None:
                    continue
                entry = (arrival, destination, _RPC, source, sequence, link, *kept)
            else:
                entry = (arrival, destination, _RPC, source, sequence, link, event, parts)
            bucket = buckets.get(arrival // width_us)
            if bucket is None:
                queue.push(entry)
            else:
                bucket.append(entry)

    def _arrival(self, link: Link, sequence: int, leaves: Micros, last_arrival_us: Micros) -> Micros:
        """Return the time at which an RPC arrives if it leaves the node at the time `leaves`: not before
        `last_arrival_us`, the arrival of the previous RPC on the link."""
        arrival = leaves + link.latency_us
        if self._jitter:
            arrival = max(leaves + 1, arrival + self._latency.jitter_us(link.source, link.destination, sequence))
        return max(arrival, last_arrival_us)

    def _queue_up(
        self, node: SimNode, link: Link, action: Send, event: RpcReceived, parts: Parts, now: Micros
    ) -> None:
        """Queue an RPC for the node's uplink. If the queue has no room, refuse the RPC and notify the router."""
        uplink = self._uplinks[node.id]
        size = sum([part[PART_BYTES] for part in parts])
        waiting_bytes = max(0, uplink.free_us - now) * self._uplink_bits_per_s // 8_000_000
        if self._queue_bytes and waiting_bytes + size > self._queue_bytes:
            self._record_drops(link, parts, now, Reason.QUEUE_FULL)
            self._refusals += 1
            failed = SendFailed(action.peer, action.rpc)
            self._queue.add(now, node.id, EventKind.SEND_FAILED, link.destination, self._refusals, failed)
            return
        takes_us = self._takes_us(parts)
        urgent = not uplink.in_order and is_only_idontwant(event)
        rpc = WaitingRpc(link, event, parts, link.sequence, now, takes_us, urgent)
        link.sequence += 1
        if uplink.in_order:
            self._leave(rpc, uplink.leaves_us(takes_us, now))
            return
        uplink.queue_up(rpc, now)
        if uplink not in self._busy:
            if now >= uplink.busy_until_us:
                self._send_next(uplink, now)
            else:
                self._schedule_next(node.id, uplink)

    def _schedule_next(self, node: int, uplink: Uplink) -> None:
        """Queue an UPLINK_FREE entry for the time at which the current RPC has left."""
        self._busy[uplink] = None
        self._turns += 1
        self._queue.add(uplink.busy_until_us, node, UPLINK_FREE, 0, self._turns, uplink)

    def uplink_free(self, node: int, uplink: Uplink, now: Micros) -> None:
        """Send the next RPC that waits for the uplink of a node, because the current RPC has left."""
        del self._busy[uplink]
        if uplink.waiting:
            self._send_next(uplink, now)
            if uplink.waiting:
                self._schedule_next(node, uplink)

    def _send_next(self, uplink: Uplink, now: Micros) -> None:
        rpc = uplink.next(now)
        self._leave(rpc, uplink.busy_until_us)

    def _leave(self, rpc: WaitingRpc, leaves: Micros) -> None:
        """Record an RPC that leaves the uplink at the time `leaves`, and queue its arrival without its lost parts."""
        link, event, parts = rpc.link, rpc.event, rpc.parts
        link.last_arrival_us = arrival = self._arrival(link, rpc.sequence, leaves, link.last_arrival_us)
        for part in parts:
            delay_us = arrival - rpc.requested_us
            self._recorder.record_send(rpc.requested_us, link.source, part, link.destination, delay_us)
        if self._loss_millionths:
            kept = self._draw_losses(link, event, parts, rpc.sequence, arrival)
            if kept is None:
                return
            event, parts = kept
        self._queue.push((arrival, link.destination, _RPC, link.source, rpc.sequence, link, event, parts))

    def withdraw(self, node: SimNode, action: Withdraw, now: Micros) -> None:
        """Remove the copies of a message to a peer from the RPCs that wait for the uplink."""
        if not self._uplink_bits_per_s:
            return
        uplink = self._uplinks[node.id]
        for rpc in [each for each in uplink.waiting if each.link.destination == action.peer]:
            found = [place for place, part in enumerate(rpc.parts) if is_copy(part, action.message_id)]
            self._record_drops(rpc.link, [rpc.parts[place] for place in found], now, Reason.WITHDRAWN)
            if found:
                kept = [place for place in range(len(rpc.parts)) if place not in found]
                left = with_only(rpc.event.rpc, kept)
                parts = framed(left, [rpc.parts[place] for place in kept])
                uplink.shorten(rpc, RpcReceived(node.id, left), parts, self._takes_us(parts))

    def record_withheld(self, node: SimNode, action: CopyWithheld, now: Micros) -> None:
        """Record a copy of a message that a router did not send because the peer does not want the message."""
        copy = Send(action.peer, Rpc(messages=(action.message,)), (action.via,))
        self._record_drops(node.links[action.peer], self._parts(node.id, copy), now, Reason.UNWANTED)

    def _takes_us(self, parts: Parts) -> Micros:
        """Return the time for which an RPC of these parts occupies an uplink."""
        size = sum([part[PART_BYTES] for part in parts])
        return -(-size * 8_000_000 // self._uplink_bits_per_s)

    def last_arrival_us(self, link: Link) -> Micros:
        """Return the time at which the last of all RPCs that were sent on a link arrives, including RPCs that wait
        for the uplink."""
        uplink = self._uplinks[link.source]
        last, leaves = link.last_arrival_us, uplink.busy_until_us
        for rpc in uplink.waiting:
            leaves += rpc.takes_us
            if rpc.link is link:
                last = self._arrival(link, rpc.sequence, leaves, last)
        return last

    def finish(self) -> None:
        """Send all RPCs that wait for uplinks, at the end of a run."""
        for uplink in self._busy:
            while uplink.waiting:
                self._send_next(uplink, uplink.busy_until_us)
        self._busy.clear()

    def record_unreachable(self, link: Link, parts: Parts, now: Micros) -> None:
        """Record an RPC that is lost because its destination is down or the connection is lost."""
        self._record_drops(link, parts, now, Reason.UNREACHABLE)

    def record_script_copy(self, script: int, target: int, message: Message, now: Micros) -> Micros:
        """Record the copy of a message that the script sends to a node, and return the latency of the copy."""
        delay = self._latency.base_us(script, target)
        self._recorder.record_send(now, script, self._script_part(message), target, delay)
        return delay

    def record_lost_script_copy(self, script: int, target: int, message: Message, now: Micros) -> None:
        """Record that a copy from the script is lost because its target is down."""
        self._recorder.row(drop_rpc_row(now, script, target, self._script_part(message), Reason.UNREACHABLE))

    def _script_part(self, message: Message) -> Part:
        number: Any = message.id
        carried = self._messages[number]
        return (_PUBLISH, carried.topic, number, 1, carried.size, 1, int(Via.INJECT))

    def _record_drops(self, link: Link, parts: Iterable[Part], time: Micros, reason: Reason) -> None:
        """Record that parts of an RPC do not arrive over a link."""
        for part in parts:
            self._recorder.row(drop_rpc_row(time, link.source, link.destination, part, reason))

    def _parts(self, source: int, action: Send) -> Parts:
        """Return the parts of an RPC that a node sends."""
        rpc = action.rpc
        if rpc.control is None and rpc.partial is None and not rpc.subscriptions and len(rpc.messages) == 1:
            [message] = rpc.messages
            number: Any = message.id
            carried = self._messages[number]
            hops = carried.hops.get(source, 0) + 1
            size = carried.size if message.hops is None else framed_size(rpc, part_sizes(rpc))
            return ((_PUBLISH, carried.topic, number, hops, size, 1, int(action.vias[0])),)
        sizes = part_sizes(rpc)
        framing = framed_size(rpc, sizes) - sum([own_bytes for _, _, own_bytes, _ in sizes])
        parts: list[Part] = []
        for kind, name, own_bytes, count in sizes:
            number = hops = via = NONE
            if kind == _PUBLISH:
                position = len(parts) - len(rpc.subscriptions)
                number = cast("int", rpc.messages[position].id)
                hops = self._messages[number].hops.get(source, 0) + 1
                via = int(action.vias[position])
            topic = NONE if name is None else self._topic_numbers[name]
            parts.append((int(kind), topic, number, hops, own_bytes + framing, count, via))
            framing = 0
        return tuple(parts)

    def _draw_losses(
        self, link: Link, event: RpcReceived, parts: Parts, sequence: int, arrival: Micros
    ) -> tuple[RpcReceived, Parts] | None:
        """Draw which parts of an RPC are lost, and record their loss. Return the event and the parts that remain;
        None if no part remains."""
        lost = [
            index
            for index, part in enumerate(parts)
            if part[0] in self._lossy_kinds
            and self._randomness.chance(
                self._loss_millionths, Purpose.LOSS, link.source, link.destination, sequence, index
            )
        ]
        if not lost:
            return event, parts
        self._record_drops(link, [parts[index] for index in lost], arrival, Reason.LOST)
        kept = [index for index in range(len(parts)) if index not in lost]
        if not kept:
            return None
        return RpcReceived(event.peer, with_only(event.rpc, kept)), tuple(parts[index] for index in kept)
