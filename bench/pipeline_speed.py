"""Measure SQL questions about one run with Spark and with DuckDB, and the whole analysis, cold and warm.

`counts`: deliveries and copies of each message. `percentiles`: exact latency percentiles of each message. `traffic`:
sent and received parts and bytes of each node, by topic and kind. `mesh`: number of links in each second. Each
question reads the files again. Seconds are wall time, with CPU time in parentheses. A missing run is generated, with
3 GB of disk for each 100 million events.

    python bench/pipeline_speed.py [EVENTS] [ROUNDS]          # 50,000,000 and 3
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import duckdb

from hearsay.pipeline import Trace, read
from hearsay.pipeline.analyze import analyze
from hearsay.pipeline.output.folders import Folder
from hearsay.pipeline.run_facts import RunFacts, load_runs
from hearsay.pipeline.spark.session import spark_session
from hearsay.pipeline.spark.settings import Where, cores
from process_tree import cpu_seconds
from synthetic_trace import cached_run

PUBLISHED = "(select message, min(time_us) as since from {message} where event = 'publish' group by message)"
LATE = f"""select message, time_us - since as late from {{message}} join {PUBLISHED} p using (message)
    where event = 'deliver'"""
SENT = " union all ".join(
    f"select topic, kind, peer, remote, bytes, time_us, delay_us, event from {{{name}}}"
    for name in ("message", "rpc")
)
QUESTIONS = {
    "counts": """select message, sum(case when event = 'deliver' then 1 else 0 end) as delivered,
        sum(case when event = 'send_rpc' then 1 else 0 end) as copies from {message} group by message""",
    "percentiles": f"""select message, count(*) as deliveries, PERCENTILE(late, 0.5) as p50,
        PERCENTILE(late, 0.9) as p90, PERCENTILE(late, 0.99) as p99 from ({LATE}) l group by message""",
    "traffic": f"""select topic, node, kind, sum(parts_out), sum(bytes_out), sum(parts_in), sum(bytes_in) from (
        select topic, peer as node, kind, count(*) as parts_out, sum(bytes) as bytes_out, 0 as parts_in, 0 as bytes_in
        from ({SENT}) s where event = 'send_rpc' group by topic, peer, kind
        union all select topic, remote, kind, 0, 0, count(*), sum(bytes) from ({SENT}) r
        where event = 'send_rpc' and time_us + delay_us < END_US group by topic, remote, kind) b
        group by topic, node, kind""",
    "mesh": """select topic, s, sum(change) over (partition by topic order by s) as links from (
        select topic, floor(time_us / 1000000) as s, sum(case event when 'graft' then 1 else -1 end) as change
        from {mesh} where event in ('graft', 'prune') group by topic, floor(time_us / 1000000)) m""",
}


def spark_answers(trace: Trace, end_us: int) -> Callable[[str], None]:
    def answer(question: str) -> None:
        text = QUESTIONS[question].replace("PERCENTILE", "percentile").replace("END_US", str(end_us))
        trace.query(text).write.format("noop").mode("overwrite").save()

    return answer


def duckdb_answers(run: RunFacts) -> Callable[[str], None]:
    connection = duckdb.connect()
    connection.execute(f"set threads = {cores()}")
    for name in ("message", "rpc", "mesh"):
        connection.execute(
            f"create view {name} as select * from read_parquet('{run.path}/trace/class={name}/*.parquet')"
        )

    def answer(question: str) -> None:
        text = QUESTIONS[question].replace("PERCENTILE", "quantile_cont").replace("END_US", str(run.end_us))
        connection.sql(text.replace("{", "").replace("}", "")).to_arrow_table()

    return answer


def measure(work: Callable[[], None]) -> tuple[float, float]:
    cpu, start = cpu_seconds(os.getpid()), time.perf_counter()
    work()
    return time.perf_counter() - start, cpu_seconds(os.getpid()) - cpu


def compare(trace: Trace, run: RunFacts, rounds: int) -> None:
    tools = {"Spark": spark_answers(trace, run.end_us), "DuckDB": duckdb_answers(run)}
    print(f"{run.rows:,} events, {cores()} threads, first round and median of {rounds} more; wall s (CPU s)\n")
    print("| question | Spark, first | DuckDB, first | Spark | DuckDB | Spark / DuckDB, wall |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for question in QUESTIONS:
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in tools}
        for _ in range(rounds + 1):
            for name, answer in tools.items():
                taken[name].append(measure(partial(answer, question)))
        first = [figures[0] for figures in taken.values()]
        later = [tuple(median(part) for part in zip(*figures[1:], strict=True)) for figures in taken.values()]
        cells = " | ".join(f"{wall:.2f} ({cpu:.1f})" for wall, cpu in (*first, *later))
        print(f"| {question} | {cells} | {later[0][0] / max(later[1][0], 0.01):.2f} |", flush=True)


def main(events: int = 50_000_000, rounds: int = 3) -> None:
    folder = cached_run(events)
    (run,) = load_runs([folder])
    with (
        tempfile.TemporaryDirectory() as out,
        spark_session(Where(), run.rows, lambda line: print(line, flush=True)) as session,
    ):
        for state in ("cold", "warm"):
            wall, cpu = measure(partial(analyze, session, [run], {run.name: Folder(Path(out))}, lambda _: None))
            each = wall / run.rows * 1e6
            print(f"the whole analysis, {state}: {wall:.1f} s ({cpu:.1f} CPU s), {each:.3f} µs an event", flush=True)
        compare(read(session, [folder]), run, rounds)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
