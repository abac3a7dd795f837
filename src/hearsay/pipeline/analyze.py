"""An analysis reads the rows of traces, computes all result tables and publishes them.

A follower repeats the analysis of a run that is still written, until the manifest of the run exists. Each analysis
reads all files of the run, so its tables equal those of `hearsay analyze` on the same files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import Any

from pyspark.sql import SparkSession

from hearsay import metrics
from hearsay.foreign_files import read_bytes
from hearsay.pipeline.output.folders import WORK, Folder, load_folders
from hearsay.pipeline.output.table_store import TableStore
from hearsay.pipeline.output.tables import METRICS_FOLDER, TABLES, read_table
from hearsay.pipeline.rows import trace_of
from hearsay.pipeline.run_facts import RunFacts, facts_of
from hearsay.pipeline.spark.session import adapt
from hearsay.pipeline.tables import Tables
from hearsay.trace.compare_runs import verify
from hearsay.trace.folder.arrow import open_trace_file
from hearsay.trace.folder.manifest import (
    MANIFEST,
    MAX_BYTES,
    Manifest,
    RunFolderError,
    TraceFile,
    WrittenTrace,
    this_program,
)
from hearsay.trace.language.schema import CLASSES, TRACE_FOLDER, Column, class_folder
from hearsay.trace.run_series import WHOLE, names_whole

Step = Callable[[str], None]
STEPS = 4
_OF_ROWS = ("drawn", "messages", "percentiles", "traffic", "parts", "spread", "changes")
"""Tables that are computed from most rows of the trace. Most other tables are computed from these tables."""
_SERIES_PATTERN = "[0-9]*/"


def analyze(spark: SparkSession, runs: Sequence[RunFacts], outputs: Mapping[str, Folder], step: Step) -> None:
    """Compute and publish all tables of `runs`. `outputs` has the output of each run, by the name of the run.

    The function calls `step` with the name of each step before the step begins.
    """
    store = TableStore(outputs)
    try:
        tables = Tables(trace_of(spark, runs), store.scratch)
        step(f"reading {sum(run.rows for run in runs):,} rows")
        tables.compute(_OF_ROWS)
        step("meshes, disturbances and the answers")
        tables.compute(list(TABLES))
        step("putting the tables into place")
        for name in TABLES:
            if name in tables.arrow:
                store.write(name, tables.arrow[name])
            else:
                store.write_with_spark(name, tables[name])
        store.publish()
    finally:
        store.discard()


def headlines(runs: Sequence[RunFacts], outputs: Mapping[str, Folder]) -> list[dict[str, Any]]:
    """Return the objects that `hearsay analyze --json` prints: one for each topic of each run.

    They come from the stored tables `headline`. Raise `RunFolderError` if an output has no such table.
    """
    lines: list[dict[str, Any]] = []
    for run in runs:
        rows: list[dict[str, Any]] = read_table(outputs[run.name].path, "headline").to_pylist()
        lines.extend(_json_of(row) for row in sorted(rows, key=lambda row: row["topic"]))
    return lines


def _json_of(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "run": row["run"],
        "topic": row["topic_name"],
        **{name: row[name] for name in ("router", "nodes", "messages", "eligible", "delivered")},
        **metrics.nested(row),
        "resilience": {
            "before": row["ratio_before"],
            "during": row["ratio_during"],
            "after": row["ratio_after"],
            "heal_s": None if row["heal_us"] is None else row["heal_us"] / 1_000_000,
        },
    }


@dataclass(slots=True)
class Follower:
    """The analyses that keep the tables of one run up to date. The caller calls `update` repeatedly."""

    spark: SparkSession
    source: Folder
    output: Folder
    window_us: int | None
    say: Callable[[str], object]
    conf: Mapping[str, str] = field(default_factory=dict[str, str])
    """Spark settings of the user (`--conf`), which override those that `adapt` chooses."""
    _files: dict[str, TraceFile] = field(init=False, default_factory=dict[str, TraceFile])
    _shown: RunFacts | None = field(init=False, default=None)

    def update(self) -> RunFacts | None:
        """Compute the tables again if the run has new files or a new manifest.

        Return the facts about the run if its manifest exists, so that the tables are final. Return None if it does
        not exist yet, or if the files of the run were replaced meanwhile. Raise `RunFolderError` if the run has a
        manifest and is damaged.
        """
        self.source.refresh(of_a_run)
        manifest_bytes = _manifest_bytes(self.source.path)
        facts = self._incomplete_facts() if manifest_bytes is None else self._complete_facts(manifest_bytes)
        if facts is not None and facts != self._shown:
            try:
                self._refresh(facts)
            except Exception:
                self.source.refresh(of_a_run)
                if all((self.source.path / file.name).exists() for file in facts.manifest.trace.files):
                    raise
                return None  # the files are gone: a series was joined, or another run replaced this one
        return facts if manifest_bytes is not None else None

    def _incomplete_facts(self) -> RunFacts | None:
        """Return the facts about a run without a manifest; None until the run has a row and the name of a topic."""
        names = _names_in(self.source.path)
        self._files = {name: self._files.get(name) or _described(self.source.path, name) for name in names}
        files = tuple(self._files.values())
        rows = sum(file.rows for file in files)
        if not rows:
            return None
        manifest = Manifest(False, None, this_program(), WrittenTrace(files, rows, ""), ())
        facts = facts_of(self.source.path.resolve().name, self.source.path, manifest, self.window_us)
        return replace(facts, still_written=True, location=self.source.location) if facts.topics else None

    def _complete_facts(self, manifest_bytes: bytes) -> RunFacts | None:
        """Return the facts about a run with this manifest.

        Return None if another manifest has replaced it, as happens when a series is joined into one run.
        """
        load_folders([self.source])  # report an unusable manifest before any other work
        problems = verify(self.source.path)
        if _manifest_bytes(self.source.path) != manifest_bytes:
            return None
        if problems:
            more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
            raise RunFolderError(f"{self.source}: {problems[0]}{more}")
        (facts,) = load_folders([self.source], self.window_us)
        return facts

    def _refresh(self, facts: RunFacts) -> None:
        started = monotonic()
        adapt(self.spark, facts.rows, self.conf)
        analyze(self.spark, [facts], {facts.name: self.output}, lambda _: None)
        self._shown = facts
        length_s = (facts.end_us - facts.start_us) / 1e6
        self.say(
            f"tables up to date: {facts.rows:,} rows in {len(facts.manifest.trace.files)} files, {length_s:.1f} s of "
            f"the run; {monotonic() - started:.1f} s"
        )


def of_a_run(name: str) -> bool:
    """Return True if a file with this name is part of a run, and False if an analysis wrote it."""
    return not name.startswith((METRICS_FOLDER, WORK))


def has_begun(path: Path) -> bool:
    """Return True if a run folder at the path has a folder for its trace, with or without a manifest."""
    return bool(_run_folders(path))


def _manifest_bytes(path: Path) -> bytes | None:
    """Return the bytes of the run's manifest; None if it does not exist yet."""
    manifest = path / MANIFEST
    return read_bytes(manifest, MAX_BYTES) if manifest.exists() else None


def _run_folders(path: Path) -> list[Path]:
    """Return the run folders with a trace at a path: the path itself, the numbered folders of a live node's series,
    or the run into which the series was joined."""
    if (path / TRACE_FOLDER).is_dir():
        return [path]
    pattern = f"{WHOLE}/" if names_whole(path) else _SERIES_PATTERN
    return [folder for folder in path.glob(pattern) if (folder / TRACE_FOLDER).is_dir()]


def _names_in(path: Path) -> list[str]:
    return sorted(
        file.relative_to(path).as_posix()
        for folder in _run_folders(path)
        for trace_class in CLASSES
        for file in (folder / class_folder(trace_class)).glob("part-*.parquet")
    )


def _described(path: Path, name: str) -> TraceFile:
    """Return the entry that a manifest would have for a trace file, without the checksum."""
    file = path / name
    metadata = open_trace_file(file).metadata
    groups = [metadata.row_group(number).column(Column.TIME_US) for number in range(metadata.num_row_groups)]
    times = [time for group in groups if (known := group.statistics) for time in (known.min, known.max)]
    first, last = min(times, default=0), max(times, default=0)
    trace_class = file.parent.name.removeprefix("class=")
    return TraceFile(name, trace_class, metadata.num_rows, file.stat().st_size, first, last, sha256="")
