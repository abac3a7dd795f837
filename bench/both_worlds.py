"""Compare simulated networks with real networks of the same scenario, whose nodes run on loopback with delayed links.

Real networks follow the simulator's plan: its dials, its publications with their times, and the latency of each link.
A real dial goes through a *line*, a listener that delays all bytes by the link's latency, in both directions. The
traces of a real network's nodes are joined into one run folder. The pipeline analyses all runs together, and the
figures come from its tables.

Random choices differ between seeds, and between real networks. For example, the number of GRAFTs differs by 5 % from
seed to seed, because it depends on which GRAFTs cross on their way. So the figures are means over nine simulated
seeds, and over three real networks that run at the same time. `TOLERANCES` has the allowed relative differences of
the means.

    python bench/both_worlds.py
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from time import time_ns
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow.compute as pc

from hearsay.core.rules.randomness import Randomness
from hearsay.libp2p.mux.connection_limits import ConnectionLimits
from hearsay.libp2p.names.peer_id import to_text
from hearsay.libp2p.node_host import HostLimits
from hearsay.node.config import NodeConfig, NodeLimits
from hearsay.node.node import Node
from hearsay.pipeline.analyze import analyze
from hearsay.pipeline.output.folders import Folder
from hearsay.pipeline.output.tables import read_table
from hearsay.pipeline.run_facts import load_runs
from hearsay.pipeline.spark.session import spark_session
from hearsay.pipeline.spark.settings import Where
from hearsay.sim.plan.network import make_latency
from hearsay.sim.plan.plan import Plan, make_plan
from hearsay.sim.scenario.scenario_file import load_scenario
from hearsay.sim.simulate import Simulation
from hearsay.trace.folder.run_folder import RunFolder
from hearsay.trace.folder.writer import TraceWriter
from hearsay.trace.language.schema import NONE, Column
from hearsay.trace.reader import load_names, read_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCENARIO = {
    "network.nodes": 20,
    "network.degree": 6,
    "topics.0.count": 4,
    # With long latencies and few messages, the delays that a busy machine adds are relatively small.
    "links.min_ms": 300,
    "links.max_ms": 900,
    "warmup_s": 14,
    "linger_s": 5,
    "workload.messages": 9,
    "workload.interval_s": 2.1,
    "workload.publishers": "subscribers",
    "router.preset": "v1.1",
    # Real nodes need some round trips until they know each other. Then heartbeats begin at any time within a second.
    "router.first_heartbeat_ms": 10_000,
    "router.first_heartbeat_spread_ms": 1_000,
}
TOLERANCES = {"grafts": 0.10, "copies_per_delivery": 0.10, "p50_ms": 0.20}

SEEDS = range(1, 10)
NETWORKS = 3
HANDSHAKE_S = 60.0
"""Seconds for a dial or a handshake, which takes four seconds by the latency alone. All dials begin at once, so a
busy machine needs more."""
PATIENT_LIMITS = NodeLimits(host=HostLimits(dial_s=HANDSHAKE_S, connection=ConnectionLimits(handshake_s=HANDSHAKE_S)))


class Delays(NamedTuple):
    """Delays that a busy machine adds to a real run."""

    lines_s: list[float]
    """Seconds by which each piece of data left its line too late."""
    dials_s: list[float]
    """Seconds until the last dial ended, of each network."""


class Figures(NamedTuple):
    grafts: float
    copies_per_delivery: float
    p50_ms: float
    deliveries: float


def figures(metrics: Path) -> Figures:
    """Return the figures over all topics, from the pipeline's tables `control`, `messages` and `latency`."""
    control, messages, latency = (read_table(metrics, table) for table in ("control", "messages", "latency"))
    grafts = pc.sum(control.filter(pc.field("kind") == "graft")["parts"]).as_py()
    away = pc.sum(messages["away"]).as_py()
    taken = np.repeat(latency["latency_ms"].to_numpy(), latency["deliveries"].to_numpy())
    return Figures(grafts, pc.sum(messages["copies"]).as_py() / away, float(np.median(taken)), away)


def plans(directory: Path) -> list[Plan]:
    """Return a plan for each seed. All have the connections of the first plan."""
    first = _plan(SEEDS[0])
    edges = directory / "edges.txt"
    edges.write_text("".join(f"{node} {other}\n" for node, others in enumerate(first.dials) for other in others))
    graph = (("network.topology", "edge_list"), ("network.edges_file", str(edges)))
    return [first, *(_plan(seed, *graph) for seed in SEEDS[1:])]


def _plan(seed: int, *more: tuple[str, object]) -> Plan:
    return make_plan(load_scenario(None, None, (*SCENARIO.items(), ("seed", seed), *more)))


def simulate(plan: Plan, directory: Path) -> Path:
    Simulation(plan.scenario, folder=RunFolder.create(directory)).run()
    return directory


async def run_real_networks(plan: Plan, directory: Path, delays: Delays) -> list[Path]:
    """Run `NETWORKS` real networks of a plan at the same time, and return their folders.

    Their starts are spread over the interval between messages, so that they do not publish at the same times.
    """
    apart_s = float(plan.scenario.workload.interval_s) / NETWORKS
    works = [
        run_real_network(plan, directory / f"real-{number}", number * apart_s, delays) for number in range(NETWORKS)
    ]
    return await asyncio.gather(*works)


async def run_real_network(plan: Plan, directory: Path, wait_s: float, delays: Delays) -> Path:
    await asyncio.sleep(wait_s)
    scenario = plan.scenario
    latency = make_latency(scenario.links, scenario.network.nodes, Randomness(scenario.seed))
    kind, parameters = plan.routers[0]
    config = NodeConfig(router=kind.name, parameters=parameters.to_mapping(), limits=PATIENT_LIMITS)
    async with AsyncExitStack() as stack:
        start_us = time_ns() // 1000
        traces = [directory / "nodes" / str(place) for place in range(scenario.network.nodes)]
        nodes = [Node(config, trace=trace) for trace in traces]
        for node in nodes:
            await stack.enter_async_context(node)
            for topic in plan.topics:
                await node.join(topic)
        start = asyncio.get_running_loop().time()
        dialed: set[frozenset[int]] = set()
        dials: list[asyncio.Future[bytes]] = []
        for place, targets in enumerate(plan.dials):
            for target in targets:
                pair = frozenset((place, target))
                if pair in dialed:
                    continue
                dialed.add(pair)
                line = await stack.enter_async_context(
                    Line(nodes[target].addresses[0], latency.base_us(place, target), delays.lines_s)
                )
                dials.append(asyncio.ensure_future(nodes[place].connect(line.address)))
        await asyncio.gather(*dials)
        delays.dials_s.append(asyncio.get_running_loop().time() - start)
        for publication in plan.publications:
            await asyncio.sleep(start + publication.time_us / 1e6 - asyncio.get_running_loop().time())
            data = b"message %d ".ljust(publication.size_bytes, b"x") % publication.message
            await nodes[publication.publisher].publish(plan.topics[publication.topic], data)
        await asyncio.sleep(start + plan.end_us / 1e6 - asyncio.get_running_loop().time())
        end_us = time_ns() // 1000
        await asyncio.gather(*(node.close() for node in nodes))
    join_traces([to_text(node.peer) for node in nodes], plan.topics, traces, directory, start_us, end_us)
    return directory


def join_traces(
    peers: list[str], topics: Sequence[str], traces: list[Path], directory: Path, start_us: int, end_us: int
) -> None:
    """Join the traces of all nodes into the run folder `run` in a directory. Times count from `start_us`.

    Rows from `end_us` on are left out, because meshes change while the nodes stop.
    """
    folder = RunFolder.create(directory / "run")
    with TraceWriter(folder.path) as writer:
        for trace in traces:
            rows, names = read_rows(trace), load_names(trace)
            rows = rows[rows[:, Column.TIME_US] < end_us]
            rows[:, Column.TIME_US] -= start_us
            numbers = np.array([*(peers.index(name) for _, name in sorted(names.peers.items())), NONE])
            for column in (Column.PEER, Column.REMOTE):
                rows[:, column] = numbers[rows[:, column]]
            numbers = np.array([*(topics.index(name) for _, name in sorted(names.topics.items())), NONE])
            rows[:, Column.TOPIC] = numbers[rows[:, Column.TOPIC]]
            writer.add(rows)
        written = writer.close()
    nothing: list[str | None] = [None] * len(peers)
    folder.write_peers(range(len(peers)), peers, nothing, nothing, nothing)
    folder.write_topics(range(len(topics)), list(topics))
    folder.write_manifest(written, seed=None, complete=True, source="real nodes")


class Line:
    """A listener that forwards connections to an address, and delays each byte by the same latency."""

    def __init__(self, target: str, latency_us: int, late_s: list[float]) -> None:
        _, _, self._host, _, port, _, self._peer = target.split("/")
        self._port = int(port)
        self._latency_s = latency_us / 1e6
        self._late_s = late_s
        self._tasks: set[asyncio.Task[None]] = set()
        self.address = ""

    async def __aenter__(self) -> Line:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.address = f"/ip4/127.0.0.1/tcp/{port}/p2p/{self._peer}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(self._host, self._port)
        for source, target in ((reader, far_writer), (far_reader, writer)):
            task = asyncio.ensure_future(self._forward(source, target))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _forward(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        delayed: deque[bytes] = deque()
        data = b"-"
        while data:
            try:
                data = await source.read(1 << 16)
            except ConnectionError:
                data = b""
            due = loop.time() + self._latency_s
            delayed.append(data)
            loop.call_at(due, self._deliver, delayed, target, due)

    def _deliver(self, delayed: deque[bytes], target: asyncio.StreamWriter, due: float) -> None:
        self._late_s.append(asyncio.get_running_loop().time() - due)
        data = delayed.popleft()
        if data:
            target.write(data)
        else:
            target.close()


class Comparison(NamedTuple):
    simulated: list[Figures]
    real: list[Figures]
    late_ms: float

    def means(self) -> tuple[Figures, Figures]:
        return _mean(self.simulated), _mean(self.real)


class RealRuns(NamedTuple):
    folders: list[Path]
    late_ms: float
    """The 90th percentile of `Delays.lines_s`, in milliseconds. A large value means that the machine was busy. The
    mean does not show this, because nearly all pieces of data in a quiet second are on time."""
    dials_s: float
    """Seconds until the last dial of all networks ended. A message that is published before may miss peers."""


def measure_real_networks(plan: Plan, directory: Path) -> RealRuns:
    delays = Delays([], [])
    folders = asyncio.run(run_real_networks(plan, directory, delays))
    late_ms = 1000 * float(np.quantile(delays.lines_s, 0.9))
    return RealRuns([folder / "run" for folder in folders], late_ms, max(delays.dials_s))


def compare(
    spark: SparkSession, directory: Path, run_real: Callable[[Plan, Path], RealRuns] = measure_real_networks
) -> Comparison:
    """Run the simulated and the real networks, analyse their traces, and return the figures of each."""
    made = plans(directory)
    simulated = [simulate(plan, directory / f"simulated-{plan.scenario.seed}") for plan in made]
    real_runs = run_real(made[0], directory)
    runs = load_runs([*simulated, *real_runs.folders], made[0].scenario.linger_us)
    outputs = {run.name: directory / "metrics" / run.name for run in runs}
    analyze(spark, runs, {name: Folder(path) for name, path in outputs.items()}, lambda _: None)
    found = [figures(outputs[run.name]) for run in runs]
    return Comparison(found[: len(made)], found[len(made) :], real_runs.late_ms)


def _mean(runs: list[Figures]) -> Figures:
    return Figures(*map(fmean, zip(*runs, strict=True)))


def main() -> None:
    with TemporaryDirectory() as directory, spark_session(Where(), 0, lambda _: None) as spark:
        comparison = compare(spark, Path(directory))
    print("| | simulated | from … to | real | from … to | real / simulated |")
    print("| --- | ---: | --- | ---: | --- | ---: |")
    for place, name in enumerate(Figures._fields):
        ours, theirs = (mean[place] for mean in comparison.means())
        spans = [
            f"{min(run[place] for run in runs):,.5g} … {max(run[place] for run in runs):,.5g}"
            for runs in (comparison.simulated, comparison.real)
        ]
        print(f"| {name} | {ours:,.5g} | {spans[0]} | {theirs:,.5g} | {spans[1]} | {theirs / ours:.3f} |")
    print(f"\nNine of ten pieces of data were at most {comparison.late_ms:.1f} ms late.")


if __name__ == "__main__":
    main()
