"""The scan of messages and RPCs from partial sums: only those whose inputs are new are computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hearsay.pipeline.input.run_facts import RunFacts
from hearsay.pipeline.kernels.stored_members import read_members
from hearsay.pipeline.metrics.quality import Line
from hearsay.pipeline.scan import ScanResult
from hearsay.pipeline.stream.ledger import Ledger
from hearsay.pipeline.stream.partials import Partial, PartialStore, partials_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(slots=True)
class KeptScan:
    """Called by the analysis of one run in place of reading all of its files."""

    spark: SparkSession
    run: RunFacts
    ledger: Ledger
    store: PartialStore
    partials: list[Partial] = field(default_factory=list[Partial])
    computed: int = 0

    def __call__(self, folders: Mapping[str, str], scratch: Path) -> ScanResult:
        folder = folders[self.run.name]
        self.partials = partials_of(self.run, self.ledger, folder, read_members(folder))
        self.computed = self.store.compute_missing(self.spark, self.partials)
        parts = [str(self.store.path_of(one)) for one in self.partials]
        return ScanResult({self.run.name: parts}, self._late(), {self.run.name: partial(_files_with, self.ledger)})

    def _late(self) -> tuple[Line, ...]:
        late = sum(share.late_rows for notes in self.ledger.files for share in notes.shares)
        return (("late_rows", late, None),) if late else ()


def _files_with(ledger: Ledger, messages: Sequence[int]) -> list[str]:
    wanted = set(messages)
    owners = {
        notes.name
        for notes in ledger.files
        if notes.trace_class == "message" and not wanted.isdisjoint(ledger.messages_of(notes.name).tolist())
    }
    return [notes.name for notes in ledger.files if any(share.owner in owners for share in notes.shares)]
