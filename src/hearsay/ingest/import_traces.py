"""The import of traces of real networks into a run folder. Files are read, names are numbered, and rows are written.

Rules:

* Files are cut into units (`sources.py`) and decoded to records (`records.py`). A file is imported only if all of its
  units can be read. A file that is truncated, corrupt, foreign, empty or mixed is quarantined as a whole, with its
  name and the reason. So is a file that has the same events as an earlier file. All other files are good.
* Peers and topics are numbered in the order of their names. Times are relative to the earliest event of the good
  files. So the rows of a run depend only on the good files, and not on how they were cut into units or decoded.
* This process handles all records as one partition, Spark as many partitions (`spark_import.py`). `partition.py`
  writes the rows of each partition, and its notes: counts, files and delays. This module adds up the notes.
* The manifest is written last.
* An import does not change times. A join of runs of live nodes and of imports writes the trace and estimates the
  clocks (`skew.py`). If clocks are flagged, the join writes the trace again with corrected times. A join fails if one
  of its runs is quarantined.
"""

from __future__ import annotations

import json
import shutil
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from hearsay.ingest.live_runs import LIVE, TRACED, folders_to_join, message_ids, router_of
from hearsay.ingest.partition import MESSAGES_SCHEMA, Notes, Numbering, distinct, pairs_of, write_partition
from hearsay.ingest.records import SCHEMA
from hearsay.ingest.skew import ClockEstimate, estimate_clocks, merged_delays
from hearsay.ingest.source_record import SourceFile, SourceRecord, columns, write_source
from hearsay.ingest.sources import UNIT_BYTES, records_of, units_of
from hearsay.trace.folder.arrow import pa
from hearsay.trace.folder.arrow_compute import compute
from hearsay.trace.folder.foreign_parquet import open_foreign
from hearsay.trace.folder.manifest import TraceFile, WrittenTrace, load_manifest
from hearsay.trace.folder.run_folder import DICTIONARIES, RunFolder
from hearsay.trace.language.rows import hash_of_parts
from hearsay.trace.language.schema import CLASSES, TRACE_FOLDER

MAX_RECORDS_HERE = 3_000_000
"""Maximum number of records that an import in this process keeps in memory."""
_SCRATCH = ".spill-import"


class NothingImported(Exception):
    """The error that all files of an import, or at least one run of a join, are quarantined.

    `record` has the reasons.
    """

    def __init__(self, record: SourceRecord) -> None:
        super().__init__("all files of the import, or a run of the join, are quarantined")
        self.record = record


class TooManyRecords(Exception):
    """The error that the files have more records than an import in this process may keep in memory."""


@dataclass(frozen=True, slots=True)
class ImportResult:
    """The result of an import or of a join: numbers of the written run, and its source record."""

    record: SourceRecord
    rows: int
    peers: int
    messages: int
    clocks: list[ClockEstimate]
    """The estimated clocks before their correction."""


@dataclass(frozen=True, slots=True)
class ImportInput:
    """The input of an import: files, or the run folders of a join."""

    paths: Sequence[Path]
    wanted: str | None
    """The format of all files; None to recognise the format of each file."""
    unit_bytes: int
    """The size of the units into which files are cut."""


@dataclass(frozen=True, slots=True)
class Records(ABC):
    """The records of the good files of an import."""

    files: Sequence[SourceFile]
    """All given files, including the quarantined ones, in any order."""
    origin_ns: int
    """Unix time in nanoseconds of the earliest event of the good files; 0 if there is none."""

    @abstractmethod
    def names(self, *columns: str) -> Any:
        """Return the distinct texts in these columns, sorted, as an Arrow array."""

    @abstractmethod
    def write(self, numbering: Numbering, run: Path, notes: Path) -> None:
        """Write all partitions: their rows into the run folder `run`, their notes into the folder `notes`."""


Reader: TypeAlias = Callable[[ImportInput, Path], Records]
"""A function that reads the files of an input. The path is a folder for temporary files."""


@dataclass(frozen=True, slots=True)
class _RecordsHere(Records):
    table: Any

    def names(self, *columns: str) -> Any:
        return distinct(self.table, *columns)

    def write(self, numbering: Numbering, run: Path, notes: Path) -> None:
        write_partition(self.table, numbering, run, notes, 0, 0)


def read_here(given: ImportInput, scratch: Path, most: int = MAX_RECORDS_HERE) -> Records:
    """Read the files of an input in this process. Raises `TooManyRecords` if they have more than `most` records."""
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
    """Return the reason to quarantine the file `name` if an earlier file has the same events; otherwise None.

    Files with the same `span` (counts, first and last time, peers and kinds) are regarded as having the same events.
    `firsts` has the first file with each span; the function adds `name` to it if its span is new.
    """
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
    """Import files into a run folder. `wanted` is their format; None to recognise the format of each file.

    `files` must not repeat a path, because the events of a repeated path are imported again. Raises
    `NothingImported`, or `TooManyRecords` if `read` does.
    """
    return _import(ImportInput(files, wanted, unit_bytes), run, read)


def join_runs(runs: Sequence[Path], run: RunFolder, *, read: Reader = read_here) -> ImportResult:
    """Join runs of live nodes and of imports into a run folder.

    Raises `RunFolderError` if one of `runs` is neither, is a join, or is a copy of another one; `NothingImported` if
    one of them cannot be read; and `TooManyRecords` if `read` does.
    """
    folders = folders_to_join(runs)
    router = router_of(folders)
    if router is not None:
        run.write_text_atomic("summary.json", json.dumps({"router": router}) + "\n")
    complete = all(load_manifest(folder).complete for folder in folders)
    return _import(ImportInput(folders, LIVE, UNIT_BYTES), run, read, message_ids(folders), complete)


def _import(
    given: ImportInput, run: RunFolder, read: Reader, ids: Mapping[str, str] | None = None, complete: bool = True
) -> ImportResult:
    """Write a run. For a join, `ids` has the ids of messages by their names in records; otherwise it is None."""
    joining = ids is not None
    with _scratch(run.path / _SCRATCH) as scratch:
        records = read(given, scratch)
        by_name = {file.name: file for file in records.files}
        record = SourceRecord(None, tuple(by_name[str(path)] for path in given.paths), {})
        if len(record.quarantined) == len(record.files) or (joining and record.quarantined):
            raise NothingImported(record)
        numbering = Numbering(records.names("peer", "remote"), records.names("topic"), records.origin_ns)
        notes = _write_rows(records, numbering, run.path, scratch)
        clocks = _clocks(notes)
        ahead_us = {clock.peer: clock.offset_us for clock in clocks if clock.flagged and clock.offset_us is not None}
        if joining and ahead_us:
            numbering = _with_corrected_clocks(numbering, notes, ahead_us)
            shutil.rmtree(run.path / TRACE_FOLDER)
            notes = _write_rows(records, numbering, run.path, scratch)
        reasons = sum((Counter(each.reasons) for each in notes), Counter[str]())
        record = replace(record, origin_unix_ns=numbering.origin_ns, reject_reasons=dict(sorted(reasons.items())))
        events = _events(notes)
        _write_names(run, numbering, {peer for peer, _, _ in events}, notes)
        run.write_batches(f"{DICTIONARIES}/messages", MESSAGES_SCHEMA, _messages(scratch, ids))
    _write_clocks(run, clocks, ahead_us if joining else {})
    delays = sum((Counter(dict(zip(*each.delays_ms, strict=True))) for each in notes), Counter[int]())
    write_source(run, record, events, delays)
    trace = _trace(notes)
    run.write_manifest(trace, seed=None, complete=complete, source="+".join(record.formats))
    return ImportResult(record, trace.rows, len(numbering.peers), sum(each.messages for each in notes), clocks)


@contextmanager
def _scratch(folder: Path) -> Generator[Path]:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _write_rows(records: Records, numbering: Numbering, run: Path, scratch: Path) -> list[Notes]:
    """Write all rows into the folder `run`, and return the notes of all partitions."""
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


def _with_corrected_clocks(numbering: Numbering, notes: Sequence[Notes], ahead_us: Mapping[int, int]) -> Numbering:
    """Return a numbering that subtracts `ahead_us` from the times of each peer.

    Its origin is the earliest new time.
    """
    ahead_ns = np.zeros(len(numbering.peers) + 1, dtype=np.int64)
    for peer, ahead in ahead_us.items():
        ahead_ns[peer] = ahead * 1000
    origin_ns = min(first - int(ahead_ns[peer]) for each in notes for peer, first in zip(*each.first_ns, strict=True))
    return replace(numbering, ahead_ns=ahead_ns, origin_ns=origin_ns)


def _events(notes: Sequence[Notes]) -> list[tuple[int, int, int]]:
    """Return (peer, event, number of events) for each peer and event of all partitions, sorted."""
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
    """Yield the batches of the dictionary of messages, partition by partition.

    If `ids` is given, it has the ids that replace the names of messages.
    """
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
