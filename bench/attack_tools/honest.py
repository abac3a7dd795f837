"""Honest nodes that reach each other only through the node under attack, and a newcomer each second that dials it.

Each node and newcomer dials from its own address. Commands on stdin: `publish` (begin to publish), `stop`, `report`.
Lines of JSON on stdout: `ready` with the addresses of the nodes, then a `report` with the number of expected and of
arrived messages, their latency, the number of nodes that received nothing, the newcomers' dials and refusals, and the
delay of this process's event loop.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter
from hashlib import sha256
from time import monotonic

from children import print_event
from members import GoMember, ManyAddresses, Member, OurMember

from hearsay.libp2p.host import Host
from hearsay.libp2p.names.errors import DialError
from hearsay.wire.signing import SignaturePolicy

PLAIN = ("plain-a", "plain-b")
DIAL_SECONDS = 5.0
STEP_S = 0.02


class HonestPeers:
    def __init__(self, flags: argparse.Namespace) -> None:
        self.flags = flags
        self.topics = PLAIN if flags.plain else (flags.topic,)
        self.members: list[Member] = [OurMember(flags.target) for _ in range(flags.nodes)]
        for place in range(flags.go):
            self.members.append(GoMember(flags.target, f"/ip4/127.{flags.network}.255.{1 + place}/tcp/0"))
        self.published: dict[tuple[int, bytes], float] = {}
        """The time of each publication, by index of the topic and digest of the data."""
        self.arrived: list[dict[tuple[int, bytes], float]] = [{} for _ in self.members]
        self.dials = self.dialled = 0
        self.refusals: Counter[str] = Counter()
        self.late: list[float] = []
        self.is_publishing = False

    async def run(self) -> None:
        policy = SignaturePolicy.STRICT_NO_SIGN if self.flags.plain else None
        for place, member in enumerate(self.members):
            await member.join(
                self.topics, policy, lambda topic, digest, place=place: self.note_arrival(place, topic, digest)
            )
        try:
            async with asyncio.timeout(60):
                while not all(member.meshed(self.topics) for member in self.members):
                    await asyncio.sleep(0.05)
            print_event({"event": "ready", "relays": [member.address for member in self.members]})
            work = [self.publish(place) for place in range(len(self.members))]
            tasks = [asyncio.ensure_future(each) for each in (*work, self.newcomers(), self.measure_loop_delays())]
            await self.run_commands()
            for task in tasks:
                task.cancel()
        finally:
            for member in self.members:
                await member.close()

    async def run_commands(self) -> None:
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while order := (await reader.readline()).decode().strip():
            if order == "report":
                self.report()
            else:
                self.is_publishing = order == "publish"

    def note_arrival(self, place: int, topic: int, digest: bytes) -> None:
        key = topic, digest
        if key in self.published:
            self.arrived[place].setdefault(key, monotonic() - self.published[key])

    async def publish(self, place: int) -> None:
        flags, count = self.flags, 0
        await asyncio.sleep(place / len(self.members) / flags.rate)
        while True:
            if self.is_publishing:
                data = (b"honest %d %d " % (place, count)).ljust(flags.size, b".")
                count += 1
                for offset, topic in enumerate(self.topics):
                    self.published[offset, sha256(data).digest()] = monotonic()
                    await self.members[place].publish(topic, data)
            await asyncio.sleep(1 / flags.rate)

    async def newcomers(self) -> None:
        while True:
            await asyncio.sleep(1)
            if not self.is_publishing:
                continue
            host = Host()
            self.dials += 1
            try:
                async with asyncio.timeout(DIAL_SECONDS):
                    await host.dial(self.flags.target)
                    await asyncio.sleep(0.2)  # a refusal after the handshake arrives now
                if host.connections:
                    self.dialled += 1
                else:
                    self.refusals["closed after the handshake"] += 1
            except TimeoutError:
                self.refusals["no handshake in time"] += 1
            except DialError as error:
                self.refusals[error.reason] += 1
            finally:
                await host.close()

    async def measure_loop_delays(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            before = loop.time()
            await asyncio.sleep(STEP_S)
            self.late.append(loop.time() - before - STEP_S)

    def report(self) -> None:
        delays = sorted(delay for arrived in self.arrived for delay in arrived.values())
        due = len(self.published) * (len(self.members) - 1)
        print_event(
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
                "refusals": self.refusals,
                "late_p99_s": _quantile(sorted(self.late), 0.99),
                "late_max_s": max(self.late, default=None),
            }
        )


def _quantile(ordered: list[float], share: float) -> float | None:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else None


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("target")
    parser.add_argument("--topic", default="news")
    parser.add_argument("--plain", action="store_true", help="publish the same unsigned data in two topics")
    parser.add_argument("--nodes", type=int, default=6)
    parser.add_argument("--go", type=int, default=0, help="number of additional peers with go-libp2p-pubsub")
    parser.add_argument("--network", type=int, default=2, help="dial from 127.NETWORK.0.0/16")
    parser.add_argument("--rate", type=float, default=2.0, help="messages per second of each peer")
    parser.add_argument("--size", type=int, default=200)
    flags = parser.parse_args()
    with asyncio.Runner(loop_factory=lambda: ManyAddresses(flags.network)) as runner:
        runner.run(HonestPeers(flags).run())


if __name__ == "__main__":
    main()
