"""Slots for connections, shared fairly between addresses. The host and every HTTP server use them.

A holder is a connection that has a slot; a newcomer is a connection that needs one. The owner of the slots gives
holders a worth; a holder without a worth is idle. An IPv4 address is a group of its own. An IPv6 address counts in
three groups, its /64, its /56 and its /48, because a customer of a provider gets one of these. Rules for a newcomer
that finds no free slot:

* SLOTS-1: No group has more than `per_group` slots (its share). If a group of the newcomer has its full share, only
  an idle holder of this group can be evicted.
* SLOTS-2: While a certain part of the slots (a quarter for a host) has idle holders, only idle holders are evicted.
  So useful holders keep the other slots.
* SLOTS-3: The oldest idle holder of the largest group is evicted, if the newcomer's group is smaller.
* SLOTS-4: Otherwise the oldest idle holder is evicted, once its age reaches the patience.
* SLOTS-5: If fewer holders are idle than SLOTS-2 requires, the holder with the lowest worth is evicted. So newcomers
  find a slot at all times.
* SLOTS-6: A holder of infinite worth is never evicted, but this protects at most half of a group's share.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from math import inf
from typing import Generic, TypeVar

T = TypeVar("T")
_IPV6_BITS = (48, 56, 64)


@lru_cache(1024)
def groups_of(address: str) -> tuple[str, ...]:
    """Return the groups in which an address counts, the widest first. A host name is a group of its own."""
    try:
        parsed = ip_address(address.partition("/")[0].partition("%")[0])
    except ValueError:
        return (address,)
    if not isinstance(parsed, IPv6Address):
        return (str(parsed),)
    if parsed.ipv4_mapped is not None:
        return (str(parsed.ipv4_mapped),)
    return tuple(f"{IPv6Address(int(parsed) >> (128 - bits) << (128 - bits))}/{bits}" for bits in _IPV6_BITS)


class Slots(Generic[T]):
    """At most `limit` slots and their holders. `worth` is called when a holder must be evicted, and returns the worth
    of each useful holder. The part of SLOTS-2 is one of `idle_part` slots. Times are in seconds of a monotonic clock.
    """

    def __init__(
        self,
        limit: int,
        per_group: int,
        patience_s: float,
        worth: Callable[[], Mapping[T, float]] = dict,
        idle_part: int = 4,
    ) -> None:
        self.limit = limit
        self._per_group = per_group
        self._patience_s = patience_s
        self._worth = worth
        self._idle_part = idle_part
        self._holders: dict[T, tuple[float, tuple[str, ...]]] = {}
        """Time of entry and groups by holder, the oldest first."""
        self._sizes: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._holders)

    def __iter__(self) -> Iterator[T]:
        return iter(self._holders)

    def enter(self, holder: T, address: str, now_s: float) -> T | None:
        """Give `holder` a slot. Returns the holder that is evicted, if any; `holder` itself if it gets no slot."""
        groups = groups_of(address)
        over = next((group for group in groups if self._sizes[group] >= self._per_group), None)
        if over is not None or len(self) >= self.limit:
            loser = self._holder_to_evict(groups, over, now_s)
            if loser is None:
                return holder
            self.leave(loser)
        else:
            loser = None
        self._holders[holder] = now_s, groups
        self._sizes.update(groups)
        return loser

    def leave(self, holder: T) -> None:
        _, groups = self._holders.pop(holder, (0.0, ()))
        for group in groups:
            self._sizes[group] -= 1
            if not self._sizes[group]:
                del self._sizes[group]

    def _holder_to_evict(self, groups: tuple[str, ...], over: str | None, now_s: float) -> T | None:
        worth = self._worth()
        pool = [holder for holder, (_, own) in self._holders.items() if over is None or over in own]
        idle = [holder for holder in pool if not worth.get(holder)]
        if over is None and len(idle) < self.limit // self._idle_part:
            least = self._least_useful(pool, worth)
            if least is not None and worth.get(least):
                return least
        sizes = Counter(group for holder in idle for group in self._holders[holder][1])
        crowded = max(idle, key=lambda holder: [sizes[group] for group in self._holders[holder][1]], default=None)
        if crowded is not None and _is_larger(self._holders[crowded][1], groups, sizes):
            return crowded
        oldest = next(iter(idle), None)
        return oldest if oldest is not None and now_s - self._holders[oldest][0] >= self._patience_s else None

    def _least_useful(self, pool: Iterable[T], worth: Mapping[T, float]) -> T | None:
        """Return the useful holder of the lowest worth that may be evicted; None if there is none.

        Among holders of equal worth, it is the oldest of the largest group.
        """
        covered: Counter[str] = Counter()
        rank: dict[T, tuple[float, int]] = {}
        for holder in pool:
            value, widest = worth.get(holder, 0.0), self._holders[holder][1][0]
            if value == inf:
                covered[widest] += 1
                if covered[widest] <= self._per_group // 2:
                    continue
            if value:
                rank[holder] = value, -self._sizes[widest]
        return min(rank, key=rank.__getitem__, default=None)


def _is_larger(group: tuple[str, ...], newcomers: tuple[str, ...], sizes: Counter[str]) -> bool:
    """Compare the widest groups that differ. Return True if the holder's is larger than the newcomer's with it."""
    own, other = next((pair for pair in zip(newcomers, group, strict=False) if pair[0] != pair[1]), ("", ""))
    return sizes[own] + 1 < sizes[other]
