"""What keeps a peer from being grafted: a backoff after a PRUNE, and the places of its address.

Rules (gossipsub v1.1, "Prune backoff"; `prune_backoff_ms` 0 turns backoffs off, `places_per_address` 0 turns places
off; simulated peers have no addresses):

* BACKOFF-5: whoever prunes says for how long: `prune_backoff_ms`, or `unsubscribe_backoff_ms` when it leaves the
  topic. Both sides remember it, through a disconnection too. A member that unsubscribes without a PRUNE is kept apart
  with `backoff_on_unsubscribe` (rust), and a PRUNE for a topic that is not joined counts with
  `backoff_when_not_joined` (jvm). How long that is in the end says
  `rules/backoff_times.py`.
* BACKOFF-6: the number of entries is bounded; the oldest goes first.
* PLACES-1: each address has so many places in a mesh or a fan-out. Peers whose address is not known count each for
  itself (*reference only:* `places_per_address`).
* PLACES-2: members of a mesh beyond that hold lent places: they are taken in while there is room, so that a network
  behind one address works as any other. They do not count when the heartbeat looks whether the mesh has D_low, as far
  as there are peers with places of their own; they are pruned first; and one of them gives way when a peer with a
  place of its own finds the mesh full (*reference only:* `places_per_address`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from hearsay.core.language.identifiers import Micros, PeerId, TopicId
from hearsay.core.rules.mesh_rules import is_early, is_early_of_us, later_end, time_left
from hearsay.core.rules.mixing import extend
from hearsay.core.shell.parameters import RouterParameters, integer, milliseconds
from hearsay.core.shell.peers import PeerBook, PeerGroup
from hearsay.core.shell.randomness import key_of, sample


@dataclass(frozen=True, slots=True, kw_only=True)
class BackoffParameters(RouterParameters):
    """Parameters of backoff and peer exchange."""

    prune_backoff_ms: int = milliseconds(0)
    """Time without a GRAFT after a PRUNE (v1.1: 60 000); 0 turns backoff off."""
    unsubscribe_backoff_ms: int = milliseconds(10_000)
    """Time without a GRAFT after a PRUNE that is sent because a node leaves the topic."""
    max_backoff_ms: int = milliseconds(3_600_000)
    """Longest backoff that is accepted from a peer."""
    backoff_slack_heartbeats: int = integer(2, low=0)
    """Heartbeats that the router's own GRAFT waits after the end of a backoff."""
    max_backoffs: int = integer(100_000, low=1)
    """Backoffs that are remembered; the oldest is dropped first."""
    exchange_peers: int = integer(0, low=0, high=1_000)
    """Other peers that a PRUNE names."""
    accept_exchange: bool = False
    """Dial peers that a PRUNE names."""
    exchange_dials: int = integer(0, low=0, high=1_000)
    """Peers of one PRUNE that are dialled; 0: as many as `exchange_peers`."""

    @property
    def dials_per_prune(self) -> int:
        """How many of those that a PRUNE names are dialled at most."""
        return (self.exchange_dials or self.exchange_peers) if self.accept_exchange else 0


class Backoffs:
    """Until when this router and its peers keep apart, by topic and peer."""

    __slots__ = ("_limit", "_slack_us", "_until")

    def __init__(self, limit: int, slack_us: Micros) -> None:
        self._limit = limit
        self._slack_us = slack_us
        self._until: dict[tuple[TopicId, PeerId], Micros] = {}

    def start(self, topic: TopicId, peer: PeerId, now: Micros, backoff_us: Micros) -> None:
        """Keep apart for so long, or longer if that was agreed before."""
        before = self._until.pop((topic, peer), now)
        self._until[topic, peer] = later_end(before, now, backoff_us)
        if len(self._until) > self._limit:
            del self._until[next(iter(self._until))]

    def holds(self, topic: TopicId, peer: PeerId, now: Micros) -> bool:
        """Whether a GRAFT of this peer comes too early."""
        until = self._until.get((topic, peer))
        return until is not None and is_early(now, until)

    def until(self, topic: TopicId, peer: PeerId) -> Micros:
        """When a backoff that runs ends."""
        return self._until[topic, peer]

    def forbids_graft(self, topic: TopicId, peer: PeerId, now: Micros) -> bool:
        """Whether one's own GRAFT would be too early."""
        until = self._until.get((topic, peer))
        return until is not None and is_early_of_us(now, until, self._slack_us)

    def remaining_us(self, topic: TopicId, peer: PeerId, now: Micros) -> Micros:
        """How much of a backoff is left."""
        return time_left(now, self._until.get((topic, peer), now))

    def expire(self, now: Micros) -> None:
        over = [key for key, until in self._until.items() if not is_early_of_us(now, until, self._slack_us)]
        for key in over:
            del self._until[key]

    def ends(self) -> Iterator[tuple[TopicId, PeerId, Micros]]:
        """Those that are remembered."""
        for (topic, peer), until in self._until.items():
            yield topic, peer, until

    def __len__(self) -> int:
        return len(self._until)

    def __iter__(self) -> Iterator[tuple[TopicId, PeerId]]:
        return iter(self._until)


class LastingBackoffs(Backoffs):
    """Backoffs whose peers are grafted again only when they are forgotten."""

    __slots__ = ()

    def forbids_graft(self, topic: TopicId, peer: PeerId, now: Micros) -> bool:
        del now
        return (topic, peer) in self._until


class Spread:
    __slots__ = ("_peers", "_places")

    def __init__(self, places: int, peers: PeerBook) -> None:
        self._places = places
        self._peers = peers

    def choose(
        self, state: int, candidates: Sequence[PeerId], own: int, any_: int, beside: PeerGroup
    ) -> list[PeerId]:
        """Up to `own` of the candidates with places of their own beside others; with lent ones at most `any_`.

        `state` is a draw; without the rule these are `any_` of all.
        """
        if not self._places:
            return sample(state, candidates, any_)
        chosen, others = self._divided(state, candidates, self._taken(beside))
        del chosen[max(0, own) :]
        return chosen + others[: max(0, any_ - len(chosen))]

    def lent(self, state: int, mesh: PeerGroup) -> list[PeerId]:
        """The members with lent places, as `state` says which of an address's those are."""
        return self._divided(state, mesh.ordered, Counter())[1] if self._places else []

    def has_place(self, peer: PeerId, mesh: PeerGroup) -> bool:
        """Whether a peer that is no member would have a place of its own."""
        address = self._peers.connected[peer].address
        return not address or self._taken(mesh)[address] < self._places

    def _divided(self, state: int, peers: Iterable[PeerId], taken: Counter[str]) -> tuple[list[PeerId], list[PeerId]]:
        """Peers in random order: those with places of their own, and the others."""
        own: list[PeerId] = []
        others: list[PeerId] = []
        connected = self._peers.connected
        for peer in sorted(peers, key=lambda peer: (extend(state, key_of(peer)), peer)):
            address = connected[peer].address
            if address and taken[address] >= self._places:
                others.append(peer)
            else:
                taken[address] += 1
                own.append(peer)
        return own, others

    def _taken(self, members: PeerGroup) -> Counter[str]:
        return Counter(self._peers.connected[peer].address for peer in members)
