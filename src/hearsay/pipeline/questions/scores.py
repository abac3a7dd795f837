"""The scores that nodes give their peers: quantiles over time, and the peers with the lowest scores at the end."""

from __future__ import annotations

from pyspark.sql import DataFrame

from hearsay.pipeline.rows import Frames

WORST_PEERS = 20
_QUANTILES = {"lowest": 0, "p5": 5, "median": 50, "p95": 95, "highest": 100}
_BOUNDS = {
    "zero": "0D",
    "gossip": "gossip_threshold",
    "publish": "publish_threshold",
    "graylist": "graylist_threshold",
}
_SIGN = "if(bytes < 0, -1D, 1D)"
_EXPONENT = "(shiftright(bytes, 52) & 2047)"
_FRACTION = "(bytes & 4503599627370495)"
_VALUE = f"""case when {_EXPONENT} = 0 then {_SIGN} * {_FRACTION} * pow(2D, -1074D)
    when {_EXPONENT} = 2047 then if({_FRACTION} = 0, {_SIGN} * double('infinity'), double('nan'))
    else {_SIGN} * (1D + {_FRACTION} / 4503599627370496D) * pow(2D, {_EXPONENT} - 1023D) end"""
"""SQL for the value of a score row: its `bytes` are the bits of a double (docs/reference/trace.md)."""


def _rank(percent: int) -> str:
    """Return SQL for a quantile, linearly interpolated, of the sorted array `values` together with `zeros` zeros."""
    size = "(size(values) + zeros)"
    position = f"(({size} - 1) * {percent})"
    below, above = (_at(f"({position} div 100)"), _at(f"least({position} div 100 + 1, {size} - 1)"))
    return f"{below} + ({above} - {below}) * ({position} % 100) / 100D"


def _at(place: str) -> str:
    return (
        f"case when {place} < negatives then get(values, cast({place} as int)) "
        f"when {place} < negatives + zeros then 0D else get(values, cast({place} - zeros as int)) end"
    )


def scores(frames: Frames) -> DataFrame:
    """Return the table `scores`. The trace has no row for a part of a score that is 0, so missing rows count as 0."""
    quantiles = ", ".join(f"{_rank(percent)} as {name}" for name, percent in _QUANTILES.items())
    shares = ", ".join(
        f"if(event = 'score', size(filter(values, value -> value < {bound})) / size(values), null) as below_{name}"
        for name, bound in _BOUNDS.items()
    )
    return frames.query(f"""
        with parts as (
          select run, topic, event, time_us, sort_array(collect_list({_VALUE})) as values
          from {{score}} group by run, topic, event, time_us),
        paired as (
          select p.*, coalesce(size(t.values), 0) as pairs,
                 greatest(coalesce(size(t.values), 0) - size(p.values), 0) as zeros,
                 size(filter(p.values, value -> value < 0)) as negatives
          from parts p left join parts t on p.run = t.run and p.time_us = t.time_us and t.event = 'score')
        select run, topic, if(startswith(event, 'score_'), substring(event, 7), event) as part, time_us, pairs,
               {quantiles}, {shares}
        from paired join {{runs}} using (run)""")


def worst_peers(frames: Frames) -> DataFrame:
    """Return the table `worst_peers`: the `WORST_PEERS` peers with the lowest medians at the last sampled time."""
    return frames.query(f"""
        with ends as (select run, max(time_us) as time_us from {{score}} group by run),
        given as (
          select s.run, s.time_us, s.remote as peer, sort_array(collect_list({_VALUE})) as values
          from {{score}} s left semi join ends e on s.run = e.run and s.time_us = e.time_us
          where event = 'score' group by s.run, s.time_us, s.remote),
        medians as (
          select *, (get(values, (size(values) - 1) div 2) + get(values, size(values) div 2)) / 2D as median
          from given),
        ranked as (select *, row_number() over (partition by run order by median, peer) as rank from medians)
        select run, time_us, peer, size(values) as observers, median, get(values, 0) as lowest,
               size(filter(values, value -> value < 0)) as below_zero_by,
               if(graylist_threshold is null, null, size(filter(values, value -> value < graylist_threshold)))
                 as graylisted_by
        from ranked join {{runs}} using (run) where rank <= {WORST_PEERS}""")
