"""The figures of go-libp2p-pubsub-tracer's `tracestat -cdf`, from a run folder, as text equal to its output.

Rules (cmd/tracestat/main.go):

* Peers are those that have events of their own. Topics are those of publications.
* RPCs count as a whole, and dropped RPCs do not count as sent.
* The delay of a copy (publication or delivery) counts from the first copy of its message anywhere, over all clocks;
  the first copy has no delay. Milliseconds are (nanoseconds + 499999) / 1000000, rounded down; the CDF is cumulative.
* tracestat prints topics in random order; here they are sorted.

An imported run has its events and delays recorded from nanoseconds (`source_record`). A simulated run has
microseconds, its duplicates are derived, and parts that a peer sends to another at the same time count as one RPC.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hearsay.ingest.source_record import SourceRecord, load_delays, load_events, load_source
from hearsay.trace.language.order import group_ids
from hearsay.trace.language.rows import Rows, no_rows
from hearsay.trace.language.schema import NONE, Column, TraceEvent, wire_name
from hearsay.trace.read.reader import RowFilter, read_groups, read_rows
from hearsay.trace.read.show import load_names

_COUNTED = {
    "Published Messages": TraceEvent.PUBLISH,
    "Delivered Messages": TraceEvent.DELIVER,
    "Duplicate Messages": TraceEvent.DUPLICATE,
    "Rejected Messages": TraceEvent.REJECT,
    "Sent RPCs": TraceEvent.SEND_RPC,
    "Dropped RPCs": TraceEvent.DROP_RPC,
}


@dataclass(frozen=True, slots=True)
class TraceStat:
    """The figures of a trace. `events` are counts by TraceEvent; `cdf` has (milliseconds, copies with at most this
    delay)."""

    peers: int
    topics: tuple[str, ...]
    events: Counter[int]
    cdf: tuple[tuple[int, int], ...]
    rpcs_known: bool = True
    """False if the source does not record whole RPCs, as hermes."""

    def to_text(self) -> str:
        lines = ["=== Trace Summary ===", f"Peers: {self.peers}", f"Topics: {','.join(self.topics)}"]
        for title, event in _COUNTED.items():
            known = self.rpcs_known or event not in (TraceEvent.SEND_RPC, TraceEvent.DROP_RPC)
            lines.append(f"{title}: {self.events[event] if known else 'unknown'}")
        lines.append("=== Propagation Delay CDF (ms) ===")
        lines += (f"{delay} {copies}" for delay, copies in self.cdf)
        return "\n".join(lines) + "\n"


def tracestat(run: Path) -> str:
    """Return the output of tracestat for this run."""
    return trace_stat(run).to_text()


def trace_stat(run: Path) -> TraceStat:
    record = load_source(run)
    published = _rows(run, {TraceEvent.PUBLISH})
    names = load_names(run)
    topics = {names.topic(topic) if topic != NONE else "" for topic in np.unique(published[:, Column.TOPIC]).tolist()}
    if record is None:
        return _of_simulation(run, tuple(sorted(topics)))
    return _of_import(run, record, tuple(sorted(topics)))


def _of_import(run: Path, record: SourceRecord, topics: tuple[str, ...]) -> TraceStat:
    codes = {wire_name(event): int(event) for event in TraceEvent}
    events: Counter[int] = Counter()
    peers: set[int] = set()
    for peer, event, count in load_events(run):
        events[codes[event]] += count
        peers.add(peer)
    messages = np.unique(_rows(run, {TraceEvent.PUBLISH, TraceEvent.DELIVER})[:, Column.MESSAGE])
    delays = _cdf(Counter(dict(load_delays(run))), int((messages != NONE).sum()))
    return TraceStat(len(peers), topics, events, delays, "hermes" not in record.formats)


def _of_simulation(run: Path, topics: tuple[str, ...]) -> TraceStat:
    messages = read_rows(run, {"message"}, derive=True)
    rpcs = np.concatenate((messages, read_rows(run, {"rpc"})))
    others = read_rows(run, {"mesh", "node"})
    events: Counter[int] = Counter()
    for event in (TraceEvent.PUBLISH, TraceEvent.DELIVER, TraceEvent.DUPLICATE, TraceEvent.REJECT):
        events[event] = int((messages[:, Column.EVENT] == event).sum())
    for event in (TraceEvent.SEND_RPC, TraceEvent.DROP_RPC):
        parts = rpcs[rpcs[:, Column.EVENT] == event]
        if len(parts):
            _, groups = group_ids([parts[:, column] for column in (Column.TIME_US, Column.PEER, Column.REMOTE)])
            events[event] = int(groups[-1]) + 1
    copies = messages[np.isin(messages[:, Column.EVENT], (TraceEvent.PUBLISH, TraceEvent.DELIVER))]
    peers = np.unique(np.concatenate((rpcs[:, Column.PEER], others[:, Column.PEER])))
    distinct, places = np.unique(copies[:, Column.MESSAGE], return_inverse=True)
    first = np.full(len(distinct), np.iinfo(np.int64).max)
    np.minimum.at(first, places, copies[:, Column.TIME_US])
    delays = ((copies[:, Column.TIME_US] - first[places]) * 1000 + 499_999) // 1_000_000
    values, counts = np.unique(delays, return_counts=True)
    by_delay = Counter(dict(zip(values.tolist(), counts.tolist(), strict=True)))
    return TraceStat(int((peers != NONE).sum()), topics, events, _cdf(by_delay, len(distinct)))


def _cdf(delays: Counter[int], firsts: int) -> tuple[tuple[int, int], ...]:
    samples = Counter(delays)
    samples[0] -= firsts
    cdf: list[tuple[int, int]] = []
    total = 0
    for delay in sorted(delay for delay, copies in samples.items() if copies):
        total += samples[delay]
        cdf.append((delay, total))
    return tuple(cdf)


def _rows(run: Path, events: set[TraceEvent]) -> Rows:
    return np.concatenate([no_rows(), *read_groups(run, {"message"}, RowFilter(events=events))])
