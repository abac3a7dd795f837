"""libp2p's secure channel: Noise XX with identities (libp2p specs, "noise").

Rules:

* Every message, of the handshake and after it, is preceded by its length in two bytes, big endian.
* Messages two and three carry a payload `{identity_key = 1, identity_sig = 2, extensions = 4}`: the peer's public
  key, and its signature over `noise-libp2p-static-key:` and the Noise static key. Extensions are skipped.
* A dialer with an expected identity refuses all others. Our own identity is refused, too (reflection).

`Handshake` takes bytes and gives bytes until `channel` is there; `Channel` then seals and opens.
"""

from __future__ import annotations

import sys

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from hearsay.libp2p.names import peer_id
from hearsay.libp2p.names.errors import EncodingError, NoiseError, OwnIdentity
from hearsay.libp2p.names.keys import PrivateKey, PublicKey
from hearsay.libp2p.names.protobuf import DELIMITED, bytes_field, walk
from hearsay.libp2p.secure.noise_xx import TAG_BYTES, XX, Cipher

PROTOCOL = "/noise"
SIGNATURE_PREFIX = b"noise-libp2p-static-key:"
MAX_HANDSHAKE_BYTES = 8192
"""An RSA identity with its signature takes below 2,300; the frame format would allow 65,535."""
MAX_PLAINTEXT_BYTES = 65535 - TAG_BYTES


class Channel:
    """A secured connection: seals what goes out, opens what comes in."""

    __slots__ = ("_offset", "_opening", "_received", "_sealing", "frames", "peer")

    def __init__(self, peer: peer_id.PeerId, sealing: Cipher, opening: Cipher) -> None:
        self.peer = peer
        """The proven identity of the other end."""
        self._sealing = sealing
        self._opening = opening
        self._received = b""
        self._offset = 0
        """Bytes before it are opened."""
        self.frames = 0
        """Frames opened so far."""

    @property
    def buffered_bytes(self) -> int:
        """Bytes received and not opened: complete frames and the beginning of one."""
        return len(self._received) - self._offset

    @property
    def has_frame(self) -> bool:
        """True if a complete frame waits."""
        received, offset = self._received, self._offset
        left = len(received) - offset
        return left >= 2 and left - 2 >= (received[offset] << 8 | received[offset + 1])

    def seal(self, plaintext: bytes) -> bytes:
        """Frames with `plaintext`, as few as possible."""
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
        """Keep received bytes until they are opened."""
        self._received = self._received[self._offset :] + data if self.buffered_bytes else data
        self._offset = 0

    def open(self, data: bytes = b"", at_most: int = sys.maxsize) -> bytes:
        """The plaintext of complete frames; stops after the frame that reaches `at_most` sealed bytes."""
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
    """One side of the handshake. It is over when `channel` is not None."""

    def __init__(
        self, identity: PrivateKey, initiator: bool, expected: peer_id.PeerId | None = None, xx: XX | None = None
    ) -> None:
        self.channel: Channel | None = None
        self.leftover = b""
        """Bytes after the handshake; they are for the channel to open."""
        self._initiator = initiator
        self._expected = expected
        self._own = peer_id.peer_id_of(identity.public)
        static = X25519PrivateKey.generate()
        self._xx = xx or XX(initiator, static)
        signed = SIGNATURE_PREFIX + static.public_key().public_bytes_raw()
        self._payload = bytes_field(1, identity.public.encoded) + bytes_field(2, identity.sign(signed))
        self._peer: peer_id.PeerId | None = None
        self._buffer = bytearray()

    def start(self) -> bytes:
        return self._write(b"") if self._initiator else b""

    def receive(self, data: bytes) -> bytes:
        """Take bytes of the peer; what to send in answer."""
        if self.channel is not None:
            raise RuntimeError("the handshake is over")
        self._buffer += data
        answers: list[bytes] = []
        while self.channel is None:
            message = self._next_message()
            if message is None:
                break
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
        """Return the identity that the peer proves."""
        try:
            encoded = signature = b""
            for number, wire_type, start, stop in walk(payload, 0, len(payload)):
                if wire_type == DELIMITED and number == 1:
                    encoded = payload[start:stop]
                elif wire_type == DELIMITED and number == 2:
                    signature = payload[start:stop]
            key = PublicKey.decode(encoded)
        except EncodingError as error:
            raise NoiseError(f"the peer's identity cannot be read: {error}") from None
        found = peer_id.peer_id_of(key)
        if self._expected is not None and found != self._expected:
            raise NoiseError(f"expected {peer_id.to_text(self._expected)}, got {peer_id.to_text(found)}")
        if found == self._own:
            raise OwnIdentity("the peer has our own identity")
        if not key.verify(signature, SIGNATURE_PREFIX + self._xx.remote_static):
            raise NoiseError(f"the signature of {peer_id.to_text(found)} is wrong")
        return found
