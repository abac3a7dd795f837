"""Places by address: whoever has many names at one address gets few places with them.

Rules, with `places_per_address` (0 turns all of it off; simulated peers have no addresses):

* PLACES-1: each address has so many places in a mesh or a fan-out. Peers whose address is not known count each for
  itself (*reference only:* `places_per_address`).
* PLACES-2: members of a mesh beyond that hold lent places: they are taken in while there is room, so that a network
  behind one address works as any other. They do not count when the heartbeat looks whether the mesh has D_low, as far
  as there are peers with places of their own; they are pruned first; and one of them gives way when a peer with a
  place of its own finds the mesh full (*reference only:* `places_per_address`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from hearsay.core.language.identifiers import PeerId
from hearsay.core.rules.mixing import extend
from hearsay.core.shell.peers import PeerBook, PeerGroup
from hearsay.core.shell.randomness import key_of, sample


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
