"""What peers are held to: offences make demerits, demerits fade, and who has too many is slowed, then kept out.

Demerits halve every `half_life_s`. From `slow_at` on, reading from the peer pauses again and again; at `out_at` its
connection ends, and it is not let in for `out_s`. An address answers for all of its peers together, with
`address_factor` times as much patience: many honest peers may share one.

Gossipsub's scores (1.1) take over from here for what they count.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from hearsay.libp2p.peer_id import PeerId


class Offence(Enum):
    """The demerits of each."""

    MALFORMED = 40.0
    """Bytes that are no RPC, or no frame."""
    FORGED = 20.0
    """A message whose signature is wrong."""
    REJECTED = 10.0
    """A message that the application refuses."""
    BACKOFF_BROKEN = 10.0
    """A GRAFT before the time that was named."""
    OVER_LIMIT = 5.0
    """More than a bound of parts, bytes or streams allows."""
    REPLAYED = 2.0
    """A message of an author with a sequence number that is not the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConductLimits:
    slow_at: float = 100.0
    out_at: float = 200.0
    out_s: float = 600.0
    half_life_s: float = 60.0
    address_factor: float = 8.0
    remembered: int = 4096
    """Peers and addresses with demerits, or kept out; beyond that those with the fewest are forgotten."""


class Conduct:
    """`now_s` is any clock that goes forward; `expel` ends the connection of a peer."""

    def __init__(
        self, now_s: Callable[[], float], expel: Callable[[PeerId], None], limits: ConductLimits | None = None
    ) -> None:
        self._now_s = now_s
        self._expel = expel
        self._limits = limits or ConductLimits()

    def note(self, peer: PeerId, address: str, offence: Offence, count: int = 1) -> None:
        """A peer at an address (`hearsay.libp2p.resources.address_group`) did something, `count` times."""

    def slowed(self, peer: PeerId) -> bool:
        """Whether the peer should be read from less."""
        return False

    def kept_out_s(self, peer: PeerId | None, address: str) -> float:
        """How much longer a peer, or an address, is not let in; 0 when it is."""
        return 0.0
