"""Gossipsub 1.0 to 1.3: a mesh for full messages, gossip to some peers outside of it, scores, extensions.

After r1, the guide, the tech report's sections 3.2.3 to 3.4, and the specifications of v1.1 to v1.3. Rules:

* GOSSIP-1: Messages are forwarded to the mesh, to direct peers, and to peers that only flood (floodsub). If the
  router publishes a message in a topic that is not joined, the message goes to the fan-out in place of a mesh.
* GOSSIP-2: If the mesh has fewer than D peers, a published message goes only to the mesh (r1, go), or also to random
  peers outside of the mesh, up to D in total (rust, js).
* IDONTWANT-6: When the router receives a large message (`idontwant_threshold_bytes`), it sends IDONTWANT to the mesh
  peers that speak 1.2, except the peer that sent the message. The router does so before the message is validated.
  With `idontwant_on_publish` it also sends IDONTWANT for its own messages.
* IDONTWANT-7: With `skip_senders`, a peer that sent a copy of a message during its validation gets no copy, even if
  the peer only floods (rust, nim).
* JUDGE-3: With `flood_publish` the router's own messages go to all peers of the topic whose score is not below
  `publish`. So a message reaches good peers even if the mesh is full of bad peers (v1.1, "Flood publishing"). A topic
  that is not joined then has no fan-out, so no IHAVE follows for messages that all peers have (go, rust, js). With
  `flood_publish_mbit` not all peers get the message, and there is a fan-out (nim).
* JUDGE-4: Peers that only flood get messages if they are direct peers, or if their score is not below `publish`.
* JUDGE-5: Direct peers that are not connected are dialled every `direct_connect_ticks` heartbeats.
* JUDGE-6: With `graft_on_subscribe` a peer that subscribes to a topic is grafted at once, if the mesh has fewer than
  D_low peers and the peer may be grafted (rust, js).

The router consists of a mesh, a fan-out, gossip, a message cache, a standing of its peers, and extensions. Where the
sources differ, a parameter chooses the rule; `docs/routers/gossipsub*.md` list the sources.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import replace

from hearsay.core.language.actions import CopyWithheld, Dial, Reason, Via, Withdraw
from hearsay.core.language.identifiers import MessageId, Micros, PeerId, TopicId
from hearsay.core.language.rpc import IDontWant, IHave, IWant, Message, PartKind, Rpc, knows_idontwant
from hearsay.core.mesh.features import FeatureBook
from hearsay.core.mesh.gossip import Fanout, Gossip
from hearsay.core.mesh.meshsub import MeshStrategy
from hearsay.core.mesh.message_memory import MessageCache, Unwanted
from hearsay.core.mesh.parameters import GossipsubParameters, SeenBy, ShortMesh
from hearsay.core.mesh.partials import Partials
from hearsay.core.rules.message_rules import needs_idontwant, served_in_a_heartbeat
from hearsay.core.rules.randomness import Purpose, key_of, sample
from hearsay.core.shell.guarantees import Peering, Promises, ScoreParts
from hearsay.core.shell.peers import ConnectedPeer, PeerGroup
from hearsay.core.shell.seen import SeenCache, WindowedSeen
from hearsay.core.shell.strategy import ControlGroup, Shell

_NO_SENDERS: frozenset[PeerId] = frozenset()


class Gossipsub(MeshStrategy):
    parameters: GossipsubParameters  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, parameters: GossipsubParameters | None = None) -> None:
        parameters = parameters or GossipsubParameters()
        super().__init__(parameters)
        self.cache = MessageCache(parameters)
        self.unwanted = Unwanted(parameters)
        self._uses_11 = parameters.uses_11
        self._uses_idontwant = parameters.idontwant_threshold_bytes > 0
        self._all_want = not (parameters.partial_messages or parameters.skip_senders or self._uses_idontwant)
        """True if `peers_wanting` always returns all peers."""
        self._uses_fanout = not parameters.flood_publish or parameters.flood_publish_mbit > 0
        if parameters.mesh_before_gossip:
            self.control_order = (ControlGroup.MESH, ControlGroup.GOSSIP)
        if self._uses_idontwant or parameters.skip_senders or self._uses_11:
            self.copies = self
        self._senders: dict[MessageId, set[PeerId]] = {}
        """By message, the peers that sent a later copy during its validation; only with `skip_senders`."""

    def attach(self, shell: Shell) -> None:
        super().attach(shell)
        parameters = self.parameters
        self.feature_book = FeatureBook(parameters, shell, self.standing)
        self.partials = Partials(parameters, shell, self.feature_book, self._routed)
        self.fanout = Fanout(parameters, shell, self.standing)
        self.gossip = Gossip(self.mesh, self.fanout, self.cache, self.unwanted, self.partials)
        self.scoring = self.standing if self._uses_11 else None
        self.features = self.feature_book if parameters.speaks_13 else None
        self.partial_messages = self.partials if parameters.partial_messages else None
        self._set_due()

    def new_seen_cache(self) -> SeenCache:
        parameters = self.parameters
        if parameters.seen_by is SeenBy.HISTORY:
            return WindowedSeen(parameters.history_length - 1, parameters.max_seen, parameters.max_seen_bytes)
        return super().new_seen_cache()

    # Messages.

    def first_copy(self, message: Message, received_from: PeerId) -> None:
        if self._uses_idontwant:
            self._send_idontwant(message, received_from)
        if self._uses_11:
            self.standing.validate(received_from, message)

    def duplicate(self, message: Message, received_from: PeerId) -> None:
        if self._uses_11:
            self.standing.duplicate(received_from, message)
        if self.parameters.skip_senders and message.id in self.shell.pending:
            self._senders.setdefault(message.id, set()).add(received_from)

    def accepted(self, message: Message, received_from: PeerId) -> None:
        if self._uses_11:
            self.standing.deliver(received_from, message)
        self.cache.put(message)
        self.forward(message, received_from)
        self._senders.pop(message.id, None)

    def publish(self, message: Message) -> None:
        if self._uses_11:
            self.standing.deliver(None, message)
        self.cache.put(message)
        if self.parameters.idontwant_on_publish:
            self._send_idontwant(message, None)
        topic = message.topic
        if topic in self.mesh.topics:
            if self.parameters.short_mesh is ShortMesh.TOP_UP:
                self._top_up_publish(message)
        elif self._uses_fanout:
            route = self.fanout.publish(topic, self.heartbeat.tick)
            peers = self.peers_wanting(route.ordered, message, Via.FANOUT, None)
            self.shell.outbox.forward(peers, message, Via.FANOUT, None)
        self.forward(message, None)
        if self.parameters.flood_publish:
            self._flood_publish(message)

    def reaches(self, topic: TopicId) -> bool:
        direct = self.standing.direct
        return super().reaches(topic) or not direct.isdisjoint(self.shell.peers.in_topic(topic).native.members)

    def forward(self, message: Message, received_from: PeerId | None) -> None:
        super().forward(message, received_from)
        if self.standing.direct:
            native = self.shell.peers.in_topic(message.topic).native.members
            direct = sorted(peer for peer in self.standing.direct if peer in native)
            peers = self.peers_wanting(direct, message, Via.DIRECT, received_from)
            self.shell.outbox.forward(peers, message, Via.DIRECT, received_from)

    def flood(self, message: Message, received_from: PeerId | None) -> None:
        others = self.shell.peers.in_topic(message.topic).flood
        if others.members:
            senders = self._senders_of(message)
            fitting = self.standing.among(others.ordered, self.standing.gets_published)
            peers = [peer for peer in fitting if peer not in senders]
            self.shell.outbox.forward(peers, message, Via.FLOOD, received_from)

    def peers_wanting(
        self, peers: Sequence[PeerId], message: Message, via: Via, received_from: PeerId | None
    ) -> Sequence[PeerId]:
        if self._all_want:
            return peers
        peers = self.partials.without(peers, message.topic)
        senders = self._senders_of(message)
        if senders:
            peers = [peer for peer in peers if peer not in senders]
        if not len(self.unwanted):
            return peers
        wanting: list[PeerId] = []
        for peer in peers:
            if not self.unwanted.holds(peer, message.id):
                wanting.append(peer)
            elif peer not in (received_from, message.source):
                self.shell.actions.append(CopyWithheld(peer, message, via))
        return wanting

    def _senders_of(self, message: Message) -> Set[PeerId]:
        """Return the peers that sent later copies of a message during its validation (IDONTWANT-7)."""
        return self._senders.get(message.id, _NO_SENDERS)

    def _send_idontwant(self, message: Message, received_from: PeerId | None) -> None:
        """Send IDONTWANT for a message to the mesh, if the message is large (IDONTWANT-6); but not to the peer that
        sent it, nor to peers that exchange its parts (PARTIAL-4)."""
        mesh = self.mesh.topics.get(message.topic)
        if mesh is None or not needs_idontwant(len(message.data), self.parameters.idontwant_threshold_bytes):
            return
        shell = self.shell
        for peer in mesh.ordered:
            if peer == received_from or self.partials.spares(peer, message.topic):
                continue
            if knows_idontwant(shell.connected[peer].protocol):
                shell.outbox.unwanted(peer, message.id)

    def _top_up_publish(self, message: Message) -> None:
        """Send the router's own message to random peers outside of the mesh, if the mesh has fewer than D peers
        (GOSSIP-2)."""
        shell, topic = self.shell, message.topic
        mesh = self.mesh.topics[topic]
        state = shell.randomness.draw(Purpose.PUBLISH_TOP_UP, shell.key, key_of(topic), key_of(message.id))
        extra = sample(state, self._outside(mesh, topic), self.parameters.degree - len(mesh))
        shell.outbox.forward(self.peers_wanting(extra, message, Via.TOP_UP, None), message, Via.TOP_UP, None)

    def _flood_publish(self, message: Message) -> None:
        """Send the router's own message to peers of the topic that are in neither mesh nor fan-out (JUDGE-3)."""
        topic = message.topic
        routed = PeerGroup()
        if topic in self.mesh.topics:
            routed = self.mesh.topics[topic]
        elif self._uses_fanout:
            routed = self.fanout.peers(topic)
        others: Sequence[PeerId] = self._outside(routed, topic)
        if self.parameters.flood_publish_mbit:
            others = self._served_at_once(others, message, len(routed))
        others = self.partials.without(others, topic)
        self.shell.outbox.forward(others, message, Via.FLOOD_PUBLISH, None)

    def _served_at_once(self, others: Sequence[PeerId], message: Message, served: int) -> list[PeerId]:
        """Return random peers of `others`. Their number is the number of peers that the uplink serves in a heartbeat
        interval, less `served` (JUDGE-7)."""
        parameters = self.parameters
        places = served_in_a_heartbeat(
            len(message.data), parameters.flood_publish_mbit, parameters.heartbeat_interval_ms, parameters.degree_low
        )
        state = self.shell.draw(Purpose.PUBLISH_TOP_UP, message.topic, key_of(message.id))
        return sample(state, others, max(0, places - served))

    def _outside(self, routed: PeerGroup, topic: TopicId) -> list[PeerId]:
        """Return the peers of a topic, except direct peers, that are not in `routed` and may get the router's own
        messages; ascending."""
        native = self.shell.peers.in_topic(topic).native.ordered
        peers = self.standing.among(native, self.standing.may_get_own_messages)
        return [peer for peer in peers if peer not in routed]

    def _routed(self, topic: TopicId) -> PeerGroup:
        """Return the mesh of a topic. If the topic is not joined, return its fan-out, as for a publication now
        (FANOUT-1)."""
        if topic in self.mesh.topics:
            return self.mesh.topics[topic]
        return self.fanout.publish(topic, self.heartbeat.tick)

    # Control.

    def on_ihave(self, sender: ConnectedPeer, ihave: IHave) -> None:
        self.gossip.on_ihave(sender, ihave)

    def on_iwant(self, sender: ConnectedPeer, iwant: IWant) -> None:
        self.gossip.on_iwant(sender, iwant)

    def on_idontwant(self, sender: ConnectedPeer, parts: tuple[IDontWant, ...]) -> None:
        if not self._uses_idontwant:
            super().on_idontwant(sender, parts)
            return
        if not self.parameters.heeds_idontwant:
            return
        ids, over = self.unwanted.receive(sender.id, parts)
        if self.parameters.withdraw_unwanted:
            self.shell.actions += [Withdraw(sender.id, message_id) for message_id in ids]
        if over:
            self.shell.drop(sender.id, PartKind.IDONTWANT, over, Reason.OVER_LIMIT)

    def control_handled(self) -> None:
        super().control_handled()
        self.gossip.control_handled()

    # Time.

    def timer_fired(self) -> None:
        if not self._uses_11:
            self._beat(self.heartbeat.advance())
            return
        standing = self.standing
        standing.refresh()
        if self.shell.now >= self.heartbeat.due:
            standing.begin_heartbeat()
            self._connect_direct(self.heartbeat.tick + 1)
            self._beat(self.heartbeat.advance())
            standing.end_heartbeat()
        self._set_due()

    def _beat(self, tick: int) -> None:
        if self._uses_idontwant:
            self.unwanted.beat(tick)
        self.beat(tick)
        self.fanout.upkeep(tick)
        self.gossip.emit(tick)
        if self.partial_messages is not None:
            self.partials.beat()
        self.gossip.forget_requests(tick)
        if self._senders:
            pending = self.shell.pending
            self._senders = {each: senders for each, senders in self._senders.items() if each in pending}
        self.cache.shift()
        self.shell.seen.shift()

    def _set_due(self) -> None:
        self.shell.due = min(self.standing.due, self.heartbeat.due)

    def _connect_direct(self, tick: int) -> None:
        """Dial direct peers that are not connected, in the heartbeats of JUDGE-5. `tick` is the number of the present
        heartbeat."""
        every = self.parameters.direct_connect_ticks
        if every and tick % every == 1 % every:
            for peer in sorted(self.standing.direct):
                if peer not in self.shell.connected:
                    self.shell.actions.append(Dial(peer))

    # Topics and peers.

    def joined(self, topic: TopicId) -> None:
        self.standing.join(topic)
        self.mesh.join(topic, self.fanout.take(topic), self.heartbeat.tick)

    def left(self, topic: TopicId) -> None:
        super().left(topic)
        self.partials.groups.leave(topic)
        self.gossip.left(topic)

    def peer_added(self, peer: ConnectedPeer) -> None:
        self.standing.connect(peer)
        self.feature_book.greet(peer)

    def peer_removed(self, peer: ConnectedPeer) -> None:
        self.standing.disconnect(peer.id)
        super().peer_removed(peer)
        self.feature_book.remove_peer(peer.id)
        self.partials.remove_peer(peer.id)
        self.fanout.remove_peer(peer)
        self.unwanted.remove_peer(peer.id)
        self.gossip.peer_removed(peer.id)

    def peer_subscribed(self, peer: ConnectedPeer, topic: TopicId) -> None:
        if self.parameters.graft_on_subscribe and peer.native:
            self.upkeep.graft_subscriber(topic, peer.id)

    def peer_unsubscribed(self, peer: ConnectedPeer, topic: TopicId) -> None:
        super().peer_unsubscribed(peer, topic)
        self.partials.forget_use(peer.id, topic)
        self.fanout.remove(peer.id, topic)
        self.gossip.peer_unsubscribed(peer.id, topic)

    def choose_direct(self, peer: PeerId, direct: bool) -> None:
        if not direct:
            self.standing.direct.discard(peer)
            return
        self.standing.direct.add(peer)
        self.mesh.prune_everywhere(peer)
        for topic, _ in self.fanout.topics():
            self.fanout.remove(peer, topic)

    def send_failed(self, peer: PeerId, rpc: Rpc) -> None:
        super().send_failed(peer, rpc)
        self.feature_book.not_sent(peer, rpc)
        if rpc.partial is not None:
            self.partials.groups.not_sent(rpc.partial.topic, rpc.partial.group, peer)
        if rpc.messages:
            self.standing.penalise_slow(peer, len(rpc.messages))

    def repeat_unsent(self, peers: list[PeerId]) -> None:
        super().repeat_unsent(peers)
        self.feature_book.repeat_unsent(peers)

    # Inspection.

    def peerings(self) -> Iterable[tuple[TopicId, PeerId, Peering]]:
        yield from self.mesh.peerings()
        yield from self.fanout.peerings()

    def fanout_topics(self) -> Iterable[tuple[TopicId, Micros]]:
        return self.fanout.topics()

    def holds(self, message_id: MessageId) -> bool:
        return message_id in self.cache

    def held_messages(self) -> Iterable[Message]:
        return self.cache.messages()

    def scores(self) -> Iterable[tuple[PeerId, ScoreParts]]:
        return self.standing.scores()

    def remembers(self, peer: PeerId) -> bool:
        parts = (self.gossip, self.unwanted, self.feature_book, self.partials)
        return any(part.remembers(peer) for part in parts)

    def promises(self) -> Promises:
        parameters = self.parameters
        return replace(
            super().promises(),
            standing=self.standing.promise() if self._uses_11 else None,
            partial=self.partials.promise() if self.partial_messages is not None else None,
            gossip_heartbeats=parameters.history_gossip,
            kept_heartbeats=parameters.history_length,
            seen_heartbeats=parameters.history_length if parameters.seen_by is SeenBy.HISTORY else None,
        )
