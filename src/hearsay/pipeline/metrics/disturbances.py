"""What disturbed a run: what its scenario names, and what only the trace shows.

Rules:

* The scenario names disturbances (`planned_disturbances`). What takes nodes or connections away and stands in no
  scenario is found in the trace: nodes that go up or down, and of real nodes connections that end, while messages
  are published.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow
import pyarrow.compute

from hearsay.core.language.actions import Reason
from hearsay.pipeline.input.run_facts import OF_NODES, RunFacts
from hearsay.pipeline.kernels.columns import ColumnArrays, chosen_rows
from hearsay.trace.language.schema import Column, TraceEvent

pa: Any = pyarrow
compute: Any = pyarrow.compute

NODES, CONNECTIONS = "nodes", "connections"
SCENARIO, TRACE = "scenario", "trace"


@dataclass(frozen=True, slots=True)
class Disturbance:
    """A line of the table `disturbances`; numbers count within the run."""

    disturbance: int
    kind: str
    what: str
    since_us: int
    until_us: int | None
    source: str


def changes_of(run: RunFacts) -> ColumnArrays:
    """Nodes that go up or down; of real nodes connections that end. In a simulation these follow from the others."""
    events = [TraceEvent.NODE_UP, TraceEvent.NODE_DOWN]
    if not run.simulated:
        events.append(TraceEvent.REMOVE_PEER)
    return chosen_rows(run, "node", events, [Column.TIME_US, Column.PEER, Column.REASON])


def disturbances_of(run: RunFacts, changes: ColumnArrays, messages: Any) -> list[Disturbance]:
    """In the order of their beginning."""
    lines = [(one.kind, one.what, one.since_us, one.until_us, SCENARIO) for one in run.disturbances]
    if not any(one.kind in OF_NODES for one in run.disturbances):
        lines += _observed(run, changes, messages)
    lines.sort(key=lambda line: line[2])
    return [Disturbance(number, *line) for number, line in enumerate(lines)]


def _observed(run: RunFacts, changes: ColumnArrays, messages: Any) -> Iterator[tuple[str, str, int, int | None, str]]:
    """What the trace shows between the first and the last message, in words."""
    bounds = compute.min_max(messages.column("published_us")).as_py()
    if bounds["min"] is None:
        return
    times = changes[Column.TIME_US]
    inside = (times > bounds["min"]) & (times < bounds["max"])
    event, lost, times = changes[Column.EVENT][inside], changes[Column.REASON][inside] == Reason.LOST, times[inside]
    ended = event == TraceEvent.REMOVE_PEER
    went = event == TraceEvent.NODE_DOWN
    downs, ups = int(np.count_nonzero(went)), int(np.count_nonzero(event == TraceEvent.NODE_UP))
    if downs or ups:
        since, until = int(times[~ended].min()), int(times[~ended].max())
        without_goodbye = int(np.count_nonzero(went & lost))
        gone = [f"{_nodes(downs)} went down{_unsaid(without_goodbye, downs)}"] if downs else []
        came = [f"{_nodes(ups)} came up"] if ups else []
        yield NODES, f"{' and '.join(gone + came)} {_when(run, since, until)}", since, until, TRACE
    many = int(np.count_nonzero(ended))
    if many:
        since, until = int(times[ended].min()), int(times[ended].max())
        said = "1 connection" if many == 1 else f"{many} connections"
        yield CONNECTIONS, f"{said} ended {_when(run, since, until)}", since, until, TRACE


def _unsaid(without: int, downs: int) -> str:
    """How many of the nodes that went down did not say so."""
    if not without:
        return ""
    return " without a goodbye" if without == downs else f" ({without} without a goodbye)"


def _nodes(number: int) -> str:
    return "1 node" if number == 1 else f"{number} nodes"


def _when(run: RunFacts, since_us: int, until_us: int) -> str:
    since, until = (f"{(time - run.start_us) / 1_000_000:.1f} s" for time in (since_us, until_us))
    return f"at {since}" if since == until else f"from {since} to {until}"
