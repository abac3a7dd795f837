"""Rendezvous over a host's streams: a point that answers, and asking one.

A point makes an answer only when the stream can take it, one at a time, so who asks and does not read costs it no
more than the questions, whose number is bounded. A peer, and everybody at an address together, asks so often and no
more: what comes sooner waits in the stream, which is not read meanwhile.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from dataclasses import dataclass, field

from hearsay.libp2p.host.node_host import NodeHost
from hearsay.libp2p.limits.frames import FrameReader, frame
from hearsay.libp2p.limits.rates import Rate, Rates
from hearsay.libp2p.mux.stream import Stream, StreamClosed
from hearsay.libp2p.names.errors import ProtocolError
from hearsay.libp2p.names.peer_id import PeerId
from hearsay.libp2p.services.rendezvous import (
    MAX_MESSAGE_BYTES,
    PROTOCOL,
    RendezvousMessage,
    decode_message,
    encode_message,
)
from hearsay.libp2p.services.rendezvous_registry import Registry, RegistryLimits

ANSWER_SECONDS = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PointLimits:
    registry: RegistryLimits = field(default_factory=RegistryLimits)
    streams: int = 8
    """Of a peer at a time."""
    stream_s: float = 60.0
    question_bytes: int = 8192
    questions: int = 64
    """That wait in a stream."""
    rate: Rate = Rate(256, 16.0)
    """Questions of a peer."""
    address_rate: Rate = Rate(2048, 64.0)


class RendezvousPoint:
    """Lets the peers of a host find each other."""

    def __init__(self, host: NodeHost, limits: PointLimits | None = None) -> None:
        self.limits = limits or PointLimits()
        now_s = asyncio.get_running_loop().time
        self.registry = Registry(now_s, self.limits.registry)
        self._host = host
        self._streams: Counter[PeerId] = Counter()
        self._of_peer: Rates[PeerId] = Rates(now_s, self.limits.rate)
        self._of_address: Rates[str] = Rates(now_s, self.limits.address_rate)
        host.handle(PROTOCOL, self._opened)

    def wait_s(self, peer: PeerId, address: str) -> float:
        """One question of a peer more, if that is 0; else so long it has to wait."""
        return self._of_peer.wait_s(peer) or self._of_address.wait_s(address)

    def ended(self, peer: PeerId) -> None:
        self._streams[peer] -= 1
        if not self._streams[peer]:
            del self._streams[peer]

    def _opened(self, stream: Stream) -> None:
        if self._streams[stream.peer] >= self.limits.streams:
            stream.reset()
            return
        self._streams[stream.peer] += 1
        stream.receive_with(_Questions(self, stream, self._host.address_of(stream.peer)))


async def ask(host: NodeHost, point: PeerId, question: RendezvousMessage) -> RendezvousMessage:
    """A connected point's answer; `StreamClosed`, `TimeoutError` or `ProtocolError` when there is none."""
    async with asyncio.timeout(ANSWER_SECONDS):
        stream = await host.open_stream(point, [PROTOCOL])
        try:
            stream.write(frame(encode_message(question)))
            stream.finish()
            reader = FrameReader(MAX_MESSAGE_BYTES, stream.budget)
            while data := await stream.read():
                for answer in reader.receive(data):
                    return decode_message(answer)
        finally:
            stream.reset()
    raise StreamClosed("the rendezvous point did not answer")


class _Questions:
    """A peer's questions: they wait for their turn, and the stream is not read while any does."""

    def __init__(self, point: RendezvousPoint, stream: Stream, address: str) -> None:
        self._point = point
        self._stream = stream
        self._address = address
        self._frames = FrameReader(point.limits.question_bytes, stream.budget)
        self._waiting: deque[bytes] = deque()
        self._loop = asyncio.get_running_loop()
        self._deadline = self._loop.call_later(point.limits.stream_s, stream.reset)

    def data_received(self, data: bytes) -> None:
        self._waiting += self._frames.receive(data)
        if len(self._waiting) > self._point.limits.questions:
            raise ProtocolError(f"{len(self._waiting)} questions at once")
        self._answer()
        if self._waiting:
            self._stream.pause()

    def stream_ended(self, reset: bool) -> None:
        if reset:
            self._waiting.clear()
            self._over()
        else:
            self._stream.finish()
            self._stream.call_when_writable(self._over)

    def _over(self) -> None:
        """The last answer has been taken, or never will be."""
        self._deadline.cancel()
        self._point.ended(self._stream.peer)

    def _answer(self) -> None:
        """As many questions as can be answered now; come back for the rest."""
        stream = self._stream
        while self._waiting:
            if not stream.writable:
                stream.call_when_writable(self._again)
                return
            wait_s = self._point.wait_s(stream.peer, self._address)
            if wait_s:
                self._loop.call_later(wait_s, self._again)
                return
            answer = self._point.registry.answer(stream.peer, self._address, decode_message(self._waiting.popleft()))
            if answer is not None:
                stream.write(frame(encode_message(answer)))

    def _again(self) -> None:
        try:
            self._answer()
        except ProtocolError:
            self._stream.reset()
        if not self._waiting and not self._stream.was_reset:
            self._stream.resume()
