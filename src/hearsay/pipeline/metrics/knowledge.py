"""What the trace of a run can tell, and what it cannot: asked once, and every figure keeps to it.

A simulator writes down everything. Real nodes write down what they saw, in formats that leave things out: Go's
traces have no sizes, no trace of a real network tells hops, and one node's trace cannot say who else was given a
message. What is not known is null in the tables, never a zero; the table `measured` says it in words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from hearsay.pipeline.input.rows import trace_rows
from hearsay.pipeline.input.run_facts import RunFacts

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

DELIVERY, HOPS, BYTES_OUT, BYTES_IN, EVENNESS = "delivery", "hops", "bytes_out", "bytes_in", "evenness"
MESH_SHAPE, NODES_UP, STATE = "mesh_shape", "nodes_up", "state"
FIGURES = (DELIVERY, HOPS, BYTES_OUT, BYTES_IN, EVENNESS, MESH_SHAPE, NODES_UP, STATE)


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What one run's trace knows."""

    observers: tuple[int, ...]
    """The nodes of which the trace tells what they did: all of a simulation, else those that traced."""
    missing: Mapping[str, str]
    """Why a figure is not known."""

    def knows(self, figure: str) -> bool:
        return figure not in self.missing


@dataclass(frozen=True, slots=True)
class Seen:
    """What the small classes of a real trace hold."""

    peers: frozenset[int]
    """Who wrote rows."""
    node_ups: int
    states: int


_SIMULATED = Seen(frozenset(), 1, 1)


def seen_in(spark: SparkSession, runs: Sequence[RunFacts]) -> dict[str, Seen]:
    """What real traces hold; a simulation's holds everything."""
    real = [run for run in runs if not run.simulated]
    found = {run.name: _SIMULATED if run.simulated else Seen(frozenset(), 0, 0) for run in runs}
    if not real:
        return found
    rows = trace_rows(spark, real, "node").unionByName(trace_rows(spark, real, "mesh"))
    event = F.col("event")
    counted = rows.groupBy("run").agg(
        F.collect_set("peer").alias("peers"),
        F.count_if(event == "node_up").alias("node_ups"),
        F.count_if(event == "state").alias("states"),
    )
    for row in counted.collect():
        found[row["run"]] = Seen(frozenset(row["peers"]), row["node_ups"], row["states"])
    return found


def knowledge_of(run: RunFacts, seen: Seen, sizes_out: int, sizes_in: int) -> Knowledge:
    """From what the small classes hold, and of how many parts sent and received the bytes are told."""
    if run.simulated:
        return Knowledge(run.nodes, {})
    observers = tuple(sorted(seen.peers.intersection(run.nodes))) or run.nodes
    return Knowledge(observers, dict(_missing(len(observers), seen, sizes_out, sizes_in)))


def _missing(observers: int, seen: Seen, sizes_out: int, sizes_in: int) -> Iterator[tuple[str, str]]:
    yield HOPS, "real nodes do not know how many links a message crossed"
    if observers == 1:
        yield DELIVERY, "one node traced, and what others were given it cannot know"
        yield EVENNESS, "one node traced"
        yield MESH_SHAPE, "one node traced, and links between others it cannot know"
    if not sizes_out:
        yield BYTES_OUT, "the trace has no sizes of what was sent"
        yield EVENNESS, "the trace has no sizes of what was sent"
    if not sizes_in:
        yield BYTES_IN, "the trace has no sizes of what was received"
    if not seen.node_ups:
        yield NODES_UP, "the trace does not tell when nodes went up or down"
    if not seen.states:
        yield STATE, "the trace has no rows about the state of nodes"


def where_known(figure: str, known: Mapping[str, Knowledge], column: Column) -> Column:
    """The column in rows of runs that know the figure, null in others."""
    without = [name for name, knowledge in known.items() if not knowledge.knows(figure)]
    return F.when(~F.col("run").isin(without), column) if without else column


def measured_lines(known: Mapping[str, Knowledge]) -> list[dict[str, Any]]:
    """The table `measured`."""
    return [
        {
            "run": name,
            "figure": figure,
            "measured": knowledge.knows(figure),
            "reason": knowledge.missing.get(figure),
        }
        for name, knowledge in known.items()
        for figure in FIGURES
    ]
