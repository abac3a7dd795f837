"""Reliability and speed, message by message: the table `messages` in Spark's own terms.

Used where messages do not lie whole in a file, and as the oracle of the pass over whole files
(`kernels.message_file`), which says the same in numpy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from hearsay.pipeline.input.rows import ARRIVED_NOT, VERDICTS
from hearsay.pipeline.kernels.message_file import LATENCY_STEPS
from hearsay.pipeline.metrics.knowledge import DELIVERY, Knowledge, where_known
from hearsay.pipeline.output.tables import MESSAGES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_KEY = ["run", "message"]


def messages_table(rows: DataFrame, memberships: DataFrame, runs: DataFrame) -> DataFrame:
    """The table `messages` from rows of the class message."""
    rows = rows.where(F.col("message").isNotNull()).join(F.broadcast(runs), "run")
    published = _published(rows)
    deliveries = _deliveries(rows, published)
    eligible = _eligible(published, memberships, _refusals(rows, deliveries))
    counts = _counts(rows)
    figures = _figures(deliveries)
    reached = _reached(deliveries, memberships, eligible)
    joined = rows.groupBy(*_KEY).agg(F.min("topic").alias("topic"))
    for other in (published.drop("topic"), eligible, figures, counts, reached, _handed_over(rows)):
        joined = joined.join(other, _KEY, "left")
    counted = joined.fillna(
        0, ["delivered", "away", "arrived", "vanished", "rejected", "recorded_duplicates", "by_iwant", "handed"]
    )
    return finish(_with_copies(counted))


def latencies_of_rows(rows: DataFrame, runs: DataFrame) -> DataFrame:
    """(run, topic, latency_us, hops, deliveries) over deliveries away from the publisher."""
    rows = rows.where(F.col("message").isNotNull()).join(F.broadcast(runs), "run")
    measured = _deliveries(rows, _published(rows)).where(F.col("away") & F.col("latency_us").isNotNull())
    return measured.groupBy("run", "topic", "latency_us", "hops").agg(F.count("*").alias("deliveries"))


def rounded_down(latencies: DataFrame) -> DataFrame:
    """`latencies_of_rows` with latencies rounded down as `kernels.message_file.rounded_latencies` does."""
    latency = F.col("latency_us")
    step = F.lit(1000)
    for below, width in LATENCY_STEPS:
        step = F.when((latency >= 0) & (latency < below), width).otherwise(step)
    rounded = (latency - F.pmod(latency, step)).cast("bigint")
    return latencies.select("run", "topic", rounded.alias("latency_us"), F.col("hops").cast("bigint"), "deliveries")


def with_due_known(messages: DataFrame, known: Mapping[str, Knowledge]) -> DataFrame:
    """Who should have got a message is null where the trace cannot know it."""
    about_due = ("eligible", "delivered_eligible", "ratio", "t50_us", "t90_us", "t99_us", "t100_us")
    return messages.withColumns({name: where_known(DELIVERY, known, F.col(name)) for name in about_due})


def finish(figures: DataFrame) -> DataFrame:
    """Quotients, and the columns in their order."""
    quotients = figures.withColumns(
        {
            "ratio": quotient(F.col("delivered_eligible"), F.col("eligible")),
            "copies_per_delivery": quotient(F.col("copies"), F.col("away")),
        }
    )
    return quotients.select(*(F.col(name).cast(kind) for name, kind in MESSAGES.columns))


def quotient(part: Column, whole: Column) -> Column:
    """part / whole as a double, null when there is nothing to divide by."""
    return F.when(whole > 0, part.cast("double") / whole.cast("double"))


def _published(rows: DataFrame) -> DataFrame:
    window_end = F.least(F.col("published_us") + F.col("window_us"), F.col("end_us"))
    first = F.min(F.struct("time_us", "peer", "bytes")).alias("first")
    told = rows.where(F.col("event") == "publish").groupBy(*_KEY, "topic", "window_us", "end_us").agg(first)
    return (
        told.select(
            *_KEY,
            "topic",
            F.col("first.peer").alias("publisher"),
            F.col("first.time_us").alias("published_us"),
            F.col("first.bytes").alias("bytes"),
            "window_us",
            "end_us",
        )
        .select("*", window_end.alias("window_end_us"))
        .drop("window_us", "end_us")
    )


def _deliveries(rows: DataFrame, published: DataFrame) -> DataFrame:
    mine = rows.where(F.col("event") == "deliver").select(
        *_KEY, F.col("peer").alias("node"), "time_us", "hops", "via"
    )
    latency = F.col("time_us") - F.col("published_us")
    away = F.col("publisher").isNull() | (F.col("node") != F.col("publisher"))
    return mine.join(published, _KEY, "left").withColumns({"latency_us": latency, "away": away})


def _refusals(rows: DataFrame, deliveries: DataFrame) -> DataFrame:
    """(run, message, node, by_nobody): who did not take a message, and whether nobody did that was given it by a
    peer. Nodes that a script hands a message publish it; they are not asked."""
    judged = F.col("away") & (F.coalesce("via", F.lit("")) != "inject")
    given = deliveries.select(*_KEY, "node", F.lit(False).alias("refused"), judged.alias("taken"))
    verdict = (F.col("event") == "reject") & F.col("reason").isin(*VERDICTS)
    refused = rows.where(verdict).select(
        *_KEY, F.col("peer").alias("node"), F.lit(True).alias("refused"), F.lit(False).alias("taken")
    )
    by_node = given.unionByName(refused).groupBy(*_KEY, "node")
    told = by_node.agg(F.every("refused").alias("refused"), F.bool_or("taken").alias("taken"))
    by_nobody = ~F.bool_or("taken").over(Window.partitionBy(*_KEY))
    return told.withColumn("by_nobody", by_nobody).where("refused").select(*_KEY, "node", "by_nobody")


def _eligible(published: DataFrame, memberships: DataFrame, refusals: DataFrame) -> DataFrame:
    """How many are eligible; null for a topic of which nobody is known to be a member."""
    known = memberships.select("run", "topic").distinct().withColumn("known", F.lit(True))
    inside = (F.col("since_us") <= F.col("published_us")) & (F.col("until_us") >= F.col("window_end_us"))
    counted = (
        published.join(memberships, ["run", "topic"])
        .where(inside)
        .join(refusals, [*_KEY, "node"], "anti")
        .join(refusals.where("by_nobody"), _KEY, "anti")
        .groupBy(*_KEY)
        .agg(F.count("*").alias("eligible_found"))
    )
    return (
        published.join(known, ["run", "topic"], "left")
        .join(counted, _KEY, "left")
        .select(*_KEY, F.when(F.col("known"), F.coalesce("eligible_found", F.lit(0))).alias("eligible"))
    )


def _counts(rows: DataFrame) -> DataFrame:
    event, delay = F.col("event"), F.col("delay_us")
    sent = (event == "send_rpc") & delay.isNotNull()
    arrived = sent & (F.col("time_us") + delay < F.col("end_us"))
    vanished = (event == "drop_rpc") & F.col("reason").isin(*ARRIVED_NOT) & (F.col("time_us") < F.col("end_us"))
    return rows.groupBy(*_KEY).agg(
        F.count_if(sent).alias("sent"),
        F.count_if(arrived).alias("arrived"),
        F.count_if(vanished).alias("vanished"),
        F.count_if(event == "reject").alias("rejected"),
        F.count_if(event == "duplicate").alias("recorded_duplicates"),
    )


def _handed_over(rows: DataFrame) -> DataFrame:
    """First copies that a script handed to nodes outside the topic: they pass them on and deliver nothing."""
    injected = rows.where(F.col("via") == "inject").withColumn("node", F.col("remote"))
    arrived = injected.where(
        (F.col("event") == "send_rpc") & (F.col("time_us") + F.col("delay_us") < F.col("end_us"))
    )
    vanished = injected.where((F.col("event") == "drop_rpc") & F.col("reason").isin(*ARRIVED_NOT))
    judged = rows.where(F.col("event").isin("deliver", "reject")).select(*_KEY, F.col("peer").alias("node"))
    pair = [*_KEY, "node"]
    handed = arrived.select(*pair).distinct().join(vanished.select(*pair), pair, "anti").join(judged, pair, "anti")
    return handed.groupBy(*_KEY).agg(F.count("*").alias("handed"))


def _figures(deliveries: DataFrame) -> DataFrame:
    away = F.col("away")
    measured = F.when(away, F.col("latency_us"))
    hops = F.when(away, F.col("hops"))

    def percentile(share: float) -> Column:
        return F.round(F.percentile(measured, F.lit(share)), 2)

    return deliveries.groupBy(*_KEY).agg(
        F.count("*").alias("delivered"),
        F.count_if(away).alias("away"),
        F.count_if(away & (F.col("via") == "iwant")).alias("by_iwant"),
        percentile(0.5).alias("p50_us"),
        percentile(0.9).alias("p90_us"),
        percentile(0.99).alias("p99_us"),
        F.max(measured).alias("max_us"),
        F.sum(hops).alias("hops_sum"),
        F.max(hops).alias("hops_max"),
    )


def _reached(deliveries: DataFrame, memberships: DataFrame, eligible: DataFrame) -> DataFrame:
    """When which share of the eligible had the message."""
    inside = (F.col("since_us") <= F.col("published_us")) & (F.col("until_us") >= F.col("window_end_us"))
    first = deliveries.groupBy(*_KEY, "topic", "node", "published_us", "window_end_us").agg(
        F.min("latency_us").alias("latency_us")
    )
    ranked = (
        first.join(memberships, ["run", "topic", "node"])
        .where(inside)
        .withColumn("rank", F.row_number().over(Window.partitionBy(*_KEY).orderBy("latency_us")))
        .join(eligible.where(F.col("eligible") > 0), _KEY)
    )
    times = {
        f"t{percent}_us": F.min(F.when(F.col("rank") * 100 >= F.col("eligible") * percent, F.col("latency_us")))
        for percent in (50, 90, 99, 100)
    }
    reached = ranked.groupBy(*_KEY).agg(
        F.count("*").alias("found"), *(column.alias(name) for name, column in times.items())
    )
    return eligible.join(reached, _KEY, "left").select(
        *_KEY,
        F.when(F.col("eligible").isNotNull(), F.coalesce("found", F.lit(0))).alias("delivered_eligible"),
        *times,
    )


def _with_copies(counted: DataFrame) -> DataFrame:
    """Copies and duplicates: derived from the sends, or told (`docs/reference/metrics.md`, "Copy")."""
    simulated = F.col("sent") > 0
    derived = F.col("arrived") - F.col("vanished")
    told = F.col("away") + F.col("recorded_duplicates") + F.col("rejected")
    derived_duplicates = F.greatest(derived - F.col("away") - F.col("rejected") - F.col("handed"), F.lit(0))
    return counted.withColumns(
        {
            "copies": F.when(simulated, derived).otherwise(told),
            "duplicates": F.when(simulated, derived_duplicates).otherwise(F.col("recorded_duplicates")),
        }
    )


def repeated_deliveries(message_rows: DataFrame) -> DataFrame:
    """(run, rows): deliveries of a message at a node beyond the first."""
    deliveries = message_rows.where((F.col("event") == "deliver") & F.col("message").isNotNull())
    per_node = deliveries.groupBy("run", "message", "peer").agg((F.count("*") - 1).alias("more"))
    return per_node.groupBy("run").agg(F.sum("more").alias("rows"))
