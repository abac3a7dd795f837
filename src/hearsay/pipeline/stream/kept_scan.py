"""The scan of messages and RPCs from partial sums: only those whose inputs are new are computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from hearsay.pipeline.metrics import whole_files
from hearsay.pipeline.parquet_paths import read_parquet
from hearsay.pipeline.rows import rows_of_files
from hearsay.pipeline.run_facts import RunFacts
from hearsay.pipeline.scan import Scanned
from hearsay.pipeline.stream.ledger import Ledger
from hearsay.pipeline.stream.partials import Partial, PartialStore, partials_of
from hearsay.trace.schema import Reason, wire_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(slots=True)
class KeptScan:
    """Called by the analysis of one run in place of reading all of its files."""

    spark: SparkSession
    run: RunFacts
    ledger: Ledger
    store: PartialStore
    partials: list[Partial] = field(default_factory=list[Partial])
    computed: int = 0

    def __call__(self, _members: DataFrame, folders: Mapping[str, str]) -> Scanned:
        folder = folders[self.run.name]
        self.partials = partials_of(self.run, self.ledger, folder, whole_files.read_memberships(folder))
        self.computed = self.store.compute_missing(self.spark, self.partials)
        paths = [self.store.path_of(partial) for partial in self.partials]
        parts = read_parquet(self.spark, whole_files.PARTS_DDL, paths)
        return Scanned(
            whole_files.messages_of(parts),
            whole_files.exact_latencies_of(parts),
            whole_files.latencies_of(parts),
            whole_files.traffic_table(parts),
            _counted(parts, "repeated").groupBy("run").agg(F.sum("rows").alias("rows")),
            _drops(parts),
            self._late(),
            self._rows_of,
            lambda: None,
        )

    def _late(self) -> tuple[tuple[str, str, int, str | None], ...]:
        late = sum(share.late_rows for notes in self.ledger.files for share in notes.shares)
        return ((self.run.name, "late_rows", late, None),) if late else ()

    def _rows_of(self, typical: DataFrame) -> DataFrame:
        wanted = {int(row["message"]) for row in typical.select("message").collect()}
        owners = {
            notes.name
            for notes in self.ledger.files
            if notes.trace_class == "message" and not wanted.isdisjoint(self.ledger.messages_of(notes.name).tolist())
        }
        names = [notes.name for notes in self.ledger.files if any(share.owner in owners for share in notes.shares)]
        return rows_of_files(self.spark, self.run, names)


def _counted(parts: DataFrame, what: str) -> DataFrame:
    return parts.where(F.col("what") == what).select("run", "k0", F.get("amounts", F.lit(0)).alias("rows"))


def _drops(parts: DataFrame) -> DataFrame:
    names = F.array(*(F.lit(wire_name(reason)) for reason in Reason))
    reason = F.get(names, F.col("k0").cast("int")).alias("reason")
    return (
        _counted(parts, "drop")
        .select("run", reason, "rows")
        .groupBy("run", "reason")
        .agg(F.sum("rows").alias("rows"))
    )
