"""How many connections a host has: no more than the files that the process may open.

`hearsay.slots` shares them between addresses. The owner of the host says what its peers are worth (`Host.worth`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionLimits:
    """Upper bounds; fewer files mean fewer of all (`fitted`)."""

    max_connections: int = 1024
    """Proven connections and dials."""
    reserved_for_dials: int = 64
    """Inbound connections leave so many of them."""
    max_per_address: int = 256
    """Inbound connections of an address; a quarter, because many honest peers may share one."""
    newcomer_patience_s: float = 2.0
    """An idle inbound connection gives way to a newcomer after this time, when no slot is free."""
    max_handshakes: int = 128
    """Inbound connections that have not proven who they are."""
    max_handshakes_per_address: int = 32
    handshake_patience_s: float = 0.05
    """A connection that has sent nothing gives way to a new one after this time, when no handshake is free."""
    spare_files: int = 64
    """For everything but connections."""


class Places(NamedTuple):
    connections: int
    inbound: int
    per_address: int
    handshakes: int
    handshakes_per_address: int


def fitted(limits: AdmissionLimits, files: int) -> Places:
    """What fits into so many open files. Some of everything is left, however few they are."""
    usable = max(4, files - min(limits.spare_files, files // 2))
    handshakes = max(1, min(limits.max_handshakes, usable // 8))
    connections = max(1, min(limits.max_connections, usable - handshakes))
    inbound = connections - min(limits.reserved_for_dials, connections // 4)
    return Places(
        connections,
        inbound,
        min(limits.max_per_address, max(8, inbound // 2)),
        handshakes,
        min(limits.max_handshakes_per_address, handshakes),
    )
