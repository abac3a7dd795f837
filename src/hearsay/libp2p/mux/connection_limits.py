"""Limits of a connection and its streams, and the check that the peer of a connection is alive."""

from __future__ import annotations

from dataclasses import dataclass, field

from hearsay.libp2p.mux.yamux import YamuxLimits

LARGE_FRAME = 32
"""Number of bytes of data for which one frame is not counted as a small frame."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Limits of one connection and its streams."""

    handshake_s: float = 10.0
    """Maximum seconds from the opening of the socket to a secured, multiplexed connection."""
    negotiation_s: float = 10.0
    """Maximum seconds of the negotiation of a stream's protocol."""
    max_negotiating: int = 64
    """Maximum number of inbound streams whose protocol is being negotiated."""
    idle_s: float = 10.0
    """Seconds of silence after which a peer is pinged."""
    answer_s: float = 10.0
    """Seconds after a ping at which the connection ends if no bytes were received since."""
    write_s: float = 10.0
    """Seconds after which the connection ends if the socket accepts none of the waiting bytes."""
    small_frames_per_s: float = 5_000
    """Maximum number of small frames per second: frames of Noise and Yamux, minus one per `LARGE_FRAME` bytes of
    data.
    """
    small_frames_at_once: float = 10_000
    """Maximum number of small frames in a burst. After more, reading from the peer pauses."""
    yamux: YamuxLimits = field(default_factory=YamuxLimits)


class Liveness:
    """The times of the last received bytes and of the last progress in sending. Times are those of the event loop."""

    def __init__(self, limits: ConnectionLimits, now_s: float) -> None:
        self._limits = limits
        self.received_s = self._moved_s = now_s
        """The time of the last received bytes; and the time when the socket last accepted bytes or had none to
        accept.
        """
        self._pinged_s: float | None = None
        self.written = self._taken = 0
        """The number of bytes passed to the socket; and how many of them it had accepted at the last check."""

    @property
    def look_again_s(self) -> float:
        """Return the seconds until the next check."""
        limits = self._limits
        return min(limits.idle_s, limits.answer_s, limits.write_s) / 4

    def is_gone(self, now_s: float, waiting: int) -> bool:
        """Return True if the peer did not answer a ping in time, or if the socket has accepted no bytes for too long.

        `waiting` is the number of bytes that the socket has not accepted yet.
        """
        taken = self.written - waiting
        if taken != self._taken or not waiting:
            self._taken, self._moved_s = taken, now_s
        if self._pinged_s is not None and self.received_s >= self._pinged_s:
            self._pinged_s = None
        if self._pinged_s is not None and now_s - self._pinged_s >= self._limits.answer_s:
            return True
        return now_s - self._moved_s >= self._limits.write_s

    def must_ping(self, now_s: float) -> bool:
        """Return True if the caller must ping the peer now, and record the time of this ping."""
        if self._pinged_s is None and now_s - self.received_s >= self._limits.idle_s:
            self._pinged_s = now_s
            return True
        return False
