"""Links over time: degrees, symmetry, components, diameter, and a picture of them.

A router has a mesh (GRAFT and PRUNE), or like episub active neighbours, and among their links those of a tree. Each
of these is a *layer*; a link of the tree ends with the neighbour at the latest.

Spark brings the changes of a topic together; numpy and scipy draw the snapshots (`kernels.mesh_snapshots`).
One task holds one topic's changes of mesh: some tens of bytes for each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow
from pyspark.sql import functions as F

from hearsay.pipeline.input.run_facts import RunFacts
from hearsay.pipeline.kernels.mesh_snapshots import (
    DOWN,
    GRAFT,
    PRUNE,
    Ints,
    Links,
    Snapshot,
    links_at,
    links_of,
    pictured,
    snapshot,
)
from hearsay.pipeline.metrics.knowledge import Knowledge
from hearsay.pipeline.output.tables import DEGREES, MESH, MESH_LAYER, MESH_LINKS, NEIGHBOURS_LAYER, TREE_LAYER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pa: Any = pyarrow

SNAPSHOTS = 40
_EVENTS = ("graft", "prune", "neighbor_up", "neighbor_down", "eager", "lazy")
_NODE_DOWN = len(_EVENTS)
_LAYERS: dict[str, tuple[str, tuple[str, ...]]] = {
    MESH_LAYER: ("graft", ("prune",)),
    NEIGHBOURS_LAYER: ("neighbor_up", ("neighbor_down",)),
    TREE_LAYER: ("eager", ("lazy", "neighbor_down")),
}
"""What starts a link of a layer, and what ends it."""
_NO_CHANGE = -1
SECOND = 1_000_000
_PARTS_DDL = (
    "what string, run string, topic int, layer string, time_us bigint, members bigint, links bigint, "
    "degree_mean double, degree_min int, degree_max int, symmetric_share double, components bigint, "
    "largest_share double, diameter int, degree int, nodes bigint, node int, remote int"
)


def mesh_parts(
    mesh_rows: DataFrame,
    node_rows: DataFrame,
    memberships: DataFrame,
    runs: Sequence[RunFacts],
    known: Mapping[str, Knowledge],
) -> DataFrame:
    """Snapshots, degrees and links of every topic of every run; `mesh_table` and its sisters take them apart."""
    times = {run.name: snapshot_times(run.start_us, run.end_us) for run in runs}
    observed = {run.name: None if run.simulated else np.array(known[run.name].observers) for run in runs}
    changes = mesh_rows.where(F.col("event").isin(*_EVENTS))
    code = F.lit(_NODE_DOWN)
    for number, name in enumerate(_EVENTS):
        code = F.when(F.col("event") == name, number).otherwise(code)
    owners = changes.select("run", "topic", "peer").distinct()
    downs = (
        node_rows.where(F.col("event") == "node_down")
        .select("run", "peer", "time_us", "event")
        .join(owners, ["run", "peer"])
    )
    rows = (
        changes.select("run", "topic", "peer", "remote", "time_us", "event")
        .unionByName(downs.withColumn("remote", F.lit(None).cast("int")))
        .withColumn("code", code.cast("int"))
        .drop("event")
    )

    def work(key: tuple[Any, ...], changed: Any, members: Any) -> Any:
        run, topic = key[0].as_py(), key[1].as_py()
        if not changed.num_rows:
            return _arrow_schema().empty_table()  # the router keeps no mesh
        return _snapshots(run, topic, changed, members, times[run], observed[run])

    by_topic: Any = rows.groupBy("run", "topic").cogroup(memberships.groupBy("run", "topic"))
    return by_topic.applyInArrow(work, _PARTS_DDL)


def snapshot_times(start_us: int, end_us: int) -> list[int]:
    """Whole seconds of the run, evenly spread."""
    step = max(1, -(-(end_us - start_us) // (SNAPSHOTS * SECOND))) * SECOND
    return list(range(start_us + step, end_us + 1, step)) or [end_us]


def mesh_table(parts: DataFrame) -> DataFrame:
    return parts.where(F.col("what") == "mesh").select(*MESH.names)


def degrees_table(parts: DataFrame) -> DataFrame:
    return parts.where(F.col("what") == "degree").select(*DEGREES.names)


def mesh_links_table(parts: DataFrame) -> DataFrame:
    return parts.where(F.col("what") == "link").select(*MESH_LINKS.names)


def _snapshots(run: str, topic: int, changed: Any, members: Any, times: list[int], observed: Ints | None) -> Any:
    codes, *others = (_column(changed, name) for name in ("code", "time_us", "peer", "remote"))
    lines: list[dict[str, Any]] = []
    for layer in _LAYERS:
        changes = _changes(layer, codes)
        there = changes != _NO_CHANGE
        if np.isin(changes, (GRAFT, PRUNE)).any():
            time_us, peer, remote = (values[there] for values in others)
            links = links_of(time_us, changes[there], peer, remote)
            lines += [{"layer": layer, **line} for line in _layer(links, members, times, observed)]
    table = pa.Table.from_pylist([{"run": run, "topic": topic, **line} for line in lines], schema=_arrow_schema())
    return table


def _changes(layer: str, codes: Ints) -> Ints:
    """What each row means to a layer."""
    start, ends = _LAYERS[layer]
    meaning = np.full(_NODE_DOWN + 1, _NO_CHANGE)
    meaning[_NODE_DOWN] = DOWN
    meaning[_EVENTS.index(start)] = GRAFT
    meaning[[_EVENTS.index(end) for end in ends]] = PRUNE
    return meaning[codes]


def _layer(links: Links, members: Any, times: list[int], observed: Ints | None) -> Iterator[dict[str, Any]]:
    node, since, until = (_column(members, name) for name in ("node", "since_us", "until_us"))
    for time in times:
        inside = np.unique(node[(since <= time) & (until >= time)])
        yield from _lines(snapshot(links, inside, time, diameter=True, observed=observed))
        if time == times[-1]:
            yield from _picture(*links_at(links, inside, time, observed))


def _lines(seen: Snapshot) -> Iterator[dict[str, Any]]:
    yield {
        "what": "mesh",
        **{name: getattr(seen, name) for name in MESH.names if name not in ("run", "topic", "layer")},
    }
    for degree in np.flatnonzero(seen.degrees).tolist():
        yield {"what": "degree", "time_us": seen.time_us, "degree": degree, "nodes": int(seen.degrees[degree])}


def _picture(nodes: Ints, remotes: Ints) -> Iterator[dict[str, Any]]:
    for node, remote in zip(*pictured(nodes, remotes), strict=True):
        yield {"what": "link", "node": int(node), "remote": int(remote)}


def _column(table: Any, name: str) -> Any:
    return table.column(name).fill_null(-1).to_numpy().astype(np.int64)


def _arrow_schema() -> Any:
    kinds = {"string": pa.string(), "int": pa.int32(), "bigint": pa.int64(), "double": pa.float64()}
    fields = [field.split() for field in _PARTS_DDL.split(",")]
    return pa.schema([(name, kinds[kind]) for name, kind in fields])
