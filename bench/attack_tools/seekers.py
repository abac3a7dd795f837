"""Measure the time until two honest nodes that know only a rendezvous point are connected."""

from __future__ import annotations

import argparse
import asyncio
from time import monotonic

from children import print_event

from hearsay.node.config import NodeConfig
from hearsay.node.node import Node


async def seek(point: str, topic: str, within_s: float) -> float | None:
    begin = monotonic()
    async with Node(NodeConfig(rendezvous=(point,))) as first, Node(NodeConfig(rendezvous=(point,))) as second:
        await first.join(topic)
        await second.join(topic)
        try:
            async with asyncio.timeout(within_s):
                while second.peer not in first.peers:
                    await asyncio.sleep(0.05)
        except TimeoutError:
            return None
        return monotonic() - begin


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("point")
    parser.add_argument("--topic", default="meet")
    parser.add_argument("--within", type=float, default=60)
    flags = parser.parse_args()
    print_event({"event": "met", "seconds": asyncio.run(seek(flags.point, flags.topic, flags.within))})


if __name__ == "__main__":
    main()
