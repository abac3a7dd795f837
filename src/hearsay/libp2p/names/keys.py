"""Identity keys (libp2p specs, "Peer Ids and Keys").

A key is sent as a protobuf `{type = 1, data = 2}`. Our own identities are Ed25519; peers may have Ed25519,
secp256k1 (compressed point, ECDSA over SHA-256), ECDSA (DER) or RSA (DER, PKCS#1 v1.5 over SHA-256).

Only the encoding that go-libp2p and rust-libp2p write is accepted. Both read further encodings (not the same ones)
and encode the key again before they compute a peer id. Here a peer id is computed from the received bytes, so a
second encoding of a key would give a second peer id. Rules for encodings, and bounds that keep verification cheap:

* The protobuf has both fields in order and no others. The DER is canonical: a named curve with an uncompressed point,
  rsaEncryption with NULL. A secp256k1 point is compressed.
* RSA keys have 2048…8192 bits, as in go-libp2p, and an odd exponent of 3…65537. All implementations use 65537; the
  work grows with the exponent, to 200 times as much for an exponent as long as the modulus.
* ECDSA keys are on P-256, P-384 or P-521.
* Ed25519 points, in keys and signatures, are canonically encoded and not of small order. Libraries differ on other
  points: OpenSSL accepts some that libsodium refuses. A key of small order has signatures that are valid for any
  data.
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
    SECP256R1,
    SECP384R1,
    SECP521R1,
    EllipticCurvePublicKey,
)
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_der_public_key

from hearsay.libp2p.names.errors import EncodingError
from hearsay.libp2p.names.protobuf import bytes_field, last_values, last_varints, varint_field

MAX_KEY_BYTES = 2048
"""Maximum bytes of an encoded key. An RSA key of 8192 bits takes about 1,100."""
MIN_RSA_BITS, MAX_RSA_BITS = 2048, 8192
MAX_RSA_EXPONENT = 65537
_MAX_RSA_BYTES_JS = 1061
_CURVES = (SECP256R1, SECP384R1, SECP521R1)
_SECP256K1_BYTES = 33
_SECP256K1_ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
_ED25519_SIGNATURE_BYTES = 64
_SHORT = 64
"""Maximum encoded bytes of keys other than RSA and ECDSA."""

_PRIME = (1 << 255) - 19
"""Coordinates of Ed25519 are below this number."""
_ORDER_EIGHT = 2707385501144840649318225287225658788936804267575313519463743609750303402022
_SMALL_ORDER = frozenset((0, 1, _PRIME - 1, _ORDER_EIGHT, _PRIME - _ORDER_EIGHT))
"""The y coordinates of the eight points whose order divides eight."""

_LibraryKey: TypeAlias = Ed25519PublicKey | EllipticCurvePublicKey | RSAPublicKey


def _sodium() -> tuple[Callable[[bytes, bytes], bytes] | None, type[Exception]]:
    """Return PyNaCl's function that verifies an Ed25519 signature, and the error that it raises for a wrong one.

    The function is None if PyNaCl is not installed. libsodium takes two thirds of OpenSSL's time.
    """
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


def verification_us(encoded: bytes) -> int:
    """Return the approximate time in microseconds of a signature check, by the type and length of the encoded key."""
    key_type, size = encoded[1] if len(encoded) > 1 else KeyType.ED25519, len(encoded)
    if key_type == KeyType.RSA:
        return size * size // 2300
    if key_type == KeyType.SECP256K1:
        return 500
    return 80


@dataclass(frozen=True)
class PublicKey:
    """A peer's public key. `encoded` is its protobuf, from which peer ids are computed."""

    type: KeyType
    data: bytes
    encoded: bytes
    _key: _LibraryKey = field(compare=False, repr=False)

    @staticmethod
    def decode(encoded: bytes) -> PublicKey:
        """Return the key that a protobuf contains. Raises `EncodingError` if it breaks a rule of this module."""
        if len(encoded) > MAX_KEY_BYTES:
            raise EncodingError(f"a key of {len(encoded)} bytes; at most {MAX_KEY_BYTES} are allowed")
        found = _decode_short(encoded) if len(encoded) <= _SHORT else _decode_long(encoded)
        if isinstance(found, str):
            raise EncodingError(found)
        return found

    def is_disputed(self, signature: bytes) -> bool:
        """Return True if go, rust and js differ on signatures of this form, or on all signatures of this key.

        They differ on all ECDSA keys: rust supports only P-256, and js has its own form of ECDSA keys and signatures.
        With secp256k1, rust and js refuse the greater of the two possible values of s. js refuses RSA keys of 8192
        bits (1062 bytes). With Ed25519, a signature is disputed if its point is of small order or not canonical.
        """
        if self.type is KeyType.ED25519:
            return not _is_usual_point(signature[:32])
        if self.type is KeyType.RSA:
            return len(self.data) > _MAX_RSA_BYTES_JS
        try:
            _, s = decode_dss_signature(signature)  # strict DER
        except ValueError:
            return True
        return self.type is KeyType.ECDSA or s > _SECP256K1_ORDER // 2

    def verify(self, signature: bytes, data: bytes) -> bool:
        """Return True if `signature` is valid for `data` and this key. A disputed Ed25519 signature is not valid."""
        key = self._key
        try:
            if isinstance(key, Ed25519PublicKey):
                if len(signature) != _ED25519_SIGNATURE_BYTES or self.is_disputed(signature):
                    return False
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
    """The private key of one of our own identities, always Ed25519."""

    _key: Ed25519PrivateKey = field(repr=False)

    @classmethod
    def generate(cls) -> PrivateKey:
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def from_seed(cls, seed: bytes) -> PrivateKey:
        """Return the key for a seed, the 32 bytes of a private key of RFC 8032. Raises `ValueError`."""
        if len(seed) != 32:
            raise ValueError(f"an Ed25519 private key has 32 bytes, not {len(seed)}")
        return cls(Ed25519PrivateKey.from_private_bytes(seed))

    @classmethod
    def decode(cls, encoded: bytes) -> PrivateKey:
        """Return the key that libp2p's protobuf contains. Raises `EncodingError`.

        The data in the protobuf are the private key and the public key; in the old form, the public key is there
        twice.
        """
        key_type, data = _fields(encoded)
        if key_type != KeyType.ED25519:
            raise EncodingError("only Ed25519 private keys are supported")
        if len(data) not in (64, 96):
            raise EncodingError(f"an Ed25519 private key has 64 or 96 bytes, not {len(data)}")
        own = cls.from_seed(data[:32])
        if any(data[start : start + 32] != own.public.data for start in range(32, len(data), 32)):
            raise EncodingError("an Ed25519 private key with a public key that does not match")
        return own

    def encode(self) -> bytes:
        return _encode(KeyType.ED25519, self.seed + self.public.data)

    @property
    def seed(self) -> bytes:
        """Return the 32 bytes of the private key of RFC 8032."""
        return self._key.private_bytes_raw()

    @cached_property
    def public(self) -> PublicKey:
        return PublicKey.decode(_encode(KeyType.ED25519, self._key.public_key().public_bytes_raw()))

    def sign(self, data: bytes) -> bytes:
        return self._key.sign(data)


def _encode(key_type: KeyType, data: bytes) -> bytes:
    return varint_field(1, key_type) + bytes_field(2, data)


def _fields(encoded: bytes) -> tuple[KeyType, bytes]:
    [key_type], [data] = last_varints(encoded, 1), last_values(encoded, 2)
    if key_type is None or data is None:
        raise EncodingError("a key without type or data")
    try:
        return KeyType(key_type), data
    except ValueError:
        raise EncodingError(f"key type {key_type} is unknown") from None


def _decoded(encoded: bytes) -> PublicKey | str:
    """Return the key, or the reason why it is invalid.

    The caches also store reasons, so that a peer that repeatedly sends an invalid key causes little work.
    """
    try:
        key_type, data = _fields(encoded)
    except EncodingError as error:
        return str(error)
    if encoded != _encode(key_type, data):
        return "the encoding of a key is not canonical"
    try:
        return PublicKey(key_type, data, encoded, _load(key_type, data))
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        return f"not a {key_type.name} key: {error}"


_decode_short = lru_cache(maxsize=4096)(_decoded)
_decode_long = lru_cache(maxsize=256)(_decoded)
"""The function with the cache of long keys, which has fewer entries, because each takes kilobytes."""


def forget_decoded() -> None:
    """Empty the caches of keys."""
    _decode_short.cache_clear()
    _decode_long.cache_clear()


def _load(key_type: KeyType, data: bytes) -> _LibraryKey:
    if key_type is KeyType.ED25519:
        key = Ed25519PublicKey.from_public_bytes(data)
        if not _is_usual_point(data):
            raise ValueError("the point is of small order or its encoding is not canonical")
        return key
    if key_type is KeyType.SECP256K1:
        if len(data) != _SECP256K1_BYTES:
            raise ValueError(f"{len(data)} bytes; a compressed point has {_SECP256K1_BYTES}")
        return EllipticCurvePublicKey.from_encoded_point(SECP256K1(), data)
    key = load_der_public_key(data)
    if key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo) != data:
        raise ValueError("the DER is not canonical")
    if key_type is KeyType.ECDSA and isinstance(key, EllipticCurvePublicKey):
        if not isinstance(key.curve, _CURVES):
            raise ValueError(f"curve {key.curve.name} is not supported")
        return key
    if key_type is KeyType.RSA and isinstance(key, RSAPublicKey):
        if not MIN_RSA_BITS <= key.key_size <= MAX_RSA_BITS:
            raise ValueError(f"{key.key_size} bits; {MIN_RSA_BITS}…{MAX_RSA_BITS} are allowed")
        exponent = key.public_numbers().e
        if not (3 <= exponent <= MAX_RSA_EXPONENT and exponent % 2):
            raise ValueError(f"the exponent is not an odd number of 3…{MAX_RSA_EXPONENT}")
        return key
    raise ValueError("the data is a key of another type")


def _is_usual_point(encoded: bytes) -> bool:
    """Return True if the bytes are the canonical encoding of a point that is not of small order."""
    y = int.from_bytes(encoded, "little") & ((1 << 255) - 1)
    return y < _PRIME and y not in _SMALL_ORDER
