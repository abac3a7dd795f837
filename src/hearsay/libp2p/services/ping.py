"""Ping: 32 bytes go there and come back (libp2p specs, "ping")."""

from __future__ import annotations

from hearsay.libp2p.names.errors import ProtocolError

PROTOCOL = "/ipfs/ping/1.0.0"
PAYLOAD_BYTES = 32


class Echo:
    """The answering side: whole payloads go back."""

    def __init__(self) -> None:
        self._buffer = b""

    def receive(self, data: bytes) -> bytes:
        data = self._buffer + data
        whole = len(data) - len(data) % PAYLOAD_BYTES
        self._buffer = data[whole:]
        return data[:whole]


class Ping:
    """The asking side: one payload at a time."""

    def __init__(self, payload: bytes) -> None:
        if len(payload) != PAYLOAD_BYTES:
            raise ValueError(f"a ping has {PAYLOAD_BYTES} bytes")
        self.payload = payload
        self._awaited = payload

    @property
    def answered(self) -> bool:
        return not self._awaited

    def receive(self, data: bytes) -> None:
        if not self._awaited.startswith(data):
            raise ProtocolError("the peer did not echo the ping")
        self._awaited = self._awaited[len(data) :]
