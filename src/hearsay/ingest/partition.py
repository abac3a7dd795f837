"""One partition of an import: its records (`records.py`) are written as trace rows, with numbers in place of names.

Rules:

* A partition has all records of each of its messages. Its messages are numbered in the order of their names in
  records, after the messages of earlier partitions.
* The names of a partition's files contain its number, so a second attempt writes the same files.
* A partition also writes its notes: counts, delays and files. The import adds up the notes of all partitions.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hearsay.core.language.actions import Reason
from hearsay.ingest.records import CLASS_NAMES, CODES, Numbers, empty_rows
from hearsay.ingest.skew import PairDelays, message_facts, pair_delays
from hearsay.trace.folder.arrow import ColumnBuilder, pa, parquet
from hearsay.trace.folder.arrow_compute import compute
from hearsay.trace.folder.durable import write_durably
from hearsay.trace.folder.manifest import TraceFile
from hearsay.trace.folder.writer import PartFiles
from hearsay.trace.language.rows import BY_MESSAGE, CANONICAL, Rows, TraceDigest, order_of
from hearsay.trace.language.schema import CLASSES, NONE, Column, TraceEvent, wire_name

_GROUP_ROWS = 250_000
_NEVER = int(np.iinfo(np.int64).max)
_REASONS = {
    "validation failed": Reason.REJECTED,
    "validation ignored": Reason.IGNORED,
    "validation throttled": Reason.THROTTLED,
    "validation queue full": Reason.THROTTLED,
    "self originated message": Reason.SELF_ORIGIN,
    **{wire_name(reason): reason for reason in Reason},
}
"""Reasons by their names in go-libp2p-pubsub and in traces of this program. Other reasons of go-libp2p-pubsub, such
as blacklists, are only in `source.json`."""
MESSAGES_SCHEMA = pa.schema(
    {
        "message": pa.int64(),
        "topic": pa.int32(),
        "publisher": pa.int32(),
        "bytes": pa.int64(),
        "published_us": pa.int64(),
        "id": pa.string(),
    }
)


@dataclass(frozen=True, slots=True)
class Numbering:
    """The names of a run's peers and topics by number (Arrow arrays), and the origin of the run's clock."""

    peers: Any
    topics: Any
    origin_ns: int
    """Unix time in nanoseconds at which the run's clock is 0."""
    ahead_ns: Numbers | None = None
    """The nanoseconds by which the clock of each peer is ahead. They are subtracted from the peer's times. None to
    change no times."""


@dataclass(frozen=True, slots=True)
class Notes:
    """The notes of a partition: counts, delays and files. Each list of lists has the columns of a table."""

    files: list[dict[str, Any]]
    rows: int
    hash: str
    messages: int
    events: list[list[int]]
    """Columns: peer, event, and the number of such events in the source."""
    first_ns: list[list[int]]
    """Columns: peer, and the Unix time in nanoseconds of its first row, after the correction of its clock."""
    delays_ms: list[list[int]]
    """Columns: milliseconds since the first copy of a message, and the number of copies with this delay."""
    pairs: list[list[int]]
    """The columns of `PairDelays`."""
    reasons: dict[str, int]
    """The number of records with each reason, in the words of the source: rejects and, in live traces, also dropped
    parts."""
    implementations: list[list[Any]]
    """Pairs of a peer's number and its program."""


def write_partition(
    records: Any, numbering: Numbering, run: Path, notes: Path, number: int, first_message: int
) -> None:
    """Write the trace files of the partition `number` into the run folder `run`.

    Write its notes, and its part of the dictionary of messages, into the folder `notes`. The messages of the
    partition are numbered from `first_message` on.
    """
    ids = distinct(records, "message")
    rows, times_ns = _numbered(records, numbering, ids, first_message)
    events = _values(records, "part") == 0
    is_row = ~np.asarray(records.column("class").is_null())
    classes = _codes(records, "class", CLASS_NAMES)[is_row]
    _write_messages(records, rows, is_row, ids, first_message, notes / f"messages-{number:05d}.parquet")
    named = rows[events & (rows[:, Column.EVENT] != NONE)]
    delays = _copy_delays(rows[is_row], times_ns[is_row], first_message, len(ids))
    found = Notes(
        **_write_trace(rows[is_row], classes, run, number),
        messages=len(ids),
        events=_counted(named[:, Column.PEER] * len(TraceEvent) + named[:, Column.EVENT], len(TraceEvent)),
        first_ns=_firsts(rows[is_row, Column.PEER], times_ns[is_row]),
        delays_ms=[each.tolist() for each in np.unique(delays, return_counts=True)],
        pairs=[each.tolist() for each in pair_delays(rows[is_row])],
        reasons=_reasons_given(records, rows),
        implementations=_implementations(records, numbering),
    )
    write_durably(notes / f"notes-{number:05d}.json", json.dumps(asdict(found)).encode())


def distinct(records: Any, *columns: str) -> Any:
    """Return the distinct texts in these columns of dictionary arrays, sorted."""
    chunks = [chunk for column in columns for chunk in records.column(column).chunks]
    used = [chunk.dictionary.take(chunk.indices.drop_null().unique()) for chunk in chunks]
    names = pa.chunked_array(used, pa.string()).unique()
    return names.take(compute.sort_indices(names))


def _codes(records: Any, column: str, names: Any) -> Numbers:
    """Return for each text of a column its index in `names`; -1 for null and for a text that is not in `names`."""
    codes = [np.empty(0, dtype=np.int64)]
    for chunk in records.column(column).chunks:
        places = compute.index_in(chunk.dictionary, value_set=names).fill_null(NONE).to_numpy().astype(np.int64)
        codes.append(np.append(places, NONE)[chunk.indices.fill_null(len(places)).to_numpy()])
    return np.concatenate(codes)


def _values(records: Any, column: str) -> Numbers:
    return records.column(column).fill_null(NONE).to_numpy()


def _numbered(records: Any, numbering: Numbering, ids: Any, first_message: int) -> tuple[Rows, Numbers]:
    """Return the records as rows, and the Unix time of each row in nanoseconds, after the correction of clocks."""
    rows = empty_rows(records.num_rows)
    names = {Column.PEER: numbering.peers, Column.REMOTE: numbering.peers, Column.TOPIC: numbering.topics}
    for column, known in (CODES | names).items():
        rows[:, column] = _codes(records, column.name.lower(), known)
    reasons = _codes(records, "reason", pa.array(list(_REASONS), pa.string()))
    rows[:, Column.REASON] = np.array([*_REASONS.values(), NONE], dtype=np.int64)[reasons]
    for column in (Column.HOPS, Column.BYTES, Column.COUNT):
        rows[:, column] = _values(records, column.name.lower())
    messages = _codes(records, "message", ids)
    rows[:, Column.MESSAGE] = np.where(messages == NONE, NONE, messages + first_message)
    times_ns = _values(records, "time_ns")
    if numbering.ahead_ns is not None:
        times_ns = times_ns - numbering.ahead_ns[rows[:, Column.PEER]]
    rows[:, Column.TIME_US] = (times_ns - numbering.origin_ns) // 1000
    return rows, times_ns


def _write_trace(rows: Rows, classes: Numbers, run: Path, number: int) -> dict[str, Any]:
    digest = TraceDigest()
    digest.add(rows)
    files: list[TraceFile] = []
    builder = ColumnBuilder(min(_GROUP_ROWS, max(len(rows), 1)))
    for place, trace_class in enumerate(CLASSES):
        own = rows[classes == place]
        order = order_of([own[:, column] for column in (BY_MESSAGE if trace_class == "message" else CANONICAL)])
        part = PartFiles(run, trace_class, number)
        for start in range(0, len(own), _GROUP_ROWS):
            part.write_group(builder.build(own[order[start : start + _GROUP_ROWS]]))
        part.finish()
        files += part.finished
    return {"files": [asdict(file) for file in files], "rows": len(rows), "hash": digest.hex()}


def _write_messages(records: Any, rows: Rows, is_row: Any, ids: Any, first: int, path: Path) -> None:
    """Write the dictionary of the partition's messages into the file `path`."""
    facts = message_facts(rows[is_row])
    topic, publisher, published, size = (np.full(len(ids), NONE, dtype=np.int64) for _ in range(4))
    places = facts.message - first
    topic[places], publisher[places], published[places] = facts.topic, facts.publisher, facts.published_us
    known = rows[:, Column.MESSAGE] != NONE
    np.maximum.at(size, rows[known, Column.MESSAGE] - first, _values(records, "data_bytes")[known])
    columns = (np.arange(first, first + len(ids)), topic, publisher, size, published)
    arrays = [
        pa.array(values, field.type, mask=values == NONE)
        for values, field in zip(columns, MESSAGES_SCHEMA, strict=False)
    ]
    table = pa.table([*arrays, ids], schema=MESSAGES_SCHEMA)
    write_durably(path, lambda file: parquet.write_table(table, file, compression="zstd"))


def _copy_delays(rows: Rows, times_ns: Numbers, first_message: int, messages: int) -> Numbers:
    """Return for each copy (a publication or delivery) the milliseconds since the first copy of the message anywhere.

    Delays are rounded from nanoseconds, as in tracestat, and not from the microseconds of rows. The first copy of a
    message has the delay 0.
    """
    copies = np.isin(rows[:, Column.EVENT], (TraceEvent.PUBLISH, TraceEvent.DELIVER))
    copies &= rows[:, Column.MESSAGE] != NONE
    messages_of, times = rows[copies, Column.MESSAGE] - first_message, times_ns[copies]
    first = np.full(messages, _NEVER)
    np.minimum.at(first, messages_of, times)
    return (times - first[messages_of] + 499_999) // 1_000_000


def _counted(keys: Numbers, base: int) -> list[list[int]]:
    """Return `key // base`, `key % base` and the count of each distinct key, as three lists."""
    values, counts = np.unique(keys, return_counts=True)
    return [(values // base).tolist(), (values % base).tolist(), counts.tolist()]


def _firsts(peers: Numbers, times_ns: Numbers) -> list[list[int]]:
    known, places = np.unique(peers, return_inverse=True)
    first = np.full(len(known), _NEVER)
    np.minimum.at(first, places, times_ns)
    return [known.tolist(), first.tolist()]


def _reasons_given(records: Any, rows: Rows) -> dict[str, int]:
    """Return the number of records with each reason, in the words of the source. NODE_DOWN is not included."""
    names = distinct(records, "reason")
    given = _codes(records, "reason", names)
    given = given[(given != NONE) & (rows[:, Column.EVENT] != TraceEvent.NODE_DOWN)]
    counts: list[int] = np.bincount(given, minlength=len(names)).tolist()
    return {name: count for name, count in zip(names.to_pylist(), counts, strict=True) if count}


def _implementations(records: Any, numbering: Numbering) -> list[list[Any]]:
    named = records.filter(records.column("implementation").is_valid())
    peers, programs = _codes(named, "remote", numbering.peers).tolist(), named.column("implementation").to_pylist()
    return [[peer, program] for peer, program in sorted(set(zip(peers, programs, strict=True))) if peer != NONE]


def pairs_of(notes: Notes) -> PairDelays:
    return PairDelays(*(np.array(column, dtype=np.int64) for column in notes.pairs))
