"""Time limits of a connection and its streams, and the liveness of a peer."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto

from hearsay.libp2p.mux.yamux import YamuxLimits

LARGE_FRAME = 32
"""Size from which a frame is not small."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    handshake_s: float = 10.0
    """From the socket's opening to a secured, multiplexed connection."""
    negotiation_s: float = 10.0
    """For a stream's protocol."""
    max_negotiating: int = 64
    """Inbound streams that have no protocol yet."""
    idle_s: float = 10.0
    """Silence after which a peer is pinged."""
    answer_s: float = 10.0
    """Silence after the ping at which the connection ends."""
    write_s: float = 10.0
    """So is whose socket takes nothing for so long while bytes wait."""
    small_frames_per_s: float = 5_000
    """Frames of Noise and yamux, less one for each `LARGE_FRAME` bytes in them. A faster peer has to wait."""
    small_frames_at_once: float = 10_000
    yamux: YamuxLimits = field(default_factory=YamuxLimits)


class Sign(Enum):
    """The result of a liveness check."""

    ALIVE = auto()
    SILENT = auto()
    """It is time to ping."""
    GONE = auto()


class Liveness:
    """Times of the last received bytes and of progress in sending."""

    def __init__(self, limits: ConnectionLimits, now_s: float) -> None:
        self._limits = limits
        self.received_s = self._moved_s = now_s
        """When the peer last sent something; when the socket last took something, or had nothing to take."""
        self._pinged_s: float | None = None
        self.written = self._taken = 0
        """Bytes handed to the socket; those that it had taken at the last look."""

    @property
    def look_again_s(self) -> float:
        limits = self._limits
        return min(limits.idle_s, limits.answer_s, limits.write_s) / 4

    def look(self, now_s: float, waiting: int) -> Sign:
        """`waiting` is how many bytes the socket has not taken."""
        limits = self._limits
        taken = self.written - waiting
        if taken != self._taken or not waiting:
            self._taken, self._moved_s = taken, now_s
        sign = Sign.ALIVE
        if self._pinged_s is None or self.received_s >= self._pinged_s:
            self._pinged_s = None
            if now_s - self.received_s >= limits.idle_s:
                self._pinged_s = now_s
                sign = Sign.SILENT
        elif now_s - self._pinged_s >= limits.answer_s:
            return Sign.GONE
        if now_s - self._moved_s >= limits.write_s:
            return Sign.GONE
        return sign
