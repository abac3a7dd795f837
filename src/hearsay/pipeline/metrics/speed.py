"""Exact percentiles over all deliveries of a topic, from arrays of (latency, how often) of files and queries.

One task holds the distinct latencies of one topic of one run: sixteen bytes each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow
from pyspark.sql import functions as F

from hearsay.pipeline.kernels.latency_pairs import percentiles_x100
from hearsay.pipeline.output.tables import LATENCY
from hearsay.pipeline.spark.local_tables import map_groups

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pa: Any = pyarrow

_NAMES = ("latency_p50_ms", "latency_p90_ms", "latency_p99_ms", "latency_max_ms")
_DDL = ", ".join(["run string", "topic int", *(f"{name} double" for name in _NAMES)])
_PERCENTS = (50, 90, 99, 100)


def pairs_of(latencies: DataFrame) -> DataFrame:
    """(run, topic, pairs) of the lines (run, topic, latency_us, deliveries)."""
    pair = F.array(F.col("latency_us").cast("bigint"), F.col("deliveries").cast("bigint"))
    gathered = latencies.groupBy("run", "topic").agg(F.flatten(F.collect_list(pair)).alias("pairs"))
    return gathered.select("run", F.col("topic").cast("int"), "pairs")


def latency_table(by_hops: DataFrame) -> DataFrame:
    """The table `latency` from (run, topic, latency_us, hops, deliveries), latencies rounded down."""
    summed = by_hops.groupBy("run", "topic", "latency_us", "hops").agg(F.sum("deliveries").alias("deliveries"))
    milliseconds = F.floor(F.col("latency_us") / 1000)
    return summed.withColumn("latency_ms", milliseconds).select(
        *(F.col(name).cast(kind) for name, kind in LATENCY.columns)
    )


def speed_table(pairs: DataFrame) -> DataFrame:
    """(run, topic) and the percentiles in milliseconds, to the microsecond."""
    return map_groups(pairs, ("run", "topic"), _percentiles, _DDL)


def speeds_by_run(pairs: DataFrame) -> dict[str, dict[int | None, dict[str, Any]]]:
    """The lines of `speed_table` by run and topic."""
    speeds: dict[str, dict[int | None, dict[str, Any]]] = {}
    for row in speed_table(pairs).collect():
        line = row.asDict()
        speeds.setdefault(line.pop("run"), {})[line.pop("topic")] = line
    return speeds


def _percentiles(group: Any) -> Any:
    pairs = pa.concat_arrays([chunk.flatten() for chunk in group.column("pairs").chunks]).to_numpy()
    found = [_milliseconds(value) for value in percentiles_x100(pairs, _PERCENTS)]
    line = [group.column("run")[0].as_py(), group.column("topic")[0].as_py(), *found]
    names = ["run", "topic", *_NAMES]
    types = [pa.string(), pa.int32(), *[pa.float64()] * len(found)]
    return pa.table({name: pa.array([value], kind) for name, value, kind in zip(names, line, types, strict=True)})


def _milliseconds(hundredths_of_us: int) -> float:
    """Rounded half away from zero, as SQL rounds."""
    rounded = (abs(hundredths_of_us) + 50) // 100
    return (rounded if hundredths_of_us >= 0 else -rounded) / 1000
