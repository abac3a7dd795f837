"""Inbound connections: a listening socket, and slots for connections that addresses share fairly.

The host and every HTTP server use both. Neither many new connections nor a lack of file descriptors delays other
work of the process. asyncio's own server is not used for two reasons. When file descriptors run out, it logs a
traceback for each waiting connection, up to a hundred at a time. And it cannot check a peer's address before it
creates a transport.

A holder is a connection that has a slot; a newcomer is a connection that needs a slot. The owner of the slots assigns
a worth to each useful holder; a holder without a worth is idle. An IPv4 address is a group of its own. An IPv6
address belongs to three groups, its /64, its /56 and its /48, because a provider gives a customer a network of one of
these sizes. A newcomer gets a free slot, if there is one and none of its groups has its full share (SLOTS-1).
Otherwise the following rules choose a holder that is evicted: it loses its slot to the newcomer. If the rules choose
no holder, the newcomer gets no slot.

* SLOTS-1: No group has more than `per_group` slots (its share). If a group of the newcomer has its full share, only
  an idle holder of this group can be evicted.
* SLOTS-2: While idle holders have at least a certain part of the slots (a quarter for a host), only idle holders are
  evicted. So useful holders keep the other slots.
* SLOTS-3: The largest group is the group with the most idle holders. Its oldest idle holder is evicted, if the
  newcomer's group would be smaller even with the newcomer.
* SLOTS-4: Otherwise the oldest idle holder is evicted, if it has held its slot for `patience_s` seconds.
* SLOTS-5: If fewer holders are idle than SLOTS-2 requires, the useful holder with the lowest worth is evicted, and no
  idle one. So a newcomer can get a slot even if all holders are useful. If no useful holder can be evicted (SLOTS-6),
  SLOTS-3 and SLOTS-4 apply.
* SLOTS-6: Holders of infinite worth are not evicted. In each group of the widest kind (IPv4 address or /48), this
  protects only the oldest ones, up to half of the group's share.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from logging import getLogger
from math import inf
from typing import Generic, TypeVar

AT_ONCE = 16
"""Maximum number of connections that are accepted in one iteration of the event loop."""
PAUSE_SECONDS = 1.0
"""Seconds in which no connection is accepted after the process has run out of file descriptors or memory. New
connections then wait in the backlog of the socket."""
WARNING_INTERVAL_SECONDS = 10.0
"""Minimum seconds between two warnings that new connections wait."""
_BACKLOG = 128
_NO_ROOM = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_IPV6_BITS = (48, 56, 64)
_log = getLogger(__name__)
T = TypeVar("T")


class Listener:
    """A listening socket.

    `accepted` is called for each new connection, with its socket and the peer's IP address. The callback owns the
    socket from then on and must close it.
    """

    def __init__(self, listening: socket.socket, accepted: Callable[[socket.socket, str], None]) -> None:
        self._socket = listening
        self._accepted = accepted
        self._loop = asyncio.get_running_loop()
        self._resuming: asyncio.TimerHandle | None = None
        self._warned_s = -WARNING_INTERVAL_SECONDS
        self.name: tuple[str, int] = listening.getsockname()[:2]
        self._resume()

    @classmethod
    async def at(cls, host: str, port: int, accepted: Callable[[socket.socket, str], None]) -> list[Listener]:
        """Listen at every address of a host name or at an IP address. Return a listener for each address.

        Raises `OSError` with the reason if one of the addresses cannot be used. Then no socket stays open.
        """
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        bound: list[socket.socket] = []
        try:
            for family, kind, protocol, _, address in dict.fromkeys(found):
                bound.append(_bound(family, kind, protocol, address))
        except OSError:
            for opened in bound:
                opened.close()
            raise
        return [cls(opened, accepted) for opened in bound]

    def close(self) -> None:
        if self._resuming is not None:
            self._resuming.cancel()
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()

    def _resume(self) -> None:
        self._resuming = None
        self._loop.add_reader(self._socket.fileno(), self._accept)

    def _accept(self) -> None:
        for _ in range(AT_ONCE):
            try:
                accepted, address = self._socket.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _NO_ROOM:
                    self._pause(error)
                    return
                continue  # the client has already disconnected
            accepted.setblocking(False)
            self._accepted(accepted, address[0])

    def _pause(self, error: OSError) -> None:
        self._loop.remove_reader(self._socket.fileno())
        self._resuming = self._loop.call_later(PAUSE_SECONDS, self._resume)
        now_s = self._loop.time()
        if now_s - self._warned_s >= WARNING_INTERVAL_SECONDS:
            self._warned_s = now_s
            _log.warning("new connections wait at %s:%d: %s", *self.name, error.strerror)


def _bound(family: int, kind: int, protocol: int, address: tuple[object, ...]) -> socket.socket:
    opened = socket.socket(family, kind, protocol)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        opened.setblocking(False)
        opened.bind(address)
        opened.listen(_BACKLOG)
    except OSError as error:
        opened.close()
        hint = "; use another port, or port 0 for any free port" if error.errno == errno.EADDRINUSE else ""
        words = f"cannot listen at {address[0]} port {address[1]}: {error.strerror}{hint}"
        raise OSError(error.errno, words) from None
    return opened


class Slots(Generic[T]):
    """At most `limit` slots and their holders. Times are in seconds of a monotonic clock.

    `worth` returns the worth of each useful holder: a positive number, perhaps infinite. It is called when a newcomer
    finds no free slot, or when one of its groups has its full share. The part of the slots in SLOTS-2 is
    1 / `idle_part`.
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
        """By holder: the time at which it got its slot, and its groups. The oldest holder is first."""
        self._sizes: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._holders)

    def __iter__(self) -> Iterator[T]:
        return iter(self._holders)

    def enter(self, holder: T, address: str, now_s: float) -> T | None:
        """Give `holder` a slot if possible.

        Returns the holder that was evicted, None if `holder` gets a slot without an eviction, and `holder` itself if
        it gets no slot.
        """
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
        """Return the useful holder of the lowest worth that may be evicted; None if there is no such holder.

        If several holders have this worth, return the oldest one in the group with the most holders.
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


@lru_cache(1024)
def groups_of(address: str) -> tuple[str, ...]:
    """Return the groups of an address, the widest network first. A host name is a group of its own."""
    try:
        parsed = ip_address(address.partition("/")[0].partition("%")[0])
    except ValueError:
        return (address,)
    if not isinstance(parsed, IPv6Address):
        return (str(parsed),)
    if parsed.ipv4_mapped is not None:
        return (str(parsed.ipv4_mapped),)
    return tuple(f"{IPv6Address(int(parsed) >> (128 - bits) << (128 - bits))}/{bits}" for bits in _IPV6_BITS)


def _is_larger(group: tuple[str, ...], newcomers: tuple[str, ...], sizes: Counter[str]) -> bool:
    """Compare a holder's groups `group` with the groups of a newcomer, at the widest network in which they differ.

    Returns True if the holder's network has more idle holders than the newcomer's network would have together with
    the newcomer. `sizes` has the numbers of idle holders.
    """
    own, other = next((pair for pair in zip(newcomers, group, strict=False) if pair[0] != pair[1]), ("", ""))
    return sizes[own] + 1 < sizes[other]
