"""The quality of a trace: the figures that can be computed from it, the reasons why others cannot, and checks of the
trace itself (docs/reference/metrics.md).
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame

from hearsay.pipeline.rows import Frames, RunConditions, Trace, of_runs

FIGURES = ("delivery", "hops", "bytes_out", "bytes_in", "evenness", "mesh_shape", "nodes_up", "state")
_REASONS = """
    case figure
      when 'hops' then 'real nodes do not know how many links a message crossed'
      when 'delivery' then if(observers = 1, 'only one node traced, and it does not know what others received', null)
      when 'evenness' then case when sized_out = 0 then 'the trace has no sizes of what was sent'
                                when observers = 1 then 'only one node traced' end
      when 'mesh_shape' then if(observers = 1, 'only one node traced, and it does not know the links of others', null)
      when 'bytes_out' then if(sized_out = 0, 'the trace has no sizes of what was sent', null)
      when 'bytes_in' then if(sized_in = 0, 'the trace has no sizes of what was received', null)
      when 'nodes_up' then if(node_ups = 0, 'the trace does not record when nodes went up or down', null)
      when 'state' then if(states = 0, 'the trace has no rows about the state of nodes', null)
    end"""
MAX_NAMED = 10
MIN_DUE_SHARE = 0.5
STILL_WRITTEN = "still being written"


def measured(frames: Frames) -> DataFrame:
    """Return the table `measured`: for each run and each of `FIGURES`, whether the figure is known, or why not."""
    sizes = " union all ".join(
        f"select run, count_if(event = 'send_rpc') as sized_out, count_if(event = 'recv_rpc') as sized_in "
        f"from {{{name}}} where not simulated and bytes is not null group by run"
        for name in ("message", "rpc")
    )
    return frames.query(f"""
        with counts as (
          select run, count(*) as observers from {{observers}} group by run),
        events as (
          select run, count_if(event = 'node_up') as node_ups, count_if(event = 'state') as states
          from {{node}} where not simulated group by run),
        sizes as (select run, sum(sized_out) as sized_out, sum(sized_in) as sized_in from ({sizes}) group by run),
        facts as (
          select run, simulated, coalesce(observers, 0) as observers, coalesce(node_ups, 0) as node_ups,
                 coalesce(states, 0) as states, coalesce(sized_out, 0) as sized_out, coalesce(sized_in, 0) as sized_in
          from {{runs}} left join counts using (run) left join events using (run) left join sizes using (run)),
        lines as (select *, explode(array({", ".join(f"'{figure}'" for figure in FIGURES)})) as figure from facts),
        judged as (select run, figure, if(simulated, null, {_REASONS}) as reason from lines)
        select run, figure, reason is null as measured, reason from judged""")


def is_measured(trace: Trace, measured: Any) -> RunConditions:
    """Return the SQL conditions by figure; `measured` is the table of that name, as an Arrow table."""
    rows = measured.to_pylist()
    runs = {figure: {row["run"] for row in rows if row["figure"] == figure and row["measured"]} for figure in FIGURES}
    return {figure: of_runs(those, len(trace.names)) for figure, those in runs.items()}


def quality(frames: Frames) -> DataFrame:
    """Return the table `quality`: a row for each check of a run, with the number of rows, messages or nodes found.

    Some checks, such as `not_due`, have no row if they find nothing; others have a row with 0.
    """
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
