"""Tasks that make tables, run as one job of Spark; what they make is small and comes back to the driver."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow
import pyarrow.ipc

from hearsay.pipeline.input.run_facts import RunFacts
from hearsay.pipeline.output.stored_tables import arrow_schema
from hearsay.pipeline.output.tables import TABLES, MetricTable
from hearsay.pipeline.spark.task_lists import made_by_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pa: Any = pyarrow
ipc: Any = pyarrow.ipc

Made = tuple[MetricTable, Iterable[Mapping[str, Any]]]
"""A table, and lines of it."""


class MakesTables(Protocol):
    """A task, or several as one."""

    @property
    def run(self) -> RunFacts: ...
    def compute(self) -> Iterator[Made]: ...


def tables_of(
    spark: SparkSession, tasks: Sequence[MakesTables], rows: int | None = None
) -> Iterator[tuple[MetricTable, str, Any]]:
    """(table, run, lines as Arrow) of all tasks; `rows` as in `made_by_tasks`."""

    def work(number: int) -> Iterator[bytes]:
        return _streams_of(tasks[number])

    for stream in made_by_tasks(spark, len(tasks), work, rows):
        with ipc.open_stream(stream) as reader:
            named = reader.schema.metadata
            yield TABLES[named[b"table"].decode()], named[b"run"].decode(), reader.read_all()


def _streams_of(task: MakesTables) -> Iterator[bytes]:
    """What a task makes as streams of Arrow, which say whose they are."""
    name = task.run.name
    for table, lines in task.compute():
        schema = arrow_schema(table).with_metadata({"table": table.name, "run": name})
        rows = pa.Table.from_pylist([{**line, "run": name} for line in lines], schema=schema)
        sink = pa.BufferOutputStream()
        with ipc.new_stream(sink, schema) as writer:
            writer.write_table(rows)
        yield sink.getvalue().to_pybytes()
