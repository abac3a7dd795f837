"""Reliability, speed and copies of every message: the table `messages`, and the deliveries that it sums up.

Rules:

* A node is eligible for a message if it is in the topic from the publication until the window of the message closes.
  A node whose application refuses the message is not eligible. If nodes refused it and no node accepted it from a
  peer, no node is eligible.
* Percentiles of a message come from one sorted array of its deliveries, which has as many values as the topic has
  nodes.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from hearsay.pipeline.rows import Frames

ARRIVES = "(event = 'send_rpc' and time_us + delay_us < run_end_us)"
"""A copy that arrives: it was sent, and its flight is known and over before the run ends."""
VANISHES = "(event = 'drop_rpc' and time_us < run_end_us and reason in ('lost', 'unreachable'))"
"""A copy that was sent and did not arrive."""


def sent(frames: Frames) -> DataFrame:
    """Return a row per message with sums over its rows: its first publication, copies that were sent and that
    arrived, duplicates and rejects that the trace records."""
    return frames.query(f"""
        with sums as (
          select {{run}} as run, message, min(topic) as topic,
                 min(if(event = 'publish', time_us, null)) as published_us,
                 min_by(if(event = 'publish', peer, null), if(event = 'publish', time_us, null)) as publisher,
                 min_by(if(event = 'publish', bytes, null), if(event = 'publish', time_us, null)) as bytes,
                 sum(if(event = 'send_rpc' and delay_us is not null, 1, 0)) as sent,
                 sum(case when {ARRIVES} then 1 when {VANISHES} then -1 else 0 end) as arrived,
                 sum(if(event = 'duplicate', 1, 0)) as recorded, sum(if(event = 'reject', 1, 0)) as rejected
          from {{message}} where message is not null group by {{run}}, message)
        select s.*, window_us,
               if(published_us is null, null, least(published_us + window_us, run_end_us)) as window_end_us
        from sums s join {{runs}} r on s.run = r.run""")


def receipts(frames: Frames) -> DataFrame:
    """Return a row for each delivery and reject of a message, and for each copy that a script injected,
    with the message's publication.

    latency_us is null if no publication is known. `away`: the node is not the publisher. `eligible`: the node is a
    member of the topic from the publication until the window closes. Spark does not store these rows: it sums them up
    while it reads the trace.
    """
    return frames.query(f"""
        select m.run, m.message, m.topic, m.event, m.peer as node, m.remote, m.hops, m.via, m.reason,
               m.time_us - s.published_us as latency_us, not (m.peer <=> s.publisher) as away,
               e.node is not null as eligible, {ARRIVES} as arrives, {VANISHES} as vanishes
        from {{message}} m left join {{sent}} s on m.run = s.run and m.message = s.message
        left join {{memberships}} e on s.run = e.run and s.topic = e.topic and m.peer = e.node
             and e.since_us <= s.published_us and e.until_us >= s.window_end_us
        where m.message is not null and (m.event in ('deliver', 'reject') or m.via = 'inject')""")


def members(frames: Frames) -> DataFrame:
    """Return the number of nodes that are members during the whole window of a message: run, message, members.

    The number is that of memberships begun until the publication, minus those that end before the window closes. The
    latter include memberships that begin after the publication, so these are added again (`within`). They are shorter
    than a window, so a bucket of time finds them.
    """
    return frames.query("""
        with published as (select * from {sent} where published_us is not null),
        points as (
          select run, topic, since_us as at, 0 as place, 1 as begun, 0 as ended, null as message from {memberships}
          union all select run, topic, until_us, 2, 0, 1, null from {memberships}
          union all select run, topic, published_us, 1, 0, 0, message from published
          union all select run, topic, window_end_us, 1, 0, 0, message from published),
        counted as (
          select run, topic, message, at, sum(begun) over so_far as begun, sum(ended) over so_far as ended
          from points window so_far as (partition by run, topic order by at, place rows unbounded preceding)),
        sums as (
          select run, message, min(begun) as begun, max(ended) as ended
          from counted where message is not null group by run, message),
        within as (
          select p.run, p.message, count(*) as within
          from (select *, published_us div greatest(window_us, 1) + later as bucket
                from (select *, explode(array(0, 1)) as later from published)) p
          join (select m.*, m.since_us div greatest(window_us, 1) as bucket
                from {memberships} m join {runs} r on m.run = r.run where until_us < run_end_us) m
            on p.run = m.run and p.topic = m.topic and p.bucket = m.bucket
               and m.since_us > p.published_us and m.until_us < p.window_end_us
          group by p.run, p.message)
        select run, message, begun - ended + coalesce(within, 0) as members
        from sums left join within using (run, message)
        left semi join (
          select p.run, p.message from published p
          left semi join {memberships} m on p.run = m.run and p.topic = m.topic) using (run, message)""")


def percentile(values: str, percent: int) -> str:
    """Return SQL for a percentile of a sorted array of integers: linear between order statistics, exact to 0.01."""
    position = f"((size({values}) - 1) * {percent})"
    below = f"get({values}, cast({position} div 100 as int))"
    above = f"coalesce(get({values}, cast({position} div 100 as int) + 1), {below})"
    return f"if(size({values}) > 0, ({below} * 100 + ({above} - {below}) * ({position} % 100)) / 100.0D, null)"


def reached(percent: int) -> str:
    """Return SQL for the time until `percent` of the eligible nodes had the message; null if they never had it."""
    return f"if(eligible > 0, get(firsts, cast((eligible * {percent} + 99) div 100 as int) - 1), null)"


def taken(frames: Frames) -> DataFrame:
    """Return a row per message with arrays: latencies and hops (-1: unknown) of its deliveries, the nodes that
    accepted or rejected it, and the nodes whose application refused it."""
    return frames.query("""
        with marked as (
          select *, event = 'deliver' as taken, event = 'deliver' and away as counts,
                 event = 'deliver' and away and latency_us is not null as timed,
                 event = 'reject' and reason in ('rejected', 'ignored') as refused from {receipts})
        select {run} as run, message, min(topic) as topic,
               count_if(taken) as delivered, count_if(counts) as away,
               count_if(counts and via <=> 'iwant') as by_iwant,
               count_if(counts and not (via <=> 'inject')) as passed_on,
               sum(if(counts, hops, null)) as hops_sum, max(if(counts, hops, null)) as hops_max,
               collect_list(if(timed, latency_us, null)) as latencies,
               collect_list(if(timed, coalesce(hops, -1), null)) as hops,
               collect_list(if(taken, node, null)) as nodes,
               collect_list(if(taken and eligible, node, null)) as eligible_nodes,
               collect_list(if(taken and eligible, latency_us, null)) as eligible_latencies,
               collect_set(if(event = 'reject', node, null)) as rejecters,
               collect_set(if(refused, node, null)) as refusers,
               collect_set(if(refused and eligible, node, null)) as eligible_refusers,
               collect_set(if(via <=> 'inject' and arrives, remote, null)) as injected,
               collect_set(if(via <=> 'inject' and vanishes, remote, null)) as vanished
        from marked group by {run}, message""")


_BY_NODE = "array_sort(arrays_zip(eligible_nodes, eligible_latencies))"
_FIRSTS = f"""transform(
    filter({_BY_NODE}, (one, place) -> place = 0 or get({_BY_NODE}, place - 1).eligible_nodes <> one.eligible_nodes),
    one -> one.eligible_latencies)"""
"""SQL for the latency of the earliest delivery at each node: a node that restarted may have two."""


def summed(frames: Frames) -> DataFrame:
    """Return a row per message with its sums, sorted latencies, and latencies of first deliveries at eligible
    nodes."""
    return frames.query(f"""
        with joined as (
          select s.*, m.members, t.* except (run, message, topic),
                 size(array_except(array_except(t.injected, t.vanished), array_union(t.nodes, t.rejecters)))
                   as handed_over,
                 size(array_except(t.refusers, t.nodes)) > 0 and t.passed_on = 0 as by_nobody
          from {{sent}} s left join {{members}} m using (run, message) left join {{taken}} t using (run, message))
        select run, message, topic, publisher, published_us, bytes, sent, arrived, recorded, rejected,
               hops_sum, hops_max, coalesce(away, 0) as away, coalesce(by_iwant, 0) as by_iwant,
               coalesce(handed_over, 0) as handed_over,
               sort_array(latencies) as latencies, coalesce(delivered, 0) as delivered,
               coalesce(delivered - size(array_distinct(nodes)), 0) as repeated,
               case when members is null then null when by_nobody then 0
                    else members - coalesce(size(array_except(eligible_refusers, nodes)), 0) end as eligible,
               case when by_nobody then array()
                    when size(array_distinct(eligible_nodes)) = size(eligible_nodes)
                      then sort_array(eligible_latencies)
                    else sort_array({_FIRSTS}) end as firsts
        from joined""")


def messages(frames: Frames) -> DataFrame:
    """Return the table `messages`, with the number of repeated deliveries at a node (`repeated`) in addition."""
    percentiles = ", ".join(f"{percentile('latencies', each)} as p{each}_us" for each in (50, 90, 99))
    delivery = frames.known["delivery"]
    times = ", ".join(f"if({delivery}, {reached(each)}, null) as t{each}_us" for each in (50, 90, 99, 100))
    return frames.query(f"""
        with counted as (
          select *, coalesce(size(firsts), 0) as on_time,
                 if(sent > 0, arrived, away + recorded + rejected) as copies,
                 if(sent > 0, greatest(arrived - away - rejected - handed_over, 0), recorded) as duplicates
          from {{summed}})
        select run, topic, message, publisher, published_us, bytes,
               if({delivery}, eligible, null) as eligible,
               if({delivery} and eligible is not null, on_time, null) as delivered_eligible,
               if({delivery}, on_time / nullif(greatest(eligible, 0), 0), null) as ratio,
               delivered, away, copies, duplicates, rejected, by_iwant, {percentiles},
               get(latencies, size(latencies) - 1) as max_us, {times}, hops_sum, hops_max,
               copies / nullif(away, 0) as copies_per_delivery, repeated
        from counted""")
