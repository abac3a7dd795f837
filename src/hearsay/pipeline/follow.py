"""Following a run: analyse its files repeatedly until its manifest exists.

Each analysis reads all files, so its tables equal those of `hearsay analyze` on the same files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from hearsay.foreign_files import read_bytes
from hearsay.pipeline.analyze import analyze
from hearsay.pipeline.input.run_facts import RunFacts, facts_of
from hearsay.pipeline.output.folders import WORK, Folder, load_folders
from hearsay.pipeline.output.tables import METRICS_FOLDER
from hearsay.pipeline.spark.session import adapt
from hearsay.trace.folder.arrow import open_trace_file
from hearsay.trace.folder.manifest import MANIFEST, MAX_BYTES, Manifest, TraceFile, WrittenTrace, this_program
from hearsay.trace.language.errors import RunFolderError
from hearsay.trace.language.schema import CLASSES, TRACE_FOLDER, Column, class_folder
from hearsay.trace.read.verify import verify
from hearsay.trace.run_series import WHOLE, speaks_of_whole

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SERIES_PATTERN = "[0-9]*/"


@dataclass(slots=True)
class Follower:
    """Keeps the tables of one run up to date. Call `update` repeatedly."""

    spark: SparkSession
    source: Folder
    output: Folder
    window_us: int | None
    say: Callable[[str], object]
    conf: Mapping[str, str] = field(default_factory=dict[str, str])
    """Spark settings of the user (`--conf`), which override those of `adapt`."""
    _files: dict[str, TraceFile] = field(init=False, default_factory=dict[str, TraceFile])
    _shown: RunFacts | None = field(init=False, default=None)

    def update(self) -> RunFacts | None:
        """Compute the tables again if files are new. Returns the run's facts if its tables are final, else None."""
        self.source.refresh(of_a_run)
        seal = _seal(self.source.path)
        facts = self._live_facts() if seal is None else self._sealed_facts(seal)
        if facts is not None and facts != self._shown:
            try:
                self._refresh(facts)
            except Exception:
                self.source.refresh(of_a_run)
                if all((self.source.path / file.name).exists() for file in facts.manifest.trace.files):
                    raise
                return None  # the files are gone: a series was joined, or another run replaced this one
        return facts if seal is not None else None

    def _live_facts(self) -> RunFacts | None:
        """Return the facts of a run without a manifest; None before there is a row and the name of a topic."""
        names = _names_in(self.source.path)
        self._files = {name: self._files.get(name) or _described(self.source.path, name) for name in names}
        files = tuple(self._files.values())
        rows = sum(file.rows for file in files)
        if not rows:
            return None
        manifest = Manifest(False, None, this_program(), WrittenTrace(files, rows, ""), ())
        facts = facts_of(self.source.path.resolve().name, self.source.path, manifest, self.window_us)
        return replace(facts, still_written=True, location=self.source.location) if facts.topics else None

    def _sealed_facts(self, seal: bytes) -> RunFacts | None:
        """Return the facts of a run with a manifest; None if the manifest was replaced meanwhile, as happens when a
        series is joined into one run.
        """
        load_folders([self.source])  # report an unusable manifest before any other work
        problems = verify(self.source.path)
        if _seal(self.source.path) != seal:
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
            f"tables fresh: {facts.rows:,} rows in {len(facts.manifest.trace.files)} files, {length_s:.1f} s of the "
            f"run; {monotonic() - started:.1f} s"
        )


def of_a_run(name: str) -> bool:
    """Return True for a file of the run, False for one of its analyses."""
    return not name.startswith((METRICS_FOLDER, WORK))


def has_begun(path: Path) -> bool:
    """Return True if a run at the path has begun, with or without a manifest."""
    return bool(_roots(path))


def _seal(path: Path) -> bytes | None:
    """Return the manifest's bytes; None without a manifest."""
    manifest = path / MANIFEST
    return read_bytes(manifest, MAX_BYTES) if manifest.exists() else None


def _roots(path: Path) -> list[Path]:
    """Return the run folders at a path: itself, the numbered folders of a live node's series, or their joined run."""
    if (path / TRACE_FOLDER).is_dir():
        return [path]
    pattern = f"{WHOLE}/" if speaks_of_whole(path) else _SERIES_PATTERN
    return [folder for folder in path.glob(pattern) if (folder / TRACE_FOLDER).is_dir()]


def _names_in(path: Path) -> list[str]:
    return sorted(
        file.relative_to(path).as_posix()
        for root in _roots(path)
        for trace_class in CLASSES
        for file in (root / class_folder(trace_class)).glob("part-*.parquet")
    )


def _described(path: Path, name: str) -> TraceFile:
    """Return a file's entry as in a manifest, without the checksum."""
    file = path / name
    metadata = open_trace_file(file).metadata
    groups = [metadata.row_group(number).column(Column.TIME_US) for number in range(metadata.num_row_groups)]
    times = [time for group in groups if (known := group.statistics) for time in (known.min, known.max)]
    first, last = min(times, default=0), max(times, default=0)
    trace_class = file.parent.name.removeprefix("class=")
    return TraceFile(name, trace_class, metadata.num_rows, file.stat().st_size, first, last, sha256="")
