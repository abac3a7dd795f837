"""Kill a third of the node processes of a network under load with SIGKILL.

Each survivor must receive all messages that survivors publish after the kill, its mesh must fill again, and the
traces of the killed nodes must be readable. The program prints the time until the meshes are full, in heartbeats of
one second.

    python bench/killed_nodes.py [PROCESSES]
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import sys
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent / "interop"))

from foreign_peers import PeerProcess

from hearsay.trace.compare_runs import verify
from hearsay.trace.reader import read_rows

DIALS = 6
DEGREE_LOW = 4
EVERY_S = 0.02


class Figures(NamedTuple):
    refill_s: float
    messages: int
    rows_of_the_killed: int


class Load:
    """Messages that the peers publish in turn, one every `EVERY_S` seconds, until the task is cancelled."""

    def __init__(self) -> None:
        self.peers: list[PeerProcess] = []
        self.sent: list[tuple[PeerProcess, str]] = []
        self._number = 0

    async def run(self) -> None:
        while True:
            peer = self.peers[self._number % len(self.peers)]
            text = f"message {self._number}"
            self._number += 1
            peer.send_command(f"say news {text}")
            self.sent.append((peer, hashlib.sha256(text.encode()).hexdigest()))
            await asyncio.sleep(EVERY_S)


async def measure(count: int, later: int, directory: Path) -> Figures:
    """Run the network with `later` messages after the kill. Wait until each survivor has received all of them.

    Raise AssertionError if a message is delivered twice or a trace cannot be read.
    """
    async with AsyncExitStack() as stack:
        peers: list[PeerProcess] = []
        for place in range(count):
            dial = ",".join(peer.address for peer in peers[-DIALS:])
            flags = (
                "--topics",
                "news",
                "--trace",
                str(directory / str(place)),
                *(("--connect", dial) if dial else ()),
            )
            peers.append(await stack.enter_async_context(PeerProcess("ours", *flags)))
        for place, peer in enumerate(peers):
            links = min(place, DIALS) + min(count - 1 - place, DIALS)
            await peer.until(lambda peer=peer, links=links: peer.topics.get("news") == links)
            await peer.until(lambda peer=peer, links=links: peer.mesh["news"] >= min(DEGREE_LOW, links))
        load = Load()
        load.peers = list(peers)
        publishing = asyncio.ensure_future(load.run())
        victims, survivors = peers[1::3], [peer for place, peer in enumerate(peers) if place % 3 != 1]
        while not all(list((directory / str(place)).glob("*/manifest.json")) for place in range(1, count, 3)):
            await asyncio.sleep(0.1)
        for peer in victims:
            os.kill(peer.pid, signal.SIGKILL)
        load.peers = survivors
        load.sent.clear()
        killed = monotonic()
        links = {
            peer: sum(1 for place in neighbours(peers.index(peer), count) if peers[place] in survivors)
            for peer in survivors
        }
        for peer in survivors:
            await peer.until(lambda peer=peer: peer.topics["news"] == links[peer])
            await peer.until(lambda peer=peer: peer.mesh["news"] >= min(DEGREE_LOW, links[peer]))
        refilled = monotonic()
        while len(load.sent) < later:
            await asyncio.sleep(0.05)
        publishing.cancel()
        for peer in survivors:
            expected = {digest for author, digest in load.sent if author is not peer}
            await peer.until(lambda peer=peer, expected=expected: expected <= delivery_counts(peer).keys())
            assert max(delivery_counts(peer).values()) == 1, "a message was delivered twice"
    rows = 0
    for place in range(1, count, 3):
        for folder in sorted(path.parent for path in (directory / str(place)).glob("*/manifest.json")):
            assert verify(folder) == []
            rows += len(read_rows(folder))
    assert rows
    return Figures(refilled - killed, len(load.sent), rows)


def neighbours(place: int, count: int) -> list[int]:
    return [other for other in range(count) if other != place and abs(other - place) <= DIALS]


def delivery_counts(peer: PeerProcess) -> Counter[object]:
    return Counter(message["sha256"] for message in peer.messages)


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    with TemporaryDirectory() as directory:
        found = asyncio.run(measure(count, 500, Path(directory)))
    print(f"{len(range(1, count, 3))} of {count} node processes killed under load of {1 / EVERY_S:.0f} messages/s")
    print(f"meshes of the survivors filled again after {found.refill_s:.2f} heartbeats of 1 s")
    print(f"all {found.messages} messages published after the kill arrived at all survivors")
    print(f"{found.rows_of_the_killed:,} rows of the killed nodes' traces read and verified")


if __name__ == "__main__":
    main()
