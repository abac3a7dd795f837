"""Who does the work of an import: this process here, Spark's in `spark_job`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from hearsay.ingest.run.numbering import NumberedPart, numbered_rows
from hearsay.trace.folder.manifest import WrittenTrace
from hearsay.trace.write.writer import TraceWriter

Task = TypeVar("Task")
Result = TypeVar("Result")


class Workers(Protocol):
    def map(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        """The function's results in the order of the tasks; anything may be done anywhere, and twice."""
        ...

    def write(self, run: Path, parts: Sequence[NumberedPart]) -> WrittenTrace:
        """Write the rows of the parts as the trace of a run."""
        ...


class ThisProcess:
    """Everything one after the other."""

    def map(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        return [function(task) for task in tasks]

    def write(self, run: Path, parts: Sequence[NumberedPart]) -> WrittenTrace:
        with TraceWriter(run) as writer:
            for part in parts:
                for rows in numbered_rows(part):
                    writer.add(rows)
            return writer.close()
