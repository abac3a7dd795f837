"""Tables that are made from larger ones: each task makes some of one run's, and all of them are one job of Spark.

What they make is small and comes back to the driver. A task holds what it reads of one run: its table `messages` and
its rows of the small classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow
import pyarrow.ipc
import pyarrow.parquet

from hearsay.pipeline.input.run_facts import RunFacts
from hearsay.pipeline.kernels.stored_members import read_members
from hearsay.pipeline.metrics import churn, efficiency, mesh, resilience, spread, state
from hearsay.pipeline.metrics.disturbances import changes_of, disturbances_of
from hearsay.pipeline.metrics.headline import headline_lines
from hearsay.pipeline.metrics.knowledge import Knowledge
from hearsay.pipeline.metrics.quality import Line, quality_lines
from hearsay.pipeline.metrics.tallies import Tally
from hearsay.pipeline.output import tables
from hearsay.pipeline.output.stored_tables import arrow_schema
from hearsay.pipeline.output.tables import TABLES, MetricTable
from hearsay.pipeline.spark.local_tables import map_batches

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pa: Any = pyarrow
ipc: Any = pyarrow.ipc
parquet: Any = pyarrow.parquet

Made = tuple[MetricTable, Iterable[Mapping[str, Any]]]
"""A table, and lines of it."""
FilesOf = Callable[[Sequence[int]], list[str]]
"""Which files of a run hold the rows of some messages."""
_DDL = "name string, run string, lines binary"
_SCHEMA = pa.schema([("name", pa.string()), ("run", pa.string()), ("lines", pa.binary())])


@dataclass(frozen=True, slots=True)
class Stored:
    """Where large tables of a run lie; without lines there is no folder."""

    messages: str
    memberships: str
    traffic: str


@dataclass(frozen=True, slots=True)
class AnswersOf:
    """The answers and what they are made of: churn, disturbances, loads, state, quality."""

    run: RunFacts
    knowledge: Knowledge
    stored: Stored
    tally: Tally
    speeds: Mapping[int | None, Mapping[str, Any]]
    """Percentiles of latency by topic."""
    reader_checks: Sequence[Line]

    def compute(self) -> Iterator[Made]:
        run, knowledge = self.run, self.knowledge
        messages = _read(self.stored.messages, tables.MESSAGES)
        traffic = _read(self.stored.traffic, tables.TRAFFIC)
        members = read_members(self.stored.memberships)
        changes = changes_of(run)
        balance = efficiency.balance_lines(traffic, members, knowledge)
        sampled = state.state_lines(run)
        disturbances = disturbances_of(run, changes, messages)
        recovery = list(resilience.resilience_lines(run, changes, messages, disturbances))
        checks = [*quality_lines(run, messages, changes, self.tally), *self.reader_checks]
        yield tables.CONTROL, efficiency.control_lines(traffic)
        yield tables.BALANCE, balance
        yield tables.CHURN, churn.churn_lines(run, messages, knowledge)
        yield tables.DISTURBANCES, map(asdict, disturbances)
        yield tables.RESILIENCE, recovery
        yield tables.STATE, sampled
        yield tables.QUALITY, (dict(zip(("check", "rows", "detail"), check, strict=True)) for check in checks)
        yield (
            tables.HEADLINE,
            headline_lines(
                run,
                len(knowledge.observers),
                messages,
                self.speeds,
                efficiency.control_shares(traffic),
                balance,
                sampled,
                recovery,
            ),
        )


@dataclass(frozen=True, slots=True)
class MeshOf:
    """The mesh over time, of some topics."""

    run: RunFacts
    knowledge: Knowledge
    stored: Stored
    topics: Sequence[int]

    def compute(self) -> Iterator[Made]:
        lines: dict[MetricTable, list[Mapping[str, Any]]] = {}
        members = read_members(self.stored.memberships)
        for table, line in mesh.mesh_lines(self.run, self.topics, members, self.knowledge):
            lines.setdefault(table, []).append(line)
        yield from lines.items()


@dataclass(frozen=True, slots=True)
class SpreadOf:
    """How a typical message spread."""

    run: RunFacts
    stored: Stored
    files_of: FilesOf

    def compute(self) -> Iterator[Made]:
        typical = spread.typical_messages(_read(self.stored.messages, tables.MESSAGES))
        files = self.files_of([one.message for one in typical])
        yield tables.SPREAD, spread.spread_lines(self.run, files, typical)


Task = AnswersOf | MeshOf | SpreadOf


def tables_of(spark: SparkSession, tasks: Sequence[Task]) -> Iterator[tuple[MetricTable, str, Any]]:
    """(table, run, lines as Arrow) of all tasks."""

    def work(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            numbers: list[int] = batch.column(0).to_pylist()
            for number in numbers:
                yield from _batches_of(tasks[number])

    made = map_batches(spark.range(0, len(tasks), 1, len(tasks)), work, _DDL)
    for row in made.collect():
        with ipc.open_stream(bytes(row["lines"])) as reader:
            yield TABLES[row["name"]], row["run"], reader.read_all()


def _batches_of(task: Task) -> Iterator[Any]:
    name = task.run.name
    for table, lines in task.compute():
        rows = pa.Table.from_pylist([{**line, "run": name} for line in lines], schema=arrow_schema(table))
        sink = pa.BufferOutputStream()
        with ipc.new_stream(sink, rows.schema) as writer:
            writer.write_table(rows)
        line = {"name": [table.name], "run": [name], "lines": [sink.getvalue().to_pybytes()]}
        yield pa.RecordBatch.from_pydict(line, schema=_SCHEMA)


def _read(folder: str, table: MetricTable) -> Any:
    if not Path(folder).exists():
        return arrow_schema(table).empty_table()
    return parquet.read_table(folder, partitioning=None).select(list(table.names))
