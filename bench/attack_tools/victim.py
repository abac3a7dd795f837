"""The node under attack: a real `Node` that prints a report once a second.

It runs with the version of Hearsay that is first on PYTHONPATH. Lines of JSON on stdout: `listening`, then `report`
with the longest delay of the event loop since the last report, the numbers of messages that were delivered to the
application (all, forged, repeated), the members of the mesh of `news`, the number of learnt peer addresses, the
number of groups of partial messages, and the peers that are kept out.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
from collections import Counter
from pathlib import Path

from children import print_event

from hearsay.node.config import NodeConfig
from hearsay.node.node import Node
from hearsay.wire.signing import SignaturePolicy

STEP_S = 0.01


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trace", type=Path)
    parser.add_argument("--rendezvous-point", action="store_true")
    parser.add_argument(
        "--slow-validator", type=float, help="join `slow`, with a validator that takes this number of seconds"
    )
    parser.add_argument("--unread", action="store_true", help="join the topic `unread`, and never read its messages")
    parser.add_argument(
        "--plain", action="store_true", help="join `plain-a` and `plain-b`, whose messages are unsigned"
    )
    parser.add_argument("--seen-ttl-ms", type=int, default=0)
    parser.add_argument("--refuse-replays", action="store_true")
    parser.add_argument("--accept-exchange", action="store_true")
    parser.add_argument(
        "--rejects", action="store_true", help="reject messages of `news` that begin with `rejected `"
    )
    parser.add_argument("--parts", action="store_true", help="join `parts`, with partial messages")
    parser.add_argument("--files", type=int, default=0, help="limit of open files of the process")
    flags = parser.parse_args()
    if flags.files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (flags.files, flags.files))
    asyncio.run(Victim(flags).run())


class Victim:
    def __init__(self, flags: argparse.Namespace) -> None:
        parameters: dict[str, object] = {}
        if flags.seen_ttl_ms:
            parameters["seen_ttl_ms"] = flags.seen_ttl_ms
        if flags.accept_exchange:
            parameters |= {"accept_exchange": True, "exchange_dials": 16}
        if flags.parts:
            parameters["partial_messages"] = True
        self.flags = flags
        chosen = {"refuse_replays": True} if flags.refuse_replays else {}  # version 0.1 does not have it
        self.node = Node(
            NodeConfig(rendezvous_point=flags.rendezvous_point, parameters=parameters, **chosen), trace=flags.trace
        )
        self.counts: Counter[str] = Counter()
        self.kept_out: list[tuple[str, str]] = []
        """Peers or addresses that are kept out, each with the reason."""
        if hasattr(self.node, "on_kept_out"):  # version 0.1 does not have it
            self.node.on_kept_out.append(
                lambda news: self.kept_out.append((news.peer.hex() if news.peer else news.address, news.why))
            )
        self.delay_s = 0.0

    async def run(self) -> None:
        async with self.node as node:
            tasks = [
                asyncio.ensure_future(self.read(await node.join("news"))),
                asyncio.ensure_future(self.measure_loop_delay()),
            ]
            if self.flags.slow_validator is not None:
                tasks.append(asyncio.ensure_future(self.read(await node.join("slow"))))
                node.add_validator("slow", self.validate)
            if self.flags.rejects:
                node.add_validator("news", lambda message: not message.data.startswith(b"rejected "))
            if self.flags.unread:
                await node.join("unread")
            if self.flags.parts:
                await self.join_parts()
            if self.flags.plain:
                for name in ("plain-a", "plain-b"):
                    topic = await node.join(name, signatures=SignaturePolicy.STRICT_NO_SIGN)
                    tasks.append(asyncio.ensure_future(self.read(topic)))
            print_event({"event": "listening", "address": node.addresses[0]})
            while True:
                await asyncio.sleep(1)
                self.report()

    async def join_parts(self) -> None:
        from hearsay.partial import EqualParts, PartsExchange  # noqa: PLC0415 (version 0.1 has none)

        form = EqualParts(count=8, part_bytes=16, group_bytes=8)
        await self.node.join("parts", signatures=SignaturePolicy.STRICT_NO_SIGN, partial=PartsExchange(form))

    async def read(self, topic) -> None:
        seen: set[int] = set()
        async for message in topic:
            self.counts["delivered"] += 1
            self.counts[f"delivered in {topic.name}"] += 1
            self.counts["forged"] += message.data.startswith(b"forged")
            key = hash((message.author, message.data))  # small, so that memory is the node's
            self.counts["again"] += key in seen
            if len(message.data) < 1024:
                seen.add(key)
                if len(seen) > 5000:
                    seen.clear()

    async def validate(self, _message: object) -> bool:
        await asyncio.sleep(self.flags.slow_validator)
        return True

    async def measure_loop_delay(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            before = loop.time()
            await asyncio.sleep(STEP_S)
            self.delay_s = max(self.delay_s, loop.time() - before - STEP_S)

    def report(self) -> None:
        mesh = [peer.hex() for peer in self.node.mesh("news")]
        learnt = len(self.node._discovery.known)  # type: ignore[attr-defined]
        groups = len(self.node._running.router.strategy.partials.groups) if self.flags.parts else 0  # type: ignore[attr-defined]
        kept = {"mesh": mesh, "learnt": learnt, "groups": groups, "kept_out": self.kept_out}
        print_event({"event": "report", "loop_delay_s": self.delay_s, **kept, **self.counts})
        self.delay_s = 0.0


if __name__ == "__main__":
    main()
