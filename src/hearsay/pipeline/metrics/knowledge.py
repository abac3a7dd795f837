"""The figures that the trace of a run can give, and ratios."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hearsay.pipeline.input.run_facts import RunFacts
from hearsay.pipeline.kernels.columns import row_groups
from hearsay.trace.language.schema import Column, TraceEvent


def quotient(part: float | None, whole: float | None) -> float | None:
    """part / whole, None when there is nothing to divide or to divide by."""
    return None if part is None or not whole or whole < 0 else float(part) / float(whole)


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
class _Seen:
    """What the small classes of a real trace hold."""

    peers: frozenset[int]
    """Who wrote rows."""
    node_ups: int
    states: int


def knowledge_of(run: RunFacts, sizes_out: int, sizes_in: int) -> Knowledge:
    """From what the small classes hold, and of how many parts sent and received the bytes are told."""
    if run.simulated:
        return Knowledge(run.nodes, {})
    seen = _seen_in(run)
    observers = _observers(run, seen)
    return Knowledge(observers, dict(_missing(len(observers), seen, sizes_out, sizes_in)))


def observers_of(run: RunFacts) -> tuple[int, ...]:
    """The nodes of which the trace tells what they did."""
    return run.nodes if run.simulated else _observers(run, _seen_in(run))


def _observers(run: RunFacts, seen: _Seen) -> tuple[int, ...]:
    return tuple(sorted(seen.peers.intersection(run.nodes))) or run.nodes


def _seen_in(run: RunFacts) -> _Seen:
    peers: set[int] = set()
    node_ups = states = 0
    for trace_class in ("node", "mesh"):
        for file in run.files(trace_class):
            for rows in row_groups(str(run.path / file.name), [Column.EVENT, Column.PEER]):
                peers.update(np.unique(rows[Column.PEER]).tolist())
                node_ups += int(np.count_nonzero(rows[Column.EVENT] == TraceEvent.NODE_UP))
                states += int(np.count_nonzero(rows[Column.EVENT] == TraceEvent.STATE))
    return _Seen(frozenset(peers), node_ups, states)


def _missing(observers: int, seen: _Seen, sizes_out: int, sizes_in: int) -> Iterator[tuple[str, str]]:
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


def measured_lines(knowledge: Knowledge) -> list[dict[str, Any]]:
    """The table `measured` of a run."""
    return [
        {"figure": figure, "measured": knowledge.knows(figure), "reason": knowledge.missing.get(figure)}
        for figure in FIGURES
    ]
