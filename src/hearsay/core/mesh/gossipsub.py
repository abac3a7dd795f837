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
* IDONTWANT-6: Who is in the mesh, speaks 1.2 and did not send the message is told that one has it, as soon as it is
  here and before anybody looks at it; of one's own with `idontwant_on_publish` (*reference only:*
  `idontwant_threshold_bytes`).
* IDONTWANT-7: No copy goes to a peer that sent one while the application looked at the message, also if the peer only
  floods (rust, nim; *reference only:* `skip_senders`).
* GOSSIP-6: An id is not asked of others for `ask_again_heartbeats` (rust; *reference only:* `ask_again_heartbeats`).

gossipsub *has* a mesh, a fan-out and a message cache; the heartbeat below reads as the table of contents.

Where the sources differ, a parameter says which rule holds; `docs/routers/gossipsub*.md` list the sources.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import replace

from hearsay.core.language.actions import CopyWithheld, Reason, Via, Withdraw
from hearsay.core.language.identifiers import MessageId, Micros, PeerId, TopicId
from hearsay.core.language.rpc import IDontWant, IHave, IWant, Message, PartKind, knows_idontwant
from hearsay.core.language.state import Peering
from hearsay.core.mesh.extensions.strategy import ExtendedMesh
from hearsay.core.mesh.fanout import Fanout
from hearsay.core.mesh.message_memory import MessageCache, Unwanted
from hearsay.core.mesh.parameters import GossipsubParameters, GossipTargets, SeenBy, ShortMesh
from hearsay.core.rules.message_rules import (
    ids_over_limit,
    ids_to_ask,
    is_answered,
    is_repeated_news,
    is_worth_telling,
    may_be_asked,
    needs_samples,
)
from hearsay.core.shell.guarantees import Promises
from hearsay.core.shell.peers import ConnectedPeer, PeerGroup
from hearsay.core.shell.randomness import Purpose, key_of, sample
from hearsay.core.shell.seen import SeenCache, WindowedSeen
from hearsay.core.shell.strategy import Shell

_NOBODY: frozenset[PeerId] = frozenset()
_GOSSIP = Purpose.GOSSIP
"""Enumerations are slow to look into, and this is wanted at every heartbeat."""


class Gossipsub(ExtendedMesh):
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
        self.unwanted = Unwanted(
            parameters.idontwant_ttl_heartbeats,
            parameters.max_idontwants,
            parameters.max_ids_per_idontwant,
            parameters.max_idontwant_ids,
            parameters.max_unwanted,
        )
        self.wants_first_copies = self.tells_idontwant
        self.wants_duplicates = parameters.skip_senders
        self.withdraws = parameters.withdraw_unwanted
        self._leaves_nobody_out = not (self.has_partials or self.wants_duplicates or self.tells_idontwant)
        """Whether there is nobody in the mesh or fan-out who does not want a message."""
        self._senders: dict[MessageId, set[PeerId]] = {}
        """Who sent a message that the application is looking at, beside the first; with `skip_senders`."""
        self._news: dict[TopicId, dict[PeerId, int]] = {}
        self._filters_last = parameters.gossip_targets is GossipTargets.SELECT_THEN_FILTER
        self._most_heard = parameters.max_ids_per_ihave
        self._most_asked = parameters.most_ids_asked
        self._asked_of: dict[PeerId, int] = {}
        """How many ids a peer was asked for since the last heartbeat; outlasts a disconnection, as the next does."""
        self._asked_by: dict[PeerId, int] = {}
        """How many ids a peer asked for since the last heartbeat."""
        self._asked_at: dict[MessageId, int] = {}
        """In which heartbeat an id was asked for, the oldest first; with `ask_again_heartbeats`."""

    def attach(self, shell: Shell) -> None:
        super().attach(shell)
        self.fanout = self.new_fanout(shell)

    def new_fanout(self, shell: Shell) -> Fanout:
        return Fanout(self.parameters, shell)

    def new_seen_cache(self) -> SeenCache:
        if self.parameters.seen_by is SeenBy.HISTORY:
            return WindowedSeen(
                self.parameters.history_length - 1, self.parameters.max_seen, self.parameters.max_seen_bytes
            )
        return super().new_seen_cache()

    @property
    def uses_fanout(self) -> bool:
        """Whether what is published to topics that are not joined goes to a fan-out."""
        return True

    @property
    def tells_idontwant(self) -> bool:
        return self.parameters.idontwant_threshold_bytes > 0

    def first_copy(self, message: Message, received_from: PeerId) -> None:
        self._tell_mesh(message, received_from)

    def duplicate(self, message: Message, received_from: PeerId) -> None:
        if message.id in self.shell.pending:
            self._senders.setdefault(message.id, set()).add(received_from)

    def accepted(self, message: Message, received_from: PeerId) -> None:
        self.cache.put(message)
        self.forward(message, received_from)
        self._senders.pop(message.id, None)

    def senders_of(self, message: Message) -> Set[PeerId]:
        """Who sent a copy while the application looked at a message, beside the first (IDONTWANT-7)."""
        return self._senders.get(message.id, _NOBODY)

    def flood(self, message: Message, received_from: PeerId | None) -> None:
        others = self.shell.peers.in_topic(message.topic).flood
        if others.members:
            senders = self.senders_of(message)
            peers = [peer for peer in self.flooded(others) if peer not in senders]
            self.shell.outbox.forward(peers, message, Via.FLOOD, received_from)

    def flooded(self, others: PeerGroup) -> Sequence[PeerId]:
        """Those of the peers that only flood who get messages, ascending."""
        return others.ordered

    def who_want(
        self, peers: Sequence[PeerId], message: Message, via: Via, received_from: PeerId | None
    ) -> Sequence[PeerId]:
        if self._leaves_nobody_out:
            return peers
        peers = self.partials.without(peers, message.topic)
        senders = self.senders_of(message)
        if senders:
            peers = [peer for peer in peers if peer not in senders]
        if not len(self.unwanted):
            return peers
        for peer in self.unwanted.among(peers, message.id):
            if peer not in (received_from, message.source):
                self.shell.actions.append(CopyWithheld(peer, message, via))
        return self.unwanted.without(peers, message.id)

    def publish(self, message: Message) -> None:
        self.cache.put(message)
        if self.parameters.idontwant_on_publish:
            self._tell_mesh(message, None)
        topic = message.topic
        if topic not in self.mesh.topics and self.uses_fanout:
            route = self.fanout.publish(topic, self.heartbeat.tick)
            peers = self.who_want(route.ordered, message, Via.FANOUT, None)
            self.shell.outbox.forward(peers, message, Via.FANOUT, None)
        elif topic in self.mesh.topics and self.parameters.short_mesh is ShortMesh.TOP_UP:
            self._top_up_publish(message)
        self.forward(message, None)

    def timer_fired(self) -> None:
        tick = self.heartbeat.advance()
        self.unwanted.beat(tick)
        self.mesh.upkeep(tick)
        self.fanout.upkeep(tick)
        self._gossip(tick)
        if self.has_partials:
            self.partials.beat()
        self._forget_old_news(tick)
        self._forget_old_requests(tick)
        if self._senders:
            self._forget_senders()
        self.cache.shift()
        self.shell.seen.shift()

    def joined(self, topic: TopicId) -> None:
        self.mesh.join(topic, self.fanout.take(topic), self.heartbeat.tick)

    def left(self, topic: TopicId) -> None:
        super().left(topic)
        self._news.pop(topic, None)

    def routed(self, topic: TopicId) -> PeerGroup:
        if topic in self.mesh.topics:
            return self.mesh.topics[topic]
        return self.fanout.publish(topic, self.heartbeat.tick)

    def peer_removed(self, peer: ConnectedPeer) -> None:
        super().peer_removed(peer)
        self.fanout.remove_peer(peer)
        self.unwanted.remove_peer(peer.id)
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
        ids = ihave.ids
        over = ids_over_limit(len(ids), self._most_heard)
        if over:
            ids = self._without_last(sender, PartKind.IHAVE, ids, over)
        if not may_be_asked(self._asked_of.get(sender.id, 0), self._most_asked):
            return
        news = shell.unknown(ids)
        if news:
            self._ask(sender, news)
            if self.parameters.graft_on_missing:
                self._count_news(sender, ihave.topic)

    def _ask(self, sender: ConnectedPeer, news: list[MessageId]) -> None:
        """IWANT for ids that are missing, as far as they may be asked for."""
        if self.parameters.ask_again_heartbeats:
            news = [message_id for message_id in news if message_id not in self._asked_at]
        asked = self._asked_of.get(sender.id, 0)
        count = ids_to_ask(len(news), asked, self._most_asked)
        wanted = news if count == len(news) else self.some_of(sender.id, news, count)
        if not wanted:
            return
        self._asked_of[sender.id] = asked + len(wanted)
        if self.parameters.ask_again_heartbeats:
            self._remember_asking(wanted)
        self.shell.outbox.want(sender.id, wanted)
        self.asked(sender.id, wanted)

    def some_of(self, peer: PeerId, news: list[MessageId], count: int) -> list[MessageId]:
        """The ids to ask a peer for, when it announced more than it may be asked for."""
        return news[:count]

    def asked(self, peer: PeerId, ids: list[MessageId]) -> None:
        """An IWANT for these ids goes to a peer."""

    def _remember_asking(self, wanted: list[MessageId]) -> None:
        self._asked_at.update(dict.fromkeys(wanted, self.heartbeat.tick))
        while len(self._asked_at) > self.parameters.max_cached_messages:
            del self._asked_at[next(iter(self._asked_at))]

    def on_iwant(self, sender: ConnectedPeer, iwant: IWant) -> None:
        refused = 0
        asked = self._asked_by.get(sender.id, 0)
        ids = iwant.ids
        over = ids_over_limit(len(ids), self.parameters.max_ids_per_iwant - asked)
        if over:
            ids = self._without_last(sender, PartKind.IWANT, ids, over)
        self._asked_by[sender.id] = asked + len(ids)
        for message_id in ids:
            message = self.cache.get(message_id)
            if message is None or self.unwanted.holds(sender.id, message_id):
                continue
            if is_answered(self.cache.count_answer(message_id, sender.id), self.parameters.iwant_answers_per_id):
                self.shell.outbox.answer(sender.id, message)
            else:
                refused += 1
        if refused:
            self.shell.drop(sender.id, PartKind.IWANT, refused, Reason.OVER_LIMIT)

    def on_idontwant(self, sender: ConnectedPeer, parts: tuple[IDontWant, ...]) -> None:
        if not self.tells_idontwant:
            super().on_idontwant(sender, parts)
            return
        if not self.parameters.heeds_idontwant:
            return
        heard, over = self.unwanted.hear(sender.id, parts)
        if self.withdraws:
            self.shell.actions += [Withdraw(sender.id, message_id) for message_id in heard]
        if over:
            self.shell.drop(sender.id, PartKind.IDONTWANT, over, Reason.OVER_LIMIT)

    def _tell_mesh(self, message: Message, received_from: PeerId | None) -> None:
        """IDONTWANT to the mesh but whom the message is from."""
        mesh = self.mesh.topics.get(message.topic)
        if mesh is None or not is_worth_telling(len(message.data), self.parameters.idontwant_threshold_bytes):
            return
        shell = self.shell
        for peer in mesh.ordered:
            if peer == received_from or self.partials.spares(peer, message.topic):
                continue
            if knows_idontwant(shell.connected[peer].protocol):
                shell.outbox.unwanted(peer, message.id)

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
        counted = any(peer in counts for counts in self._news.values())
        return counted or self.unwanted.remembers(peer) or super().remembers(peer)

    def _gossip(self, tick: int) -> None:
        """IHAVE for the recent messages of every topic one routes (r1, "Gossip is emitted by selecting peers")."""
        by_topic = self.cache.gossip()
        for topic in self.partials.groups.topics():
            by_topic.setdefault(topic, [])
        for topic in sorted(by_topic):
            if topic in self.mesh.topics:
                routed = self.mesh.topics[topic]
            elif topic in self.fanout:
                routed = self.fanout.peers(topic)
            else:
                continue
            ids = tuple(sorted(by_topic[topic]))
            targets = self.partials.gossip(topic, self.gossip_targets(topic, routed, tick))
            if not ids:
                continue
            if needs_samples(len(ids), self.parameters.max_ids_per_ihave):
                self._gossip_samples(targets, topic, ids, tick)
            else:
                self.shell.outbox.ihave(targets, topic, ids)

    def _gossip_samples(self, targets: list[PeerId], topic: TopicId, ids: tuple[MessageId, ...], tick: int) -> None:
        """Too many ids for one IHAVE: another sample for each peer, so that none is left out everywhere (go)."""
        for peer in targets:
            state = self.shell.draw(Purpose.GOSSIP_IDS, topic, tick, key_of(peer))
            self.shell.outbox.ihave((peer,), topic, tuple(sample(state, ids, self.parameters.max_ids_per_ihave)))

    def gossip_targets(self, topic: TopicId, routed: PeerGroup, tick: int) -> list[PeerId]:
        """Who hears of a topic's messages, ascending."""
        shell = self.shell
        state = shell.draw(_GOSSIP, topic, tick)
        candidates = shell.peers.in_topic(topic).native.ordered
        inside = routed.members
        if self._filters_last:
            return [peer for peer in sample(state, candidates, self.parameters.degree_lazy) if peer not in inside]
        return sample(state, [peer for peer in candidates if peer not in inside], self.parameters.degree_lazy)

    def _top_up_publish(self, message: Message) -> None:
        shell = self.shell
        mesh = self.mesh.topics[message.topic]
        others = self.beside_mesh(message.topic)
        state = shell.randomness.draw(Purpose.PUBLISH_TOP_UP, shell.key, key_of(message.topic), key_of(message.id))
        extra = sample(state, others, self.parameters.degree - len(mesh))
        shell.outbox.forward(self.who_want(extra, message, Via.TOP_UP, None), message, Via.TOP_UP, None)

    def beside_mesh(self, topic: TopicId) -> list[PeerId]:
        """Who is not in the mesh of a joined topic and may get one's own messages, ascending."""
        mesh = self.mesh.topics[topic]
        return [peer for peer in self.shell.peers.in_topic(topic).native if peer not in mesh]

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

    def _forget_senders(self) -> None:
        """Of messages that the application was done with before a heartbeat."""
        pending = self.shell.pending
        self._senders = {each: senders for each, senders in self._senders.items() if each in pending}

    def _forget_old_requests(self, tick: int) -> None:
        self._asked_of.clear()
        self._asked_by.clear()
        while self._asked_at:
            oldest = next(iter(self._asked_at))
            if tick - self._asked_at[oldest] < self.parameters.ask_again_heartbeats:
                return
            del self._asked_at[oldest]

    def _without_last(
        self, sender: ConnectedPeer, kind: PartKind, ids: tuple[MessageId, ...], over: int
    ) -> tuple[MessageId, ...]:
        self.shell.drop(sender.id, kind, over, Reason.OVER_LIMIT)
        return ids[:-over]
