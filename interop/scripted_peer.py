"""A peer that sends given RPCs and records received ones: Hearsay's host without a router."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hearsay.core.language.rpc import Control, Message, Rpc
from hearsay.libp2p.frames import FrameReader, frame
from hearsay.libp2p.host import Host
from hearsay.libp2p.identify import Identification, IdentifyLimits
from hearsay.libp2p.mux.stream import Stream
from hearsay.libp2p.names.multiaddr import Multiaddr
from hearsay.libp2p.names.peer_id import to_text
from hearsay.wire.decode import decode_rpc
from hearsay.wire.encode import encode_rpc
from hearsay.wire.fields import RpcLimits
from hearsay.wire.messages import by_author
from hearsay.wire.signing import Author, SignaturePolicy

LIMITS = RpcLimits(max_rpc_bytes=4 << 20)


class ScriptedPeer:
    """A peer without a router. `async with` connects it to an address and opens a stream of `protocol`."""

    def __init__(self, address: str, protocol: str, message_id: Callable[..., bytes] = by_author) -> None:
        self._address = Multiaddr.parse(address)
        self._protocol = protocol
        self._message_id = message_id
        self._frames = FrameReader(LIMITS.max_rpc_bytes)
        self._host = Host()
        self._identification = Identification(self._host, "scripted", IdentifyLimits())
        self._author = Author(self._host.identity, 1)
        self._opened = asyncio.Event()
        self.received: list[Rpc] = []

    async def __aenter__(self) -> ScriptedPeer:
        self._host.handle(self._protocol, self._open)
        peer = await self._host.dial(self._address)
        self._stream = await self._host.open_stream(peer, [self._protocol])
        await self._opened.wait()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._identification.close()
        await self._host.close()

    @property
    def name(self) -> str:
        return to_text(self._host.peer)

    def send(self, *rpcs: Rpc) -> None:
        self._stream.write(b"".join(frame(encode_rpc(rpc)) for rpc in rpcs))

    def message(self, data: bytes, policy: SignaturePolicy = SignaturePolicy.STRICT_SIGN) -> Message:
        return self._author.write("news", data, policy)

    def received_controls(self) -> list[Control]:
        return [rpc.control for rpc in self.received if rpc.control is not None]

    def received_data(self) -> list[bytes]:
        """Return the data of all received messages, in order of arrival."""
        return [message.data for rpc in self.received for message in rpc.messages]

    def prune_count(self) -> int:
        return sum(len(control.prune) for control in self.received_controls())

    def _open(self, stream: Stream) -> None:
        stream.receive_with(self.data_received, lambda reset: None)
        self._opened.set()

    def data_received(self, data: bytes) -> None:
        for payload in self._frames.receive(data):
            self.received.append(decode_rpc(payload, self._message_id, LIMITS).rpc)
