"""Meshsub: messages flow along a mesh of bounded degree, without gossip, and heartbeats do the upkeep of the mesh.

Meshsub follows r1, "meshsub", and the tech report, 3.2.2. `MeshStrategy` is the base of meshsub and gossipsub.
`rules/mesh_rules.py` and `rules/score_parts.py` have the decisions of the upkeep.

* MESH-2: Each heartbeat does the upkeep of the mesh of each topic. SIZE-1 and SIZE-2 state how many peers upkeep
  GRAFTs or PRUNEs. Upkeep chooses random peers or, with parameters of 1.1, peers by KEEP-1 to KEEP-5.
* MESH-7: If the router publishes a message in a topic that is not joined, the message goes to D random peers of the
  topic, which are drawn for each message. The specification (r1) and the guide leave this open.

Theory: without scores and lent places, upkeep of a topic GRAFTs or PRUNEs, but never does both, since D_low <= D <=
D_high. So it does not matter whether the members are counted once (simsub's actor), or before the GRAFTs and again
before the PRUNEs (r1).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import inf, nextafter

from hearsay.core.language.actions import Via
from hearsay.core.language.identifiers import PeerId, TopicId
from hearsay.core.language.rpc import FLOODSUB, Message, Prune, Rpc, gossipsub_protocols
from hearsay.core.mesh.mesh import EXPIRE_EVERY, Mesh, MeshHeartbeat
from hearsay.core.mesh.mesh_requests import MeshRequests
from hearsay.core.mesh.parameters import (
    GossipsubParameters,
    GraftChoice,
    Median,
    MeshParameters,
    OpportunityChoice,
    OutboundRepair,
)
from hearsay.core.mesh.standing import Standing
from hearsay.core.rules.mesh_rules import is_too_large, is_too_small, mesh_change
from hearsay.core.rules.randomness import Purpose, extend, key_of, sample, shuffled
from hearsay.core.rules.score_parts import (
    LOWER,
    MEAN,
    UPPER,
    dialled_to_graft,
    dialled_to_keep,
    median,
    mesh_is_poor,
    opportunity_is_due,
)
from hearsay.core.shell.guarantees import BackoffPromise, MeshPromise, Peering, Promises
from hearsay.core.shell.peers import ConnectedPeer, PeerGroup
from hearsay.core.shell.strategy import Shell, Strategy

_MEDIANS = {Median.UPPER: UPPER, Median.LOWER: LOWER, Median.MEAN: MEAN}
_MESH = Via.MESH
"""A constant, since attributes of enumerations are slow to read and every message needs this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshsubParameters(MeshParameters):
    """Parameters of meshsub: those of the mesh."""


class MeshStrategy(Strategy):
    """The base class of meshsub and gossipsub: a strategy with meshes and a heartbeat."""

    parameters: GossipsubParameters  # pyright: ignore[reportIncompatibleVariableOverride]
    heartbeat: MeshHeartbeat
    mesh: Mesh
    standing: Standing

    def __init__(self, parameters: GossipsubParameters) -> None:
        super().__init__(parameters)
        self.native_protocols = gossipsub_protocols(
            backoff=parameters.prune_backoff_ms > 0,
            idontwant=parameters.idontwant_threshold_bytes > 0,
            extensions=parameters.speaks_13,
        )
        self.protocols = (*self.native_protocols, FLOODSUB)

    def attach(self, shell: Shell) -> None:
        super().attach(shell)
        self.standing = Standing(self.parameters, shell)
        self.mesh = Mesh(self.parameters, shell, self.standing)
        self.requests = MeshRequests(self.mesh)
        self.upkeep = MeshUpkeep(self.mesh)
        self.heartbeat = MeshHeartbeat(self.parameters, shell)  # pyright: ignore[reportIncompatibleVariableOverride]

    def reaches(self, topic: TopicId) -> bool:
        if topic not in self.mesh.topics:
            return super().reaches(topic)
        return len(self.mesh.topics[topic]) > 0 or len(self.shell.peers.in_topic(topic).flood) > 0

    def forward(self, message: Message, received_from: PeerId | None) -> None:
        """Send a message to the mesh, and to the peers that only flood."""
        mesh = self.mesh.topics.get(message.topic)
        if mesh is not None:
            peers = self.peers_wanting(mesh.ordered, message, _MESH, received_from)
            self.shell.outbox.forward(peers, message, _MESH, received_from)
        self.flood(message, received_from)

    def peers_wanting(
        self, peers: Sequence[PeerId], message: Message, via: Via, received_from: PeerId | None
    ) -> Sequence[PeerId]:
        """Return those of the peers to which a message may go. The result may have the message's sender and
        author."""
        return peers

    def stream_opened(self, peer: PeerId) -> None:
        self.mesh.graft_again(peer)

    def peer_removed(self, peer: ConnectedPeer) -> None:
        self.mesh.remove_peer(peer)

    def peer_unsubscribed(self, peer: ConnectedPeer, topic: TopicId) -> None:
        self.mesh.peer_unsubscribed(peer.id, topic)

    def joined(self, topic: TopicId) -> None:
        self.mesh.join(topic, (), self.heartbeat.tick)

    def left(self, topic: TopicId) -> None:
        self.mesh.leave(topic)

    def on_graft(self, sender: ConnectedPeer, topic: TopicId) -> None:
        self.requests.on_graft(sender, topic)

    def on_prune(self, sender: ConnectedPeer, prune: Prune) -> None:
        self.requests.on_prune(sender, prune)

    def control_handled(self) -> None:
        self.requests.control_handled()

    def beat(self, tick: int) -> None:
        """Handle a heartbeat for the meshes: upkeep and unsent parts."""
        self.requests.begin_heartbeat()
        self.upkeep.beat(tick)

    def send_failed(self, peer: PeerId, rpc: Rpc) -> None:
        self.mesh.send_failed(peer, rpc)

    def repeat_unsent(self, peers: list[PeerId]) -> None:
        self.mesh.repeat_unsent(peers)

    def peerings(self) -> Iterable[tuple[TopicId, PeerId, Peering]]:
        return self.mesh.peerings()

    def promises(self) -> Promises:
        """Return the guarantees about mesh sizes and backoffs.

        With 1.1, a mesh may be larger than D_high because of dialled peers and peers with better scores. It may be
        smaller than D_low because of low scores and direct peers.
        """
        parameters = self.parameters
        highest = max(parameters.prune_from - 1, parameters.degree) + parameters.degree_out
        if parameters.opportunistic_graft_ticks and parameters.score is not None:
            highest += parameters.opportunistic_graft_peers
        any_peer = parameters.score is None and not self.standing.direct
        mesh = MeshPromise(lowest=parameters.degree_low if any_peer else 0, highest=highest)
        if not parameters.prune_backoff_ms:
            return Promises(mesh=mesh)
        kept_heartbeats = EXPIRE_EVERY + 1 if parameters.backoff_until_forgotten else 0
        backoff = BackoffPromise(
            unnamed_us=parameters.prune_backoff_ms * 1000,
            longest_us=parameters.max_backoff_ms * 1000,
            own_longest_us=max(parameters.prune_backoff_ms, parameters.unsubscribe_backoff_ms) * 1000,
            slack_us=parameters.backoff_slack_us,
            removal_delay_us=kept_heartbeats * parameters.heartbeat_interval_ms * 1000,
            remembered=parameters.max_backoffs,
            early_us=parameters.early_graft_ms * 1000,
        )
        return Promises(mesh=mesh, backoff=backoff)


@lru_cache(maxsize=64)
def _without_gossip(parameters: MeshParameters) -> GossipsubParameters:
    """Return parameters of gossipsub: these parameters of the mesh, and defaults for all others."""
    return GossipsubParameters(**{name: getattr(parameters, name) for name in MeshParameters.names()})


class Meshsub(MeshStrategy):
    def __init__(self, parameters: MeshParameters | None = None) -> None:
        super().__init__(_without_gossip(parameters or MeshsubParameters()))

    def publish(self, message: Message) -> None:
        if message.topic not in self.mesh.topics:
            shell = self.shell
            topic_peers = shell.peers.in_topic(message.topic).native.ordered
            state = shell.draw(Purpose.FANOUT, message.topic, key_of(message.id))
            chosen = sample(state, topic_peers, self.parameters.degree)
            shell.outbox.forward(chosen, message, Via.FANOUT, None)
        self.forward(message, None)

    def timer_fired(self) -> None:
        self.beat(self.heartbeat.advance())
        self.shell.seen.shift()


class MeshUpkeep:
    """GRAFTs and PRUNEs of the heartbeat. Without parameters of 1.1 the rules are those of 1.0."""

    def __init__(self, mesh: Mesh) -> None:
        self._mesh = mesh
        self._parameters, self._shell, self._standing = mesh.parameters, mesh.shell, mesh.standing
        self._uses_11 = mesh.parameters.uses_11

    def beat(self, tick: int) -> None:
        mesh = self._mesh
        mesh.repeat_unsent()
        if len(mesh.backoffs) and tick % EXPIRE_EVERY == 0:
            mesh.backoffs.expire(self._shell.now)
        for topic in sorted(mesh.topics):
            if not self._uses_11:
                self._tend(topic, mesh.topics[topic], tick)
            else:
                self._tend_by_scores(topic, mesh.topics[topic], tick)

    def graft_subscriber(self, topic: TopicId, peer: PeerId) -> None:
        """GRAFT a peer that subscribes to the topic now, if the mesh has fewer than D_low peers (JUDGE-6)."""
        mesh = self._mesh.topics.get(topic)
        if mesh is None or not is_too_small(len(mesh), self._parameters.degree_low):
            return
        if peer not in mesh and self._mesh.may_graft(topic, peer):
            self._mesh.add(topic, peer)

    def _tend(self, topic: TopicId, mesh: PeerGroup, tick: int) -> None:
        """GRAFT or PRUNE random peers as in SIZE-1 and SIZE-2."""
        parameters = self._parameters
        size = len(mesh)
        own = size - len(self._mesh.spread.lent(0, mesh))
        grafts, prunes = mesh_change(size, own, parameters.degree_low, parameters.degree, parameters.prune_from)
        if grafts:
            self._mesh.graft_random(topic, grafts, parameters.degree - size, Purpose.GRAFT, tick)
        if prunes:
            self._prune_random(topic, mesh, prunes, tick)

    def _prune_random(self, topic: TopicId, mesh: PeerGroup, count: int, tick: int) -> None:
        state = self._shell.draw(Purpose.PRUNE, topic, tick)
        lent = self._mesh.spread.lent(state, mesh)[:count]
        others = [peer for peer in mesh.ordered if peer not in lent] if lent else mesh.ordered
        for peer in (*lent, *sample(state, others, count - len(lent))):
            self._mesh.prune(topic, peer, self._mesh.peers_to_name(topic, peer, tick))

    def _tend_by_scores(self, topic: TopicId, mesh: PeerGroup, tick: int) -> None:
        """Do the upkeep of 1.1, which depends on scores and on the side that dialled (KEEP-1 to KEEP-5)."""
        parameters = self._parameters
        for peer in mesh.ordered:
            if not self._standing.is_welcome(peer):
                others = self._mesh.peers_to_name(topic, peer, tick) if parameters.exchange_always else ()
                self._mesh.prune(topic, peer, others)
        size = len(mesh)
        own = size - len(self._mesh.spread.lent(0, mesh))
        if is_too_small(own, parameters.degree_low):
            self._fill(topic, parameters.degree - own, parameters.degree - size, tick)
        elif is_too_large(size, parameters.prune_from) and size > parameters.degree:
            self._cut(topic, mesh, tick)
        self._graft_dialled(topic, mesh, tick)
        if opportunity_is_due(tick, parameters.opportunistic_graft_ticks, len(mesh)):
            self._graft_better(topic, mesh, tick)

    def _fill(self, topic: TopicId, own: int, total: int, tick: int) -> None:
        """GRAFT random peers as `Mesh.graft_random` does or, with `graft_choice` = `best`, the `total` peers with the
        best scores (nim)."""
        if self._parameters.graft_choice is GraftChoice.RANDOM:
            self._mesh.graft_random(topic, own, total, Purpose.GRAFT, tick)
            return
        state = self._shell.draw(Purpose.GRAFT, topic, tick)
        for peer in self._best_first(shuffled(state, self._mesh.candidates(topic)))[:total]:
            self._mesh.add(topic, peer)

    def _cut(self, topic: TopicId, mesh: PeerGroup, tick: int) -> None:
        """PRUNE members until D are left (KEEP-2, KEEP-3)."""
        parameters = self._parameters
        state = self._shell.draw(Purpose.KEPT, topic, tick)
        best = self._best_first(shuffled(state, mesh.ordered))[: parameters.degree_score]
        others = shuffled(extend(state, 1), [peer for peer in mesh.ordered if peer not in best])
        lent = self._mesh.spread.lent(state, mesh)
        order = sorted([*best, *others], key=lambda peer: peer in lent)
        kept, gone = order[: parameters.degree], order[parameters.degree :]
        dialled = self._dialled(gone)
        to_degree = parameters.outbound_repair is OutboundRepair.TO_DEGREE
        up_to = parameters.degree if to_degree else parameters.degree_out
        saved = dialled[: dialled_to_keep(len(self._dialled(kept)), len(dialled), parameters.degree_out, up_to)]
        for _ in saved:
            kept.remove(next(peer for peer in reversed(kept) if not self._shell.connected[peer].outbound))
        staying = {*kept, *saved}
        for peer in mesh.ordered:
            if peer not in staying:
                self._mesh.prune(topic, peer, self._mesh.peers_to_name(topic, peer, tick))

    def _graft_dialled(self, topic: TopicId, mesh: PeerGroup, tick: int) -> None:
        """GRAFT peers that this node dialled, until D_out of them are members (KEEP-4)."""
        parameters = self._parameters
        dialled = len(self._dialled(mesh.ordered))
        count = dialled_to_graft(len(mesh), dialled, parameters.degree_low, parameters.degree_out)
        if count:
            state = self._shell.draw(Purpose.OUTBOUND, topic, tick)
            for peer in sample(state, self._dialled(self._mesh.candidates(topic)), count):
                self._mesh.add(topic, peer)

    def _graft_better(self, topic: TopicId, mesh: PeerGroup, tick: int) -> None:
        """If the median score of the mesh is low, GRAFT a few peers with better scores (KEEP-5)."""
        parameters = self._parameters
        standing = self._standing
        scores = sorted(map(standing.score, mesh.ordered))
        size = len(scores)
        middle = median(scores[(size - 1) // 2], scores[size // 2], _MEDIANS[parameters.median])
        if not mesh_is_poor(middle, standing.thresholds.opportunistic_graft):
            return
        rule, count = parameters.opportunity_choice, parameters.opportunistic_graft_peers
        lowest = middle if rule is OpportunityChoice.FIRST_FROM else nextafter(middle, inf)
        better = [peer for peer in self._mesh.candidates(topic) if standing.score(peer) >= lowest]
        if rule is OpportunityChoice.DRAWN_ABOVE:
            better = sample(self._shell.draw(Purpose.OPPORTUNITY, topic, tick), better, count)
        for peer in better[:count]:
            self._mesh.add(topic, peer)

    def _dialled(self, peers: Sequence[PeerId]) -> list[PeerId]:
        connected = self._shell.connected
        return [peer for peer in peers if connected[peer].outbound]

    def _best_first(self, peers: list[PeerId]) -> list[PeerId]:
        return sorted(peers, key=self._standing.score, reverse=True)
