"""Meshsub: messages flow along a mesh of bounded degree, and nothing else (r1, "meshsub"; tech report 3.2.2).

* MESH-7: a message for a topic one has not joined goes to D random peers of the topic, drawn anew; the seeds leave
  that open.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hearsay.core.language.actions import Via
from hearsay.core.language.identifiers import PeerId, TopicId
from hearsay.core.language.rpc import FLOODSUB, MESHSUB, Message, Prune, Rpc, spoken
from hearsay.core.language.state import Peering
from hearsay.core.mesh.mesh import Heartbeat, Mesh
from hearsay.core.mesh.parameters import MeshParameters
from hearsay.core.shell.guarantees import BackoffPromise, MeshPromise, Promises
from hearsay.core.shell.peers import ConnectedPeer
from hearsay.core.shell.randomness import Purpose, key_of, sample
from hearsay.core.shell.strategy import Shell, Strategy

_MESH = Via.MESH
"""Enumerations are slow to look into, and this is wanted for every message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshsubParameters(MeshParameters):
    """The mesh's, and no more."""


class MeshStrategy(Strategy):
    """What meshsub and gossipsub share: a mesh, kept by a heartbeat."""

    protocols = (MESHSUB, FLOODSUB)
    native_protocols = (MESHSUB,)
    has_heartbeat = True
    has_mesh = True

    parameters: MeshParameters  # pyright: ignore[reportIncompatibleVariableOverride]
    mesh: Mesh
    heartbeat: Heartbeat

    def __init__(self, parameters: MeshParameters) -> None:
        super().__init__(parameters)
        self.native_protocols = spoken(
            backoff=parameters.prune_backoff_ms > 0,
            idontwant=self.tells_idontwant,
            extensions=self.speaks_13,
        )
        self.protocols = (*self.native_protocols, FLOODSUB)

    @property
    def tells_idontwant(self) -> bool:
        """Whether the router says and hears IDONTWANT (v1.2)."""
        return False

    @property
    def speaks_13(self) -> bool:
        return False

    def attach(self, shell: Shell) -> None:
        super().attach(shell)
        self.mesh = self.new_mesh(shell)
        self.heartbeat = Heartbeat(self.parameters, shell)

    def new_mesh(self, shell: Shell) -> Mesh:
        return Mesh(self.parameters, shell)

    def accepted(self, message: Message, received_from: PeerId) -> None:
        self.forward(message, received_from)

    def forward(self, message: Message, received_from: PeerId | None) -> None:
        """To the mesh, and to those that only flood."""
        mesh = self.mesh.topics.get(message.topic)
        if mesh is not None:
            peers = self.who_want(mesh.ordered, message, _MESH, received_from)
            self.shell.outbox.forward(peers, message, _MESH, received_from)
        self.flood(message, received_from)

    def who_want(
        self, peers: Sequence[PeerId], message: Message, via: Via, received_from: PeerId | None
    ) -> Sequence[PeerId]:
        """Those of `peers` to whom a message may be sent; who sent it or wrote it may be among them."""
        return peers

    def peer_removed(self, peer: ConnectedPeer) -> None:
        self.mesh.remove_peer(peer)

    def peer_unsubscribed(self, peer: ConnectedPeer, topic: TopicId) -> None:
        self.mesh.remove(peer.id, topic)

    def joined(self, topic: TopicId) -> None:
        self.mesh.join(topic, (), self.heartbeat.tick)

    def left(self, topic: TopicId) -> None:
        self.mesh.leave(topic)

    def on_graft(self, sender: ConnectedPeer, topic: TopicId) -> None:
        self.mesh.on_graft(sender, topic)

    def on_prune(self, sender: ConnectedPeer, prune: Prune) -> None:
        self.mesh.on_prune(sender, prune)

    def send_failed(self, peer: PeerId, rpc: Rpc) -> None:
        self.mesh.send_failed(peer, rpc)

    def say_again(self, peers: list[PeerId]) -> None:
        self.mesh.say_again(peers)

    def peerings(self) -> Iterable[tuple[TopicId, PeerId, Peering]]:
        return self.mesh.peerings()

    def heartbeats(self) -> int:
        return self.heartbeat.tick

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


class Meshsub(MeshStrategy):
    def __init__(self, parameters: MeshsubParameters | None = None) -> None:
        super().__init__(parameters or MeshsubParameters())

    def publish(self, message: Message) -> None:
        if message.topic not in self.mesh.topics:
            shell = self.shell
            topic_peers = shell.peers.in_topic(message.topic).native.ordered
            state = shell.draw(Purpose.FANOUT, message.topic, key_of(message.id))
            chosen = sample(state, topic_peers, self.parameters.degree)
            shell.outbox.forward(chosen, message, Via.FANOUT, None)
        self.forward(message, None)

    def timer_fired(self) -> None:
        tick = self.heartbeat.advance()
        self.mesh.upkeep(tick)
        self.shell.seen.shift()
