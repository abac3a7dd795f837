"""What tasks said of the files of large runs, added up by Spark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from hearsay.pipeline.metrics.summed_parts import SUMS, WHOLE
from hearsay.pipeline.metrics.whole_files import AMOUNTS, EXACT, MESSAGE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def add_up(parts: DataFrame, runs: Sequence[str], scratch: Path) -> None:
    """Let Spark add up the partial sums of these runs, and bring together what is about a run."""
    numbers = F.create_map(*(F.lit(item) for number, run in enumerate(runs) for item in (run, number)))
    numbered = parts.withColumn("part", F.element_at(numbers, F.col("run"))).drop("run")
    is_whole = F.col("what").isin(MESSAGE, EXACT)
    numbered.where(is_whole).write.partitionBy("what", "part").parquet(str(scratch / WHOLE))
    amounts = [F.sum(F.get("amounts", F.lit(place))).alias(f"a{place}") for place in range(AMOUNTS)]
    summed = numbered.where(~is_whole).groupBy("what", "part", "k0", "k1", "k2").agg(*amounts)
    summed.write.partitionBy("what", "part").parquet(str(scratch / SUMS))
