"""Identify and identify-push: what a peer says about itself (libp2p specs, "identify").

The peer asked sends `{publicKey = 1, listenAddrs = 2, protocols = 3, observedAddr = 4, protocolVersion = 5,
agentVersion = 6, signedPeerRecord = 8}` behind its length and closes the stream. Large answers come as several
messages that merge (go-libp2p does so); together they are held to `MAX_IDENTIFY_BYTES`.
"""

from __future__ import annotations

from dataclasses import dataclass

from hearsay.libp2p.names.errors import EncodingError
from hearsay.libp2p.names.multiaddr import Multiaddr
from hearsay.libp2p.names.protobuf import DELIMITED, bytes_field, walk
from hearsay.libp2p.services.peer_record import read_addresses

PROTOCOL = "/ipfs/id/1.0.0"
PUSH_PROTOCOL = "/ipfs/id/push/1.0.0"
PROTOCOL_VERSION = "ipfs/0.1.0"
MAX_IDENTIFY_BYTES = 32_768
MAX_MESSAGES = 10
MAX_PROTOCOLS = 512
MAX_TEXT_BYTES = 256


@dataclass(frozen=True, slots=True)
class Identity:
    """A peer in its own words."""

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
    """From one message, or several put together."""
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
