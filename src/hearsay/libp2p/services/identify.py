"""Identify and identify/push (libp2p specs, "identify"): their messages, and their exchange by a host."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, replace
from time import monotonic, time_ns

from hearsay.libp2p.host.node_host import NodeHost
from hearsay.libp2p.host.tasks import Tasks
from hearsay.libp2p.limits.frames import FrameReader, frame
from hearsay.libp2p.limits.rates import Rate, Rates
from hearsay.libp2p.limits.resources import MIB, Budget
from hearsay.libp2p.mux.stream import Stream, StreamClosed
from hearsay.libp2p.names.errors import EncodingError, ProtocolError
from hearsay.libp2p.names.multiaddr import Multiaddr
from hearsay.libp2p.names.peer_id import PeerId
from hearsay.libp2p.names.protobuf import DELIMITED, bytes_field, walk
from hearsay.libp2p.services.rendezvous import PeerRecord, read_addresses, read_envelope, seal_record

PROTOCOL = "/ipfs/id/1.0.0"
PUSH_PROTOCOL = "/ipfs/id/push/1.0.0"
PROTOCOL_VERSION = "ipfs/0.1.0"
MAX_IDENTIFY_BYTES = 32_768
MAX_MESSAGES = 10
MAX_PROTOCOLS = 512
MAX_TEXT_BYTES = 256


@dataclass(frozen=True, slots=True)
class Identity:
    """The content of an identify message: a peer's description of itself."""

    public_key: bytes = b""
    listen_addresses: tuple[Multiaddr, ...] = ()
    protocols: tuple[str, ...] = ()
    observed_address: Multiaddr | None = None
    protocol_version: str = ""
    agent: str = ""
    signed_record: bytes = b""


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
    """Decode an identity from one message, or from several that are concatenated."""
    if len(encoded) > MAX_IDENTIFY_BYTES:
        raise EncodingError(f"an identify of {len(encoded)} bytes; at most {MAX_IDENTIFY_BYTES} are allowed")
    single = {1: b"", 4: b"", 5: b"", 6: b"", 8: b""}
    protocols: list[str] = []
    for number, wire_type, start, stop in walk(encoded, 0, len(encoded)):
        if wire_type != DELIMITED:
            continue
        if number in single:
            single[number] = encoded[start:stop]
        elif number == 3:
            if len(protocols) == MAX_PROTOCOLS:
                raise EncodingError(f"an identify with more than {MAX_PROTOCOLS} protocols")
            protocols.append(_text(encoded[start:stop]))
    try:
        observed = Multiaddr.decode(single[4])
    except EncodingError:
        observed = None
    return Identity(
        public_key=single[1],
        listen_addresses=tuple(read_addresses(encoded, 0, len(encoded), 2)),
        protocols=tuple(protocols),
        observed_address=observed,
        protocol_version=_text(single[5]),
        agent=_text(single[6]),
        signed_record=single[8],
    )


def _text(raw: bytes) -> str:
    if len(raw) > MAX_TEXT_BYTES:
        raise EncodingError(f"a name of {len(raw)} bytes; at most {MAX_TEXT_BYTES} are allowed")
    return raw.decode("utf-8", "replace")


ANSWER_SECONDS = 15.0
OWN_ADDRESSES = 16
"""Maximum own addresses in a message. Peers do not dial more."""
_KEPT_PER_BYTE = 4
"""Memory of an identity in bytes, per byte of its message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentifyLimits:
    asked: Rate = Rate(16, 0.5)
    """Rate at which identify requests of a peer are answered."""
    pushed: Rate = Rate(8, 0.2)
    """Rate at which pushes of a peer are read."""
    known_bytes: int = 16 * MIB
    """Maximum bytes of the identities of all connected peers."""


class Identification:
    """The identify protocols on a host: it asks each new peer for its identity, answers requests and reads pushes.

    `known` has the identities of connected peers. `on_identified` is called with each new identity.
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
        """Sequence numbers of the known signed records, by peer."""
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
        """Return our own signed peer record. It is signed again only after a change, because signing is expensive."""
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
        task = self._tasks.start(_ignore_peer_errors(work))
        task.add_done_callback(lambda _: work.close())  # a task cancelled before its first step leaves it open


def _sequence_of(envelope: bytes, peer: PeerId, newer_than: int) -> int | None:
    """Return the sequence number of a peer's record if the peer signed it and it is newer; otherwise None."""
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
