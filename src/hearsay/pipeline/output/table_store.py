"""Where result tables are written: aside first, then all at once in place of the old ones.

Rules:

* Tables are written, split by run, into a work folder beside the runs' output.
* When all tables are there, each run's change places with what stands in `metrics/`, which goes only then. A failure
  or a kill at any time leaves the old tables whole. Where folders cannot be swapped in one step, a kill between two
  renames leaves the old ones aside; the next analysis puts them back before it does anything else.
* Only folders of ours are replaced or removed (`outputs`); whoever calls holds the outputs (`claimed_outputs`).
* A table without rows is a file without rows: readers find all tables, always.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.compute
import pyarrow.parquet
from pyspark.sql import functions

from hearsay.pipeline.input.run_facts import RunFacts
from hearsay.pipeline.output.exchange import exchange
from hearsay.pipeline.output.outputs import SUCCESS, are_old_tables, remove_tables, require_tables
from hearsay.pipeline.output.stored_tables import arrow_schema
from hearsay.pipeline.output.tables import METRICS_FOLDER, TABLES, MetricTable
from hearsay.trace.folder.own_folders import Holds, held_by, is_real_folder, mark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

compute: Any = pyarrow.compute
parquet: Any = pyarrow.parquet

_PART = "part"
WORK_PREFIX = ".metrics-"
"""How the names of work folders begin."""
_OLD_PREFIX = f"{WORK_PREFIX}old-"
_WORK_NAME = re.compile(rf"{re.escape(WORK_PREFIX)}(old-|new-)?[0-9]+")


class TableStore:
    """The tables of one analysis on their way into the output folders."""

    def __init__(self, runs: Sequence[RunFacts], outputs: dict[str, Path]) -> None:
        """`outputs` names the folder of each run in which `metrics/` shall appear.

        Tasks of Spark may run in another folder than this process.
        """
        self._runs = runs
        self._outputs = {name: output.absolute() for name, output in outputs.items()}
        self._work = self._outputs[runs[0].name] / f"{WORK_PREFIX}{os.getpid()}"
        for output in self._outputs.values():
            require_tables(output)
            output.mkdir(parents=True, exist_ok=True)
            _clear(output)
        self._work.mkdir()
        mark(self._work, Holds.WORK)

    @property
    def scratch(self) -> Path:
        """A folder for what the tables are made of; it goes with the work folder."""
        return self._work / "scratch"

    def write(self, table: MetricTable, rows: Any) -> None:
        """Store a table of all runs that is in memory, as Arrow; sorted, so that equal tables are equal files."""
        declared = rows.select(table.names).cast(arrow_schema(table))
        for number, run in enumerate(self._runs):
            mine = declared.filter(compute.field("run") == run.name)
            if mine.num_rows:
                folder = self._folder_of(table, number)
                folder.mkdir(parents=True)
                in_order = mine.sort_by([(name, "ascending") for name in table.names])
                parquet.write_table(in_order, folder / "part-00000.parquet", compression="zstd")

    def write_with_spark(self, table: MetricTable, rows: DataFrame) -> None:
        """Store a table of all runs that Spark computes."""
        runs = functions.array(*(functions.lit(run.name) for run in self._runs))
        numbered = rows.withColumn(_PART, functions.array_position(runs, rows["run"]) - 1)
        in_order = numbered.sortWithinPartitions(_PART, *table.names)
        in_order.write.partitionBy(_PART).parquet(str(self._work / table.name))

    def publish(self) -> None:
        """Put the tables into place."""
        for number, run in enumerate(self._runs):
            output = self._outputs[run.name]
            fresh = output / f"{WORK_PREFIX}new-{os.getpid()}"
            fresh.mkdir()
            mark(fresh, Holds.METRICS)
            for table in TABLES.values():
                self._move(table, number, fresh / table.name)
            final = output / METRICS_FOLDER
            if not final.exists():
                fresh.rename(final)
            elif not exchange(fresh, final):
                final.rename(output / f"{_OLD_PREFIX}{os.getpid()}")
                fresh.rename(final)
        self.discard()

    def discard(self) -> None:
        """Remove what is not in place."""
        for output in self._outputs.values():
            _clear(output)

    def _folder_of(self, table: MetricTable, run: int) -> Path:
        """Where the rows of a run lie until `publish`; the folder is absent when there are none."""
        return self._work / table.name / f"{_PART}={run}"

    def _move(self, table: MetricTable, run: int, target: Path) -> None:
        source = self._folder_of(table, run)
        if source.exists():
            shutil.move(source, target)
        else:
            target.mkdir()
            parquet.write_table(arrow_schema(table).empty_table(), target / "part-00000.parquet")
        (target / SUCCESS).touch()


def _clear(output: Path) -> None:
    """Remove what analyses left behind, but put tables back that one of them had only just moved aside."""
    final = output / METRICS_FOLDER
    for left in sorted(output.glob(f"{WORK_PREFIX}*")):
        if not _WORK_NAME.fullmatch(left.name) or not is_real_folder(left):
            continue
        if left.name.startswith(_OLD_PREFIX) and not final.exists():
            left.rename(final)
        elif are_old_tables(left):
            remove_tables(left, final)
        elif held_by(left) is Holds.WORK:
            shutil.rmtree(left, ignore_errors=True)
        elif not any(left.iterdir()):
            left.rmdir()
