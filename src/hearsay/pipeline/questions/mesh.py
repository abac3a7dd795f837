"""Links over time: degrees, symmetry, components, diameter, and a picture of them.

A router has a mesh (GRAFT and PRUNE); episub has active neighbours instead, and some of their links form a tree.
Mesh, neighbours and tree are *layers*. A link of the tree ends at the latest when the nodes are no longer neighbours.

Spark computes the times of each link. Components and diameter need a graph: numpy and scipy compute snapshots of a
topic, a few in one task, from the links that existed at their times (`graph_snapshots`).
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame

from hearsay.pipeline.output.stored_tables import arrow_schema
from hearsay.pipeline.output.tables import COMMON, MESH_LAYER, NEIGHBOURS_LAYER, TABLES, TREE_LAYER, TableSchema
from hearsay.pipeline.questions.graph_snapshots import snapshot_rows
from hearsay.pipeline.rows import Frames
from hearsay.trace.folder.arrow import pa

SNAPSHOTS = 40
_TOGETHER = 10
"""Maximum snapshots that one task computes from the same links. In this module they are a stretch."""
_SECOND = 1_000_000
_ENDS, _STARTS = 0, 1
"""Order of changes in the same microsecond: first ends of links, then starts, then nodes that go down (2)."""
_LAYERS = {
    MESH_LAYER: {"graft": _STARTS, "prune": _ENDS},
    NEIGHBOURS_LAYER: {"neighbor_up": _STARTS, "neighbor_down": _ENDS},
    TREE_LAYER: {"eager": _STARTS, "lazy": _ENDS, "neighbor_down": _ENDS},
}
_CHANGES = ", ".join(
    f"('{layer}', '{event}', {change})" for layer, events in _LAYERS.items() for event, change in events.items()
)
_LONG = 9223372036854775807
_GROUP = ("run", "topic", "layer", "stretch")
_TABLE = {table: TABLES[table].columns for table in ("mesh", "degrees", "mesh_links")}
_DRAWN = TableSchema("", {"kind": COMMON["kind"], **_TABLE["mesh"], **_TABLE["degrees"], **_TABLE["mesh_links"]})
"""The columns of all three tables. `kind` names the table of a row, and only columns of this table are filled."""


def links(frames: Frames) -> DataFrame:
    """Return the times of all links: run, topic, layer, node, remote, since_us, exists, until_us (exclusive).

    `exists` is False for the time after the end of a link. A link ends with its PRUNE or a similar event, or when its
    node goes down (`ends_us`).
    """
    return frames.query(f"""
        with layers as (select * from values {_CHANGES} as layers(layer, event, change)),
        rows as (
          select run, topic, layer, peer, remote, time_us, change, cast(null as bigint) as down_us
          from {{mesh}} join layers using (event) where topic is not null
          union all
          select run, null, null, peer, null, time_us, 2, time_us from {{node}} where event = 'node_down'),
        ended as (
          select *, last_value(down_us, true) over (
                      partition by run, peer order by time_us desc, change desc rows unbounded preceding) as ends_us
          from rows),
        turns as (
          select *, lead(time_us) over (
                      partition by run, topic, layer, peer, remote order by time_us, change) as next_us
          from ended where change <> 2)
        select run, topic, layer, peer as node, remote, time_us as since_us, change = {_STARTS} as exists,
               least(coalesce(next_us, {_LONG}), coalesce(ends_us, {_LONG})) as until_us
        from turns""")


def times(frames: Frames) -> DataFrame:
    """Return a row for each stretch of snapshots: run, stretch, simulated, end_us, first_us, last_us, times."""
    return frames.query(f"""
        with steps as (
          select run, run_start_us, run_end_us, simulated,
                 {_SECOND} * greatest(1, cast(ceil((run_end_us - run_start_us) / {SNAPSHOTS * _SECOND}D) as bigint))
                   as step_us
          from {{runs}}),
        moments as (
          select *, explode(if(run_end_us >= run_start_us + step_us,
                               sequence(run_start_us + step_us, run_end_us, step_us), array(run_end_us))) as time_us
          from steps),
        placed as (
          select run, simulated, time_us, max(time_us) over (partition by run) as end_us,
                 (row_number() over (partition by run order by time_us) - 1) div {_TOGETHER} as stretch from moments)
        select run, stretch, simulated, end_us, min(time_us) as first_us, max(time_us) as last_us,
               array_sort(collect_list(time_us)) as times
        from placed group by run, stretch, simulated, end_us""")


def drawn(frames: Frames) -> DataFrame:
    """Return the rows of `mesh`, `degrees` and `mesh_links` in one DataFrame; `kind` names the table of a row."""
    all_links = frames.query("""
        select l.run, l.topic, l.layer, t.stretch, l.node, l.remote, l.since_us, l.until_us,
               not t.simulated and o.node is null as unknown
        from {links} l join {times} t on l.run = t.run
        left join {observers} o on not t.simulated and l.run = o.run and l.remote = o.node
        where exists and l.since_us <= t.last_us and l.until_us > t.first_us""")
    memberships = frames.query("""
        with layers as (select distinct run, topic, layer from {links}),
        counts as (select run, count(*) as observers from {observers} group by run)
        select l.run as run, l.topic as topic, l.layer as layer, t.stretch as stretch,
               m.node, m.since_us, m.until_us, t.times, t.end_us,
               t.simulated or c.observers > 1 as has_shape
        from layers l join {times} t on l.run = t.run join counts c on l.run = c.run
        left join {memberships} m on l.run = m.run and l.topic = m.topic
             and m.since_us <= t.last_us and m.until_us >= t.first_us""")
    together: Any = all_links.groupBy(*_GROUP).cogroup(memberships.groupBy(*_GROUP))
    return together.applyInArrow(_snapshot_table, _DRAWN.ddl)


def mesh(frames: Frames) -> DataFrame:
    """Return the table `mesh`: degrees, symmetry, components and diameter of each snapshot."""
    return frames.query("select * from {drawn} where kind = 'mesh'")


def degrees(frames: Frames) -> DataFrame:
    """Return the table `degrees`: the number of nodes by degree in each snapshot."""
    return frames.query("select * from {drawn} where kind = 'degrees'")


def mesh_links(frames: Frames) -> DataFrame:
    """Return the table `mesh_links`: the links of the last snapshot, or a sample of them."""
    return frames.query("select * from {drawn} where kind = 'mesh_links'")


def _snapshot_table(key: tuple[Any, ...], all_links: Any, memberships: Any) -> Any:
    """Return the rows of one run, topic, layer and stretch. This runs in a task."""
    group = dict(zip(_GROUP, (each.as_py() for each in key), strict=True))
    lines = [line | group for line in snapshot_rows(all_links, memberships)] if len(memberships) else []
    return pa.Table.from_pylist(lines, arrow_schema(_DRAWN))
