"""Budgets of the memory that peers cause, in bytes: for a stream, a protocol, a peer, an address, and in total.

A budget has parents. A reservation succeeds only if the budget and all budgets above it have room; otherwise nothing
is reserved. `close` releases all reservations of a budget, and so does the loss of the last reference to it.
Therefore the end of a stream needs no further accounting.

          all ─┬─ protocol ─────────┬─ stream
               ├─ address ── peer ──┴─ connection
               └─ shares: memory that belongs to no single peer, such as a cache of messages

Reservations above a peer's limit are refused. A shared budget that is nearly full is reported (`Resources`) before
it refuses a reservation, so that its largest users can be disconnected first.

A share has a limit of its own, so that peers cannot use up the memory of a cache, nor a cache the memory of peers. An
address group is an IPv4 address, or the first 64 bits of an IPv6 address, which one customer usually has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from weakref import WeakValueDictionary

from hearsay.libp2p.names.peer_id import PeerId
from hearsay.slots import groups_of

MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceLimits:
    """Limits in bytes; docs/reference/security.md has a table of all limits."""

    all: int = 128 * MIB
    address: int = 32 * MIB
    peer: int = 16 * MIB
    protocol: int = 64 * MIB
    stream: int = 12 * MIB


class Budget:
    """A budget of bytes. A reservation counts in all its parents, too."""

    __slots__ = ("__weakref__", "_high", "_nearly_full", "_parents", "closed", "limit", "name", "refused", "used")

    def __init__(
        self,
        name: str,
        limit: int,
        parents: Iterable[Budget] = (),
        nearly_full: Callable[[Budget], None] | None = None,
    ) -> None:
        self.name = name
        self.limit = limit
        self.used = 0
        self.refused = 0
        """Number of reservations that found no room in this budget."""
        self.closed = False
        self._nearly_full = nearly_full
        self._high = limit - limit // 8 if nearly_full is not None else limit
        above: dict[Budget, None] = {}
        for parent in parents:
            above[parent] = None
            above.update(dict.fromkeys(parent._parents))
        self._parents = tuple(above)

    def __del__(self) -> None:
        self.close()

    def __contains__(self, budget: Budget) -> bool:
        """Return True if reservations in `budget` count here, too."""
        return budget is self or self in budget._parents

    @property
    def free(self) -> int:
        """Return the bytes that could be reserved now."""
        return min([self.limit - self.used, *(parent.limit - parent.used for parent in self._parents)])

    @property
    def fair(self) -> int:
        """Return the bytes that this budget may reserve so that each parent keeps as many free as this budget uses.

        A budget without reservations may reserve all free bytes.
        """
        if not self.used:
            return self.free
        above = min([parent.limit - parent.used for parent in self._parents], default=self.limit)
        return min(self.free, (above - self.used) // 2)

    def reserve(self, count: int) -> bool:
        """Reserve `count` bytes here and in all parents. Returns False, and reserves nothing, if any has no room."""
        if self.used + count > self.limit or self.closed:
            self.refused += 1
            return False
        for parent in self._parents:
            if parent.used + count > parent._high and not parent._has_room(count):
                parent.refused += 1
                return False
        if self.closed:  # `nearly_full` has closed this budget to make room
            return False
        self.used += count
        for parent in self._parents:
            parent.used += count
        return True

    def _has_room(self, count: int) -> bool:
        """Call `nearly_full`, which may release memory. Return True if `count` bytes fit afterwards."""
        if self._nearly_full is not None:
            self._nearly_full(self)
        return self.used + count <= self.limit

    def release(self, count: int) -> None:
        """Release `count` bytes. Do nothing after `close`, which has released all reservations."""
        if self.closed:
            return
        if count > self.used:
            raise ValueError(f"{self.name}: {count} bytes released, {self.used} were reserved")
        self.used -= count
        for parent in self._parents:
            parent.used -= count

    def close(self) -> None:
        """Release all reservations and refuse further ones. The budget must have no children."""
        self.release(self.used)
        self.closed = True


class Resources:
    """The budgets of one host. Budgets of peers and addresses exist as long as they are referenced."""

    def __init__(
        self, limits: ResourceLimits | None = None, nearly_full: Callable[[Budget], None] | None = None
    ) -> None:
        """Create the budgets. `reserve` calls `nearly_full` with a budget when less than an eighth is free in the
        budget of all memory, an address or a protocol. The callback may close budgets."""
        self.limits = limits or ResourceLimits()
        self._nearly_full = nearly_full
        self.all = Budget("all", self.limits.all, nearly_full=nearly_full)
        self._addresses: WeakValueDictionary[str, Budget] = WeakValueDictionary()
        self._peers: WeakValueDictionary[tuple[PeerId, str], Budget] = WeakValueDictionary()
        self._protocols: dict[str, Budget] = {}

    def address(self, address: str) -> Budget:
        """Return the budget of all peers at an address (`address_group`)."""
        found = self._addresses.get(address)
        if found is None:
            found = Budget(address, self.limits.address, (self.all,), self._nearly_full)
            self._addresses[address] = found
        return found

    def peer(self, peer: PeerId, address: str) -> Budget:
        found = self._peers.get((peer, address))
        if found is None:
            found = Budget("peer", self.limits.peer, (self.address(address),))
            self._peers[peer, address] = found
        return found

    def protocol(self, protocol: str) -> Budget:
        """Return the budget of a protocol. Callers pass only protocols of this host, so peers cannot add budgets."""
        found = self._protocols.get(protocol)
        if found is None:
            found = Budget(protocol, self.limits.protocol, (self.all,), self._nearly_full)
            self._protocols[protocol] = found
        return found

    def connection(self, peer: PeerId, address: str) -> Budget:
        """Return a new budget for the memory of a connection outside its streams."""
        return Budget("connection", self.limits.peer, (self.peer(peer, address),))

    def stream(self, peer: PeerId, address: str, protocol: str) -> Budget:
        """Return a budget for a new stream. Close it with the stream."""
        return Budget("stream", self.limits.stream, (self.peer(peer, address), self.protocol(protocol)))

    def share(self, name: str, limit: int) -> Budget:
        """Return a budget for memory that belongs to no single peer."""
        return Budget(name, limit, (self.all,))


def address_group(host: str) -> str:
    """Return the group of an IP address: an IPv4 address itself, the first 64 bits of an IPv6 address."""
    return groups_of(host)[-1]
