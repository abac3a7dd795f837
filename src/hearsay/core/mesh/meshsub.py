"""Meshsub: messages flow along a mesh of bounded degree, without gossip (r1, "meshsub"; tech report 3.2.2).

* MESH-7: A message for a topic that is not joined goes to D random peers of the topic, drawn for each message; the
  specification (r1) and the guide leave this open.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from hearsay.core.language.actions import Via
from hearsay.core.language.identifiers import PeerId, TopicId
from hearsay.core.language.rpc import FLOODSUB, Message, Prune, Rpc, spoken
from hearsay.core.language.state import Peering
from hearsay.core.mesh.mesh import Mesh, MeshHeartbeat
from hearsay.core.mesh.mesh_requests import MeshRequests
from hearsay.core.mesh.mesh_upkeep import MeshUpkeep
from hearsay.core.mesh.parameters import GossipsubParameters, MeshParameters
from hearsay.core.mesh.standing import Standing
from hearsay.core.shell.guarantees import BackoffPromise, MeshPromise, Promises
from hearsay.core.shell.peers import ConnectedPeer
from hearsay.core.shell.randomness import Purpose, key_of, sample
from hearsay.core.shell.strategy import Shell, Strategy

_MESH = Via.MESH
"""A constant, since attributes of enumerations are slow to read and every message needs this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshsubParameters(MeshParameters):
    """Parameters of meshsub: those of the mesh."""


class MeshStrategy(Strategy):
    """The common part of meshsub and gossipsub: a mesh and its heartbeat."""

    parameters: GossipsubParameters  # pyright: ignore[reportIncompatibleVariableOverride]
    heartbeat: MeshHeartbeat
    mesh: Mesh
    standing: Standing

    def __init__(self, parameters: GossipsubParameters) -> None:
        super().__init__(parameters)
        self.native_protocols = spoken(
            backoff=parameters.prune_backoff_ms > 0,
            idontwant=parameters.idontwant_threshold_bytes > 0,
            extensions=parameters.speaks_13,
        )
        self.protocols = (*self.native_protocols, FLOODSUB)

    def attach(self, shell: Shell) -> None:
        super().attach(shell)
        self.standing = Standing(self.parameters, shell)
        self.mesh = Mesh(self.parameters, shell, self.standing)
        self.requests = MeshRequests(self.parameters, shell, self.mesh, self.standing)
        self.upkeep = MeshUpkeep(self.parameters, shell, self.mesh, self.standing)
        self.heartbeat = MeshHeartbeat(self.parameters, shell)  # pyright: ignore[reportIncompatibleVariableOverride]

    def reaches(self, topic: TopicId) -> bool:
        if topic not in self.mesh.topics:
            return super().reaches(topic)
        return len(self.mesh.topics[topic]) > 0 or len(self.shell.peers.in_topic(topic).flood) > 0

    def accepted(self, message: Message, received_from: PeerId) -> None:
        self.forward(message, received_from)

    def forward(self, message: Message, received_from: PeerId | None) -> None:
        """Send a message to the mesh, and to the peers that only flood."""
        mesh = self.mesh.topics.get(message.topic)
        if mesh is not None:
            peers = self.who_want(mesh.ordered, message, _MESH, received_from)
            self.shell.outbox.forward(peers, message, _MESH, received_from)
        self.flood(message, received_from)

    def who_want(
        self, peers: Sequence[PeerId], message: Message, via: Via, received_from: PeerId | None
    ) -> Sequence[PeerId]:
        """Return the peers that a message may go to; its sender and author may be among them."""
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
        """Do the mesh's part of a heartbeat."""
        self.requests.begin_heartbeat()
        self.upkeep.beat(tick)

    def send_failed(self, peer: PeerId, rpc: Rpc) -> None:
        self.mesh.send_failed(peer, rpc)

    def say_again(self, peers: list[PeerId]) -> None:
        self.mesh.say_again(peers)

    def peerings(self) -> Iterable[tuple[TopicId, PeerId, Peering]]:
        return self.mesh.peerings()

    def promises(self) -> Promises:
        parameters = self.parameters
        mesh = MeshPromise(lowest=parameters.degree_low, highest=max(parameters.prune_from - 1, parameters.degree))
        if not parameters.prune_backoff_ms:
            return Promises(mesh=mesh)
        backoff = BackoffPromise(
            unnamed_us=parameters.prune_backoff_ms * 1000,
            longest_us=parameters.max_backoff_ms * 1000,
            own_longest_us=max(parameters.prune_backoff_ms, parameters.unsubscribe_backoff_ms) * 1000,
            slack_us=parameters.backoff_slack_us,
            remembered=parameters.max_backoffs,
        )
        return Promises(mesh=mesh, backoff=backoff)


@lru_cache(maxsize=64)
def _without_gossip(parameters: MeshParameters) -> GossipsubParameters:
    """Return gossipsub's parameters with these values for the mesh and defaults for all others."""
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
