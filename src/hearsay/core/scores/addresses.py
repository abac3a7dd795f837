"""Which peers share addresses, for the penalty on that (P6).

Rules:

* ADDRESS-1: Loopback does not count, nor does what lies in an allowed network. An IPv4 address in IPv6's clothes
  counts as what it is. A text that is no address counts as it stands.
* ADDRESS-2: An IPv6 address counts as itself and as its /64 (go), as one of them, or not at all (jvm).
* ADDRESS-3: A peer that has gone and is kept goes on counting at its addresses.
* ADDRESS-4: So many addresses of a peer count, the first that are given.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

from hearsay.core.language.identifiers import PeerId
from hearsay.core.rules.scores.parts import excess_square
from hearsay.core.scores.choices import Ipv6Counting

_WHOLE = (Ipv6Counting.WHOLE_AND_PREFIX, Ipv6Counting.WHOLE)
_PREFIX = (Ipv6Counting.WHOLE_AND_PREFIX, Ipv6Counting.PREFIX)


class SharedAddresses:
    __slots__ = ("_allowed", "_at", "_ipv6", "_most", "_of", "changes")

    def __init__(self, allowed: Sequence[str], ipv6: Ipv6Counting, most_per_peer: int) -> None:
        self._allowed = tuple(ip_network(text, strict=False) for text in allowed)
        self._ipv6 = ipv6
        self._most = most_per_peer
        self._at: dict[str, int] = {}
        """How many peers an address has."""
        self._of: dict[PeerId, tuple[str, ...]] = {}
        """Ascending, so that sums do not depend on who said what first."""
        self.changes = 0
        """So often has an address won or lost a peer."""

    def __len__(self) -> int:
        return len(self._at)

    def place(self, peer: PeerId, addresses: Iterable[str]) -> None:
        """The peer is at these addresses, and at no others."""
        self.remove(peer)
        counted = sorted({name for text in self._first(addresses) for name in self._names(text)})
        if counted:
            self._of[peer] = tuple(counted)
            self.changes += 1
            for name in counted:
                self._at[name] = self._at.get(name, 0) + 1

    def remove(self, peer: PeerId) -> None:
        left = self._of.pop(peer, ())
        self.changes += bool(left)
        for name in left:
            if self._at[name] == 1:
                del self._at[name]
            else:
                self._at[name] -= 1

    def excess(self, peer: PeerId, threshold: int) -> float:
        """P6 of the peer."""
        found = 0.0
        for name in self._of.get(peer, ()):
            found += excess_square(float(self._at[name]), float(threshold))
        return found

    def _first(self, addresses: Iterable[str]) -> list[str]:
        return list(dict.fromkeys(addresses))[: self._most]

    def _names(self, text: str) -> Iterator[str]:
        """As what an address counts."""
        address = _parsed(text)
        if address is None:
            if text:
                yield text
        elif address.is_loopback or any(address in network for network in self._allowed):
            return
        elif isinstance(address, IPv4Address):
            yield str(address)
        else:
            if self._ipv6 in _WHOLE:
                yield str(address)
            if self._ipv6 in _PREFIX:
                yield str(IPv6Network((address, 64), strict=False))


def _parsed(text: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
