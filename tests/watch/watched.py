"""Watched simulations in the process of the test. The server of the page has its own thread and event loop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Thread
from typing import Any
from urllib.request import Request, urlopen

from hearsay.sim.scenario.scenario import Scenario
from hearsay.sim.simulate import Result, Simulation
from hearsay.watch.broadcast import Broadcast
from hearsay.watch.links import DrawnNodes
from hearsay.watch.picture import Picture
from hearsay.watch.server import WatchServer
from hearsay.watch.simulation import SimulatedSource


def next_event(node, event: str) -> dict[str, Any]:
    """Return the next event of this kind that a node with --json prints."""
    while True:
        found = json.loads(node.stdout.readline())
        if found["event"] == event:
            return found


@dataclass
class Watched:
    """The page of a source, as a browser uses it; `results` gets the result of the simulation at its end."""

    url: str
    source: SimulatedSource
    results: list[Result]

    @property
    def origin(self) -> str:
        return "/".join(self.url.split("/", 3)[:3])

    def ask(self, **request: Any) -> Any:
        headers = {"Content-Type": "application/json", "Origin": self.origin}
        with urlopen(Request(f"{self.url}do", json.dumps(request).encode(), headers)) as answered:
            return json.loads(answered.read())

    def frames(self) -> Iterator[dict[str, Any]]:
        with urlopen(f"{self.url}frames") as stream:
            for line in stream:
                if line.startswith(b"data: "):
                    yield json.loads(line[6:])


@contextmanager
def watched(
    scenario: Scenario, pace: float | None = None, *, paused: bool = False, **simulated: Any
) -> Iterator[Watched]:
    """Simulate on a thread, and serve the page, until the context ends."""
    loop = asyncio.new_event_loop()
    serving = Thread(target=loop.run_forever)
    serving.start()
    picture = Picture(DrawnNodes(scenario.network.nodes))
    simulation = Simulation(scenario, watcher=picture.add_rows, **simulated)
    source = SimulatedSource(simulation, picture, pace, paused=paused)
    broadcast = Broadcast(picture, source.about(), loop)
    server = WatchServer(broadcast, source.scenario_text)
    asyncio.run_coroutine_threadsafe(server.listen("127.0.0.1", 0), loop).result()
    found = Watched(server.url, source, [])

    def run() -> None:
        found.results.append(source.run(broadcast))
        source.linger()

    running = Thread(target=run)
    running.start()
    try:
        yield found
    finally:
        source.close()
        running.join()
        asyncio.run_coroutine_threadsafe(server.close(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        serving.join()
        loop.close()
