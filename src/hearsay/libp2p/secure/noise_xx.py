"""The Noise handshake XX over X25519, ChaCha20-Poly1305 and SHA-256 (Noise specification, revision 34).

    -> e
    <- e, ee, s, es
    -> s, se

`XX` writes and reads the three messages with any payload; libp2p's meaning of the payloads is in `noise.py`.
Points of low order, which would make a shared secret of zeros, are refused (section 12.1).
"""

from __future__ import annotations

import hmac
from hashlib import sha256

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from hearsay.libp2p.names.errors import NoiseError

PROTOCOL_NAME = b"Noise_XX_25519_ChaChaPoly_SHA256"
KEY_BYTES = 32
TAG_BYTES = 16
_MAX_NONCE = (1 << 64) - 1


class Cipher:
    """One direction: a key and a counter (section 5.1)."""

    __slots__ = ("_aead", "_count")

    def __init__(self, key: bytes) -> None:
        self._aead = ChaCha20Poly1305(key)
        self._count = 0

    def encrypt(self, plaintext: bytes | memoryview, associated: bytes | None = None) -> bytes:
        return self._aead.encrypt(self._nonce(), plaintext, associated)

    def decrypt(self, ciphertext: bytes | memoryview, associated: bytes | None = None) -> bytes:
        if len(ciphertext) < TAG_BYTES:
            raise NoiseError("a ciphertext shorter than its authentication tag")
        try:
            return self._aead.decrypt(self._nonce(), ciphertext, associated)
        except InvalidTag:
            raise NoiseError("a ciphertext that is not authentic") from None

    def _nonce(self) -> bytes:
        count = self._count
        if count == _MAX_NONCE:
            raise NoiseError("the cipher is used up")
        self._count = count + 1
        return b"\0\0\0\0" + count.to_bytes(8, "little")


class XX:
    """One side of the handshake. Messages alternate, beginning with the initiator's."""

    def __init__(
        self,
        initiator: bool,
        static: X25519PrivateKey,
        ephemeral: X25519PrivateKey | None = None,
        prologue: bytes = b"",
    ) -> None:
        self._initiator = initiator
        self._static = static
        self._ephemeral = ephemeral or X25519PrivateKey.generate()
        self._own_ephemeral = self._ephemeral.public_key().public_bytes_raw()
        self._own_static = static.public_key().public_bytes_raw()
        self._remote_ephemeral = b""
        self.remote_static = b""
        self._chaining_key = PROTOCOL_NAME
        self._cipher: Cipher | None = None
        self.hash = PROTOCOL_NAME
        self._mix_hash(prologue)
        self.messages = 0
        """How many were written and read."""

    @property
    def done(self) -> bool:
        return self.messages == 3

    def write(self, payload: bytes) -> bytes:
        if self.done or self._initiator != (self.messages % 2 == 0):
            raise RuntimeError("it is not our turn to write")
        tokens: list[bytes] = []
        if self.messages < 2:
            self._mix_hash(self._own_ephemeral)
            tokens.append(self._own_ephemeral)
        if self.messages == 1:
            self._mix_key(self._ephemeral, self._remote_ephemeral)
        if self.messages:
            tokens.append(self._encrypt(self._own_static))
            self._mix_key(self._static, self._remote_ephemeral)
        self.messages += 1
        tokens.append(self._encrypt(payload))
        return b"".join(tokens)

    def read(self, message: bytes) -> bytes:
        """The payload of a message. After a `NoiseError` the handshake is of no more use."""
        if self.done or self._initiator == (self.messages % 2 == 0):
            raise NoiseError("a handshake message out of turn")
        offset = 0
        if self.messages < 2:
            offset = KEY_BYTES
            self._remote_ephemeral = _piece(message, 0, offset)
            if self._remote_ephemeral == self._own_ephemeral:
                raise NoiseError("the peer sent our own ephemeral key back")
            self._mix_hash(self._remote_ephemeral)
        if self.messages == 1:
            self._mix_key(self._ephemeral, self._remote_ephemeral)
        if self.messages:
            stop = offset + KEY_BYTES + TAG_BYTES
            self.remote_static = self._decrypt(_piece(message, offset, stop))
            offset = stop
            if self.remote_static == self._own_static:
                raise NoiseError("the peer sent our own static key back")
            self._mix_key(self._ephemeral, self.remote_static)
        self.messages += 1
        return self._decrypt(message[offset:])

    def split(self) -> tuple[Cipher, Cipher]:
        """The ciphers for sending and receiving, when the handshake is done."""
        if not self.done:
            raise RuntimeError("the handshake is not done")
        first, second = _hkdf(self._chaining_key, b"")
        return (Cipher(first), Cipher(second)) if self._initiator else (Cipher(second), Cipher(first))

    def _mix_hash(self, data: bytes) -> None:
        self.hash = sha256(self.hash + data).digest()

    def _mix_key(self, private: X25519PrivateKey, public: bytes) -> None:
        try:
            shared = private.exchange(X25519PublicKey.from_public_bytes(public))
        except ValueError:
            raise NoiseError("the peer's key is a point of low order") from None
        self._chaining_key, key = _hkdf(self._chaining_key, shared)
        self._cipher = Cipher(key)

    def _encrypt(self, plaintext: bytes) -> bytes:
        text = plaintext if self._cipher is None else self._cipher.encrypt(plaintext, self.hash)
        self._mix_hash(text)
        return text

    def _decrypt(self, text: bytes) -> bytes:
        plaintext = text if self._cipher is None else self._cipher.decrypt(text, self.hash)
        self._mix_hash(text)
        return plaintext


def _hkdf(chaining_key: bytes, material: bytes) -> tuple[bytes, bytes]:
    secret = hmac.digest(chaining_key, material, "sha256")
    first = hmac.digest(secret, b"\x01", "sha256")
    return first, hmac.digest(secret, first + b"\x02", "sha256")


def _piece(message: bytes, start: int, stop: int) -> bytes:
    if len(message) < stop:
        raise NoiseError("a handshake message is too short")
    return message[start:stop]
