"""The pipeline on Spark next to DuckDB and Polars: the same questions about the same run folder, in turn, in one run.

Questions: counts of every message; exact percentiles of every message; traffic of every node by kind; the mesh over
time; and all of them with the rest of what the pipeline's scan says (Polars: without the rest). Spark's tasks answer
by loops over whole files, as those of the pipeline do (`pipeline.metrics.whole_files`). The mesh has few rows: it is
asked for as the pipeline asks for such work, which the driver does itself below two million rows.
Every tool has the same number of threads and is warm; the answers go nowhere. The table has seconds and seconds of
CPU, of all processes of a tool, since a busy machine stretches the first more than the second.

    python bench/pipeline_speed.py [EVENTS] [ROUNDS]          # 50,000,000 and 3
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

from hearsay.pipeline.analyze import analyze
from hearsay.pipeline.input.run_facts import RunFacts, load_runs
from hearsay.pipeline.kernels.columns import row_groups, whole_messages
from hearsay.pipeline.kernels.partial_sums import grouped, message_traffic, traffic_of
from hearsay.pipeline.kernels.sorted_values import SortedValues
from hearsay.pipeline.kernels.sums import first_publishes, starts_of
from hearsay.pipeline.large_runs import added_up
from hearsay.pipeline.metrics import whole_files
from hearsay.pipeline.scan import scan_files
from hearsay.pipeline.spark.place import Where, cores
from hearsay.pipeline.spark.session import spark_session
from hearsay.pipeline.spark.task_lists import made_by_tasks, map_batches
from hearsay.trace.language.schema import Column, TraceEvent
from process_tree import cpu_seconds
from synthetic_trace import write_run

SIZE = int(sys.argv[1]) if len(sys.argv) > 1 else 50_000_000
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 3
RPC_COLUMNS = whole_files.RPC_COLUMNS
MESSAGE_COLUMNS = (*(column for column in RPC_COLUMNS if column not in (Column.KIND, Column.COUNT)), Column.MESSAGE)
LATENCY_COLUMNS = (Column.TIME_US, Column.EVENT, Column.MESSAGE)
MESH_COLUMNS = (Column.TIME_US, Column.EVENT, Column.TOPIC)
DELIVER, SEND = TraceEvent.DELIVER, TraceEvent.SEND_RPC
QUESTIONS = ("counts", "percentiles", "traffic", "mesh", "all")

MORE = {
    "delivered": """select message, sum(hops), max(hops), count(*) filter (via = 'iwant')
        from message where event = 'deliver' group by message""",
    "of topics": """select topic, quantile_cont(late, [0.5, 0.9, 0.99]), max(late) from late group by topic""",
    "by hops": """select topic, late // 1000 ms, hops, count(*) from late group by all""",
    "repeated": """select count(*) - count(distinct (message, peer)) from message where event = 'deliver'""",
    "drops": """select reason, count(*) from sent where event = 'drop_rpc' group by reason""",
}
"""Results of the pipeline's scan beyond the four questions, as far as SQL gives them easily (no eligibility)."""
LATE = """create view late as select topic, hops, time_us - p_us late
    from message join (select message, min(time_us) p_us from message where event = 'publish' group by 1)
    using (message) where event = 'deliver'"""
COUNTS = """select message, count(*) filter (event = 'deliver') delivered, count(*) filter (event = 'send_rpc') copies
    from message group by message"""
PERCENTILES = """select message, count(*) deliveries, quantile_cont(time_us - p_us, [0.5, 0.9, 0.99]) p
    from message join (select message, min(time_us) p_us from message where event = 'publish' group by 1)
    using (message) where event = 'deliver' group by message"""
TRAFFIC = """select topic, node, kind, sum(parts_out), sum(bytes_out), sum(parts_in), sum(bytes_in) from (
    select topic, peer node, kind, count(*) parts_out, sum(bytes) bytes_out, 0 parts_in, 0 bytes_in
        from sent where event = 'send_rpc' group by all
    union all select topic, remote, kind, 0, 0, count(*), sum(bytes) from sent
        where event = 'send_rpc' and time_us + delay_us < {end} group by all) group by all"""
MESH = """select topic, s, sum(change) over (partition by topic order by s) links from (
    select topic, time_us // 1000000 s, sum(case event when 'graft' then 1 else -1 end) change
    from mesh where event in ('graft', 'prune') group by all)"""


class Duck:
    def __init__(self, run: RunFacts) -> None:
        self.connection = duckdb.connect()
        self.connection.execute(f"set threads = {cores()}")
        for name in ("message", "rpc", "mesh"):
            files = f"{run.path}/trace/class={name}/*.parquet"
            self.connection.execute(f"create view {name} as select * from read_parquet('{files}')")
        self.connection.execute("create view sent as select * from message union all select * from rpc")
        self.connection.execute(LATE)
        self.end = run.end_us

    def answer(self, question: str) -> None:
        queries = {"counts": COUNTS, "percentiles": PERCENTILES, "traffic": TRAFFIC, "mesh": MESH}
        everything = {**queries, **MORE}
        for name in everything if question == "all" else (question,):
            self.connection.sql(everything[name].format(end=self.end)).to_arrow_table()


class Polars:
    def __init__(self, run: RunFacts) -> None:
        self.frames = {
            name: pl.scan_parquet(f"{run.path}/trace/class={name}/*.parquet") for name in ("message", "rpc", "mesh")
        }
        self.end = run.end_us

    def answer(self, question: str) -> None:
        names = QUESTIONS[:-1] if question == "all" else (question,)
        pl.collect_all([getattr(self, name)() for name in names])

    def counts(self) -> Any:
        return self.frames["message"].group_by("message").agg(
            (pl.col("event") == "deliver").sum().alias("delivered"),
            (pl.col("event") == "send_rpc").sum().alias("copies"),
        )  # fmt: skip

    def percentiles(self) -> Any:
        rows = self.frames["message"]
        published = (
            rows.filter(pl.col("event") == "publish").group_by("message").agg(pl.col("time_us").min().alias("p"))
        )
        measured = rows.filter(pl.col("event") == "deliver").join(published, on="message")
        late = (pl.col("time_us") - pl.col("p")).alias("late")
        return measured.select("message", late).group_by("message").agg(
            pl.len(), *(pl.col("late").quantile(q, "linear").alias(str(q)) for q in (0.5, 0.9, 0.99))
        )  # fmt: skip

    def traffic(self) -> Any:
        wanted = ("topic", "kind", "peer", "remote", "bytes", "time_us", "delay_us", "event")
        rows = pl.concat([self.frames[name].select(*wanted) for name in ("message", "rpc")])
        sent = rows.filter(pl.col("event") == "send_rpc")
        out = sent.group_by("topic", "peer", "kind").agg(pl.len().alias("parts"), pl.col("bytes").sum())
        arrived = sent.filter(pl.col("time_us") + pl.col("delay_us") < self.end)
        came = arrived.group_by("topic", "remote", "kind").agg(pl.len().alias("n"), pl.col("bytes").sum().alias("in"))
        return out.join(
            came,
            left_on=("topic", "peer", "kind"),
            right_on=("topic", "remote", "kind"),
            how="full",
            nulls_equal=True,
        )

    def mesh(self) -> Any:
        changes = self.frames["mesh"].filter(pl.col("event").is_in(["graft", "prune"]))
        change = pl.when(pl.col("event") == "graft").then(1).otherwise(-1).sum().alias("change")
        summed = changes.group_by("topic", (pl.col("time_us") // 1_000_000).alias("s")).agg(change)
        return summed.sort("s").with_columns(pl.col("change").cum_sum().over("topic"))


class Spark:
    def __init__(self, session: Any, run: RunFacts, memberships: Path) -> None:
        self.session, self.run = session, run
        self.memberships = {run.name: str(memberships)}

    def answer(self, question: str) -> None:
        getattr(self, question)()

    def counts(self) -> None:
        paths = [str(self.run.path / file.name) for file in self.run.files("message")]

        def work(batches: Iterator[Any]) -> Iterator[Any]:
            for path in _chosen(batches, paths):
                for rows in whole_messages(path, (Column.EVENT, Column.MESSAGE)):
                    yield _message_counts(rows)

        tasks = self.session.range(0, len(paths), 1, len(paths))
        _nowhere(map_batches(tasks, work, "message bigint, delivered bigint, copies bigint"))

    def mesh(self) -> None:
        paths = [str(self.run.path / file.name) for file in self.run.files("mesh")]

        def work(number: int) -> Iterator[bytes]:
            for rows in row_groups(paths[number], MESH_COLUMNS):
                yield _mesh_changes(rows).tobytes()

        rows = sum(file.rows for file in self.run.files("mesh"))
        found = made_by_tasks(self.session, len(paths), work, rows)
        changes = [np.frombuffer(made, dtype=np.int64) for made in found]
        topics, seconds, change = np.concatenate(changes).reshape(-1, 3).T
        summed = grouped([topics, seconds], [change])
        for topic in np.unique(summed.keys[:, 0]):
            np.cumsum(summed.values[summed.keys[:, 0] == topic])

    def percentiles(self) -> None:
        paths = [str(self.run.path / file.name) for file in self.run.files("message")]

        def work(batches: Iterator[Any]) -> Iterator[Any]:
            for path in _chosen(batches, paths):
                for rows in whole_messages(path, LATENCY_COLUMNS):
                    yield _message_latencies(rows)

        tasks = self.session.range(0, len(paths), 1, len(paths))
        _nowhere(map_batches(tasks, work, "message bigint, deliveries bigint, p50 double, p90 double, p99 double"))

    def traffic(self) -> None:
        parts = [
            (trace_class, str(self.run.path / file.name))
            for trace_class in ("message", "rpc")
            for file in self.run.files(trace_class)
        ]
        end_us = self.run.end_us

        def work(batches: Iterator[Any]) -> Iterator[Any]:
            for trace_class, path in _chosen(batches, parts):
                adds = traffic_of if trace_class == "rpc" else message_traffic
                for rows in row_groups(path, RPC_COLUMNS if trace_class == "rpc" else MESSAGE_COLUMNS):
                    sums = adds(rows, end_us)
                    columns = [*sums.keys.T, *sums.values.T]
                    yield pa.RecordBatch.from_arrays([pa.array(column) for column in columns], names=names)

        names = ["topic", "node", "kind", "a", "b", "c", "d", "e", "f"]
        tasks = self.session.range(0, len(parts), 1, len(parts))
        sums = map_batches(tasks, work, ", ".join(f"{name} bigint" for name in names))
        _nowhere(sums.groupBy("topic", "node", "kind").sum(*names[3:]))

    def all(self) -> None:
        """One scan as in `hearsay analyze`."""
        with tempfile.TemporaryDirectory() as folder:
            scratch = Path(folder)
            said = scan_files(self.session, [self.run], self.memberships, scratch)
            added_up(self.session, [self.run], said.parts, scratch)
        self.mesh()


def _nowhere(frame: Any) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _chosen(batches: Iterator[Any], things: list[Any]) -> Iterator[Any]:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield things[number]


def _mesh_changes(rows: dict[Column, Any]) -> Any:
    """(topic, second, change) of the links of the mesh."""
    events = rows[Column.EVENT]
    changes = (events == TraceEvent.GRAFT).astype(np.int64) - (events == TraceEvent.PRUNE)
    mine = changes != 0
    summed = grouped([rows[Column.TOPIC][mine], rows[Column.TIME_US][mine] // 1_000_000], [changes[mine]])
    return np.concatenate([summed.keys, summed.values], 1)


def _message_counts(rows: dict[Column, Any]) -> Any:
    messages, events = rows[Column.MESSAGE], rows[Column.EVENT]
    starts = starts_of(messages, messages)
    counted = (np.add.reduceat(events == event, starts, dtype=np.int64) for event in (DELIVER, SEND))
    columns = [pa.array(column) for column in (messages[starts], *counted)]
    return pa.RecordBatch.from_arrays(columns, names=["message", "delivered", "copies"])


def _message_latencies(rows: dict[Column, Any]) -> Any:
    messages, events, times = rows[Column.MESSAGE], rows[Column.EVENT], rows[Column.TIME_US]
    starts = starts_of(messages, messages)
    published = times[first_publishes(np.append(starts, len(messages)), events)]
    delivered = np.flatnonzero(events == DELIVER)
    owner = np.searchsorted(starts, delivered, side="right") - 1
    latencies = SortedValues(owner, times[delivered] - published[owner], len(starts))
    percentiles = (latencies.percentile_x100(percent) / 100 for percent in (50, 90, 99))
    columns = [pa.array(column) for column in (messages[starts], latencies.sizes, *percentiles)]
    return pa.RecordBatch.from_arrays(columns, names=["message", "deliveries", "p50", "p90", "p99"])


def measure(answer: Callable[[str], None], question: str) -> tuple[float, float]:
    cpu, start = cpu_seconds(os.getpid()), time.perf_counter()
    answer(question)
    return time.perf_counter() - start, cpu_seconds(os.getpid()) - cpu


def compare(session: Any, run: RunFacts, memberships: Path) -> None:
    tools = {"Spark": Spark(session, run, memberships), "DuckDB": Duck(run), "Polars": Polars(run)}
    print(f"{run.rows:,} events, {cores()} threads, median of {ROUNDS} warm rounds; wall s (CPU s)\n")
    print("| question | Spark | DuckDB | Polars | Spark / DuckDB, wall | CPU |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for question in QUESTIONS:
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in tools}
        for number in range(ROUNDS + 1):
            for name, tool in tools.items():
                figures = measure(tool.answer, question)
                if number:
                    taken[name].append(figures)
        middle = {name: tuple(median(part) for part in zip(*figures, strict=True)) for name, figures in taken.items()}
        cells = " | ".join(f"{wall:.2f} ({cpu:.1f})" for wall, cpu in middle.values())
        wall, cpu = (ours / max(theirs, 0.01) for ours, theirs in zip(middle["Spark"], middle["DuckDB"], strict=True))
        print(f"| {question} | {cells} | {wall:.2f} | {cpu:.2f} |", flush=True)


def main() -> None:
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "hearsay" / "bench"
    folder = cache / f"synthetic-{SIZE}"
    if not (folder / "manifest.json").exists():
        print(f"making {SIZE:,} events in {folder}", flush=True)
        write_run(folder, SIZE)
    (run,) = load_runs([folder])
    with (
        tempfile.TemporaryDirectory() as out,
        spark_session(Where(), SIZE, lambda line: print(line, flush=True)) as session,
    ):
        start = time.perf_counter()
        analyze(session, [run], {run.name: Path(out)}, lambda _: None)
        print(f"\nthe whole analysis, all tables, cold: {time.perf_counter() - start:.1f} s", flush=True)
        start = time.perf_counter()
        analyze(session, [run], {run.name: Path(out)}, lambda _: None)
        warm = time.perf_counter() - start
        print(f"warm: {warm:.1f} s, {warm / run.rows * 1e6:.3f} µs an event\n", flush=True)
        compare(session, run, Path(out) / "metrics" / "memberships")


if __name__ == "__main__":
    main()
