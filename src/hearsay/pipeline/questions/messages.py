"""The reliability, speed and copies of every message, and the spread of one typical message of each topic.

Rules:

* A node is eligible for a message if it is in the topic from the publication until the end of the message's window.
  A node whose application refuses the message (rejects or ignores it) is not eligible. If an application refused the
  message, and no application accepted it from a peer, then no node is eligible.
* Percentiles of a message come from one sorted array of the latencies of its deliveries. The array has about as many
  values as the topic has nodes.
* The median latency of the typical message is the median over the topic's messages.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from hearsay.pipeline.rows import Frames

ARRIVES = "(event = 'send_rpc' and time_us + delay_us < run_end_us)"
"""SQL condition for the row of a sent copy that is to arrive before the run ends. If the copy is lost on its way, it
also has a row for which `VANISHES` is true. The number of arrived copies is the difference of these row counts."""
VANISHES = "(event = 'drop_rpc' and time_us < run_end_us and reason in ('lost', 'unreachable'))"
"""SQL condition for the row of a copy that was sent and is lost on its way. The time of the row is the time at which
the copy would have arrived."""
_BY_NODE = "array_sort(arrays_zip(eligible_nodes, eligible_latencies))"
_FIRSTS = f"""transform(
    filter({_BY_NODE}, (one, place) -> place = 0 or get({_BY_NODE}, place - 1).eligible_nodes <> one.eligible_nodes),
    one -> one.eligible_latencies)"""
"""SQL for the latency of the first delivery at each eligible node. A node that restarted may have two deliveries."""
SHOWN_DELIVERIES = 1500


def sent(frames: Frames) -> DataFrame:
    """Return a row for each message: its first publication, its window, and sums over its rows in the trace.

    `sent` and `arrived` are numbers of copies. `recorded` is the number of DUPLICATE rows, `rejected` of REJECT rows.
    """
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
    """Return a row for each delivery and each reject of a message, and for each send and each loss of a copy from a
    script.

    `latency_us` is the time since the publication, null if no publication is known. `away` is True if the node is not
    the publisher. `eligible` is True if the node is a member of the topic during the whole window of the message.
    Spark does not store these rows: it sums them up while it reads the trace.
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

    That number is `begun` - `ended` + `within`. `begun` is the number of memberships that begin before or at the
    publication. `ended` is the number of memberships that end before the end of the window. `within` is the number of
    those that end before it, but begin after the publication: `ended` has them, and `begun` does not. To find these,
    time is divided into buckets with the length of a window: such a membership begins in the bucket of the
    publication or in the next one. Messages of topics without memberships have no row.
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
    """Return SQL for a percentile of a sorted array of integers; null if the array is empty.

    The percentile is interpolated linearly between neighbouring values, exact to 0.01.
    """
    position = f"((size({values}) - 1) * {percent})"
    below = f"get({values}, cast({position} div 100 as int))"
    above = f"coalesce(get({values}, cast({position} div 100 as int) + 1), {below})"
    return f"if(size({values}) > 0, ({below} * 100 + ({above} - {below}) * ({position} % 100)) / 100.0D, null)"


def reached(percent: int) -> str:
    """Return SQL for the time from the publication until `percent` % of the eligible nodes had the message.

    It is null if fewer nodes got the message, or if no node is eligible.
    """
    return f"if(eligible > 0, get(firsts, cast((eligible * {percent} + 99) div 100 as int) - 1), null)"


def taken(frames: Frames) -> DataFrame:
    """Return a row for each message, with numbers of deliveries and with arrays.

    `latencies` and `hops` (-1: unknown) are those of deliveries away. `eligible_latencies` are those of deliveries at
    `eligible_nodes`, in the same order. The other arrays have nodes: those with a delivery, those with a reject,
    those whose application refused the message, those to which a script sent it (`injected`), and those for which
    the script's copy was lost on its way (`vanished`).
    """
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


def summed(frames: Frames) -> DataFrame:
    """Return a row for each message, joined from the tables `sent`, `members` and `taken`.

    `latencies` are sorted. `firsts` are the sorted latencies of the first deliveries at eligible nodes. `handed_over`
    is the number of nodes that got the message from a script, and neither delivered nor rejected it.
    """
    return frames.query(f"""
        with joined as (
          select s.*, m.members, t.* except (run, message, topic),
                 size(array_except(array_except(t.injected, t.vanished), array_union(t.nodes, t.rejecters)))
                   as handed_over,
                 size(array_except(t.refusers, t.nodes)) > 0 and t.passed_on = 0 as by_no_node
          from {{sent}} s left join {{members}} m using (run, message) left join {{taken}} t using (run, message))
        select run, message, topic, publisher, published_us, bytes, sent, arrived, recorded, rejected,
               hops_sum, hops_max, coalesce(away, 0) as away, coalesce(by_iwant, 0) as by_iwant,
               coalesce(handed_over, 0) as handed_over,
               sort_array(latencies) as latencies, coalesce(delivered, 0) as delivered,
               coalesce(delivered - size(array_distinct(nodes)), 0) as repeated,
               case when members is null then null when by_no_node then 0
                    else members - coalesce(size(array_except(eligible_refusers, nodes)), 0) end as eligible,
               case when by_no_node then array()
                    when size(array_distinct(eligible_nodes)) = size(eligible_nodes)
                      then sort_array(eligible_latencies)
                    else sort_array({_FIRSTS}) end as firsts
        from joined""")


def messages(frames: Frames) -> DataFrame:
    """Return the table `messages` with one more column, `repeated`: the number of deliveries after the first one at
    the same node."""
    percentiles = ", ".join(f"{percentile('latencies', each)} as p{each}_us" for each in (50, 90, 99))
    delivery = frames.is_measured["delivery"]
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


def spread(frames: Frames) -> DataFrame:
    """Return the table `spread`: the deliveries of the typical message.

    If there are more than `SHOWN_DELIVERIES`, the table has every n-th delivery in order of time, so that it has no
    more than that. The publisher's own delivery has no remote, even if the trace names the publisher as the remote.
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
