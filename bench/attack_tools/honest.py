"""Honest nodes that hear each other through the node under attack alone, and one newcomer a second who dials it.

Told on stdin: `publish` (begin), `stop`, `report`. On stdout: `ready`, then a `report` with what was published since
`publish`, what arrived of that, how long it took, how many nodes heard nothing, and how the newcomers fared.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from contextlib import suppress
from time import monotonic

from hearsay.libp2p.host.host import Host
from hearsay.libp2p.names.errors import DialError
from hearsay.node.config import NodeConfig
from hearsay.node.node import Node
from hearsay.wire.signing import SignaturePolicy

PLAIN = ("plain-a", "plain-b")
DIAL_SECONDS = 5.0


class Company:
    def __init__(self, flags: argparse.Namespace) -> None:
        self.flags = flags
        self.nodes: list[Node] = []
        self.published: dict[int, float] = {}
        self.arrived: list[dict[int, float]] = []
        self.late: list[float] = []
        self.dials = self.dialled = 0
        self.busy = False

    async def run(self) -> None:
        flags = self.flags
        topics = PLAIN if flags.plain else (flags.topic,)
        policy = SignaturePolicy.STRICT_NO_SIGN if flags.plain else None
        tasks: list[asyncio.Future[None]] = []
        for place in range(flags.nodes):
            node = Node(NodeConfig(bootstrap=(flags.target,)))
            await node.__aenter__()
            self.nodes.append(node)
            self.arrived.append({})
            for name in topics:
                topic = await node.join(name, signatures=policy)
                tasks.append(asyncio.ensure_future(self.listen(place, topic, topics.index(name))))
        async with asyncio.timeout(60):
            while not all(node.topic_peers(name) and node.mesh(name) for node in self.nodes for name in topics):
                await asyncio.sleep(0.05)
        say({"event": "ready"})
        tasks += [asyncio.ensure_future(self.publish(place, topics)) for place in range(flags.nodes)]
        tasks.append(asyncio.ensure_future(self.newcomers()))
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while order := (await reader.readline()).decode().strip():
            if order == "report":
                self.report()
            else:
                self.busy = order == "publish"

    async def listen(self, place: int, topic, offset: int) -> None:
        arrived = self.arrived[place]
        async for message in topic:
            if message.received_from is None or not message.data.startswith(b"honest "):
                continue
            number = 2 * int(message.data.split(b" ", 2)[1]) + offset
            if number in self.published and number not in arrived:
                arrived[number] = monotonic() - self.published[number]

    async def publish(self, place: int, topics: tuple[str, ...]) -> None:
        flags, count = self.flags, 0
        await asyncio.sleep(place / flags.nodes / flags.rate)
        while True:
            if self.busy:
                number = place + flags.nodes * count
                count += 1
                data = (b"honest %d " % number).ljust(flags.size, b".")
                for offset, topic in enumerate(topics):
                    self.published[2 * number + offset] = monotonic()
                    await self.nodes[place].publish(topic, data)
            await asyncio.sleep(1 / flags.rate)

    async def newcomers(self) -> None:
        while True:
            await asyncio.sleep(1)
            if not self.busy:
                continue
            host = Host()
            self.dials += 1
            try:
                with suppress(TimeoutError, DialError):
                    async with asyncio.timeout(DIAL_SECONDS):
                        await host.dial(self.flags.target)
                        await asyncio.sleep(0.2)  # who is refused after the handshake hears of it now
                        self.dialled += bool(host.connections)
            finally:
                await host.close()

    def report(self) -> None:
        delays = sorted(delay for arrived in self.arrived for delay in arrived.values())
        due = len(self.published) * (len(self.nodes) - 1)
        # With `--plain` a node's own message arrives nowhere at itself, so that the count is the same.
        say(
            {
                "event": "report",
                "due": due,
                "arrived": len(delays),
                "p50_s": _quantile(delays, 0.5),
                "p99_s": _quantile(delays, 0.99),
                "max_s": delays[-1] if delays else None,
                "starved": sum(not arrived for arrived in self.arrived),
                "dials": self.dials,
                "dialled": self.dialled,
            }
        )


def _quantile(ordered: list[float], share: float) -> float | None:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else None


def say(event: dict[str, object]) -> None:
    print(json.dumps(event), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("target")
    parser.add_argument("--topic", default="news")
    parser.add_argument("--plain", action="store_true", help="the same data in two topics, unsigned")
    parser.add_argument("--nodes", type=int, default=6)
    parser.add_argument("--rate", type=float, default=2.0, help="messages a second of each node")
    parser.add_argument("--size", type=int, default=200)
    asyncio.run(Company(parser.parse_args()).run())


if __name__ == "__main__":
    main()
