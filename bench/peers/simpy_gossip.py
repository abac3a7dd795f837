"""A model of simsub's network with processes of SimPy, a general simulator. `bench/array_speed.py` calls it.

    python bench/peers/simpy_gossip.py NODES MESSAGES INTERVAL

Numbers are simsub's: ten dials per node, latencies of 10–150 ms, a heartbeat per second, D 6, D_low 4, gossip to six
peers, five nodes that get each message at first. Mesh links are made at both ends at once, without messages, and are
never pruned. Nothing is traced or hashed. It needs `pip install simpy`.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from time import perf_counter
from typing import Any

import simpy

DEGREE, LAZY, KEPT, WARM_UP, LINGER = 6, 6, 3, 5.0, 10.0


class Network:
    def __init__(self, nodes: int, messages: int, interval: float) -> None:
        self.clock = simpy.Environment()
        self.chance = random.Random(1)
        self.events = 0
        self.delivered = 0
        peers: list[set[int]] = [set() for _ in range(nodes)]
        for node in range(nodes):
            for other in self.chance.sample(range(nodes), min(10, nodes)):
                if other != node:
                    peers[node].add(other)
                    peers[other].add(node)
        self.peers = [sorted(each) for each in peers]
        self.latency = {
            (node, other): self.chance.uniform(0.01, 0.15)
            for node in range(nodes)
            for other in self.peers[node]
            if node < other
        }
        self.mesh: list[set[int]] = [set() for _ in range(nodes)]
        for node in range(nodes):
            self._graft(node)
        self.seen: list[dict[int, int]] = [{} for _ in range(nodes)]
        self.beat = [0] * nodes
        for node in range(nodes):
            self.clock.process(self._heartbeat(node))
        self.clock.process(self._script(messages, interval))
        self.end = WARM_UP + messages * interval + LINGER

    def _graft(self, node: int) -> None:
        missing = DEGREE - len(self.mesh[node])
        free = [peer for peer in self.peers[node] if peer not in self.mesh[node]]
        for peer in self.chance.sample(free, max(0, min(missing, len(free)))):
            self.mesh[node].add(peer)
            self.mesh[peer].add(node)

    def _send(self, node: int, peer: int, what: str, load: Any) -> None:
        self.clock.process(self._travel(node, peer, what, load))

    def _travel(self, node: int, peer: int, what: str, load: Any) -> Iterator[Any]:
        yield self.clock.timeout(self.latency[min(node, peer), max(node, peer)])
        self.events += 1
        if what == "publish":
            self._receive(peer, load, node)
        elif what == "ihave":
            wanted = [message for message in load if message not in self.seen[peer]]
            if wanted:
                self._send(peer, node, "iwant", wanted)
        else:
            for message in load:
                self._send(peer, node, "publish", message)

    def _receive(self, node: int, message: int, sender: int) -> None:
        if message in self.seen[node]:
            return
        self.seen[node][message] = self.beat[node]
        self.delivered += 1
        for peer in self.mesh[node]:
            if peer != sender:
                self._send(node, peer, "publish", message)

    def _heartbeat(self, node: int) -> Iterator[Any]:
        yield self.clock.timeout(1 + self.chance.random())
        while True:
            self.events += 1
            self.beat[node] += 1
            if len(self.mesh[node]) < 4:
                self._graft(node)
            recent = [message for message, beat in self.seen[node].items() if self.beat[node] - beat <= KEPT]
            if recent:
                for peer in self.chance.sample(self.peers[node], min(LAZY, len(self.peers[node]))):
                    if peer not in self.mesh[node]:
                        self._send(node, peer, "ihave", recent)
            yield self.clock.timeout(1)

    def _script(self, messages: int, interval: float) -> Iterator[Any]:
        yield self.clock.timeout(WARM_UP)
        for message in range(messages):
            for node in self.chance.sample(range(len(self.peers)), 5):
                self.events += 1
                self._receive(node, message, -1)
            yield self.clock.timeout(interval)


def main() -> None:
    nodes, messages, interval = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    network = Network(nodes, messages, interval)
    started = perf_counter()
    network.clock.run(until=network.end)
    taken = perf_counter() - started
    print(json.dumps({"wall": taken, "events": network.events, "delivered": network.delivered}))


if __name__ == "__main__":
    main()
