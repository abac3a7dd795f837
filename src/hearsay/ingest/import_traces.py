"""The import of traces of real networks into a run folder: read, number, write.

Rules:

* Files are cut into units and decoded to records. A file is imported only if all of its units are good. A file that
  is truncated, corrupt, foreign, empty or mixed, or that repeats the events of an earlier file, is quarantined as a
  whole, by name and reason.
* Peers and topics are numbered in the order of their names. Times count from the earliest event of the good files. So
  the rows of a run depend on the good files alone, not on how they were cut or decoded.
* Records are one partition in this process, and many on Spark (`spark_import`). `partition` writes each partition,
  and notes about it (counts, files, delays); this module adds up the notes.
* The manifest is written last.
* An import does not change times. A join of runs of live nodes and of imports corrects the clocks that are flagged
  (`skew`): it writes the trace, and if clocks are flagged, writes it again with corrected times. All runs of a join
  must be good.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np

from hearsay.ingest.live_runs import LIVE, TRACED, different_folders, message_ids, router_of
from hearsay.ingest.partition import MESSAGES_SCHEMA, Notes, Numbering, distinct, pairs_of, write_partition
from hearsay.ingest.records import SCHEMA
from hearsay.ingest.skew import ClockEstimate, estimate_clocks, merged_delays
from hearsay.ingest.source_record import SourceFile, SourceRecord, columns, write_source
from hearsay.ingest.sources import UNIT_BYTES, records_of, units_of
from hearsay.trace.folder.arrow import pa
from hearsay.trace.folder.arrow_compute import compute
from hearsay.trace.folder.foreign_parquet import open_foreign
from hearsay.trace.folder.manifest import TraceFile, WrittenTrace, load_manifest
from hearsay.trace.language.rows import hash_of_parts
from hearsay.trace.language.schema import CLASSES, TRACE_FOLDER
from hearsay.trace.write.run_folder import DICTIONARIES, RunFolder

MAX_RECORDS_HERE = 3_000_000
"""Maximum records that an import in this process keeps in memory."""
_SCRATCH = ".spill-import"


class NothingImported(Exception):
    """No file could be read, or one of the runs to join could not be read. `record` has the reasons."""

    def __init__(self, record: SourceRecord) -> None:
        super().__init__("no file could be read")
        self.record = record


class TooManyRecords(Exception):
    """The files have more records than this process imports."""


@dataclass(frozen=True, slots=True)
class ImportResult:
    """The result of an import."""

    record: SourceRecord
    rows: int
    peers: int
    messages: int
    clocks: list[ClockEstimate]
    """Clocks as estimated, before a correction."""


@dataclass(frozen=True, slots=True)
class Given:
    """The files (or run folders) of an import, their format (None: recognise it), and the bytes of a unit."""

    paths: Sequence[Path]
    wanted: str | None
    unit_bytes: int


class Records(Protocol):
    """The records of the good files."""

    @property
    def files(self) -> Sequence[SourceFile]:
        """Return the files, in any order."""
        ...

    @property
    def origin_ns(self) -> int:
        """Return the Unix time of the earliest event in nanoseconds."""
        ...

    def names(self, *columns: str) -> Any:
        """Return the distinct texts in these columns, sorted."""
        ...

    def write(self, numbering: Numbering, run: Path, notes: Path) -> None:
        """Write all partitions: their rows to the folder `run`, their notes to the folder `notes`."""
        ...


Reader: TypeAlias = Callable[[Given, Path], Records]
"""Reads the given files. The folder is for temporary files."""


@dataclass(frozen=True, slots=True)
class _RecordsHere:
    files: Sequence[SourceFile]
    origin_ns: int
    table: Any

    def names(self, *columns: str) -> Any:
        return distinct(self.table, *columns)

    def write(self, numbering: Numbering, run: Path, notes: Path) -> None:
        write_partition(self.table, numbering, run, notes, 0, 0)


def read_here(given: Given, scratch: Path, most: int = MAX_RECORDS_HERE) -> Records:
    """Read the records in this process. Raises `TooManyRecords` if they need too much memory."""
    files: list[SourceFile] = []
    good: list[Any] = []
    firsts: dict[object, str] = {}
    count = 0
    for path in given.paths:
        batches: list[Any] = []
        for unit in units_of(path, given.wanted, given.unit_bytes):
            for batch in records_of(unit):
                batches.append(batch)
                count += batch.num_rows
                if count > most:
                    raise TooManyRecords(f"more than {most:,} records")
        table = pa.Table.from_batches(batches, SCHEMA)
        problem, format_ = (next(iter(distinct(table, column).to_pylist()), None) for column in ("error", "format"))
        events = int(np.count_nonzero(table.column("part").to_numpy() == 0))
        times: dict[str, int | None] = compute.min_max(table.column("time_ns")).as_py()
        names = [str(distinct(table, column).to_pylist()) for column in ("peer", "kind")]
        problem = problem or repeated(firsts, str(path), events, table.num_rows, *times.values(), *names)
        files.append(SourceFile(str(path), format_, 0 if problem else events, problem))
        if not problem:
            good.append(table)
    table = pa.concat_tables([SCHEMA.empty_table(), *good])
    return _RecordsHere(files, compute.min(table.column("time_ns")).as_py() or 0, table)


def repeated(firsts: dict[object, str], name: str, *span: object) -> str | None:
    """Return a reason to refuse a file whose `span` (counts, times and peers) an earlier file has; otherwise None."""
    first = firsts.setdefault(span, name)
    return None if first == name else f"the same events as {first}"


def import_traces(
    files: Sequence[Path],
    run: RunFolder,
    *,
    wanted: str | None = None,
    read: Reader = read_here,
    unit_bytes: int = UNIT_BYTES,
) -> ImportResult:
    """Import the files into the run folder. `wanted` is their format; None to recognise the format of each file."""
    imported, written = _assembled(Given(files, wanted, unit_bytes), run, read)
    return _sealed(run, imported, written)


def join_runs(runs: Sequence[Path], run: RunFolder, *, read: Reader = read_here) -> ImportResult:
    """Join runs of live nodes and of imports into the run folder. Raises `RunFolderError` if one is neither."""
    folders = different_folders(runs)
    imported, written = _assembled(Given(folders, LIVE, UNIT_BYTES), run, read, message_ids(folders), joining=True)
    router = router_of(folders)
    if router is not None:
        run.write_text_atomic("summary.json", json.dumps({"router": router}) + "\n")
    return _sealed(run, imported, written, all(load_manifest(folder).complete for folder in folders))


def _assembled(
    given: Given, run: RunFolder, read: Reader, ids: Mapping[str, str] | None = None, *, joining: bool = False
) -> tuple[ImportResult, WrittenTrace]:
    """Write all files but the manifest. `ids` has the id of each message, if the records name messages by numbers."""
    with _scratch(run.path / _SCRATCH) as scratch:
        records = read(given, scratch)
        by_name = {file.name: file for file in records.files}
        record = SourceRecord(None, tuple(by_name[str(path)] for path in given.paths), {})
        if len(record.quarantined) == len(record.files) or (joining and record.quarantined):
            raise NothingImported(record)
        numbering = Numbering(records.names("peer", "remote"), records.names("topic"), records.origin_ns)
        notes = _written(records, numbering, run.path, scratch)
        clocks = _clocks(notes)
        ahead_us = {clock.peer: clock.offset_us for clock in clocks if clock.flagged and clock.offset_us is not None}
        if joining and ahead_us:
            numbering = _with_clocks_right(numbering, notes, ahead_us)
            shutil.rmtree(run.path / TRACE_FOLDER)
            notes = _written(records, numbering, run.path, scratch)
        reasons = sum((Counter(each.reasons) for each in notes), Counter[str]())
        record = replace(record, origin_unix_ns=numbering.origin_ns, reject_reasons=dict(sorted(reasons.items())))
        events = _events(notes)
        _write_names(run, numbering, {peer for peer, _, _ in events}, notes)
        run.write_batches(f"{DICTIONARIES}/messages", MESSAGES_SCHEMA, _messages(scratch, ids))
    _write_clocks(run, clocks, ahead_us if joining else {})
    delays = sum((Counter(dict(zip(*each.delays_ms, strict=True))) for each in notes), Counter[int]())
    write_source(run, record, events, delays)
    trace = _trace(notes)
    return ImportResult(record, trace.rows, len(numbering.peers), sum(each.messages for each in notes), clocks), trace


def _sealed(run: RunFolder, imported: ImportResult, written: WrittenTrace, complete: bool = True) -> ImportResult:
    run.write_manifest(written, seed=None, complete=complete, source="+".join(imported.record.formats))
    return imported


@contextmanager
def _scratch(folder: Path) -> Generator[Path]:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _written(records: Records, numbering: Numbering, run: Path, scratch: Path) -> list[Notes]:
    records.write(numbering, run, scratch)
    return [Notes(**json.loads(path.read_bytes())) for path in sorted(scratch.glob("notes-*.json"))]


def _trace(notes: Sequence[Notes]) -> WrittenTrace:
    files = [TraceFile(**file) for each in notes for file in each.files]
    files.sort(key=lambda file: (CLASSES.index(file.trace_class), file.name))
    rows = sum(each.rows for each in notes)
    return WrittenTrace(tuple(files), rows, hash_of_parts(each.hash for each in notes))


def _clocks(notes: Sequence[Notes]) -> list[ClockEstimate]:
    peers = sorted({peer for peer, _, _ in _events(notes)})
    return estimate_clocks(merged_delays([pairs_of(each) for each in notes]), peers)


def _with_clocks_right(numbering: Numbering, notes: Sequence[Notes], ahead_us: Mapping[int, int]) -> Numbering:
    """Return the numbering that subtracts `ahead_us` from the times of each peer, with the origin that results."""
    ahead_ns = np.zeros(len(numbering.peers) + 1, dtype=np.int64)
    for peer, ahead in ahead_us.items():
        ahead_ns[peer] = ahead * 1000
    origin_ns = min(first - int(ahead_ns[peer]) for each in notes for peer, first in zip(*each.first_ns, strict=True))
    return replace(numbering, ahead_ns=ahead_ns, origin_ns=origin_ns)


def _events(notes: Sequence[Notes]) -> list[tuple[int, int, int]]:
    """Return (peer, event, number of events) over all partitions, sorted."""
    counts: Counter[tuple[int, int]] = Counter()
    for each in notes:
        for peer, event, count in zip(*each.events, strict=True):
            counts[peer, event] += count
    return [(peer, event, count) for (peer, event), count in sorted(counts.items())]


def _write_names(run: RunFolder, numbering: Numbering, tracing: set[int], notes: Sequence[Notes]) -> None:
    peers = range(len(numbering.peers))
    programs = dict(sorted((peer, program) for each in notes for peer, program in each.implementations))
    run.write_peers(
        peers,
        numbering.peers.to_pylist(),
        [TRACED if peer in tracing else "mentioned" for peer in peers],
        [None] * len(peers),
        [programs.get(peer) for peer in peers],
    )
    run.write_topics(range(len(numbering.topics)), numbering.topics.to_pylist())


def _messages(scratch: Path, ids: Mapping[str, str] | None) -> Iterator[Any]:
    """Yield the rows of the dictionary of messages, partition by partition, with `ids` in place of names."""
    for path in sorted(scratch.glob("messages-*.parquet")):
        for batch in open_foreign(path).iter_batches():
            names = batch.column("id").cast(pa.string())
            if ids is not None:
                names = pa.array([ids.get(name) for name in names.to_pylist()], pa.string())
            yield pa.RecordBatch.from_arrays([*batch.columns[:-1], names], schema=MESSAGES_SCHEMA)


def _write_clocks(run: RunFolder, clocks: Sequence[ClockEstimate], put_back_us: Mapping[int, int]) -> None:
    fields = (
        "peer int32, reference int32, offset_us int64, uncertainty_us int64, pairs int32, smallest_delay_us int64, "
        "flagged bool, put_back_us int64"
    )
    rows = [(*astuple(clock), put_back_us.get(clock.peer, 0)) for clock in clocks]
    run.write_table("skew", columns(fields, rows))
