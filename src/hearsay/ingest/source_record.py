"""Facts about the source of a run: the source record of an import, and the output of go-libp2p's tracestat.

The source record, `source.json` and the tables in `source/`, has facts of an import that trace rows cannot have:

* `source.json` has the origin of the run's clock (nanoseconds since 1970), and every given file with its format, its
  number of events, and the reason if it was quarantined. It also has the number of rejects by reason, in the words of
  the source; with live traces, dropped parts are also counted.
* `source/events.parquet` has the number of events in the source by peer and event. An RPC is one event, although the
  trace has a row for each of its parts, and no row for an RPC without parts. In hermes and live traces, which do not
  show whole RPCs, each part is one event.
* `source/delays.parquet` has the number of copies by their delays: the milliseconds since the first copy of the same
  message, rounded from nanoseconds.

`tracestat` computes the output of `tracestat -cdf`, a tool of go-libp2p-pubsub-tracer, from a run folder. Rules
(cmd/tracestat/main.go):

* The number of peers is that of the peers that have recorded events. Topics are the topics of publications.
* An RPC is one event, whatever its number of parts. A dropped RPC is not also a sent RPC.
* The delay of a copy (a publication or a delivery) is the time since the first copy of the same message at any peer,
  whatever the clocks of the two peers are. The first copy itself has no delay.
* Delays in milliseconds are (nanoseconds + 499999) / 1000000, rounded down. The CDF has cumulative numbers of copies.
* tracestat prints topics in random order; here they are sorted.

In an imported run, events and delays are those that the import computed from nanoseconds. In a simulated run, times
are in microseconds, duplicates are derived, and parts that a peer sends to another peer at the same time count as one
RPC. An RPC with parts that are lost on the way counts as sent and as dropped.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from hearsay.foreign_files import parse_json, read_bytes
from hearsay.trace.folder.arrow import pa, read_table
from hearsay.trace.folder.manifest import MAX_BYTES, RunFolderError
from hearsay.trace.folder.run_folder import RunFolder
from hearsay.trace.language.rows import Rows, group_ids, no_rows
from hearsay.trace.language.schema import NONE, Column, TraceEvent, wire_name
from hearsay.trace.reader import RowFilter, load_names, read_groups, read_rows

SOURCE = "source.json"
_EVENTS, _DELAYS = "source/events", "source/delays"
_COUNTED = {
    "Published Messages": TraceEvent.PUBLISH,
    "Delivered Messages": TraceEvent.DELIVER,
    "Duplicate Messages": TraceEvent.DUPLICATE,
    "Rejected Messages": TraceEvent.REJECT,
    "Sent RPCs": TraceEvent.SEND_RPC,
    "Dropped RPCs": TraceEvent.DROP_RPC,
}


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A given file. `reason` is the reason of its quarantine; None if the file is not quarantined."""

    name: str
    format: str | None
    events: int
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """The content of `source.json`."""

    origin_unix_ns: int | None
    files: tuple[SourceFile, ...]
    reject_reasons: dict[str, int]

    @property
    def quarantined(self) -> tuple[SourceFile, ...]:
        return tuple(file for file in self.files if file.reason is not None)

    @property
    def formats(self) -> tuple[str, ...]:
        return tuple(sorted({file.format for file in self.files if file.format and file.reason is None}))


def write_source(
    run: RunFolder,
    record: SourceRecord,
    events_of_peer: Sequence[tuple[int, int, int]],
    delays: Counter[int],
) -> None:
    """Write the source record. `events_of_peer` are (peer, event, number of events). `delays` has the number of
    copies with each delay in milliseconds.
    """
    run.write_text_atomic(SOURCE, json.dumps(asdict(record), indent=2, ensure_ascii=False) + "\n")
    events = [(peer, wire_name(TraceEvent(event)), count) for peer, event, count in events_of_peer]
    run.write_table(_EVENTS, columns("peer int32, event string, events int64", events))
    run.write_table(_DELAYS, columns("delay_ms int64, copies int64", sorted(delays.items())))


def columns(fields: str, rows: Sequence[Sequence[object]]) -> dict[str, Any]:
    """Return rows as an Arrow array for each column. `fields` names columns and types: "peer int32, event string"."""
    kinds = [field.split() for field in fields.split(", ")]
    return {
        name: pa.array([row[at] for row in rows], pa.type_for_alias(kind)) for at, (name, kind) in enumerate(kinds)
    }


def load_source(run: Path) -> SourceRecord | None:
    """Return the content of `source.json` of an imported run; None for other runs. Raises `RunFolderError`."""
    path = run / SOURCE
    try:
        document: Any = parse_json(read_bytes(path, MAX_BYTES))
        fields = cast("dict[str, Any]", document)
        return SourceRecord(
            fields["origin_unix_ns"],
            tuple(SourceFile(**file) for file in fields["files"]),
            dict(fields["reject_reasons"]),
        )
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RunFolderError(f"{path}: cannot be read ({error.strerror or error})") from error
    except (ValueError, KeyError, TypeError) as error:
        missing = " is missing" if isinstance(error, KeyError) else ""
        raise RunFolderError(f"{path}: not the record of an import ({error}{missing})") from error


def load_events(run: Path) -> list[tuple[int, str, int]]:
    """Return (peer, event, number of events) for each peer and event of an imported run."""
    table = read_table(run / f"{_EVENTS}.parquet", ["peer", "events"], ["event"])
    return list(zip(table["peer"], table["event"], table["events"], strict=True))


def load_delays(run: Path) -> list[tuple[int, int]]:
    """Return the pairs (delay in milliseconds, number of copies) of an imported run, in ascending order."""
    table = read_table(run / f"{_DELAYS}.parquet", ["delay_ms", "copies"])
    return list(zip(table["delay_ms"], table["copies"], strict=True))


@dataclass(frozen=True, slots=True)
class TraceStat:
    """The numbers that tracestat prints."""

    peers: int
    topics: tuple[str, ...]
    events: Counter[int]
    """The number of events by `TraceEvent`."""
    cdf: tuple[tuple[int, int], ...]
    """Pairs of milliseconds and the number of copies that have at most this delay."""
    rpcs_known: bool = True
    """False if the source does not record whole RPCs, as hermes does not."""

    def to_text(self) -> str:
        lines = ["=== Trace Summary ===", f"Peers: {self.peers}", f"Topics: {','.join(self.topics)}"]
        for title, event in _COUNTED.items():
            known = self.rpcs_known or event not in (TraceEvent.SEND_RPC, TraceEvent.DROP_RPC)
            lines.append(f"{title}: {self.events[event] if known else 'unknown'}")
        lines.append("=== Propagation Delay CDF (ms) ===")
        lines += (f"{delay} {copies}" for delay, copies in self.cdf)
        return "\n".join(lines) + "\n"


def tracestat(run: Path) -> str:
    """Return the output of tracestat for the run in a folder."""
    return trace_stat(run).to_text()


def trace_stat(run: Path) -> TraceStat:
    """Return the numbers of tracestat for the run in a folder."""
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
