"""The tables of runs as DataFrames (docs/reference/metrics.md): in a notebook, a script of Spark, or a test.

    tables = Tables(read(spark, ["runs/first", "runs/second"]))
    tables["messages"].where("ratio < 1").show()

A table is computed when it is first used, together with the tables that it reads. Those are kept in Spark
(`localCheckpoint`), so that plans stay short.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

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
    stretches,
    traffic,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hearsay.pipeline.rows import Trace


class Tables:
    """All tables of the runs of a trace, by name."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    def __getitem__(self, name: str) -> DataFrame:
        """Return a table with the columns, order and types that are declared for it."""
        if name not in TABLES:
            raise KeyError(f"no table {name!r}; there are {', '.join(TABLES)}")
        table: DataFrame = getattr(self, name)
        return table.selectExpr(*(f"cast({column} as {kind}) as {column}" for column, kind in TABLES[name].columns))

    @cached_property
    def memberships(self) -> DataFrame:
        return memberships.memberships(self._trace).localCheckpoint()

    @cached_property
    def observers(self) -> DataFrame:
        """The nodes whose events the trace records."""
        return memberships.observers(self._trace).localCheckpoint()

    @cached_property
    def measured(self) -> DataFrame:
        return measured.measured(self._trace, self.observers).localCheckpoint()

    @cached_property
    def known(self) -> DataFrame:
        """`measured` with a column per figure."""
        return measured.known(self._trace, self.measured).localCheckpoint()

    @cached_property
    def sent(self) -> DataFrame:
        """Sums over all rows of a message."""
        return messages.sent(self._trace).localCheckpoint()

    @cached_property
    def receipts(self) -> DataFrame:
        """Deliveries and rejects, each with what is known of its message."""
        return messages.receipts(self._trace, self.sent, self.memberships).localCheckpoint()

    @cached_property
    def messages(self) -> DataFrame:
        return messages.messages(
            self._trace, self.sent, self.receipts, self.memberships, self.known
        ).localCheckpoint()

    @cached_property
    def latency(self) -> DataFrame:
        return latency.latency(self._trace, self.receipts).localCheckpoint()

    @cached_property
    def traffic(self) -> DataFrame:
        return traffic.traffic(self._trace, self.known).localCheckpoint()

    @cached_property
    def control(self) -> DataFrame:
        return traffic.control(self._trace, self.traffic).localCheckpoint()

    @cached_property
    def balance(self) -> DataFrame:
        return traffic.balance(
            self._trace, self.traffic, self.memberships, self.observers, self.known
        ).localCheckpoint()

    @cached_property
    def links(self) -> DataFrame:
        """When which link of a mesh, an active view or a tree existed."""
        return mesh.links(self._trace).localCheckpoint()

    @cached_property
    def drawn(self) -> DataFrame:
        """The lines of `mesh`, `degrees` and `mesh_links`."""
        return mesh.drawn(self._trace, self.links, self.memberships, self.observers).localCheckpoint()

    @property
    def mesh(self) -> DataFrame:
        return mesh.mesh(self.drawn)

    @property
    def degrees(self) -> DataFrame:
        return mesh.degrees(self.drawn)

    @property
    def mesh_links(self) -> DataFrame:
        return mesh.mesh_links(self.drawn)

    @cached_property
    def stretches(self) -> DataFrame:
        """The width of a stretch of time in each run."""
        return stretches.stretches(self._trace).localCheckpoint()

    @property
    def churn(self) -> DataFrame:
        return churn.churn(self._trace, self.messages, self.stretches, self.known)

    @cached_property
    def changes(self) -> DataFrame:
        """Nodes that go up or down, and connections that end."""
        return resilience.changes(self._trace).localCheckpoint()

    @cached_property
    def disturbances(self) -> DataFrame:
        return resilience.disturbances(self._trace, self.changes, self.messages).localCheckpoint()

    @cached_property
    def resilience(self) -> DataFrame:
        spans = resilience.spans(self._trace, self.changes, self.messages, self.disturbances)
        return resilience.resilience(self._trace, spans.localCheckpoint(), self.messages).localCheckpoint()

    @cached_property
    def state(self) -> DataFrame:
        return state.state(self._trace).localCheckpoint()

    @cached_property
    def parts(self) -> DataFrame:
        """Parts of RPCs by stretch of time and fate."""
        return agreements.parts(self._trace, self.stretches).localCheckpoint()

    @property
    def refusals(self) -> DataFrame:
        return agreements.refusals(self._trace, self.parts)

    @property
    def promises(self) -> DataFrame:
        return agreements.promises(self._trace, self.parts)

    @property
    def idontwant(self) -> DataFrame:
        return agreements.idontwant(self._trace, self.parts)

    @property
    def exchange(self) -> DataFrame:
        return exchange.exchange(self._trace, self.stretches)

    @property
    def scores(self) -> DataFrame:
        return scores.scores(self._trace)

    @property
    def worst_peers(self) -> DataFrame:
        return scores.worst_peers(self._trace)

    @property
    def spread(self) -> DataFrame:
        return spread.spread(self._trace, self.messages, self.receipts)

    @property
    def quality(self) -> DataFrame:
        return quality.quality(self._trace, self.messages, self.parts, self.changes)

    @property
    def headline(self) -> DataFrame:
        percentiles = latency.percentiles(self._trace, self.receipts, self.latency).localCheckpoint()
        shares = traffic.control_shares(self._trace, self.control, self.known).localCheckpoint()
        return headline.headline(
            self._trace,
            self.observers,
            self.messages,
            percentiles,
            shares,
            self.balance,
            self.state,
            self.resilience,
        )
