"""How RPCs travel: latency, jitter, loss, uplink bandwidth, first in first out on every link.

Rules:

* A link is a stream: an RPC never arrives before one that was sent earlier on it.
* The uplink of a node sends one RPC after the other (`uplink.py`); a queue beyond its bound refuses the RPC, and the
  router is told (`SendFailed`).
* Loss takes parts of an RPC, each by a draw of its own: messages, partial ones among them, IHAVE and IWANT, and with
  `loss.control` GRAFT and PRUNE too. Subscriptions and connections are never lost.
* A SEND_RPC row per part; the first part of an RPC carries the bytes of its framing, so that bytes add up.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hearsay.core.language.actions import CopyWithheld, Reason, Send, Via, Withdraw
from hearsay.core.language.events import EventKind, RpcReceived, SendFailed
from hearsay.core.language.fast_frozen import fast_init
from hearsay.core.language.identifiers import Micros
from hearsay.core.language.rpc import Message, PartKind, Rpc
from hearsay.core.language.sizes import framed_size, part_sizes
from hearsay.core.mesh.versions import knows_idontwant
from hearsay.core.shell.randomness import Purpose, Randomness
from hearsay.sim.plan.latency import LatencyModel
from hearsay.sim.reference.event_queue import EventQueue
from hearsay.sim.reference.nodes import Link, SimNode
from hearsay.sim.reference.remaining_parts import PART_BYTES, framed, is_copy, without
from hearsay.sim.reference.uplink import Uplink, Waiting, says_only_idontwant
from hearsay.sim.results.recorder import Part, Parts, Recorder
from hearsay.sim.scenario.scenario import Scenario
from hearsay.trace.language.event_rows import drop_rpc_row
from hearsay.trace.language.schema import NONE

_PUBLISH = int(PartKind.PUBLISH)
_RPC = int(EventKind.RPC_RECEIVED)
UPLINK_FREE = len(EventKind) + 1
"""The engine's own kind: an RPC has left a node, and the next one that waits goes."""
_received = fast_init(RpcReceived)
_NOTHING_SENT = RpcReceived(-1, Rpc())
_CONNECT: Part = (int(PartKind.CONNECT), NONE, NONE, NONE, NONE, 1, NONE)


class _MessageState:
    """What the transport knows of one message."""

    __slots__ = ("hops", "size", "topic")

    def __init__(self, topic: int, size: int) -> None:
        self.topic = topic
        self.size = size
        """Bytes of an RPC that carries it alone."""
        self.hops: dict[int, int] = {}
        """By node that has it. In one place for all nodes, because what is under way now is looked at now."""


class Transport:
    def __init__(
        self,
        scenario: Scenario,
        latency: LatencyModel,
        randomness: Randomness,
        queue: EventQueue,
        recorder: Recorder,
        topic_numbers: dict[Any, int],
    ) -> None:
        self._latency = latency
        self._jitter = latency.has_jitter
        self._randomness = randomness
        self._queue = queue
        self._recorder = recorder
        self._topic_numbers = topic_numbers
        self._loss_millionths = scenario.loss.rate_millionths
        self._lossy_kinds = {PartKind.PUBLISH, PartKind.PARTIAL, PartKind.METADATA, PartKind.IHAVE, PartKind.IWANT}
        if scenario.loss.control:
            self._lossy_kinds |= {PartKind.GRAFT, PartKind.PRUNE}
        self._uplink_bits_per_s = scenario.links.uplink_bits_per_s
        self._queue_bytes = scenario.links.uplink_queue_bytes
        self._undisturbed = not self._jitter and not self._uplink_bits_per_s
        """Latency alone: what is sent later on a link arrives later, without a look at what was sent before."""
        self._messages: dict[Any, _MessageState] = {}
        self._refusals = 0
        self._uplinks: dict[int, Uplink] = {}
        self._busy: dict[Uplink, None] = {}
        """Uplinks in which something waits."""
        self._turns = 0

    def learn(self, message: Message) -> None:
        """Note a message's topic number and the bytes of an RPC that carries it alone."""
        alone = Rpc(messages=(message,))
        size = framed_size(alone, part_sizes(alone))
        self._messages[message.id] = _MessageState(self._topic_numbers[message.topic], size)

    def holds(self, node: SimNode, message: Message, hops: int) -> None:
        """A node has a message, which came this far; its copies go one hop further."""
        self._messages[message.id].hops[node.id] = hops

    def hops_at(self, node: int, message: Message) -> int:
        """How far a message came to a node that has it; 0 where it is not."""
        return self._messages[message.id].hops.get(node, 0)

    def started(self, node: SimNode, now: Micros) -> None:
        """A node is up: nothing waits in it."""
        assert node.router is not None
        strategy = node.router.strategy
        overtakes = strategy.withdraws or any(map(knows_idontwant, strategy.protocols))
        self._uplinks[node.id] = Uplink(now, in_order=not overtakes)

    def forget(self, node: SimNode) -> None:
        """A node went down and has nothing any more."""
        for carried in self._messages.values():
            carried.hops.pop(node.id, None)

    def connect(self, link: Link, now: Micros) -> None:
        """A CONNECT travels; what is sent on the link later arrives later."""
        link.last_arrival_us = now + link.latency_us
        self._recorder.sending(now, link.source, _CONNECT)
        self._recorder.destinations.append(link.destination)
        self._recorder.delays.append(link.latency_us)

    def connected(self, link: Link, dialled_us: Micros, now: Micros) -> None:
        """A CONNECT that a router asked for has arrived; what follows on the link arrives after it."""
        link.last_arrival_us = max(link.last_arrival_us, now)
        self._recorder.sending(dialled_us, link.source, _CONNECT)
        self._recorder.destinations.append(link.destination)
        self._recorder.delays.append(now - dialled_us)

    def send(self, node: SimNode, sends: Iterable[Any], now: Micros) -> None:
        """What one event makes a node send, in order. Copies of an RPC share the event it will be, and its parts."""
        links = node.links
        source = node.id
        sending = self._recorder.sending
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
            destination: Any = action.peer  # a number, as all simulated peers
            link = links[destination]
            if not link.open and link.previous is not None:
                link = link.previous  # the peer came back before its loss was noticed
            if action.rpc is not rpc:
                rpc = action.rpc
                event = _received(source, rpc)
                parts = self._parts(source, action)
                alone = len(parts) == 1 and not self._uplink_bits_per_s
                if alone:
                    sending(now, source, parts[0])
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
                    sending(now, source, part)
                    destinations.append(destination)
                    delays.append(delay)
            sequence = link.sequence
            link.sequence = sequence + 1
            if self._loss_millionths:
                kept = self._lose(link, event, parts, sequence, arrival)
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
        """When an RPC arrives that has left the node, not before one that left earlier."""
        arrival = leaves + link.latency_us
        if self._jitter:
            arrival = max(leaves + 1, arrival + self._latency.jitter_us(link.source, link.destination, sequence))
        return max(arrival, last_arrival_us)

    def _queue_up(
        self, node: SimNode, link: Link, action: Send, event: RpcReceived, parts: Parts, now: Micros
    ) -> None:
        """An RPC waits for the uplink, or is refused."""
        uplink = self._uplinks[node.id]
        size = sum([part[PART_BYTES] for part in parts])
        waiting_bytes = max(0, uplink.free_us - now) * self._uplink_bits_per_s // 8_000_000
        if self._queue_bytes and waiting_bytes + size > self._queue_bytes:
            self._refuse(node, link, action, parts, now)
            return
        takes_us = self._takes_us(parts)
        urgent = not uplink.in_order and says_only_idontwant(event)
        rpc = Waiting(link, event, parts, link.sequence, now, takes_us, urgent)
        link.sequence += 1
        if uplink.in_order:
            self._leave(rpc, uplink.leaves_us(takes_us, now))
            return
        uplink.queue_up(rpc, now)
        if uplink not in self._busy:
            if now >= uplink.busy_until_us:
                self._send_next(uplink, now)
            else:
                self._take_turns(node.id, uplink)

    def _take_turns(self, node: int, uplink: Uplink) -> None:
        """What waits is looked at again when what is being sent has left."""
        self._busy[uplink] = None
        self._turns += 1
        self._queue.add(uplink.busy_until_us, node, UPLINK_FREE, 0, self._turns, uplink)

    def uplink_free(self, node: int, uplink: Uplink, now: Micros) -> None:
        """An RPC has left; the next one of those that wait goes."""
        del self._busy[uplink]
        if uplink.waiting:
            self._send_next(uplink, now)
            if uplink.waiting:
                self._take_turns(node, uplink)

    def _send_next(self, uplink: Uplink, now: Micros) -> None:
        rpc = uplink.next(now)
        self._leave(rpc, uplink.busy_until_us)

    def _leave(self, rpc: Waiting, leaves: Micros) -> None:
        """An RPC has left the uplink at a time, and is on its way."""
        link, parts = rpc.link, rpc.parts
        arrival = self._arrival(link, rpc.sequence, leaves, link.last_arrival_us)
        link.last_arrival_us = arrival
        for part in parts:
            self._recorder.sending(rpc.said_us, link.source, part)
            self._recorder.destinations.append(link.destination)
            self._recorder.delays.append(arrival - rpc.said_us)
        event = rpc.event
        if self._loss_millionths:
            kept = self._lose(link, rpc.event, parts, rpc.sequence, arrival)
            if kept is None:
                return
            event, parts = kept
        self._queue.push((arrival, link.destination, _RPC, link.source, rpc.sequence, link, event, parts))

    def withdraw(self, node: SimNode, action: Withdraw, now: Micros) -> None:
        """A copy that waits for the uplink does not go; what else is in its RPC does."""
        if not self._uplink_bits_per_s:
            return
        uplink = self._uplinks[node.id]
        for rpc in [each for each in uplink.waiting if each.link.destination == action.peer]:
            found = [place for place, part in enumerate(rpc.parts) if is_copy(part, action.message_id)]
            for place in found:
                self._drop(node.id, rpc.link.destination, rpc.parts[place], now, Reason.WITHDRAWN)
            if found:
                kept = [place for place in range(len(rpc.parts)) if place not in found]
                left = without(rpc.event.rpc, kept)
                parts = framed(left, [rpc.parts[place] for place in kept])
                uplink.shorten(rpc, RpcReceived(node.id, left), parts, self._takes_us(parts))

    def withheld(self, node: SimNode, action: CopyWithheld, now: Micros) -> None:
        """A copy that would have gone, did its peer not have it."""
        copy = Send(action.peer, Rpc(messages=(action.message,)), (action.via,))
        self._drop(node.id, node.links[action.peer].destination, self._parts(node.id, copy)[0], now, Reason.UNWANTED)

    def _takes_us(self, parts: Parts) -> Micros:
        size = sum([part[PART_BYTES] for part in parts])
        return -(-size * 8_000_000 // self._uplink_bits_per_s)

    def last_arrival_us(self, link: Link) -> Micros:
        """When the last of all that was sent on a link arrives, what waits for the uplink included."""
        uplink = self._uplinks[link.source]
        last, leaves = link.last_arrival_us, uplink.busy_until_us
        for rpc in uplink.waiting:
            leaves += rpc.takes_us
            if rpc.link is link:
                last = self._arrival(link, rpc.sequence, leaves, last)
        return last

    def finish(self) -> None:
        """The run is over: what still waits is sent as if nothing came between."""
        for uplink in self._busy:
            while uplink.waiting:
                self._send_next(uplink, uplink.busy_until_us)
        self._busy.clear()

    def unreachable(self, link: Link, parts: Parts, now: Micros) -> None:
        """An RPC came to a node that is down, or over a connection that is gone."""
        for part in parts:
            self._drop(link.source, link.destination, part, now, Reason.UNREACHABLE)

    def script_copy(self, script: int, target: int, message: Message, now: Micros) -> Micros:
        """A copy from the script to a node; returns its time of flight."""
        delay = self._latency.base_us(script, target)
        self._recorder.sending(now, script, self._script_part(message))
        self._recorder.destinations.append(target)
        self._recorder.delays.append(delay)
        return delay

    def script_copy_lost(self, script: int, target: int, message: Message, now: Micros) -> None:
        self._drop(script, target, self._script_part(message), now, Reason.UNREACHABLE)

    def _script_part(self, message: Message) -> Part:
        carried = self._messages[message.id]
        return (_PUBLISH, carried.topic, self._number(message), 1, carried.size, 1, int(Via.INJECT))

    @staticmethod
    def _number(message: Message) -> int:
        number: Any = message.id
        return number

    def _refuse(self, node: SimNode, link: Link, action: Send, parts: Parts, now: Micros) -> None:
        for part in parts:
            self._drop(link.source, link.destination, part, now, Reason.QUEUE_FULL)
        self._refusals += 1
        failed = SendFailed(action.peer, action.rpc)
        kind = int(EventKind.SEND_FAILED)
        self._queue.add(now, node.id, kind, link.destination, self._refusals, failed)

    def _drop(self, source: int, destination: int, part: Part, time: Micros, reason: Reason) -> None:
        kind, topic, message, hops, size, count, via = part
        self._recorder.row(
            drop_rpc_row(time, kind, source, destination, topic, message, hops, size, count, via, int(reason))
        )

    def _parts(self, source: int, action: Send) -> Parts:
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
            number, hops, via = NONE, NONE, NONE
            if kind == _PUBLISH:
                position = len(parts) - len(rpc.subscriptions)
                number = self._number(rpc.messages[position])
                hops = self._messages[number].hops.get(source, 0) + 1
                via = int(action.vias[position])
            topic = NONE if name is None else self._topic_numbers[name]
            parts.append((int(kind), topic, number, hops, own_bytes + framing, count, via))
            framing = 0
        return tuple(parts)

    def _lose(
        self, link: Link, event: RpcReceived, parts: Parts, sequence: int, arrival: Micros
    ) -> tuple[RpcReceived, Parts] | None:
        """The event and its parts without those that are lost; None when nothing is left."""
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
        for index in lost:
            self._drop(link.source, link.destination, parts[index], arrival, Reason.LOST)
        kept = [index for index in range(len(parts)) if index not in lost]
        if not kept:
            return None
        return RpcReceived(event.peer, without(event.rpc, kept)), tuple(parts[index] for index in kept)
