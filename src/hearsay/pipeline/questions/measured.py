"""The figures that can be computed from the trace of a run, and for other figures the reasons why not."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame

from hearsay.pipeline.rows import Frames, Known, Trace, of_runs

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


def measured(frames: Frames) -> DataFrame:
    """Return the table `measured`: for each run and figure, True if the figure is known, and otherwise the reason."""
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


def known(trace: Trace, measured: Any) -> Known:
    """Return by figure the SQL condition that the figure is known in the run of a row."""
    rows = measured.to_pylist()
    runs = {figure: {row["run"] for row in rows if row["figure"] == figure and row["measured"]} for figure in FIGURES}
    return {figure: of_runs(those, len(trace.names)) for figure, those in runs.items()}
