"""The mesh over time: degrees, symmetry, components, diameter, and a picture of it.

Spark brings the grafts and prunes of a topic together; numpy and scipy draw the snapshots (`kernels.mesh_snapshots`).
One task holds one topic's changes of mesh: some tens of bytes for each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow
from pyspark.sql import functions as F

from hearsay.pipeline.kernels.mesh_snapshots import (
    DOWN,
    GRAFT,
    PRUNE,
    Links,
    Snapshot,
    links_at,
    links_of,
    pictured,
    snapshot,
)
from hearsay.pipeline.run_facts import RunFacts
from hearsay.pipeline.tables import DEGREES, MESH, MESH_LINKS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pa: Any = pyarrow

SNAPSHOTS = 40
SECOND = 1_000_000
_PARTS_DDL = (
    "what string, run string, topic int, time_us bigint, members bigint, links bigint, degree_mean double, "
    "degree_min int, degree_max int, symmetric_share double, components bigint, largest_share double, diameter int, "
    "degree int, nodes bigint, node int, remote int"
)


def mesh_parts(
    mesh_rows: DataFrame, node_rows: DataFrame, memberships: DataFrame, runs: Sequence[RunFacts]
) -> DataFrame:
    """Snapshots, degrees and links of every topic of every run; `mesh_table` and its sisters take them apart."""
    times = {run.name: snapshot_times(run.end_us) for run in runs}
    code = F.when(F.col("event") == "graft", GRAFT).when(F.col("event") == "prune", PRUNE).otherwise(DOWN)
    changes = mesh_rows.where(F.col("event").isin("graft", "prune"))
    owners = changes.select("run", "topic", "peer").distinct()
    downs = (
        node_rows.where(F.col("event") == "node_down")
        .select("run", "peer", "time_us", "event")
        .join(owners, ["run", "peer"])
    )
    rows = (
        changes.select("run", "topic", "peer", "remote", "time_us", "event")
        .unionByName(downs.withColumn("remote", F.lit(None).cast("int")))
        .withColumn("change", code.cast("int"))
        .drop("event")
    )

    def work(key: tuple[Any, ...], changed: Any, members: Any) -> Any:
        run, topic = key[0].as_py(), key[1].as_py()
        if not changed.num_rows:
            return _arrow_schema().empty_table()  # the router keeps no mesh
        return _snapshots(run, topic, changed, members, times[run])

    by_topic: Any = rows.groupBy("run", "topic").cogroup(memberships.groupBy("run", "topic"))
    return by_topic.applyInArrow(work, _PARTS_DDL)


def snapshot_times(end_us: int) -> list[int]:
    """Whole seconds, evenly spread over the run."""
    step = max(1, -(-end_us // (SNAPSHOTS * SECOND))) * SECOND
    return list(range(step, end_us + 1, step)) or [end_us]


def mesh_table(parts: DataFrame) -> DataFrame:
    return parts.where(F.col("what") == "mesh").select(*MESH.names)


def degrees_table(parts: DataFrame) -> DataFrame:
    return parts.where(F.col("what") == "degree").select(*DEGREES.names)


def mesh_links_table(parts: DataFrame) -> DataFrame:
    return parts.where(F.col("what") == "link").select(*MESH_LINKS.names)


def _snapshots(run: str, topic: int, changed: Any, members: Any, times: list[int]) -> Any:
    links = links_of(
        _column(changed, "time_us"), _column(changed, "change"), _column(changed, "peer"), _column(changed, "remote")
    )
    node, since, until = (_column(members, name) for name in ("node", "since_us", "until_us"))
    lines: list[dict[str, Any]] = []
    last = times[-1]
    for time in times:
        inside = np.unique(node[(since <= time) & (until >= time)])
        lines.extend(_lines(snapshot(links, inside, time, diameter=True)))
        if time == last:
            lines.extend(_picture(links, inside, time))
    table = pa.Table.from_pylist([{"run": run, "topic": topic, **line} for line in lines], schema=_arrow_schema())
    return table


def _lines(seen: Snapshot) -> Iterator[dict[str, Any]]:
    yield {
        "what": "mesh",
        **{name: getattr(seen, name) for name in MESH.names if name not in ("run", "topic")},
    }
    for degree in np.flatnonzero(seen.degrees).tolist():
        yield {"what": "degree", "time_us": seen.time_us, "degree": degree, "nodes": int(seen.degrees[degree])}


def _picture(links: Links, members: Any, time_us: int) -> Iterator[dict[str, Any]]:
    for node, remote in zip(*pictured(*links_at(links, members, time_us)), strict=True):
        yield {"what": "link", "node": int(node), "remote": int(remote)}


def _column(table: Any, name: str) -> Any:
    return table.column(name).fill_null(-1).to_numpy().astype(np.int64)


def _arrow_schema() -> Any:
    kinds = {"string": pa.string(), "int": pa.int32(), "bigint": pa.int64(), "double": pa.float64()}
    fields = [field.split() for field in _PARTS_DDL.split(",")]
    return pa.schema([(name, kinds[kind]) for name, kind in fields])
