"""The tables of runs as DataFrames (docs/reference/metrics.md): in a notebook, a script of Spark, or a test.

    tables = Tables(read(spark, ["runs/first", "runs/second"]))
    tables["messages"].where("ratio < 1").show()

A table is computed when it is first used. A function of `pipeline.questions` with the name of the table has its SQL.
The tables that this SQL names are computed first.

Most tables are small for any trace: the driver collects them, and later queries read them from the driver's memory.
Other tables grow with the rows of the trace. Spark writes these as Parquet into a scratch folder, and later queries
read the files. So plans stay short, and a lost executor loses no table. Without a scratch folder Spark stores large
tables itself (`localCheckpoint`). For a trace with fewer than `SMALL_ROWS` rows, the driver also collects the tables
that grow. A few intermediate tables (`_READ_ONCE`) are never stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import Any, TypeVar

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from hearsay.pipeline.output.tables import TABLES
from hearsay.pipeline.questions import (
    agreements,
    exchange,
    headline,
    latency,
    mesh,
    messages,
    nodes,
    quality,
    resilience,
    scores,
    traffic,
)
from hearsay.pipeline.rows import Frames, RunConditions, Trace, commented, named_in
from hearsay.trace.language.places import exactly

Result = TypeVar("Result")
THREADS = 3
"""Number of threads that compute tables. While Spark plans one query, tasks of another query run."""


def _by_name(*made: Callable[[Frames], DataFrame]) -> dict[str, Callable[[Frames], DataFrame]]:
    return {function.__name__: function for function in made}


_LARGE = _by_name(
    nodes.memberships, nodes.observers, messages.sent, messages.taken, messages.messages, latency.latency,
    traffic.traffic, mesh.links, mesh.drawn, resilience.changes, resilience.spans, agreements.parts,
)  # fmt: skip
_SMALL = _by_name(
    quality.measured, latency.percentiles, traffic.control, traffic.balance, mesh.mesh, mesh.degrees,
    mesh.mesh_links, nodes.churn, resilience.disturbances, resilience.resilience, nodes.state, agreements.refusals,
    agreements.promises, agreements.idontwant, exchange.exchange, scores.scores, scores.worst_peers, messages.spread,
    quality.quality, headline.headline,
)  # fmt: skip
_READ_ONCE = _by_name(messages.receipts, messages.members, messages.summed, mesh.times, traffic.control_shares)
"""Intermediate tables that are not stored: Spark computes them in each query that reads them."""


@dataclass
class _Collected:
    """A table in the memory of the driver."""

    trace: Trace
    arrow: Any
    schema: StructType

    @cached_property
    def frame(self) -> DataFrame:
        return self.trace.local(self.arrow, self.schema)


class Tables:
    """The result tables of the runs of a trace, by name."""

    def __init__(self, trace: Trace, scratch: str | None = None) -> None:
        self._trace = trace
        self._scratch = scratch
        self._lock = Lock()
        self._results: dict[str, Future[Any]] = {}
        self.arrow: dict[str, Any] = {}
        """The tables that the driver has collected so far, as Arrow tables by name."""

    def __getitem__(self, name: str) -> DataFrame:
        """Return a result table. Its columns have the order, types and comments of `tables.toml`.

        Raise `KeyError` if there is no result table with this name.
        """
        if name not in TABLES:
            raise KeyError(f"no table {name!r}; there are {', '.join(TABLES)}")
        return _declared(name, self._frame(name))

    @property
    def is_measured(self) -> RunConditions:
        self._result("measured")
        return quality.is_measured(self._trace, self.arrow["measured"])

    def query(self, text: str) -> DataFrame:
        """Return the result of a SQL text. A name in braces is that of a table or of a DataFrame of the trace."""
        others = {name for name in named_in(text) if not hasattr(self._trace, name)}
        return self._trace.query(text, **{name: self._frame(name) for name in others})

    def compute(self, names: Sequence[str]) -> None:
        """Compute these tables, up to `THREADS` of them at the same time."""
        with ThreadPoolExecutor(THREADS, thread_name_prefix="tables") as threads:
            for made in [threads.submit(self._result, name) for name in names]:
                made.result()

    def _frame(self, name: str) -> DataFrame:
        found = self._result(name)
        return found.frame if isinstance(found, _Collected) else found

    def _result(self, name: str) -> Any:
        """Return a table as a DataFrame or, if the driver collects it, as `_Collected`.

        The first thread that needs the table computes it. Other threads wait for the result.
        """
        with self._lock:
            found = self._results.get(name)
            future = self._results.setdefault(name, Future())
        if found is None:
            try:
                with self._trace.step(name):
                    future.set_result(self._made(name))
            except BaseException as error:
                future.set_exception(error)
        return future.result()

    def _made(self, name: str) -> Any:
        if name in _READ_ONCE:
            return _READ_ONCE[name](self)
        frame = (_SMALL | _LARGE)[name](self)
        if name in _SMALL or self._trace.one_partition:
            return self._collected(name, frame)
        if self._scratch is None:
            return frame.localCheckpoint()
        path = f"{self._scratch}/{name}"
        frame.write.parquet(path)
        return self._trace.runs.sparkSession.read.schema(frame.schema).parquet(exactly(path))

    def _collected(self, name: str, frame: DataFrame) -> _Collected:
        rows: Any = frame
        self.arrow[name] = rows.toArrow()
        return _Collected(self._trace, self.arrow[name], frame.schema)


def _declared(name: str, table: DataFrame) -> DataFrame:
    columns = TABLES[name].columns
    cast = table.selectExpr(*(f"cast({name} as {column.kind}) as {name}" for name, column in columns.items()))
    return commented(cast, TABLES[name])
