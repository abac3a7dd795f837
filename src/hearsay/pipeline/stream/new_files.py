"""Structured Streaming as the judge of what is new: every file of a trace comes in exactly one batch.

Spark writes down what belongs to batch N before it hands it out, and plays N again if it does not hear that N was
done. So whoever takes a batch must do the same thing with it each time; see `ledger`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILES_PER_BATCH = 64
_FILES_DDL = "path string, modificationTime timestamp, length bigint, content binary"
_NO_FILE_IS_TOO_OLD = "36500d"


def take_new_files(spark: SparkSession, where: str, checkpoint: Path, take: Callable[[int, list[str]], None]) -> None:
    """Hand out what has appeared below `where`, a path or a pattern, since the last call, as (batch, paths).

    What `take` raises ends the stream and comes out here; the batch stays to be taken.
    """
    failures: list[BaseException] = []

    def on_batch(files: DataFrame, number: int) -> None:
        try:
            take(number, sorted(str(row["path"]) for row in files.select("path").collect()))
        except BaseException as error:
            failures.append(error)
            raise

    source: Any = spark.readStream.format("binaryFile").schema(_FILES_DDL)
    options = {
        "recursiveFileLookup": "true",
        "pathGlobFilter": "part-*.parquet",
        "maxFileAge": _NO_FILE_IS_TOO_OLD,
        "maxFilesPerTrigger": str(FILES_PER_BATCH),
    }
    found = source.options(**options).load(where)
    query = (
        found.writeStream.foreachBatch(on_batch)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    try:
        query.awaitTermination()
    except Exception:
        if failures:
            raise failures[0] from None
        raise
    finally:
        query.stop()
