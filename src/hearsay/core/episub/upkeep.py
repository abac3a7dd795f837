"""Active view management: growing, stabilisation, and near links that get nearer.

Rules (episub spec, "Active View Management"; HyParView 4.3):

* UPKEEP-1: Too few links: ask passive nodes, random ones until there are C_rand random links, then the nearest. A
  request that is refused or fails is followed by the next; each node is asked once per round, and a round without
  need asks at most twice as many as are wanted. HyParView asks random ones only.
* UPKEEP-2: Nobody left and no link, or nobody known but the neighbours: discovery again, lest a few early nodes that
  met only each other stay apart. With HyParView already when there is a single link: where all lists are full, a
  request of a node that has a link is refused everywhere, and only a JOIN gets two such nodes in. A thin passive
  list: ask a neighbour for nodes.
* UPKEEP-3: Too many links (the seed alone): ask the neighbours for their active lists. When all have answered, or at
  the next round, drop random links to those with more than C_rand random ones, the farthest first; then one of each
  two neighbours that are linked with each other; what is left stays. Who did not answer by the next round is pinged,
  and who does not answer a ping has failed (the seed: the timers "also serve as failure detectors").
* UPKEEP-4: A full list with fewer than C_rand random links asks a random node for one; the farthest near link gives
  way.
* UPKEEP-5: Near links: ping neighbours, relabel by RTT; if the closest measured passive node is closer by alpha than
  the farthest near neighbour that is measured and there are C_rand random links, ask it for a near link; when it
  accepts, the other one goes.
"""

from __future__ import annotations

from hearsay.core.episub.context import Context
from hearsay.core.episub.join_protocol import JoinProtocol
from hearsay.core.episub.neighbours import Neighbours
from hearsay.core.episub.parameters import Overlay
from hearsay.core.episub.views import UNMEASURED_US
from hearsay.core.language.episub_parts import Neighbor
from hearsay.core.language.identifiers import PeerId
from hearsay.core.shell.randomness import Purpose

_PINGS_PER_ROUND = 2


class Upkeep:
    __slots__ = ("_asks_left", "_connections", "_join_protocol", "_neighbours", "_parameters", "_replies",
                 "_target_sizes", "_tried", "_views")  # fmt: skip

    def __init__(self, context: Context) -> None:
        self._parameters = context.parameters
        self._views = context.views
        self._target_sizes = context.target_sizes
        self._connections = context.connections
        self._tried: set[PeerId] = set()
        self._asks_left = 0
        self._replies: dict[PeerId, Neighbor] | None = None
        """Active lists that neighbours told, while we ask for them."""

    def attach(self, neighbours: Neighbours, join_protocol: JoinProtocol) -> None:
        """They are made after this, because a refusal makes the list grow."""
        self._neighbours = neighbours
        self._join_protocol = join_protocol

    def round(self) -> None:
        """What the randomised timer does."""
        self._tried.clear()
        self._join_protocol.new_round()
        self._asks_left = 2 * max(0, self._target_sizes.active_size - len(self._views.active))
        if self._replies is not None:
            for peer in self._views.neighbours(*self._replies):
                self._connections.ping(peer)
            self._shrink()
        if len(self._views.active) < self._target_sizes.active_size:
            self.grow()
        elif self._parameters.overlay is Overlay.EPISUB:
            if len(self._views.active) > self._target_sizes.active_size:
                self._ask_for_lists()
            if self._views.random_links < self._target_sizes.random_links:
                self._regain_random()
            else:
                self._optimise()
        self._measure()

    def grow(self) -> None:
        """Ask for as many links as are missing; called again whenever one is refused or lost."""
        views = self._views
        short = self._target_sizes.active_size - len(views.active) - len(self._neighbours.requests)
        if short <= 0:
            return
        asked_random = sum(request.random for request in self._neighbours.requests.values())
        short_random = self._target_sizes.random_links - views.random_links - asked_random
        short_random -= self._join_protocol.attempts
        candidates = [
            peer
            for peer in sorted(views.passive)
            if peer not in self._tried and peer not in self._neighbours.requests
        ]
        if not candidates:
            self._look_around()
            return
        if self._parameters.overlay is Overlay.HYPARVIEW:
            short_random = short
        random = views.shuffled(Purpose.GROW, candidates)[: min(short, max(0, short_random))]
        chosen = [(peer, True) for peer in random]
        if len(chosen) < short and short_random < short:
            rest = views.by_rtt(views.shuffled(Purpose.GROW_NEAR, set(candidates) - set(random)))
            near = min(short - len(chosen), max(0, self._asks_left))
            self._asks_left -= near
            chosen += [(peer, False) for peer in rest[:near]]
        for peer, is_random in chosen:
            self._tried.add(peer)
            self._neighbours.request(peer, is_random)

    def refused(self, peer: PeerId) -> None:
        """A request came to nothing."""
        self._tried.add(peer)
        self.grow()

    def on_reply(self, sender: PeerId, part: Neighbor) -> None:
        if self._replies is None or sender not in self._views.active:
            return
        self._replies[sender] = part
        if len(self._replies) >= len(self._views.active):
            self._shrink()

    def _look_around(self) -> None:
        if self._join_protocol.alone or not self._views.passive:
            self._join_protocol.find_contacts()
        elif len(self._views.passive) < self._target_sizes.active_size:
            neighbours = self._views.neighbours()
            self._join_protocol.ask_for_nodes(self._views.choose(Purpose.NODES, neighbours))

    def _ask_for_lists(self) -> None:
        self._replies = {}
        for peer in self._views.neighbours():
            self._neighbours.query(peer)

    def _shrink(self) -> None:
        """The seed's two ways to drop links safely."""
        replies = {peer: part for peer, part in (self._replies or {}).items() if peer in self._views.active}
        self._replies = None
        views = self._views
        wanted = self._target_sizes.random_links
        for peer in reversed(views.by_rtt(replies)):
            if len(views.active) <= self._target_sizes.active_size or views.random_links <= wanted:
                break
            if views.active[peer].random and replies[peer].random_links > wanted:
                self._neighbours.evict(peer)
        for peer in reversed(views.by_rtt(replies)):
            if len(views.active) <= self._target_sizes.active_size:
                return
            spare = not views.active[peer].random if peer in views.active else False
            if spare or (peer in views.active and views.random_links > wanted):
                linked = [other for other in replies[peer].peers if other in views.active and other != peer]
                if linked:
                    self._neighbours.evict(peer)

    def _regain_random(self) -> None:
        """A full list with too few random links: the farthest near link gives way to a random one."""
        views = self._views
        near = [peer for peer in views.by_rtt(views.active) if not views.active[peer].random]
        if near and views.passive and not self._neighbours.requests:
            peer = views.choose(Purpose.GROW, sorted(views.passive))
            self._neighbours.request(peer, random=True, replaces=near[-1])

    def _optimise(self) -> None:
        """One near link at a time gives way to a nearer node."""
        views = self._views
        views.relabel(self._target_sizes.random_links, self._target_sizes.near_links)
        farthest = views.farthest_near()
        measured = [peer for peer, rtt_us in views.passive.items() if rtt_us is not None]
        if farthest is None or not measured or self._neighbours.requests:
            return
        closest = views.by_rtt(measured)[0]
        rtt_us = views.passive[closest]
        if self._neighbours.closer(UNMEASURED_US if rtt_us is None else rtt_us, farthest):
            self._neighbours.request(closest, random=False, replaces=farthest)

    def _measure(self) -> None:
        if not self._target_sizes.near_links:
            return
        active = self._views.active
        unmeasured = sorted(peer for peer, link in active.items() if link.rtt_us is None)
        some = self._views.some(Purpose.PING, sorted(active), _PINGS_PER_ROUND)
        for peer in (unmeasured or some)[: 2 * _PINGS_PER_ROUND]:
            self._connections.ping(peer)
