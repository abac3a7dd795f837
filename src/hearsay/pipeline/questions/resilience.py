"""Disturbances of a run, and delivery before, during and after each: the tables `disturbances` and `resilience`.

Rules:

* The scenario names disturbances. If it has neither crashes nor churn, the trace is searched for others between the
  first and the last message: nodes that go up or down and, for real nodes, connections that end.
* A message counts as *before* a disturbance if the message's window ends before the disturbance begins. It counts as
  *after* if it is published after the disturbance ends, and as *during* otherwise. A disturbance that never ends
  counts as if it ended when it begins.
* All disturbances of a topic together last from the first to the last of these events: a node goes up or down, a
  connection of real nodes ends, a partition or cut begins or ends. Events before the first message of the topic do
  not count, except the beginning of a partition or cut that ends after this message. For real nodes, events after the
  last message do not count either. Loss lasts for the whole run, so it counts only if there are no such events.
* The *ratio* of messages is the number of eligible nodes with a delivery divided by the number of eligible nodes.
  The network has healed at the first message from which on each message has at least `HEALED` times the ratio before
  the disturbance (`HEALED` itself without messages before).
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from hearsay.pipeline.rows import Frames

HEALED = 0.99


def changes(frames: Frames) -> DataFrame:
    """Return the events that may disturb a run: run, time_us, event, reason, peer.

    They are nodes that go up or down and, in a trace of real nodes, connections that end.
    """
    return frames.query("""
        select run, time_us, event, reason, peer from {node}
        where event in ('node_up', 'node_down') or (event = 'remove_peer' and not simulated)""")


def _counted(count: str, one: str, many: str) -> str:
    return f"if({count} = 1, '1 {one}', concat({count}, ' {many}'))"


_SECONDS = "format_string('%.1f s', ({time} - run_start_us) / 1000000D)"
_WHEN = (
    f"concat(if(since = until, concat('at ', {_SECONDS.format(time='since')}), concat('from ', "
    f"{_SECONDS.format(time='since')}, ' to ', {_SECONDS.format(time='until')})))"
)
_LOST_NODES = (
    "case when lost = 0 then '' when lost = downs then ' without a goodbye' "
    "else concat(' (', lost, ' without a goodbye)') end"
)


def disturbances(frames: Frames) -> DataFrame:
    """Return the table `disturbances`. Disturbances are numbered from 0 in the order in which they begin."""
    return frames.query(f"""
        with bounds as (
          select run, min(published_us) as first_us, max(published_us) as last_us from {{messages}} group by run),
        inside as (
          select c.*, event = 'remove_peer' as connection from {{changes}} c join bounds b on c.run = b.run
          where time_us > first_us and time_us < last_us),
        observed as (
          select run, connection, count(*) as many, count_if(event = 'node_down') as downs,
                 count_if(event = 'node_up') as ups, count_if(event = 'node_down' and reason <=> 'lost') as lost,
                 min(time_us) as since, max(time_us) as until
          from inside group by run, connection),
        words as (
          select o.run, connection, since, until,
                 if(connection, concat({_counted("many", "connection", "connections")}, ' ended'),
                    concat_ws(' and ',
                      if(downs > 0, concat({_counted("downs", "node", "nodes")}, ' went down', {_LOST_NODES}), null),
                      if(ups > 0, concat({_counted("ups", "node", "nodes")}, ' came up'), null))) as what,
                 {_WHEN} as when
          from observed o join {{runs}} r on o.run = r.run),
        both as (
          select run, place, kind, what, since_us, until_us, 'scenario' as source from {{planned}}
          union all
          select w.run, if(connection, 1001, 1000), if(connection, 'connections', 'nodes'), concat(what, ' ', when),
                 since, until, 'trace'
          from words w
          left anti join (select run from {{planned}} where kind in ('crash', 'churn')) p on w.run = p.run)
        select run, cast(row_number() over (partition by run order by since_us, place) - 1 as int) as disturbance,
               kind, what, since_us, until_us, source
        from both""")


def spans(frames: Frames) -> DataFrame:
    """Return the times of disturbances: run, topic, disturbance, kind, disturbances, first_us, last_us, throughout.

    Each topic with eligible nodes has a row for each disturbance, and one for all disturbances together
    (`disturbance` null). `disturbances` is 1 or, for all together, the number of their events. `throughout` is True
    for loss, so that all messages of the run count as during it.

    The rows of `changes` are summed up by second. Only those in the seconds of a topic's first and last message are
    compared with these messages one by one.
    """
    return frames.query("""
        with topics as (
          select run, topic, min(published_us) as begins_us, max(published_us) as ends_us
          from {messages} where published_us is not null and topic is not null
          group by run, topic having count_if(eligible > 0) > 0),
        timed as (
          select run, since_us, coalesce(until_us, since_us) as until_us from {disturbances}
          where source = 'scenario' and kind not in ('crash', 'churn', 'loss')),
        moments as (select run, time_us, time_us div 1000000 as second from {changes}),
        seconds as (
          select run, second, count(*) as many, min(time_us) as first_us, max(time_us) as last_us
          from moments group by run, second),
        relevant as (
          select t.run, t.topic, many, first_us, last_us from topics t join {runs} r on t.run = r.run
          join seconds s on t.run = s.run and s.second > t.begins_us div 1000000
               and (r.simulated or s.second < t.ends_us div 1000000)
          union all
          select t.run, t.topic, 1, time_us, time_us from topics t join {runs} r on t.run = r.run
          join moments m on t.run = m.run and m.second = t.begins_us div 1000000
          where time_us > begins_us and (r.simulated or time_us < ends_us)
          union all
          select t.run, t.topic, 1, time_us, time_us from topics t join {runs} r on t.run = r.run
          join moments m on t.run = m.run and m.second = t.ends_us div 1000000
          where not r.simulated and t.ends_us div 1000000 > t.begins_us div 1000000 and time_us < ends_us
          union all
          select t.run, t.topic, 1, since_us, until_us from topics t join {runs} r on t.run = r.run
          join timed d on t.run = d.run where until_us > begins_us and (r.simulated or since_us < ends_us)),
        summed as (
          select run, topic, sum(many) as many, min(first_us) as first_us, max(last_us) as last_us
          from relevant group by run, topic),
        losses as (
          select run, min_by(since_us, disturbance) as since_us,
                 min_by(coalesce(until_us, since_us), disturbance) as until_us
          from {disturbances} where kind = 'loss' group by run)
        select t.run, t.topic, cast(null as int) as disturbance, cast(null as string) as kind,
               coalesce(many, if(l.run is null, 0, 1)) as disturbances, coalesce(first_us, l.since_us) as first_us,
               coalesce(last_us, l.until_us) as last_us, many is null and l.run is not null as throughout
        from topics t left join summed s on t.run = s.run and t.topic = s.topic left join losses l on t.run = l.run
        union all
        select t.run, t.topic, disturbance, kind, 1, since_us, coalesce(until_us, since_us), kind = 'loss'
        from topics t join {disturbances} d on t.run = d.run""")


def resilience(frames: Frames) -> DataFrame:
    """Return the table `resilience`: delivery before, during and after each disturbance, and the time to heal."""
    ratios = ", ".join(
        f"sum(if(phase = '{phase}', delivered, 0)) / nullif(sum(if(phase = '{phase}', eligible, 0)), 0) "
        f"as ratio_{phase}"
        for phase in ("before", "during", "after")
    )
    return frames.query(f"""
        with judged as (
          select run, topic, published_us, eligible, coalesce(delivered_eligible, 0) as delivered, ratio
          from {{messages}} where published_us is not null and eligible > 0),
        phased as (
          select s.*, j.published_us, j.eligible, j.delivered, coalesce(j.ratio, 0D) as ratio, r.run_end_us,
                 case when s.throughout then 'during' when s.first_us is null then 'before'
                      when least(j.published_us + r.window_us, r.run_end_us) < s.first_us then 'before'
                      when j.published_us > s.last_us then 'after' else 'during' end as phase
          from {{spans}} s join judged j on s.run = j.run and s.topic = j.topic join {{runs}} r on s.run = r.run),
        ratios as (
          select run, topic, disturbance, kind, disturbances, first_us, last_us, throughout, run_end_us,
                 {ratios}
          from phased
          group by run, topic, disturbance, kind, disturbances, first_us, last_us, throughout, run_end_us),
        since as (
          select p.run, p.topic, p.disturbance, p.published_us,
                 p.ratio < {HEALED}D * coalesce(q.ratio_before, 1D) as bad
          from phased p join ratios q on p.run = q.run and p.topic = q.topic and p.disturbance <=> q.disturbance
          where p.published_us > p.first_us),
        worst as (
          select run, topic, disturbance, max(if(bad, published_us, null)) as bad_us
          from since group by run, topic, disturbance),
        healed as (
          select w.run, w.topic, w.disturbance, w.bad_us is null as unharmed,
                 min(if(s.published_us > w.bad_us, s.published_us, null)) as good_us
          from worst w join since s on w.run = s.run and w.topic = s.topic and w.disturbance <=> s.disturbance
          group by w.run, w.topic, w.disturbance, w.bad_us)
        select r.run, r.topic, r.disturbance, kind, disturbances, first_us, last_us,
               ratio_before, ratio_during, ratio_after,
               case when throughout or last_us is null or last_us >= run_end_us then null
                    when unharmed then 0 when good_us is not null then greatest(good_us - last_us, 0) end as heal_us
        from ratios r
        left join healed h on r.run = h.run and r.topic = h.topic and r.disturbance <=> h.disturbance""")
