"""The table of the main figures, with a row for each topic of a run. It is joined from other tables."""

from __future__ import annotations

from pyspark.sql import DataFrame

from hearsay.pipeline.rows import Frames


def headline(frames: Frames) -> DataFrame:
    """Return the table `headline`.

    If a run has only one topic, its figures about bytes are those of the whole run, because they then include parts
    without a topic, such as IWANT.
    """
    return frames.query("""
        with nodes as (select run, count(*) as nodes from {observers} group by run),
        alone as (select run, count(*) = 1 as alone from {topics} group by run),
        delivery as (
          select run, topic, count(*) as messages, sum(eligible) as eligible, sum(delivered_eligible) as delivered,
                 sum(delivered_eligible) / nullif(greatest(sum(eligible), 0), 0) as delivery_ratio,
                 sum(hops_sum) / nullif(sum(if(hops_sum is null, null, away)), 0) as hops_mean,
                 max(hops_max) as hops_max,
                 sum(copies) / nullif(sum(away), 0) as copies_per_delivery
          from {messages} group by run, topic),
        sampled as (
          select run, sum(bytes_mean * nodes) / nullif(sum(nodes), 0) as state_bytes_mean,
                 max(bytes_max) as state_bytes_max
          from {state} group by run),
        together as (select * from {resilience} where disturbance is null),
        lines as (
          select t.run, t.topic, t.topic_name, r.router, coalesce(n.nodes, 0) as nodes,
                 coalesce(d.messages, 0) as messages, d.eligible, d.delivered, d.delivery_ratio,
                 latency_p50_ms, latency_p90_ms, latency_p99_ms, latency_max_ms, hops_mean, hops_max,
                 copies_per_delivery, control_bytes_share, b.bytes_mean as bytes_out_mean,
                 b.max_over_mean as bytes_out_max_over_mean, b.gini as bytes_out_gini, b.bytes_max,
                 uplink_bits_per_s / 8D * ((r.run_end_us - r.run_start_us) / 1000000D) as could_send,
                 state_bytes_mean, state_bytes_max, ratio_before, ratio_during, ratio_after, heal_us,
                 r.run_start_us as start_us, (r.run_end_us - r.run_start_us) / 1000000D as seconds, r.complete
          from {topics} t join {runs} r on t.run = r.run join alone a on t.run = a.run
          left join nodes n on t.run = n.run
          left join delivery d on t.run = d.run and t.topic = d.topic
          left join {percentiles} p on t.run = p.run and t.topic = p.topic
          left join {control_shares} c on t.run = c.run and t.topic = c.topic
          left join {balance} b on t.run = b.run and if(a.alone, b.topic is null, b.topic = t.topic)
          left join sampled s on t.run = s.run
          left join together g on t.run = g.run and t.topic = g.topic)
        select *, bytes_out_mean / nullif(could_send, 0) as uplink_share_mean,
               bytes_max / nullif(could_send, 0) as uplink_share_max
        from lines""")
