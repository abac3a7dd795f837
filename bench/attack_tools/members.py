"""Honest peers of the node under attack: Hearsay's nodes, and peers of go-libp2p-pubsub."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Protocol

sys.path.insert(0, str(Path(__file__).parents[2] / "interop"))

from foreign_peers import PeerProcess

from hearsay.node.config import NodeConfig
from hearsay.node.node import Node
from hearsay.wire.signing import SignaturePolicy

Arrived = Callable[[int, bytes], None]
"""A callback for a message of another node, with the index of its topic and the SHA-256 of its data."""


class Member(Protocol):
    address: str
    """The multiaddr at which attackers reach the peer."""

    async def join(self, topics: tuple[str, ...], policy: SignaturePolicy | None, arrived: Arrived) -> None: ...

    def meshed(self, topics: tuple[str, ...]) -> bool: ...

    async def publish(self, topic: str, data: bytes) -> None: ...

    async def close(self) -> None: ...


class OurMember:
    def __init__(self, target: str) -> None:
        self._node = Node(NodeConfig(bootstrap=(target,)))
        self._tasks: list[asyncio.Future[None]] = []
        self.address = ""

    async def join(self, topics: tuple[str, ...], policy: SignaturePolicy | None, arrived: Arrived) -> None:
        await self._node.__aenter__()
        self.address = self._node.addresses[0]
        for place, name in enumerate(topics):
            topic = await self._node.join(name, signatures=policy)
            self._tasks.append(asyncio.ensure_future(self._listen(topic, place, arrived)))

    async def _listen(self, topic, place: int, arrived: Arrived) -> None:
        async for message in topic:
            if message.received_from is not None:
                arrived(place, sha256(message.data).digest())

    def meshed(self, topics: tuple[str, ...]) -> bool:
        return all(self._node.topic_peers(name) and self._node.mesh(name) for name in topics)

    async def publish(self, topic: str, data: bytes) -> None:
        await self._node.publish(topic, data)

    async def close(self) -> None:
        await self._node.close()


class GoMember:
    """A Go peer with scores: a node that relays messages which Go finds invalid falls below its thresholds."""

    def __init__(self, target: str, listen: str) -> None:
        self._target, self._listen_at = target, listen
        self.address = ""

    async def join(self, topics: tuple[str, ...], policy: SignaturePolicy | None, arrived: Arrived) -> None:
        flags = ("-topics", ",".join(topics), "-connect", self._target, "-listen", self._listen_at, "-scored")
        self._process = await PeerProcess("go", *flags).__aenter__()
        self.address = self._process.address
        self._task = asyncio.ensure_future(self._listen(topics, arrived))

    async def _listen(self, topics: tuple[str, ...], arrived: Arrived) -> None:
        messages = self._process.messages
        while True:
            await self._process.until(lambda: bool(messages))
            for message in messages:
                arrived(topics.index(str(message["topic"])), bytes.fromhex(str(message["sha256"])))
            messages.clear()

    def meshed(self, topics: tuple[str, ...]) -> bool:
        return all(self._process.topics.get(name) and self._process.mesh.get(name) for name in topics)

    async def publish(self, topic: str, data: bytes) -> None:
        self._process.send_command(f"say {topic} {data.decode()}")

    async def close(self) -> None:
        self._task.cancel()
        await self._process.__aexit__()


class ManyAddresses(asyncio.SelectorEventLoop):
    """An event loop that makes each connection from a new address of 127.`network`.0.0/16."""

    def __init__(self, network: int) -> None:
        super().__init__()
        self._sources = (f"127.{network}.{place // 250 % 250}.{1 + place % 250}" for place in count())
        self._sources: Iterator[str]

    async def create_connection(self, *args, **options):
        return await super().create_connection(*args, **{"local_addr": (next(self._sources), 0), **options})
