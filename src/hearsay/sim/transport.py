"""How RPCs travel: latency, jitter, loss, uplink bandwidth, first in first out on every link.

Rules:

* A link is a stream: an RPC never arrives before one that was sent earlier on it.
* The uplink of a node sends one RPC after the other; a queue beyond its bound refuses the RPC, and the router is
  told (`SendFailed`).
* Loss takes parts of an RPC, each by a draw of its own: messages, IHAVE and IWANT, and with `loss.control` GRAFT and
  PRUNE too. Subscriptions and connections are never lost.
* A SEND_RPC row per part; the first part of an RPC carries the bytes of its framing, so that bytes add up.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

from hearsay.core.actions import Reason, Send, Via
from hearsay.core.events import EventKind, RpcReceived, SendFailed
from hearsay.core.identifiers import Micros
from hearsay.core.randomness import Purpose, Randomness
from hearsay.core.rpc import Control, Message, PartKind, Rpc
from hearsay.core.sizes import framed_size, part_sizes
from hearsay.sim.event_queue import EventQueue
from hearsay.sim.latency import LatencyModel
from hearsay.sim.nodes import Link, SimNode
from hearsay.sim.recorder import Recorder
from hearsay.sim.scenario import Scenario
from hearsay.trace.rows import pack_row
from hearsay.trace.schema import NONE, TraceEvent

_SEND = int(TraceEvent.SEND_RPC)
_DROP = int(TraceEvent.DROP_RPC)
_PUBLISH = int(PartKind.PUBLISH)
_RPC = int(EventKind.RPC_RECEIVED)


Part: TypeAlias = tuple[int, int, int, int, int, int, int]
"""One part of an RPC as the trace tells it: kind, topic, message, hops, bytes, count, via."""


class Cargo(NamedTuple):
    """An RPC under way, shared by all copies of it: the event it will be, and what the trace says of it."""

    event: RpcReceived
    parts: tuple[Part, ...]
    hops: tuple[int, ...]
    vias: tuple[int, ...]
    bytes: int


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
        self._values = recorder.values
        self._topic_numbers = topic_numbers
        self._loss_millionths = scenario.loss.rate_millionths
        self._lossy_kinds = {PartKind.PUBLISH, PartKind.IHAVE, PartKind.IWANT}
        if scenario.loss.control:
            self._lossy_kinds |= {PartKind.GRAFT, PartKind.PRUNE}
        self._uplink_bits_per_s = scenario.links.uplink_bits_per_s
        self._queue_bytes = scenario.links.uplink_queue_bytes
        self._sizes: dict[Any, tuple[int, int]] = {}
        self._refusals = 0

    def learn(self, message: Message) -> None:
        """Note a message's topic number and the bytes of an RPC that carries it alone."""
        alone = Rpc(messages=(message,))
        size = framed_size(alone, part_sizes(alone))
        self._sizes[message.id] = (self._topic_numbers[message.topic], size)

    def connect(self, link: Link, now: Micros) -> None:
        """A CONNECT travels; what is sent on the link later arrives later."""
        link.last_arrival_us = now + link.latency_us
        self._recorder.sent[PartKind.CONNECT] += 1
        kind = int(PartKind.CONNECT)
        self._recorder.row(
            now, _SEND, kind, link.source, link.destination, -1, -1, -1, -1, 1, -1, link.latency_us, -1
        )

    def connected(self, link: Link, dialled_us: Micros, now: Micros) -> None:
        """A CONNECT that a router asked for has arrived; what follows on the link arrives after it."""
        link.last_arrival_us = max(link.last_arrival_us, now)
        self._recorder.sent[PartKind.CONNECT] += 1
        kind = int(PartKind.CONNECT)
        self._recorder.row(
            dialled_us, _SEND, kind, link.source, link.destination, -1, -1, -1, -1, 1, -1, now - dialled_us, -1
        )

    def send(self, node: SimNode, sends: Iterable[Any], now: Micros) -> None:
        """What one event makes a node send, in order."""
        links = node.links
        source = node.id
        sent = self._recorder.sent
        record = self._values.frombytes
        buckets = self._queue.buckets
        width_us = self._queue.width_us
        rpc: Rpc | None = None
        cargo: Cargo | None = None
        action: Send
        for action in sends:
            link = links[action.peer]
            if not link.open and link.previous is not None:
                link = link.previous  # the peer came back before its loss was noticed
            if action.rpc is not rpc or cargo is None:
                rpc = action.rpc
                cargo = self._cargo(node, action)
            leaves = now
            if self._uplink_bits_per_s:
                leaves = self._through_uplink(node, link, action, cargo, now)
                if leaves is None:
                    continue
            sequence = link.sequence
            link.sequence = sequence + 1
            arrival = leaves + link.latency_us
            if self._jitter:
                jitter = self._latency.jitter_us(source, link.destination, sequence)
                arrival = max(leaves + 1, arrival + jitter)
            if arrival < link.last_arrival_us:
                arrival = link.last_arrival_us
            link.last_arrival_us = arrival
            delay = arrival - now
            destination = link.destination
            for kind, topic, message, hops, size, count, via in cargo.parts:
                sent[kind] += 1
                record(
                    pack_row(now, _SEND, kind, source, destination, topic, message, hops, size, count, via, delay, -1)
                )
            arriving = cargo
            if self._loss_millionths:
                arriving = self._lose(link, cargo, sequence, arrival)
                if arriving is None:
                    continue
            entry = (arrival, destination, _RPC, source, sequence, link, arriving)
            bucket = buckets.get(arrival // width_us)
            if bucket is None:
                self._queue.push(entry)
            else:
                bucket.append(entry)

    def _through_uplink(self, node: SimNode, link: Link, action: Send, cargo: Cargo, now: Micros) -> Micros | None:
        """When the last bit of an RPC leaves the node; None when its queue is full."""
        waiting_us = max(0, node.uplink_free_us - now)
        waiting_bytes = waiting_us * self._uplink_bits_per_s // 8_000_000
        if self._queue_bytes and waiting_bytes + cargo.bytes > self._queue_bytes:
            self._refuse(node, link, action, cargo, now)
            return None
        bits = cargo.bytes * 8_000_000
        node.uplink_free_us = now + waiting_us + -(-bits // self._uplink_bits_per_s)
        return node.uplink_free_us

    def unreachable(self, link: Link, cargo: Cargo, now: Micros) -> None:
        """An RPC came to a node that is down, or over a connection that is gone."""
        for part in cargo.parts:
            self._drop(link.source, link.destination, part, now, Reason.UNREACHABLE)

    def script_copy(self, script: int, target: int, message: Message, now: Micros) -> Micros:
        """A copy from the script to a node; returns its time of flight."""
        delay = self._latency.base_us(script, target)
        self._recorder.sent[PartKind.PUBLISH] += 1
        kind, *rest = self._script_part(message)
        self._recorder.row(now, _SEND, kind, script, target, *rest, delay, -1)
        return delay

    def script_copy_lost(self, script: int, target: int, message: Message, now: Micros) -> None:
        self._drop(script, target, self._script_part(message), now, Reason.UNREACHABLE)

    def _script_part(self, message: Message) -> Part:
        topic, size = self._sizes[message.id]
        return (_PUBLISH, topic, self._number(message), 1, size, 1, int(Via.INJECT))

    @staticmethod
    def _number(message: Message) -> int:
        number: Any = message.id
        return number

    def _refuse(self, node: SimNode, link: Link, action: Send, cargo: Cargo, now: Micros) -> None:
        for part in cargo.parts:
            self._drop(link.source, link.destination, part, now, Reason.QUEUE_FULL)
        self._refusals += 1
        failed = SendFailed(action.peer, action.rpc)
        self._queue.push((now, node.id, int(EventKind.SEND_FAILED), link.destination, self._refusals, failed, None))

    def _drop(self, source: int, destination: int, part: Part, time: Micros, reason: Reason) -> None:
        kind, *rest = part
        self._recorder.row(time, _DROP, kind, source, destination, *rest, -1, int(reason))

    def _cargo(self, node: SimNode, action: Send) -> Cargo:
        rpc = action.rpc
        event = RpcReceived(node.id, rpc)
        if rpc.control is None and not rpc.subscriptions and len(rpc.messages) == 1:
            number = self._number(rpc.messages[0])
            topic, size = self._sizes[number]
            if rpc.messages[0].hops is not None:
                size = framed_size(rpc, part_sizes(rpc))
            hops = node.hops.get(number, 0) + 1
            via = int(action.vias[0])
            return Cargo(event, ((_PUBLISH, topic, number, hops, size, 1, via),), (hops,), (via,), size)
        hops = tuple([node.hops.get(message.id, 0) + 1 for message in rpc.messages])
        vias = tuple(map(int, action.vias))
        sizes = part_sizes(rpc)
        size = framed_size(rpc, sizes)
        framing = size - sum([own_bytes for _, _, own_bytes, _ in sizes])
        parts: list[Part] = []
        for kind, name, own_bytes, count in sizes:
            message, hop, via = NONE, NONE, NONE
            if kind is PartKind.PUBLISH:
                position = len(parts) - len(rpc.subscriptions)
                message, hop, via = self._number(rpc.messages[position]), hops[position], vias[position]
            topic = NONE if name is None else self._topic_numbers[name]
            parts.append((int(kind), topic, message, hop, own_bytes + framing, count, via))
            framing = 0
        return Cargo(event, tuple(parts), hops, vias, size)

    def _lose(self, link: Link, cargo: Cargo, sequence: int, arrival: Micros) -> Cargo | None:
        """The cargo without the parts that are lost; None when nothing is left."""
        lost = [
            index
            for index, part in enumerate(cargo.parts)
            if part[0] in self._lossy_kinds
            and self._randomness.chance(
                self._loss_millionths, Purpose.LOSS, link.source, link.destination, sequence, index
            )
        ]
        if not lost:
            return cargo
        for index in lost:
            self._drop(link.source, link.destination, cargo.parts[index], arrival, Reason.LOST)
        kept = [index for index in range(len(cargo.parts)) if index not in lost]
        return _without(cargo, kept) if kept else None


def _without(cargo: Cargo, kept: list[int]) -> Cargo:
    """A cargo with only the parts at these positions."""
    rpc = cargo.event.rpc
    first_message = len(rpc.subscriptions)
    first_control = first_message + len(rpc.messages)
    messages = [index - first_message for index in kept if first_message <= index < first_control]
    rest = [index - first_control for index in kept if index >= first_control]
    control = _control_without(rpc.control, rest) if rpc.control is not None and rest else None
    remaining = replace(rpc, messages=tuple(rpc.messages[position] for position in messages), control=control)
    return Cargo(
        RpcReceived(cargo.event.peer, remaining),
        tuple(cargo.parts[index] for index in kept),
        tuple(cargo.hops[position] for position in messages),
        tuple(cargo.vias[position] for position in messages),
        cargo.bytes,
    )


def _control_without(control: Control, kept: list[int]) -> Control:
    fields: list[tuple[Any, ...]] = []
    start = 0
    for parts in (
        control.ihave, control.iwant, control.graft, control.prune, control.extensions, control.episub,
    ):  # fmt: skip
        fields.append(tuple(part for position, part in enumerate(parts, start) if position in kept))
        start += len(parts)
    return Control(*fields)
