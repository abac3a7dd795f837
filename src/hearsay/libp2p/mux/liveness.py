"""Whether a peer is alive.

* A peer that says nothing for a while is pinged, and is gone when it does not answer.
* So is one whose socket takes nothing while bytes wait for it: a process that was stopped is gone after `idle_s` +
  `answer_s` and a bit.
"""

from __future__ import annotations

from enum import Enum, auto

from hearsay.libp2p.mux.connection_limits import ConnectionLimits


class Sign(Enum):
    """What a look at a peer shows."""

    ALIVE = auto()
    SILENT = auto()
    """It is time to ping."""
    GONE = auto()


class Liveness:
    """What a connection has heard of its peer, and what the socket has taken."""

    def __init__(self, limits: ConnectionLimits, now_s: float) -> None:
        self._limits = limits
        self.heard_s = self._moved_s = now_s
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
        if self._pinged_s is None or self.heard_s >= self._pinged_s:
            self._pinged_s = None
            if now_s - self.heard_s >= limits.idle_s:
                self._pinged_s = now_s
                sign = Sign.SILENT
        elif now_s - self._pinged_s >= limits.answer_s:
            return Sign.GONE
        if now_s - self._moved_s >= limits.write_s:
            return Sign.GONE
        return sign
