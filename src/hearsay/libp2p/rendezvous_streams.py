"""Rendezvous over a host's streams: a point that answers, and asking one."""

from __future__ import annotations

import asyncio

from hearsay.libp2p.errors import EncodingError, FrameError, ProtocolError
from hearsay.libp2p.frames import FrameReader, frame
from hearsay.libp2p.node_host import NodeHost
from hearsay.libp2p.peer_id import PeerId
from hearsay.libp2p.rendezvous import (
    MAX_MESSAGE_BYTES,
    PROTOCOL,
    Registry,
    RegistryLimits,
    RendezvousMessage,
    decode_message,
    encode_message,
)
from hearsay.libp2p.stream import Stream, StreamClosed

ANSWER_SECONDS = 15.0


class RendezvousPoint:
    """Lets the peers of a host find each other."""

    def __init__(self, host: NodeHost, limits: RegistryLimits | None = None) -> None:
        self.registry = Registry(asyncio.get_running_loop().time, limits)
        host.handle(PROTOCOL, lambda stream: stream.receive_with(_Questions(stream, self.registry)))


async def ask(host: NodeHost, point: PeerId, question: RendezvousMessage) -> RendezvousMessage:
    """A connected point's answer; `StreamClosed`, `TimeoutError` or `ProtocolError` when there is none."""
    async with asyncio.timeout(ANSWER_SECONDS):
        stream = await host.open_stream(point, [PROTOCOL])
        try:
            stream.write(frame(encode_message(question)))
            stream.finish()
            reader = FrameReader(MAX_MESSAGE_BYTES)
            while data := await stream.read():
                for answer in reader.receive(data):
                    return decode_message(answer)
        finally:
            stream.reset()
    raise StreamClosed("the rendezvous point did not answer")


class _Questions:
    """A peer's questions, as they come."""

    def __init__(self, stream: Stream, registry: Registry) -> None:
        self._stream = stream
        self._registry = registry
        self._frames = FrameReader(MAX_MESSAGE_BYTES)

    def data_received(self, data: bytes) -> None:
        try:
            for question in self._frames.receive(data):
                answer = self._registry.answer(self._stream.peer, decode_message(question))
                if answer is not None:
                    self._stream.write(frame(encode_message(answer)))
        except (EncodingError, FrameError) as error:
            raise ProtocolError(str(error)) from None

    def stream_ended(self, reset: bool) -> None:
        if not reset:
            self._stream.finish()
