"""Limits on the peers that may be grafted: backoffs after a PRUNE, and places, which limit the peers of one address.

Rules (gossipsub v1.1, "Prune backoff"). If `prune_backoff_ms` is 0 there are no backoffs, and if `places_per_address`
is 0 there are no places. Simulated peers have no addresses.

* BACKOFF-5: A PRUNE names its backoff: `prune_backoff_ms`, or `unsubscribe_backoff_ms` when the sender leaves the
  topic. Both sides remember the backoff, even if the connection ends. With `backoff_on_unsubscribe` a member that
  unsubscribes without a PRUNE gets a backoff (rust). With `backoff_when_not_joined` a PRUNE for a topic that is not
  joined begins a backoff (jvm). `rules/mesh_rules.py` says how long a backoff lasts.
* BACKOFF-6: The number of remembered backoffs is bounded; the oldest is removed first.
* PLACES-1: Each address has `places_per_address` places in a mesh or a fan-out. A peer without a known address always
  has a place of its own.
* PLACES-2: If a mesh has more members at one address than the address has places, the members beyond that number have
  *lent* places. Members with lent places are accepted while there is room, so that a network behind one address works
  as any other. They do not count for D_low, and they are pruned first. If a GRAFT comes when the mesh is full, and
  its sender would have a place of its own, one member with a lent place is pruned.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from hearsay.core.language.identifiers import Micros, PeerId, TopicId
from hearsay.core.rules.mesh_rules import is_early, is_early_of_us, later_end, time_left
from hearsay.core.rules.randomness import sample, shuffled
from hearsay.core.shell.peers import PeerBook, PeerGroup


class Backoffs:
    """Backoffs: for each topic and peer, the time at which the backoff ends. At most `limit` are remembered.

    With `until_forgotten`, a backoff forbids the router's own GRAFT until `expire` removes it.
    """

    def __init__(self, limit: int, slack_us: Micros, until_forgotten: bool = False) -> None:
        self._limit = limit
        self._slack_us = slack_us
        self._until_forgotten = until_forgotten
        self._until: dict[tuple[TopicId, PeerId], Micros] = {}

    def start(self, topic: TopicId, peer: PeerId, now: Micros, backoff_us: Micros) -> None:
        """Begin a backoff, unless there is one that ends later."""
        before = self._until.pop((topic, peer), now)
        self._until[topic, peer] = later_end(before, now, backoff_us)
        if len(self._until) > self._limit:
            del self._until[next(iter(self._until))]

    def holds(self, topic: TopicId, peer: PeerId, now: Micros) -> bool:
        """Return whether a backoff is in force, so that a GRAFT that this peer sends now comes too early."""
        until = self._until.get((topic, peer))
        return until is not None and is_early(now, until)

    def until(self, topic: TopicId, peer: PeerId) -> Micros:
        """Return the end of a remembered backoff. Raises `KeyError` if there is none."""
        return self._until[topic, peer]

    def forbids_graft(self, topic: TopicId, peer: PeerId, now: Micros) -> bool:
        """Return whether a GRAFT that the router sends to this peer now would come too early, with slack."""
        until = self._until.get((topic, peer))
        return until is not None and (self._until_forgotten or is_early_of_us(now, until, self._slack_us))

    def remaining_us(self, topic: TopicId, peer: PeerId, now: Micros) -> Micros:
        """Return the time until the end of a backoff; 0 if there is none."""
        return time_left(now, self._until.get((topic, peer), now))

    def expire(self, now: Micros) -> None:
        over = [key for key, until in self._until.items() if not is_early_of_us(now, until, self._slack_us)]
        for key in over:
            del self._until[key]

    def ends(self) -> Iterator[tuple[TopicId, PeerId, Micros]]:
        """Yield topic, peer and end of each remembered backoff."""
        for (topic, peer), until in self._until.items():
            yield topic, peer, until

    def __len__(self) -> int:
        return len(self._until)

    def __iter__(self) -> Iterator[tuple[TopicId, PeerId]]:
        return iter(self._until)


class Spread:
    """The distribution of places in a mesh or a fan-out (PLACES-1, PLACES-2)."""

    def __init__(self, places: int, peers: PeerBook) -> None:
        self._places = places
        self._peers = peers

    def choose(
        self, state: int, candidates: Sequence[PeerId], own: int, total: int, members: PeerGroup
    ) -> list[PeerId]:
        """Return random candidates: up to `own` with places of their own, then some with lent places, up to `total`
        in all.

        `state` is a draw. The `members` already occupy places of their addresses. If `places_per_address` is 0,
        return up to `total` random candidates.
        """
        if not self._places:
            return sample(state, candidates, total)
        chosen, others = self._divided(state, candidates, self._taken(members))
        del chosen[max(0, own) :]
        return chosen + others[: max(0, total - len(chosen))]

    def lent(self, state: int, mesh: PeerGroup) -> list[PeerId]:
        """Return the members of a mesh that have lent places. The draw `state` decides which members of an address
        have the lent places."""
        return self._divided(state, mesh.ordered, Counter())[1] if self._places else []

    def has_place(self, peer: PeerId, mesh: PeerGroup) -> bool:
        """Return whether a connected peer that is not a member would have a place of its own in the mesh."""
        address = self._peers.connected[peer].address
        return not address or self._taken(mesh)[address] < self._places

    def _divided(self, state: int, peers: Iterable[PeerId], taken: Counter[str]) -> tuple[list[PeerId], list[PeerId]]:
        """Return the peers that get places of their own, and the other peers, both in random order.

        `taken` has the number of occupied places of each address; the new places are added to it.
        """
        own: list[PeerId] = []
        others: list[PeerId] = []
        connected = self._peers.connected
        for peer in shuffled(state, peers):
            address = connected[peer].address
            if address and taken[address] >= self._places:
                others.append(peer)
            else:
                taken[address] += 1
                own.append(peer)
        return own, others

    def _taken(self, members: PeerGroup) -> Counter[str]:
        return Counter(self._peers.connected[peer].address for peer in members)
