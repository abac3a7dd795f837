"""The publication of result tables: their files are written, then moved into place, then named by a manifest.

Rules:

* Tables of a run are written into a work folder next to the run's `metrics/`. When all tables are complete, their
  files are moved into `metrics/`, under names that were never used. Then a manifest with a larger number than all
  earlier ones appears. Readers use only the files that the manifest with the largest number names. Finally the files
  of earlier analyses are removed.
* If an analysis fails or is killed, the tables of the last manifest stay complete. The next analysis removes the
  files that were not published. In a store it removes them only after a week (`HadoopFolder.is_abandoned`).
* Only files whose names show that an analysis wrote them are removed. The caller has locked the outputs
  (`claimed_outputs`).
* The number of a manifest is the time at which its analysis began to publish, and the names of the tables' files
  contain this number. So analyses that write to a store at the same time use different names, and none removes
  files that another one publishes.
* A table without rows has one file without rows, so readers always find all tables.
* A file system has to guarantee only that a file that is moved to a new name appears whole.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from secrets import token_hex
from time import time_ns
from typing import TYPE_CHECKING, Any

import pyarrow.compute
import pyarrow.parquet

from hearsay.pipeline.output.folders import Folder
from hearsay.pipeline.output.tables import METRICS_FOLDER, TABLES, arrow_schema, manifest_number
from hearsay.trace.folder.durable import write_durably
from hearsay.trace.folder.own_folders import Holds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

compute: Any = pyarrow.compute
parquet: Any = pyarrow.parquet

_OF_ALL_RUNS = "of-all-runs"
_PART = r"part-[0-9]{5}(?:-([0-9]{16,18})-)?.*\.parquet"
_OURS = re.compile(rf"{METRICS_FOLDER}/(?:{'|'.join(TABLES)})/(?:{_PART}|\.{_PART}\.crc|_SUCCESS)")


@dataclass(frozen=True, slots=True)
class _File:
    """A file of one run's table that is not published yet. `name` is its path below `folder`."""

    table: str
    folder: Folder
    name: str


class TableStore:
    """The tables of one analysis until they are published."""

    def __init__(self, outputs: Mapping[str, Folder]) -> None:
        """Create empty work folders. `outputs` has the output of each run, by the name of the run."""
        self._outputs = outputs
        self._written: dict[str, list[_File]] = defaultdict(list)
        self._token = token_hex(4)
        """Part of the names of published files, so that no earlier file has the same name."""
        for folder in outputs.values():
            folder.make_folder(folder.work, Holds.WORK)
            folder.remove(folder.work)
            folder.make_folder(folder.work, Holds.WORK)

    @property
    def scratch(self) -> str:
        """Return the path or URI of a folder for intermediate results, below a work folder and removed with it."""
        folder = next(iter(self._outputs.values()))
        return f"{folder.location}/{folder.work}/scratch"

    def write(self, table: str, rows: Any) -> None:
        """Store an Arrow table with the rows of all runs. Rows are sorted, so that equal tables give equal files."""
        schema = arrow_schema(TABLES[table])
        in_order = rows.select(schema.names).cast(schema).sort_by([(name, "ascending") for name in schema.names])
        for run in self._outputs:
            self._write_file(run, table, in_order.filter(compute.field("run") == run))

    def write_with_spark(self, table: str, rows: DataFrame) -> None:
        """Store a table that Spark computes for all runs. Each file system of outputs gets one job."""
        keyed = rows.selectExpr("*", "sha2(cast(run as binary), 256) as key")
        for store in {folder.store: folder for folder in self._outputs.values()}.values():
            runs = [run for run, folder in self._outputs.items() if folder.store == store.store]
            place = f"{store.work}/{_OF_ALL_RUNS}/{table}"
            mine = keyed.where(keyed["run"].isin(runs)).sortWithinPartitions("key", *TABLES[table].names)
            mine.write.partitionBy("key").parquet(f"{store.location}/{place}")
            files = [name for name in store.files(place) if name.endswith(".parquet")]
            for run in runs:
                key = f"{place}/key={sha256(run.encode()).hexdigest()}/"
                found = [_File(table, store, name) for name in files if name.startswith(key)]
                self._written[run] += found
                if not found:
                    self._write_file(run, table, arrow_schema(TABLES[table]).empty_table())

    def _write_file(self, run: str, table: str, rows: Any) -> None:
        folder = self._outputs[run]
        name = f"{folder.work}/{METRICS_FOLDER}/{table}/part-00000.parquet"
        (folder.path / name).parent.mkdir(parents=True)
        parquet.write_table(rows, folder.path / name, compression="zstd")
        folder.copy_to_store(name)
        self._written[run].append(_File(table, folder, name))

    def publish(self) -> None:
        """Move all tables into the outputs, write manifests, and remove earlier tables and the work folders."""
        for run, folder in self._outputs.items():
            _publish(folder, self._written[run], self._token)
        self.discard()

    def discard(self) -> None:
        """Remove the work folders, with all files that are not published."""
        for folder in self._outputs.values():
            with suppress(Exception):  # if the JVM is gone, the caller raises the error that ended it
                folder.remove(folder.work)


def _publish(folder: Folder, files: Sequence[_File], token: str) -> None:
    folder.make_folder(METRICS_FOLDER, Holds.METRICS)
    there = folder.files(METRICS_FOLDER)
    published = {number for name in there if (number := manifest_number(name))}
    number = max(time_ns() // 1000, 1 + max(published, default=0))
    tables: dict[str, list[str]] = {name: [] for name in TABLES}
    for file in files:
        name = f"part-{len(tables[file.table]):05d}-{number}-{token}.parquet"
        folder.move_from(file.folder, file.name, f"{METRICS_FOLDER}/{file.table}/{name}")
        tables[file.table].append(name)
    manifest = f"manifest-{number}.json"
    write_durably(folder.path / folder.work / manifest, json.dumps({"tables": tables}, indent=1).encode())
    folder.copy_to_store(f"{folder.work}/{manifest}")
    folder.move_from(folder, f"{folder.work}/{manifest}", f"{METRICS_FOLDER}/{manifest}")
    for name in there:
        ours = _OURS.fullmatch(name)
        began = int(ours[1] or ours[2] or 0) if ours else manifest_number(name)
        if began in published or (ours and folder.is_abandoned(began)):
            folder.remove(name)
