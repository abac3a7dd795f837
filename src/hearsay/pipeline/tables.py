"""The tables of runs as DataFrames (docs/reference/metrics.md): in a notebook, a script of Spark, or a test.

    tables = Tables(read(spark, ["runs/first", "runs/second"]))
    tables["messages"].where("ratio < 1").show()

A table is computed when it is first used, together with the tables that it reads. Most tables are small, whatever the
trace holds: they come to the driver, which reads them from memory from then on. The others grow with the rows of the
trace. Spark writes them as Parquet into a scratch folder and reads them from there, which keeps plans short, and a
lost executor loses nothing. Without such a folder Spark keeps them itself. In a small trace all tables are small.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

from hearsay.pipeline.output.columns import commented
from hearsay.pipeline.output.tables import TABLES
from hearsay.pipeline.questions import (
    agreements,
    churn,
    exchange,
    headline,
    latency,
    measured,
    memberships,
    mesh,
    messages,
    quality,
    resilience,
    scores,
    spread,
    state,
    traffic,
)
from hearsay.trace.folder.exact_paths import exactly

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from hearsay.pipeline.rows import Trace

Result = TypeVar("Result")
THREADS = 3
"""While one query is planned, tasks of another run."""
_SMALL: dict[str, Callable[[Tables], DataFrame]] = {}


@dataclass
class _Collected:
    """Rows that the driver keeps."""

    trace: Trace
    arrow: Any
    schema: StructType

    @cached_property
    def frame(self) -> DataFrame:
        return self.trace.local(self.arrow, self.schema)


def _large(make: Callable[[Tables], DataFrame]) -> property:
    """A DataFrame that grows with the rows."""
    return property(lambda tables: tables.once(make.__name__, lambda: tables.kept(make.__name__, make(tables))))


def _small(make: Callable[[Tables], DataFrame]) -> property:
    """A table that is small for any trace."""
    _SMALL[make.__name__] = make
    return property(lambda tables: tables.collected(make.__name__).frame)


class Tables:
    """All tables of the runs of a trace, by name."""

    def __init__(self, trace: Trace, scratch: str | None = None) -> None:
        self._trace = trace
        self._scratch = scratch
        self._lock = Lock()
        self._results: dict[str, Future[Any]] = {}
        self.arrow: dict[str, Any] = {}
        """The tables that the driver keeps, as Arrow tables."""

    def __getitem__(self, name: str) -> DataFrame:
        """Return a table with the columns, order and types that are declared for it."""
        if name not in TABLES:
            raise KeyError(f"no table {name!r}; there are {', '.join(TABLES)}")
        return _declared(name, getattr(self, name))

    def once(self, name: str, make: Callable[[], Result]) -> Result:
        """Return what `make` returns; it is called once, also if several threads ask."""
        with self._lock:
            found = self._results.get(name)
            future = self._results.setdefault(name, Future())
        if found is None:
            try:
                with self._trace.step(name):
                    future.set_result(make())
            except BaseException as error:
                future.set_exception(error)
        return future.result()

    def kept(self, name: str, frame: DataFrame) -> DataFrame:
        """Return a DataFrame whose rows are stored from now on."""
        if self._trace.one_partition:
            return self._collect(name, frame).frame
        if self._scratch is None:
            return frame.localCheckpoint()
        path = f"{self._scratch}/{name}"
        frame.write.parquet(path)
        return self._trace.runs.sparkSession.read.schema(frame.schema).parquet(exactly(path))

    def _collect(self, name: str, frame: DataFrame) -> _Collected:
        rows: Any = frame
        self.arrow[name] = rows.toArrow()
        return _Collected(self._trace, self.arrow[name], frame.schema)

    def collected(self, name: str) -> _Collected:
        """Return a small table, whose rows the driver keeps."""
        return self.once(name, lambda: self._collect(name, _SMALL[name](self)))

    def compute(self, names: Sequence[str]) -> None:
        """Compute these properties, several at once."""
        with ThreadPoolExecutor(THREADS, thread_name_prefix="tables") as threads:
            for made in [threads.submit(self._computed, name) for name in names]:
                made.result()

    def _computed(self, name: str) -> Any:
        return self.collected(name) if name in _SMALL else getattr(self, name)

    @_large
    def memberships(self) -> DataFrame:
        return memberships.memberships(self._trace)

    @_large
    def observers(self) -> DataFrame:
        """The nodes whose events the trace records."""
        return memberships.observers(self._trace)

    @_small
    def measured(self) -> DataFrame:
        return measured.measured(self._trace, self.observers)

    @property
    def known(self) -> measured.Known:
        """For each figure the SQL of whether it is known in the run of a row."""
        return measured.known(self._trace, self.collected("measured").arrow)

    @_large
    def sent(self) -> DataFrame:
        """Sums over all rows of a message."""
        return messages.sent(self._trace)

    @_large
    def taken(self) -> DataFrame:
        """Deliveries and rejects of each message, as arrays."""
        return messages.taken(self._trace, messages.receipts(self._trace, self.sent, self.memberships))

    @_large
    def messages(self) -> DataFrame:
        return messages.messages(self._trace, self.sent, self.taken, self.memberships, self.known)

    @_large
    def latency(self) -> DataFrame:
        return latency.latency(self._trace, self.taken)

    @_small
    def percentiles(self) -> DataFrame:
        return latency.percentiles(self._trace, self.taken, self.latency)

    @_large
    def traffic(self) -> DataFrame:
        return traffic.traffic(self._trace, self.known)

    @_small
    def control(self) -> DataFrame:
        return traffic.control(self._trace, self.traffic)

    @_small
    def balance(self) -> DataFrame:
        return traffic.balance(self._trace, self.traffic, self.memberships, self.observers, self.known)

    @_large
    def links(self) -> DataFrame:
        """When which link of a mesh, an active view or a tree existed."""
        return mesh.links(self._trace)

    @_large
    def drawn(self) -> DataFrame:
        """The lines of `mesh`, `degrees` and `mesh_links`."""
        return mesh.drawn(self._trace, self.links, self.memberships, self.observers)

    @_small
    def mesh(self) -> DataFrame:
        return mesh.mesh(self.drawn)

    @_small
    def degrees(self) -> DataFrame:
        return mesh.degrees(self.drawn)

    @_small
    def mesh_links(self) -> DataFrame:
        return mesh.mesh_links(self.drawn)

    @_small
    def churn(self) -> DataFrame:
        return churn.churn(self._trace, self.messages, self.known)

    @_large
    def changes(self) -> DataFrame:
        """Nodes that go up or down, and connections that end."""
        return resilience.changes(self._trace)

    @_small
    def disturbances(self) -> DataFrame:
        return resilience.disturbances(self._trace, self.changes, self.messages)

    @_large
    def spans(self) -> DataFrame:
        """When disturbances began and ended, topic by topic."""
        return resilience.spans(self._trace, self.changes, self.messages, self.disturbances)

    @_small
    def resilience(self) -> DataFrame:
        return resilience.resilience(self._trace, self.spans, self.messages)

    @_small
    def state(self) -> DataFrame:
        return state.state(self._trace)

    @_large
    def parts(self) -> DataFrame:
        """Parts of RPCs by stretch of time and fate."""
        return agreements.parts(self._trace)

    @_small
    def refusals(self) -> DataFrame:
        return agreements.refusals(self._trace, self.parts)

    @_small
    def promises(self) -> DataFrame:
        return agreements.promises(self._trace, self.parts)

    @_small
    def idontwant(self) -> DataFrame:
        return agreements.idontwant(self._trace, self.parts)

    @_small
    def exchange(self) -> DataFrame:
        return exchange.exchange(self._trace)

    @_small
    def scores(self) -> DataFrame:
        return scores.scores(self._trace)

    @_small
    def worst_peers(self) -> DataFrame:
        return scores.worst_peers(self._trace)

    @_small
    def spread(self) -> DataFrame:
        return spread.spread(self._trace, self.messages)

    @_small
    def quality(self) -> DataFrame:
        return quality.quality(self._trace, self.messages, self.parts, self.changes)

    @_small
    def headline(self) -> DataFrame:
        return headline.headline(
            self._trace,
            self.observers,
            self.messages,
            self.percentiles,
            traffic.control_shares(self._trace, self.control, self.known),
            self.balance,
            self.state,
            self.resilience,
        )


def _declared(name: str, table: DataFrame) -> DataFrame:
    columns = TABLES[name].columns
    cast = table.selectExpr(*(f"cast({column} as {kind}) as {column}" for column, kind in columns))
    return commented(cast, name, TABLES[name].ddl)
