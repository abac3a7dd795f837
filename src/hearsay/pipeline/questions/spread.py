"""The spread of one typical message of each topic, whose median latency is the median of all messages."""

from __future__ import annotations

from pyspark.sql import DataFrame

from hearsay.pipeline.rows import Frames

SHOWN_DELIVERIES = 1500


def spread(frames: Frames) -> DataFrame:
    """Return the table `spread`: of a large network every n-th delivery in the order of time.

    The publisher's own delivery crossed no link and came from no peer, even if the trace records one.
    """
    return frames.query(f"""
        with ordered as (
          select run, topic, message, publisher, published_us, delivered,
                 row_number() over (partition by run, topic order by p50_us, message) as place,
                 count(*) over (partition by run, topic) as count
          from {{messages}} where p50_us is not null),
        typical as (select * from ordered where place = (count - 1) div 2 + 1),
        placed as (
          select d.run, d.topic, d.message, d.peer as node, d.remote, d.hops, d.via, t.publisher,
                 d.time_us - t.published_us as latency_us,
                 cast(ceil(t.delivered / {SHOWN_DELIVERIES}D) as bigint) as step,
                 row_number() over (partition by d.run, d.message order by d.time_us, d.peer) - 1 as place
          from {{message}} d join typical t on d.run = t.run and d.message = t.message where d.event = 'deliver'),
        shown as (
          select *, node <=> publisher and (remote is null or remote = node) as own
          from placed where place % step = 0)
        select run, topic, message, node, if(own, null, remote) as remote, latency_us as after_us,
               if(own, coalesce(hops, 0), hops) as hops, via
        from shown""")
