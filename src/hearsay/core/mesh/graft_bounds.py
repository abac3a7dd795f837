"""Limits on the peers that may be grafted: backoffs after a PRUNE, and the places of each address.

Rules (gossipsub v1.1, "Prune backoff"; `prune_backoff_ms` 0 turns backoffs off, `places_per_address` 0 turns places
off; simulated peers have no addresses):

* BACKOFF-5: A PRUNE names its backoff: `prune_backoff_ms`, or `unsubscribe_backoff_ms` when the sender leaves the
  topic. Both sides remember it, through a disconnection too. With `backoff_on_unsubscribe` a member that unsubscribes
  without a PRUNE gets a backoff (rust), and with `backoff_when_not_joined` a PRUNE for a topic that is not joined
  counts (jvm). `rules/mesh_rules.py` says how long a backoff lasts.
* BACKOFF-6: The number of entries is bounded; the oldest is removed first.
* PLACES-1: Each address has `places_per_address` places in a mesh or a fan-out. A peer without a known address always
  has a place of its own.
* PLACES-2: Members of a mesh beyond the places of their address hold *lent* places. They are accepted while there is
  room, so that a network behind one address works as any other. They do not count towards D_low while peers with
  places of their own are available; they are pruned first; and one of them is pruned when a peer that is not a member
  would have a place of its own but finds the mesh full.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from hearsay.core.language.identifiers import Micros, PeerId, TopicId
from hearsay.core.rules.mesh_rules import is_early, is_early_of_us, later_end, time_left
from hearsay.core.shell.peers import PeerBook, PeerGroup
from hearsay.core.shell.randomness import sample, shuffled


class Backoffs:
    """Ends of backoffs by topic and peer."""

    def __init__(self, limit: int, slack_us: Micros) -> None:
        self._limit = limit
        self._slack_us = slack_us
        self._until: dict[tuple[TopicId, PeerId], Micros] = {}

    def start(self, topic: TopicId, peer: PeerId, now: Micros, backoff_us: Micros) -> None:
        """Begin a backoff, unless there is one that ends later."""
        before = self._until.pop((topic, peer), now)
        self._until[topic, peer] = later_end(before, now, backoff_us)
        if len(self._until) > self._limit:
            del self._until[next(iter(self._until))]

    def holds(self, topic: TopicId, peer: PeerId, now: Micros) -> bool:
        """Return whether a GRAFT of this peer comes too early."""
        until = self._until.get((topic, peer))
        return until is not None and is_early(now, until)

    def until(self, topic: TopicId, peer: PeerId) -> Micros:
        """Return the end of a backoff. Raises `KeyError` if none is remembered."""
        return self._until[topic, peer]

    def forbids_graft(self, topic: TopicId, peer: PeerId, now: Micros) -> bool:
        """Return whether the router's own GRAFT would be too early."""
        until = self._until.get((topic, peer))
        return until is not None and is_early_of_us(now, until, self._slack_us)

    def remaining_us(self, topic: TopicId, peer: PeerId, now: Micros) -> Micros:
        """Return the time that is left of a backoff."""
        return time_left(now, self._until.get((topic, peer), now))

    def expire(self, now: Micros) -> None:
        over = [key for key, until in self._until.items() if not is_early_of_us(now, until, self._slack_us)]
        for key in over:
            del self._until[key]

    def ends(self) -> Iterator[tuple[TopicId, PeerId, Micros]]:
        """Yield topic, peer and end of each backoff."""
        for (topic, peer), until in self._until.items():
            yield topic, peer, until

    def __len__(self) -> int:
        return len(self._until)

    def __iter__(self) -> Iterator[tuple[TopicId, PeerId]]:
        return iter(self._until)


class LastingBackoffs(Backoffs):
    """Backoffs that forbid the router's own GRAFT until `expire` removes them (`backoff_until_forgotten`)."""

    def forbids_graft(self, topic: TopicId, peer: PeerId, now: Micros) -> bool:
        del now
        return (topic, peer) in self._until


class Spread:
    """The places of addresses in a mesh or a fan-out."""

    def __init__(self, places: int, peers: PeerBook) -> None:
        self._places = places
        self._peers = peers

    def choose(
        self, state: int, candidates: Sequence[PeerId], own: int, total: int, members: PeerGroup
    ) -> list[PeerId]:
        """Return up to `own` candidates with places of their own, then others with lent places, up to `total` in all.

        `state` is a draw; `members` have places already. If `places_per_address` is 0, return up to `total` of all
        candidates.
        """
        if not self._places:
            return sample(state, candidates, total)
        chosen, others = self._divided(state, candidates, self._taken(members))
        del chosen[max(0, own) :]
        return chosen + others[: max(0, total - len(chosen))]

    def lent(self, state: int, mesh: PeerGroup) -> list[PeerId]:
        """Return the members with lent places; `state` decides which members of an address these are."""
        return self._divided(state, mesh.ordered, Counter())[1] if self._places else []

    def has_place(self, peer: PeerId, mesh: PeerGroup) -> bool:
        """Return whether a peer that is not a member would have a place of its own."""
        address = self._peers.connected[peer].address
        return not address or self._taken(mesh)[address] < self._places

    def _divided(self, state: int, peers: Iterable[PeerId], taken: Counter[str]) -> tuple[list[PeerId], list[PeerId]]:
        """Return the peers with places of their own, and the others, both in random order."""
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
