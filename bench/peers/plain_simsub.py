"""simsub's gossipsub in plain Python, as small as possible, as a measure for the reference engine.

It has nodes with sets, and a heap of events, but no router interface, parameters, trace, checks or topics. Random
choices use the same hash as the engine, so the work per choice is comparable, but the choices differ.

    python bench/peers/plain_simsub.py NODES MESSAGES DELAY_SECONDS [SEED]
"""

from __future__ import annotations

import heapq
import sys
import time
from collections import deque

from hearsay.core.rules.randomness import GOLDEN, Purpose, Randomness, mix

HEARTBEAT, CONNECT, GRAFT, PRUNE, PUBLISH, IHAVE, IWANT = range(7)
DEGREE, LOW, HIGH, WINDOWS, GOSSIP = 6, 4, 12, 120, 3
SECOND = 1_000_000


class Node:
    __slots__ = ("history", "id", "mesh", "peers", "seen", "tick", "window", "world")

    def __init__(self, number: int, world: World) -> None:
        self.id = number
        self.world = world
        self.peers: set[int] = set()
        self.mesh: set[int] = set()
        self.seen: set[int] = set()
        self.window: list[int] = []
        self.history: deque[list[int]] = deque()
        self.tick = 0

    def on(self, kind: int, source: int, load) -> None:
        send = self.world.send
        if kind == PUBLISH:
            if load not in self.seen:
                self.seen.add(load)
                self.window.append(load)
                self.world.delivered += 1
                for peer in self.mesh:
                    if peer != source:
                        send(self.id, peer, PUBLISH, load)
        elif kind == IHAVE:
            wanted = tuple(number for number in load if number not in self.seen)
            if wanted:
                send(self.id, source, IWANT, wanted)
        elif kind == HEARTBEAT:
            self.heartbeat()
        elif kind == GRAFT:
            self.mesh.add(source)
        elif kind == PRUNE:
            self.mesh.discard(source)
        elif kind == IWANT:
            for number in load:
                if number in self.seen:
                    send(self.id, source, PUBLISH, number)
        else:
            self.peers.add(source)

    def heartbeat(self) -> None:
        world = self.world
        self.tick += 1
        size = len(self.mesh)
        if size < LOW:
            for peer in world.choose(Purpose.GRAFT, self, self.peers - self.mesh, DEGREE - size):
                world.send(self.id, peer, GRAFT, None)
                self.mesh.add(peer)
        if size > HIGH:
            for peer in world.choose(Purpose.PRUNE, self, self.mesh, size - DEGREE):
                world.send(self.id, peer, PRUNE, None)
                self.mesh.discard(peer)
        self.history.appendleft(self.window)
        self.window = []
        if len(self.history) > WINDOWS:
            self.seen.difference_update(self.history.pop())
        ids = tuple(number for window in list(self.history)[:GOSSIP] for number in window)
        if ids:
            for peer in world.choose(Purpose.GOSSIP, self, self.peers, DEGREE):
                if peer not in self.mesh:
                    world.send(self.id, peer, IHAVE, ids)
        heapq.heappush(world.queue, (world.now + SECOND, self.id, HEARTBEAT, -1, None))


class World:
    def __init__(self, nodes: int, messages: int, delay_us: int, seed: int) -> None:
        self.randomness = Randomness(seed)
        self.queue: list[tuple] = []
        self.now = 0
        self.sent = [0] * 7
        self.delivered = 0
        self.events = 0
        self.latency_state = self.randomness.draw(Purpose.LATENCY)
        self.end = 15 * SECOND + messages * delay_us
        self.nodes = [Node(number, self) for number in range(nodes)]
        for node in self.nodes:
            for peer in self.randomness.distinct(min(10, nodes - 1), nodes, node.id, Purpose.TOPOLOGY, node.id):
                node.peers.add(peer)
                self.send(node.id, peer, CONNECT, None)
            first = SECOND + self.randomness.below(SECOND, Purpose.HEARTBEAT_PHASE, node.id)
            heapq.heappush(self.queue, (first, node.id, HEARTBEAT, -1, None))
        for message in range(messages):
            self.now = 5 * SECOND + message * delay_us
            for peer in self.randomness.distinct(min(5, nodes), nodes, -1, Purpose.INJECTION, message):
                self.send(nodes, peer, PUBLISH, message)
        self.now = 0

    def choose(self, purpose: Purpose, node: Node, candidates: set[int], count: int) -> list[int]:
        state = self.randomness.draw(purpose, node.id, node.tick)
        return sorted(candidates, key=lambda peer: (mix(state + peer * GOLDEN), peer))[:count]

    def send(self, source: int, destination: int, kind: int, load) -> None:
        self.sent[kind] += 1
        low, high = (source, destination) if source < destination else (destination, source)
        draw = mix(mix(self.latency_state + low * GOLDEN) + high * GOLDEN)
        arrival = self.now + 10_000 + (((draw >> 32) * 140_001) >> 32)
        heapq.heappush(self.queue, (arrival, destination, kind, source, load))

    def run(self) -> None:
        queue, nodes, pop = self.queue, self.nodes, heapq.heappop
        while queue and queue[0][0] < self.end:
            self.now, destination, kind, source, load = pop(queue)
            self.events += 1
            nodes[destination].on(kind, source, load)


def main() -> None:
    nodes, messages, delay = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    world = World(nodes, messages, round(delay * SECOND), int(sys.argv[4]) if len(sys.argv) > 4 else 1)
    start = time.process_time()
    world.run()
    seconds = time.process_time() - start
    print(f"{world.events} {seconds:.6f} {world.delivered}")


if __name__ == "__main__":
    main()
