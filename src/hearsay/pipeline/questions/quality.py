"""Checks of the trace itself (docs/reference/metrics.md). A check that finds nothing has the count 0."""

from __future__ import annotations

from pyspark.sql import DataFrame

from hearsay.pipeline.rows import Frames

MAX_NAMED = 10
MIN_DUE_SHARE = 0.5
STILL_WRITTEN = "still being written"


def quality(frames: Frames) -> DataFrame:
    """Return the table `quality`: a row for each check of a run, with the number of its findings."""
    return frames.query(f"""
        with sums as (
          select run, sum(repeated) as repeated, sum(if(published_us is null, delivered, 0)) as orphans,
                 count_if(published_us is null) as unpublished, count_if(p50_us < 0) as negative,
                 count_if(eligible is null) as unknown,
                 coalesce(sum(if(eligible is not null, delivered, 0)), 0) as made,
                 coalesce(sum(delivered_eligible), 0) as due
          from {{messages}} group by run),
        lost as (
          select c.run, time_us, peer from {{changes}} c join {{runs}} r on c.run = r.run
          where not simulated and event = 'node_down' and reason <=> 'lost'),
        named as (
          select l.run, count(*) as many,
                 slice(array_sort(collect_list(struct(time_us, peer, n.name))), 1, {MAX_NAMED}) as first
          from lost l left join {{nodes}} n on l.run = n.run and l.peer = n.node group by l.run)
        select run, 'rows' as check, rows, cast(null as string) as detail from {{runs}}
        union all
          select run, 'incomplete', if(complete, 0, 1), if(still_written, '{STILL_WRITTEN}', null) from {{runs}}
        union all select run, check, rows, null from sums lateral view stack(5,
            'repeated_deliveries', repeated, 'orphan_deliveries', orphans, 'unpublished_messages', unpublished,
            'negative_latencies', negative, 'unknown_eligible', unknown) checks as check, rows
        union all select run, concat('drop_', coalesce(reason, 'unknown')), sum(rows), null
          from {{parts}} where fate = 'dropped' group by run, reason
        union all
          select n.run, 'ended_without_goodbye', many,
                 concat(array_join(transform(first, one -> concat(coalesce(one.name, cast(one.peer as string)),
                          format_string(' at %.1f s', (one.time_us - run_start_us) / 1000000D))), ', '),
                        if(many > {MAX_NAMED}, ', …', ''))
          from named n join {{runs}} r on n.run = r.run
        union all
          select s.run, 'not_due', made - due,
                 concat(due, ' of the ', made, ' deliveries made were due: a node counts if it stayed ',
                        rtrim('.', rtrim('0', format_string('%.6f', window_us / 1000000D))),
                        ' s after the message; --window sets it')
          from sums s join {{runs}} r on s.run = r.run where not simulated and due < {MIN_DUE_SHARE}D * made""")
