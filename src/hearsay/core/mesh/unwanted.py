"""What peers do not want: messages that they have, and said so with IDONTWANT (v1.2).

* IDONTWANT-4: A message is not forwarded to a peer that does not want it, along the mesh and the fan-out, and is not
  sent to it for an IWANT. Peers that only flood never say so. With `withdraw_unwanted` the driver is asked to take
  copies that still wait for the peer out of its queue (rust; *reference only:* `idontwant_threshold_bytes`).
  Each copy along the mesh or the fan-out that so does not go is told (`CopyWithheld`).
  js said so long before it heard (`heeds_idontwant`).
* IDONTWANT-5: All that is remembered of peers is bounded; the oldest goes first. What a peer said goes with its
  connection (*reference only:* `idontwant_threshold_bytes`).

How much is heard, and when it is forgotten, says `rules/idontwant.py`.
"""

from __future__ import annotations

from collections.abc import Iterable

from hearsay.core.language.identifiers import MessageId, PeerId
from hearsay.core.language.rpc import IDontWant
from hearsay.core.rules.idontwant import ids_heard, is_forgotten, left_of


class Unwanted:
    """By peer the messages that it does not want."""

    __slots__ = (
        "_by_peer",
        "_ids",
        "_limit",
        "_most_ids",
        "_most_ids_of_peer",
        "_most_rpcs",
        "_order",
        "_rpcs",
        "_ttl",
        "tick",
    )

    def __init__(self, ttl_heartbeats: int, most_rpcs: int, most_ids: int, most_ids_of_peer: int, limit: int) -> None:
        self._ttl = ttl_heartbeats
        self._most_rpcs = most_rpcs
        self._most_ids = most_ids
        self._most_ids_of_peer = most_ids_of_peer
        self._limit = limit
        self._by_peer: dict[PeerId, dict[MessageId, int]] = {}
        self._order: dict[tuple[PeerId, MessageId], int] = {}
        """All of them with the heartbeat before which they were said, the oldest first."""
        self._rpcs: dict[PeerId, int] = {}
        """How many RPCs of a peer said so since the last heartbeat,"""
        self._ids: dict[PeerId, int] = {}
        """and of how many ids, as far as they were heard."""
        self.tick = 0

    def __len__(self) -> int:
        return len(self._order)

    def hear(self, peer: PeerId, parts: Iterable[IDontWant]) -> tuple[list[MessageId], int]:
        """Remember what one RPC says; returns the ids that were heard, and how many were too many."""
        ids = [message_id for part in parts for message_id in part.ids]
        if not ids:
            return [], 0
        before = self._rpcs.get(peer, 0)
        self._rpcs[peer] = before + 1
        heard_before = self._ids.get(peer, 0)
        heard = ids_heard(
            before, self._most_rpcs, len(ids), self._most_ids, left_of(heard_before, self._most_ids_of_peer)
        )
        self._ids[peer] = heard_before + heard
        for message_id in ids[:heard]:
            self._order.pop((peer, message_id), None)
            self._order[peer, message_id] = self.tick
            self._by_peer.setdefault(peer, {})[message_id] = self.tick
        while len(self._order) > self._limit:
            self._forget(*next(iter(self._order)))
        return ids[:heard], len(ids) - heard

    def holds(self, peer: PeerId, message_id: MessageId) -> bool:
        return message_id in self._by_peer.get(peer, ())

    def among(self, peers: Iterable[PeerId], message_id: MessageId) -> list[PeerId]:
        """Those of `peers` that do not want a message."""
        return [peer for peer in peers if message_id in self._by_peer.get(peer, ())]

    def without(self, peers: Iterable[PeerId], message_id: MessageId) -> list[PeerId]:
        """Those of `peers` that may want a message."""
        return [peer for peer in peers if message_id not in self._by_peer.get(peer, ())]

    def remembers(self, peer: PeerId) -> bool:
        return peer in self._by_peer or peer in self._rpcs

    def remove_peer(self, peer: PeerId) -> None:
        for message_id in list(self._by_peer.get(peer, ())):
            self._forget(peer, message_id)
        self._rpcs.pop(peer, None)
        self._ids.pop(peer, None)

    def beat(self, tick: int) -> None:
        """A heartbeat: RPCs are counted anew, and what is old is forgotten."""
        self.tick = tick
        self._rpcs.clear()
        self._ids.clear()
        while self._order:
            (peer, message_id), said = next(iter(self._order.items()))
            if not is_forgotten(said, tick, self._ttl):
                return
            self._forget(peer, message_id)

    def _forget(self, peer: PeerId, message_id: MessageId) -> None:
        del self._order[peer, message_id]
        of_peer = self._by_peer[peer]
        del of_peer[message_id]
        if not of_peer:
            del self._by_peer[peer]
