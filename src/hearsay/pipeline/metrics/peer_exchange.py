"""Peer exchange: dials of peers that PRUNEs named, and the connections that came of them, over time.

    node 1 dials 7 at 2.1 s, and has a connection to it at 3.2 s   ->   second 2: dials 1; second 3: connections 1

A connection comes of a dial if the dial is the last thing before it that the node said of this peer, and the node has
not started anew since. `nodes` counts each node once, with its first such connection.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F

from hearsay.pipeline.input.rows import trace_rows
from hearsay.pipeline.input.run_facts import RunFacts
from hearsay.pipeline.metrics.churn import stretch_s
from hearsay.pipeline.output.tables import EXCHANGE
from hearsay.pipeline.spark.local_tables import local_lines

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SECOND_US = 1_000_000
_AT_ONE_TIME = ("node_up", "remove_peer", "dial", "add_peer")
"""In which order a node does these."""


def exchange_lines(spark: SparkSession, runs: Sequence[RunFacts]) -> list[dict[str, Any]]:
    """The table `exchange`; without a row about it nothing is asked of Spark."""
    told = [run for run in runs if run.files("exchange")]
    if not told:
        return []
    clocks = local_lines(
        spark,
        [(run.name, run.start_us, stretch_s(run)) for run in told],
        "run string, start_us bigint, seconds int",
    )
    rows = trace_rows(spark, told, "exchange").unionByName(trace_rows(spark, told, "node"))
    second = F.expr(f"(time_us - start_us) div {_SECOND_US} div seconds * seconds").alias("second")
    summed = (
        _with_connections(rows)
        .join(F.broadcast(clocks), "run")
        .groupBy("run", second, "seconds")
        .agg(*(F.count_if(name).alias(name) for name in ("dials", "connections", "nodes")))
    )
    lines = [{name: row[name] for name in EXCHANGE.names} for row in summed.collect()]
    return sorted(lines, key=lambda line: (line["run"], line["second"]))


def _with_connections(rows: DataFrame) -> DataFrame:
    """Dials and connections that came of them: (run, time_us, dials, connections, nodes), the last three true or
    false."""
    event, place = F.col("event"), F.find_in_set("event", F.lit(",".join(_AT_ONE_TIME)))
    ordered = rows.select("run", "time_us", "event", "peer", "remote", place.alias("place")).where("place > 0")
    of_node = Window.partitionBy("run", "peer").orderBy("time_us", "place")
    life = F.sum((event == "node_up").cast("int")).over(of_node)
    of_pair = Window.partitionBy("run", "peer", "life", "remote").orderBy("time_us", "place")
    after_dial = (event == "add_peer") & (F.lag("event").over(of_pair) == "dial") & F.col("remote").isNotNull()
    told = (
        ordered.withColumn("life", life)
        .withColumns({"dials": event == "dial", "connections": F.coalesce(after_dial, F.lit(False))})
        .where(F.col("dials") | F.col("connections"))
    )
    first = F.row_number().over(Window.partitionBy("run", "peer", "connections").orderBy("time_us", "remote")) == 1
    return told.withColumn("nodes", F.col("connections") & first)
