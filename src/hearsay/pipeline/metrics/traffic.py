"""Efficiency and load balance: what was sent, by whom, of which kind.

`traffic_of_rows` is the table `traffic` in Spark's own terms; the scan of whole files (`whole_files`) computes the
same. The other functions start from that table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from hearsay.pipeline.input.rows import ARRIVED_NOT
from hearsay.pipeline.metrics.knowledge import BYTES_IN, BYTES_OUT, EVENNESS, Knowledge, observers_table, where_known
from hearsay.pipeline.metrics.messages import quotient
from hearsay.pipeline.output.tables import BALANCE, CONTROL, TRAFFIC

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_EXACT = "decimal(38,0)"
"""Sums of rank times bytes pass 2^63 for millions of nodes."""


def traffic_of_rows(rows: DataFrame, runs: DataFrame) -> DataFrame:
    """The table `traffic` from rows of the classes message and rpc."""
    rows = rows.join(F.broadcast(runs), "run")
    event, delay, time = F.col("event"), F.col("delay_us"), F.col("time_us")
    in_time = time + F.coalesce(delay, F.lit(0)) < F.col("end_us")
    out = rows.where(event == "send_rpc")
    received = out.where(delay.isNotNull() & in_time)
    told = rows.where(event == "recv_rpc")
    vanished = rows.where((event == "drop_rpc") & F.col("reason").isin(*ARRIVED_NOT) & (time < F.col("end_us")))
    sides = (
        _side(out, "peer", 1, "out")
        .unionByName(_side(received, "remote", 1, "in"), allowMissingColumns=True)
        .unionByName(_side(told, "peer", 1, "in"), allowMissingColumns=True)
        .unionByName(_side(vanished, "remote", -1, "in"), allowMissingColumns=True)
    )
    amounts = [name for name, kind in TRAFFIC.columns if kind == "bigint"]
    sums = [F.sum(F.coalesce(F.col(name), F.lit(0))).alias(name) for name in amounts]
    return sides.groupBy("run", "topic", "node", "kind").agg(*sums)


def with_sizes_known(traffic: DataFrame, known: Mapping[str, Knowledge]) -> DataFrame:
    """Bytes are null where the trace does not tell them."""
    sides = {"bytes_out": BYTES_OUT, "bytes_in": BYTES_IN}
    return traffic.withColumns({name: where_known(figure, known, F.col(name)) for name, figure in sides.items()})


def control_table(traffic: DataFrame) -> DataFrame:
    """What was sent by topic and kind. Kinds that name no topic (IWANT) stand under the topic null."""
    by_kind = traffic.groupBy("run", "topic", "kind").agg(
        F.sum("parts_out").alias("parts"), F.sum("ids_out").alias("ids"), F.sum("bytes_out").alias("bytes")
    )
    whole = F.sum("bytes").over(Window.partitionBy("run", "topic"))
    shares = by_kind.where(F.col("parts") > 0).withColumn("bytes_share", quotient(F.col("bytes"), whole))
    return shares.select(*(F.col(name).cast(kind) for name, kind in CONTROL.columns))


def control_share(traffic: DataFrame) -> DataFrame:
    """(run, topic, control_bytes_share): all bytes but those of publish parts, over all bytes.

    Parts that name no topic are shared out over the topics in proportion to the ids of their IHAVEs, which they
    answer; without IHAVE in proportion to bytes. The topic null is the run as a whole.
    """
    control = F.col("kind") != "publish"
    by_topic = traffic.groupBy("run", "topic").agg(
        F.sum("bytes_out").alias("bytes"),
        F.sum(F.when(control, F.col("bytes_out")).otherwise(0)).alias("control"),
        F.sum(F.when(F.col("kind") == "ihave", F.col("ids_out")).otherwise(0)).alias("announced"),
    )
    whole = by_topic.groupBy("run").agg(F.sum("bytes").alias("bytes"), F.sum("control").alias("control"))
    whole = whole.select("run", F.lit(None).cast("int").alias("topic"), quotient(F.col("control"), F.col("bytes")))
    loose = by_topic.where(F.col("topic").isNull()).select("run", F.col("bytes").alias("loose"))
    in_run = Window.partitionBy("run")
    share = F.coalesce(
        quotient(F.col("announced"), F.sum("announced").over(in_run)),
        quotient(F.col("bytes"), F.sum("bytes").over(in_run)),
    )
    topics = by_topic.where(F.col("topic").isNotNull()).withColumn("share", share).join(loose, "run", "left")
    extra = F.coalesce("loose", F.lit(0)) * F.coalesce("share", F.lit(0.0))
    own = topics.select(
        "run", "topic", F.when(F.col("bytes") + extra > 0, (F.col("control") + extra) / (F.col("bytes") + extra))
    )
    return own.toDF("run", "topic", "control_bytes_share").union(whole)


def balance_table(
    spark: SparkSession, traffic: DataFrame, memberships: DataFrame, known: Mapping[str, Knowledge]
) -> DataFrame:
    """Bytes sent per node, by topic and (topic null) in all.

    The nodes of a topic are its members and whoever sent for it; those of the run are all that it tells about.
    """
    nodes = observers_table(spark, known)
    sent = traffic.join(nodes, ["run", "node"]).groupBy("run", "topic", "node").agg(F.sum("bytes_out").alias("bytes"))
    whole = nodes.join(
        sent.groupBy("run", "node").agg(F.sum("bytes").alias("bytes")), ["run", "node"], "left"
    ).select("run", F.lit(None).cast("int").alias("topic"), "node", F.coalesce("bytes", F.lit(0)).alias("bytes"))
    members = memberships.select("run", "topic", "node").distinct().withColumn("bytes", F.lit(0).cast("bigint"))
    own = sent.where(F.col("topic").isNotNull()).unionByName(members)
    per_node = own.groupBy("run", "topic", "node").agg(F.sum("bytes").alias("bytes")).unionByName(whole)
    rank = F.row_number().over(Window.partitionBy("run", "topic").orderBy("bytes", "node")).cast(_EXACT)
    ranked = per_node.select("*", (rank * F.col("bytes").cast(_EXACT)).alias("weighted"))
    balance = ranked.groupBy("run", "topic").agg(
        F.count("*").alias("nodes"),
        F.sum("bytes").alias("sum"),
        F.max("bytes").alias("bytes_max"),
        F.sum("weighted").alias("weighted"),
    )
    mean = F.col("sum").cast("double") / F.col("nodes")
    figures = balance.withColumns(
        {
            "bytes_mean": where_known(BYTES_OUT, known, mean),
            "bytes_max": where_known(BYTES_OUT, known, F.col("bytes_max")),
            "max_over_mean": where_known(EVENNESS, known, F.when(F.col("sum") > 0, F.col("bytes_max") / mean)),
            "gini": where_known(EVENNESS, known, _gini()),
        }
    )
    return figures.select(*(F.col(name).cast(kind) for name, kind in BALANCE.columns))


def _gini() -> Column:
    """2 * sum(rank * bytes) / (nodes * sum) - (nodes + 1) / nodes, ranks from 1 in ascending order of bytes."""
    nodes = F.col("nodes").cast("double")
    weighted = F.col("weighted").cast("double")
    total = F.col("sum").cast("double")
    return F.when(total > 0, 2 * weighted / (nodes * total) - (nodes + 1) / nodes)


def _side(rows: DataFrame, end: str, sign: int, suffix: str) -> DataFrame:
    amounts = {
        f"parts_{suffix}": F.lit(sign).cast("bigint"),
        f"ids_{suffix}": sign
        * F.when(F.col("kind") == "publish", 1).otherwise(F.coalesce("count", F.lit(0))).cast("bigint"),
        f"bytes_{suffix}": sign * F.coalesce("bytes", F.lit(0)),
    }
    return rows.select(
        "run", "topic", F.col(end).alias("node"), "kind", *(c.alias(name) for name, c in amounts.items())
    )
