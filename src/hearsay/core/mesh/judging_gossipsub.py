"""Gossipsub 1.1: a router that judges its peers, and gives each what its score is enough for.

On top of gossipsub 1.0; what scores are and what they are enough for stands in `rules/scores/`. Rules:

* JUDGE-1: Of a graylisted peer nothing is looked at but its subscriptions (go, rust; js: not these either). Of one
  that the gater keeps out no message is (*reference only:* `score`).
* JUDGE-2: Below the gossip threshold a peer's IHAVE and IWANT are not looked at, and it gets no IHAVE (*reference
  only:* `score`).
* JUDGE-3: One's own messages go to all of the topic whose score is enough, with `flood_publish`: so a message gets
  out although the mesh is full of bad peers (v1.1, "Flood publishing"). No fan-out is made for a topic that is not
  joined, so no IHAVE follows for ids that everybody has (go, rust, js). With `flood_publish_mbit` not all get the
  message, and a fan-out is made (nim; *reference only:* `flood_publish`).
* JUDGE-4: Peers that only flood get messages if their score is enough for one's own (*reference only:* `score`).
* JUDGE-5: Direct peers that are not connected are dialled every so many heartbeats (*reference only:*
  `direct_connect_ticks`).
* JUDGE-6: Who joins a topic is grafted at once if the mesh has too few (rust, js; *reference only:*
  `graft_on_subscribe`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hearsay.core.language.actions import Dial, Reason, Via
from hearsay.core.language.events import PartialFeedback
from hearsay.core.language.identifiers import MessageId, PeerId, TopicId
from hearsay.core.language.rpc import Control, IHave, IWant, Message, PartKind, Rpc
from hearsay.core.language.state import ScoreParts
from hearsay.core.mesh.fanout import Fanout, JudgingFanout
from hearsay.core.mesh.gossipsub import Gossipsub
from hearsay.core.mesh.judging_mesh import JudgingMesh
from hearsay.core.mesh.mesh import Mesh
from hearsay.core.mesh.parameters import GossipsubParameters, GossipTargets
from hearsay.core.mesh.standing import Standing
from hearsay.core.rules.message_rules import gossip_targets, ids_over_limit, rpc_is_heard, served_in_a_heartbeat
from hearsay.core.scores.score_parameters import TopicScoreParameters
from hearsay.core.shell.control import drop_messages_and_control
from hearsay.core.shell.guarantees import MeshPromise, Promises
from hearsay.core.shell.peers import ConnectedPeer, PeerGroup
from hearsay.core.shell.randomness import Purpose, key_of, sample
from hearsay.core.shell.strategy import Shell

_NOTHING = Rpc()


def gossipsub(parameters: GossipsubParameters | None = None) -> Gossipsub:
    """The router for these parameters: one that judges only if there is something to judge by."""
    if parameters is not None and parameters.judges:
        return JudgingGossipsub(parameters)
    return Gossipsub(parameters)


class JudgingGossipsub(Gossipsub):
    judges = True
    mesh: JudgingMesh  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, parameters: GossipsubParameters) -> None:
        super().__init__(parameters)
        self.keeps_scores = parameters.score is not None
        self.wants_duplicates = True
        self.wants_first_copies = True
        self.mesh_before_gossip = parameters.mesh_before_gossip
        self._heard: dict[PeerId, int] = {}
        """How many RPCs with IHAVE came since the last heartbeat; outlasts a disconnection, as the next do."""
        self._heard_iwants: dict[PeerId, int] = {}
        self._ids_heard = 0
        """How many ids the IHAVEs of this RPC had so far; with `ihave_ids_of_rpc`."""
        self._asked_now: dict[PeerId, list[MessageId]] = {}
        """What goes into the IWANTs of this call."""

    def attach(self, shell: Shell) -> None:
        self.standing = Standing(self.parameters, shell)
        super().attach(shell)
        self._set_due()

    def new_mesh(self, shell: Shell) -> Mesh:
        return JudgingMesh(self.parameters, shell, self.standing)

    def new_fanout(self, shell: Shell) -> Fanout:
        return JudgingFanout(self.parameters, shell, self.standing)

    def admitted(self, sender: ConnectedPeer, rpc: Rpc) -> Rpc:
        standing = self.standing
        if standing.is_graylisted(sender.id):
            return self._without_all(sender, rpc)
        if rpc.messages and not standing.lets_in(sender.id):
            self.shell.drop(sender.id, PartKind.PUBLISH, len(rpc.messages), Reason.GATED)
            rpc = replace(rpc, messages=())
        return rpc

    def _without_all(self, sender: ConnectedPeer, rpc: Rpc) -> Rpc:
        """The RPC of a graylisted peer (JUDGE-1)."""
        drop_messages_and_control(self.shell, sender.id, rpc, Reason.GRAYLISTED)
        if not rpc.subscriptions:
            return _NOTHING
        if self.parameters.graylisted_subscriptions:
            return Rpc(rpc.subscriptions)
        self.shell.drop(sender.id, PartKind.SUBSCRIBE, len(rpc.subscriptions), Reason.GRAYLISTED)
        return _NOTHING

    def gossip_heard(self, sender: ConnectedPeer, control: Control) -> Control:
        """JUDGE-2, GOSSIP-14."""
        peer = sender.id
        if peer in self.standing.direct:
            return control
        if not self.standing.may_gossip(peer):
            for kind, parts in ((PartKind.IHAVE, control.ihave), (PartKind.IWANT, control.iwant)):
                if parts:
                    self.shell.drop(peer, kind, sum(len(part.ids) for part in parts), Reason.LOW_SCORE)
            return replace(control, ihave=(), iwant=())
        parameters = self.parameters
        if not parameters.ihave_parts_count and not self._ihave_is_heard(peer, control.ihave):
            control = replace(control, ihave=())
        if not self._is_heard(peer, PartKind.IWANT, control.iwant, self._heard_iwants, parameters.max_iwant_messages):
            control = replace(control, iwant=())
        return control

    def on_ihave(self, sender: ConnectedPeer, ihave: IHave) -> None:
        if ihave.topic in self.shell.joined:
            if self.parameters.ihave_parts_count and not self._ihave_is_heard(sender.id, (ihave,)):
                return
            if self.parameters.ihave_ids_of_rpc:
                over = ids_over_limit(len(ihave.ids), self.parameters.max_ids_per_ihave - self._ids_heard)
                if over:
                    ihave = replace(ihave, ids=self._without_last(sender, PartKind.IHAVE, ihave.ids, over))
                self._ids_heard += len(ihave.ids)
        super().on_ihave(sender, ihave)

    def _ihave_is_heard(self, peer: PeerId, parts: Sequence[IHave]) -> bool:
        return self._is_heard(peer, PartKind.IHAVE, parts, self._heard, self.parameters.max_ihave_messages)

    def _is_heard(
        self, peer: PeerId, kind: PartKind, parts: Sequence[IHave | IWant], counts: dict[PeerId, int], most: int
    ) -> bool:
        """Whether these parts of one RPC are looked at; `counts` has the RPCs before it."""
        if not parts:
            return True
        before = counts.get(peer, 0)
        if rpc_is_heard(before, most):
            counts[peer] = before + 1
            return True
        self.shell.drop(peer, kind, sum(len(part.ids) for part in parts), Reason.OVER_LIMIT)
        return False

    def first_copy(self, message: Message, received_from: PeerId) -> None:
        if self.tells_idontwant:
            super().first_copy(message, received_from)
        self.standing.validate(received_from, message)

    def duplicate(self, message: Message, received_from: PeerId) -> None:
        if message.source == self.shell.node:
            self.standing.reject(received_from, message, Reason.SELF_ORIGIN)
        else:
            first = self.shell.pending.get(message.id)
            self.standing.duplicate(received_from, message, None if first is None else first[0])
        if self.parameters.skip_senders:
            super().duplicate(message, received_from)

    def accepted(self, message: Message, received_from: PeerId) -> None:
        self.standing.deliver(received_from, message)
        super().accepted(message, received_from)

    def rejected(self, message: Message, received_from: PeerId, reason: Reason) -> None:
        self.standing.reject(received_from, message, reason)

    def publish(self, message: Message) -> None:
        self.standing.deliver(None, message)
        super().publish(message)
        if self.parameters.flood_publish:
            self._flood_publish(message)

    @property
    def uses_fanout(self) -> bool:
        return not self.parameters.flood_publish or self.parameters.flood_publish_mbit > 0

    def _flood_publish(self, message: Message) -> None:
        """JUDGE-3: to those who have not got it by way of the mesh or the fan-out."""
        topic = message.topic
        if topic in self.mesh.topics:
            routed, others = self.mesh.topics[topic], self.beside_mesh(topic)
        elif not self.uses_fanout:
            routed, others = PeerGroup(), self._may_get(topic)
        else:
            routed = self.fanout.peers(topic)
            others = [peer for peer in self._may_get(topic) if peer not in routed]
        if self.parameters.flood_publish_mbit:
            others = self._served_at_once(others, message, len(routed))
        others = self.partials.without(others, topic)
        self.shell.outbox.forward(others, message, Via.FLOOD_PUBLISH, None)

    def _served_at_once(self, others: list[PeerId], message: Message, served: int) -> list[PeerId]:
        """JUDGE-7: so many are served already."""
        parameters = self.parameters
        places = served_in_a_heartbeat(
            len(message.data), parameters.flood_publish_mbit, parameters.heartbeat_interval_ms, parameters.degree_low
        )
        state = self.shell.draw(Purpose.PUBLISH_TOP_UP, message.topic, key_of(message.id))
        return sample(state, others, max(0, places - served))

    def beside_mesh(self, topic: TopicId) -> list[PeerId]:
        mesh = self.mesh.topics[topic]
        return [peer for peer in self._may_get(topic) if peer not in mesh]

    def _may_get(self, topic: TopicId) -> list[PeerId]:
        """Who may get one's own messages, but direct peers, who do anyway; ascending."""
        standing = self.standing
        peers = self.shell.peers.in_topic(topic).native.ordered
        return [peer for peer in peers if peer not in standing.direct and standing.gets_published(peer)]

    def control_heard(self) -> None:
        self.mesh.rpc_is_over()
        self._ids_heard = 0
        if self._asked_now:
            for peer, ids in self._asked_now.items():
                self.standing.ask(peer, ids)
            self._asked_now = {}

    def forward(self, message: Message, received_from: PeerId | None) -> None:
        super().forward(message, received_from)
        if self.standing.direct:
            native = self.shell.peers.in_topic(message.topic).native.members
            direct = sorted(peer for peer in self.standing.direct if peer in native)
            peers = self.who_want(direct, message, Via.DIRECT, received_from)
            self.shell.outbox.forward(peers, message, Via.DIRECT, received_from)

    def flooded(self, others: PeerGroup) -> Sequence[PeerId]:
        return [peer for peer in others.ordered if self.standing.gets_published(peer)]

    def timer_fired(self) -> None:
        self.standing.refresh()
        if self.shell.now >= self.heartbeat.due:
            self.standing.begin_heartbeat()
            self._heard.clear()
            self._heard_iwants.clear()
            self._connect_direct(self.heartbeat.tick + 1)
            super().timer_fired()
            self.standing.end_heartbeat()
        self._set_due()

    def _set_due(self) -> None:
        due = self.standing.due
        self.shell.due = self.heartbeat.due if due is None else min(due, self.heartbeat.due)

    def _connect_direct(self, tick: int) -> None:
        every = self.parameters.direct_connect_ticks
        if every and tick % every == 1 % every:
            for peer in sorted(self.standing.direct):
                if peer not in self.shell.connected:
                    self.shell.actions.append(Dial(peer))

    def gossip_targets(self, topic: TopicId, routed: PeerGroup, tick: int) -> list[PeerId]:
        standing = self.standing
        parameters = self.parameters
        filter_later = parameters.gossip_targets is GossipTargets.SELECT_THEN_FILTER
        eligible = [
            peer
            for peer in self.shell.peers.in_topic(topic).native.ordered
            if (filter_later or peer not in routed) and peer not in standing.direct and standing.may_gossip(peer)
        ]
        count = gossip_targets(parameters.degree_lazy, len(eligible), parameters.gossip_factor)
        chosen = sample(self.shell.draw(Purpose.GOSSIP, topic, tick), eligible, count)
        return [peer for peer in chosen if peer not in routed]

    def some_of(self, peer: PeerId, news: list[MessageId], count: int) -> list[MessageId]:
        """A sample, so that a peer cannot choose which ids are asked for (all implementations)."""
        return sample(self.shell.draw(Purpose.ASKED, "", key_of(peer), self.shell.now), news, count)

    def asked(self, peer: PeerId, ids: list[MessageId]) -> None:
        self._asked_now.setdefault(peer, []).extend(ids)

    def joined(self, topic: TopicId) -> None:
        self.standing.join(topic)
        super().joined(topic)

    def peer_added(self, peer: ConnectedPeer) -> None:
        self.standing.connect(peer)
        super().peer_added(peer)

    def peer_removed(self, peer: ConnectedPeer) -> None:
        self.standing.disconnect(peer.id)
        super().peer_removed(peer)

    def peer_subscribed(self, peer: ConnectedPeer, topic: TopicId) -> None:
        super().peer_subscribed(peer, topic)
        if self.parameters.graft_on_subscribe and peer.native:
            self.mesh.fill_up(topic, peer.id)

    def peer_unsubscribed(self, peer: ConnectedPeer, topic: TopicId) -> None:
        self.mesh.peer_unsubscribed(peer.id, topic)
        super().peer_unsubscribed(peer, topic)

    def send_failed(self, peer: PeerId, rpc: Rpc) -> None:
        super().send_failed(peer, rpc)
        if rpc.messages:
            self.standing.penalise_slow(peer, len(rpc.messages))

    def penalise(self, peer: PeerId, points: float) -> None:
        self.standing.penalise(peer, points)

    def partial_feedback(self, feedback: PartialFeedback) -> None:
        self.standing.feedback(feedback.peer, feedback.topic, feedback.useful)

    def rated(self, peer: PeerId, rating: float) -> None:
        self.standing.rate(peer, rating)

    def score_topic(self, topic: TopicId, parameters: object) -> None:
        assert isinstance(parameters, TopicScoreParameters)
        self.standing.choose_topic_score(topic, parameters)

    def hears(self, peer: PeerId) -> bool:
        return not self.standing.is_graylisted(peer)

    def believes(self, peer: PeerId) -> bool:
        return self.standing.is_believed(peer)

    def choose_direct(self, peer: PeerId, direct: bool) -> None:
        if not direct:
            self.standing.direct.discard(peer)
            return
        self.standing.direct.add(peer)
        self.mesh.prune_everywhere(peer)
        for topic, _ in self.fanout.topics():
            self.fanout.remove(peer, topic)

    def promises(self) -> Promises:
        """A mesh with D_high may still graft dialled peers and better ones; how small it may be depends on scores."""
        parameters = self.parameters
        promised = super().promises()
        assert promised.mesh is not None
        beyond = parameters.degree_out
        if parameters.opportunistic_graft_ticks and parameters.score is not None:
            beyond += parameters.opportunistic_graft_peers
        lowest = promised.mesh.lowest if parameters.score is None and not self.standing.direct else 0
        mesh = MeshPromise(lowest=lowest, highest=promised.mesh.highest + beyond)
        backoff = promised.backoff
        if backoff is not None:
            backoff = replace(backoff, early_us=parameters.early_graft_ms * 1000)
        return replace(promised, mesh=mesh, backoff=backoff, standing=self.standing.promise(parameters))

    def direct_peers(self) -> set[PeerId]:
        return self.standing.direct

    def scores(self) -> list[tuple[PeerId, ScoreParts]]:
        return list(self.standing.parts())
