"""Simplicity: how much a node keeps, over the nodes sampled at a time.

state rows of one time: 10, 20 and 60 bytes   ->   nodes 3, bytes_mean 30, bytes_max 60
"""

from __future__ import annotations

from typing import Any

import pyarrow

from hearsay.pipeline.input.run_facts import RunFacts
from hearsay.pipeline.kernels.columns import chosen_rows
from hearsay.trace.language.schema import Column, TraceEvent

pa: Any = pyarrow


def state_lines(run: RunFacts) -> list[dict[str, Any]]:
    """The table `state` of a run."""
    rows = chosen_rows(run, "node", [TraceEvent.STATE], [Column.TIME_US, Column.COUNT, Column.BYTES])
    amounts = {"time_us": rows[Column.TIME_US], "entries": rows[Column.COUNT], "bytes": rows[Column.BYTES]}
    means_and_peaks = [(name, how) for name in ("entries", "bytes") for how in ("mean", "max")]
    sampled = pa.table(amounts).group_by("time_us").aggregate([([], "count_all"), *means_and_peaks])
    return sampled.rename_columns({"count_all": "nodes"}).sort_by("time_us").to_pylist()
