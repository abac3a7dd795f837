"""Resilience: what disturbed a run, and delivery before, during and after each disturbance and all of them together.

Rules:

* The scenario names disturbances (`planned_disturbances`). What takes nodes or connections away and stands in no
  scenario is found in the trace: nodes that go up or down, and of real nodes connections that end, while messages
  are published.
* A message is published *before* a disturbance if its window closes before it, *after* it if it is published later
  than its end, and *during* it otherwise. What nothing undoes ends as it begins.
* All disturbances together last from the first to the last row of a node that goes up or down (of real nodes: or of a
  connection that ends) and partition and cut, after the first message of the topic. Loss is there throughout: it
  counts only where there is nothing else.
* The network has healed when, from then on, every message reaches at least `HEALED` of the ratio before (of 1 if
  nothing was published before).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F

from hearsay.pipeline.input.planned_disturbances import LOSS, OF_NODES
from hearsay.pipeline.input.run_facts import RunFacts
from hearsay.pipeline.metrics.messages import quotient
from hearsay.pipeline.output.tables import DISTURBANCES, RESILIENCE
from hearsay.pipeline.spark.local_tables import local_lines

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

HEALED = 0.99
NODES, CONNECTIONS = "nodes", "connections"
SCENARIO, TRACE = "scenario", "trace"


@dataclass(frozen=True, slots=True)
class Disturbance:
    """A line of the table `disturbances`; numbers count within the run."""

    run: str
    number: int
    kind: str
    what: str
    since_us: int
    until_us: int | None
    source: str


def disturbances_of(node_rows: DataFrame, messages: DataFrame, runs: Sequence[RunFacts]) -> list[Disturbance]:
    """What disturbed each run, in the order of its beginning."""
    observed = {row["run"]: row for row in _observed(node_rows, messages, runs).collect()}
    found: list[Disturbance] = []
    for run in runs:
        lines = [(one.kind, one.what, one.since_us, one.until_us, SCENARIO) for one in run.disturbances]
        if run.name in observed:
            lines += _in_words(run, observed[run.name])
        lines.sort(key=lambda line: line[2])
        found += [Disturbance(run.name, number, *line) for number, line in enumerate(lines)]
    return found


def disturbances_table(spark: SparkSession, disturbances: Sequence[Disturbance]) -> DataFrame:
    lines = [
        (one.run, one.number, one.kind, one.what, one.since_us, one.until_us, one.source) for one in disturbances
    ]
    return local_lines(spark, lines, DISTURBANCES.ddl)


def resilience_table(
    spark: SparkSession,
    node_rows: DataFrame,
    messages: DataFrame,
    facts: DataFrame,
    runs: Sequence[RunFacts],
    disturbances: Sequence[Disturbance],
) -> DataFrame:
    """For every run and topic with messages that somebody was eligible for a line about all disturbances together
    (`disturbance` null) and one about each."""
    judged = messages.where(F.col("published_us").isNotNull() & (F.col("eligible") > 0))
    first_message = messages.groupBy("run", "topic").agg(
        F.min("published_us").alias("begins_us"), F.max("published_us").alias("ends_us")
    )
    times = _together(spark, node_rows, first_message, runs, disturbances).unionByName(
        _each(spark, first_message, disturbances)
    )
    known = judged.join(F.broadcast(facts), "run").join(times, ["run", "topic"])
    placed = known.withColumn(
        "phase",
        F.when(F.col("throughout"), "during")
        .when(F.col("first_us").isNull(), "before")
        .when(F.least(F.col("published_us") + F.col("window_us"), F.col("end_us")) < F.col("first_us"), "before")
        .when(F.col("published_us") > F.col("last_us"), "after")
        .otherwise("during"),
    )
    line = Window.partitionBy("run", "topic", "disturbance")

    def ratio(phase: str) -> Column:
        mine = F.col("phase") == phase
        return quotient(
            F.sum(F.when(mine, F.col("delivered_eligible"))).over(line),
            F.sum(F.when(mine, F.col("eligible"))).over(line),
        )

    weighed = placed.withColumns({f"ratio_{phase}": ratio(phase) for phase in ("before", "during", "after")})
    goal = HEALED * F.coalesce("ratio_before", F.lit(1.0))
    since = (F.col("published_us") > F.col("first_us")) & ~F.col("throughout")
    bad = F.max(F.when(since & (F.col("ratio") < goal), F.col("published_us"))).over(line)
    with_bad = weighed.withColumn("bad_us", bad)
    good = F.min(F.when(since & (F.col("published_us") > F.col("bad_us")), F.col("published_us")))
    # Healed with the first message after the last bad one; never, if the last message was bad or it goes on.
    healed = F.greatest(good - F.first("last_us"), F.lit(0))
    goes_on = F.first("last_us") >= F.first("end_us")
    unknown = (F.count_if(since) == 0) | goes_on
    heal = F.when(unknown, None).when(F.max("bad_us").isNull(), 0).when(good.isNotNull(), healed)
    key = ("run", "topic", "disturbance")
    of_line = [name for name, _ in RESILIENCE.columns if name not in (*key, "heal_us")]
    lines = with_bad.groupBy(*key).agg(*(F.first(name).alias(name) for name in of_line), heal.alias("heal_us"))
    return lines.select(*(F.col(name).cast(kind) for name, kind in RESILIENCE.columns))


def _observed(node_rows: DataFrame, messages: DataFrame, runs: Sequence[RunFacts]) -> DataFrame:
    """What the trace shows between the first and the last message, of runs whose scenario does not say it."""
    told = [run.name for run in runs if not any(one.kind in OF_NODES for one in run.disturbances)]
    bounds = messages.groupBy("run").agg(
        F.min("published_us").alias("begins_us"), F.max("published_us").alias("ends_us")
    )
    inside = (F.col("time_us") > F.col("begins_us")) & (F.col("time_us") < F.col("ends_us"))
    changes = _changes(node_rows, runs).join(bounds, "run").where(inside & F.col("run").isin(told))
    lost = F.col("event") == "remove_peer"
    times = {
        f"{name}_{side}_us": of(F.when(lost if name == CONNECTIONS else ~lost, F.col("time_us")))
        for name in (NODES, CONNECTIONS)
        for side, of in (("since", F.min), ("until", F.max))
    }
    return changes.groupBy("run").agg(
        F.count_if(F.col("event") == "node_down").alias("downs"),
        F.count_if((F.col("event") == "node_down") & F.col("was_lost")).alias("without_goodbye"),
        F.count_if(F.col("event") == "node_up").alias("ups"),
        F.count_if(lost).alias("lost"),
        *(column.alias(name) for name, column in times.items()),
    )


def _in_words(run: RunFacts, row: Any) -> Iterator[tuple[str, str, int, int | None, str]]:
    if row["downs"] or row["ups"]:
        went = [f"{_nodes(row['downs'])} went down{_unsaid(row)}"] if row["downs"] else []
        came = [f"{_nodes(row['ups'])} came up"] if row["ups"] else []
        since, until = row["nodes_since_us"], row["nodes_until_us"]
        yield NODES, f"{' and '.join(went + came)} {_when(run, since, until)}", since, until, TRACE
    if row["lost"]:
        since, until = row["connections_since_us"], row["connections_until_us"]
        ended = "1 connection" if row["lost"] == 1 else f"{row['lost']} connections"
        yield CONNECTIONS, f"{ended} ended {_when(run, since, until)}", since, until, TRACE


def _unsaid(row: Any) -> str:
    """How many of the nodes that went down did not say so."""
    without = row["without_goodbye"]
    if not without:
        return ""
    return " without a goodbye" if without == row["downs"] else f" ({without} without a goodbye)"


def _nodes(number: int) -> str:
    return "1 node" if number == 1 else f"{number} nodes"


def _when(run: RunFacts, since_us: int, until_us: int) -> str:
    since, until = (f"{(time - run.start_us) / 1_000_000:.1f} s" for time in (since_us, until_us))
    return f"at {since}" if since == until else f"from {since} to {until}"


def _changes(node_rows: DataFrame, runs: Sequence[RunFacts]) -> DataFrame:
    """Nodes that go up or down; of real nodes connections that end. In a simulation these follow from the others."""
    simulated = [run.name for run in runs if run.simulated]
    ended = (F.col("event") == "remove_peer") & ~F.col("run").isin(simulated)
    was_lost = F.coalesce(F.col("reason") == "lost", F.lit(False)).alias("was_lost")
    changes = node_rows.where(F.col("event").isin("node_up", "node_down") | ended)
    return changes.select("run", "event", "time_us", was_lost)


def _together(
    spark: SparkSession,
    node_rows: DataFrame,
    first_message: DataFrame,
    runs: Sequence[RunFacts],
    disturbances: Sequence[Disturbance],
) -> DataFrame:
    """(run, topic, …, first_us, last_us, throughout): one line per topic; without disturbance the times are null."""
    timed = [one for one in disturbances if one.source == SCENARIO and one.kind not in (*OF_NODES, LOSS)]
    steady = [(one.run, one.since_us, one.until_us) for one in disturbances if one.kind == LOSS]
    planned = local_lines(
        spark,
        [(one.run, one.since_us, one.since_us if one.until_us is None else one.until_us) for one in timed],
        "run string, since_us bigint, until_us bigint",
    )
    real = [run.name for run in runs if not run.simulated]
    rows = _changes(node_rows, runs).select(
        "run", F.col("time_us").alias("since_us"), F.col("time_us").alias("until_us")
    )
    # Real nodes that end when all is said do not disturb anything.
    relevant = (F.col("until_us") > F.col("begins_us")) & (
        ~F.col("run").isin(real) | (F.col("since_us") < F.col("ends_us"))
    )
    spans = rows.unionByName(planned).join(first_message, "run").where(relevant)
    counted = spans.groupBy("run", "topic").agg(
        F.count("*").alias("disturbances"), F.min("since_us").alias("first_us"), F.max("until_us").alias("last_us")
    )
    losing = local_lines(spark, steady, "run string, loss_since_us bigint, loss_until_us bigint")
    joined = first_message.join(counted, ["run", "topic"], "left").join(F.broadcast(losing), "run", "left")
    only_loss = F.col("disturbances").isNull() & F.col("loss_since_us").isNotNull()
    return joined.select(
        "run",
        "topic",
        F.lit(None).cast("int").alias("disturbance"),
        F.lit(None).cast("string").alias("kind"),
        F.coalesce("disturbances", F.when(only_loss, 1), F.lit(0)).cast("bigint").alias("disturbances"),
        F.coalesce("first_us", "loss_since_us").alias("first_us"),
        F.coalesce("last_us", "loss_until_us").alias("last_us"),
        only_loss.alias("throughout"),
    )


def _each(spark: SparkSession, first_message: DataFrame, disturbances: Sequence[Disturbance]) -> DataFrame:
    """As `_together`, a line per topic and disturbance."""
    lines = [
        (
            one.run,
            one.number,
            one.kind,
            1,
            one.since_us,
            one.since_us if one.until_us is None else one.until_us,
            one.kind == LOSS,
        )
        for one in disturbances
    ]
    ddl = (
        "run string, disturbance int, kind string, disturbances bigint, first_us bigint, last_us bigint, "
        "throughout boolean"
    )
    return first_message.select("run", "topic").join(F.broadcast(local_lines(spark, lines, ddl)), "run")
