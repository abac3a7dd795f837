"""Fan-out: stable peers for topics that a router publishes to without being a member.

Rules (r1, "fanout"; guide, "Fan-out"):

* FANOUT-1: The first publish picks D random peers of the topic and remembers them with the time; each publish renews
  the time. The peers are not informed, so a peer that disconnects or unsubscribes is just removed.
* FANOUT-2: Lost peers are replaced at the next publish (guide) or in the heartbeat (r1), by `fanout_top_up`.
* FANOUT-3: When the router joins the topic, the fan-out peers become the first mesh peers.
"""

from __future__ import annotations

from collections.abc import Iterator

from hearsay.core.language.identifiers import Micros, PeerId, TopicId
from hearsay.core.language.state import Peering
from hearsay.core.mesh.graft_bounds import Spread
from hearsay.core.mesh.parameters import FanoutTopUp, GossipsubParameters
from hearsay.core.mesh.standing import Standing
from hearsay.core.rules.message_rules import fanout_is_over
from hearsay.core.shell.peers import ConnectedPeer, PeerGroup
from hearsay.core.shell.randomness import Purpose
from hearsay.core.shell.strategy import Shell


class _Route:
    __slots__ = ("last_publish_us", "peers")

    def __init__(self) -> None:
        self.peers = PeerGroup()
        self.last_publish_us: Micros = 0


class Fanout:
    """The fan-out peers of all topics of one router."""

    def __init__(self, parameters: GossipsubParameters, shell: Shell, standing: Standing) -> None:
        self._degree = parameters.degree
        self._ttl_us: Micros = parameters.fanout_ttl_ms * 1000
        self._top_up_at_publish = parameters.fanout_top_up is FanoutTopUp.PUBLISH
        self._spread = Spread(parameters.places_per_address, shell.peers)
        self._shell = shell
        self._standing = standing
        self._routes: dict[TopicId, _Route] = {}

    def publish(self, topic: TopicId, tick: int) -> PeerGroup:
        """Return the fan-out peers for a publish now. Fill them up if there are none, or on every publish (guide)."""
        route = self._routes.setdefault(topic, _Route())
        route.last_publish_us = self._shell.now
        if not route.peers or self._top_up_at_publish:
            self._top_up(topic, route, tick)
        return route.peers

    def upkeep(self, tick: int) -> None:
        """Remove peers with a low score (v1.1) and topics without a recent publish; replace lost peers (r1)."""
        for topic in sorted(self._routes):
            route = self._routes[topic]
            for peer in route.peers.ordered:
                if not self._standing.gets_published(peer):
                    route.peers.discard(peer)
            if fanout_is_over(self._shell.now, route.last_publish_us, self._ttl_us):
                del self._routes[topic]
            elif not self._top_up_at_publish:
                self._top_up(topic, route, tick)

    def take(self, topic: TopicId) -> tuple[PeerId, ...]:
        """Remove a topic that is joined, and return its fan-out peers."""
        route = self._routes.pop(topic, None)
        return route.peers.ordered if route is not None else ()

    def remove(self, peer: PeerId, topic: TopicId) -> None:
        route = self._routes.get(topic)
        if route is not None:
            route.peers.discard(peer)

    def remove_peer(self, peer: ConnectedPeer) -> None:
        for topic in sorted(peer.topics):
            self.remove(peer.id, topic)

    def peers(self, topic: TopicId) -> PeerGroup:
        return self._routes[topic].peers

    def topics(self) -> list[tuple[TopicId, Micros]]:
        return [(topic, self._routes[topic].last_publish_us) for topic in sorted(self._routes)]

    def peerings(self) -> Iterator[tuple[TopicId, PeerId, Peering]]:
        for topic in sorted(self._routes):
            for peer in self._routes[topic].peers:
                yield topic, peer, Peering.FAN_OUT

    def __contains__(self, topic: TopicId) -> bool:
        return topic in self._routes

    def _top_up(self, topic: TopicId, route: _Route, tick: int) -> None:
        missing = self._degree - len(route.peers)
        if missing <= 0:
            return
        shell = self._shell
        native = shell.peers.in_topic(topic).native.ordered
        candidates = [peer for peer in self._standing.for_own_messages(native) if peer not in route.peers]
        state = shell.draw(Purpose.FANOUT, topic, tick, len(route.peers))
        for peer in self._spread.choose(state, candidates, missing, missing, route.peers):
            route.peers.add(peer)
