"""Latencies of deliveries away, by topic: their distribution, and exact percentiles.

No task has all latencies in its memory. Latencies are rounded to buckets, and the deliveries of each bucket are
counted. These counts show which buckets contain the percentiles. Only in these few buckets are the deliveries of each
exact latency counted.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from hearsay.metrics import LATENCY_PERCENTS
from hearsay.pipeline.rows import Frames

_STEP = "case when latency_us < 0 or latency_us >= 100000 then 1000 when latency_us < 1000 then 1 \
when latency_us < 10000 then 10 else 100 end"
_PERCENTS = {f"latency_{key}_ms": percent for key, percent in LATENCY_PERCENTS.items()}


def latency(frames: Frames) -> DataFrame:
    """Return the table `latency`: the number of deliveries away by rounded latency and by hops."""
    return frames.query(f"""
        with deliveries as (
          select run, topic, one.latencies as latency_us, one.hops as hops
          from (select run, topic, explode(arrays_zip(latencies, hops)) as one from {{taken}})),
        rounded as (
          select run, topic, hops, cast(floor(latency_us / step) as bigint) * step as latency_us
          from (select *, {_STEP} as step from deliveries)),
        counted as (
          select {{run}} as run, topic, latency_us, hops, count(*) as deliveries
          from rounded group by {{run}}, topic, latency_us, hops)
        select run, topic, cast(floor(latency_us / 1000) as bigint) as latency_ms, latency_us,
               nullif(hops, -1) as hops, deliveries from counted""")


def percentiles(frames: Frames) -> DataFrame:
    """Return the percentiles of the latencies of each topic's deliveries away, in milliseconds.

    They are interpolated linearly between neighbouring latencies and rounded to the microsecond.
    """
    wanted = ", ".join(f"struct('{name}' as name, {percent}L as percent)" for name, percent in _PERCENTS.items())
    columns = ", ".join(f"max(if(name = '{name}', value, null)) as {name}" for name in _PERCENTS)
    return frames.query(f"""
        with buckets as (
          select run, topic, latency_us as bucket, sum(deliveries) as deliveries
          from {{latency}} group by run, topic, latency_us),
        ranked as (
          select *, sum(deliveries) over (partition by run, topic order by bucket) - deliveries as before
          from buckets),
        totals as (select run, topic, sum(deliveries) as total from buckets group by run, topic),
        ranks as (
          select run, topic, w.name, (total - 1) * w.percent % 100 as rest,
                 (total - 1) * w.percent div 100 as low, least((total - 1) * w.percent div 100 + 1, total - 1) as high
          from (select *, explode(array({wanted})) as w from totals)),
        chosen as (
          select distinct b.run, b.topic, b.bucket, b.before from ranked b join ranks r
            on b.run = r.run and b.topic <=> r.topic
               and ((b.before <= r.low and r.low < b.before + b.deliveries)
                    or (b.before <= r.high and r.high < b.before + b.deliveries))),
        exact as (
          select d.run, d.topic, d.latency_us, c.before as bucket_before, c.bucket, count(*) as deliveries
          from (select *, cast(floor(latency_us / ({_STEP})) as bigint) * ({_STEP}) as bucket
                from (select run, topic, explode(latencies) as latency_us from {{taken}})) d
          join chosen c on d.run = c.run and d.topic <=> c.topic and d.bucket = c.bucket
          group by d.run, d.topic, d.latency_us, c.before, c.bucket),
        placed as (
          select *, bucket_before - deliveries + sum(deliveries) over (
                      partition by run, topic, bucket order by latency_us) as before from exact),
        found as (
          select r.run, r.topic, r.name, r.rest,
                 max(if(p.before <= r.low and r.low < p.before + p.deliveries, p.latency_us, null)) as below,
                 max(if(p.before <= r.high and r.high < p.before + p.deliveries, p.latency_us, null)) as above
          from ranks r join placed p on r.run = p.run and r.topic <=> p.topic
          group by r.run, r.topic, r.name, r.rest),
        valued as (
          select run, topic, name,
                 round((below * 100 + (above - below) * rest) / cast(100 as decimal(3)), 0) / 1000D as value
          from found)
        select run, topic, {columns} from valued group by run, topic""")
