"""One scan of the trace files, each by one task, for all figures that are sums or lie within a message.

Spark hands out the files and adds up what they say; numpy does the work in between (`kernels.message_file`). That
is why it matters that no message straddles two files. The manifest names those that do: they are left out here and
computed by `metrics.messages` with a shuffle.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow
from pyspark.sql import functions as F

from hearsay.core.language.rpc import PartKind
from hearsay.pipeline.input.run_facts import RunFacts
from hearsay.pipeline.kernels.columns import row_groups, whole_messages
from hearsay.pipeline.kernels.eligibility import Eligibility
from hearsay.pipeline.kernels.latency_pairs import packed
from hearsay.pipeline.kernels.message_file import FIGURES, NEEDED, MessagePass, pass_over
from hearsay.pipeline.kernels.part_counts import part_counts
from hearsay.pipeline.kernels.partial_sums import Sums, joined, merged
from hearsay.pipeline.kernels.sorted_values import UNKNOWN
from hearsay.pipeline.kernels.stored_members import read_members
from hearsay.pipeline.kernels.traffic_sums import message_traffic, recorded_sizes, traffic_of
from hearsay.pipeline.metrics.messages import finish
from hearsay.pipeline.spark.local_tables import map_batches
from hearsay.trace.language.schema import Column, wire_name

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame, SparkSession

pa: Any = pyarrow

PARTS_DDL = "what string, run string, k0 bigint, k1 bigint, k2 bigint, amounts array<bigint>"
RPC_COLUMNS = (
    Column.TIME_US, Column.EVENT, Column.KIND, Column.PEER, Column.REMOTE, Column.TOPIC, Column.BYTES, Column.COUNT,
    Column.DELAY_US, Column.REASON,
)  # fmt: skip
PARTS_SCHEMA = pa.schema(
    [("what", pa.string()), ("run", pa.string()), ("k0", pa.int64()), ("k1", pa.int64()), ("k2", pa.int64()),
     ("amounts", pa.list_(pa.int64()))]
)  # fmt: skip
REPEATED, SIZES, COUNT = TALLIES = ("repeated", "sizes", "count")
_CHUNK = 200_000
_AMOUNTS = 6


@dataclass(frozen=True, slots=True)
class FileTask:
    """What one task works on."""

    run: str
    path: str
    trace_class: str
    start_us: int
    end_us: int
    window_us: int
    memberships: str
    """Where the run's memberships lie as Parquet."""
    spanning: tuple[int, ...]


def scan(spark: SparkSession, runs: Sequence[RunFacts], memberships: Mapping[str, str]) -> DataFrame:
    """The partial sums of all files of the classes message and rpc; `memberships` says by run where they lie."""
    tasks = [
        FileTask(
            run.name,
            str(run.path / file.name),
            trace_class,
            run.start_us,
            run.end_us,
            run.window_us,
            memberships[run.name],
            run.manifest.trace.spanning_messages,
        )
        for run in runs
        for trace_class in ("message", "rpc")
        for file in run.files(trace_class)
    ]

    def work(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            numbers: list[int] = batch.column(0).to_pylist()
            for number in numbers:
                yield from work_on(tasks[number])

    count = max(len(tasks), 1)
    return map_batches(spark.range(0, len(tasks), 1, count), work, PARTS_DDL)


def work_on(task: FileTask) -> Iterator[Any]:
    """The partial sums of one file, as Arrow batches."""
    of_rpcs = task.trace_class == "rpc"
    members = {} if of_rpcs else eligibility_of(task.memberships, task.end_us)
    passes: list[MessagePass] = []
    traffic: list[Sums] = []
    counts: list[Sums] = []
    sizes: list[Sums] = []
    for rows in row_groups(task.path, RPC_COLUMNS) if of_rpcs else whole_messages(task.path, NEEDED):
        traffic.append(traffic_of(rows, task.end_us) if of_rpcs else message_traffic(rows, task.end_us))
        counts.append(part_counts(rows, task.start_us, task.end_us))
        sizes.append(recorded_sizes(rows))
        if not of_rpcs:
            passes.append(pass_over(rows, members, task.end_us, task.window_us, task.spanning))
    yield from row_sums(task.run, traffic, counts, sizes)
    if passes:
        yield from message_sums(task.run, passes)


def row_sums(run: str, traffic: list[Sums], counts: list[Sums], sizes: list[Sums]) -> Iterator[Any]:
    """What adds up over rows, as Arrow batches; of at least one group of rows."""
    yield from batches_of("traffic", run, merged(traffic))
    yield from batches_of(COUNT, run, merged(counts))
    yield from batches_of(SIZES, run, merged(sizes))


def message_sums(run: str, passes: list[MessagePass]) -> Iterator[Any]:
    """What is said of messages, as Arrow batches; of at least one group of rows."""
    yield from batches_of("message", run, joined([part.figures for part in passes]))
    yield from batches_of("latency", run, merged([part.latency for part in passes]))
    yield from batches_of(REPEATED, run, merged([part.repeated for part in passes]))
    exact = merged([part.exact_latency for part in passes])
    for topic, pairs in packed(exact.keys[:, 0], exact.keys[:, 1], exact.values[:, 0]):
        yield from batches_of("exact", run, Sums(np.array([[topic]]), pairs.reshape(1, -1)))


def messages_of(parts: DataFrame) -> DataFrame:
    """The table `messages` of the messages that lie whole in a file."""
    columns: dict[str, SparkColumn] = {
        name: _known(F.get("amounts", F.lit(position))) for position, name in enumerate(FIGURES)
    }
    for percent in (50, 90, 99):
        columns[f"p{percent}_us"] = columns.pop(f"p{percent}_x100") / 100
    columns["publisher"] = F.nullif(columns["publisher"], F.lit(-1))
    columns["bytes"] = F.nullif(columns["bytes"], F.lit(-1))
    figures = parts.where(F.col("what") == "message").select(
        "run",
        F.nullif(F.col("k0"), F.lit(-1)).alias("topic"),
        F.col("k1").alias("message"),
        *(column.alias(name) for name, column in columns.items()),
    )
    return finish(figures)


def latency_pairs_of(parts: DataFrame) -> DataFrame:
    """(run, topic, pairs), see `metrics.speed`."""
    exact = parts.where(F.col("what") == "exact")
    return exact.select(
        "run", F.nullif(F.col("k0"), F.lit(-1)).cast("int").alias("topic"), F.col("amounts").alias("pairs")
    )


def latencies_of(parts: DataFrame) -> DataFrame:
    """(run, topic, latency_us, hops, deliveries), latencies rounded down."""
    summed = _summed(parts, "latency", ("topic", "latency_us", "hops"), ("deliveries",))
    return summed.withColumn("hops", F.nullif(F.col("hops"), F.lit(-1)))


def traffic_table(parts: DataFrame) -> DataFrame:
    """The table `traffic`."""
    amounts = ("parts_out", "ids_out", "bytes_out", "parts_in", "ids_in", "bytes_in")
    summed = _summed(parts, "traffic", ("topic", "node", "kind"), amounts)
    names = F.array(*(F.lit(wire_name(kind)) for kind in PartKind))
    return summed.withColumns(
        {"topic": F.nullif(F.col("topic"), F.lit(-1)), "kind": F.get(names, F.col("kind").cast("int"))}
    )


def tallies_of(parts: DataFrame) -> DataFrame:
    """(what, run, k0, k1, k2, first, second, third): all that adds up to few lines (`metrics.tallies`)."""
    few = parts.where(F.col("what").isin(*TALLIES)).groupBy("what", "run", "k0", "k1", "k2")
    sums = {name: F.sum(F.get("amounts", F.lit(place))) for place, name in enumerate(("first", "second", "third"))}
    return few.agg(*(column.alias(name) for name, column in sums.items()))


def _summed(parts: DataFrame, what: str, keys: Sequence[str], amounts: Sequence[str]) -> DataFrame:
    named = parts.where(F.col("what") == what).groupBy("run", *(f"k{position}" for position in range(len(keys))))
    sums = named.agg(*(F.sum(F.get("amounts", F.lit(position))).alias(name) for position, name in enumerate(amounts)))
    return sums.withColumnsRenamed({f"k{position}": name for position, name in enumerate(keys)})


def _known(column: SparkColumn) -> SparkColumn:
    return F.nullif(column, F.lit(UNKNOWN))


def eligibility_of(folder: str, end_us: int) -> dict[int, Eligibility]:
    """By topic, from where the memberships lie."""
    members = read_members(folder)
    eligible: dict[int, Eligibility] = {}
    for topic in np.unique(members.topic).tolist():
        there = members.of_topic(topic)
        eligible[topic] = Eligibility(there.node, there.since_us, there.until_us, end_us)
    return eligible


def batches_of(what: str, run: str, sums: Sums) -> Iterator[Any]:
    """Partial sums as Arrow batches."""
    for start in range(0, len(sums.keys), _CHUNK):
        keys = sums.keys[start : start + _CHUNK]
        values = np.ascontiguousarray(sums.values[start : start + _CHUNK])
        size, width = values.shape
        amounts = pa.ListArray.from_arrays(
            pa.array(np.arange(0, size * width + 1, width, dtype=np.int32)), values.reshape(-1)
        )
        columns = [
            keys[:, position] if position < keys.shape[1] else np.zeros(size, dtype=np.int64) for position in range(3)
        ]
        yield pa.RecordBatch.from_arrays(
            [pa.array([what] * size), pa.array([run] * size), *map(pa.array, columns), amounts], schema=PARTS_SCHEMA
        )
