"""Whether a node said goodbye at the end of its trace.

A node that is killed writes no NODE_DOWN row. Whoever goes on with its trace or joins it with others writes the row
in its place, with the reason `lost`, right after the last that was heard of the node.
"""

from __future__ import annotations

from pathlib import Path

from hearsay.trace.folder.manifest import load_manifest
from hearsay.trace.language.schema import Column, TraceEvent
from hearsay.trace.read.reader import RowFilter, read_groups
from hearsay.trace.series.run_series import numbered_folders

_UP_OR_DOWN = RowFilter(events=(TraceEvent.NODE_UP, TraceEvent.NODE_DOWN))


def lost_at(folder: Path) -> int | None:
    """When the node whose trace ends with this run folder was lost; None if it said goodbye, or the trace goes on."""
    pieces = numbered_folders(folder.resolve().parent)
    if folder.resolve() in pieces[:-1]:
        return None
    changes = [
        (time, event)
        for rows in read_groups(folder, {"node"}, _UP_OR_DOWN)
        for time, event in rows[:, [Column.TIME_US, Column.EVENT]].tolist()
    ]
    if changes and max(changes)[1] == TraceEvent.NODE_DOWN:
        return None
    return max((file.max_time_us for file in load_manifest(folder).trace.files), default=-1) + 1
