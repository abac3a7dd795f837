"""Runs that were analysed: their result tables, read when a figure asks for them.

Rules:

* Only `hearsay.pipeline.output.tables` says what the tables hold. A column that is missing or a file that cannot be
  read is an error with its path; a table that is not there is empty, and its figures say so.
* A view is a run and one of its topics. Topics of different runs belong together by name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from itertools import islice
from math import isnan
from pathlib import Path
from typing import Any

from hearsay.foreign_files import MAX_TOML_BYTES, read_bytes
from hearsay.pipeline.input.run_facts import scenario_of, summary_of
from hearsay.pipeline.output.stored_tables import arrow_schema, stored_files
from hearsay.pipeline.output.tables import BALANCE, HEADLINE, MEASURED, METRICS_FOLDER, MetricTable
from hearsay.report.all_topics import ALL_TOPICS, all_topics
from hearsay.report.errors import ReportError
from hearsay.studies.settings import settings_of
from hearsay.trace.folder.arrow import DAMAGED, pa
from hearsay.trace.folder.arrow_compute import compute
from hearsay.trace.folder.foreign_parquet import open_foreign
from hearsay.trace.folder.manifest import MANIFEST, load_manifest
from hearsay.trace.folder.plain_tables import plain, read_plain
from hearsay.trace.read.verify import other_sizes
from hearsay.trace.write.run_folder import DICTIONARIES

MOST_TOPICS = 6
MOST_VIEWS = 36
"""Views whose charts keep the report below 5 MB: the more runs, the fewer topics can be chosen."""
SCENARIO = "scenario.toml"
SCRIPT_ROLE = "script"
US_PER_S = 1_000_000

Row = Mapping[str, Any]


@dataclass(frozen=True)
class View:
    """What one line of a chart is about: a topic of a run. `place` is the topic's place in the report's list."""

    run: int
    place: int
    topic: int | None
    """None for all topics together."""
    headline: Row
    nodes: int | None
    """The topic's nodes: its members and whoever sent for it."""
    alone: bool
    """The run has no other topic."""

    def rows(self, table: Any) -> Any:
        """The rows of the topic."""
        if self.topic is None:
            return table
        return table.filter(compute.equal(table.column("topic"), self.topic))

    def rows_and_loose(self, table: Any) -> Any:
        """The same, with those that name no topic (IWANT, connections) where they can only be this topic's."""
        if self.topic is None or not self.alone:
            return self.rows(table)
        return table.filter(compute.equal(compute.fill_null(table.column("topic"), self.topic), self.topic))


@dataclass
class Run:
    """A run of the report. `label` tells it from the others."""

    folder: Path
    label: str
    headlines: list[Row]
    views: list[View] = field(default_factory=list[View])

    @property
    def topic_views(self) -> list[View]:
        """Without that of all topics together: what is drawn of one mesh, or of one message, is of one topic."""
        return [view for view in self.views if view.topic is not None]

    def read(self, table: MetricTable, *columns: str) -> Any:
        """A table as Arrow; all columns unless some are named. A table that is not there has no rows."""
        return _read(self.folder, table, columns or table.names)

    def preview(self, table: MetricTable, limit: int) -> tuple[Any, int]:
        """The first rows of a table, and how many there are."""
        source = _open(self.folder, table)
        if source is None:
            return arrow_schema(table).empty_table(), 0
        schema = arrow_schema(table)
        try:
            batches = (
                batch for file in source for batch in islice(file.iter_batches(limit, columns=schema.names), 1)
            )
            first = _joined((pa.Table.from_batches([batch]) for batch in batches), schema)
            return first.slice(0, limit), sum(file.metadata.num_rows for file in source)
        except DAMAGED as error:
            raise _unreadable(self.folder, table, error) from error

    def nodes_of(self, headline: Row) -> int | None:
        """The nodes of a topic, as the balance of their load counts them; of the run, where it says nothing."""
        return self._balanced.get(headline["topic"]) or headline["nodes"]

    def why_not(self, figure: str) -> str | None:
        """Why the run's trace cannot tell a figure; None if it can."""
        return self._unmeasured.get(figure)

    @property
    def of_real_nodes(self) -> bool:
        """Real nodes do not see all: something is always missing."""
        return bool(self._unmeasured)

    def without_scripts(self, table: Any) -> Any:
        """Rows of nodes: a script that hands messages in sends, too, but is none."""
        return table.filter(compute.invert(compute.is_in(table.column("node"), self._scripts)))

    def is_script(self, node: int | None) -> bool:
        """It handed messages in from outside."""
        return node in self._scripts.to_pylist()

    @cached_property
    def settings(self) -> dict[str, object] | None:
        """The resolved scenario's keys; None for a trace of something else than a simulation."""
        try:
            return settings_of(read_bytes(self.folder / SCENARIO, MAX_TOML_BYTES).decode())
        except (OSError, ValueError):
            return None

    def setting(self, key: str) -> float | None:
        """A setting that is a number."""
        value = (self.settings or {}).get(key)
        return float(value) if isinstance(value, int | float | Decimal) and not isinstance(value, bool) else None

    @cached_property
    def summary(self) -> dict[str, Any]:
        """What the engine said; empty where there was none."""
        return summary_of(self.folder)

    @cached_property
    def damaged_files(self) -> list[str]:
        """Trace files that are not what the manifest says; tables in a folder of their own have no manifest."""
        if not (self.folder / MANIFEST).exists():
            return []
        return other_sizes(self.folder, load_manifest(self.folder))

    @cached_property
    def _balanced(self) -> dict[int | None, int]:
        return {row["topic"]: row["nodes"] for row in self.read(BALANCE, "topic", "nodes").to_pylist()}

    @cached_property
    def _unmeasured(self) -> dict[str, str]:
        return {row["figure"]: row["reason"] for row in self.read(MEASURED).to_pylist() if not row["measured"]}

    @cached_property
    def _scripts(self) -> Any:
        path = self.folder / DICTIONARIES / "peers.parquet"
        if not path.is_file():
            return pa.array([], pa.int32())
        try:
            table = read_plain(path, ("peer", "role"))
            return table.filter(compute.equal(table.column("role"), SCRIPT_ROLE)).column("peer").combine_chunks()
        except DAMAGED as error:
            raise ReportError(f"{path}: cannot be read ({_first_line(error)})") from error

    @cached_property
    def start_us(self) -> int:
        """Where the run's clock starts: at zero, or with real nodes' clocks at the first row."""
        starts = [row["start_us"] for row in self.headlines if row["start_us"] is not None]
        return int(min(starts, default=0))


@dataclass(frozen=True)
class Selection:
    """What a report is about: its runs with their views, and the topics that one can choose."""

    runs: Sequence[Run]
    topics: Sequence[str]
    """With several topics, the first choice is all of them together."""
    left_out: int
    """How many topics there are beyond those one can choose."""

    @property
    def overall(self) -> bool:
        """The first choice is all topics together."""
        return len(self.topics) > 1


def open_runs(folders: Sequence[Path]) -> Selection:
    """The runs of these folders, with views for all topics together and for those in most trouble."""
    runs = [_open_run(folder) for folder in folders]
    _tell_apart(runs)
    rows = [row for run in runs for row in run.headlines]
    worst: dict[str, tuple[float, int]] = {}
    for row in rows:
        name = topic_name(row)
        worst[name] = min(worst.get(name, trouble(row)), trouble(row))
    in_order = sorted(worst, key=lambda name: (worst[name], name))
    topics = in_order[: max(1, min(MOST_TOPICS, MOST_VIEWS // len(runs)))]
    left_out = len(in_order) - len(topics)
    if len(in_order) > 1:
        topics = [ALL_TOPICS, *topics]
    for index, run in enumerate(runs):
        if len(topics) > 1 and run.headlines:
            overall = all_topics(run)
            run.views.append(View(index, 0, None, overall, overall["nodes"], False))
        run.views += [
            View(index, place, row["topic"], row, run.nodes_of(row), len(run.headlines) == 1)
            for place, topic in enumerate(topics)
            for row in run.headlines
            if topic_name(row) == topic and not (place == 0 and len(topics) > 1)
        ]
    return Selection(runs, topics, left_out)


def trouble(headline: Row) -> tuple[float, int]:
    """Ascending: the fewer of the deliveries due were made, the more trouble; then the more messages."""
    ratio = headline["delivery_ratio"]
    return (2.0 if ratio is None else float(ratio), -(headline["messages"] or 0))


def topic_name(headline: Row) -> str:
    name = headline["topic_name"]
    return f"topic {headline['topic']}" if name is None else str(name)


def _open_run(folder: Path) -> Run:
    if not folder.is_dir():
        raise ReportError(f"{folder}: there is no such run folder")
    if _open(folder, HEADLINE) is None:
        raise ReportError(f"{folder}: this run has not been analysed; run `hearsay analyze {folder}` first")
    _require_readable(folder)
    rows: list[Row] = [
        {key: None if isinstance(value, float) and isnan(value) else value for key, value in row.items()}
        for row in _read(folder, HEADLINE, HEADLINE.names).to_pylist()
    ]
    name = str(rows[0]["run"]) if rows else folder.resolve().name
    return Run(folder, name, [row for row in rows if row["topic"] is not None])


def _require_readable(folder: Path) -> None:
    """What is there besides the tables is what it should be: a damaged run is no run without a simulation."""
    summary_of(folder)
    scenario_of(folder)
    if (folder / MANIFEST).exists():
        load_manifest(folder)


def _tell_apart(runs: Sequence[Run]) -> None:
    """Runs of one name are told apart by their folders, and where these say the same, by a number."""
    taken = Counter(run.label for run in runs)
    for run in runs:
        if taken[run.label] > 1:
            run.label = f"{run.label} ({run.folder})"
    seen: Counter[str] = Counter()
    for run in runs:
        seen[run.label] += 1
        if seen[run.label] > 1:
            run.label = f"{run.label} #{seen[run.label]}"


def _read(folder: Path, table: MetricTable, columns: Sequence[str]) -> Any:
    schema = pa.schema([arrow_schema(table).field(name) for name in columns])
    try:
        return _joined((file.read(schema.names) for file in _open(folder, table) or ()), schema)
    except DAMAGED as error:
        raise _unreadable(folder, table, error) from error


def _joined(tables: Iterable[Any], schema: Any) -> Any:
    found = (plain(table).select(schema.names).cast(schema) for table in tables)
    return pa.concat_tables([schema.empty_table(), *found])


def _open(folder: Path, table: MetricTable) -> Any:
    """The files of a finished table with the declared columns, or None if it was not written."""
    try:
        files = [open_foreign(file, table.names) for file in stored_files(folder, table)]
    except DAMAGED as error:
        raise _unreadable(folder, table, error) from error
    for name in (name for file in files for name in table.names if name not in file.schema_arrow.names):
        path = _path(folder, table)
        raise ReportError(f"{path}: column {name} is missing; run `hearsay analyze {folder}` again")
    return files or None


def _path(folder: Path, table: MetricTable) -> Path:
    return folder / METRICS_FOLDER / table.name


def _unreadable(folder: Path, table: MetricTable, error: Exception) -> ReportError:
    return ReportError(f"{_path(folder, table)}: cannot be read ({_first_line(error)})")


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
