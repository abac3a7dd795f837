"""Gossipsub 1.0 to 1.3: a mesh for full messages, gossip to some other peers, scores, extensions.

After r1, the guide, the tech report's sections 3.2.3 to 3.4, and the specifications of v1.1 to v1.3. Rules:

* GOSSIP-1: Messages are forwarded to the mesh and to peers that only flood (floodsub); a publish to a topic that is
  not joined goes to the fan-out.
* GOSSIP-2: If the mesh has fewer than D peers, a publish goes to the mesh only (r1, go), or also to random other
  peers, up to D in total (rust, js).
* IDONTWANT-6: Peers of the mesh that speak 1.2 and did not send a message get an IDONTWANT as soon as it is received,
  before its validation. With `idontwant_on_publish` they also get one for each of the router's own messages.
* IDONTWANT-7: No copy goes to a peer that sent one during the validation of the message, also if the peer only floods
  (rust, nim).
* JUDGE-3: With `flood_publish` the router's own messages go to all peers of the topic whose score is high enough: so
  a message gets out although the mesh is full of bad peers (v1.1, "Flood publishing"). A topic that is not joined
  then has no fan-out, so no IHAVE follows for messages that all peers have (go, rust, js). With `flood_publish_mbit`
  not all peers get the message, and there is a fan-out (nim).
* JUDGE-4: Peers that only flood get messages if their score is high enough to get the router's own messages.
* JUDGE-5: Direct peers that are not connected are dialled every `direct_connect_ticks` heartbeats.
* JUDGE-6: A peer that joins a topic is grafted at once if the mesh has too few (rust, js).

The router *has* a mesh, a fan-out, gossip, a message cache, a standing of its peers, and extensions. Where the
sources differ, a parameter says which rule holds; `docs/routers/gossipsub*.md` list the sources.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import replace

from hearsay.core.language.actions import CopyWithheld, Dial, Reason, Via, Withdraw
from hearsay.core.language.identifiers import MessageId, Micros, PeerId, TopicId
from hearsay.core.language.rpc import IDontWant, IHave, IWant, Message, PartKind, Rpc, knows_idontwant
from hearsay.core.language.state import Peering, ScoreParts
from hearsay.core.mesh.fanout import Fanout
from hearsay.core.mesh.features import FeatureBook
from hearsay.core.mesh.gossip import Gossip
from hearsay.core.mesh.mesh import EXPIRE_EVERY
from hearsay.core.mesh.meshsub import MeshStrategy
from hearsay.core.mesh.message_memory import MessageCache, Unwanted
from hearsay.core.mesh.parameters import GossipsubParameters, SeenBy, ShortMesh
from hearsay.core.mesh.partials import Partials
from hearsay.core.rules.message_rules import is_worth_telling, served_in_a_heartbeat
from hearsay.core.shell.guarantees import MeshPromise, Promises
from hearsay.core.shell.peers import ConnectedPeer, PeerGroup
from hearsay.core.shell.randomness import Purpose, key_of, sample
from hearsay.core.shell.seen import SeenCache, WindowedSeen
from hearsay.core.shell.strategy import ControlGroup, Shell

_NO_PEERS: frozenset[PeerId] = frozenset()


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
        self.unwanted = Unwanted(
            parameters.idontwant_ttl_heartbeats,
            parameters.max_idontwants,
            parameters.max_ids_per_idontwant,
            parameters.max_idontwant_ids,
            parameters.max_unwanted,
        )
        self._uses_11 = parameters.uses_11
        self._uses_idontwant = parameters.idontwant_threshold_bytes > 0
        self._all_want = not (parameters.partial_messages or parameters.skip_senders or self._uses_idontwant)
        """True if `who_want` never leaves a peer out."""
        self._uses_fanout = not parameters.flood_publish or parameters.flood_publish_mbit > 0
        if parameters.mesh_before_gossip:
            self.control_order = (ControlGroup.MESH, ControlGroup.GOSSIP)
        if self._uses_idontwant or parameters.skip_senders or self._uses_11:
            self.copies = self
        self._senders: dict[MessageId, set[PeerId]] = {}
        """Peers that sent another copy of a message while it is validated; only with `skip_senders`."""

    def attach(self, shell: Shell) -> None:
        super().attach(shell)
        parameters = self.parameters
        self.feature_book = FeatureBook(parameters, shell, self.standing)
        self.partials = Partials(parameters, shell, self.feature_book, self._routed)
        self.fanout = Fanout(parameters, shell, self.standing)
        self.gossip = Gossip(
            parameters, shell, self.cache, self.unwanted, self.mesh, self.fanout, self.partials, self.standing
        )
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
            peers = self.who_want(route.ordered, message, Via.FANOUT, None)
            self.shell.outbox.forward(peers, message, Via.FANOUT, None)
        self.forward(message, None)
        if self.parameters.flood_publish:
            self._flood_publish(message)

    def forward(self, message: Message, received_from: PeerId | None) -> None:
        super().forward(message, received_from)
        if self.standing.direct:
            native = self.shell.peers.in_topic(message.topic).native.members
            direct = sorted(peer for peer in self.standing.direct if peer in native)
            peers = self.who_want(direct, message, Via.DIRECT, received_from)
            self.shell.outbox.forward(peers, message, Via.DIRECT, received_from)

    def flood(self, message: Message, received_from: PeerId | None) -> None:
        others = self.shell.peers.in_topic(message.topic).flood
        if others.members:
            senders = self._senders_of(message)
            peers = [peer for peer in self.standing.for_flooding(others.ordered) if peer not in senders]
            self.shell.outbox.forward(peers, message, Via.FLOOD, received_from)

    def who_want(
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
        """Return the peers that sent a copy during validation, after the first (IDONTWANT-7)."""
        return self._senders.get(message.id, _NO_PEERS)

    def _send_idontwant(self, message: Message, received_from: PeerId | None) -> None:
        """Send IDONTWANT to the mesh, without the peer that sent the message (IDONTWANT-6)."""
        mesh = self.mesh.topics.get(message.topic)
        if mesh is None or not is_worth_telling(len(message.data), self.parameters.idontwant_threshold_bytes):
            return
        shell = self.shell
        for peer in mesh.ordered:
            if peer == received_from or self.partials.spares(peer, message.topic):
                continue
            if knows_idontwant(shell.connected[peer].protocol):
                shell.outbox.unwanted(peer, message.id)

    def _top_up_publish(self, message: Message) -> None:
        """Send the router's own message to random peers outside a short mesh (GOSSIP-2)."""
        shell, topic = self.shell, message.topic
        mesh = self.mesh.topics[topic]
        state = shell.randomness.draw(Purpose.PUBLISH_TOP_UP, shell.key, key_of(topic), key_of(message.id))
        extra = sample(state, self._outside(mesh, topic), self.parameters.degree - len(mesh))
        shell.outbox.forward(self.who_want(extra, message, Via.TOP_UP, None), message, Via.TOP_UP, None)

    def _flood_publish(self, message: Message) -> None:
        """Send the router's own message to peers outside the mesh and the fan-out (JUDGE-3)."""
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
        """Return random peers of `others`, as many as the rate allows in addition to `served` peers (JUDGE-7)."""
        parameters = self.parameters
        places = served_in_a_heartbeat(
            len(message.data), parameters.flood_publish_mbit, parameters.heartbeat_interval_ms, parameters.degree_low
        )
        state = self.shell.draw(Purpose.PUBLISH_TOP_UP, message.topic, key_of(message.id))
        return sample(state, others, max(0, places - served))

    def _outside(self, routed: PeerGroup, topic: TopicId) -> list[PeerId]:
        """Return the peers of a topic outside `routed` that may get the router's own messages, ascending."""
        peers = self.standing.for_own_messages(self.shell.peers.in_topic(topic).native.ordered)
        return [peer for peer in peers if peer not in routed]

    def _routed(self, topic: TopicId) -> PeerGroup:
        """Return the mesh of a topic, or its fan-out if the topic is not joined."""
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
        due = self.standing.due
        self.shell.due = self.heartbeat.due if due is None else min(due, self.heartbeat.due)

    def _connect_direct(self, tick: int) -> None:
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
            self.upkeep.fill_up(topic, peer.id)

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

    def say_again(self, peers: list[PeerId]) -> None:
        super().say_again(peers)
        self.feature_book.say_again(peers)

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
        """Return the guarantees. With 1.1, dialled peers and peers with better scores may make a mesh exceed D_high,
        and low scores may make it smaller than D_low."""
        parameters = self.parameters
        promised = replace(
            super().promises(),
            gossip_heartbeats=parameters.history_gossip,
            kept_heartbeats=parameters.history_length,
            seen_heartbeats=parameters.history_length if parameters.seen_by is SeenBy.HISTORY else None,
        )
        if self.partial_messages is not None:
            promised = replace(promised, partial=self.partials.promise())
        if not self._uses_11 or promised.mesh is None:
            return promised
        beyond = parameters.degree_out
        if parameters.opportunistic_graft_ticks and parameters.score is not None:
            beyond += parameters.opportunistic_graft_peers
        lowest = promised.mesh.lowest if parameters.score is None and not self.standing.direct else 0
        mesh = MeshPromise(lowest=lowest, highest=promised.mesh.highest + beyond)
        backoff = promised.backoff
        if backoff is not None:
            kept = EXPIRE_EVERY + 1 if parameters.backoff_until_forgotten else 0
            backoff = replace(
                backoff,
                early_us=parameters.early_graft_ms * 1000,
                kept_us=kept * parameters.heartbeat_interval_ms * 1000,
            )
        return replace(promised, mesh=mesh, backoff=backoff, standing=self.standing.promise())
