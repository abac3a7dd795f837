"""Run many real nodes in one process on loopback, and measure start, meshes, delivery, and memory per node.

Each node dials a few earlier nodes. All nodes join one topic, and random nodes publish messages. The program fails if
a message is not delivered to all nodes.

    python bench/many_nodes.py [NODES] [MESSAGES]
"""

from __future__ import annotations

import asyncio
import gc
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from time import monotonic
from typing import NamedTuple

from hearsay.node.config import NodeConfig
from hearsay.node.node import Node

DIALS = 6
STARTING = 10
"""Number of nodes that dial at the same time; with more, handshakes take too long, because they share a process."""


class Figures(NamedTuple):
    start_s: float
    mesh_s: float
    delivery_s: float
    copies: float
    bytes_per_node: float


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


async def measure(count: int, messages: int, seed: int = 1) -> Figures:
    """Run the nodes and return the figures.

    Raise AssertionError if a node delivers too many messages, and TimeoutError if meshes or deliveries take longer
    than two minutes.
    """
    random = Random(seed)
    gc.collect()
    before, begin = resident_bytes(), monotonic()
    async with AsyncExitStack() as stack:
        nodes: list[Node] = []
        for first in range(0, count, STARTING):
            new = range(first, min(first + STARTING, count))
            group = [await stack.enter_async_context(Node(NodeConfig())) for _ in new]
            nodes += group
            for node in group:
                await node.join("news")
            dials = [
                node.connect(other.addresses[0])
                for place, node in enumerate(group, first)
                for other in random.sample(nodes[:place], min(place, DIALS))
            ]
            await asyncio.gather(*dials)
        started = monotonic()
        # A mesh may stay small for a minute, because a pruned node waits for the end of the backoff.
        await wait_until(
            lambda: all(node.mesh("news") and node.topic_peers("news") == len(node.peers) for node in nodes)
        )
        meshed = monotonic()
        used = resident_bytes() - before
        published: set[bytes] = set()
        for number in range(messages):
            published.add((await random.choice(nodes).publish("news", b"message %d" % number)).message_id)
            await asyncio.sleep(0)
        assert len(published) == messages
        await wait_until(lambda: all(node.statistics.delivered >= messages for node in nodes))
        delivered = monotonic()
        assert all(node.statistics.delivered == messages for node in nodes)
        received = sum(node.statistics.delivered + node.statistics.duplicates for node in nodes)
    copies = (received - messages) / (messages * (count - 1))
    return Figures(started - begin, meshed - started, delivered - meshed, copies, used / count)


async def wait_until(condition) -> None:
    async with asyncio.timeout(120):
        while not condition():
            await asyncio.sleep(0.02)


def main() -> None:
    count, messages = (int(word) for word in (sys.argv[1:] + ["200", "100"][len(sys.argv) - 1 :]))
    found = asyncio.run(measure(count, messages))
    print(f"{count} nodes started and connected in {found.start_s:.1f} s, meshes after {found.mesh_s:.1f} s more")
    print(f"{messages} messages at all nodes after {found.delivery_s:.1f} s, {found.copies:.2f} copies per delivery")
    print(f"{found.bytes_per_node / 1e3:.0f} kB of memory per node")


if __name__ == "__main__":
    main()
