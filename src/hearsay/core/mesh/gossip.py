"""Fan-out and gossip: the peers outside of the mesh that get own messages, or announcements of recent messages.

The fan-out are the peers that get a router's own messages in a topic that the router has not joined. In gossip, IHAVE
announces recent messages, and IWANT requests announced messages that are missing.

Rules (r1, "fanout"; guide, "Fan-out"; go; `rules/message_rules.py` has the numbers):

* FANOUT-1: The first publication in a topic draws up to D peers of the topic, which get further messages too. The
  router remembers the time of the last publication. A peer is not informed that it is in a fan-out, so the router
  sends no PRUNE when the peer disconnects or unsubscribes and is removed.
* FANOUT-2: Lost peers are replaced at the next publication (guide) or in the heartbeat (r1); `fanout_top_up` chooses.
* FANOUT-3: When the router joins the topic, the fan-out peers that may be grafted become the first mesh peers.
* GOSSIP-3: In each heartbeat, for each topic with ids in the gossip windows, the router sends IHAVE to random peers
  that are not in the mesh or fan-out. It draws D_lazy peers from all peers of the topic, and then excludes the peers
  of the mesh or fan-out (r1); or it excludes them before the draw (guide, go).
* GOSSIP-4: An IHAVE is answered with an IWANT for the ids that are not in the seen cache. An IWANT is answered with
  the messages that are still kept.
* GOSSIP-5: An id is requested of every peer that announces it (go).
* GOSSIP-6: With `ask_again_heartbeats`, an id is requested only once in this time (rust).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from hearsay.core.language.actions import Reason, Via
from hearsay.core.language.identifiers import MessageId, Micros, PeerId, TopicId
from hearsay.core.language.rpc import IHave, IWant, PartKind
from hearsay.core.mesh.graft_bounds import Spread
from hearsay.core.mesh.mesh import Mesh
from hearsay.core.mesh.message_memory import MessageCache, Unwanted
from hearsay.core.mesh.parameters import FanoutTopUp, GossipsubParameters, GossipTargets
from hearsay.core.mesh.partials import Partials
from hearsay.core.mesh.standing import Standing
from hearsay.core.rules.message_rules import (
    fanout_is_over,
    gossip_targets,
    ids_over_limit,
    ids_to_ask,
    is_answered,
    is_repeated_news,
    may_be_asked,
    needs_samples,
)
from hearsay.core.rules.randomness import Purpose, key_of, sample
from hearsay.core.shell.guarantees import Peering
from hearsay.core.shell.peers import ConnectedPeer, PeerGroup
from hearsay.core.shell.strategy import Shell

_GOSSIP = Purpose.GOSSIP
"""A constant, since attributes of enumerations are slow to read and every heartbeat needs this one."""


@dataclass(slots=True)
class _Route:
    """The fan-out of one topic."""

    peers: PeerGroup = field(default_factory=PeerGroup)
    last_publish_us: Micros = 0


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
        """Return the fan-out peers for a publication now, and remember its time. Before that, draw peers up to D if
        the fan-out is empty, or in any case (guide)."""
        route = self._routes.setdefault(topic, _Route())
        route.last_publish_us = self._shell.now
        if not route.peers or self._top_up_at_publish:
            self._top_up(topic, route, tick)
        return route.peers

    def upkeep(self, tick: int) -> None:
        """Remove peers with a score below `publish` (v1.1), and topics without a recent publication. Replace lost
        peers (r1)."""
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
        """Remove the fan-out of a topic that is joined now, and return its peers; none if there was no fan-out."""
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
        fitting = self._standing.among(native, self._standing.may_get_own_messages)
        candidates = [peer for peer in fitting if peer not in route.peers]
        state = shell.draw(Purpose.FANOUT, topic, tick, len(route.peers))
        for peer in self._spread.choose(state, candidates, missing, missing, route.peers):
            route.peers.add(peer)


class Gossip:
    """The gossip of one router: IHAVE in each heartbeat, and answers to IHAVE and IWANT of peers."""

    def __init__(
        self, mesh: Mesh, fanout: Fanout, cache: MessageCache, unwanted: Unwanted, partials: Partials
    ) -> None:
        self._mesh = mesh
        self._parameters, self._shell, self._standing = mesh.parameters, mesh.shell, mesh.standing
        self._fanout = fanout
        self._cache = cache
        self._unwanted = unwanted
        self._partials = partials
        self._samples_ids = mesh.parameters.uses_11
        self._filters_last = mesh.parameters.gossip_targets is GossipTargets.SELECT_THEN_FILTER
        self._max_ids = mesh.parameters.max_ids_per_ihave
        self._max_asked = mesh.parameters.max_ids_asked_per_peer
        self._news: dict[TopicId, dict[PeerId, int]] = {}
        """By topic and peer, the number of IHAVEs with unknown ids; only with `graft_on_missing`."""
        self._asked_of: dict[PeerId, int] = {}
        """By peer, the number of ids that this router requested since the last heartbeat. A disconnection does not
        reset the number."""
        self._asked_by: dict[PeerId, int] = {}
        """By peer, the number of ids that the peer requested since the last heartbeat and this router handled. A
        disconnection does not reset the number."""
        self._asked_at: dict[MessageId, int] = {}
        """By id, the number of the last heartbeat before the request for the id, the oldest first; only with
        `ask_again_heartbeats`."""
        self._tick = 0
        self._ids_in_rpc = 0
        """Number of ids that were handled so far in the IHAVEs of the present RPC; only with `ihave_ids_of_rpc`."""
        self._asked_now: dict[PeerId, list[MessageId]] = {}
        """By peer, the ids of the IWANTs in answer to the present RPC; only with parameters of 1.1."""

    def on_ihave(self, sender: ConnectedPeer, ihave: IHave) -> None:
        shell = self._shell
        if ihave.topic not in shell.joined:
            shell.drop(sender.id, PartKind.IHAVE, len(ihave.ids), Reason.NOT_SUBSCRIBED)
            return
        if self._parameters.ihave_parts_count and not self._standing.admits_ihave(sender.id, (ihave,)):
            return
        ids = self._first_ids(sender, PartKind.IHAVE, ihave.ids, self._max_ids - self._ids_in_rpc)
        if self._parameters.ihave_ids_of_rpc:
            self._ids_in_rpc += len(ids)
        if not may_be_asked(self._asked_of.get(sender.id, 0), self._max_asked):
            return
        news = shell.unknown(ids)
        if news:
            self._ask(sender, news)
            if self._parameters.graft_on_missing:
                self._count_news(sender, ihave.topic)

    def on_iwant(self, sender: ConnectedPeer, iwant: IWant) -> None:
        asked = self._asked_by.get(sender.id, 0)
        ids = self._first_ids(sender, PartKind.IWANT, iwant.ids, self._parameters.max_ids_per_iwant - asked)
        self._asked_by[sender.id] = asked + len(ids)
        refused = 0
        for message_id in ids:
            message = self._cache.get(message_id)
            if message is None or self._unwanted.holds(sender.id, message_id):
                continue
            if is_answered(self._cache.count_answer(message_id, sender.id), self._parameters.iwant_answers_per_id):
                self._shell.outbox.answer(sender.id, message, Via.IWANT)
            else:
                refused += 1
        if refused:
            self._shell.drop(sender.id, PartKind.IWANT, refused, Reason.OVER_LIMIT)

    def control_handled(self) -> None:
        self._ids_in_rpc = 0
        if self._asked_now:
            for peer, ids in self._asked_now.items():
                self._standing.ask(peer, ids)
            self._asked_now = {}

    def emit(self, tick: int) -> None:
        """Send the gossip of a heartbeat, in every topic that has a mesh or a fan-out: IHAVE for recent messages, and
        partial messages (PARTIAL-6)."""
        self._tick = tick
        by_topic = self._cache.gossip()
        for topic in self._partials.groups.topics():
            by_topic.setdefault(topic, [])
        for topic in sorted(by_topic):
            if topic in self._mesh.topics:
                routed = self._mesh.topics[topic]
            elif topic in self._fanout:
                routed = self._fanout.peers(topic)
            else:
                continue
            ids = tuple(sorted(by_topic[topic]))
            targets = self._partials.gossip(topic, self._targets(topic, routed, tick))
            if not ids:
                continue
            if needs_samples(len(ids), self._max_ids):
                self._emit_samples(targets, topic, ids, tick)
            else:
                self._shell.outbox.ihave(targets, topic, ids)

    def forget_requests(self, tick: int) -> None:
        """At the end of a heartbeat, reset the counts of requested ids, and forget old requests. Every
        `missing_window_heartbeats`, also reset the counts for `graft_on_missing`."""
        if self._news and tick % self._parameters.missing_window_heartbeats == 0:
            self._news.clear()
        self._asked_of.clear()
        self._asked_by.clear()
        again = self._parameters.ask_again_heartbeats
        while self._asked_at and tick - self._asked_at[oldest := next(iter(self._asked_at))] >= again:
            del self._asked_at[oldest]

    def left(self, topic: TopicId) -> None:
        self._news.pop(topic, None)

    def peer_unsubscribed(self, peer: PeerId, topic: TopicId) -> None:
        self._news.get(topic, {}).pop(peer, None)

    def peer_removed(self, peer: PeerId) -> None:
        for counts in self._news.values():
            counts.pop(peer, None)

    def remembers(self, peer: PeerId) -> bool:
        return any(peer in counts for counts in self._news.values())

    def _first_ids(
        self, sender: ConnectedPeer, kind: PartKind, ids: tuple[MessageId, ...], most: int
    ) -> tuple[MessageId, ...]:
        """Return the first `most` ids of a part, and report the other ids as dropped (GOSSIP-8)."""
        over = ids_over_limit(len(ids), most)
        if not over:
            return ids
        self._shell.drop(sender.id, kind, over, Reason.OVER_LIMIT)
        return ids[:-over]

    def _ask(self, sender: ConnectedPeer, news: list[MessageId]) -> None:
        """Send a peer an IWANT for those of the unknown ids that may be requested of the peer now."""
        again = self._parameters.ask_again_heartbeats
        if again:
            news = [message_id for message_id in news if message_id not in self._asked_at]
        asked = self._asked_of.get(sender.id, 0)
        count = ids_to_ask(len(news), asked, self._max_asked)
        wanted = news if count == len(news) else self._some_of(sender.id, news, count)
        if not wanted:
            return
        self._asked_of[sender.id] = asked + len(wanted)
        if again:
            self._asked_at.update(dict.fromkeys(wanted, self._tick))
            while len(self._asked_at) > self._parameters.max_cached_messages:
                del self._asked_at[next(iter(self._asked_at))]
        self._shell.outbox.want(sender.id, wanted)
        if self._samples_ids:
            self._asked_now.setdefault(sender.id, []).extend(wanted)

    def _some_of(self, peer: PeerId, news: list[MessageId], count: int) -> list[MessageId]:
        """Return `count` of the unknown ids that a peer announced: the first ones (1.0), or a random sample (1.1, all
        implementations), which the peer cannot foresee."""
        if not self._samples_ids:
            return news[:count]
        return sample(self._shell.draw(Purpose.ASKED, "", key_of(peer), self._shell.now), news, count)

    def _targets(self, topic: TopicId, routed: PeerGroup, tick: int) -> list[PeerId]:
        """Return the peers that get IHAVE for a topic, ascending."""
        inside = routed.members
        native = self._shell.peers.in_topic(topic).native.ordered
        peers = self._standing.among(native, self._standing.may_get_gossip)
        if not self._filters_last:
            peers = [peer for peer in peers if peer not in inside]
        count = gossip_targets(self._parameters.degree_lazy, len(peers), self._parameters.gossip_factor)
        chosen = sample(self._shell.draw(_GOSSIP, topic, tick), peers, count)
        return [peer for peer in chosen if peer not in inside]

    def _emit_samples(self, targets: Sequence[PeerId], topic: TopicId, ids: tuple[MessageId, ...], tick: int) -> None:
        """Send each of `targets` an IHAVE with a random sample of the ids, because there are too many ids for one
        IHAVE (GOSSIP-9)."""
        for peer in targets:
            state = self._shell.draw(Purpose.GOSSIP_IDS, topic, tick, key_of(peer))
            self._shell.outbox.ihave((peer,), topic, tuple(sample(state, ids, self._max_ids)))

    def _count_news(self, sender: ConnectedPeer, topic: TopicId) -> None:
        """Count an IHAVE with unknown ids. GRAFT its sender if the sender has sent `graft_on_missing` such IHAVEs
        (GOSSIP-11)."""
        if not sender.native or topic not in sender.topics:
            return
        counts = self._news.setdefault(topic, {})
        counts[sender.id] = counts.get(sender.id, 0) + 1
        if is_repeated_news(counts[sender.id], self._parameters.graft_on_missing):
            del counts[sender.id]
            self._mesh.graft(topic, sender.id)
