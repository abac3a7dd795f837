"""The nodes that are up in each stretch of a run (`rows.stretch_s`), and the delivery of its messages."""

from __future__ import annotations

from pyspark.sql import DataFrame

from hearsay.pipeline.rows import Frames


def churn(frames: Frames) -> DataFrame:
    """Return the table `churn`; rows with topic null have numbers of nodes and no deliveries."""
    known = frames.known["nodes_up"]
    return frames.query(f"""
        with places as (
          select run, stretch_s as seconds,
                 explode(sequence(0, (run_end_us - run_start_us - 1) div (stretch_s * 1000000))) as place
          from {{runs}} where run_end_us > run_start_us),
        changes as (
          select run, (time_us - run_start_us) div (stretch_s * 1000000) as place,
                 count_if(event = 'node_up') as came, count_if(event = 'node_down') as went
          from {{node}} where event in ('node_up', 'node_down') group by run, 2),
        nodes as (
          select p.run, p.place, p.seconds, coalesce(came, 0) as came, coalesce(went, 0) as went,
                 sum(coalesce(came, 0) - coalesce(went, 0)) over (partition by p.run order by p.place) as nodes_up
          from places p left join changes c on p.run = c.run and p.place = c.place),
        changed as (
          select run, place, seconds, if({known}, nodes_up, null) as nodes_up,
                 if({known}, came, null) as came, if({known}, went, null) as went
          from nodes),
        published as (
          select run, topic, (published_us - run_start_us) div (stretch_s * 1000000) as place, count(*) as messages,
                 sum(eligible) as eligible, sum(delivered_eligible) as delivered
          from {{messages}} join {{runs}} using (run) where published_us is not null group by run, topic, 3)
        select run, cast(null as int) as topic, place * seconds as second, seconds, nodes_up, came, went,
               0 as messages, 0 as eligible, 0 as delivered, cast(null as double) as ratio from changed
        union all
        select t.run, topic, t.place * seconds, seconds, nodes_up, came, went, messages, eligible, delivered,
               delivered / nullif(greatest(eligible, 0), 0)
        from changed t join published p on t.run = p.run and t.place = p.place""")
