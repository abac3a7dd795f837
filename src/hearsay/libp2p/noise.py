"""The secure channel: Noise XX with libp2p identities (libp2p specs, "noise").

Rules:

* Every message, including those of the handshake, is preceded by its length in two bytes, big endian.
* Messages two and three carry a payload `{identity_key = 1, identity_sig = 2, extensions = 4}`: the sender's public
  key, and its signature over `noise-libp2p-static-key:` and the Noise static key. Extensions are skipped.
* A dialer that expects an identity refuses all others. Our own identity is also refused (reflection).

`Handshake` receives and returns bytes until `channel` is set; then the `Channel` encrypts and decrypts. The three
messages of the handshake are:

    -> e
    <- e, ee, s, es
    -> s, se

`XX` writes and reads these messages with any payload; `Handshake` has libp2p's payloads. Points of low order, which
would lead to a shared secret of zeros, are refused (section 12.1 of the Noise specification).
"""

from __future__ import annotations

import hmac
import sys
from hashlib import sha256

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from hearsay.libp2p.names import peer_id
from hearsay.libp2p.names.errors import EncodingError, NoiseError, OwnIdentity
from hearsay.libp2p.names.keys import PrivateKey, PublicKey
from hearsay.libp2p.names.protobuf import bytes_field, last_values

PROTOCOL_NAME = b"Noise_XX_25519_ChaChaPoly_SHA256"
KEY_BYTES = 32
TAG_BYTES = 16
_MAX_NONCE = (1 << 64) - 1


class Cipher:
    """The cipher of one direction: a key and a counter (section 5.1 of the Noise specification)."""

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
            raise NoiseError("the nonces of the cipher are used up")
        self._count = count + 1
        return b"\0\0\0\0" + count.to_bytes(8, "little")


class XX:
    """One side of the Noise handshake. The initiator writes the first message, then the sides alternate."""

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
        """Number of messages written or read so far."""

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
        """Return the payload of a message of the peer. Raises `NoiseError`; then the handshake is unusable."""
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
        """Return the ciphers for sending and receiving. The handshake must be done."""
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


PROTOCOL = "/noise"
SIGNATURE_PREFIX = b"noise-libp2p-static-key:"
MAX_HANDSHAKE_BYTES = 8192
"""Maximum bytes of a handshake message. A message with an RSA key has fewer than 2,300; the format allows 65,535."""
MAX_PLAINTEXT_BYTES = 65535 - TAG_BYTES


class Channel:
    """A secure channel, which encrypts data (`seal`) and decrypts data (`open`)."""

    def __init__(self, peer: peer_id.PeerId, sealing: Cipher, opening: Cipher) -> None:
        self.peer = peer
        """The proven identity of the remote end."""
        self._sealing = sealing
        self._opening = opening
        self._received = b""
        self._offset = 0
        """Offset in `_received` of the first byte that is not decrypted."""
        self.frames = 0
        """Number of decrypted frames."""

    @property
    def buffered_bytes(self) -> int:
        """Return the number of received bytes that are not decrypted yet, in complete and incomplete frames."""
        return len(self._received) - self._offset

    @property
    def has_frame(self) -> bool:
        """Return True if a complete frame waits to be decrypted."""
        received, offset = self._received, self._offset
        left = len(received) - offset
        return left >= 2 and left - 2 >= (received[offset] << 8 | received[offset + 1])

    def seal(self, plaintext: bytes) -> bytes:
        """Return `plaintext` in as few encrypted frames as possible."""
        encrypt = self._sealing.encrypt
        if len(plaintext) <= MAX_PLAINTEXT_BYTES:
            sealed = encrypt(plaintext)
            return len(sealed).to_bytes(2, "big") + sealed
        view = memoryview(plaintext)
        frames: list[bytes] = []
        for start in range(0, len(view), MAX_PLAINTEXT_BYTES):
            sealed = encrypt(view[start : start + MAX_PLAINTEXT_BYTES])
            frames += (len(sealed).to_bytes(2, "big"), sealed)
        return b"".join(frames)

    def feed(self, data: bytes) -> None:
        """Add received bytes."""
        self._received = self._received[self._offset :] + data if self.buffered_bytes else data
        self._offset = 0

    def open(self, data: bytes = b"", at_most: int = sys.maxsize) -> bytes:
        """Add received bytes, decrypt complete frames, and return their plaintext.

        Stop after the frame with which the decrypted frames have `at_most` encrypted bytes or more. Raises
        `NoiseError` if a frame is not authentic.
        """
        if data:
            self.feed(data)
        received, offset = self._received, self._offset
        end, until = len(received), offset + at_most
        view = memoryview(received)
        opened: list[bytes] = []
        while offset < until:
            stop = offset + 2 + (received[offset] << 8 | received[offset + 1]) if end - offset >= 2 else end + 1
            if stop > end:
                received, offset = received[offset:], 0
                break
            opened.append(self._opening.decrypt(view[offset + 2 : stop]))
            offset = stop
        self._received, self._offset = received, offset
        self.frames += len(opened)
        return opened[0] if len(opened) == 1 else b"".join(opened)


class Handshake:
    """One side of libp2p's handshake. It is complete when `channel` is not None."""

    def __init__(self, identity: PrivateKey, initiator: bool, expected: peer_id.PeerId | None = None) -> None:
        self.channel: Channel | None = None
        self.leftover = b""
        """Received bytes after the handshake, which the channel has to decrypt."""
        self._initiator = initiator
        self._expected = expected
        self._own = peer_id.peer_id_of(identity.public)
        static = X25519PrivateKey.generate()
        self._xx = XX(initiator, static)
        signed = SIGNATURE_PREFIX + static.public_key().public_bytes_raw()
        self._payload = bytes_field(1, identity.public.encoded) + bytes_field(2, identity.sign(signed))
        self._peer: peer_id.PeerId | None = None
        self._buffer = bytearray()

    def start(self) -> bytes:
        return self._write(b"") if self._initiator else b""

    def receive(self, data: bytes) -> bytes:
        """Handle bytes of the peer, and return the bytes to send. Raises `NoiseError` if the handshake fails."""
        if self.channel is not None:
            raise RuntimeError("the handshake is over")
        self._buffer += data
        answers: list[bytes] = []
        while self.channel is None and (message := self._next_message()) is not None:
            answers.append(self._received(message))
        return b"".join(answers)

    def _received(self, message: bytes) -> bytes:
        payload = self._xx.read(message)
        if self._xx.messages == 1:
            return self._write(self._payload)
        self._peer = self._identified(payload)
        answer = b"" if self._xx.done else self._write(self._payload)
        self.channel = Channel(self._peer, *self._xx.split())
        self.leftover = bytes(self._buffer)
        self._buffer.clear()
        return answer

    def _write(self, payload: bytes) -> bytes:
        message = self._xx.write(payload)
        return len(message).to_bytes(2, "big") + message

    def _next_message(self) -> bytes | None:
        buffer = self._buffer
        if len(buffer) < 2:
            return None
        length = buffer[0] << 8 | buffer[1]
        if length > MAX_HANDSHAKE_BYTES:
            raise NoiseError(f"a handshake message of {length} bytes; at most {MAX_HANDSHAKE_BYTES} are allowed")
        if len(buffer) < 2 + length:
            return None
        message = bytes(buffer[2 : 2 + length])
        del buffer[: 2 + length]
        return message

    def _identified(self, payload: bytes) -> peer_id.PeerId:
        """Return the peer id that the payload of a handshake message proves. Raises `NoiseError`."""
        try:
            encoded, signature = last_values(payload, 1, 2)
            key = PublicKey.decode(encoded or b"")
        except EncodingError as error:
            raise NoiseError(f"the peer's identity cannot be read: {error}") from None
        found = peer_id.peer_id_of(key)
        if self._expected is not None and found != self._expected:
            raise NoiseError(f"expected {peer_id.to_text(self._expected)}, got {peer_id.to_text(found)}")
        if found == self._own:
            raise OwnIdentity("the peer has our own identity")
        if not key.verify(signature or b"", SIGNATURE_PREFIX + self._xx.remote_static):
            raise NoiseError(f"the signature of {peer_id.to_text(found)} is wrong")
        return found
