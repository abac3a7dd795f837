"""Where result tables are written: aside first, then into `metrics/`, and a manifest that names their files.

Rules:

* Tables of a run are written into a work folder next to its `metrics/`. When all are there, their files move into
  `metrics/`, under names that were never used; then a manifest with the next number appears. Readers trust the files
  of the latest manifest, and no others. At last the files of earlier analyses go.
* A failure or a kill at any time leaves the tables of the last manifest whole; the next analysis removes the rest.
* Only files that an analysis wrote are removed, by their names. The caller holds the outputs (`claimed_outputs`).
* A table without rows is a file without rows: readers find all tables, always.
* This needs no more of a file system than that a file appears whole under a new name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import PurePosixPath
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import pyarrow.compute
import pyarrow.parquet

from hearsay.pipeline.output.folders import Folder
from hearsay.pipeline.output.stored_tables import arrow_schema, number_of
from hearsay.pipeline.output.tables import METRICS_FOLDER, TABLES, MetricTable
from hearsay.trace.folder.durable import write_durably
from hearsay.trace.folder.own_folders import Holds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

compute: Any = pyarrow.compute
parquet: Any = pyarrow.parquet

WORK = ".metrics-work"
_OURS = re.compile(rf"{METRICS_FOLDER}/({'|'.join(TABLES)})/(part-[0-9]{{5}}.*\.parquet|\..*\.crc|_SUCCESS)")


class TableStore:
    """The tables of one analysis on their way into the output folders."""

    def __init__(self, outputs: Mapping[str, Folder]) -> None:
        """`outputs` names the folder of each run in which `metrics/` shall appear."""
        self._outputs = outputs
        self._unused = token_hex(4)
        for folder in outputs.values():
            folder.own(WORK, Holds.WORK)
            folder.remove(WORK)
            folder.own(WORK, Holds.WORK)

    @property
    def scratch(self) -> str:
        """A folder for what the tables are made of; it goes with the work folder."""
        return f"{next(iter(self._outputs.values())).location}/{WORK}/scratch"

    def write(self, table: MetricTable, rows: Any) -> None:
        """Store a table of all runs that is in memory, as Arrow; sorted, so that equal tables are equal files."""
        declared = rows.select(table.names).cast(arrow_schema(table))
        in_order = declared.sort_by([(name, "ascending") for name in table.names])
        for run, folder in self._outputs.items():
            name = f"{WORK}/{METRICS_FOLDER}/{table.name}/part-00000-{self._unused}.parquet"
            (folder.path / name).parent.mkdir(parents=True)
            mine = in_order.filter(compute.field("run") == run)
            parquet.write_table(mine, folder.path / name, compression="zstd")
            folder.put(name)

    def write_with_spark(self, table: MetricTable, rows: DataFrame) -> None:
        """Store a table of all runs that Spark computes."""
        for run, folder in self._outputs.items():
            mine = rows.where(rows["run"] == run).sortWithinPartitions(*table.names)
            mine.write.parquet(f"{folder.location}/{WORK}/{METRICS_FOLDER}/{table.name}")

    def publish(self) -> None:
        """Put the tables into place."""
        for folder in self._outputs.values():
            _publish(folder)

    def discard(self) -> None:
        """Remove what is not in place."""
        for folder in self._outputs.values():
            with suppress(Exception):  # of a JVM that is gone, too: what ended it is the error to raise
                folder.remove(WORK)


def _publish(folder: Folder) -> None:
    folder.own(METRICS_FOLDER, Holds.METRICS)
    there = folder.files(METRICS_FOLDER)
    number = 1 + max((number_of(name) for name in there), default=0)
    tables: dict[str, list[str]] = {name: [] for name in TABLES}
    for name in folder.files(f"{WORK}/{METRICS_FOLDER}"):
        file = PurePosixPath(name)
        if file.suffix == ".parquet":
            folder.move(name, name.removeprefix(f"{WORK}/"))
            tables[file.parent.name].append(file.name)
    manifest = f"manifest-{number}.json"
    write_durably(folder.path / WORK / manifest, json.dumps({"tables": tables}, indent=1).encode())
    folder.put(f"{WORK}/{manifest}")
    folder.move(f"{WORK}/{manifest}", f"{METRICS_FOLDER}/{manifest}")
    for name in there:
        if number_of(name) or _OURS.fullmatch(name):
            folder.remove(name)
    folder.remove(WORK)
