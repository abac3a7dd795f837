"""Identify on a host: asks every new peer who it is, answers when asked, tells all peers when addresses change.

What peers say of themselves is kept while they are connected. A peer that does not answer, or answers nonsense, is
simply not known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from time import time_ns

from hearsay.libp2p.errors import ProtocolError
from hearsay.libp2p.frames import FrameReader, frame
from hearsay.libp2p.identify import (
    MAX_IDENTIFY_BYTES,
    MAX_MESSAGES,
    PROTOCOL,
    PROTOCOL_VERSION,
    PUSH_PROTOCOL,
    Identity,
    decode_identity,
    encode_identity,
)
from hearsay.libp2p.node_host import NodeHost
from hearsay.libp2p.peer_id import PeerId
from hearsay.libp2p.peer_record import PeerRecord, seal_record
from hearsay.libp2p.stream import Stream, StreamClosed

ANSWER_SECONDS = 15.0


class Identification:
    def __init__(self, host: NodeHost, agent: str) -> None:
        self._host = host
        self._agent = agent
        self._tasks: set[asyncio.Task[None]] = set()
        self.known: dict[PeerId, Identity] = {}
        self.on_identified: list[Callable[[PeerId, Identity], None]] = []
        host.handle(PROTOCOL, self._answer)
        host.handle(PUSH_PROTOCOL, self._pushed)
        host.on_peer_up.append(lambda peer: self._start(self._ask(peer)))
        host.on_peer_down.append(self._forget)

    def push(self) -> None:
        """Tell all peers who we are now."""
        for peer in self._host.connections:
            self._start(self._tell(peer))

    def record(self) -> bytes:
        """Our own addresses, signed."""
        return seal_record(self._host.identity, PeerRecord(self._host.peer, time_ns(), self._host.addresses))

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _identity(self, peer: PeerId) -> bytes:
        return encode_identity(
            Identity(
                public_key=self._host.identity.public.encoded,
                listen_addresses=self._host.addresses,
                protocols=tuple(self._host.protocols),
                observed_address=self._host.remote_address(peer),
                protocol_version=PROTOCOL_VERSION,
                agent=self._agent,
                signed_record=self.record(),
            )
        )

    def _forget(self, peer: PeerId) -> None:
        self.known.pop(peer, None)

    def _answer(self, stream: Stream) -> None:
        stream.write(frame(self._identity(stream.peer)))
        stream.finish()

    def _pushed(self, stream: Stream) -> None:
        self._start(self._read(stream))

    async def _ask(self, peer: PeerId) -> None:
        await self._read(await self._host.open_stream(peer, [PROTOCOL]))

    async def _tell(self, peer: PeerId) -> None:
        stream = await self._host.open_stream(peer, [PUSH_PROTOCOL])
        self._answer(stream)

    async def _read(self, stream: Stream) -> None:
        """Take a peer's description of itself from a stream."""
        reader = FrameReader(MAX_IDENTIFY_BYTES)
        messages: list[bytes] = []
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                while data := await stream.read():
                    messages += reader.receive(data)
                    if len(messages) > MAX_MESSAGES:
                        break
            identity = decode_identity(b"".join(messages))
        except BaseException:
            stream.reset()
            raise
        stream.finish()
        if stream.peer in self._host.connections:
            self.known[stream.peer] = identity
            for callback in self.on_identified:
                callback(stream.peer, identity)

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(_quietly(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: work.close())  # a task cancelled before its first step has not begun it


async def _quietly(work: Coroutine[None, None, None]) -> None:
    """A peer that cannot be identified is not an error of ours."""
    with suppress(ProtocolError, StreamClosed, TimeoutError):
        await work
