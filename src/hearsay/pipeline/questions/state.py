"""Memory of nodes over time: mean and maximum of entries and bytes over the nodes sampled at the same time."""

from __future__ import annotations

from pyspark.sql import DataFrame

from hearsay.pipeline.rows import Frames


def state(frames: Frames) -> DataFrame:
    """Return the table `state`. In a trace row, `count` and `bytes` are the entries of a node and their size."""
    return frames.query("""
        select run, time_us, count(*) as nodes, sum(count) / nullif(count(count), 0) as entries_mean,
               max(count) as entries_max, sum(bytes) / nullif(count(bytes), 0) as bytes_mean, max(bytes) as bytes_max
        from {node} where event = 'state' group by run, time_us""")
