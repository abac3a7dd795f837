"""The Spark data source `hearsay`: records of foreign traces as rows of a DataFrame (`records.py` has the schema).

Rules:

* A partition is a range of bytes of a file, cut between events, or a file that cannot be read from the middle.
* Partitions are planned where the driver is, and read by tasks, which must find the files at the same paths.
* What cannot be read is a row with `error`, after the rows before it; the rest of its range is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from glob import glob, has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from hearsay.ingest.records import DDL, plain
from hearsay.ingest.sources import FORMATS, LIVE, UNIT_BYTES, Unit, records_of, units_of

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

NAME = "hearsay"


@dataclass(frozen=True)
class UnitPartition(InputPartition):
    unit: Unit


class TraceSource(DataSource):
    """`spark.read.format("hearsay").load(path)`."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return DDL

    def reader(self, schema: StructType) -> DataSourceReader:
        return TraceReader(self.options)


class TraceReader(DataSourceReader):
    def __init__(self, options: Mapping[str, str]) -> None:
        self._paths = _paths(options)
        self._wanted = options.get("traceFormat")
        given = options.get("partitionBytes", str(UNIT_BYTES))
        self._unit_bytes = int(given) if given.isascii() and given.isdigit() else 0
        if self._wanted not in (None, LIVE, *FORMATS):
            raise ValueError(f"traceFormat {self._wanted!r}: must be {', '.join(FORMATS)}")
        if self._unit_bytes < 1:
            raise ValueError(f"partitionBytes {given!r}: must be a whole number of 1 or more")

    def partitions(self) -> list[InputPartition]:
        files = self._paths if self._wanted == LIVE else [file for path in self._paths for file in _files(path)]
        return [
            UnitPartition(unit) for file in files for unit in units_of(Path(file), self._wanted, self._unit_bytes)
        ]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, UnitPartition)
        return map(plain, records_of(partition.unit))


def _paths(options: Mapping[str, str]) -> list[str]:
    """What was given to `load`: one path, or several as Spark passes them on."""
    paths = json.loads(options["paths"]) if "paths" in options else [options["path"]] if "path" in options else []
    if not paths:
        raise ValueError("no path: load(path) or load([path, …])")
    return [path.removeprefix("file://") for path in paths]


def _files(path: str) -> list[str]:
    """A file; the files of a folder; or those that a pattern fits."""
    if Path(path).is_dir():
        return sorted(
            str(file) for file in Path(path).iterdir() if file.is_file() and not file.name.startswith((".", "_"))
        )
    found = sorted(glob(path)) if has_magic(path) and not Path(path).exists() else [path]
    if not found:
        raise ValueError(f"{path}: no such files")
    return found
