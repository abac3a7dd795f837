"""Following a run: take new files, refresh the tables, and know the end of the run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from hearsay.foreign_files import read_bytes
from hearsay.pipeline.analyze import analyze
from hearsay.pipeline.input.run_facts import RunFacts, facts_of, load_runs, window_of
from hearsay.pipeline.output.outputs import STREAM_FOLDER, remove_memory, require_memory
from hearsay.pipeline.spark.task_lists import literal
from hearsay.pipeline.stream.file_notes import name_of
from hearsay.pipeline.stream.ledger import Ledger, LedgerBroken
from hearsay.pipeline.stream.new_files import take_new_files
from hearsay.pipeline.stream.partials import KeptScan, PartialStore
from hearsay.trace.folder.manifest import MANIFEST, MAX_BYTES, Manifest, WrittenTrace, this_program
from hearsay.trace.folder.own_folders import Holds, mark
from hearsay.trace.language.errors import RunFolderError
from hearsay.trace.language.schema import CLASSES, TRACE_FOLDER, class_folder
from hearsay.trace.read.verify import verify
from hearsay.trace.run_series import WHOLE, speaks_of_whole

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def live_facts(path: Path, ledger: Ledger, window_us: int | None) -> RunFacts:
    """The facts of a run of which only the files in the ledger are there.

    The run ends with the latest row so far. Topics and nodes are those of the dictionaries, or those seen.
    """
    files = tuple(notes.trace_file() for notes in ledger.files)
    rows = sum(file.rows for file in files)
    manifest = Manifest(False, None, this_program(), WrittenTrace(files, rows, "", (), 0), ())
    facts = replace(facts_of(path.resolve().name, path, manifest, window_us), still_written=True)
    if not facts.topics:
        facts = replace(facts, topics={topic: str(topic) for topic in ledger.found("topics")})
    if not facts.nodes:
        facts = replace(facts, nodes=tuple(ledger.found("nodes")))
    return facts


SERIES_PATTERN = "[0-9]*/"


class Follower:
    """Keeps the tables of one run fresh; call `tick` now and then."""

    def __init__(
        self, spark: SparkSession, path: Path, output: Path, window_us: int | None, say: Callable[[str], object]
    ) -> None:
        self._spark = spark
        self._path = path
        self._output = output
        self._window_us = window_us
        self._say = say
        self._memory = output / STREAM_FOLDER
        self._ledger: Ledger | None = None
        self._shown: RunFacts | None = None

    def tick(self) -> RunFacts | None:
        """Take what is new and refresh the tables; the facts of the run once it is over and its tables are final."""
        seal = _seal(self._path)
        if seal is not None:
            load_runs([self._path])  # a manifest that cannot be used is said to be so before anything else is done
        if not _roots(self._path):
            return None
        ledger = self._take_new()
        facts: RunFacts | None = None
        if seal is not None:
            facts = self._sealed_facts(ledger, seal)
        elif ledger.files:
            facts = live_facts(self._path, ledger, self._window_us)
        if facts is None:
            return None
        if facts != self._shown:
            self._refresh(facts, ledger)
        return facts if seal is not None else None

    def _take_new(self) -> Ledger:
        just_started = self._ledger is None
        ledger = self._opened()
        if not just_started and _names_in(self._path) <= {notes.name for notes in ledger.files}:
            return ledger
        before = len(ledger.files)
        pattern = _pattern(self._path)

        def take(number: int, paths: list[str]) -> None:
            names = [name for path in paths if (name := name_of(path, bool(pattern))) is not None]
            ledger.take(number, self._path, names, window_of(self._path, self._window_us))

        where = f"{literal(self._path)}/{pattern}{TRACE_FOLDER}"
        take_new_files(self._spark, where, self._memory / "checkpoint", take)
        if len(ledger.files) > before:
            self._say(f"{len(ledger.files) - before} new files, {len(ledger.files)} in all")
        return ledger

    def _opened(self) -> Ledger:
        """The ledger, thrown away if it is damaged or speaks of another trace."""
        ledger = self._ledger
        try:
            if ledger is None:
                require_memory(self._memory)
                self._memory.mkdir(parents=True, exist_ok=True)
                mark(self._memory, Holds.STREAM)
                ledger = Ledger(self._memory / "batches")
            self._check(ledger)
        except LedgerBroken as error:
            self._say(f"starting anew: {error}")
            self._shown = None
            remove_memory(self._memory)
            ledger = Ledger(self._memory / "batches")
        self._ledger = ledger
        return ledger

    def _check(self, ledger: Ledger) -> None:
        committed = (self._memory / "checkpoint" / "commits").glob("[0-9]*")
        if not {int(commit.name) for commit in committed if commit.name.isdecimal()} <= ledger.batches:
            raise LedgerBroken(f"{self._memory} has lost a batch")
        for notes in ledger.files:
            try:
                stat = (self._path / notes.name).stat()
            except OSError:
                raise LedgerBroken(f"{self._path / notes.name} is gone, this is another run") from None
            if (stat.st_size, stat.st_mtime_ns) != (notes.bytes, notes.modified_ns):
                raise LedgerBroken(f"{self._path / notes.name} has changed, this is another run")
        if not {notes.name for notes in ledger.files} <= _names_in(self._path):
            raise LedgerBroken(f"{self._path} was a series and has become a whole")

    def _sealed_facts(self, ledger: Ledger, seal: bytes) -> RunFacts | None:
        """The facts of a run whose manifest is there; none if another one took its place meanwhile, as happens when a
        series becomes a whole."""
        problems = verify(self._path)
        if _seal(self._path) != seal:
            return None
        if problems:
            raise RunFolderError(
                f"{self._path}: {problems[0]}" + (f" (and {len(problems) - 1} more)" * (len(problems) > 1))
            )
        (facts,) = load_runs([self._path], self._window_us)
        missed = {file.name for file in facts.manifest.trace.files} - {notes.name for notes in ledger.files}
        if missed:
            raise RunFolderError(f"{self._path}: {min(missed)} was not taken; remove {self._memory} and try again")
        return facts

    def _refresh(self, facts: RunFacts, ledger: Ledger) -> None:
        started = monotonic()
        store = PartialStore(self._memory / "partials")
        scan = KeptScan(self._spark, facts, ledger, store)
        analyze(self._spark, [facts], {facts.name: self._output}, lambda _: None, scan)
        store.forget_others(scan.partials)
        self._shown = facts
        length_s = (facts.end_us - facts.start_us) / 1e6
        self._say(
            f"tables fresh: {facts.rows:,} rows, {length_s:.1f} s of the run; computed {scan.computed} of "
            f"{len(scan.partials)} partial sums, {monotonic() - started:.1f} s"
        )


def has_begun(path: Path) -> bool:
    """Whether there is a trace to follow."""
    return bool(_roots(path))


def _seal(path: Path) -> bytes | None:
    """The manifest as it is now."""
    manifest = path / MANIFEST
    return read_bytes(manifest, MAX_BYTES) if manifest.exists() else None


def _pattern(path: Path) -> str:
    """Where the run folders are: here, or the numbered ones of a live node's series, or these made a whole."""
    if (path / TRACE_FOLDER).is_dir():
        return ""
    return f"{WHOLE}/" if speaks_of_whole(path) else SERIES_PATTERN


def _roots(path: Path) -> list[Path]:
    pattern = _pattern(path)
    folders = path.glob(pattern) if pattern else [path]
    return [folder for folder in folders if (folder / TRACE_FOLDER).is_dir()]


def _names_in(path: Path) -> set[str]:
    return {
        file.relative_to(path).as_posix()
        for root in _roots(path)
        for trace_class in CLASSES
        for file in (root / class_folder(trace_class)).glob("part-*.parquet")
    }
