"""Partial sums that are computed once, and the scan that uses them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hearsay.pipeline.input.run_facts import RunFacts
from hearsay.pipeline.kernels.columns import ColumnArrays, read_columns, row_groups
from hearsay.pipeline.kernels.message_file import NEEDED, pass_over
from hearsay.pipeline.kernels.partial_sums import Sums, message_traffic, part_counts, recorded_sizes, traffic_of
from hearsay.pipeline.kernels.stored_members import Members, read_members
from hearsay.pipeline.metrics.part_files import write_parts
from hearsay.pipeline.metrics.quality import Line
from hearsay.pipeline.metrics.whole_files import RPC_COLUMNS, eligibility_of, in_order, message_sums, row_sums
from hearsay.pipeline.scan import ScanResult
from hearsay.pipeline.spark.task_lists import made_by_tasks
from hearsay.pipeline.stream.ledger import Ledger
from hearsay.trace.folder.manifest import this_program
from hearsay.trace.language.schema import Column

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hearsay.pipeline.stream.file_notes import FileNotes

_OF_PARTIALS = re.compile(r"[0-9a-f]{40}\.parquet(\.[0-9a-f]{32})?")
Ints = NDArray[Any]


@dataclass(frozen=True, slots=True)
class SumsOfFile:
    key: str
    run: str
    path: str
    trace_class: str
    start_us: int
    end_us: int

    def compute(self) -> Iterator[Any]:
        of_rpcs = self.trace_class == "rpc"
        columns, add_up = (RPC_COLUMNS, traffic_of) if of_rpcs else (NEEDED, message_traffic)
        traffic: list[Sums] = []
        counts: list[Sums] = []
        sizes: list[Sums] = []
        for rows in row_groups(self.path, columns):
            traffic.append(add_up(rows, self.end_us))
            counts.append(part_counts(rows, self.start_us, self.end_us))
            sizes.append(recorded_sizes(rows))
        yield from row_sums(self.run, traffic, counts, sizes)


@dataclass(frozen=True, slots=True)
class FiguresOfMessages:
    key: str
    run: str
    paths: tuple[str, ...]
    messages: tuple[str, str]
    """A file of arrays, and the name of the messages in it."""
    memberships: str
    end_us: int
    window_us: int

    def compute(self) -> Iterator[Any]:
        file, name = self.messages
        with np.load(file, allow_pickle=False) as arrays:
            chosen = arrays[name]
        rows = _rows_of(self.paths, chosen)
        done = pass_over(rows, eligibility_of(self.memberships, self.end_us), self.end_us, self.window_us)
        yield from message_sums(self.run, [done])


Partial = SumsOfFile | FiguresOfMessages


def partials_of(run: RunFacts, ledger: Ledger, folder: str, members: Members) -> list[Partial]:
    """All partial sums that the tables of a run are made of; `members` lie in `folder`."""
    partials: list[Partial] = []
    contributing: dict[str, list[FileNotes]] = {}
    for notes in ledger.files:
        if notes.trace_class not in ("message", "rpc"):
            continue
        end = min(run.end_us, notes.last_arrival_us + 1)
        key = _key("sums", run.name, notes.identity, run.start_us, end)
        path = str(run.path / notes.name)
        partials.append(SumsOfFile(key, run.name, path, notes.trace_class, run.start_us, run.end_us))
        for share in notes.shares:
            contributing.setdefault(share.owner, []).append(notes)
    for owner, files in contributing.items():
        shares = [share for notes in files for share in notes.shares if share.owner == owner]
        published = [share.first_publish_us for share in shares if share.first_publish_us is not None]
        windows = [share.last_publish_us + run.window_us for share in shares if share.last_publish_us is not None]
        settled = max([*windows, *(share.last_arrival_us for share in shares)])
        end = min(run.end_us, settled + 1)
        seen = _memberships_seen(members, min(published), min(max(windows), end)) if published else ""
        identities = [notes.identity for notes in files]
        key = _key("figures", run.name, owner, identities, end, run.window_us, seen)
        arrays, name = ledger.arrays_of(owner)
        paths = tuple(str(run.path / notes.name) for notes in files)
        partials.append(
            FiguresOfMessages(key, run.name, paths, (str(arrays), name), folder, run.end_us, run.window_us)
        )
    return partials


class PartialStore:
    """Partial sums as files, named by their keys."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def path_of(self, partial: Partial) -> Path:
        return self._folder / f"{partial.key}.parquet"

    def compute_missing(self, spark: SparkSession, partials: Sequence[Partial]) -> int:
        """Let Spark's tasks write what is not there; how many that were."""
        missing = [
            (partial, str(self.path_of(partial))) for partial in partials if not self.path_of(partial).exists()
        ]
        if not missing:
            return 0

        def work(number: int) -> Iterator[bytes]:
            partial, target = missing[number]
            write_parts(target, partial.compute())
            yield from ()

        made_by_tasks(spark, len(missing), work)
        return len(missing)

    def forget_others(self, partials: Sequence[Partial]) -> None:
        """Remove what the tables are no longer made of."""
        kept = {self.path_of(partial).name for partial in partials}
        for file in self._folder.iterdir():
            if file.name not in kept and _OF_PARTIALS.fullmatch(file.name):
                file.unlink()


def _rows_of(paths: Sequence[str], messages: Ints) -> ColumnArrays:
    """The rows of these messages in these files, as one file would hold them."""
    pieces: list[ColumnArrays] = []
    for path in paths:
        rows = read_columns(path, NEEDED)
        mine = np.isin(rows[Column.MESSAGE], messages)
        pieces.append(rows if mine.all() else {column: values[mine] for column, values in rows.items()})
    return in_order(pieces)


def _memberships_seen(members: Members, first_us: int, last_us: int) -> str:
    """A hash of the memberships as messages see them that are published at `first_us` or later and whose windows end
    at `last_us` or earlier; and of the topics that are known at all."""
    there = (members.since_us <= last_us) & (members.until_us >= first_us)
    since, until = np.maximum(members.since_us[there], first_us), np.minimum(members.until_us[there], last_us)
    rows = np.stack([values.astype(np.int64) for values in (members.topic[there], members.node[there], since, until)])
    digest = sha256(np.unique(members.topic).astype(np.int64).tobytes())
    digest.update(np.ascontiguousarray(rows[:, np.lexsort(rows)]).tobytes())
    return digest.hexdigest()


def _key(*inputs: object) -> str:
    return sha256(json.dumps([this_program()["hearsay"], *inputs]).encode()).hexdigest()[:40]


@dataclass(slots=True)
class KeptScan:
    """Called by the analysis of one run in place of reading all of its files."""

    spark: SparkSession
    run: RunFacts
    ledger: Ledger
    store: PartialStore
    partials: list[Partial] = field(default_factory=list[Partial])
    computed: int = 0

    def __call__(self, folders: Mapping[str, str], scratch: Path) -> ScanResult:
        folder = folders[self.run.name]
        self.partials = partials_of(self.run, self.ledger, folder, read_members(folder))
        self.computed = self.store.compute_missing(self.spark, self.partials)
        parts = [str(self.store.path_of(one)) for one in self.partials]
        return ScanResult({self.run.name: parts}, self._late(), {self.run.name: partial(_files_with, self.ledger)})

    def _late(self) -> tuple[Line, ...]:
        late = sum(share.late_rows for notes in self.ledger.files for share in notes.shares)
        return (("late_rows", late, None),) if late else ()


def _files_with(ledger: Ledger, messages: Sequence[int]) -> list[str]:
    wanted = set(messages)
    owners = {
        notes.name
        for notes in ledger.files
        if notes.trace_class == "message" and not wanted.isdisjoint(ledger.messages_of(notes.name).tolist())
    }
    return [notes.name for notes in ledger.files if any(share.owner in owners for share in notes.shares)]
