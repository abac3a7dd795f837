"""Identify, identify/push and ping (libp2p specs, "identify" and "ping"): protocols that every host offers.

`Identification` exchanges the messages of identify. `PingService` answers pings of peers and measures round trips.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, replace
from os import urandom
from time import monotonic, time_ns

from hearsay.libp2p.frames import FrameReader, frame
from hearsay.libp2p.mux.stream import Stream, StreamClosed
from hearsay.libp2p.names.errors import EncodingError, ProtocolError
from hearsay.libp2p.names.multiaddr import Multiaddr
from hearsay.libp2p.names.peer_id import PeerId
from hearsay.libp2p.names.protobuf import bytes_field, last_values, values
from hearsay.libp2p.node_host import NodeHost, Tasks
from hearsay.libp2p.rates import Rate, Rates
from hearsay.libp2p.rendezvous import PeerRecord, read_envelope, readable_addresses, seal_record
from hearsay.libp2p.resources import MIB, Budget

PROTOCOL = "/ipfs/id/1.0.0"
PUSH_PROTOCOL = "/ipfs/id/push/1.0.0"
PROTOCOL_VERSION = "ipfs/0.1.0"
MAX_IDENTIFY_BYTES = 32_768
MAX_MESSAGES = 10
MAX_PROTOCOLS = 512
MAX_TEXT_BYTES = 256
ANSWER_SECONDS = 15.0
OWN_ADDRESSES = 16
"""Maximum number of this host's addresses in a message. Peers do not dial more."""
_KEPT_PER_BYTE = 4
"""Memory of a stored identity in bytes, per byte of its message."""
PING_PROTOCOL = "/ipfs/ping/1.0.0"
PING_BYTES = 32
MAX_PING_STREAMS = 2
"""Maximum number of inbound ping streams of a peer."""
MAX_UNSENT_BYTES = 4096
"""Maximum bytes of unsent answers. If more wait when further data arrives, the stream is reset."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The content of an identify message: a peer's description of itself. An absent field is empty or None."""

    public_key: bytes = b""
    listen_addresses: tuple[Multiaddr, ...] = ()
    protocols: tuple[str, ...] = ()
    observed_address: Multiaddr | None = None
    """The address of the message's receiver, as the sender sees it."""
    protocol_version: str = ""
    agent: str = ""
    signed_record: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentifyLimits:
    """Limits of the identify protocols on a host."""

    asked: Rate = Rate(16, 0.5)
    """Maximum rate at which identify requests of a peer are answered."""
    pushed: Rate = Rate(8, 0.2)
    """Maximum rate at which pushes of a peer are read."""
    known_bytes: int = 16 * MIB
    """Maximum memory in bytes of the stored identities of all connected peers."""


class Identification:
    """The identify protocols on a host: each new peer is asked for its identity, and requests and pushes are handled.

    `known` has the identities of connected peers, as far as they have sent one and memory is left for it. The
    functions in `on_identified` are called with a peer and its identity, whenever an identity is stored.
    """

    def __init__(self, host: NodeHost, agent: str, limits: IdentifyLimits | None = None) -> None:
        limits = limits or IdentifyLimits()
        self._host = host
        self._agent = agent
        self._asked: Rates[PeerId] = Rates(monotonic, limits.asked)
        self._pushes: Rates[PeerId] = Rates(monotonic, limits.pushed)
        self._budget = Budget("identify", limits.known_bytes)
        self._kept_bytes: dict[PeerId, int] = {}
        self._sequences: dict[PeerId, int] = {}
        """Sequence numbers of the signed records in `known`, by peer."""
        self._signed: tuple[Multiaddr, ...] | None = None
        self._record = b""
        self._tasks = Tasks()
        self.known: dict[PeerId, Identity] = {}
        self.on_identified: list[Callable[[PeerId, Identity], None]] = []
        host.handle(PROTOCOL, self._answer)
        host.handle(PUSH_PROTOCOL, self._pushed)
        host.on_peer_up.append(lambda peer: self._start(self._ask(peer)))
        host.on_peer_down.append(self._forget)

    def record(self) -> bytes:
        """Return the signed record of this host. It is signed again only for new addresses, as this is expensive."""
        addresses = self._host.addresses[:OWN_ADDRESSES]
        if addresses != self._signed:
            self._record = seal_record(self._host.identity, PeerRecord(self._host.peer, time_ns(), addresses))
            self._signed = addresses
        return self._record

    async def close(self) -> None:
        await self._tasks.close()

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
        if self._asked.use_or_wait_s(stream.peer):
            stream.reset()
        else:
            stream.write(frame(self._identity(stream.peer)))
            stream.finish()

    def _pushed(self, stream: Stream) -> None:
        if self._pushes.use_or_wait_s(stream.peer):
            stream.reset()
        else:
            self._start(self._read(stream))

    async def _ask(self, peer: PeerId) -> None:
        await self._read(await self._host.open_stream(peer, [PROTOCOL]))

    async def _read(self, stream: Stream) -> None:
        """Read the messages of an identify stream, and store the identity in `known`."""
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
        self._store(stream.peer, identity, len(encoded))

    def _store(self, peer: PeerId, identity: Identity, size: int) -> None:
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
        task = self._tasks.start(_ignore_peer_errors(work))
        task.add_done_callback(lambda _: work.close())  # a task cancelled before its first step leaves `work` open


def _sequence_of(envelope: bytes, peer: PeerId, newer_than: int) -> int | None:
    """Return the sequence number of the record in an envelope.

    Return None if the envelope is malformed, if `peer` did not sign the record, or if the sequence number is not
    greater than `newer_than`.
    """
    try:
        sealed = read_envelope(envelope)
        if sealed.record.sequence > newer_than and sealed.check().peer == peer:
            return sealed.record.sequence
    except EncodingError:
        pass
    return None


async def _ignore_peer_errors(work: Coroutine[None, None, None]) -> None:
    """Run `work`. Ignore errors that the peer causes."""
    with suppress(ProtocolError, StreamClosed, TimeoutError):
        await work


def encode_identity(identity: Identity) -> bytes:
    encoded = bytes_field(1, identity.public_key)
    encoded += b"".join(bytes_field(2, address.encode()) for address in identity.listen_addresses)
    encoded += b"".join(bytes_field(3, protocol.encode()) for protocol in identity.protocols)
    if identity.observed_address is not None:
        encoded += bytes_field(4, identity.observed_address.encode())
    encoded += bytes_field(5, identity.protocol_version.encode()) + bytes_field(6, identity.agent.encode())
    if identity.signed_record:
        encoded += bytes_field(8, identity.signed_record)
    return encoded


def decode_identity(encoded: bytes) -> Identity:
    """Return the identity in a message, or in several concatenated messages. Raises `EncodingError`.

    Addresses that cannot be decoded are left out.
    """
    if len(encoded) > MAX_IDENTIFY_BYTES:
        raise EncodingError(f"an identify of {len(encoded)} bytes; at most {MAX_IDENTIFY_BYTES} are allowed")
    addresses, protocols, observed = values(encoded, 2, 3, 4)
    if len(protocols) > MAX_PROTOCOLS:
        raise EncodingError(f"an identify with more than {MAX_PROTOCOLS} protocols")
    public_key, version, agent, record = (value or b"" for value in last_values(encoded, 1, 5, 6, 8))
    return Identity(
        public_key=public_key,
        listen_addresses=readable_addresses(addresses),
        protocols=tuple(map(_text, protocols)),
        observed_address=next(iter(readable_addresses(observed[-1:])), None),
        protocol_version=_text(version),
        agent=_text(agent),
        signed_record=record,
    )


def _text(raw: bytes) -> str:
    if len(raw) > MAX_TEXT_BYTES:
        raise EncodingError(f"a name of {len(raw)} bytes; at most {MAX_TEXT_BYTES} are allowed")
    return raw.decode("utf-8", "replace")


class PingService:
    """The ping protocol on a host, whose peers' pings it answers."""

    def __init__(self, host: NodeHost) -> None:
        self._host = host
        host.handle(PING_PROTOCOL, _echo, MAX_PING_STREAMS)

    async def round_trip_s(self, peer: PeerId) -> float:
        """Ping a peer, and return the round trip time in seconds. The caller limits the time to wait.

        Raises `StreamClosed` or `ProtocolError` if the peer does not answer correctly.
        """
        stream = await self._host.open_stream(peer, [PING_PROTOCOL])
        loop = asyncio.get_running_loop()
        try:
            payload, echoed = urandom(PING_BYTES), b""
            began = loop.time()
            stream.write(payload)
            while echoed != payload:
                data = await stream.read()
                if not data:
                    raise StreamClosed("the peer does not answer pings")
                echoed += data
                if not payload.startswith(echoed):
                    raise ProtocolError("the peer did not echo the ping")
            return loop.time() - began
        finally:
            stream.reset()


def _echo(stream: Stream) -> None:
    """Send back each complete payload of a peer's ping stream."""
    part = b""

    def data_received(data: bytes) -> None:
        nonlocal part
        if stream.unsent > MAX_UNSENT_BYTES:
            stream.reset()
            return
        data = part + data
        whole = len(data) - len(data) % PING_BYTES
        part = data[whole:]
        stream.write(data[:whole])

    stream.receive_with(data_received, lambda reset: None if reset else stream.finish())
