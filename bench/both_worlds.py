"""One scenario in both worlds: simulated, and with real nodes on loopback whose links are delayed as much.

The plan (who dials whom, who publishes what and when, how long each link takes) is the simulator's. In the real
world every dial goes through a line that holds all bytes back for the link's latency, in both directions. The
figures of both are computed from their traces by the same lines. Random choices differ, of one seed from another as
of the real network from all, so the simulated figures are the means over some seeds.

    python bench/both_worlds.py
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from time import time_ns
from typing import NamedTuple

import numpy as np

from hearsay.core.randomness import Randomness
from hearsay.node.config import NodeConfig
from hearsay.node.node import Node
from hearsay.sim.latency import make_latency
from hearsay.sim.plan import Plan, make_plan
from hearsay.sim.scenario_file import load_scenario
from hearsay.sim.simulate import Simulation
from hearsay.trace.reader import read_rows
from hearsay.trace.rows import Rows
from hearsay.trace.run_folder import RunFolder
from hearsay.trace.schema import NONE, Column, PartKind, TraceEvent

SCENARIO = {
    "network.nodes": 20,
    "network.degree": 6,
    "topics.0.count": 4,
    "links.min_ms": 100,
    "links.max_ms": 300,
    "warmup_s": 9,
    "linger_s": 3,
    "workload.messages": 40,
    "workload.interval_s": 0.3,
    "workload.publishers": "subscribers",
    "router.preset": "v1.1",
    # Real nodes need some round trips until they know each other. Heartbeats begin together: which GRAFTs cross on
    # their way is chance otherwise, and the number of GRAFTs differs by 8 % from one simulated seed to the next.
    "router.first_heartbeat_ms": 6000,
    "router.first_heartbeat_spread_ms": 0,
}

SEEDS = range(1, 10)


class Figures(NamedTuple):
    grafts: float
    copies_per_delivery: float
    p50_ms: float
    deliveries: float


def figures(rows: Rows) -> Figures:
    """From SEND_RPC, RECV_RPC, PUBLISH and DELIVER rows. Deliveries are those at others than the publisher."""
    event, kind = rows[:, Column.EVENT], rows[:, Column.KIND]
    grafts = int(((event == TraceEvent.SEND_RPC) & (kind == PartKind.GRAFT)).sum())
    copies = int(((event == TraceEvent.RECV_RPC) & (kind == PartKind.PUBLISH)).sum())
    published = {row[Column.MESSAGE]: row[Column.TIME_US] for row in rows[event == TraceEvent.PUBLISH].tolist()}
    delivered = rows[(event == TraceEvent.DELIVER) & (rows[:, Column.REMOTE] != NONE)].tolist()
    taken = [row[Column.TIME_US] - published[row[Column.MESSAGE]] for row in delivered]
    return Figures(grafts, copies / len(delivered), float(np.median(taken)) / 1000, len(delivered))


def plans(directory: Path) -> list[Plan]:
    """One for each seed, all with the graph of the first."""
    first = _plan(SEEDS[0])
    edges = directory / "edges.txt"
    edges.write_text("".join(f"{node} {other}\n" for node, others in enumerate(first.dials) for other in others))
    graph = (("network.topology", "edge_list"), ("network.edges_file", str(edges)))
    return [first, *(_plan(seed, *graph) for seed in SEEDS[1:])]


def _plan(seed: int, *more: tuple[str, object]) -> Plan:
    return make_plan(load_scenario(None, None, (*SCENARIO.items(), ("seed", seed), *more)))


def simulated(plan: Plan, directory: Path) -> Figures:
    Simulation(plan.scenario, folder=RunFolder.create(directory)).run()
    return figures(read_rows(directory, derive=True))


async def real(plan: Plan, directory: Path) -> Figures:
    scenario = plan.scenario
    latency = make_latency(scenario, Randomness(scenario.seed))
    kind, parameters = plan.routers[0]
    config = NodeConfig(router=kind.name, parameters=parameters.to_mapping())
    async with AsyncExitStack() as stack:
        nodes = [Node(config, trace=directory / str(place)) for place in range(scenario.network.nodes)]
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
                    Line(nodes[target].addresses[0], latency.base_us(place, target))
                )
                dials.append(asyncio.ensure_future(nodes[place].connect(line.address)))
        await asyncio.gather(*dials)
        for publication in plan.publications:
            await asyncio.sleep(start + publication.time_us / 1e6 - asyncio.get_running_loop().time())
            data = b"message %d ".ljust(publication.size_bytes, b"x") % publication.message
            await nodes[publication.publisher].publish(plan.topics[publication.topic], data)
        await asyncio.sleep(start + plan.end_us / 1e6 - asyncio.get_running_loop().time())
        end_us = time_ns() // 1000
        for node in nodes:
            await node.close()
    folders = sorted(path.parent for path in directory.glob("*/*/manifest.json"))
    rows = np.concatenate([read_rows(folder) for folder in folders])
    return figures(rows[rows[:, Column.TIME_US] < end_us])  # meshes repair themselves while nodes leave


class Line:
    """A listener that passes connections on to an address, every byte late by the same time."""

    def __init__(self, target: str, latency_us: int) -> None:
        _, _, self._host, _, port, _, self._peer = target.split("/")
        self._port = int(port)
        self._latency_s = latency_us / 1e6
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
            task = asyncio.ensure_future(self._carry(source, target))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _carry(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        flying: deque[bytes] = deque()
        data = b"-"
        while data:
            try:
                data = await source.read(1 << 16)
            except ConnectionError:
                data = b""
            flying.append(data)
            loop.call_later(self._latency_s, self._land, flying, target)

    @staticmethod
    def _land(flying: deque[bytes], target: asyncio.StreamWriter) -> None:
        data = flying.popleft()
        if data:
            target.write(data)
        else:
            target.close()


def compare(directory: Path) -> tuple[Figures, Figures]:
    """The figures of the simulated networks and of the real one."""
    made = plans(directory)
    runs = [simulated(plan, directory / f"simulated-{plan.scenario.seed}") for plan in made]
    return Figures(*map(fmean, zip(*runs, strict=True))), asyncio.run(real(made[0], directory / "real"))


def main() -> None:
    with TemporaryDirectory() as directory:
        in_simulation, in_reality = compare(Path(directory))
    print("| | simulated | real | real / simulated |\n| --- | ---: | ---: | ---: |")
    for name, ours, theirs in zip(Figures._fields, in_simulation, in_reality, strict=True):
        print(f"| {name} | {ours:,.5g} | {theirs:,.5g} | {theirs / ours:.3f} |")


if __name__ == "__main__":
    main()
