"""Identity keys in libp2p's form (libp2p specs, "Peer Ids and Keys").

A key travels as a protobuf `{type = 1, data = 2}`. Our own identities are Ed25519; peers may bring Ed25519,
secp256k1 (compressed point, ECDSA over SHA-256), ECDSA (DER, any curve the library knows) or RSA (DER, PKCS#1 v1.5
over SHA-256). RSA keys are held to 2048…8192 bits, as go-libp2p does, so that nobody makes us work on a huge one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property, lru_cache
from importlib import import_module
from typing import TypeAlias

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import (
    ECDSA,
    SECP256K1,
    EllipticCurvePublicKey,
)
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_der_public_key

from hearsay.libp2p.errors import EncodingError
from hearsay.libp2p.protobuf import DELIMITED, VARINT, bytes_field, varint_field, walk

MAX_KEY_BYTES = 2048
"""An RSA key of 8192 bits takes about 1,100."""
MIN_RSA_BITS, MAX_RSA_BITS = 2048, 8192

_LibraryKey: TypeAlias = Ed25519PublicKey | EllipticCurvePublicKey | RSAPublicKey


def _sodium() -> tuple[Callable[[bytes, bytes], bytes] | None, type[Exception]]:
    """libsodium's Ed25519 through PyNaCl, where it is installed: it verifies in two thirds of the time."""
    try:
        return import_module("nacl.bindings").crypto_sign_open, import_module("nacl.exceptions").BadSignatureError
    except ImportError:
        return None, InvalidSignature


_open_signed, _BadSignature = _sodium()


class KeyType(IntEnum):
    RSA = 0
    ED25519 = 1
    SECP256K1 = 2
    ECDSA = 3


@dataclass(frozen=True)
class PublicKey:
    """A peer's public key. `encoded` is its protobuf, which peer ids are made of."""

    type: KeyType
    data: bytes
    encoded: bytes
    _key: _LibraryKey = field(compare=False, repr=False)

    @staticmethod
    def decode(encoded: bytes) -> PublicKey:
        """From the protobuf of a peer."""
        return _decode(bytes(encoded))

    def verify(self, signature: bytes, data: bytes) -> bool:
        """Whether `signature` is this key's over `data`."""
        key = self._key
        try:
            if isinstance(key, Ed25519PublicKey):
                if _open_signed is None:
                    key.verify(signature, data)
                else:
                    _open_signed(signature + data, self.data)
            elif isinstance(key, EllipticCurvePublicKey):
                key.verify(signature, data, ECDSA(SHA256()))
            else:
                key.verify(signature, data, PKCS1v15(), SHA256())
        except (InvalidSignature, ValueError, _BadSignature):
            return False
        return True


@dataclass(frozen=True)
class PrivateKey:
    """An Ed25519 identity of our own."""

    _key: Ed25519PrivateKey = field(repr=False)

    @classmethod
    def generate(cls) -> PrivateKey:
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def from_seed(cls, seed: bytes) -> PrivateKey:
        """From the 32 bytes of RFC 8032's private key."""
        if len(seed) != 32:
            raise ValueError(f"an Ed25519 private key has 32 bytes, not {len(seed)}")
        return cls(Ed25519PrivateKey.from_private_bytes(seed))

    @classmethod
    def decode(cls, encoded: bytes) -> PrivateKey:
        """From libp2p's protobuf: private then public key, in the old form the public key twice."""
        key_type, data = _fields(encoded)
        if key_type != KeyType.ED25519:
            raise EncodingError("only Ed25519 private keys are supported")
        if len(data) not in (64, 96):
            raise EncodingError(f"an Ed25519 private key has 64 or 96 bytes, not {len(data)}")
        own = cls.from_seed(data[:32])
        if any(data[start : start + 32] != own.public.data for start in range(32, len(data), 32)):
            raise EncodingError("an Ed25519 private key with another public key beside it")
        return own

    def encode(self) -> bytes:
        return _encode(KeyType.ED25519, self.seed + self.public.data)

    @property
    def seed(self) -> bytes:
        """The 32 bytes of RFC 8032's private key."""
        return self._key.private_bytes_raw()

    @cached_property
    def public(self) -> PublicKey:
        return PublicKey.decode(_encode(KeyType.ED25519, self._key.public_key().public_bytes_raw()))

    def sign(self, data: bytes) -> bytes:
        return self._key.sign(data)


def _encode(key_type: KeyType, data: bytes) -> bytes:
    return varint_field(1, key_type) + bytes_field(2, data)


def _fields(encoded: bytes) -> tuple[KeyType, bytes]:
    key_type: int | None = None
    data: bytes | None = None
    for number, wire_type, start, stop in walk(encoded, 0, len(encoded)):
        if number == 1 and wire_type == VARINT:
            key_type = start
        elif number == 2 and wire_type == DELIMITED:
            data = encoded[start:stop]
    if key_type is None or data is None:
        raise EncodingError("a key without type or data")
    try:
        return KeyType(key_type), data
    except ValueError:
        raise EncodingError(f"key type {key_type} is unknown") from None


@lru_cache(maxsize=4096)
def _decode(encoded: bytes) -> PublicKey:
    if len(encoded) > MAX_KEY_BYTES:
        raise EncodingError(f"a key of {len(encoded)} bytes; at most {MAX_KEY_BYTES} are allowed")
    key_type, data = _fields(encoded)
    if encoded != _encode(key_type, data):
        raise EncodingError("a key that is not encoded in the one way libp2p allows")
    try:
        key = _load(key_type, data)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise EncodingError(f"not a {key_type.name} key: {error}") from None
    return PublicKey(key_type, data, encoded, key)


def _load(key_type: KeyType, data: bytes) -> _LibraryKey:
    if key_type is KeyType.ED25519:
        return Ed25519PublicKey.from_public_bytes(data)
    if key_type is KeyType.SECP256K1:
        return EllipticCurvePublicKey.from_encoded_point(SECP256K1(), data)
    key = load_der_public_key(data)
    if key_type is KeyType.ECDSA and isinstance(key, EllipticCurvePublicKey):
        return key
    if key_type is KeyType.RSA and isinstance(key, RSAPublicKey):
        if not MIN_RSA_BITS <= key.key_size <= MAX_RSA_BITS:
            raise ValueError(f"{key.key_size} bits; {MIN_RSA_BITS}…{MAX_RSA_BITS} are allowed")
        return key
    raise ValueError("the data is a key of another type")
