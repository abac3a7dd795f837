"""Limits of a connection and its streams, and the liveness of a peer."""

from __future__ import annotations

from dataclasses import dataclass, field

from hearsay.libp2p.mux.yamux import YamuxLimits

LARGE_FRAME = 32
"""Minimum bytes of a frame that does not count as small."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    handshake_s: float = 10.0
    """Seconds from the opening of the socket to a secured, multiplexed connection."""
    negotiation_s: float = 10.0
    """Seconds for the negotiation of a stream's protocol."""
    max_negotiating: int = 64
    """Maximum inbound streams whose protocol is negotiated."""
    idle_s: float = 10.0
    """Seconds of silence after which a peer is pinged."""
    answer_s: float = 10.0
    """Seconds without received bytes after the ping, after which the connection ends."""
    write_s: float = 10.0
    """Seconds after which the connection ends if the socket takes none of the waiting bytes."""
    small_frames_per_s: float = 5_000
    """Maximum small frames per second: frames of Noise and yamux, minus one per `LARGE_FRAME` bytes of data."""
    small_frames_at_once: float = 10_000
    """Maximum small frames in a burst. Above it, reading from the peer pauses."""
    yamux: YamuxLimits = field(default_factory=YamuxLimits)


class Liveness:
    """The times of the last received bytes and of the last progress in sending."""

    def __init__(self, limits: ConnectionLimits, now_s: float) -> None:
        self._limits = limits
        self.received_s = self._moved_s = now_s
        """The time of the last received bytes; and the time when the socket last took bytes or had none to take."""
        self._pinged_s: float | None = None
        self.written = self._taken = 0
        """Bytes passed to the socket; and bytes that the socket had taken at the last check."""

    @property
    def look_again_s(self) -> float:
        limits = self._limits
        return min(limits.idle_s, limits.answer_s, limits.write_s) / 4

    def is_gone(self, now_s: float, waiting: int) -> bool:
        """Return True if the peer does not answer, or takes none of the `waiting` bytes."""
        taken = self.written - waiting
        if taken != self._taken or not waiting:
            self._taken, self._moved_s = taken, now_s
        if self._pinged_s is not None and self.received_s >= self._pinged_s:
            self._pinged_s = None
        if self._pinged_s is not None and now_s - self._pinged_s >= self._limits.answer_s:
            return True
        return now_s - self._moved_s >= self._limits.write_s

    def must_ping(self, now_s: float) -> bool:
        """Return True if it is time to ping the peer."""
        if self._pinged_s is None and now_s - self.received_s >= self._limits.idle_s:
            self._pinged_s = now_s
            return True
        return False
