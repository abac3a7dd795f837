"""The same import as a Spark job: the same functions, run by Spark's tasks, for traces too large for one process.

Rules:

* `map` sends functions and tasks to `mapInArrow`, one task each; results come back by place, as data
  (`task_results`).
* The trace is written by one shuffle: rows are ranged by class and, in class message, by message, else by time;
  each partition sorts its rows and writes a part for each class it has. So no message straddles two files. A message
  lies in one partition however large it is.
* The trace hash is a sum over rows, so the parts' hashes add up to what one process gets.
* The run folder and the files given must be readable by all tasks at the same paths. A task that runs twice writes
  the same file again.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from hearsay.ingest.import_traces import UNIT_BYTES, ImportResult, import_traces
from hearsay.ingest.numbering import NumberedPart, numbered_rows
from hearsay.ingest.parts import load_part
from hearsay.ingest.workers import BadResult, from_bytes, to_bytes
from hearsay.trace.folder.arrow import pa
from hearsay.trace.folder.manifest import WrittenTrace
from hearsay.trace.language.columns import ColumnBuilder
from hearsay.trace.language.digest import TraceDigest, hash_of_parts
from hearsay.trace.language.rows import Rows
from hearsay.trace.language.schema import CLASSES, COLUMNS, NONE, Column, PartKind, TraceEvent, class_of
from hearsay.trace.write.part_files import PartFiles
from hearsay.trace.write.run_folder import RunFolder

Task = TypeVar("Task")
Result = TypeVar("Result")

_RESULT = "place int, result binary"
_ROW = ", ".join(["class int", "place bigint", *(f"{name} bigint" for name in COLUMNS)])
_ORDER = ["class", "place", *(name for name in COLUMNS if name != "message")]
_GROUP_ROWS = 1_000_000
_ROWS_PER_FILE = 4_000_000

_PART_NAME = re.compile(r"trace/class=[a-z]+/part-[0-9]{5,}\.parquet")
_KINDS = len(PartKind) + 1
_CLASS_OF = np.array(
    [CLASSES.index(class_of(event, kind)) for event in range(len(TraceEvent)) for kind in range(NONE, len(PartKind))]
)
_MESSAGE = CLASSES.index("message")


def import_with_spark(
    spark: Any,
    files: Sequence[Path],
    run: RunFolder,
    *,
    wanted: str | None = None,
    unit_bytes: int = UNIT_BYTES,
    rows_per_file: int = _ROWS_PER_FILE,
) -> ImportResult:
    """As `import_traces`, with the work done by this SparkSession."""
    workers = SparkWorkers(spark, rows_per_file)
    return import_traces(files, run, wanted=wanted, workers=workers, unit_bytes=unit_bytes)


class SparkWorkers:
    def __init__(self, spark: Any, rows_per_file: int = _ROWS_PER_FILE) -> None:
        self._spark = spark
        self._rows_per_file = rows_per_file

    def map(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        if not tasks:
            return []

        def work(batches: Iterator[Any]) -> Iterator[Any]:
            for batch in batches:
                for place, task in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                    result = to_bytes(function(pickle.loads(task)))
                    yield _batch({"place": pa.array([place], pa.int32()), "result": [result]})

        found = self._tasks(tasks).mapInArrow(work, _RESULT).collect()
        return [from_bytes(bytes(row.result)) for row in sorted(found, key=lambda row: row.place)]

    def write(self, run: Path, parts: Sequence[NumberedPart]) -> WrittenTrace:
        def read(batches: Iterator[Any]) -> Iterator[Any]:
            for batch in batches:
                for task in batch.column(1).to_pylist():
                    for rows in numbered_rows(pickle.loads(task)):
                        yield _with_place(rows)

        def write(batches: Iterator[Any]) -> Iterator[Any]:
            part = _PartitionWriter(run)
            for batch in batches:
                part.add(batch)
            yield _batch({"place": pa.array([0], pa.int32()), "result": [to_bytes(part.finish())]})

        rows = self._tasks(parts).mapInArrow(read, _ROW)
        total = sum(load_part(part.folder).rows for part in parts)
        partitions = max(total // self._rows_per_file + 1, len(CLASSES))
        placed = rows.repartitionByRange(partitions, "class", "place").sortWithinPartitions(*_ORDER)
        written = [from_bytes(bytes(row.result)) for row in placed.mapInArrow(write, _RESULT).collect()]
        return _merged(written)

    def _tasks(self, tasks: Sequence[Any]) -> Any:
        rows = [(place, pickle.dumps(task)) for place, task in enumerate(tasks)]
        return self._spark.createDataFrame(rows, "place int, task binary").repartition(len(rows))


class _PartitionWriter:
    """Writes the sorted rows of one partition, a part for each class, named by the partition's number."""

    def __init__(self, run: Path) -> None:
        self._run = run
        self._digest = TraceDigest()
        self._parts: dict[int, PartFiles] = {}
        self._builder = ColumnBuilder(_GROUP_ROWS)
        self._waiting: list[Rows] = []
        self._class = NONE

    def add(self, batch: Any) -> None:
        classes = batch.column(0).to_numpy()
        rows = np.column_stack([column.to_numpy() for column in batch.columns[2:]])
        self._digest.add(rows)
        for trace_class in np.unique(classes).tolist():
            if trace_class != self._class:
                self._flush()
                self._class = trace_class
            self._waiting.append(rows[classes == trace_class])
            if sum(map(len, self._waiting)) >= _GROUP_ROWS:
                self._flush()

    def finish(self) -> WrittenTrace:
        self._flush()
        for part in self._parts.values():
            part.finish()
        files = tuple(file for part in self._parts.values() for file in part.finished)
        return WrittenTrace(files, self._digest.rows, self._digest.hex(), (), 0)

    def _flush(self) -> None:
        if not self._waiting:
            return
        rows = np.concatenate(self._waiting)
        self._waiting = []
        first = _partition_id()
        part = self._parts.setdefault(self._class, PartFiles(self._run, CLASSES[self._class], first))
        for start in range(0, len(rows), _GROUP_ROWS):
            group = rows[start : start + _GROUP_ROWS]
            part.write_group(self._builder.build(group, np.arange(len(group))))


def _partition_id() -> int:
    pyspark: Any = import_module("pyspark")  # only Spark's tasks have it
    return int(pyspark.TaskContext.get().partitionId())


def _with_place(rows: Rows) -> Any:
    classes = _CLASS_OF[rows[:, Column.EVENT] * _KINDS + (rows[:, Column.KIND] - NONE)]
    place = np.where(classes == _MESSAGE, rows[:, Column.MESSAGE], rows[:, Column.TIME_US])
    columns = [pa.array(classes.astype(np.int32)), pa.array(place)]
    columns += [pa.array(np.ascontiguousarray(rows[:, column])) for column in Column]
    return pa.RecordBatch.from_arrays(columns, names=["class", "place", *COLUMNS])


def _batch(columns: dict[str, Any]) -> Any:
    return pa.RecordBatch.from_pydict(columns)


def _merged(written: Sequence[WrittenTrace]) -> WrittenTrace:
    files = sorted((file for each in written for file in each.files), key=lambda file: file.name)
    for file in files:
        if not _PART_NAME.fullmatch(file.name):
            raise BadResult(f"a task wrote {file.name[:80]!r}, which is no part of a trace")
    files.sort(key=lambda file: CLASSES.index(file.trace_class))
    return WrittenTrace(
        tuple(files),
        sum(each.rows for each in written),
        hash_of_parts(each.hash for each in written),
        (),
        max((file.rows for file in files), default=0),
    )
