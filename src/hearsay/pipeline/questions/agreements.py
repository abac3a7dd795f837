"""Parts of RPCs that were dropped or refused, and the effects of IWANT and IDONTWANT, by stretch of the run."""

from __future__ import annotations

from pyspark.sql import DataFrame

from hearsay.pipeline.questions.messages import ARRIVES
from hearsay.pipeline.rows import Frames

_COLUMNS = "run, run_start_us, run_end_us, stretch_s, event, kind, via, reason, bytes, count, delay_us, time_us"


def parts(frames: Frames) -> DataFrame:
    """Return sums over parts of RPCs: all dropped and refused parts, all IWANT, IDONTWANT and PRUNE parts, and copies
    that answer an IWANT.

    A row has the sums for one stretch (`second`, `seconds`), fate (sent, arrived, dropped, refused), kind, via and
    reason. A part can have several fates: it is sent in the stretch of its send, and arrives in the stretch of its
    arrival. In a simulation a part that is lost on its way counts both as arrived and as dropped, so tables of parts
    that arrived subtract those dropped with reason `lost` or `unreachable`.
    """
    rows = " union all ".join(
        f"""select {_COLUMNS} from {{{name}}} where event in ('drop_rpc', 'reject') or {about}"""
        for name, about in (("message", "via = 'iwant' and event <> 'deliver'"),
                            ("rpc", "kind in ('iwant', 'idontwant', 'prune')"))
    )  # fmt: skip
    return frames.query(f"""
        with fates as (
          select *, explode(case when {ARRIVES} then array('sent', 'arrived')
                                 else array(case event when 'send_rpc' then 'sent' when 'recv_rpc' then 'arrived'
                                                       when 'drop_rpc' then 'dropped' else 'refused' end) end) as fate
          from ({rows})),
        placed as (
          select *, if(fate = 'arrived' and event = 'send_rpc', time_us + delay_us, time_us) as at from fates)
        select {{run}} as run, (at - run_start_us) div (stretch_s * 1000000) * stretch_s as second,
               stretch_s as seconds, fate, kind, via, reason, count(*) as rows,
               sum(greatest(coalesce(count, 0), 0)) as count, sum(greatest(coalesce(bytes, 0), 0)) as bytes
        from placed group by {{run}}, 2, stretch_s, fate, kind, via, reason""")


def refusals(frames: Frames) -> DataFrame:
    """Return the table `refusals`: parts that were dropped before they arrived, or refused by their receivers."""
    return frames.query("""
        select run, second, seconds, fate, kind, reason, sum(rows) as rows, sum(count) as count,
               if(fate = 'refused', null, sum(bytes)) as bytes
        from {parts} where fate in ('dropped', 'refused') group by run, second, seconds, fate, kind, reason""")


def promises(frames: Frames) -> DataFrame:
    """Return the table `promises`: messages requested by IWANT, answers and broken promises, by stretch.

    For real nodes `answered` is null, because a node cannot record why its peer sent a copy.
    """
    return frames.query("""
        with sums as (
          select run, second, seconds,
                 sum(if(fate = 'sent' and kind = 'iwant', rows, null)) as requests,
                 sum(if(fate = 'sent' and kind = 'iwant', count, null)) as asked,
                 sum(case when via <=> 'iwant' and fate = 'arrived' then rows
                          when via <=> 'iwant' and fate = 'dropped' and reason in ('lost', 'unreachable') then -rows
                     end) as answered,
                 sum(if(fate = 'refused' and kind = 'ihave' and reason = 'given_up', count, null)) as broken
          from {parts} group by run, second, seconds)
        select run, second, seconds, coalesce(requests, 0) as requests, coalesce(asked, 0) as asked,
               if(simulated, coalesce(answered, 0), null) as answered, coalesce(broken, 0) as broken
        from sums join {runs} using (run) where coalesce(requests, answered, broken) is not null""")


def idontwant(frames: Frames) -> DataFrame:
    """Return the table `idontwant`: ids in IDONTWANTs, and copies that were not sent because of them, by stretch."""
    figures = {
        "told": "if(fate = 'sent' and kind = 'idontwant', count, null)",
        "arrived": "case when kind = 'idontwant' and fate = 'arrived' then count when kind = 'idontwant' "
        "and fate = 'dropped' and reason in ('lost', 'unreachable') then -count end",
        "refused": "if(fate = 'refused' and kind = 'idontwant', count, null)",
        "withheld": "if(fate = 'dropped' and kind = 'publish' and reason = 'unwanted', rows, null)",
        "withheld_bytes": "if(fate = 'dropped' and kind = 'publish' and reason = 'unwanted', bytes, null)",
        "withdrawn": "if(fate = 'dropped' and kind = 'publish' and reason = 'withdrawn', rows, null)",
        "withdrawn_bytes": "if(fate = 'dropped' and kind = 'publish' and reason = 'withdrawn', bytes, null)",
    }
    sums = ", ".join(f"sum({figure}) as {name}" for name, figure in figures.items())
    known = ", ".join(f"coalesce({name}, 0) as {name}" for name in figures)
    return frames.query(f"""
        select run, second, seconds, {known}
        from (select run, second, seconds, {sums} from {{parts}} group by run, second, seconds)
        where coalesce({", ".join(figures)}) is not null""")
