"""Budgets of the memory that peers cause, in bytes: for a stream, a protocol, a peer, an address, and in total.

A budget may have parents. A reservation succeeds only if the budget and all budgets above it have room; otherwise
nothing is reserved. All reservations of a budget are released by `close`, or when the last reference to the budget is
gone. Therefore the end of a stream needs no further accounting.

          all ─┬─ protocol ─────────┬─ stream
               ├─ address ── peer ──┴─ connection
               └─ shares: memory that belongs to no single peer, such as a cache of messages

Reservations above a peer's limit are refused. The budgets of all memory, of a protocol and of an address are shared
by peers. A shared budget that is nearly full is reported (`Resources`) before it refuses a reservation, so that its
largest users can be disconnected first.

A share has a limit of its own, so that a cache cannot use up the memory of peers. An address group is an IPv4
address, or the first 64 bits of an IPv6 address, which usually belong to one customer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from weakref import WeakValueDictionary

from hearsay.libp2p.names.peer_id import PeerId
from hearsay.listener import groups_of

MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceLimits:
    """Limits of budgets in bytes. docs/reference/security.md has a table of all limits."""

    all: int = 128 * MIB
    address: int = 32 * MIB
    peer: int = 16 * MIB
    protocol: int = 64 * MIB
    stream: int = 12 * MIB


class Budget:
    """A budget of bytes. Each reservation is also made in all budgets above it.

    If `nearly_full` is given, it is called with this budget before a reservation in a child leaves less than an
    eighth of it free.
    """

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
        """Number of reservations that this budget refused, because it had no room or was closed."""
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
        """Return True if reservations in `budget` are also made in this budget."""
        return budget is self or self in budget._parents

    @property
    def free(self) -> int:
        """Return the number of bytes that this budget and all budgets above it have free."""
        return min([self.limit - self.used, *(parent.limit - parent.used for parent in self._parents)])

    @property
    def fair(self) -> int:
        """Return the maximum bytes of a fair reservation: after it, each budget above has at least as many bytes free
        as this budget uses.

        If this budget has no reservations, return all free bytes. The number is negative if a budget above already
        has fewer bytes free than this budget uses.
        """
        if not self.used:
            return self.free
        above = min([parent.limit - parent.used for parent in self._parents], default=self.limit)
        return min(self.free, (above - self.used) // 2)

    def reserve(self, count: int) -> bool:
        """Reserve `count` bytes in this budget and all budgets above it, and return True.

        If one of them has no room, or this budget is closed, reserve nothing and return False.
        """
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
        """Release `count` reserved bytes. Do nothing after `close`, which has released all reservations.

        Raises `ValueError` if fewer bytes are reserved.
        """
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
        """Create the budgets. `nearly_full` is called for shared budgets (see `Budget`), and may close budgets."""
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
            found = self._addresses[address] = Budget(address, self.limits.address, (self.all,), self._nearly_full)
        return found

    def peer(self, peer: PeerId, address: str) -> Budget:
        found = self._peers.get((peer, address))
        if found is None:
            found = self._peers[peer, address] = Budget("peer", self.limits.peer, (self.address(address),))
        return found

    def protocol(self, protocol: str) -> Budget:
        """Return the budget of a protocol. Callers pass only protocols of this host, so peers cannot add budgets."""
        if protocol not in self._protocols:
            self._protocols[protocol] = Budget(protocol, self.limits.protocol, (self.all,), self._nearly_full)
        return self._protocols[protocol]

    def connection(self, peer: PeerId, address: str) -> Budget:
        """Return a new budget for the memory of a connection outside its streams."""
        return Budget("connection", self.limits.peer, (self.peer(peer, address),))

    def stream(self, peer: PeerId, address: str, protocol: str) -> Budget:
        """Return the budget of a new stream. The caller closes it when the stream ends."""
        return Budget("stream", self.limits.stream, (self.peer(peer, address), self.protocol(protocol)))

    def share(self, name: str, limit: int) -> Budget:
        """Return a new budget of `limit` bytes for memory that belongs to no single peer."""
        return Budget(name, limit, (self.all,))


def address_group(host: str) -> str:
    """Return the group of an IP address: an IPv4 address itself, the first 64 bits of an IPv6 address.

    A host name is a group of its own.
    """
    return groups_of(host)[-1]
