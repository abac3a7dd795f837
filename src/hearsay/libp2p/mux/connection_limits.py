"""How long a connection and its streams may take, and how many may be on their way to a protocol."""

from __future__ import annotations

from dataclasses import dataclass, field

from hearsay.libp2p.mux.yamux import YamuxLimits

LARGE_FRAME = 32
"""A frame of so many bytes carries its own cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    handshake_s: float = 10.0
    """From the socket's opening to a secured, multiplexed connection."""
    negotiation_s: float = 10.0
    """For a stream's protocol."""
    max_negotiating: int = 64
    """Inbound streams that have no protocol yet."""
    idle_s: float = 10.0
    """Who has said nothing for so long is pinged."""
    answer_s: float = 10.0
    """Who says nothing for so long after that is gone."""
    write_s: float = 10.0
    """So is whose socket takes nothing for so long while bytes wait."""
    small_frames_per_s: float = 5_000
    """Frames of Noise and yamux, less one for each `LARGE_FRAME` bytes in them. A faster peer has to wait."""
    small_frames_at_once: float = 10_000
    yamux: YamuxLimits = field(default_factory=YamuxLimits)
