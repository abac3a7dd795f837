"""Complete runs on disk. With the limits `SMALL`, a writer begins new row groups and files often."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rows_strategy import many_rows

from hearsay.trace.folder.manifest import WrittenTrace
from hearsay.trace.folder.run_folder import RunFolder
from hearsay.trace.folder.writer import TraceWriter
from hearsay.trace.language.schema import Column, PartKind, TraceEvent

SMALL = {"row_group_rows": 16, "target_file_bytes": 2_000}


def write_run(path: Path, rows: np.ndarray, portion: int = 1000, **limits: int) -> WrittenTrace:
    folder = RunFolder.create(path)
    writer = TraceWriter(path, **limits)
    for start in range(0, len(rows), portion):
        writer.add(rows[start : start + portion])
    written = writer.close()
    folder.write_manifest(written, seed=1, complete=True)
    return written


def message_rows(messages: int, rows_each: int, seed: int) -> np.ndarray:
    """Return rows of the class `message` in random order; the times of different messages overlap."""
    rows = many_rows(messages * rows_each, seed)
    rows[:, Column.EVENT], rows[:, Column.KIND] = TraceEvent.SEND_RPC, PartKind.PUBLISH
    rows[:, Column.MESSAGE] = np.repeat(np.arange(messages), rows_each)
    rows[:, Column.TIME_US] = np.random.default_rng(seed).integers(0, 10**6, len(rows))
    return np.random.default_rng(seed).permutation(rows)
