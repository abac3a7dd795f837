"""The rows of runs as DataFrames, from which all metrics are computed.

`read` itself reads only small files of a run: manifest, summary, scenario and dictionaries. Spark reads the rows when
a table is computed. Each class of the trace (docs/reference/trace.md) is one DataFrame over all runs. It has the
columns of the trace files and six columns about the run. Spark shows units and meanings of columns as comments
(docs/reference/tables.md).
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce
from itertools import count
from pathlib import Path
from string import Formatter
from threading import Lock
from typing import Any, Protocol, TypeAlias

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from hearsay.pipeline.output.folders import CARRIED, load_folders
from hearsay.pipeline.output.hadoop_folder import folder_at
from hearsay.pipeline.output.tables import FRAMES, TableSchema, arrow_schema
from hearsay.pipeline.run_facts import SCRIPT_ROLE, TRACED_ROLE, RunFacts
from hearsay.pipeline.spark.settings import SMALL_ROWS
from hearsay.pipeline.spark.work_folder import work_folder
from hearsay.trace.folder.arrow import pa
from hearsay.trace.folder.run_folder import DICTIONARIES
from hearsay.trace.language.places import exactly, place_of
from hearsay.trace.language.schema import CLASSES

RunConditions: TypeAlias = Mapping[str, str]
"""SQL conditions by figure. Each selects the rows of those runs for which table `measured` says that the figure is
known."""
_OF_RUN = ("run", "run_start_us", "run_end_us", "simulated", "window_us", "stretch_s")
_DESCRIPTION = "spark.job.description"
_numbers = count()
MAX_LINES = 3_600
WIDTHS_S = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400)


@dataclass(frozen=True, slots=True)
class Trace:
    """The rows of one or several runs, and facts about these runs."""

    names: tuple[str, ...]
    """The names of the runs."""
    runs: DataFrame
    """One row for each run: the run's clock, window, router and score thresholds."""
    topics: DataFrame
    """Names of the topics, in columns run, topic, topic_name."""
    nodes: DataFrame
    """The nodes of the network, in columns run, node, name. In an import they are the peers that wrote traces."""
    planned: DataFrame
    """The disturbances of the scenarios, in columns run, place, kind, what, since_us, until_us."""
    message: DataFrame
    rpc: DataFrame
    mesh: DataFrame
    node: DataFrame
    score: DataFrame
    exchange: DataFrame

    one_partition: bool
    """True for fewer than `SMALL_ROWS` rows. Each DataFrame then has one partition, so one task reads it."""
    _lock: Lock = field(init=False, default_factory=Lock)
    _views: dict[int, tuple[DataFrame, str]] = field(init=False, default_factory=dict[int, tuple[DataFrame, str]])

    def local(self, arrow: Any, schema: StructType) -> DataFrame:
        """Return an Arrow table as a DataFrame with this schema."""
        spark: Any = self.runs.sparkSession
        frame: DataFrame = spark.createDataFrame(arrow, schema)
        return frame.coalesce(1) if self.one_partition else frame

    @contextmanager
    def step(self, name: str) -> Generator[None]:
        """Describe the Spark jobs that this thread starts in the `with` block: Spark's UI and event log show `name`.

        Over Spark Connect, jobs get no description.
        """
        context: Any = getattr(self.runs.sparkSession, "sparkContext", None)  # Connect has none
        before = context and context.getLocalProperty(_DESCRIPTION)
        if context:
            context.setJobDescription(name)
        try:
            yield
        finally:
            if context:
                context.setLocalProperty(_DESCRIPTION, before)

    def query(self, text: str, **frames: DataFrame) -> DataFrame:
        """Return the result of a SQL text. A name in braces is that of a DataFrame of the trace, or one of `frames`.

        `{run}` stands for the column `run`. If the trace has one run, it stands for a literal with the run's name,
        because Spark sums many rows faster if no string is among the keys.
        """
        texts = {name: self._view(frames.get(name) or getattr(self, name)) for name in named_in(text)}
        texts["run"] = _literal(self.names[0]) if len(self.names) == 1 else "run"
        return self.runs.sparkSession.sql(text.format_map(texts))

    def _view(self, frame: DataFrame) -> str:
        """Return the name of a DataFrame's view. `spark.sql(text, **frames)` would create a new view at each use."""
        with self._lock:
            if id(frame) not in self._views:
                view = f"hearsay_{next(_numbers)}"
                frame.createOrReplaceTempView(view)
                self._views[id(frame)] = (frame, view)
            return self._views[id(frame)][1]


class Frames(Protocol):
    """The DataFrames that the SQL of a table can name: those of a trace, and other tables."""

    @property
    def is_measured(self) -> RunConditions: ...

    def query(self, text: str) -> DataFrame:
        """Return the result of a SQL text with names in braces, as `Trace.query` does."""
        ...


def named_in(text: str) -> set[str]:
    """Return the names that a SQL text has in braces, except `run`."""
    return {name for _, name, _, _ in Formatter().parse(text) if name} - {"run"}


def read(spark: SparkSession, paths: Sequence[str | Path], window_us: int | None = None) -> Trace:
    """Return the rows of the runs at `paths`, which are local folders or URIs in stores.

    `window_us` is the time that a node must stay in a topic after a message to be eligible for it. With None, it is
    `linger_s` of the run's scenario or, without a scenario, 30 seconds. Raise `RunFolderError` if a run cannot be
    read.
    """
    with work_folder() as scratch:
        folders = [folder_at(place_of(str(path)), spark, scratch) for path in paths]
        for folder in folders:
            folder.refresh(CARRIED.__contains__)
        return trace_of(spark, load_folders(folders, window_us))


def trace_of(spark: SparkSession, runs: Sequence[RunFacts]) -> Trace:
    """Return the rows of these runs."""
    topics = [(run.name, number, name) for run in runs for number, name in run.topics.items()]
    planned = [
        (run.name, number, one.kind, one.what, one.since_us, one.until_us)
        for run in runs
        for number, one in enumerate(run.disturbances)
    ]
    small = sum(run.rows for run in runs) < SMALL_ROWS

    def whole(kind: str, frame: DataFrame) -> DataFrame:
        described = commented(frame, FRAMES[kind])
        return described.coalesce(1) if small else described

    return Trace(
        one_partition=small,
        names=tuple(run.name for run in runs),
        runs=whole("runs", _local_frame(spark, [_facts_row(run) for run in runs], "runs")),
        topics=whole("topics", _local_frame(spark, topics, "topics")),
        nodes=whole("nodes", _nodes(spark, runs)),
        planned=whole("planned", _local_frame(spark, planned, "planned")),
        **{name: whole("rows", _class_rows(spark, runs, name)) for name in CLASSES},
    )


def _local_frame(spark: Any, rows: Sequence[tuple[Any, ...]], kind: str) -> DataFrame:
    """Return a DataFrame of rows of the driver, with the columns of `FRAMES[kind]`.

    It is created from an Arrow table, so that its plan needs no Python worker.
    """
    frame = FRAMES[kind]
    lines = [dict(zip(frame.names, row, strict=True)) for row in rows]
    return spark.createDataFrame(pa.Table.from_pylist(lines, arrow_schema(frame)), StructType.fromDDL(frame.ddl))


def _facts_row(run: RunFacts) -> tuple[Any, ...]:
    bounds = run.thresholds
    return (
        *_of_run(run), run.router, run.rows, run.manifest.complete, run.still_written,
        run.uplink_bits_per_s, bounds and bounds.gossip, bounds and bounds.publish, bounds and bounds.graylist,
    )  # fmt: skip


def _of_run(run: RunFacts) -> tuple[str, int, int, bool, int, int]:
    return run.name, run.start_us, run.end_us, run.simulated, run.window_us, stretch_s(run.end_us - run.start_us)


def stretch_s(length_us: int) -> int:
    """Return the length in seconds of the stretches into which tables over time divide a run.

    The length is 1, or more in a long run, so that a run has at most `MAX_LINES` stretches.
    """
    least = -(-length_us // (MAX_LINES * 1_000_000))
    return next((width for width in WIDTHS_S if width >= least), least)


def _class_rows(spark: SparkSession, runs: Sequence[RunFacts], trace_class: str) -> DataFrame:
    """Return the rows of a class, with one scan for each run. The columns about the run are constants of its scan."""
    with_run: Any = StructType.fromDDL(FRAMES["rows"].ddl)
    scans = [
        spark.read.schema(with_run[: -len(_OF_RUN)])
        .parquet(*(exactly(run.place(file.name)) for file in run.files(trace_class)))
        .selectExpr("*", *_run_columns(run))
        for run in runs
        if run.files(trace_class)
    ]
    if not scans:
        return _local_frame(spark, [], "rows")
    return reduce(lambda left, right: left.unionAll(right), scans)


def _run_columns(run: RunFacts) -> list[str]:
    return [f"{_literal(value)} as {name}" for value, name in zip(_of_run(run), _OF_RUN, strict=True)]


def _literal(value: str | int) -> str:
    match value:
        case str():
            return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        case bool():
            return str(value).lower()
        case int():
            return f"{value}L"


def of_runs(runs: Collection[str], count: int) -> str:
    """Return the SQL condition that a row belongs to one of `runs`. `count` is the number of all runs.

    Braces in names are doubled, because `Trace.query` formats the text.
    """
    if len(runs) in (0, count):
        return str(bool(runs)).lower()
    names = ", ".join(map(_literal, sorted(runs)))
    return f"run in ({names.replace('{', '{{').replace('}', '}}')})"


def _nodes(spark: SparkSession, runs: Sequence[RunFacts]) -> DataFrame:
    """Return the peers that are nodes, without scripts that inject messages.

    In an import these are the peers that wrote traces.
    """
    name = f"{DICTIONARIES}/peers.parquet"
    scans = [
        spark.read.schema("peer int, name string, role string")
        .parquet(exactly(run.place(name)))
        .selectExpr("*", *_run_columns(run))
        for run in runs
        if (run.path / name).exists()
    ]
    if not scans:
        return _local_frame(spark, [], "nodes")
    return spark.sql(
        f"""
        with known as (select run, peer, name, coalesce(role, '') as role from {{peers}} where peer is not null),
        traced as (select run, max(role = '{TRACED_ROLE}') as any from known group by run)
        select run, peer as node, name from known join traced using (run)
        where if(any, role = '{TRACED_ROLE}', role <> '{SCRIPT_ROLE}')""",
        peers=reduce(lambda left, right: left.unionAll(right), scans),
    )


def commented(frame: DataFrame, table: TableSchema) -> DataFrame:
    """Return `frame` with the columns of `table`, in its order and types.

    Each column has its meaning and unit as a comment, which Spark shows for `DESCRIBE` of a view.
    """
    schema: Any = StructType.fromDDL(table.ddl)
    for column in schema:
        _, unit, meaning = table.columns[column.name]
        column.metadata = {"comment": f"{meaning} ({unit})" if unit else meaning}
    return frame.to(schema)
