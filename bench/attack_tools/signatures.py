"""Messages with wrong signatures that take long to verify, and with one signature that is valid for any data."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from hashlib import sha256
from os import urandom

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from hearsay.libp2p.names.protobuf import bytes_field, varint_field

_RSA, _ED25519, _SECP256K1, _ECDSA = range(4)


def _der(key: rsa.RSAPublicKey | ec.EllipticCurvePublicKey) -> bytes:
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _rsa() -> tuple[int, bytes, bytes]:
    """Return a key of 3072 bits with an exponent of 3071 bits: OpenSSL limits exponents only of larger keys."""
    modulus = rsa.generate_private_key(65537, 3072).public_key().public_numbers().n
    exponent = int.from_bytes(urandom(384), "big") >> 2 | 1 << 3070 | 1
    return _RSA, _der(rsa.RSAPublicNumbers(exponent, modulus).public_key()), b"\x01" + urandom(383)


def _curve(curve: ec.EllipticCurve) -> tuple[int, bytes, bytes]:
    private = ec.generate_private_key(curve)
    return _ECDSA, _der(private.public_key()), private.sign(b"another message", ec.ECDSA(SHA256()))


def _secp256k1() -> tuple[int, bytes, bytes]:
    private = ec.generate_private_key(ec.SECP256K1())
    point = private.public_key().public_bytes(Encoding.X962, PublicFormat.CompressedPoint)
    return _SECP256K1, point, private.sign(b"another message", ec.ECDSA(SHA256()))


def _ed25519() -> tuple[int, bytes, bytes]:
    private = ed25519.Ed25519PrivateKey.generate()
    return _ED25519, private.public_key().public_bytes_raw(), private.sign(b"another message")


EXPENSIVE_KEYS: dict[str, Callable[[], tuple[int, bytes, bytes]]] = {
    "rsa-exponent": _rsa,
    "brainpool": lambda: _curve(ec.BrainpoolP512R1()),
    "secp256k1": _secp256k1,
    "p521": lambda: _curve(ec.SECP521R1()),
    "ed25519": _ed25519,
}


@cache
def _author(kind: str) -> tuple[bytes, bytes, bytes]:
    """Return a peer id, the protobuf of its key, and its signature of another message."""
    number, data, signature = EXPENSIVE_KEYS[kind]()
    key = varint_field(1, number) + bytes_field(2, data)
    return _peer(key), key, signature


def _peer(key: bytes) -> bytes:
    return b"\x00" + bytes((len(key),)) + key if len(key) <= 42 else b"\x12\x20" + sha256(key).digest()


def forged_messages(kind: str, size: int, topic: str = "news") -> bytes:
    """Return an RPC of about `size` bytes, full of messages with wrong signatures; 9,000 messages at most."""
    peer, key, signature = _author(kind)
    carried = b"" if len(key) <= 42 else key
    one = len(bytes_field(2, _message(peer, bytes(8), b"forged", topic, signature, carried)))
    return b"".join(
        bytes_field(2, _message(peer, urandom(8), b"forged", topic, signature, carried))
        for _ in range(min(9000, size // one))
    )


def message_of_small_order(data: bytes, topic: str = "news") -> bytes:
    """Return an RPC with one message. Its author's key is the neutral point: R = neutral and S = 0 sign any data."""
    neutral = b"\x01" + bytes(31)
    key = varint_field(1, _ED25519) + bytes_field(2, neutral)
    return bytes_field(2, _message(_peer(key), urandom(8), data, topic, neutral + bytes(32), b""))


def _message(peer: bytes, seqno: bytes, data: bytes, topic: str, signature: bytes, key: bytes) -> bytes:
    fields = bytes_field(1, peer) + bytes_field(2, data) + bytes_field(3, seqno) + bytes_field(4, topic.encode())
    return fields + bytes_field(5, signature) + (bytes_field(6, key) if key else b"")
