"""What was sent, by whom, of which kind: the table `traffic` in Spark's own terms.

The scan of whole files (`whole_files`) computes the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from hearsay.pipeline.input.rows import ARRIVED_NOT
from hearsay.pipeline.metrics.knowledge import BYTES_IN, BYTES_OUT, Knowledge, where_known
from hearsay.pipeline.output.tables import TRAFFIC

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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
