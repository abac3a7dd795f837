"""Connect a thousand honest peers to one node, and measure memory per peer, time until all have a mesh, and delivery.

The node has its own process. The peers, which are real nodes, share a few processes. Each peer dials the node and a
few other peers of any process. All join one topic, and messages come from random peers and from the node. All have
the address 127.0.0.1, so the node's limits per address are raised, and the limit of open files per process.

    python bench/thousand_peers.py [--peers 1000] [--processes 4] [--dials 3] [--messages 20]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from time import monotonic

sys.path.insert(0, str(Path(__file__).parent / "attack_tools"))

from children import Child, print_event

from hearsay.libp2p.node_host import HostLimits
from hearsay.libp2p.resources import ResourceLimits
from hearsay.node.config import NodeConfig, NodeLimits
from hearsay.node.node import Node

DIALLING = 4
"""Number of nodes of a process that dial at the same time."""
APART_S = 0.003
"""Seconds between two messages, per peer, because the processes must handle the deliveries of each message."""


def generous(peers: int) -> NodeConfig:
    """Return a configuration with limits for a number of peers at one address."""
    many = 4 * peers  # an address gets half of the places at most
    host = HostLimits(
        max_connections=many,
        max_per_address=many,
        max_handshakes_per_address=HostLimits().max_handshakes,
        resources=ResourceLimits(address=ResourceLimits().all),
    )
    return NodeConfig(limits=NodeLimits(host=host))


async def orders() -> asyncio.StreamReader:
    reader = asyncio.StreamReader(limit=1 << 24)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader


class Crowd:
    """The node, or some of the peers, in one process.

    Lines on stdin: the addresses to dial, as JSON with a list for each node of the process; then `publish`, several
    times; then `report`.
    """

    def __init__(self, count: int, flags: argparse.Namespace) -> None:
        self.count = count
        self.flags = flags
        self.nodes: list[Node] = []
        self.delays: list[float] = []

    async def run(self) -> None:
        async with AsyncExitStack() as stack:
            reading: list[asyncio.Future[None]] = []
            for _ in range(self.count):
                config = generous(self.flags.peers) if self.flags.node else NodeConfig()
                node = await stack.enter_async_context(Node(config))
                self.nodes.append(node)
                reading.append(asyncio.ensure_future(self.read(await node.join("news"))))
            print_event({"event": "listening", "addresses": [node.addresses[0] for node in self.nodes]})
            reader = await orders()
            addresses: list[list[str]] = json.loads(await reader.readline())
            slots = asyncio.Semaphore(DIALLING)
            await asyncio.gather(
                *(self.dial(node, chosen, slots) for node, chosen in zip(self.nodes, addresses, strict=True))
            )
            print_event({"event": "connected"})
            while not all(node.mesh("news") for node in self.nodes):
                await asyncio.sleep(0.05)
            print_event({"event": "meshed"})
            random = Random(self.count)
            while order := (await reader.readline()).decode().split():
                if order[0] == "publish":
                    await random.choice(self.nodes).publish("news", b"%.6f" % monotonic())
                elif order[0] == "report":
                    peers, mesh = len(self.nodes[0].peers), len(self.nodes[0].mesh("news"))
                    print_event({"event": "report", "delays": self.delays, "peers": peers, "mesh": mesh})

    async def dial(self, node: Node, addresses: list[str], slots: asyncio.Semaphore) -> None:
        for address in addresses:
            if address in node.addresses:
                continue
            async with slots:
                await node.connect(address)

    async def read(self, topic) -> None:
        async for message in topic:
            if message.received_from is not None:
                self.delays.append(monotonic() - float(message.data))


async def measure(flags: argparse.Namespace) -> None:
    random = Random(1)
    script = str(Path(__file__).resolve())
    size = flags.peers // flags.processes
    async with AsyncExitStack() as stack:
        node = Child.python(script, "--node", "--peers", str(flags.peers))
        crowds = [Child.python(script, "--crowd", str(size)) for _ in range(flags.processes)]
        places: list[list[str]] = []
        for child in (node, *crowds):
            await stack.enter_async_context(child)
        for child in (node, *crowds):
            said = await child.next_event("listening", 120)
            assert said is not None, child.errors.decode()[-1000:]
            places.append(said["addresses"])
        alone_mb, cpu_s, begin = node.resident_mb, node.cpu_s, monotonic()
        node.send_command("[[]]")
        peer_addresses = [address for crowd in places[1:] for address in crowd]
        for child, own in zip(crowds, places[1:], strict=True):
            child.send_command(json.dumps([[places[0][0], *random.sample(peer_addresses, flags.dials)] for _ in own]))
        for child in crowds:
            assert await child.next_event("connected", 600), child.errors.decode()[-1000:]
        connected_s = monotonic() - begin
        for child in (node, *crowds):
            assert await child.next_event("meshed", 300), child.errors.decode()[-1000:]
        meshed_s = monotonic() - begin
        await asyncio.sleep(5)
        used_mb, connecting_cpu_s = node.resident_mb - alone_mb, node.cpu_s - cpu_s
        before, cpu_s = monotonic(), node.cpu_s
        for number in range(flags.messages):
            (node, *crowds)[number % (1 + len(crowds))].send_command("publish")
            await asyncio.sleep(flags.peers * APART_S)
        await asyncio.sleep(10)
        share = (node.cpu_s - cpu_s) / (monotonic() - before)
        delays: list[float] = []
        peers = mesh = 0
        for child in (node, *crowds):
            child.send_command("report")
        for child in (node, *crowds):
            report = await child.next_event("report", 60)
            assert report is not None
            delays += report["delays"]
            if child is node:
                peers, mesh = report["peers"], report["mesh"]
    delays.sort()
    due = flags.messages * size * flags.processes
    print("| | |\n| --- | ---: |")
    print(f"| peers of the node | {peers:,}, {mesh} in its mesh |")
    print(f"| all connected after | {connected_s:.0f} s |")
    print(f"| all in a mesh after | {meshed_s:.0f} s |")
    print(f"| the node's CPU until 5 s later | {connecting_cpu_s:.1f} s |")
    print(f"| memory for each peer | {1000 * used_mb / peers:.0f} kB |")
    print(f"| delivered | {100 * len(delays) / due:.2f} % of {due:,} |")
    middle, late = (1000 * delays[len(delays) * percent // 100] for percent in (50, 99))
    print(f"| latency | p50 {middle:.0f} ms, p99 {late:.0f} ms |")
    print(f"| the node's CPU with {flags.messages} messages | {100 * share:.0f} % of a core |")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--peers", type=int, default=1000)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--dials", type=int, default=3, help="number of other peers that each peer dials")
    parser.add_argument("--messages", type=int, default=20)
    parser.add_argument("--node", action="store_true", help="internal: run as the node")
    parser.add_argument("--crowd", type=int, default=0, help="internal: run this number of peers")
    flags = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    asyncio.run(Crowd(1 if flags.node else flags.crowd, flags).run() if flags.node or flags.crowd else measure(flags))


if __name__ == "__main__":
    main()
