"""The nodes over time: their memberships in topics, the nodes that are up, and the state that nodes store.

Nodes whose events the trace records are *observers*. The table `churn` also has the delivery of the messages that
were published in a stretch. The table `state` has mean and maximum of entries and bytes over the nodes that were
sampled at the same time.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from hearsay.pipeline.rows import Frames


def memberships(frames: Frames) -> DataFrame:
    """Return the table `memberships`. A membership lasts from a join until the leave, the stop of the node, or the
    end of the run, whichever comes first.

    If a leave and a join have the same time, the leave comes first.
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
    """Return the nodes whose events the trace records: run, node.

    In a simulation, these are all nodes. In a run of real nodes, these are the nodes with a row of the class `mesh`
    or `node`. If no node of such a run has one, these are all its nodes.
    """
    return frames.query("""
        with seen as (
          select run, peer from {node} where not simulated union select run, peer from {mesh} where not simulated),
        marked as (
          select n.run, n.node, s.peer is not null as wrote
          from {nodes} n left join seen s on n.run = s.run and n.node = s.peer),
        written as (select run, max(wrote) as any from marked group by run)
        select run, node from marked join written using (run) join {runs} using (run)
        where simulated or wrote or not any""")


def churn(frames: Frames) -> DataFrame:
    """Return the table `churn`. Each stretch has a row with topic null, in which figures of messages are 0, and a row
    for each topic in which messages were published."""
    measured = frames.is_measured["nodes_up"]
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
          select run, place, seconds, if({measured}, nodes_up, null) as nodes_up,
                 if({measured}, came, null) as came, if({measured}, went, null) as went
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


def state(frames: Frames) -> DataFrame:
    """Return the table `state`. In a trace row, `count` is the number of a node's entries, and `bytes` their size."""
    return frames.query("""
        select run, time_us, count(*) as nodes, sum(count) / nullif(count(count), 0) as entries_mean,
               max(count) as entries_max, sum(bytes) / nullif(count(bytes), 0) as bytes_mean, max(bytes) as bytes_max
        from {node} where event = 'state' group by run, time_us""")
