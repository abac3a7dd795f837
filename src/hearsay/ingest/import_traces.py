"""Traces of real networks become a run folder.

Rules:

* Files are cut into units, units are decoded by workers, and a file counts only if all of its units are good: what
  is truncated, corrupt, foreign, empty or mixed is quarantined whole, by name and reason, and the rest goes on.
* Numbers follow from the bytes of all names, times from the earliest event of the good files. So the rows of a run
  depend on the good files alone, not on how they were cut, or who decoded them when.
* Nothing is written under its final name before all good files are decoded; the manifest comes last.
* An import leaves clocks alone. When the runs of live nodes are joined, the clocks that are flagged (`skew`) are put
  right: the trace is written, looked at, and if there are such clocks written again. There all runs must be good.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hearsay.ingest.identifiers import NO_TIME, peer_name
from hearsay.ingest.live_runs import LIVE, different_folders, message_ids, router_of
from hearsay.ingest.message_facts import MessageFacts, facts_of_file, merged_delays, merged_facts
from hearsay.ingest.numbering import (
    Dictionaries,
    NumberedPart,
    delays_of,
    dictionaries_of,
    first_times,
    renumber,
    renumbering,
)
from hearsay.ingest.parts import BadSource, Part, load_part
from hearsay.ingest.skew import ClockEstimate, estimate_clocks
from hearsay.ingest.source_record import SourceFile, SourceRecord, write_source
from hearsay.ingest.sources import Source, Unit, decode_unit, recognise, split
from hearsay.ingest.workers import ThisProcess, Workers
from hearsay.trace.folder.arrow import pa
from hearsay.trace.folder.manifest import WrittenTrace, load_manifest
from hearsay.trace.language.schema import NONE, TRACE_FOLDER, TraceEvent
from hearsay.trace.write.run_folder import RunFolder

UNIT_BYTES = 128 << 20
_PARTS_FOLDER = ".spill-import"


class NothingImported(Exception):
    """Not one file could be read; `record` says why."""

    def __init__(self, record: SourceRecord) -> None:
        super().__init__("no file could be read")
        self.record = record


@dataclass(frozen=True, slots=True)
class ImportResult:
    """What an import did."""

    record: SourceRecord
    rows: int
    peers: int
    messages: int
    clocks: list[ClockEstimate]
    """As they were found."""


@dataclass(slots=True)
class _File:
    path: Path
    source: Source | None = None
    reason: str | None = None
    units: list[Unit] = field(default_factory=list[Unit])
    parts: list[Path] = field(default_factory=list[Path])


def import_traces(
    files: Sequence[Path],
    run: RunFolder,
    *,
    wanted: str | None = None,
    workers: Workers | None = None,
    unit_bytes: int = UNIT_BYTES,
) -> ImportResult:
    """Import the files into the run folder; `wanted` is their format, or each is recognised by itself."""
    workers = workers or ThisProcess()
    with _scratch(run.path / _PARTS_FOLDER) as scratch:
        given = _recognised(files, wanted, unit_bytes)
        imported, written = _assembled(given, run, workers, scratch)
    return _sealed(run, imported, written)


def join_runs(runs: Sequence[Path], run: RunFolder) -> ImportResult:
    """Join the runs of live nodes into the run folder; RunFolderError if one of them is none."""
    workers = ThisProcess()
    folders = different_folders(runs)
    with _scratch(run.path / _PARTS_FOLDER) as scratch:
        given = [_File(folder, Source(folder, LIVE), units=[Unit(Source(folder, LIVE))]) for folder in folders]
        imported, written = _assembled(given, run, workers, scratch, message_ids(folders), joining=True)
    router = router_of(folders)
    if router is not None:
        run.write_text_atomic("summary.json", json.dumps({"router": router}) + "\n")
    return _sealed(run, imported, written, all(load_manifest(folder).complete for folder in folders))


def _assembled(
    given: Sequence[_File],
    run: RunFolder,
    workers: Workers,
    scratch: Path,
    ids: Mapping[bytes, str] | None = None,
    *,
    joining: bool = False,
) -> tuple[ImportResult, WrittenTrace]:
    """All but the seal. `ids` are those of messages whose names in parts are others."""
    _decode(given, workers, scratch)
    parts = [load_part(folder) for file in given if file.reason is None for folder in file.parts]
    record = _record(given, parts)
    if not parts or (joining and record.quarantined):
        raise NothingImported(record)
    dictionaries = dictionaries_of(parts)
    events, implementations, sizes, first_copies = _gathered(parts, dictionaries, scratch)
    numbered = [NumberedPart(part.folder, record.origin_unix_ns or 0, first_copies) for part in parts]
    peers_with_events = sorted({peer for peer, _, _ in events})
    written = workers.write(run.path, numbered)
    facts, clocks = _first_pass(run, written, workers, len(dictionaries.messages), peers_with_events)
    ahead_us = {clock.peer: clock.offset_us for clock in clocks if clock.flagged and clock.offset_us is not None}
    if joining and ahead_us:
        numbered = _with_clocks_right(numbered, workers, ahead_us, dictionaries, scratch)
        record = replace(record, origin_unix_ns=numbered[0].origin_ns)
        shutil.rmtree(run.path / TRACE_FOLDER)
        written = workers.write(run.path, numbered)
        facts, _ = _first_pass(run, written, workers, len(dictionaries.messages), peers_with_events)
    _write_names(run, dictionaries, set(peers_with_events), implementations)
    _write_messages(run, facts, dictionaries, sizes, ids)
    _write_clocks(run, clocks, ahead_us if joining else {})
    write_source(run, record, events, sum(workers.map(delays_of, numbered), Counter[int]()))
    return ImportResult(record, written.rows, len(dictionaries.peers), len(dictionaries.messages), clocks), written


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


def _recognised(paths: Sequence[Path], wanted: str | None, unit_bytes: int) -> list[_File]:
    files = [_File(path) for path in paths]
    for file in files:
        try:
            file.source = recognise(file.path, wanted)
            file.units = split(file.source, unit_bytes)
        except BadSource as error:
            file.reason = str(error)
    return files


def _decode(files: Sequence[_File], workers: Workers, scratch: Path) -> None:
    tasks: list[tuple[Unit, Path]] = []
    owners: list[_File] = []
    for file in files:
        file.parts = [scratch / f"{len(tasks) + index:06d}" for index in range(len(file.units))]
        tasks += zip(file.units, file.parts, strict=True)
        owners += [file] * len(file.units)
    for owner, reason in zip(owners, workers.map(_decode_task, tasks), strict=True):
        owner.reason = owner.reason or reason


def _decode_task(task: tuple[Unit, Path]) -> str | None:
    """Why the unit is bad, None if it is good."""
    try:
        decode_unit(*task)
    except BadSource as error:
        return str(error)
    return None


def _record(files: Sequence[_File], parts: Sequence[Part]) -> SourceRecord:
    events = {part.folder: part.events for part in parts}
    reasons: Counter[str] = Counter()
    for part in parts:
        words = [reason.decode("utf-8", "backslashreplace") for reason in part.reasons.to_pylist()]
        for word, times in zip(words, part.times_given, strict=True):
            reasons[word] += times
    reasons = +reasons  # a reason that only nodes' ends give is none of a reject
    return SourceRecord(
        origin_unix_ns=min((part.first_ns for part in parts), default=None),
        files=tuple(
            SourceFile(
                str(file.path),
                file.source.format if file.source else None,
                sum(events[folder] for folder in file.parts) if file.reason is None else 0,
                file.reason,
            )
            for file in files
        ),
        reject_reasons=dict(sorted(reasons.items())),
    )


def _gathered(
    parts: Sequence[Part], dictionaries: Dictionaries, scratch: Path
) -> tuple[list[tuple[int, int, int]], dict[int, str], NDArray[np.int64], Path]:
    """(peer, event, events), implementations by peer, sizes by message, the file of first copies by message."""
    events = np.zeros((len(dictionaries.peers), len(TraceEvent)), dtype=np.int64)
    implementations: dict[int, str] = {}
    sizes = np.full(len(dictionaries.messages), NONE, dtype=np.int64)
    first_copies = np.full(len(dictionaries.messages), NO_TIME)
    for part in parts:
        numbers = renumbering(part, dictionaries)
        renumber(part, numbers)
        np.add.at(events, numbers.peers[:-1], part.events_of_peer)
        np.maximum.at(sizes, numbers.messages[:-1], part.sizes)
        np.minimum.at(first_copies, numbers.messages[:-1], part.first_copy_ns)
        for peer, name in zip(numbers.peers[:-1].tolist(), part.implementations, strict=True):
            if name is not None:
                implementations[peer] = max(name, implementations.get(peer, ""))
    path = scratch / "first_copies.npy"
    np.save(path, first_copies)
    peers, kinds = np.nonzero(events)
    counted = zip(peers.tolist(), kinds.tolist(), events[peers, kinds].tolist(), strict=True)
    return list(counted), implementations, sizes, path


def _write_names(
    run: RunFolder, dictionaries: Dictionaries, tracing: set[int], implementations: dict[int, str]
) -> None:
    peers = range(len(dictionaries.peers))
    run.write_peers(
        peers,
        [peer_name(peer) for peer in dictionaries.peers.to_pylist()],
        ["traced" if peer in tracing else "mentioned" for peer in peers],
        [None] * len(peers),
        [implementations.get(peer) for peer in peers],
    )
    topics: list[bytes] = dictionaries.topics.to_pylist()
    run.write_topics(range(len(topics)), [topic.decode("utf-8", "backslashreplace") for topic in topics])


def _first_pass(
    run: RunFolder, written: WrittenTrace, workers: Workers, messages: int, peers: Sequence[int]
) -> tuple[MessageFacts, list[ClockEstimate]]:
    """What the trace tells of messages and clocks."""
    paths = [run.path / file.name for file in written.files if file.trace_class == "message"]
    told = workers.map(facts_of_file, paths)
    facts = merged_facts([facts for facts, _ in told], messages)
    return facts, estimate_clocks(merged_delays([delays for _, delays in told]), peers)


def _with_clocks_right(
    parts: Sequence[NumberedPart],
    workers: Workers,
    ahead_us: Mapping[int, int],
    dictionaries: Dictionaries,
    scratch: Path,
) -> list[NumberedPart]:
    """The same parts, with times by clocks that are put back by so much, from an origin that follows."""
    ahead_ns = np.zeros(len(dictionaries.peers) + 1, dtype=np.int64)
    for peer, ahead in ahead_us.items():
        ahead_ns[peer] = ahead * 1000
    clocks, copies = scratch / "ahead.npy", scratch / "first_copies_right.npy"
    np.save(clocks, ahead_ns)
    right = [replace(part, ahead_ns=clocks) for part in parts]
    told = workers.map(first_times, right)
    np.save(copies, np.minimum.reduce([first_copies for _, first_copies in told]))
    origin_ns = min(first_ns for first_ns, _ in told)
    return [replace(part, origin_ns=origin_ns, first_copies=copies) for part in right]


def _write_messages(
    run: RunFolder,
    facts: MessageFacts,
    dictionaries: Dictionaries,
    sizes: NDArray[np.int64],
    ids: Mapping[bytes, str] | None,
) -> None:
    names: list[bytes] = dictionaries.messages.to_pylist()
    run.write_messages(
        facts.message,
        facts.topic,
        facts.publisher,
        sizes,
        facts.published_us,
        [name.hex() if ids is None else ids.get(name) for name in names],
    )


def _write_clocks(run: RunFolder, clocks: Sequence[ClockEstimate], put_back_us: Mapping[int, int]) -> None:
    columns = {
        "peer": pa.array([clock.peer for clock in clocks], pa.int32()),
        "reference": pa.array([clock.reference for clock in clocks], pa.int32()),
        "offset_us": pa.array([clock.offset_us for clock in clocks], pa.int64()),
        "uncertainty_us": pa.array([clock.uncertainty_us for clock in clocks], pa.int64()),
        "pairs": pa.array([clock.pairs for clock in clocks], pa.int32()),
        "smallest_delay_us": pa.array([clock.smallest_delay_us for clock in clocks], pa.int64()),
        "flagged": pa.array([clock.flagged for clock in clocks], pa.bool_()),
        "put_back_us": pa.array([put_back_us.get(clock.peer, 0) for clock in clocks], pa.int64()),
    }
    run.write_table("skew", columns)
