"""The Spark data source `hearsay`, and the import on Spark, for traces that are too large for one process.

Rules of the import:

* The data source reads all records once, and Spark stores them in Parquet before any are used. For only the last byte
  of a file may show that the file is bad.
* Spark finds the distinct names of peers and topics, whose number grows with the network. It partitions the records
  by ranges: by class, then by message in the class `message`, and by time in other classes. So the names of a
  partition's messages are greater than those of earlier partitions, and the number of a partition's first message is
  the number of distinct messages in earlier partitions.
* Spark chooses the ranges from samples, and a second evaluation could choose other ranges. So Spark stores the
  records of each range on disk.
* A task has one partition in memory. All rows of a message are in one partition, even if they are many. The driver
  has the names of peers and topics, and the notes of partitions.
* The run folder and the given files must have the same paths on all machines.

Rules of the data source, whose columns are in `records.py`:

* A partition is a unit (`sources.py`): a range of bytes of a file, cut between events, or a whole file if the file
  cannot be read from the middle.
* The driver plans the partitions, and tasks read them. The files must have the same paths for the driver and the
  tasks.
* If an event cannot be read, the records before it are followed by a record with `error`, and the rest of the
  partition is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from glob import glob, has_magic
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import StorageLevel, TaskContext
from pyspark.sql import functions
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from hearsay.ingest.import_traces import ImportInput, Reader, Records, repeated
from hearsay.ingest.partition import Numbering, write_partition
from hearsay.ingest.records import DDL, FIELDS, plain
from hearsay.ingest.source_record import SourceFile
from hearsay.ingest.sources import FORMATS, LIVE, UNIT_BYTES, Unit, records_of, units_of
from hearsay.trace.folder.arrow import pa
from hearsay.trace.folder.arrow_compute import compute
from hearsay.trace.language.places import exactly
from hearsay.trace.language.schema import CLASSES

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


NAME = "hearsay"


@dataclass(frozen=True)
class UnitPartition(InputPartition):
    unit: Unit


class TraceSource(DataSource):
    """The data source that `spark.read.format("hearsay").load(path)` reads."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return DDL

    def reader(self, schema: StructType) -> DataSourceReader:
        return TraceReader(self.options)


class TraceReader(DataSourceReader):
    def __init__(self, options: Mapping[str, str]) -> None:
        self._paths = _paths(options)
        self._wanted = options.get("traceFormat")
        given = options.get("partitionBytes", str(UNIT_BYTES))
        self._unit_bytes = int(given) if given.isascii() and given.isdigit() else 0
        if self._wanted not in (None, LIVE, *FORMATS):
            raise ValueError(f"traceFormat {self._wanted!r}: must be {', '.join(FORMATS)}")
        if self._unit_bytes < 1:
            raise ValueError(f"partitionBytes {given!r}: must be a whole number of 1 or more")

    def partitions(self) -> list[InputPartition]:
        files = self._paths if self._wanted == LIVE else [file for path in self._paths for file in _files(path)]
        return [
            UnitPartition(unit) for file in files for unit in units_of(Path(file), self._wanted, self._unit_bytes)
        ]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, UnitPartition)
        return map(plain, records_of(partition.unit))


def _paths(options: Mapping[str, str]) -> list[str]:
    """Return the paths that the user gave to `load`. Spark passes one path as the option `path`, and several paths as
    JSON in the option `paths`.
    """
    paths = json.loads(options["paths"]) if "paths" in options else [options["path"]] if "path" in options else []
    if not paths:
        raise ValueError("no path: load(path) or load([path, …])")
    return [path.removeprefix("file://") for path in paths]


def _files(path: str) -> list[str]:
    """Return the file with this path, the visible files of a folder, or the files that match a pattern."""
    if Path(path).is_dir():
        return sorted(
            str(file) for file in Path(path).iterdir() if file.is_file() and not file.name.startswith((".", "_"))
        )
    found = sorted(glob(path)) if has_magic(path) and not Path(path).exists() else [path]
    if not found:
        raise ValueError(f"{path}: no such files")
    return found


f: Any = functions
_ROWS_PER_PARTITION = 2_000_000
_OF_MESSAGE = "(message IS NOT NULL OR class <=> 'message')"


def read_with_spark(spark: Any, rows_per_partition: int = _ROWS_PER_PARTITION) -> Reader:
    """Return a reader for `import_traces` and `join_runs` that uses the session `spark`."""

    def read(given: ImportInput, scratch: Path) -> Records:
        path = scratch / "records"
        _source(spark, given).write.parquet(str(path))
        records = spark.read.parquet(exactly(path))
        ends = [end(name) for name in ("time_ns", "peer", "kind") for end in (f.min, f.max)]
        found = (
            records.groupBy("file", "format")
            .agg(f.min("error"), f.count_if(f.col("part") == 0), f.count("*"), *ends)
            .collect()
        )
        firsts: dict[object, str] = {}
        given_order = [str(path) for path in given.paths]
        files: list[SourceFile] = []
        for name, format_, error, *span in sorted(found, key=lambda row: given_order.index(row[0])):
            problem = error or repeated(firsts, name, *span)
            files.append(SourceFile(name, format_, 0 if problem else span[0], problem))
        bad = {file.name for file in files if file.reason}
        good = records.where(~f.col("file").isin(bad)) if bad else records
        rows = sum(row[4] for row in found)
        partitions = max(rows // rows_per_partition + 1, len(CLASSES))
        origin_ns = min((row[5] for row in found if row[0] not in bad and row[5] is not None), default=0)
        return _RecordsOnSpark(files, origin_ns, good, _partitioned_on_disk(good, partitions))

    return read


@dataclass(frozen=True, slots=True)
class _RecordsOnSpark(Records):
    records: Any
    placed: Any
    """The records, partitioned by ranges and stored on disk, so that the partitions do not change."""

    def names(self, *columns: str) -> Any:
        name = f.explode(f.array(*columns)).alias("name")
        found: Any = self.records.select(name).where("name IS NOT NULL").distinct().toArrow()
        names: Any = found.column("name").combine_chunks().cast(pa.string())
        return names.take(compute.sort_indices(names))

    def write(self, numbering: Numbering, run: Path, notes: Path) -> None:
        counted = self.placed.groupBy(f.spark_partition_id().alias("number")).agg(f.count_distinct("message"))
        messages: dict[int, int] = dict(counted.collect())
        firsts = [0, *accumulate(messages.get(number, 0) for number in range(max(messages, default=0) + 1))]

        def work(batches: Iterator[Any]) -> Iterator[Any]:
            table = pa.Table.from_batches([_with_dictionaries(batch) for batch in batches])
            if table.num_rows:
                context: Any = TaskContext.get()
                number: int = context.partitionId()
                write_partition(table, numbering, run, notes, number, firsts[number])
            yield pa.RecordBatch.from_pydict({"rows": pa.array([table.num_rows], pa.int64())})

        self.placed.mapInArrow(work, "rows bigint").collect()


def _source(spark: Any, given: ImportInput) -> Any:
    spark.dataSource.register(TraceSource)
    options = {"paths": json.dumps([str(path) for path in given.paths]), "partitionBytes": given.unit_bytes}
    if given.wanted is not None:
        options["traceFormat"] = given.wanted
    return spark.read.format(NAME).options(**options).load()


def _partitioned_on_disk(records: Any, partitions: int) -> Any:
    """Return the records, partitioned by ranges and stored on disk."""
    group = f.expr(f"CASE WHEN {_OF_MESSAGE} THEN 'message' ELSE coalesce(class, '') END")
    places = group, f.col("message"), f.expr(f"CASE WHEN NOT {_OF_MESSAGE} THEN time_ns END")
    return records.select(*FIELDS).repartitionByRange(partitions, *places).persist(StorageLevel.DISK_ONLY)


def _with_dictionaries(batch: Any) -> Any:
    columns = [column.dictionary_encode() if pa.types.is_string(column.type) else column for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
