"""Measurements of a node: traffic, connections, durations, delays of its event loop, and its process.

Traffic is counted by topic and by kind of part:

* A topic has counts of its own from the time when the node first joins it. They remain when the node leaves it, so
  that counters never fall. At most `TOPICS` topics have counts of their own; all others are counted together, so that
  peers cannot create counts.
* There are no counts by peer.
* A sent part counts when it is written to the stream, not when it is queued.
"""

from __future__ import annotations

import asyncio
import os
import resource
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, process_time

from hearsay.core.language.actions import (
    DuplicateReceived,
    MessagePublished,
    MessageRejected,
    Reason,
    TopicJoined,
    TraceAction,
)
from hearsay.core.language.identifiers import Identifier, TopicId
from hearsay.core.language.rpc import IWant, Message, PartKind, Rpc
from hearsay.core.language.sizes import PartSize, part_sizes
from hearsay.libp2p.host.node_host import NodeHost
from hearsay.libp2p.names.peer_id import PeerId
from hearsay.node.metrics.openmetrics import Family, Kind

TOPICS = 256
WITH_IDS = (PartKind.IHAVE, PartKind.IWANT, PartKind.IDONTWANT)
"""Kinds of parts whose message ids are counted, too."""


@dataclass(slots=True)
class TopicTraffic:
    """Counts of one topic or of several; bytes are the sizes of encoded messages in RPCs."""

    received: int = 0
    received_bytes: int = 0
    sent: int = 0
    sent_bytes: int = 0
    published: int = 0
    delivered: int = 0
    duplicates: int = 0
    grafts_sent: int = 0
    prunes_sent: int = 0
    rejected: Counter[Reason] = field(default_factory=Counter[Reason])


class Traffic:
    def __init__(self) -> None:
        self.topics: dict[TopicId, TopicTraffic] = {}
        self.others = TopicTraffic()
        """Counts of all topics without counts of their own."""
        self.parts_received: Counter[PartKind] = Counter()
        self.parts_sent: Counter[PartKind] = Counter()
        self.ids_received: Counter[PartKind] = Counter()
        self.ids_sent: Counter[PartKind] = Counter()

    def of(self, topic: TopicId | None) -> TopicTraffic:
        """Return the counts in which a topic is counted."""
        return self.others if topic is None else self.topics.get(topic, self.others)

    def received(self, rpc: Rpc) -> None:
        for kind, topic, size, count in part_sizes(rpc):
            self.parts_received[kind] += 1
            if kind is PartKind.PUBLISH:
                counts = self.of(topic)
                counts.received += 1
                counts.received_bytes += size
            elif kind in WITH_IDS:
                self.ids_received[kind] += count

    def sent(self, parts: Iterable[PartSize]) -> None:
        for kind, topic, size, count in parts:
            self.parts_sent[kind] += 1
            if kind is PartKind.PUBLISH:
                counts = self.of(topic)
                counts.sent += 1
                counts.sent_bytes += size
            elif kind in WITH_IDS:
                self.ids_sent[kind] += count
            elif kind is PartKind.GRAFT:
                self.of(topic).grafts_sent += 1
            elif kind is PartKind.PRUNE:
                self.of(topic).prunes_sent += 1

    def delivered(self, topic: TopicId) -> None:
        self.of(topic).delivered += 1

    def happened(self, action: TraceAction) -> None:
        match action:
            case DuplicateReceived():
                self.of(action.topic).duplicates += 1
            case MessageRejected():
                self.of(action.message.topic).rejected[action.reason] += 1
            case MessagePublished():
                self.of(action.message.topic).published += 1
            case TopicJoined() if len(self.topics) < TOPICS:
                self.topics.setdefault(action.topic, TopicTraffic())
            case _:
                pass


class ConnectionCounts:
    def __init__(self, host: NodeHost) -> None:
        self._host = host
        self._dialled = self._accepted = self._closed = 0
        host.on_peer_up.append(self._up)
        host.on_peer_down.append(self._down)

    def families(self) -> Iterator[Family]:
        connected = Family("libp2p_peers", Kind.GAUGE, "Connected peers, of any protocol")
        yield connected.add(len(self._host.connections))
        opened = Family("libp2p_swarm_connections_opened", Kind.COUNTER, "Peers connected, by direction of the dial")
        yield opened.add_each("dir", (("outbound", self._dialled), ("inbound", self._accepted)))
        closed = Family("libp2p_swarm_connections_closed", Kind.COUNTER, "Peers disconnected")
        yield closed.add(self._closed)
        failed = Family("libp2p_swarm_dial_errors", Kind.COUNTER, "Dials that did not reach the expected peer")
        yield failed.add(self._host.failed_dials)

    def _up(self, peer: PeerId) -> None:
        if self._host.has_dialled(peer):
            self._dialled += 1
        else:
            self._accepted += 1

    def _down(self, peer: PeerId) -> None:
        self._closed += 1


MOST_ASKED = 4096
BOUNDS_S = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


class Histogram:
    """Numbers of durations by bucket, which includes its upper bound, and the sum of the durations in seconds."""

    __slots__ = ("bounds", "counts", "total_s")

    def __init__(self, bounds: tuple[float, ...] = BOUNDS_S) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total_s = 0.0

    def note(self, duration_s: float) -> None:
        self.counts[bisect_left(self.bounds, duration_s)] += 1
        self.total_s += duration_s

    def family(self, name: str, text: str) -> Family:
        return Family(name, Kind.HISTOGRAM, text).add_histogram(self.bounds, self.counts, self.total_s)


class Durations:
    def __init__(self) -> None:
        self.heartbeat = Histogram()
        self.rpc = Histogram()
        self.validation = Histogram()
        self.queued = Histogram()
        self.asking = Histogram()
        self._validated_from: dict[Identifier, float] = {}
        """The time since which each message waits for validators; at most as many messages as may wait."""
        self._asked: dict[Identifier, float] = {}

    def validation_began(self, message: Identifier, since_s: float) -> None:
        self._validated_from[message] = since_s

    def validation_ended(self, message: Identifier) -> None:
        since_s = self._validated_from.pop(message, None)
        if since_s is not None:
            self.validation.note(monotonic() - since_s)

    def asked_for(self, requests: Iterable[IWant]) -> None:
        now_s = monotonic()
        asked = self._asked
        for request in requests:
            for message in request.ids:
                asked.setdefault(message, now_s)
        while len(asked) > MOST_ASKED:
            del asked[next(iter(asked))]

    def copies_received(self, messages: Iterable[Message]) -> None:
        if not self._asked:
            return
        for message in messages:
            since_s = self._asked.pop(message.id, None)
            if since_s is not None:
                self.asking.note(monotonic() - since_s)

    def families(self) -> Iterator[Family]:
        for histogram, name, text in (
            (
                self.heartbeat,
                "gossipsub_heartbeat_duration_seconds",
                "Time of the router for a timer event (heartbeat)",
            ),
            (self.rpc, "hearsay_rpc_handling_seconds", "Time of the router for an RPC or a portion of one"),
            (
                self.validation,
                "gossipsub_async_validation_delay_from_first_seen",
                "Time from a message's first copy to its verdict",
            ),
            (self.asking, "gossipsub_iwant_promise_delivery_seconds", "Time from an IWANT to the first copy"),
            (self.queued, "hearsay_outgoing_queue_wait_seconds", "Time from the creation of an RPC to its sending"),
        ):
            yield histogram.family(name, text)


CHECK_INTERVAL_S = 0.25
DELAY_BOUNDS_S = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0)


class LoopDelay:
    """Measures delays of the event loop until `close` is called."""

    def __init__(self) -> None:
        self.late = Histogram(DELAY_BOUNDS_S)
        self._loop = asyncio.get_running_loop()
        self._due_s = 0.0
        self._arm()

    def close(self) -> None:
        self._timer.cancel()

    def _arm(self) -> None:
        self._due_s = self._loop.time() + CHECK_INTERVAL_S
        self._timer = self._loop.call_at(self._due_s, self._measure)

    def _measure(self) -> None:
        self.late.note(max(0.0, self._loop.time() - self._due_s))
        self._arm()


_PROC = Path("/proc")


def process_families() -> Iterator[Family]:
    used = Family("process_cpu_seconds", Kind.COUNTER, "User and system CPU time of this process")
    yield used.add(process_time())
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY:
        yield Family("process_max_fds", Kind.GAUGE, "Maximum number of open files").add(soft)
    try:
        fields = (_PROC / "self/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        booted = next(
            line for line in (_PROC / "stat").read_text(encoding="ascii").splitlines() if line.startswith("btime ")
        )
        opened = len(os.listdir(_PROC / "self/fd"))
    except (OSError, StopIteration):
        return
    started_s = int(booted.split()[1]) + int(fields[19]) / os.sysconf("SC_CLK_TCK")
    resident = int(fields[21]) * resource.getpagesize()
    for name, text, value in (
        ("process_open_fds", "Number of open files", opened),
        ("process_start_time_seconds", "Start time of this process in Unix seconds", started_s),
        ("process_virtual_memory_bytes", "Virtual memory size", int(fields[20])),
        ("process_resident_memory_bytes", "Resident memory size", resident),
    ):
        yield Family(name, Kind.GAUGE, text).add(value)
