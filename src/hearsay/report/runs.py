"""Analysed runs: their result tables, read on demand, and metrics of all topics of a run together.

Rules:

* `hearsay.pipeline.output.tables` defines the tables. A missing column or an unreadable file is an error with the
  path. A missing table has no rows, and the page gives the reason in place of a chart.
* A view is a run with one of its topics, or with all of its topics together. Topics of different runs with the same
  name are the same topic.
* For all topics together, counts and bytes are sums, ratios are ratios of sums, and percentiles are over all
  deliveries. A metric that no table has for all topics together is None.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hearsay.foreign_files import MAX_TOML_BYTES, read_bytes
from hearsay.metrics import LATENCY_PERCENTS
from hearsay.pipeline.output.tables import METRICS_FOLDER, TABLES, arrow_schema, stored_files
from hearsay.pipeline.run_facts import SCRIPT_ROLE, scenario_of, summary_of
from hearsay.report import palette
from hearsay.report.html import ReportError
from hearsay.studies.settings import settings_of
from hearsay.trace.compare_runs import size_problems
from hearsay.trace.folder.arrow import DAMAGED, pa
from hearsay.trace.folder.arrow_compute import compute, plain, read_plain
from hearsay.trace.folder.foreign_parquet import open_foreign
from hearsay.trace.folder.manifest import MANIFEST, load_manifest
from hearsay.trace.folder.run_folder import DICTIONARIES

MAX_TOPICS = 6
MAX_VIEWS = 36
"""Maximum views of single topics, so that a report is below 5 MB. With more runs, a page has fewer topics, but at
least one.
"""
SCENARIO = "scenario.toml"
PAYLOAD = "publish"
"""The kind of an RPC part that is a message."""
US_PER_S = 1_000_000

Row = Mapping[str, Any]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class View:
    """A topic of a run, or all topics of a run together: the subject of a line in a chart."""

    run: int
    """Index of the run in `Selection.runs`."""
    place: int
    """Index of the topic in `Selection.topics`."""
    topic: int | None
    """Number of the topic in the run; None for all topics together."""
    headline: Row
    """The row of the table `headline` about the topic; for all topics together, the row of `all_topics`."""
    nodes: int | None
    """Number of the topic's nodes (see `Run.nodes_of`) or, for all topics, of the run's nodes; None if unknown."""
    is_only_topic: bool
    """True if the topic is the only one of the run."""

    def rows(self, table: Any) -> Any:
        """Return the rows of a result table that are about the topic; for all topics together, all rows."""
        if self.topic is None:
            return table
        return table.filter(compute.equal(table.column("topic"), self.topic))

    def rows_and_those_without_topic(self, table: Any) -> Any:
        """Return the rows of a result table that are about the topic. If the run has no other topic, include rows
        without a topic (IWANT, connections).
        """
        if self.topic is None or not self.is_only_topic:
            return self.rows(table)
        return table.filter(compute.equal(compute.fill_null(table.column("topic"), self.topic), self.topic))


@dataclass
class Run:
    """A run of the report."""

    folder: Path
    label: str
    """Name of the run; unique in the report."""
    headlines: list[Row]
    """The rows of the table `headline`, one for each topic."""
    views: list[View] = field(default_factory=list[View])

    @property
    def topic_views(self) -> list[View]:
        """Return the views of single topics, for charts of one mesh or one message."""
        return [view for view in self.views if view.topic is not None]

    def read(self, table: str, *columns: str) -> Any:
        """Return these columns of a result table, by default all, as an Arrow table. A missing table has no rows."""
        return _read(self.folder, table, columns or TABLES[table].names)

    def nodes_of(self, headline: Row) -> int | None:
        """Return the number of a topic's nodes, from the table `balance`.

        If the table has no row of the topic, return the number of nodes of the run; None if it is unknown.
        """
        return self._balanced.get(headline["topic"]) or headline["nodes"]

    def why_unmeasured(self, figure: str) -> str | None:
        """Return the reason in the table `measured` why a figure was not measured; None if it was measured, or if the
        table does not have it.
        """
        return self._unmeasured.get(figure)

    @property
    def of_real_nodes(self) -> bool:
        """Return True if any figure was not measured (`why_unmeasured`). This is so only in runs of real nodes."""
        return bool(self._unmeasured)

    def without_scripts(self, table: Any) -> Any:
        """Return the rows of a table by node without those of scripts, which inject messages and are not nodes."""
        return table.filter(compute.invert(compute.is_in(table.column("node"), self._scripts)))

    def is_script(self, node: int | None) -> bool:
        """Return True if this is the number of a script that injects messages."""
        return node in self._scripts.to_pylist()

    @cached_property
    def settings(self) -> dict[str, object] | None:
        """Return the settings of the resolved scenario; None if the folder has no readable scenario."""
        try:
            return settings_of(read_bytes(self.folder / SCENARIO, MAX_TOML_BYTES).decode())
        except (OSError, ValueError):
            return None

    def setting(self, key: str) -> float | None:
        """Return a numeric setting; None if the setting is missing or is not a number."""
        value = (self.settings or {}).get(key)
        return float(value) if isinstance(value, int | float | Decimal) and not isinstance(value, bool) else None

    @cached_property
    def summary(self) -> dict[str, Any]:
        """Return the summary that the engine wrote; an empty dictionary if there is none."""
        return summary_of(self.folder)

    @cached_property
    def damaged_files(self) -> list[str]:
        """Return a line for each trace file that is missing, or whose size differs from the manifest. Return an empty
        list if the folder has no trace files, as after `analyze --out`.
        """
        if not (self.folder / MANIFEST).exists():
            return []
        manifest = load_manifest(self.folder)
        is_there = any((self.folder / file.name).exists() for file in manifest.trace.files)
        return size_problems(self.folder, manifest) if is_there else []

    @cached_property
    def _balanced(self) -> dict[int | None, int]:
        return {row["topic"]: row["nodes"] for row in self.read("balance", "topic", "nodes").to_pylist()}

    @cached_property
    def _unmeasured(self) -> dict[str, str]:
        return {row["figure"]: row["reason"] for row in self.read("measured").to_pylist() if not row["measured"]}

    @cached_property
    def _scripts(self) -> Any:
        path = self.folder / DICTIONARIES / "peers.parquet"
        if not path.is_file():
            return pa.array([], pa.int32())
        with _reading(path):
            table = read_plain(path, ("peer", "role"))
            return table.filter(compute.equal(table.column("role"), SCRIPT_ROLE)).column("peer").combine_chunks()

    @cached_property
    def start_us(self) -> int:
        """Return the time at which the run starts: 0 in a simulation, the time of the first row for real nodes."""
        starts = [row["start_us"] for row in self.headlines if row["start_us"] is not None]
        return int(min(starts, default=0))


@dataclass(frozen=True)
class Selection:
    """The runs of a report with their views, and the topics to choose from."""

    runs: Sequence[Run]
    topics: Sequence[str]
    """Names of the topics. If there are several topics, the first entry is `ALL_TOPICS`, for all of them together."""
    left_out: int
    """Number of topics without views: only the table of all metrics has them."""

    @cached_property
    def routers(self) -> list[str | None]:
        """Return the name of each run's router; None if unknown."""
        return [run.headlines[0]["router"] if run.headlines else None for run in self.runs]

    @cached_property
    def colours(self) -> list[int]:
        """Return the number of each run's colour and mark, by its router (see `palette.numbers_of`)."""
        return palette.numbers_of(self.routers)

    def colour(self, run: int) -> int:
        """Return the number of a run's colour; runs with the same colour have different marks."""
        return self.colours[run] % palette.COUNT

    @property
    def has_all_topics(self) -> bool:
        """Return True if the first entry of `topics` is `ALL_TOPICS`."""
        return len(self.topics) > 1


def open_runs(folders: Sequence[Path]) -> Selection:
    """Open runs with their views: of the topics with the lowest delivery ratios and, if there are several topics, of
    all topics together. Raise `ReportError` if a run has not been analysed or cannot be read.
    """
    runs = [_open_run(folder) for folder in folders]
    _make_labels_unique(runs)
    in_order = worst_first(runs)
    topics = in_order[: max(1, min(MAX_TOPICS, MAX_VIEWS // len(runs)))]
    left_out = len(in_order) - len(topics)
    if len(in_order) > 1:
        topics = [ALL_TOPICS, *topics]
    for index, run in enumerate(runs):
        if len(topics) > 1 and run.headlines:
            overall = all_topics(run)
            run.views.append(View(index, 0, None, overall, overall["nodes"], False))
        run.views += [
            View(index, place, row["topic"], row, run.nodes_of(row), len(run.headlines) == 1)
            for place, topic in enumerate(topics)
            for row in run.headlines
            if topic_name(row) == topic and not (place == 0 and len(topics) > 1)
        ]
    return Selection(runs, topics, left_out)


def worst_first(runs: Sequence[Run]) -> list[str]:
    """Return the names of the topics, in ascending order of their lowest delivery ratio in any run. Among topics with
    equal ratios, those with more messages come first; topics without a ratio are last.
    """

    def order(row: Row) -> tuple[float, int, str]:
        ratio = row["delivery_ratio"]
        return 2.0 if ratio is None else float(ratio), -(row["messages"] or 0), topic_name(row)

    rows = sorted((row for run in runs for row in run.headlines), key=order)
    return list(dict.fromkeys(topic_name(row) for row in rows))


def topic_name(headline: Row) -> str:
    name = headline["topic_name"]
    return f"topic {headline['topic']}" if name is None else str(name)


def _open_run(folder: Path) -> Run:
    if not folder.is_dir():
        raise ReportError(f"{folder}: no such run folder")
    if not _open(folder, "headline"):
        raise ReportError(f"{folder}: this run has not been analysed; run `hearsay analyze {folder}` first")
    summary_of(folder)
    scenario_of(folder)  # these raise an error for a damaged file
    if (folder / MANIFEST).exists():
        load_manifest(folder)
    rows: list[Row] = [
        {key: None if isinstance(value, float) and isnan(value) else value for key, value in row.items()}
        for row in _read(folder, "headline", TABLES["headline"].names).to_pylist()
    ]
    name = str(rows[0]["run"]) if rows else folder.resolve().name
    return Run(folder, name, [row for row in rows if row["topic"] is not None])


def _make_labels_unique(runs: Sequence[Run]) -> None:
    """Add the folder to a label that several runs have, and also a number if several runs have the same folder."""
    taken = Counter(run.label for run in runs)
    for run in runs:
        if taken[run.label] > 1:
            run.label = f"{run.label} ({run.folder})"
    seen: Counter[str] = Counter()
    for run in runs:
        seen[run.label] += 1
        if seen[run.label] > 1:
            run.label = f"{run.label} #{seen[run.label]}"


def _read(folder: Path, table: str, columns: Sequence[str]) -> Any:
    schema = pa.schema([arrow_schema(TABLES[table]).field(name) for name in columns])
    with _reading(folder / METRICS_FOLDER / table):
        parts = [plain(file.read(schema.names)).select(schema.names).cast(schema) for file in _open(folder, table)]
        return pa.concat_tables([schema.empty_table(), *parts])


def _open(folder: Path, table: str) -> list[Any]:
    """Return the files of a result table; an empty list if the table was not written."""
    path, names = folder / METRICS_FOLDER / table, TABLES[table].names
    with _reading(path):
        files = [open_foreign(file, names) for file in stored_files(folder, table)]
    for name in (name for file in files for name in names if name not in file.schema_arrow.names):
        raise ReportError(f"{path}: column {name} is missing; run `hearsay analyze {folder}` again")
    return files


@contextmanager
def _reading(path: Path) -> Generator[None]:
    """Raise a `ReportError` that names the path if a file is damaged."""
    try:
        yield
    except DAMAGED as error:
        first = str(error).partition("\n")[0]
        raise ReportError(f"{path}: cannot be read ({first})") from error


ALL_TOPICS = "all topics"
_OF_THE_RUN = ("run", "router", "nodes", "state_bytes_mean", "state_bytes_max", "start_us", "seconds", "complete")


def total(rows: Any, name: str) -> int:
    """Return the sum of a column of counts."""
    return int(compute.sum(rows.column(name)).as_py() or 0)


def all_topics(run: Run) -> dict[str, Any]:
    """Return a row for all topics of a run together, with the columns of the table `headline`."""
    rows = run.headlines
    row: dict[str, Any] = dict.fromkeys(TABLES["headline"].names)
    row |= {name: rows[0][name] for name in _OF_THE_RUN}
    row |= {name: sum(each[name] or 0 for each in rows) for name in ("messages", "eligible", "delivered")}
    row["topic_name"] = ALL_TOPICS
    row["delivery_ratio"] = row["delivered"] / row["eligible"] if row["eligible"] else None
    return row | _latencies(run, rows) | _copies(run) | _bytes(run, rows)


def _latencies(run: Run, rows: Sequence[Any]) -> dict[str, float | None]:
    known = [row["latency_max_ms"] for row in rows if row["latency_max_ms"] is not None]
    found: dict[str, float | None] = {"latency_max_ms": max(known, default=None)}
    table = run.read("latency", "latency_us", "deliveries").sort_by("latency_us")
    table = table.filter(compute.is_valid(table.column("latency_us")))
    latencies, upto = column(table, "latency_us"), np.cumsum(column(table, "deliveries"))
    for name, percent in LATENCY_PERCENTS.items() if len(table) else ():
        found[f"latency_{name}_ms"] = float(latencies[np.searchsorted(upto, percent / 100 * upto[-1])]) / 1000
    return found


def _copies(run: Run) -> dict[str, float | None]:
    table = run.read("messages", "away", "copies", "hops_sum", "hops_max")
    away, copies = total(table, "away"), total(table, "copies")
    known = table.filter(compute.is_valid(table.column("hops_sum")))
    hops, known_away = total(known, "hops_sum"), total(known, "away")
    return {
        "copies_per_delivery": copies / away if away else None,
        "hops_mean": hops / known_away if known_away else None,
        "hops_max": compute.max(table.column("hops_max")).as_py(),
    }


def _bytes(run: Run, rows: Sequence[Any]) -> dict[str, float | None]:
    table = run.read("traffic", "node", "kind", "bytes_out")
    table = table.filter(compute.is_valid(table.column("bytes_out")))
    sent = compute.sum(table.column("bytes_out")).as_py()
    if not sent:
        return {}
    payload = table.filter(compute.equal(table.column("kind"), PAYLOAD))
    share = 1 - (compute.sum(payload.column("bytes_out")).as_py() or 0) / sent
    loads = column(run.without_scripts(table).group_by("node").aggregate([("bytes_out", "sum")]), "bytes_out_sum")
    every = max(rows[0]["nodes"] or 0, len(loads))
    found: dict[str, float | None] = {"control_bytes_share": share}
    if every and loads.sum():
        mean = float(loads.sum()) / every
        capacities = (row["bytes_out_mean"] / row["uplink_share_mean"] for row in rows if row["uplink_share_mean"])
        capacity = next(capacities, None)
        found |= {"bytes_out_mean": mean, "uplink_share_mean": None if capacity is None else mean / capacity}
        if run.why_unmeasured("evenness") is None:
            most = float(loads.max())
            found |= {"bytes_out_max_over_mean": most / mean, "bytes_out_gini": _gini(loads, every)}
            found["uplink_share_max"] = None if capacity is None else most / capacity
    return found


def _gini(loads: Floats, nodes: int) -> float:
    """Return the Gini coefficient of `nodes` nodes, as the analysis does. Nodes without a load have the load 0."""
    ascending = np.sort(np.concatenate((np.zeros(nodes - len(loads)), loads)))
    ranks = np.arange(1, nodes + 1)
    return float(2 * (ranks * ascending).sum() / (nodes * ascending.sum()) - (nodes + 1) / nodes)


def column(table: Any, name: str) -> Floats:
    """Return a column of an Arrow table as floats. Nulls become NaN."""
    values: Floats = table.column(name).cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return values.astype(np.float64)
