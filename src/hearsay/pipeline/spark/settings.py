"""Settings of Spark SQL, chosen by the number of trace rows: one plan for all sizes, and these differ.

Planning takes most of the time of a small trace. Its rows are one partition (`pipeline.rows`): joins and sums need no
shuffle and no broadcast, and the rules that look for less to read find nothing. Compiled stages read faster, and take
time to compile.
"""

from __future__ import annotations

from hearsay.pipeline.spark.place import cores

SMALL_ROWS = 5_000_000
"""Fewer rows are read by one task as fast as by several."""
_COMPILED_ROWS = 250_000
"""Queries over fewer rows run sooner than they are compiled."""


def settings_for(rows: int, embedded: bool) -> dict[str, str]:
    """Return settings for an analysis of so many rows. A cluster sets the partitions of large work."""
    small = rows < SMALL_ROWS
    compiled = rows >= _COMPILED_ROWS
    partitions = 1 if small else 2 * cores()
    return {
        **({"spark.sql.shuffle.partitions": str(partitions)} if small or embedded else {}),
        "spark.sql.autoBroadcastJoinThreshold": "-1" if small else "10MB",
        "spark.sql.join.preferSortMergeJoin": str(not small).lower(),
        "spark.sql.optimizer.dynamicPartitionPruning.enabled": "false",
        "spark.sql.constraintPropagation.enabled": str(not small).lower(),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.adaptive.enabled": str(not small).lower(),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.sql.codegen.wholeStage": str(compiled).lower(),
        "spark.sql.codegen.factoryMode": "FALLBACK" if compiled else "NO_CODEGEN",
    }
