"""The multiaddr protocols that a node needs: ip4, ip6, dns, dns4, dns6, dnsaddr, tcp, udp, p2p, and some that have no
value.

A `Multiaddr` consists of pairs of a protocol and its value as text, and has a text and a binary form. An address with
another protocol raises `EncodingError`. Code that reads a peer's list of addresses skips such an address.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

from hearsay.libp2p.names import peer_id, protobuf
from hearsay.libp2p.names.errors import EncodingError

MAX_BYTES = 1024
MAX_PARTS = 16


@dataclass(frozen=True, slots=True)
class _Protocol:
    name: str
    code: int
    size: int
    """Number of bytes of the value; -1 if a length precedes the value, 0 if there is no value."""
    pack: Callable[[str], bytes]
    unpack: Callable[[bytes], str]


def _pack_port(text: str) -> bytes:
    if not text.isascii() or not text.isdigit() or int(text) > 0xFFFF:
        raise ValueError("a port is 0…65535")
    return int(text).to_bytes(2, "big")


def _pack_name(text: str) -> bytes:
    if not text or len(text) > 253:
        raise ValueError("a host name has 1…253 characters")
    return text.encode()


def _unpack_name(raw: bytes) -> str:
    name = raw.decode()
    if not name or len(raw) > 253 or "/" in name or not name.isprintable():
        raise ValueError("not a host name")
    return name


def _port_protocol(name: str, code: int) -> _Protocol:
    return _Protocol(name, code, 2, _pack_port, lambda raw: str(int.from_bytes(raw, "big")))


_NAMES = {"dns": 53, "dns4": 54, "dns6": 55, "dnsaddr": 56}
"""The codes of the protocols whose value is a host name."""
_FLAGS = {"p2p-circuit": 290, "quic": 460, "quic-v1": 461, "ws": 477, "wss": 478}
"""The codes of the protocols without a value."""
_P2P = _Protocol("p2p", 421, -1, peer_id.from_text, lambda raw: peer_id.to_text(peer_id.check_peer_id(raw)))
_PROTOCOLS = (
    _Protocol("ip4", 4, 4, lambda text: IPv4Address(text).packed, lambda raw: str(IPv4Address(raw))),
    _Protocol("ip6", 41, 16, lambda text: IPv6Address(text).packed, lambda raw: str(IPv6Address(raw))),
    *(_port_protocol(name, code) for name, code in (("tcp", 6), ("udp", 273))),
    *(_Protocol(name, code, -1, _pack_name, _unpack_name) for name, code in _NAMES.items()),
    *(_Protocol(name, code, 0, lambda _: b"", lambda _: "") for name, code in _FLAGS.items()),
    _P2P,
)
_BY_NAME = {protocol.name: protocol for protocol in _PROTOCOLS} | {"ipfs": _P2P}
_BY_CODE = {protocol.code: protocol for protocol in _PROTOCOLS}
_HOSTS = ("ip4", "ip6", "dns", "dns4", "dns6")


@dataclass(frozen=True, slots=True)
class Multiaddr:
    """The parts of an address such as `/ip4/127.0.0.1/tcp/4001/p2p/12D3…`."""

    parts: tuple[tuple[str, str], ...]

    @classmethod
    def parse(cls, text: str) -> Multiaddr:
        """Return the address with this text form. Raises `EncodingError`."""
        if not text.startswith("/") or len(text) > MAX_BYTES:
            raise EncodingError(f"{text[:80]!r} is not a multiaddr: at most {MAX_BYTES} characters that start with /")
        words = text.rstrip("/").split("/")[1:]
        parts: list[tuple[str, str]] = []
        while words:
            name = words.pop(0)
            protocol = _BY_NAME.get(name)
            if protocol is None:
                raise EncodingError(f"multiaddr {text!r}: protocol {name!r} is not supported")
            value = ""
            if protocol.size:
                if not words:
                    raise EncodingError(f"multiaddr {text!r}: {name} needs a value")
                value = words.pop(0)
            try:
                parts.append((protocol.name, protocol.unpack(protocol.pack(value))))
            except (ValueError, EncodingError) as error:
                raise EncodingError(f"multiaddr {text!r}: {name}: {error}") from None
        if not parts or len(parts) > MAX_PARTS:
            raise EncodingError(f"multiaddr {text!r} has {len(parts)} parts; 1…{MAX_PARTS} are allowed")
        return cls(tuple(parts))

    @classmethod
    def decode(cls, raw: bytes) -> Multiaddr:
        """Return the address with this binary form. Raises `EncodingError`."""
        if not raw or len(raw) > MAX_BYTES:
            raise EncodingError(f"a multiaddr of {len(raw)} bytes; 1…{MAX_BYTES} are allowed")
        parts: list[tuple[str, str]] = []
        offset = 0
        while offset < len(raw):
            code, offset = protobuf.decode(raw, offset, len(raw))
            protocol = _BY_CODE.get(code)
            if protocol is None:
                raise EncodingError(f"multiaddr protocol {code} is not supported")
            size = protocol.size
            if size < 0:
                size, offset = protobuf.decode(raw, offset, len(raw))
            value = raw[offset : offset + size]
            offset += size
            if offset > len(raw):
                raise EncodingError("a multiaddr is cut off")
            if len(parts) == MAX_PARTS:
                raise EncodingError(f"a multiaddr has more than {MAX_PARTS} parts")
            try:
                parts.append((protocol.name, protocol.unpack(value)))
            except ValueError as error:
                raise EncodingError(f"multiaddr part {protocol.name}: {error}") from None
        return cls(tuple(parts))

    def encode(self) -> bytes:
        encoded = bytearray()
        for name, value in self.parts:
            protocol = _BY_NAME[name]
            packed = protocol.pack(value)
            encoded += protobuf.encode(protocol.code)
            if protocol.size < 0:
                encoded += protobuf.encode(len(packed))
            encoded += packed
        return bytes(encoded)

    def __str__(self) -> str:
        return "".join(f"/{name}/{value}" if _BY_NAME[name].size else f"/{name}" for name, value in self.parts)

    @property
    def tcp_endpoint(self) -> tuple[str, int] | None:
        """Return host and port of a TCP address, with or without a peer id; None for other addresses."""
        names = [name for name, _ in self.parts]
        if names[:2] not in [[host, "tcp"] for host in _HOSTS] or names[2:] not in ([], ["p2p"]):
            return None
        return self.parts[0][1], int(self.parts[1][1])

    @property
    def peer(self) -> peer_id.PeerId | None:
        """Return the peer id at the end of the address; None if there is none."""
        name, value = self.parts[-1]
        return peer_id.from_text(value) if name == "p2p" else None

    def with_peer(self, peer: peer_id.PeerId) -> Multiaddr:
        """Return the address with a peer id at its end. An address that already has one is not changed."""
        return self if self.peer is not None else Multiaddr((*self.parts, ("p2p", peer_id.to_text(peer))))


def tcp_multiaddr(host: str, port: int) -> Multiaddr:
    """Return the multiaddr of a socket's IP address and port."""
    bare = host.partition("%")[0]
    return Multiaddr.parse(f"/ip{6 if ':' in bare else 4}/{bare}/tcp/{port}")
