"""The scan: what the large classes of the trace, messages and RPCs, say, in partial sums.

A batch analysis reads every file (`scan_files`); one that follows a run (`hearsay.pipeline.stream`) reads what is new
and has the rest from earlier. Both hand over the same thing, so the tables are made once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from hearsay.pipeline.input.run_facts import RunFacts
from hearsay.pipeline.metrics import whole_files
from hearsay.pipeline.metrics.quality import Line
from hearsay.pipeline.run_tasks import FilesOf

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class ScanResult:
    parts: DataFrame
    """See `whole_files.scan`; read twice."""
    reader_checks: tuple[Line, ...]
    """Lines for the table `quality` that are known already, of every run."""
    files_of: Mapping[str, FilesOf]
    """By run."""


Scan = Callable[[Mapping[str, str]], ScanResult]
"""From where the memberships lie, by run."""


def scan_files(spark: SparkSession, runs: Sequence[RunFacts], folders: Mapping[str, str]) -> ScanResult:
    """Read all files of the runs."""
    return ScanResult(
        whole_files.scan(spark, runs, folders),
        (),
        {run.name: all_files_of(run) for run in runs},
    )


def all_files_of(run: RunFacts) -> FilesOf:
    """All files of messages, whichever are asked for."""
    return partial(_all_files, [file.name for file in run.files("message")])


def _all_files(names: list[str], _messages: Sequence[int]) -> list[str]:
    """Files say themselves which of their rows need not be read."""
    return names
