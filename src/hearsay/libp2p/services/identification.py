"""Identify on a host: asks every new peer who it is, answers when asked, tells all peers when addresses change.

What peers say of themselves is kept while they are connected, within a budget; of their signed records the newest, if
it is right. A peer that does not answer, or answers nonsense, is simply not known. Who asks, or pushes, too often is
not heard.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, replace
from time import monotonic, time_ns

from hearsay.libp2p.host.node_host import NodeHost
from hearsay.libp2p.limits.frames import FrameReader, frame
from hearsay.libp2p.limits.rates import Rate, Rates
from hearsay.libp2p.limits.resources import MIB, Budget
from hearsay.libp2p.mux.stream import Stream, StreamClosed
from hearsay.libp2p.names.errors import EncodingError, ProtocolError
from hearsay.libp2p.names.multiaddr import Multiaddr
from hearsay.libp2p.names.peer_id import PeerId
from hearsay.libp2p.services.identify import (
    MAX_IDENTIFY_BYTES,
    MAX_MESSAGES,
    PROTOCOL,
    PROTOCOL_VERSION,
    PUSH_PROTOCOL,
    Identity,
    decode_identity,
    encode_identity,
)
from hearsay.libp2p.services.peer_record import PeerRecord, read_envelope, seal_record

ANSWER_SECONDS = 15.0
OWN_ADDRESSES = 16
"""Of ours are told; nobody dials more."""
_KEPT_PER_BYTE = 4
"""What a description takes in memory, as many times as on the wire."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentifyLimits:
    asked: Rate = Rate(16, 0.5)
    """Questions of a peer that are answered."""
    pushed: Rate = Rate(8, 0.2)
    known_bytes: int = 16 * MIB
    """What all connected peers say of themselves."""


class Identification:
    def __init__(self, host: NodeHost, agent: str, limits: IdentifyLimits | None = None) -> None:
        limits = limits or IdentifyLimits()
        self._host = host
        self._agent = agent
        self._asked: Rates[PeerId] = Rates(monotonic, limits.asked)
        self._pushes: Rates[PeerId] = Rates(monotonic, limits.pushed)
        self._budget = Budget("identify", limits.known_bytes)
        self._kept_bytes: dict[PeerId, int] = {}
        self._sequences: dict[PeerId, int] = {}
        """Of the signed records that are known."""
        self._signed: tuple[Multiaddr, ...] | None = None
        self._record = b""
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
        """Our own addresses, signed; anew when they have changed, for signing is dear and anybody may ask."""
        addresses = self._host.addresses[:OWN_ADDRESSES]
        if addresses != self._signed:
            self._record = seal_record(self._host.identity, PeerRecord(self._host.peer, time_ns(), addresses))
            self._signed = addresses
        return self._record

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _identity(self, peer: PeerId) -> bytes:
        return encode_identity(
            Identity(
                public_key=self._host.identity.public.encoded,
                listen_addresses=self._host.addresses[:OWN_ADDRESSES],
                protocols=tuple(self._host.protocols),
                observed_address=self._host.remote_address(peer),
                protocol_version=PROTOCOL_VERSION,
                agent=self._agent,
                signed_record=self.record(),
            )
        )

    def _forget(self, peer: PeerId) -> None:
        if self.known.pop(peer, None) is not None:
            self._budget.release(self._kept_bytes.pop(peer))
            self._sequences.pop(peer, None)

    def _answer(self, stream: Stream) -> None:
        if self._asked.wait_s(stream.peer):
            stream.reset()
        else:
            self._describe(stream)

    def _pushed(self, stream: Stream) -> None:
        if self._pushes.wait_s(stream.peer):
            stream.reset()
        else:
            self._start(self._read(stream))

    async def _ask(self, peer: PeerId) -> None:
        await self._read(await self._host.open_stream(peer, [PROTOCOL]))

    async def _tell(self, peer: PeerId) -> None:
        self._describe(await self._host.open_stream(peer, [PUSH_PROTOCOL]))

    def _describe(self, stream: Stream) -> None:
        stream.write(frame(self._identity(stream.peer)))
        stream.finish()

    async def _read(self, stream: Stream) -> None:
        """Take a peer's description of itself from a stream."""
        reader = FrameReader(MAX_IDENTIFY_BYTES, stream.budget)
        messages: list[bytes] = []
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                while data := await stream.read():
                    messages += reader.receive(data)
                    if len(messages) > MAX_MESSAGES:
                        break
            encoded = b"".join(messages)
            identity = decode_identity(encoded)
        except BaseException:
            stream.reset()
            raise
        stream.finish()
        self._keep(stream.peer, identity, len(encoded))

    def _keep(self, peer: PeerId, identity: Identity, size: int) -> None:
        if peer not in self._host.connections:
            return
        sequence = self._sequences.get(peer, -1)
        newer = _sequence_of(identity.signed_record, peer, sequence)
        if newer is None:
            before = self.known.get(peer, Identity())
            identity = replace(identity, signed_record=before.signed_record)
        self._forget(peer)
        if not self._budget.reserve(size * _KEPT_PER_BYTE):
            return
        self._kept_bytes[peer] = size * _KEPT_PER_BYTE
        self._sequences[peer] = sequence if newer is None else newer
        self.known[peer] = identity
        for callback in self.on_identified:
            callback(peer, identity)

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(_quietly(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: work.close())  # a task cancelled before its first step has not begun it


def _sequence_of(envelope: bytes, peer: PeerId, newer_than: int) -> int | None:
    """The sequence number of a peer's record, if it is its own and newer."""
    try:
        sealed = read_envelope(envelope)
        if sealed.record.sequence > newer_than and sealed.check().peer == peer:
            return sealed.record.sequence
    except EncodingError:
        pass
    return None


async def _quietly(work: Coroutine[None, None, None]) -> None:
    """A peer that cannot be identified is not an error of ours."""
    with suppress(ProtocolError, StreamClosed, TimeoutError):
        await work
