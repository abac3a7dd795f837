"""A run of few rows: one task reads it and makes all its tables, as many would of a large one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from hearsay.pipeline.input.run_facts import RunFacts
from hearsay.pipeline.output import tables
from hearsay.pipeline.output.tables import MetricTable
from hearsay.pipeline.task_tables import Made

WHOLE_BELOW = 3_000_000
"""Rows of a run that one task reads as fast as several do, once these are started and their sums added up."""


@dataclass(frozen=True, slots=True)
class WholeRun:
    run: RunFacts
    scratch: str
    """A folder of the run's own."""
    files: Mapping[str, str]
    """Where the tables go that tasks write themselves, by their names."""

    def compute(self) -> Iterator[Made]:
        """Imports what only a task needs: the driver starts without."""
        from hearsay.pipeline.metrics.part_files import write_parts
        from hearsay.pipeline.metrics.summed_parts import SummedParts
        from hearsay.pipeline.metrics.whole_files import file_tasks
        from hearsay.pipeline.run_tasks import MembershipsOf, Scanned, tasks_of_run
        from hearsay.pipeline.scan import all_files_of

        memberships = self.files[tables.MEMBERSHIPS.name]
        yield from MembershipsOf(self.run, memberships).compute()
        folder = str(Path(memberships).parent)
        said = str(Path(self.scratch) / "parts.parquet")
        write_parts(said, (batch for task in file_tasks(self.run, folder) for batch in task.compute()))
        summed = SummedParts(self.scratch, 0, (said,))
        summed.add_up()
        for task in tasks_of_run(Scanned(self.run, summed, folder), all_files_of(self.run), (), self._file_of):
            yield from task.compute()

    def _file_of(self, table: MetricTable) -> str:
        """What one task has added up is one file."""
        return self.files[table.name]
