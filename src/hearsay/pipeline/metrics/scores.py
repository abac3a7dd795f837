"""Standing: what peers think of each other, over time, and who stands worst at the end.

    observer 1 gives peer 7 a score of -30, observer 2 one of -10   ->   worst_peers: peer 7, median -20, observers 2

One task holds one moment: a row for each pair of peers and each part that is not 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow

from hearsay.pipeline.input.rows import trace_rows
from hearsay.pipeline.input.run_facts import RunFacts
from hearsay.pipeline.kernels.score_moments import Moment, quantile_lines, worst_lines
from hearsay.pipeline.output.stored_tables import arrow_schema
from hearsay.pipeline.output.tables import SCORES, WORST_PEERS
from hearsay.pipeline.spark.local_tables import map_groups

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pa: Any = pyarrow

_OF_WORST = [column for column in WORST_PEERS.columns if column not in SCORES.columns]
_DDL = ", ".join(f"{name} {kind}" for name, kind in (*SCORES.columns, *_OF_WORST))
_SCHEMA = pa.schema(list(arrow_schema(SCORES)) + [arrow_schema(WORST_PEERS).field(name) for name, _ in _OF_WORST])


def score_lines(spark: SparkSession, runs: Sequence[RunFacts]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The tables `scores` and `worst_peers`; without a row of scores nothing is asked of Spark."""
    scored = [run for run in runs if run.files("score")]
    if not scored:
        return [], []
    ends = {run.name: max(file.max_time_us for file in run.files("score")) for run in scored}
    thresholds = {run.name: run.thresholds for run in scored}

    def work(rows: Any) -> Any:
        run, time = rows.column("run")[0].as_py(), rows.column("time_us")[0].as_py()
        moment = _moment(rows)
        lines = list(quantile_lines(moment, thresholds[run]))
        if time == ends[run]:
            lines += worst_lines(moment, thresholds[run])
        return pa.Table.from_pylist([{"run": run, "time_us": time, **line} for line in lines], schema=_SCHEMA)

    rows = trace_rows(spark, scored, "score").select("run", "time_us", "event", "remote", "topic", "bytes")
    lines = [row.asDict() for row in map_groups(rows, ["run", "time_us"], work, _DDL).collect()]
    lines.sort(key=lambda line: (line["run"], line["time_us"]))
    of_peers = sorted(
        (line for line in lines if line["peer"] is not None),
        key=lambda line: (line["run"], line["median"], line["peer"]),
    )
    return [line for line in lines if line["part"] is not None], of_peers


def _moment(rows: Any) -> Moment:
    topics = rows.column("topic").fill_null(-1).to_numpy().astype(np.int64)
    events = rows.column("event").to_numpy(zero_copy_only=False)
    values = np.ascontiguousarray(rows.column("bytes").to_numpy()).view(np.float64)
    return Moment(events, rows.column("remote").to_numpy(), topics, values)
