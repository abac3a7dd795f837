"""Measurements of a node, and their text format OpenMetrics 1.0.

The measurements concern traffic, connections, durations, delays of the event loop, and the process. Traffic is
counted by topic and by kind of part:

* A topic has counters of its own from the time when the node first joins it. They remain when the node leaves the
  topic, so that no counter falls. At most `TOPICS` topics have counters of their own. All other topics are counted
  together, so that peers cannot create counters.
* There are no counters by peer.
* A sent part is counted when it is written to the stream, not when it is queued.

The text has families of samples with names, labels and values. A family has a name, a help text and samples.
`families.toml` has the names and help texts of a node's metrics. The names of a counter's samples have the suffix
`_total`, which the name of its family does not have. The last word of a name may be a unit. The value of a label may
be any text: backslash, quote and line break are escaped, so that no value can forge a line.
"""

from __future__ import annotations

import asyncio
import os
import resource
import tomllib
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from time import monotonic, process_time
from typing import Any

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
from hearsay.libp2p.names.peer_id import PeerId
from hearsay.libp2p.node_host import NodeHost

TOPICS = 256
"""Maximum topics with counters of their own."""
WITH_IDS = (PartKind.IHAVE, PartKind.IWANT, PartKind.IDONTWANT)
"""Kinds of parts whose message ids are counted in addition to the parts."""
MOST_ASKED = 4096
"""Maximum requested message ids whose time is remembered; the oldest is dropped first."""
BOUNDS_S = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
CHECK_INTERVAL_S = 0.25
DELAY_BOUNDS_S = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0)
CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_UNITS = ("seconds", "bytes")
_PROC = Path("/proc")
TABLE: dict[str, dict[str, Any]] = tomllib.loads(Path(__file__).with_name("families.toml").read_text("utf-8"))
Labels = tuple[tuple[str, str], ...]


class Traffic:
    """Counters of messages and of parts of RPCs."""

    def __init__(self) -> None:
        self.topics: dict[TopicId, TopicTraffic] = {}
        self.others = TopicTraffic()
        """The counters of all topics that have no counters of their own."""
        self.parts_received: Counter[PartKind] = Counter()
        self.parts_sent: Counter[PartKind] = Counter()
        self.ids_received: Counter[PartKind] = Counter()
        self.ids_sent: Counter[PartKind] = Counter()

    def of(self, topic: TopicId | None) -> TopicTraffic:
        """Return the counters for a topic; `others` for None."""
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


@dataclass(slots=True)
class TopicTraffic:
    """Counters of one topic or of several topics together. Bytes are the sizes of encoded messages in RPCs."""

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


class ConnectionCounts:
    """Counters of the peers that a host has connected and lost since this object was created."""

    def __init__(self, host: NodeHost) -> None:
        self._host = host
        self._dialled = self._accepted = self._closed = 0
        host.on_peer_up.append(self._up)
        host.on_peer_down.append(self._down)

    def families(self) -> Iterator[Family]:
        yield family("libp2p_peers").add(len(self._host.connections))
        directions = (("outbound", self._dialled), ("inbound", self._accepted))
        yield family("libp2p_swarm_connections_opened").add_each("dir", directions)
        yield family("libp2p_swarm_connections_closed").add(self._closed)
        yield family("libp2p_swarm_dial_errors").add(self._host.failed_dials)

    def _up(self, peer: PeerId) -> None:
        if self._host.has_dialled(peer):
            self._dialled += 1
        else:
            self._accepted += 1

    def _down(self, peer: PeerId) -> None:
        self._closed += 1


class Durations:
    """Histograms of durations in a node."""

    def __init__(self) -> None:
        self.heartbeat = Histogram()
        self.rpc = Histogram()
        self.validation = Histogram()
        self.queued = Histogram()
        """From the creation of an RPC to its sending."""
        self.asking = Histogram()
        """From an IWANT to the first copy of a requested message."""
        self._validated_from: dict[Identifier, float] = {}
        """By message id: the time since which the message waits for its verdict."""
        self._asked: dict[Identifier, float] = {}
        """By message id: the time of the first IWANT for the message."""

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


class LoopDelay:
    """A histogram of the delays of the event loop, measured every `CHECK_INTERVAL_S` seconds until `close`."""

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


class Histogram:
    """The number of durations in each bucket, and their sum in seconds. A bucket includes its upper bound.

    `counts` has one more element than `bounds`: the last one is for durations above all bounds.
    """

    def __init__(self, bounds: tuple[float, ...] = BOUNDS_S) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total_s = 0.0

    def note(self, duration_s: float) -> None:
        self.counts[bisect_left(self.bounds, duration_s)] += 1
        self.total_s += duration_s


def process_families() -> Iterator[Family]:
    yield family("process_cpu_seconds").add(process_time())
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY:
        yield family("process_max_fds").add(soft)
    try:
        fields = (_PROC / "self/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        system = (_PROC / "stat").read_text(encoding="ascii").splitlines()
        booted = next(line for line in system if line.startswith("btime "))
        opened = len(os.listdir(_PROC / "self/fd"))
    except (OSError, StopIteration):
        return
    started_s = int(booted.split()[1]) + int(fields[19]) / os.sysconf("SC_CLK_TCK")
    yield family("process_open_fds").add(opened)
    yield family("process_start_time_seconds").add(started_s)
    yield family("process_virtual_memory_bytes").add(int(fields[20]))
    yield family("process_resident_memory_bytes").add(int(fields[21]) * resource.getpagesize())


class Kind(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    INFO = "info"


_SUFFIXES = {Kind.COUNTER: "_total", Kind.INFO: "_info"}
_KIND_OF = {name: kind for kind in Kind for name in TABLE[kind]}


@dataclass(slots=True)
class Family:
    """Samples with one name, in the order in which they were added. `lines` has their encoded form."""

    name: str
    kind: Kind
    help: str
    lines: list[str] = field(default_factory=list[str])

    def add(self, value: float, labels: Labels = ()) -> Family:
        self._line(_SUFFIXES.get(self.kind, ""), labels, value)
        return self

    def add_each(self, label: str, values: Iterable[tuple[str, float]]) -> Family:
        """Add a sample for each pair of a value of `label` and a number."""
        for text, value in values:
            self.add(value, ((label, text),))
        return self

    def add_histogram(self, histogram: Histogram) -> Family:
        below = 0
        for bound, count in zip((*histogram.bounds, float("inf")), histogram.counts, strict=True):
            below += count
            self._line("_bucket", (("le", _number(bound)),), below)
        self._line("_sum", (), histogram.total_s)
        self._line("_count", (), below)
        return self

    def text(self) -> Iterator[str]:
        yield f"# TYPE {self.name} {self.kind}\n"
        unit = self.name.rpartition("_")[2]
        if unit in _UNITS:
            yield f"# UNIT {self.name} {unit}\n"
        yield f"# HELP {self.name} {_escaped(self.help)}\n"
        yield from self.lines

    def _line(self, suffix: str, labels: Labels, value: float) -> None:
        named = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels)
        self.lines.append(f"{self.name}{suffix}{f'{{{named}}}' if named else ''} {_number(value)}\n")


def family(name: str) -> Family:
    """Return a new family without samples, with the kind and the help text that `families.toml` has for its name."""
    kind = _KIND_OF[name]
    return Family(name, kind, TABLE[kind][name])


def exposition(families: Iterable[Family]) -> bytes:
    """Return the text of all families that have samples, encoded."""
    lines = [line for family in families if family.lines for line in family.text()]
    return "".join((*lines, "# EOF\n")).encode()


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _number(value: float) -> str:
    if value == float("inf"):
        return "+Inf"
    if value == float("-inf"):
        return "-Inf"
    return repr(value)
