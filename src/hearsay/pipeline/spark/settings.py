"""Settings of Spark SQL, chosen by the number of trace rows. Queries are the same for all sizes.

For a small trace, planning takes most of the time. Its rows are one partition (`pipeline.rows`): joins and sums need
no shuffle and no broadcast, and optimizer rules that avoid reading gain nothing. Compiled stages read faster, but
take time to compile.
"""

from __future__ import annotations

from hearsay.pipeline.spark.place import cores

SMALL_ROWS = 5_000_000
"""Below this number of rows, one task is as fast as several."""
_COMPILED_ROWS = 250_000
"""Below this number of rows, a query runs faster than its compilation."""


def settings_for(rows: int, embedded: bool) -> dict[str, str]:
    """Return settings for an analysis of `rows` rows. For large traces, a cluster's number of partitions is kept."""
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
