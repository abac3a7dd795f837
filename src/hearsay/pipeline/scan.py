"""The scan: what the large classes of the trace, messages and RPCs, say, in partial sums.

A batch analysis reads every file (`scan_files`); one that follows a run (`hearsay.pipeline.stream`) reads what is new
and has the rest from earlier. Both hand over the same thing, so the tables are made once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hearsay.pipeline.input.run_facts import RunFacts
from hearsay.pipeline.metrics.part_files import write_parts
from hearsay.pipeline.metrics.quality import Line
from hearsay.pipeline.metrics.whole_files import file_tasks
from hearsay.pipeline.run_tasks import FilesOf
from hearsay.pipeline.spark.task_lists import made_by_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class ScanResult:
    parts: Mapping[str, Sequence[str]]
    """By run, files of partial sums (`part_files`)."""
    reader_checks: tuple[Line, ...]
    """Lines for the table `quality` that are known already, of every run."""
    files_of: Mapping[str, FilesOf]
    """By run."""


Scan = Callable[[Mapping[str, str], Path], ScanResult]
"""From where the memberships lie, by run, and a folder for what the analysis need not keep."""


def scan_files(
    spark: SparkSession, runs: Sequence[RunFacts], folders: Mapping[str, str], scratch: Path
) -> ScanResult:
    """Read all files of the runs."""
    tasks = [(run.name, task) for run in runs for task in file_tasks(run, folders[run.name])]
    targets = [str(scratch / "parts" / f"{number:05}.parquet") for number in range(len(tasks))]

    def work(number: int) -> Iterator[bytes]:
        write_parts(targets[number], tasks[number][1].compute())
        yield from ()

    made_by_tasks(spark, len(tasks), work)
    parts: dict[str, list[str]] = {run.name: [] for run in runs}
    for (name, _), target in zip(tasks, targets, strict=True):
        parts[name].append(target)
    return ScanResult(parts, (), {run.name: all_files_of(run) for run in runs})


def all_files_of(run: RunFacts) -> FilesOf:
    """All files of messages, whichever are asked for."""
    return partial(_all_files, [file.name for file in run.files("message")])


def _all_files(names: list[str], _messages: Sequence[int]) -> list[str]:
    """Files say themselves which of their rows need not be read."""
    return names
