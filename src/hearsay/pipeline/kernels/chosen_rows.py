"""Rows of some events of one run as numpy arrays, file by file: for tasks that look at its small classes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hearsay.pipeline.input.run_facts import RunFacts
from hearsay.pipeline.kernels.columns import ColumnArrays, row_groups
from hearsay.trace.language.columns import DTYPES
from hearsay.trace.language.schema import Column, TraceEvent


def chosen_rows(
    run: RunFacts, trace_class: str, events: Sequence[TraceEvent], columns: Sequence[Column]
) -> ColumnArrays:
    """These columns, beside `event`, of the rows of these events. Null is -1, as in `kernels.columns`."""
    wanted = [Column.EVENT, *columns]
    pieces: list[ColumnArrays] = [{column: np.empty(0, dtype=DTYPES[column]) for column in wanted}]
    for file in run.files(trace_class):
        for rows in row_groups(str(run.path / file.name), wanted):
            mine = np.isin(rows[Column.EVENT], events)
            pieces.append({column: values[mine] for column, values in rows.items()})
    return {column: np.concatenate([piece[column] for piece in pieces]) for column in wanted}
