"""Places for connections, shared fairly between addresses: no address takes them all while another wants one.

When every place is taken, the address that has most gives one up for a newcomer whose address has fewer. So whoever
has one address, or a few, keeps out nobody but themselves.

`fitted` says how many places there are: no more than the files that the process may open.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionLimits:
    """Upper bounds; fewer files mean fewer of all (`fitted`)."""

    max_connections: int = 1024
    """Proven connections and dials."""
    reserved_for_dials: int = 64
    """Inbound connections leave so many of them."""
    max_per_address: int = 256
    """Inbound connections of an address; a quarter, because many honest peers may share one."""
    max_handshakes: int = 128
    """Inbound connections that have not proven who they are."""
    max_handshakes_per_address: int = 32
    handshake_patience_s: float = 1.0
    """An address that has all its handshakes gives up the oldest for a new one, but none that is younger."""
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


class Slots(Generic[T]):
    """Who holds a place, by address.

    With `patience_s` the oldest holder of an address goes first, and once it is so old it also goes for one of an
    address that has no fewer. Without, those who came first stay: for connections that were proven.
    """

    def __init__(self, limit: int, per_address: int, patience_s: float | None = None) -> None:
        self.limit = limit
        self._per_address = per_address
        self._patience_s = patience_s
        self._holders: dict[str, dict[T, float]] = {}
        self._address: dict[T, str] = {}

    def __len__(self) -> int:
        return len(self._address)

    def enter(self, holder: T, address: str, now_s: float) -> T | None:
        """Take a place; who has none by that: nobody, somebody who had one, or the newcomer."""
        own = self._holders.get(address, {})
        loser: T | None = None
        if len(own) >= self._per_address or len(self) >= self.limit:
            most = own if len(own) >= self._per_address else max(self._holders.values(), key=len, default=own)
            loser = self._first_to_go(most, len(own) + 1 < len(most), now_s)
            if loser is None:
                return holder
            self.leave(loser)
        self._holders.setdefault(address, {})[holder] = now_s
        self._address[holder] = address
        return loser

    def leave(self, holder: T) -> None:
        address = self._address.pop(holder, None)
        if address is not None:
            holders = self._holders[address]
            del holders[holder]
            if not holders:
                del self._holders[address]

    def _first_to_go(self, holders: dict[T, float], crowded: bool, now_s: float) -> T | None:
        if self._patience_s is None:
            return next(reversed(holders)) if crowded else None
        oldest, since_s = next(iter(holders.items()))
        return oldest if crowded or now_s - since_s >= self._patience_s else None
