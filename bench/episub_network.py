"""A simulated episub network that can be stopped, inspected and resumed, for the `episub_*` scripts."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from statistics import fmean, pstdev
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from hearsay.core.episub.episub import Episub
from hearsay.core.language.rpc import PartKind
from hearsay.sim.plan.plan import make_plan
from hearsay.sim.recorder import Recorder
from hearsay.sim.reference.engine import ReferenceEngine
from hearsay.sim.scenario.scenario_file import load_scenario
from hearsay.trace.language.rows import Rows
from hearsay.trace.language.schema import Column, TraceEvent


class CountingRecorder(Recorder):
    """A recorder that counts the copies of each message, and notes the times of changes in trees and overlays."""

    def __init__(self) -> None:
        super().__init__()
        self.copies: dict[int, int] = {}
        self.tree_changes: list[int] = []
        """Times at which a GRAFT or a PRUNE was sent, in microseconds."""
        self.new_neighbours: list[int] = []
        """Times at which a node got a neighbour, in microseconds; two for each link."""

    def _take_rows(self) -> Rows:
        rows = super()._take_rows()
        events, kinds = rows[:, Column.EVENT], rows[:, Column.KIND]
        sent = (events == TraceEvent.SEND_RPC) & (kinds == PartKind.PUBLISH)
        for message, count in zip(*np.unique(rows[sent, Column.MESSAGE], return_counts=True), strict=True):
            self.copies[int(message)] = self.copies.get(int(message), 0) + int(count)
        changing = (kinds == PartKind.GRAFT) | (kinds == PartKind.PRUNE)
        self.tree_changes += rows[(events == TraceEvent.SEND_RPC) & changing, Column.TIME_US].tolist()
        self.new_neighbours += rows[events == TraceEvent.NEIGHBOR_UP, Column.TIME_US].tolist()
        return rows


class Run:
    """A simulated network. In the names of `keys`, two underscores stand for a dot."""

    def __init__(self, nodes: int, seed: int, file: Path | None = None, **keys: object) -> None:
        settings = {
            "network.nodes": nodes,
            "seed": seed,
            "trace.state_interval_s": 0,
            "workload.publishers": "subscribers",
            "workload.publisher_count": 1,
            **{key.replace("__", "."): value for key, value in keys.items()},
        }
        overrides = [(key, str(value)) for key, value in settings.items()]
        self.plan = make_plan(load_scenario(file, "r1", overrides, router="episub"))
        self.recorder = CountingRecorder()
        self.engine = ReferenceEngine(self.plan, self.recorder)

    def run_until(self, time_s: float) -> None:
        def stop(now: int) -> None:
            self.engine.stop_requested = now >= time_s * 1_000_000

        if not self.engine.complete:
            self.engine.run(stop)
        self.engine.stop_requested = False

    def finish(self) -> Run:
        if not self.engine.complete:
            self.engine.run()
        return self

    def neighbours(self) -> dict[int, set[Any]]:
        return {
            node.id: set(node.router.strategy.memberships[self.plan.topics[0]].views.active)
            for node in self.engine.nodes
            if node.router is not None and isinstance(node.router.strategy, Episub)
        }

    def by_message(self) -> dict[int, tuple[int, float, int]]:
        """Return the number, mean hops and most hops of deliveries outside the publisher, by message."""
        rows = self.recorder.deliveries
        away = rows[rows[:, Column.HOPS] > 0]
        found: dict[int, tuple[int, float, int]] = {}
        for message in np.unique(away[:, Column.MESSAGE]):
            hops = away[away[:, Column.MESSAGE] == message, Column.HOPS]
            found[int(message)] = (len(hops), float(hops.mean()), int(hops.max()))
        return found

    def redundancy(self, message: int, receivers: int) -> float:
        """Return Plumtree's relative message redundancy (RMR): copies divided by receivers, minus one."""
        return self.recorder.copies.get(message, 0) / receivers - 1

    def mean_latency_ms(self, first_message: int) -> float:
        rows = self.recorder.deliveries
        published = {number: info.published_us for number, info in self.recorder.messages.items()}
        late = rows[(rows[:, Column.MESSAGE] >= first_message) & (rows[:, Column.HOPS] > 0)]
        return fmean(int(row[Column.TIME_US]) - published[int(row[Column.MESSAGE])] for row in late) / 1000


def component_sizes(graph: dict[int, set[Any]]) -> list[int]:
    """Return the sizes of the connected components, the largest first."""
    seen: set[int] = set()
    sizes: list[int] = []
    for start in graph:
        if start in seen:
            continue
        seen.add(start)
        waiting, size = [start], 0
        while waiting:
            node = waiting.pop()
            size += 1
            for other in graph[node]:
                if other in graph and other not in seen:
                    seen.add(other)
                    waiting.append(other)
        sizes.append(size)
    return sorted(sizes, reverse=True)


def run_publications(run_nodes: int, seed: int, at: Iterable[tuple[int, int]], **keys: object) -> Run:
    """Return a finished run in which nodes publish at given times; `at` has pairs of a second and a node."""
    lines = ["[workload]", "messages = 0"]
    for second, node in at:
        lines += ["[[timed]]", f"at_s = {second}", f"node = {node}", 'action = "publish"']
    with TemporaryDirectory() as folder:
        file = Path(folder) / "published.toml"
        file.write_text("\n".join(lines), encoding="utf-8")
        return Run(run_nodes, seed, file, **keys).finish()


def mean_sd(values: Iterable[float], form: str = "{:.2f}") -> str:
    values = list(values)
    return form.format(fmean(values)) + (f" ± {form.format(pstdev(values))}" if len(values) > 1 else "")
