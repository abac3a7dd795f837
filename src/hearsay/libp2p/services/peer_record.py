"""Signed peer records: a peer's addresses, signed by itself (libp2p RFCs 2 and 3).

Peer exchange in PRUNE and identify carry them. An envelope is `{public_key = 1, payload_type = 2, payload = 3,
signature = 5}`, its signature over domain, type and payload, each behind its length; the payload is
`{peer_id = 1, seq = 2, addresses = 3 {multiaddr = 1}}`.
"""

from __future__ import annotations

from dataclasses import dataclass

from hearsay.libp2p.limits.frames import frame
from hearsay.libp2p.names.errors import EncodingError
from hearsay.libp2p.names.keys import PrivateKey, PublicKey
from hearsay.libp2p.names.multiaddr import Multiaddr
from hearsay.libp2p.names.peer_id import PeerId, peer_id_of
from hearsay.libp2p.names.protobuf import DELIMITED, VARINT, bytes_field, varint_field, walk

DOMAIN = b"libp2p-peer-record"
PAYLOAD_TYPE = b"\x03\x01"
MAX_RECORD_BYTES = 8192
MAX_ADDRESSES = 64


@dataclass(frozen=True, slots=True)
class PeerRecord:
    peer: PeerId
    sequence: int
    addresses: tuple[Multiaddr, ...]


def seal_record(identity: PrivateKey, record: PeerRecord) -> bytes:
    payload = bytes_field(1, record.peer) + varint_field(2, record.sequence)
    for address in record.addresses:
        payload += bytes_field(3, bytes_field(1, address.encode()))
    signature = identity.sign(_signed(payload))
    return (
        bytes_field(1, identity.public.encoded)
        + bytes_field(2, PAYLOAD_TYPE)
        + bytes_field(3, payload)
        + bytes_field(5, signature)
    )


@dataclass(frozen=True, slots=True)
class SealedRecord:
    """The content of an envelope before the expensive check of its signature."""

    record: PeerRecord
    _key: PublicKey
    _payload: bytes
    _signature: bytes

    def check(self) -> PeerRecord:
        """The record, if it is signed by the peer it speaks of."""
        if self.record.peer != peer_id_of(self._key):
            raise EncodingError("a peer record signed by another peer")
        if not self._key.verify(self._signature, _signed(self._payload)):
            raise EncodingError("a peer record with a wrong signature")
        return self.record


def read_envelope(envelope: bytes) -> SealedRecord:
    if len(envelope) > MAX_RECORD_BYTES:
        raise EncodingError(f"a peer record of {len(envelope)} bytes; at most {MAX_RECORD_BYTES} are allowed")
    parts = {1: b"", 2: b"", 3: b"", 5: b""}
    for number, wire_type, start, stop in walk(envelope, 0, len(envelope)):
        if wire_type == DELIMITED and number in parts:
            parts[number] = envelope[start:stop]
    key = PublicKey.decode(parts[1])
    if parts[2] != PAYLOAD_TYPE:
        raise EncodingError("an envelope with something other than a peer record")
    return SealedRecord(_read_payload(parts[3]), key, parts[3], parts[5])


def _signed(payload: bytes) -> bytes:
    return frame(DOMAIN) + frame(PAYLOAD_TYPE) + frame(payload)


def _read_payload(payload: bytes) -> PeerRecord:
    peer, sequence = b"", 0
    addresses: list[Multiaddr] = []
    for number, wire_type, start, stop in walk(payload, 0, len(payload)):
        if number == 1 and wire_type == DELIMITED:
            peer = payload[start:stop]
        elif number == 2 and wire_type == VARINT:
            sequence = start
        elif number == 3 and wire_type == DELIMITED and len(addresses) < MAX_ADDRESSES:
            addresses += read_addresses(payload, start, stop, 1)
    return PeerRecord(peer, sequence, tuple(addresses[:MAX_ADDRESSES]))


def read_addresses(data: bytes, start: int, stop: int, number: int) -> list[Multiaddr]:
    """The multiaddrs in field `number` of the message at `start` … `stop`; unknown kinds are skipped."""
    addresses: list[Multiaddr] = []
    for field, wire_type, begin, end in walk(data, start, stop):
        if field == number and wire_type == DELIMITED and len(addresses) < MAX_ADDRESSES:
            try:
                addresses.append(Multiaddr.decode(data[begin:end]))
            except EncodingError:
                continue
    return addresses
