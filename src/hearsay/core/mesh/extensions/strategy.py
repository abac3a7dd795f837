"""A mesh whose peers tell each other what they can do beyond their version: what gossipsub adds with 1.3."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace

from hearsay.core.language.actions import ExtensionTestReceived
from hearsay.core.language.events import PartialsChosen, PublishPartial
from hearsay.core.language.identifiers import PeerId, TopicId
from hearsay.core.language.rpc import Features, Partial, PartialUse, Rpc
from hearsay.core.mesh.extensions.features import LATE_PENALTY, FeatureBook
from hearsay.core.mesh.extensions.partials import Partials
from hearsay.core.mesh.meshsub import MeshStrategy
from hearsay.core.mesh.parameters import ExtensionParameters, LateExtensions, SupportersTold
from hearsay.core.shell.guarantees import PartialPromise, Promises
from hearsay.core.shell.peers import ConnectedPeer, PeerGroup
from hearsay.core.shell.strategy import Shell


class ExtendedMesh(MeshStrategy):
    parameters: ExtensionParameters  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, parameters: ExtensionParameters) -> None:
        super().__init__(parameters)
        self.has_features = parameters.speaks_13
        self.has_partials = parameters.partial_messages

    def attach(self, shell: Shell) -> None:
        super().attach(shell)
        self.features = FeatureBook(Features(self.parameters.partial_messages, self.parameters.test_extension), shell)
        self.partials = Partials(self.parameters, shell, self.features, self.routed)

    @property
    def speaks_13(self) -> bool:
        return self.parameters.speaks_13

    @abstractmethod
    def routed(self, topic: TopicId) -> PeerGroup:
        """To whom what is published now goes."""

    def penalise(self, peer: PeerId, points: float) -> None:
        """A peer misbehaves; for routers that keep scores."""

    def hear_features(self, sender: ConnectedPeer, said: tuple[Features, ...]) -> None:
        if self.features.hear(sender, said) and self.parameters.late_extensions is LateExtensions.PENALISE:
            self.penalise(sender.id, LATE_PENALTY)

    def features_of(self, peer: PeerId) -> Features | None:
        return self.features.said_by(peer)

    def restore_features(self, peer: ConnectedPeer, features: Features) -> None:
        self.features.restore(peer.id, features)

    def stream_opened(self, peer: PeerId) -> None:
        self.features.stream_opened(peer)

    def has_partials_in(self, topic: TopicId) -> bool:
        return self.partials.has(topic)

    def partial_use(self, peer: ConnectedPeer, topic: TopicId) -> PartialUse:
        return self.partials.said_to(peer, topic)

    def hear_partial_use(self, sender: ConnectedPeer, topic: TopicId, use: PartialUse) -> None:
        self.partials.hear_use(sender.id, topic, use)

    def on_partial(self, sender: ConnectedPeer, partial: Partial) -> None:
        self.partials.hear(sender, partial)

    def on_test_message(self, sender: ConnectedPeer) -> None:
        if self.features.tests(sender.id):
            self.shell.actions.append(ExtensionTestReceived(sender.id))
        else:
            super().on_test_message(sender)

    def choose_partials(self, chosen: PartialsChosen) -> None:
        self.partials.choose(chosen)

    def publish_partial(self, published: PublishPartial) -> None:
        self.partials.publish(published)

    def peer_added(self, peer: ConnectedPeer) -> None:
        self.features.greet(peer)

    def peer_removed(self, peer: ConnectedPeer) -> None:
        super().peer_removed(peer)
        self.features.remove_peer(peer.id)
        self.partials.remove_peer(peer.id)

    def peer_unsubscribed(self, peer: ConnectedPeer, topic: TopicId) -> None:
        super().peer_unsubscribed(peer, topic)
        self.partials.forget_use(peer.id, topic)

    def left(self, topic: TopicId) -> None:
        super().left(topic)
        self.partials.groups.leave(topic)

    def send_failed(self, peer: PeerId, rpc: Rpc) -> None:
        super().send_failed(peer, rpc)
        self.features.did_not_leave(peer, rpc)
        if rpc.partial is not None:
            self.partials.groups.did_not_leave(rpc.partial.topic, rpc.partial.group, peer)

    def say_again(self, peers: list[PeerId]) -> None:
        super().say_again(peers)
        self.features.say_again(peers)

    def promises(self) -> Promises:
        if not self.has_partials:
            return super().promises()
        groups = self.partials.groups
        partial = PartialPromise(
            opened=groups.opened,
            opened_by=groups.opened_by,
            most=self.parameters.max_peer_groups,
            most_of_one=self.parameters.max_groups_per_peer,
            tells_supporters=self.parameters.supporters_told is SupportersTold.BY_ALL,
        )
        return replace(super().promises(), partial=partial)

    def remembers(self, peer: PeerId) -> bool:
        return self.features.remembers(peer) or self.partials.remembers(peer)
