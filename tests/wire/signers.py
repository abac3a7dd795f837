"""Keys of all kinds and of usual and unusual sizes, with deterministic signatures.

Nonces and primes come from hashes, so a corpus from these keys is always the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from hashlib import sha256, sha512
from math import gcd

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from hearsay.libp2p.names.protobuf import bytes_field, varint_field

RSA, ED25519, SECP256K1, ECDSA = range(4)
ORDERS = {
    ec.SECP256K1: 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141,
    ec.SECP224R1: 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFF16A2E0B8F03E13DD29455C5C2A3D,
    ec.SECP256R1: 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551,
    ec.SECP384R1: int(
        "ffffffffffffffffffffffffffffffffffffffffffffffffc7634d81f4372ddf581a0db248b0a77aecec196accc52973", 16
    ),
    ec.SECP521R1: int("1" + "f" * 65 + "a51868783bf2f966b7fcc0148f709a5d03bb5c9b8899c47aebb6fb71e91386409", 16),
    ec.BrainpoolP256R1: 0xA9FB57DBA1EEA9BC3E660A909D838D718C397AA3B561A6F7901E0E82974856A7,
}
OIDS = {
    "rsa": "06092a864886f70d010101",
    "pss": "06092a864886f70d01010a",
    "ec": "06072a8648ce3d0201",
    "ecdh": "06052b8104010c",
    ec.SECP256R1: "06082a8648ce3d030107",
    ec.SECP224R1: "06052b81040021",
    ec.SECP384R1: "06052b81040022",
    ec.SECP521R1: "06052b81040023",
    ec.SECP256K1: "06052b8104000a",
    ec.BrainpoolP256R1: "06092b2403030208010107",
}
NULL = b"\x05\x00"


def number_from(*seeds: object, bits: int = 512) -> int:
    text = "/".join(map(str, seeds)).encode()
    blocks = [sha512(text + bytes([place])).digest() for place in range(-(-bits // 512))]
    return int.from_bytes(b"".join(blocks), "big") >> (512 * len(blocks) - bits)


def item(tag: int, *parts: bytes) -> bytes:
    """Return a DER element with a tag and content."""
    body = b"".join(parts)
    size = len(body)
    if size < 0x80:
        return bytes((tag, size)) + body
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(length))) + length + body


def integer(value: int) -> bytes:
    return item(2, value.to_bytes(value.bit_length() // 8 + 1, "big"))


def dss(r: int, s: int) -> bytes:
    return item(0x30, integer(r), integer(s))


def oid(name: object) -> bytes:
    return bytes.fromhex(OIDS[name])


def bit_string(body: bytes, unused: int = 0) -> bytes:
    return item(3, bytes((unused,)), body)


def digest_info(content: bytes) -> bytes:
    """Return the DigestInfo that RSA signs: the name of SHA-256 and the digest of the content."""
    return bytes.fromhex("3031300d060960864801650304020105000420") + sha256(content).digest()


@dataclass(frozen=True)
class Signer:
    """A public key in libp2p's form, `type` and `data`; the subclasses can sign."""

    type: int
    data: bytes

    @property
    def encoded(self) -> bytes:
        return varint_field(1, self.type) + bytes_field(2, self.data)

    def sign(self, content: bytes) -> bytes:
        raise NotImplementedError


@dataclass(frozen=True)
class Edwards(Signer):
    secret: Ed25519PrivateKey

    @classmethod
    def of(cls, seed: object) -> Edwards:
        secret = Ed25519PrivateKey.from_private_bytes(sha256(str(seed).encode()).digest())
        return cls(ED25519, secret.public_key().public_bytes_raw(), secret)

    def sign(self, content: bytes) -> bytes:
        return self.secret.sign(content)


@dataclass(frozen=True)
class Elliptic(Signer):
    curve: ec.EllipticCurve
    secret: int

    @classmethod
    def of(cls, seed: object, curve: type[ec.EllipticCurve], key_type: int = ECDSA) -> Elliptic:
        secret = number_from("key", seed) % ORDERS[curve]
        public = ec.derive_private_key(secret, curve()).public_key()
        if key_type == SECP256K1:
            data = public.public_bytes(Encoding.X962, PublicFormat.CompressedPoint)
        else:
            data = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return cls(key_type, data, curve(), secret)

    @property
    def numbers(self) -> tuple[int, int, int]:
        """Return x, y, and the number of bytes of a coordinate."""
        public = ec.derive_private_key(self.secret, self.curve).public_key().public_numbers()
        return public.x, public.y, (self.curve.key_size + 7) // 8

    def point(self, prefix: int = 4) -> bytes:
        x, y, size = self.numbers
        body = bytes((prefix,)) + x.to_bytes(size, "big")
        return body if prefix in (2, 3) else body + y.to_bytes(size, "big")

    @property
    def compressed(self) -> bytes:
        return self.point(2 + self.numbers[1] % 2)

    @property
    def hybrid(self) -> bytes:
        return self.point(6 + self.numbers[1] % 2)

    def rs(self, content: bytes) -> tuple[int, int]:
        """Return r and s of the signature, with the smaller s."""
        order = ORDERS[type(self.curve)]
        nonce = number_from("nonce", self.secret, content.hex()) % order
        r = ec.derive_private_key(nonce, self.curve).public_key().public_numbers().x % order
        digest = int.from_bytes(sha256(content).digest(), "big") >> max(0, 256 - order.bit_length())
        s = pow(nonce, -1, order) * (digest + r * self.secret) % order
        return r, min(s, order - s)

    def sign(self, content: bytes) -> bytes:
        return dss(*self.rs(content))


@dataclass(frozen=True)
class Rsa(Signer):
    """An RSA key; its modulus may have many small primes, which are faster to find than two large ones."""

    modulus: int
    exponent: int
    primes: tuple[int, ...]

    @classmethod
    @cache
    def of(cls, bits: int, exponent: int = 65537) -> Rsa:
        primes: list[int] = []
        modulus = 1
        while modulus.bit_length() < bits:
            left = bits - modulus.bit_length()
            size = 256 if left >= 384 else left if left <= 256 else left - 128
            last = size == left
            candidate = number_from("prime", bits, exponent, len(primes), bits=size) | 1 | 1 << size - 1
            if last:  # choose the prime so that the product has the requested number of bits
                candidate = -(-(1 << bits - 1) // modulus) + number_from("last", bits, bits=size // 2) | 1
            while gcd(candidate - 1, exponent) > 1 or candidate in primes or not _is_prime(candidate):
                candidate += 2
            primes.append(candidate)
            modulus *= candidate
        assert modulus.bit_length() == bits
        return cls(RSA, spki_of_rsa(modulus, exponent), modulus, exponent, tuple(primes))

    @property
    def size(self) -> int:
        return (self.modulus.bit_length() + 7) // 8

    def raw(self, padded: bytes) -> bytes:
        """Return the signature for a padded digest, computed by the Chinese remainder theorem."""
        number = int.from_bytes(padded, "big")
        total = 0
        for prime in self.primes:
            others = self.modulus // prime
            root = pow(number, pow(self.exponent, -1, prime - 1), prime)
            total += root * pow(others, -1, prime) * others
        return (total % self.modulus).to_bytes(self.size, "big")

    def padded(self, tail: bytes, fill: bytes = b"\xff") -> bytes:
        """Return the tail in the padding of PKCS 1."""
        return b"\0\1" + fill * (self.size - 3 - len(tail)) + b"\0" + tail

    def sign(self, content: bytes) -> bytes:
        return self.raw(self.padded(digest_info(content)))


def spki_of_rsa(modulus: int, exponent: int) -> bytes:
    return spki(oid("rsa") + NULL, item(0x30, integer(modulus), integer(exponent)))


def spki(algorithm: bytes, key: bytes, unused: int = 0) -> bytes:
    return item(0x30, item(0x30, algorithm), bit_string(key, unused))


def _is_prime(number: int) -> bool:
    """Return whether a number passes Fermat's primality test, which is enough for numbers that come from hashes."""
    return all(pow(base, number - 1, number) == 1 for base in (2, 3, 5, 7, 11))
