"""Gossip: IHAVE about recent messages, and IWANT for those that are missing.

Rules (r1, guide, go; `rules/message_rules.py` has the counts):

* GOSSIP-3: Every heartbeat, for each topic with ids in the gossip windows, IHAVE goes to random peers outside the
  mesh or fan-out. D_lazy peers are drawn from all peers of the topic, and members of the mesh or fan-out among them
  are left out (r1); or D_lazy are drawn from the peers outside (guide, go).
* GOSSIP-4: IHAVE is answered with IWANT for the ids not seen; IWANT with the messages that are still kept.
* GOSSIP-5: An id is requested of every peer that announces it (go).
* GOSSIP-6: An id is not requested of other peers for `ask_again_heartbeats` (rust).
"""

from __future__ import annotations

from collections.abc import Sequence

from hearsay.core.language.actions import Reason
from hearsay.core.language.identifiers import MessageId, PeerId, TopicId
from hearsay.core.language.rpc import IHave, IWant, PartKind
from hearsay.core.mesh.fanout import Fanout
from hearsay.core.mesh.mesh import Mesh
from hearsay.core.mesh.message_memory import MessageCache, Unwanted
from hearsay.core.mesh.parameters import GossipsubParameters, GossipTargets
from hearsay.core.mesh.partials import Partials
from hearsay.core.mesh.standing import Standing
from hearsay.core.rules.message_rules import (
    gossip_targets,
    ids_over_limit,
    ids_to_ask,
    is_answered,
    is_repeated_news,
    may_be_asked,
    needs_samples,
)
from hearsay.core.shell.peers import ConnectedPeer, PeerGroup
from hearsay.core.shell.randomness import Purpose, key_of, sample
from hearsay.core.shell.strategy import Shell

_GOSSIP = Purpose.GOSSIP
"""A constant, since attributes of enumerations are slow to read and every heartbeat needs this one."""


class Gossip:
    """The gossip of one router: IHAVE in each heartbeat, and answers to IHAVE and IWANT of peers."""

    def __init__(
        self,
        parameters: GossipsubParameters,
        shell: Shell,
        cache: MessageCache,
        unwanted: Unwanted,
        mesh: Mesh,
        fanout: Fanout,
        partials: Partials,
        standing: Standing,
    ) -> None:
        self._parameters = parameters
        self._shell = shell
        self._cache = cache
        self._unwanted = unwanted
        self._mesh = mesh
        self._fanout = fanout
        self._partials = partials
        self._standing = standing
        self._samples_ids = parameters.uses_11
        self._filters_last = parameters.gossip_targets is GossipTargets.SELECT_THEN_FILTER
        self._max_ids = parameters.max_ids_per_ihave
        self._max_asked = parameters.max_ids_asked_per_peer
        self._news: dict[TopicId, dict[PeerId, int]] = {}
        """Number of IHAVEs with unknown ids, by topic and peer; only with `graft_on_missing`."""
        self._asked_of: dict[PeerId, int] = {}
        """Number of ids that a peer was asked for since the last heartbeat, even on earlier connections."""
        self._asked_by: dict[PeerId, int] = {}
        """Number of ids that a peer asked for since the last heartbeat, even on earlier connections."""
        self._asked_at: dict[MessageId, int] = {}
        """Heartbeats in which ids were requested, the oldest first; only with `ask_again_heartbeats`."""
        self._tick = 0
        self._ids_in_rpc = 0
        """Number of ids in the IHAVEs of this RPC so far; only with `ihave_ids_of_rpc`."""
        self._asked_now: dict[PeerId, list[MessageId]] = {}
        """Ids that go into the IWANTs of this call."""

    def on_ihave(self, sender: ConnectedPeer, ihave: IHave) -> None:
        shell = self._shell
        if ihave.topic not in shell.joined:
            shell.drop(sender.id, PartKind.IHAVE, len(ihave.ids), Reason.NOT_SUBSCRIBED)
            return
        if self._parameters.ihave_parts_count and not self._standing.admits_ihave(sender.id, (ihave,)):
            return
        ids = ihave.ids
        over = ids_over_limit(len(ids), self._max_ids - self._ids_in_rpc)
        if over:
            ids = self._without_last(sender, PartKind.IHAVE, ids, over)
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
        ids = iwant.ids
        over = ids_over_limit(len(ids), self._parameters.max_ids_per_iwant - asked)
        if over:
            ids = self._without_last(sender, PartKind.IWANT, ids, over)
        self._asked_by[sender.id] = asked + len(ids)
        refused = 0
        for message_id in ids:
            message = self._cache.get(message_id)
            if message is None or self._unwanted.holds(sender.id, message_id):
                continue
            if is_answered(self._cache.count_answer(message_id, sender.id), self._parameters.iwant_answers_per_id):
                self._shell.outbox.answer(sender.id, message)
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
        """Send IHAVE for the recent messages of every topic with a mesh or a fan-out."""
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
        """Reset the counts of requests at the end of a heartbeat, and forget old requests."""
        if self._news and tick % self._parameters.missing_window_heartbeats == 0:
            self._news.clear()
        self._asked_of.clear()
        self._asked_by.clear()
        while self._asked_at:
            oldest = next(iter(self._asked_at))
            if tick - self._asked_at[oldest] < self._parameters.ask_again_heartbeats:
                return
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

    def _without_last(
        self, sender: ConnectedPeer, kind: PartKind, ids: tuple[MessageId, ...], over: int
    ) -> tuple[MessageId, ...]:
        """Return the ids without the last `over` ones, and report these as dropped."""
        self._shell.drop(sender.id, kind, over, Reason.OVER_LIMIT)
        return ids[:-over]

    def _ask(self, sender: ConnectedPeer, news: list[MessageId]) -> None:
        """Send IWANT for those of the unknown ids that may be requested from the peer now."""
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
        """Return ids to request of a peer that announced too many: the first ones (1.0), or a sample, which the peer
        cannot choose (1.1, all implementations)."""
        if not self._samples_ids:
            return news[:count]
        return sample(self._shell.draw(Purpose.ASKED, "", key_of(peer), self._shell.now), news, count)

    def _targets(self, topic: TopicId, routed: PeerGroup, tick: int) -> list[PeerId]:
        """Return the peers that get IHAVE for a topic, ascending."""
        inside = routed.members
        peers = self._standing.for_gossip(self._shell.peers.in_topic(topic).native.ordered)
        if not self._filters_last:
            peers = [peer for peer in peers if peer not in inside]
        count = gossip_targets(self._parameters.degree_lazy, len(peers), self._parameters.gossip_factor)
        chosen = sample(self._shell.draw(_GOSSIP, topic, tick), peers, count)
        return [peer for peer in chosen if peer not in inside]

    def _emit_samples(self, targets: Sequence[PeerId], topic: TopicId, ids: tuple[MessageId, ...], tick: int) -> None:
        """Send each peer a sample of its own: there are too many ids for one IHAVE (go)."""
        for peer in targets:
            state = self._shell.draw(Purpose.GOSSIP_IDS, topic, tick, key_of(peer))
            self._shell.outbox.ihave((peer,), topic, tuple(sample(state, ids, self._max_ids)))

    def _count_news(self, sender: ConnectedPeer, topic: TopicId) -> None:
        """Count an IHAVE with unknown ids, and GRAFT a peer that sends such IHAVEs repeatedly (GOSSIP-11)."""
        if not sender.native or topic not in sender.topics:
            return
        counts = self._news.setdefault(topic, {})
        counts[sender.id] = counts.get(sender.id, 0) + 1
        if is_repeated_news(counts[sender.id], self._parameters.graft_on_missing):
            del counts[sender.id]
            self._mesh.graft(topic, sender.id)
