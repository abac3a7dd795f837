"""Gossipsub 1.0: a mesh for full messages, gossip about them to some of the others.

After r1, the guide, and the tech report's sections 3.2.3 to 3.4.

Rules:

* GOSSIP-1: Forward to the mesh and to peers that only flood; publish to a topic one has not joined goes to the
  fan-out.
* GOSSIP-2: Publishing with fewer than D mesh peers: to those alone (r1, go), or to random others up to D (rust, js).
* GOSSIP-3: Every heartbeat, for each topic of mesh and fan-out with ids in the gossip windows, IHAVE to a random few
  who are not in it: D_lazy of all topic peers without the mesh (r1), or D_lazy of those without (guide, go).
* GOSSIP-4: IHAVE is answered with IWANT for the ids not seen; IWANT with the messages that are still kept. How many,
  says `rules/gossip_counts.py`.
* GOSSIP-5: An id is asked of everyone who announces it (go).
* GOSSIP-6: An id is not asked of others for `ask_again_heartbeats` (rust; *reference only:* `ask_again_heartbeats`).

gossipsub *has* a mesh, a fan-out and a message cache; the heartbeat below reads as the table of contents.

Where the sources differ, a parameter says which rule holds; `docs/routers/gossipsub.md` lists the sources.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from hearsay.core.language.actions import Reason, Via
from hearsay.core.language.identifiers import MessageId, Micros, PeerId, TopicId
from hearsay.core.language.rpc import IHave, IWant, Message, PartKind
from hearsay.core.language.state_table import Peering
from hearsay.core.mesh.fanout import Fanout
from hearsay.core.mesh.mesh import MeshParameters
from hearsay.core.mesh.meshsub import MeshStrategy
from hearsay.core.mesh.message_cache import MessageCache
from hearsay.core.rules.gossip_counts import (
    ids_over_limit,
    ids_to_ask,
    is_answered,
    is_repeated_news,
    may_be_asked,
    needs_samples,
)
from hearsay.core.shell.parameters import Violation, choice, integer, milliseconds
from hearsay.core.shell.peers import ConnectedPeer, PeerGroup
from hearsay.core.shell.promises import Promises
from hearsay.core.shell.randomness import Purpose, key_of, sample
from hearsay.core.shell.seen import SeenCache, WindowedSeen, missing
from hearsay.core.shell.shell import Shell


class GossipTargets(StrEnum):
    """Draw D_lazy of all topic peers and drop those in the mesh (r1, simsub), or leave it out first (guide, go)."""

    SELECT_THEN_FILTER = "select_then_filter"
    FILTER_THEN_SELECT = "filter_then_select"


class SeenBy(StrEnum):
    """Remember ids for a time (r1), or as long as the message cache keeps them (simsub's actor)."""

    TIME = "time"
    HISTORY = "history"


class FanoutTopUp(StrEnum):
    """Make up for lost fan-out peers in the heartbeat (r1) or at the next publish (guide)."""

    HEARTBEAT = "heartbeat"
    PUBLISH = "publish"


class ShortMesh(StrEnum):
    """Publishing with fewer than D mesh peers: to those alone (r1, go), or to random others up to D (rust, js)."""

    MESH_ONLY = "mesh_only"
    TOP_UP = "top_up"


@dataclass(frozen=True, slots=True, kw_only=True)
class GossipsubParameters(MeshParameters):
    """Gossip, caches and fan-out, beside the mesh's parameters.

    | field | rule | r1 | simsub |
    |---|---|---|---|
    | degree_lazy | D_lazy, peers that get gossip | 6 | 6 |
    | gossip_targets | draw before or after leaving out the mesh | select_then_filter | select_then_filter |
    | history_length | windows a message is kept, the open one included | 5 | 121 |
    | history_gossip | windows that are gossiped about, the open one included | 3 | 3 |
    | seen_by | how long ids are remembered | time | history |
    | fanout_ttl_ms | fan-out is forgotten after that long without a publish | 60 000 | 60 000 |
    | fanout_top_up | when lost fan-out peers are replaced | heartbeat | heartbeat |
    | short_mesh | publishing with a small mesh | mesh_only | mesh_only |
    | graft_on_missing | GRAFT a peer after so many IHAVEs with news; 0 is off | 0 | 0 |
    | missing_window_heartbeats | … counted over so many heartbeats | 5 | 5 |
    | max_ids_per_ihave | ids of one IHAVE that are acted on, and sent | 5000 | 5000 |
    | max_ids_per_iwant | ids asked of one peer, and acted on when it asks, per heartbeat | 5000 | 5000 |
    | ask_again_heartbeats | an id that was asked for is not asked of others for so many; 0: of all | 0 | 0 |
    | iwant_answers_per_id | how often one message is sent to one peer on request | 3 | 1 000 000 |
    | max_cached_messages | size of the message cache | 200 000 | 200 000 |
    | max_cached_bytes | … in bytes of memory; 0 is off | 0 | 0 |
    """

    degree_lazy: int = integer(6, low=0)
    gossip_targets: GossipTargets = choice(GossipTargets.SELECT_THEN_FILTER)
    history_length: int = integer(5, low=1, high=100_000)
    history_gossip: int = integer(3, low=0, high=100_000)
    seen_by: SeenBy = choice(SeenBy.TIME)
    fanout_ttl_ms: int = milliseconds(60_000)
    fanout_top_up: FanoutTopUp = choice(FanoutTopUp.HEARTBEAT)
    short_mesh: ShortMesh = choice(ShortMesh.MESH_ONLY)
    graft_on_missing: int = integer(0, low=0)
    missing_window_heartbeats: int = integer(5, low=1)
    max_ids_per_ihave: int = integer(5_000, low=1)
    max_ids_per_iwant: int = integer(5_000, low=1)
    ask_again_heartbeats: int = integer(0, low=0)
    iwant_answers_per_id: int = integer(3, low=0)
    max_cached_messages: int = integer(200_000, low=1)
    max_cached_bytes: int = integer(0, low=0)

    def cross_rules(self) -> Iterator[Violation]:
        yield from MeshParameters.cross_rules(self)
        if self.history_gossip > self.history_length:
            rule = f"must not be above history_length ({self.history_length})"
            yield Violation("history_gossip", self.history_gossip, rule)


class Gossipsub(MeshStrategy):
    parameters: GossipsubParameters  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, parameters: GossipsubParameters | None = None) -> None:
        parameters = parameters or GossipsubParameters()
        super().__init__(parameters)
        self.cache = MessageCache(
            parameters.history_length,
            parameters.history_gossip,
            parameters.max_cached_messages,
            parameters.max_cached_bytes,
        )
        self._news: dict[TopicId, dict[PeerId, int]] = {}
        self._asked_of: dict[PeerId, int] = {}
        """How many ids a peer was asked for since the last heartbeat; outlasts a disconnection, as the next does."""
        self._asked_by: dict[PeerId, int] = {}
        """How many ids a peer asked for since the last heartbeat."""
        self._asked_at: dict[MessageId, int] = {}
        """In which heartbeat an id was asked for, the oldest first; with `ask_again_heartbeats`."""

    def attach(self, shell: Shell) -> None:
        super().attach(shell)
        at_publish = self.parameters.fanout_top_up is FanoutTopUp.PUBLISH
        parameters = self.parameters
        self.fanout = Fanout(
            parameters.degree, parameters.fanout_ttl_ms * 1000, at_publish, parameters.places_per_address, shell
        )

    def new_seen_cache(self) -> SeenCache:
        if self.parameters.seen_by is SeenBy.HISTORY:
            return WindowedSeen(
                self.parameters.history_length - 1, self.parameters.max_seen, self.parameters.max_seen_bytes
            )
        return super().new_seen_cache()

    def accepted(self, message: Message, received_from: PeerId) -> None:
        self.cache.put(message)
        self.forward(message, received_from)

    def publish(self, message: Message) -> None:
        self.cache.put(message)
        topic = message.topic
        if topic not in self.mesh.topics:
            route = self.fanout.publish(topic, self.heartbeat.tick)
            self.shell.outbox.forward(route.ordered, message, Via.FANOUT, None)
        elif self.parameters.short_mesh is ShortMesh.TOP_UP:
            self._top_up_publish(message)
        self.forward(message, None)

    def timer_fired(self) -> None:
        tick = self.heartbeat.advance()
        self.mesh.upkeep(tick)
        self.fanout.upkeep(tick)
        self._gossip(tick)
        self._forget_old_news(tick)
        self._forget_old_requests(tick)
        self.cache.shift()
        self.shell.seen.shift()

    def joined(self, topic: TopicId) -> None:
        self.mesh.join(topic, self.fanout.take(topic), self.heartbeat.tick)

    def left(self, topic: TopicId) -> None:
        super().left(topic)
        self._news.pop(topic, None)

    def peer_removed(self, peer: ConnectedPeer) -> None:
        super().peer_removed(peer)
        self.fanout.remove_peer(peer)
        for counts in self._news.values():
            counts.pop(peer.id, None)

    def peer_unsubscribed(self, peer: ConnectedPeer, topic: TopicId) -> None:
        super().peer_unsubscribed(peer, topic)
        self.fanout.remove(peer.id, topic)
        self._news.get(topic, {}).pop(peer.id, None)

    def on_ihave(self, sender: ConnectedPeer, ihave: IHave) -> None:
        shell = self.shell
        if ihave.topic not in shell.joined:
            shell.drop(sender.id, PartKind.IHAVE, len(ihave.ids), Reason.NOT_SUBSCRIBED)
            return
        ids = self._within_limit(sender, PartKind.IHAVE, ihave.ids, self.parameters.max_ids_per_ihave)
        if not may_be_asked(self._asked_of.get(sender.id, 0), self.parameters.max_ids_per_iwant):
            return
        news = missing(shell.seen, ids, shell.now)
        if news:
            self._ask(sender, news)
            if self.parameters.graft_on_missing:
                self._count_news(sender, ihave.topic)

    def _ask(self, sender: ConnectedPeer, news: list[MessageId]) -> None:
        """IWANT for ids that are missing, as far as they may be asked for."""
        if self.parameters.ask_again_heartbeats:
            news = [message_id for message_id in news if message_id not in self._asked_at]
        asked = self._asked_of.get(sender.id, 0)
        wanted = news[: ids_to_ask(len(news), asked, self.parameters.max_ids_per_iwant)]
        if not wanted:
            return
        self._asked_of[sender.id] = asked + len(wanted)
        if self.parameters.ask_again_heartbeats:
            self._remember_asking(wanted)
        self.shell.outbox.want(sender.id, wanted)

    def _remember_asking(self, wanted: list[MessageId]) -> None:
        self._asked_at.update(dict.fromkeys(wanted, self.heartbeat.tick))
        while len(self._asked_at) > self.parameters.max_cached_messages:
            del self._asked_at[next(iter(self._asked_at))]

    def on_iwant(self, sender: ConnectedPeer, iwant: IWant) -> None:
        refused = 0
        asked = self._asked_by.get(sender.id, 0)
        ids = self._within_limit(sender, PartKind.IWANT, iwant.ids, self.parameters.max_ids_per_iwant - asked)
        self._asked_by[sender.id] = asked + len(ids)
        for message_id in ids:
            message = self.cache.get(message_id)
            if message is None:
                continue
            if is_answered(self.cache.count_answer(message_id, sender.id), self.parameters.iwant_answers_per_id):
                self.shell.outbox.answer(sender.id, message)
            else:
                refused += 1
        if refused:
            self.shell.drop(sender.id, PartKind.IWANT, refused, Reason.OVER_LIMIT)

    def peerings(self) -> Iterable[tuple[TopicId, PeerId, Peering]]:
        yield from self.mesh.peerings()
        yield from self.fanout.peerings()

    def fanout_topics(self) -> Iterable[tuple[TopicId, Micros]]:
        return self.fanout.topics()

    def holds(self, message_id: MessageId) -> bool:
        return message_id in self.cache

    def held_messages(self) -> Iterable[Message]:
        return self.cache.messages()

    def promises(self) -> Promises:
        parameters = self.parameters
        return replace(
            super().promises(),
            gossip_heartbeats=parameters.history_gossip,
            kept_heartbeats=parameters.history_length,
            seen_heartbeats=parameters.history_length if parameters.seen_by is SeenBy.HISTORY else None,
        )

    def remembers(self, peer: PeerId) -> bool:
        """Whether anything is counted for a peer that should be gone with its connection."""
        return any(peer in counts for counts in self._news.values())

    def _gossip(self, tick: int) -> None:
        """IHAVE for the recent messages of every topic one routes (r1, "Gossip is emitted by selecting peers")."""
        by_topic = self.cache.gossip()
        for topic in sorted(by_topic):
            if topic in self.mesh.topics:
                routed = self.mesh.topics[topic]
            elif topic in self.fanout:
                routed = self.fanout.peers(topic)
            else:
                continue
            ids = tuple(sorted(by_topic[topic]))
            targets = self._gossip_targets(topic, routed, tick)
            if needs_samples(len(ids), self.parameters.max_ids_per_ihave):
                self._gossip_samples(targets, topic, ids, tick)
            else:
                self.shell.outbox.ihave(targets, topic, ids)

    def _gossip_samples(self, targets: list[PeerId], topic: TopicId, ids: tuple[MessageId, ...], tick: int) -> None:
        """Too many ids for one IHAVE: another sample for each peer, so that none is left out everywhere (go)."""
        for peer in targets:
            state = self.shell.draw(Purpose.GOSSIP_IDS, topic, tick, key_of(peer))
            self.shell.outbox.ihave((peer,), topic, tuple(sample(state, ids, self.parameters.max_ids_per_ihave)))

    def _gossip_targets(self, topic: TopicId, routed: PeerGroup, tick: int) -> list[PeerId]:
        shell = self.shell
        state = shell.draw(Purpose.GOSSIP, topic, tick)
        candidates = shell.peers.in_topic(topic).native.ordered
        inside = routed.members
        if self.parameters.gossip_targets is GossipTargets.SELECT_THEN_FILTER:
            return [peer for peer in sample(state, candidates, self.parameters.degree_lazy) if peer not in inside]
        return sample(state, [peer for peer in candidates if peer not in inside], self.parameters.degree_lazy)

    def _top_up_publish(self, message: Message) -> None:
        shell = self.shell
        mesh = self.mesh.topics[message.topic]
        others = [peer for peer in shell.peers.in_topic(message.topic).native if peer not in mesh]
        state = shell.randomness.draw(Purpose.PUBLISH_TOP_UP, shell.key, key_of(message.topic), key_of(message.id))
        extra = sample(state, others, self.parameters.degree - len(mesh))
        shell.outbox.forward(extra, message, Via.TOP_UP, None)

    def _count_news(self, sender: ConnectedPeer, topic: TopicId) -> None:
        """Repeated news from one peer means that the mesh misses messages: take that peer into it."""
        if not sender.native or topic not in sender.topics:
            return
        counts = self._news.setdefault(topic, {})
        counts[sender.id] = counts.get(sender.id, 0) + 1
        if is_repeated_news(counts[sender.id], self.parameters.graft_on_missing):
            del counts[sender.id]
            self.mesh.graft(topic, sender.id)

    def _forget_old_news(self, tick: int) -> None:
        if self._news and tick % self.parameters.missing_window_heartbeats == 0:
            self._news.clear()

    def _forget_old_requests(self, tick: int) -> None:
        self._asked_of.clear()
        self._asked_by.clear()
        while self._asked_at:
            oldest = next(iter(self._asked_at))
            if tick - self._asked_at[oldest] < self.parameters.ask_again_heartbeats:
                return
            del self._asked_at[oldest]

    def _within_limit(
        self, sender: ConnectedPeer, kind: PartKind, ids: tuple[MessageId, ...], limit: int
    ) -> tuple[MessageId, ...]:
        over = ids_over_limit(len(ids), limit)
        if not over:
            return ids
        self.shell.drop(sender.id, kind, over, Reason.OVER_LIMIT)
        return ids[:limit]
