"""The queue of peers to dial, and the pauses between attempts to dial the same peer.

A source is the origin of a peer's addresses (`address_book.py`). Sources have fair turns in the queue.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import inf
from random import random

from hearsay.libp2p.names.multiaddr import Multiaddr
from hearsay.libp2p.names.peer_id import PeerId
from hearsay.libp2p.rates import Rate, Rates
from hearsay.libp2p.resources import address_group

FIRST_RETRY_S, LAST_RETRY_S = 1.0, 60.0


class Retries:
    """Waits between attempts: `first_s` seconds, then each twice as long as the one before, up to `last_s` seconds.

    Each wait is up to 50 % longer at random, so that many nodes do not try again at once.
    """

    def __init__(self, first_s: float = FIRST_RETRY_S, last_s: float = LAST_RETRY_S) -> None:
        self._first_s = self._next_s = first_s
        self._last_s = last_s

    def wait_s(self) -> float:
        """Return the seconds to wait after one more failure."""
        wait_s = self._next_s * (1 + random() / 2)
        self._next_s = min(2 * self._next_s, self._last_s)
        return wait_s

    def succeeded(self) -> None:
        self._next_s = self._first_s


AGAIN = "again"
"""The source of second attempts to dial a peer."""
_NAMES = "names"
"""The address group of all DNS names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DialLimits:
    at_once: int = 32
    """Maximum simultaneous dials in total. `of_source` is the maximum of one source, `of_address` that of one address
    group."""
    of_source: int = 16
    of_address: int = 8
    of_names: int = 2
    """Maximum simultaneous dials that begin with a DNS lookup."""
    address_rate: Rate = Rate(64, 8.0)
    """Rate of dials to one address group."""
    rate: Rate = Rate(256, 32.0)
    """Rate of dials to all addresses."""
    second_tries: int = 8
    """Maximum simultaneous second attempts."""
    waiting: int = 1024
    """Maximum peers in the queue; `waiting_of_source` is the maximum of peers of one source."""
    waiting_of_source: int = 256
    first_try_s: float = 8.0
    """Seconds for the first attempt at a peer, divided among its addresses."""
    second_try_s: float = 24.0
    """Seconds for a second attempt."""
    rest_s: float = 15.0
    """Pause in seconds before a peer is dialled again after its first failure. The pause doubles with each further
    failure, up to `longest_rest_s`. Each pause is up to 50 % longer at random."""
    longest_rest_s: float = 600.0
    failures: int = 4096
    """Maximum peers whose failures are remembered."""


@dataclass(frozen=True, slots=True)
class PlannedDial:
    """A dial of a peer that waits in the queue or has begun. It dials the addresses in turn, until one answers."""

    peer: PeerId
    source: str
    addresses: tuple[Multiaddr, ...]
    patience_s: float
    """Seconds for the dials of all addresses together."""
    groups: frozenset[str]
    """The address groups whose limits count the dial. A waiting dial has the groups of all its addresses. A dial that
    begins keeps only the groups that may be dialled at that time, and only the addresses in these groups."""


class DialQueue:
    """The queue of dials. `now_s` is any monotonic clock in seconds."""

    def __init__(self, now_s: Callable[[], float], limits: DialLimits | None = None) -> None:
        self._now_s = now_s
        self._limits = limits or DialLimits()
        self._waiting: dict[str, dict[PeerId, tuple[float, PlannedDial]]] = {}
        """Waiting dials by source and peer, each with its earliest time. The first source has the next turn."""
        self._source_of: dict[PeerId, str] = {}
        self._dialling: dict[PeerId, tuple[Multiaddr, ...]] = {}
        """Peers that are being dialled, with all their addresses."""
        self._running_by_source: Counter[str] = Counter()
        self._running_by_group: Counter[str] = Counter()
        """The numbers of running dials by source, and by address group."""
        self._failures: dict[PeerId, tuple[int, float]] = {}
        """By peer: the number of successive failures, and the time until which the peer is not dialled."""
        self._address_rates: Rates[str] = Rates(now_s, self._limits.address_rate)
        self._rates: Rates[None] = Rates(now_s, self._limits.rate)
        self._early_s: float | None = None
        """Seconds from the last `next` until a rate allows another dial; None if no dial waits for a rate."""

    def __len__(self) -> int:
        return len(self._source_of)

    def __contains__(self, peer: PeerId) -> bool:
        return peer in self._source_of or peer in self._dialling

    def add(self, peer: PeerId, addresses: tuple[Multiaddr, ...], source: str) -> PeerId | None:
        """Queue a peer, unless it waits or is dialled already. Returns the peer that is dropped; None if none is.

        `peer` itself is dropped if it may not be dialled yet after failures, or if its source has no room. A second
        attempt that waits for `peer` stays in the queue all the same. If the queue is full, the newest peer of the
        source with the most peers is dropped.
        """
        _, until_s = self._failures.get(peer, (0, 0.0))
        if until_s > self._now_s():
            return peer
        return self._enqueue(_planned(peer, source, addresses, self._limits.first_try_s), 0.0)

    def forgive(self, peer: PeerId) -> None:
        """Forget the failures and the second attempt of a peer that has new addresses."""
        self._failures.pop(peer, None)
        if self._source_of.get(peer) == AGAIN:
            self._remove(peer)

    def next(self) -> PlannedDial | None:
        """Begin the next dial and return it; None if no dial is allowed now. The caller calls `ended` after it."""
        self._early_s = None
        if len(self._dialling) >= self._limits.at_once:
            return None
        if self._waiting and (early_s := self._rates.remaining_wait_s(None)):
            self._early_s = early_s
            return None
        now_s = self._now_s()
        free_in_s = cache(self._free_in_s)
        for source in list(self._waiting):
            most = self._limits.second_tries if source == AGAIN else self._limits.of_source
            if self._running_by_source[source] >= most:
                continue
            for due_s, planned in self._waiting[source].values():
                if due_s > now_s:
                    continue
                waits = {group: free_in_s(group) for group in planned.groups}
                if free := {group for group, wait_s in waits.items() if wait_s == 0}:
                    self._remove(planned.peer)
                    if source in self._waiting:
                        self._waiting[source] = self._waiting.pop(source)
                    return self._begin(planned, free)
                early_s = min(waits.values(), default=inf)
                if early_s < inf and (self._early_s is None or early_s < self._early_s):
                    self._early_s = early_s
        return None

    def ended(self, planned: PlannedDial, reached: bool) -> None:
        """Record the end of a dial; `reached` is True if the peer is connected. After the first failure, queue a
        second attempt."""
        addresses = self._dialling.pop(planned.peer)
        self._running_by_source -= Counter((planned.source,))
        self._running_by_group -= Counter(planned.groups)
        if reached:
            self._failures.pop(planned.peer, None)
            return
        count, _ = self._failures.pop(planned.peer, (0, 0.0))
        rest_s = min(self._limits.rest_s * 2**count, self._limits.longest_rest_s) * (1 + random() / 2)
        self._failures[planned.peer] = count + 1, self._now_s() + rest_s
        if len(self._failures) > self._limits.failures:
            del self._failures[next(iter(self._failures))]
        if not count:
            second = _planned(planned.peer, AGAIN, addresses, self._limits.second_try_s)
            self._enqueue(second, self._now_s() + rest_s)

    @property
    def due_in_s(self) -> float | None:
        """Return the seconds until `next` may return a dial; None if that needs a new peer or the end of a dial."""
        now_s = self._now_s()
        later = [due_s - now_s for due_s, _ in self._waiting.get(AGAIN, {}).values() if due_s > now_s]
        if self._early_s is not None:
            later.append(self._early_s)
        return min(later, default=None)

    def _free_in_s(self, group: str) -> float:
        """Return the seconds until an address group may be dialled; infinite while it has its maximum of dials."""
        most = self._limits.of_names if group == _NAMES else self._limits.of_address
        return self._address_rates.remaining_wait_s(group) if self._running_by_group[group] < most else inf

    def _enqueue(self, planned: PlannedDial, due_s: float) -> PeerId | None:
        if planned.peer in self:
            return None
        if len(self._waiting.get(planned.source, ())) >= self._limits.waiting_of_source:
            return planned.peer
        self._waiting.setdefault(planned.source, {})[planned.peer] = due_s, planned
        self._source_of[planned.peer] = planned.source
        if len(self._source_of) <= self._limits.waiting:
            return None
        greatest = max(self._waiting.values(), key=len)
        last = next(reversed(greatest))
        self._remove(last)
        return last

    def _remove(self, peer: PeerId) -> None:
        source = self._source_of.pop(peer)
        waiting = self._waiting[source]
        del waiting[peer]
        if not waiting:
            del self._waiting[source]

    def _begin(self, planned: PlannedDial, free: set[str]) -> PlannedDial:
        usable = [address for address in planned.addresses if _group(address) in free]
        addresses = tuple(sorted(usable, key=lambda address: _group(address) == _NAMES))
        begun = PlannedDial(planned.peer, planned.source, addresses, planned.patience_s, frozenset(free))
        self._dialling[planned.peer] = planned.addresses
        self._running_by_source[begun.source] += 1
        self._running_by_group.update(begun.groups)
        self._rates.use_or_wait_s(None)
        for group in begun.groups:
            self._address_rates.use_or_wait_s(group)
        return begun


def _planned(peer: PeerId, source: str, addresses: tuple[Multiaddr, ...], patience_s: float) -> PlannedDial:
    return PlannedDial(peer, source, addresses, patience_s, frozenset(map(_group, addresses)))


def _group(address: Multiaddr) -> str:
    """Return the group of an address: the address group of its host, or one group for all DNS names."""
    kind, host = address.parts[0]
    return _NAMES if kind.startswith("dns") else address_group(host)
