"""Peer exchange: dials of peers that PRUNEs named, and connections that these dials opened, by stretch of the run."""

from __future__ import annotations

from pyspark.sql import DataFrame

from hearsay.pipeline.rows import Frames


def exchange(frames: Frames) -> DataFrame:
    """Return the table `exchange`.

    A dial opens a connection if two conditions hold: the dial is the node's last event about the peer before the
    connection, and the node has not restarted between both. Events of the same time have the order of `place`.
    `nodes` counts each node once, in the stretch of its first such connection.
    """
    return frames.query("""
        with placed as (
          select run, run_start_us, stretch_s, time_us, event, peer, remote,
                 array_position(array('node_up', 'remove_peer', 'dial', 'add_peer'), event) as place
          from (select run, run_start_us, stretch_s, time_us, event, peer, remote from {exchange}
                union all select n.run, run_start_us, stretch_s, time_us, event, peer, remote from {node} n
                          left semi join (select distinct run from {exchange}) e on n.run = e.run)
          where event in ('node_up', 'remove_peer', 'dial', 'add_peer')),
        lives as (
          select *, sum(if(event = 'node_up', 1, 0)) over (
                      partition by run, peer order by time_us, place rows unbounded preceding) as life from placed),
        dialled as (
          select *, event = 'add_peer' and lag(event) over (
                      partition by run, peer, remote, life order by time_us, place) <=> 'dial' as connects
          from lives where event <> 'node_up' and remote is not null),
        ranked as (
          select *, row_number() over (partition by run, peer order by time_us, remote) as rank
          from dialled where connects),
        counts as (
          select run, run_start_us, stretch_s, time_us, 1 as dials, 0 as connections, 0 as nodes
          from dialled where event = 'dial'
          union all select run, run_start_us, stretch_s, time_us, 0, 1, if(rank = 1, 1, 0) from ranked)
        select run, (time_us - run_start_us) div (stretch_s * 1000000) * stretch_s as second,
               stretch_s as seconds,
               sum(dials) as dials, sum(connections) as connections, sum(nodes) as nodes
        from counts group by run, 2, stretch_s""")
