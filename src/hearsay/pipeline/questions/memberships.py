"""Membership of nodes in topics over time, and the nodes whose events the trace records."""

from __future__ import annotations

from pyspark.sql import DataFrame

from hearsay.pipeline.rows import Frames


def memberships(frames: Frames) -> DataFrame:
    """Return the table `memberships`: times from a join until the leave, the stop of the node, or the end of the run.

    In the same microsecond, the end of a membership comes before a join.
    """
    return frames.query("""
        with changed as (
          select run, topic, peer as node, time_us, event = 'join' as joins, run_end_us
          from {mesh} where event in ('join', 'leave') and topic is not null),
        downs as (
          select d.run, j.topic, d.peer as node, d.time_us, false as joins, d.run_end_us
          from {node} d join (select distinct run, topic, node from changed where joins) j
            on d.run = j.run and d.peer = j.node
          where d.event = 'node_down'),
        spans as (
          select run, topic, node, time_us as since_us, joins,
                 least(lead(time_us, 1, run_end_us) over in_turn, run_end_us) as until_us
          from (select * from changed union all select * from downs)
          window in_turn as (partition by run, topic, node order by time_us, joins))
        select run, topic, node, since_us, until_us from spans where joins""")


def observers(frames: Frames) -> DataFrame:
    """Return the nodes whose events the trace records: all nodes of a simulation, real nodes if they wrote rows."""
    return frames.query("""
        with seen as (
          select run, peer from {node} where not simulated union select run, peer from {mesh} where not simulated),
        marked as (
          select n.run, n.node, s.peer is not null as wrote
          from {nodes} n left join seen s on n.run = s.run and n.node = s.peer),
        written as (select run, max(wrote) as any from marked group by run)
        select run, node from marked join written using (run) join {runs} using (run)
        where simulated or wrote or not any""")
