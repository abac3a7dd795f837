"""Runs that were analysed: their result tables, read when a figure asks for them.

Rules:

* Only `hearsay.pipeline.tables` says what the tables hold. A column that is missing or a file that cannot be read is an
  error with its path; a table that is not there is empty, and its figures say so.
* A folder may hold the tables of several runs: every read is for one run.
* A view is a run and one of its topics, or the run as a whole. Topics of different runs belong together by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isnan
from pathlib import Path
from typing import Any

import pyarrow.dataset

from hearsay.pipeline.tables import CHURN, HEADLINE, MESSAGES, METRICS_FOLDER, MetricTable
from hearsay.report.errors import ReportError
from hearsay.trace.arrow import compute, pa

dataset: Any = pyarrow.dataset

ALL_TOPICS = "all topics"
MOST_TOPICS = 6
SUCCESS = "_SUCCESS"
US_PER_S = 1_000_000

_A_DAY_US = 86_400 * US_PER_S

_ARROW_TYPES = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "int": pa.int32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
}

Row = Mapping[str, Any]


def arrow_schema(table: MetricTable) -> Any:
    """The Arrow schema of a result table."""
    return pa.schema([(name, _ARROW_TYPES[kind]) for name, kind in table.columns])


@dataclass(frozen=True)
class View:
    """What one line of a chart is about. `place` is the topic's place in the report's list of topics."""

    run: int
    place: int
    topic: int | None
    headline: Row

    def rows(self, table: Any) -> Any:
        """The rows of a table of details (rows of topics, which add up to the run) that belong to this view."""
        return table if self.topic is None else table.filter(compute.equal(table.column("topic"), self.topic))

    def roll_up(self, table: Any) -> Any:
        """The rows of a table that has rows for the run as a whole (topic null) beside those of its topics."""
        if self.topic is not None:
            return self.rows(table)
        whole = table.filter(compute.is_null(table.column("topic")))
        if len(whole) or compute.count_distinct(table.column("topic")).as_py() > 1:
            return whole
        return table


@dataclass
class Run:
    """A run of the report. `label` tells it from the others."""

    folder: Path
    name: str
    label: str
    views: list[View] = field(default_factory=list[View])

    def read(self, table: MetricTable, *columns: str) -> Any:
        """The run's rows of a table, as Arrow; all columns unless some are named."""
        return _read(self.folder, table, self.name, columns or table.names)

    def preview(self, table: MetricTable, limit: int) -> tuple[Any, int]:
        """The first rows of a table, and how many there are."""
        source = _open(self.folder, table)
        if source is None:
            return arrow_schema(table).empty_table(), 0
        mine = dataset.field("run") == self.name
        try:
            return source.head(limit, columns=list(table.names), filter=mine), source.count_rows(filter=mine)
        except (OSError, pa.ArrowInvalid) as error:
            raise _unreadable(self.folder, table, error) from error

    def has(self, table: MetricTable) -> bool:
        return _open(self.folder, table) is not None

    @cached_property
    def headlines(self) -> list[Row]:
        return [
            {key: None if isinstance(value, float) and isnan(value) else value for key, value in row.items()}
            for row in self.read(HEADLINE).to_pylist()
        ]

    @cached_property
    def start_us(self) -> int:
        """Where charts start the run's clock: at zero, or with clocks of real nodes at the run's first whole second."""
        seconds = compute.min(self.read(CHURN, "second").column("second")).as_py()
        published = compute.min(self.read(MESSAGES, "published_us").column("published_us")).as_py()
        starts = [] if seconds is None else [seconds * US_PER_S]
        if published is not None:
            starts.append(published // US_PER_S * US_PER_S)
        return min(starts) if starts and min(starts) > _A_DAY_US else 0


@dataclass(frozen=True)
class Selection:
    """What a report is about: its runs with their views, and the topics that one can choose."""

    runs: Sequence[Run]
    topics: Sequence[str]
    left_out: int
    """How many topics there are beyond those one can choose."""


def open_runs(folders: Sequence[Path]) -> Selection:
    """The runs of these folders, with views for the run as a whole and the topics with the most messages."""
    runs: list[Run] = []
    for folder in folders:
        runs += [Run(folder, name, name) for name in _run_names(folder)]
    _tell_apart(runs)
    return _with_views(runs)


def topic_name(headline: Row) -> str:
    if headline["topic"] is None:
        return ALL_TOPICS
    name = headline["topic_name"]
    return f"topic {headline['topic']}" if name is None else str(name)


def _run_names(folder: Path) -> list[str]:
    if not folder.is_dir():
        raise ReportError(f"{folder}: there is no such run folder")
    if _open(folder, HEADLINE) is None:
        raise ReportError(f"{folder}: this run has not been analysed; run `hearsay analyze {folder}` first")
    names = _read(folder, HEADLINE, None, ("run",)).column("run").unique().to_pylist()
    if not names:
        raise ReportError(f"{_path(folder, HEADLINE)}: the table is empty; run `hearsay analyze {folder}` again")
    return [str(name) for name in names]


def _tell_apart(runs: Sequence[Run]) -> None:
    """Runs of one name are told apart by their folders, and where these say the same, by a number."""
    for run in runs:
        if sum(other.name == run.name for other in runs) > 1:
            run.label = f"{run.name} ({run.folder})"
    seen: dict[str, int] = {}
    for run in runs:
        seen[run.label] = seen.get(run.label, 0) + 1
        if seen[run.label] > 1:
            run.label = f"{run.label} #{seen[run.label]}"


def _with_views(runs: Sequence[Run]) -> Selection:
    messages: dict[str, int] = {}
    for run in runs:
        for row in run.headlines:
            if row["topic"] is not None:
                name = topic_name(row)
                messages[name] = messages.get(name, 0) + (row["messages"] or 0)
    by_size = sorted(messages, key=lambda name: (-messages[name], name))
    if len(by_size) <= 1:
        return _one_topic(runs, by_size)
    chosen = by_size[:MOST_TOPICS]
    has_whole = any(row["topic"] is None for run in runs for row in run.headlines)
    topics = ([ALL_TOPICS] if has_whole else []) + chosen
    for index, run in enumerate(runs):
        for row in run.headlines:
            is_whole, name = row["topic"] is None, topic_name(row)
            if is_whole or name in chosen:
                place = 0 if is_whole else chosen.index(name) + has_whole
                run.views.append(View(index, place, row["topic"], row))
        run.views.sort(key=lambda view: view.place)
    return Selection(runs, topics, len(by_size) - len(chosen))


def _one_topic(runs: Sequence[Run], topics: Sequence[str]) -> Selection:
    """With one topic the run as a whole is that topic, and what belongs to no topic (connections) counts, too."""
    for index, run in enumerate(runs):
        whole = [row for row in run.headlines if row["topic"] is None]
        if run.headlines:
            run.views.append(View(index, 0, None, (whole or run.headlines)[0]))
    return Selection(runs, topics or [ALL_TOPICS], 0)


def _read(folder: Path, table: MetricTable, run: str | None, columns: Sequence[str]) -> Any:
    source = _open(folder, table)
    if source is None:
        return pa.schema([arrow_schema(table).field(name) for name in columns]).empty_table()
    try:
        return source.to_table(
            columns=list(columns), filter=None if run is None else dataset.field("run") == run
        )
    except (OSError, pa.ArrowInvalid) as error:
        raise _unreadable(folder, table, error) from error


def _open(folder: Path, table: MetricTable) -> Any:
    """The files of a finished table with the declared columns, or None if it was not written."""
    path = _path(folder, table)
    if not (path / SUCCESS).is_file():
        return None
    try:
        files = sorted(str(file) for file in path.glob("*.parquet"))
        if not files:
            return None
        source = dataset.dataset(files, format="parquet")
    except (OSError, pa.ArrowInvalid) as error:
        raise _unreadable(folder, table, error) from error
    missing = [name for name in table.names if name not in source.schema.names]
    if missing:
        raise ReportError(f"{path}: column {missing[0]} is missing; run `hearsay analyze {folder}` again")
    return source.replace_schema(arrow_schema(table))


def _path(folder: Path, table: MetricTable) -> Path:
    return folder / METRICS_FOLDER / table.name


def _unreadable(folder: Path, table: MetricTable, error: Exception) -> ReportError:
    first_line = str(error).partition("\n")[0]
    return ReportError(f"{_path(folder, table)}: cannot be read ({first_line})")
