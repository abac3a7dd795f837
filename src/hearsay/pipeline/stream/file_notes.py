"""What is noted of a trace file when it is taken: enough to know later which partial sums it changes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hearsay.pipeline.kernels.columns import ColumnArrays, read_columns
from hearsay.trace.folder.arrow import open_trace_file
from hearsay.trace.folder.manifest import TraceFile
from hearsay.trace.language.errors import RunFolderError
from hearsay.trace.language.schema import CLASSES, NONE, Column, TraceEvent, class_folder

Ints = NDArray[Any]

_READ = {
    "message": (Column.TIME_US, Column.DELAY_US, Column.EVENT, Column.MESSAGE),
    "rpc": (Column.TIME_US, Column.DELAY_US),
    "mesh": (Column.TIME_US, Column.TOPIC),
    "node": (Column.TIME_US, Column.EVENT, Column.PEER),
    "score": (Column.TIME_US,),
    "exchange": (Column.TIME_US,),
}


@dataclass(frozen=True, slots=True)
class Share:
    """The rows of a file whose messages appeared first in the file `owner`, which may be the same."""

    owner: str
    first_publish_us: int | None
    last_publish_us: int | None
    last_arrival_us: int
    late_rows: int


@dataclass(frozen=True, slots=True)
class FileNotes:
    name: str
    """The path from the run folder, as in a manifest."""
    trace_class: str
    rows: int
    bytes: int
    modified_ns: int
    min_time_us: int
    max_time_us: int
    last_arrival_us: int
    """When the last part sent in this file arrives."""
    shares: tuple[Share, ...] = ()

    @property
    def identity(self) -> tuple[str, int, int]:
        return self.name, self.bytes, self.modified_ns

    def trace_file(self) -> TraceFile:
        """As a manifest would list it, before there is one: no checksum."""
        return TraceFile(
            self.name, self.trace_class, self.rows, self.bytes, self.min_time_us, self.max_time_us, sha256=""
        )


def name_of(path: str, in_series: bool) -> str | None:
    """The name of a file found below `trace`; none if it lies in no folder of a class. In a series, the number of
    its run folder comes first."""
    parts = Path(path).parts
    folders = {Path(class_folder(trace_class)).name: class_folder(trace_class) for trace_class in CLASSES}
    folder = folders.get(parts[-2])
    if folder is None:
        return None
    name = f"{folder}/{parts[-1]}"
    return f"{parts[-4]}/{name}" if in_series else name


def read_notes(run: Path, name: str) -> tuple[FileNotes, ColumnArrays]:
    """Read a file for the first time; its notes without shares, and the columns these were made from."""
    path = run / name
    try:
        stat = path.stat()
    except OSError as error:
        raise RunFolderError(f"{path}: cannot be read ({error.strerror})") from None
    open_trace_file(path)
    trace_class = path.parent.name.removeprefix("class=")
    columns = read_columns(str(path), _READ[trace_class])
    times = columns[Column.TIME_US]
    arrivals = times + np.maximum(columns[Column.DELAY_US], 0) if Column.DELAY_US in columns else times
    notes = FileNotes(
        name,
        trace_class,
        len(times),
        stat.st_size,
        stat.st_mtime_ns,
        int(times.min()) if len(times) else 0,
        int(times.max(initial=0)),
        int(arrivals.max(initial=0)),
    )
    return notes, columns


def found_in(trace_class: str, columns: ColumnArrays) -> dict[str, Ints]:
    """What a trace without dictionaries tells of topics and nodes."""
    if trace_class == "mesh":
        topics = np.unique(columns[Column.TOPIC])
        return {"topics": topics[topics != NONE]}
    if trace_class == "node":
        return {"nodes": np.unique(columns[Column.PEER][columns[Column.EVENT] == TraceEvent.NODE_UP])}
    return {}
