"""Stretches of a run: a second, or in a long run as many as keep the lines of a table below `MAX_LINES`."""

from __future__ import annotations

from pyspark.sql import DataFrame

from hearsay.pipeline.rows import Trace

MAX_LINES = 3_600
WIDTHS_S = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400)


def stretches(trace: Trace) -> DataFrame:
    """Return the width of a stretch of each run in seconds: run, seconds, run_start_us, run_end_us.

    Seconds count from the start of the run.
    """
    widths = ", ".join(f"{width}L" for width in WIDTHS_S)
    least = f"cast(ceil((run_end_us - run_start_us) / {MAX_LINES * 1_000_000}D) as bigint)"
    return trace.query(
        f"select run, run_start_us, run_end_us, "
        f"coalesce(get(filter(array({widths}), width -> width >= {least}), 0), {least}) as seconds from {{runs}}"
    )
