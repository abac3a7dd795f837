"""The import on Spark, for traces too large for one process.

Rules:

* Records are read once, by the data source, and wait in Parquet: a file's last byte may show that it is bad.
* Spark finds the distinct names of peers and topics, which grow with the network. Rows are ranged by class and, in
  class message, by message, else by time, so the messages of a partition follow those of earlier ones in the order
  of their ids: their numbers begin where Spark counts that many distinct messages before.
* Spark chooses the ranges from samples, so it stores the rows of each range: a second evaluation could choose others.
* A task holds one partition. The driver holds the names of peers and topics, and the notes of partitions. All rows of
  a message are in one partition, however many there are.
* The run folder and the files given must be at the same paths for all tasks.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from pyspark import StorageLevel, TaskContext
from pyspark.sql import functions

from hearsay.ingest.data_source import NAME, TraceSource
from hearsay.ingest.import_traces import Given, Reader, Records, repeated
from hearsay.ingest.partition import Numbering, write_partition
from hearsay.ingest.records import FIELDS
from hearsay.ingest.source_record import SourceFile
from hearsay.trace.folder.arrow import pa
from hearsay.trace.folder.arrow_compute import compute
from hearsay.trace.folder.exact_paths import exactly
from hearsay.trace.language.schema import CLASSES

f: Any = functions
_ROWS_PER_PARTITION = 2_000_000
_OF_MESSAGE = "(message IS NOT NULL OR class <=> 'message')"


def read_with_spark(spark: Any, rows_per_partition: int = _ROWS_PER_PARTITION) -> Reader:
    """A reader whose work this session does."""

    def read(given: Given, scratch: Path) -> Records:
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
        return _RecordsOnSpark(files, origin_ns, good, _placed(good, partitions))

    return read


@dataclass(frozen=True, slots=True)
class _RecordsOnSpark:
    files: Sequence[SourceFile]
    origin_ns: int
    records: Any
    placed: Any
    """In partitions, which stay what they are."""

    def names(self, *columns: str) -> Any:
        name = f.explode(f.array(*columns)).alias("name")
        found: Any = self.records.select(name).where("name IS NOT NULL").distinct().toArrow()
        names: Any = found.column("name").combine_chunks().cast(pa.string())
        return names.take(compute.sort_indices(names))

    def write(self, numbering: Numbering, run: Path, notes: Path) -> None:
        counted = self.placed.groupBy(f.spark_partition_id().alias("number")).agg(f.count_distinct("message"))
        messages: dict[int, int] = dict(counted.collect())
        firsts: list[int] = [
            0,
            *accumulate(messages.get(number, 0) for number in range(max(messages, default=0) + 1)),
        ]

        def work(batches: Iterator[Any]) -> Iterator[Any]:
            table = pa.Table.from_batches([_with_dictionaries(batch) for batch in batches])
            if table.num_rows:
                context: Any = TaskContext.get()
                number: int = context.partitionId()
                write_partition(table, numbering, run, notes, number, firsts[number])
            yield pa.RecordBatch.from_pydict({"rows": pa.array([table.num_rows], pa.int64())})

        self.placed.mapInArrow(work, "rows bigint").collect()


def _source(spark: Any, given: Given) -> Any:
    spark.dataSource.register(TraceSource)
    options = {"paths": json.dumps([str(path) for path in given.paths]), "partitionBytes": given.unit_bytes}
    if given.wanted is not None:
        options["traceFormat"] = given.wanted
    return spark.read.format(NAME).options(**options).load()


def _placed(records: Any, partitions: int) -> Any:
    group = f.expr(f"CASE WHEN {_OF_MESSAGE} THEN 'message' ELSE coalesce(class, '') END")
    time = f.expr(f"CASE WHEN NOT {_OF_MESSAGE} THEN time_ns END")
    placed = records.select(*FIELDS).repartitionByRange(partitions, group, f.col("message"), time)
    return placed.persist(StorageLevel.DISK_ONLY)


def _with_dictionaries(batch: Any) -> Any:
    columns = [column.dictionary_encode() if pa.types.is_string(column.type) else column for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
