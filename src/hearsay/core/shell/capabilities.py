"""Optional capabilities of a strategy. The shell and drivers use those that are set."""

from __future__ import annotations

from collections.abc import Set
from typing import Protocol

from hearsay.core.language.actions import Reason
from hearsay.core.language.events import PartialsChosen, PublishPartial
from hearsay.core.language.identifiers import PeerId, TopicId
from hearsay.core.language.rpc import Control, Features, Message, Partial, PartialUse, Rpc
from hearsay.core.shell.peers import ConnectedPeer


class Heartbeat(Protocol):
    """The regular timer of a strategy."""

    tick: int
    """Number of heartbeats so far."""


class CopyListener(Protocol):
    """Listener to first copies, before their verdict, and to duplicates, which are most of the received messages."""

    def first_copy(self, message: Message, received_from: PeerId) -> None:
        """Handle the first copy of a message, before anything else is done with it."""
        ...

    def duplicate(self, message: Message, received_from: PeerId) -> None:
        """Handle a copy of a message that was received before."""
        ...


class PeerScoring(Protocol):
    """Treatment of peers by their conduct (gossipsub 1.1): scores, thresholds, direct peers."""

    @property
    def keeps_scores(self) -> bool:
        """False without score parameters; all scores are 0 then, and the application cannot change them."""
        ...

    @property
    def direct(self) -> Set[PeerId]:
        """Peers with an explicit peering agreement."""
        ...

    def admit(self, sender: ConnectedPeer, rpc: Rpc) -> Rpc:
        """Return the parts of an RPC that are handled, and report the other parts as dropped."""
        ...

    def admit_gossip(self, sender: ConnectedPeer, control: Control) -> Control:
        """Return the control without the IHAVE and IWANT that are not handled, and report these as dropped."""
        ...

    def reject(self, peer: PeerId, message: Message, reason: Reason) -> None:
        """Count a message of a peer that is not used."""
        ...

    def rate(self, peer: PeerId, rating: float) -> None:
        """Use the application's score of a peer from now on."""
        ...

    def choose_topic_score(self, topic: TopicId, parameters: object) -> None:
        """Score a topic by these parameters from now on."""
        ...

    def feedback(self, peer: PeerId, topic: TopicId, useful: bool) -> None:
        """Count parts that a peer sent as useful or invalid."""
        ...

    def accepts_from(self, peer: PeerId) -> bool:
        """Return whether messages of a peer are handled now; drivers ask before expensive checks."""
        ...

    def trusts_exchange_of(self, peer: PeerId) -> bool:
        """Return whether peers that a PRUNE of this peer names are dialled."""
        ...


class FeatureExchange(Protocol):
    """The extensions control and the test extension of gossipsub 1.3."""

    def receive(self, sender: ConnectedPeer, said: tuple[Features, ...]) -> None:
        """Handle the features in an RPC, before its other parts."""
        ...

    def features_of(self, peer: PeerId) -> Features | None:
        """Return the features of a connected peer; None if no RPC has come on its stream yet."""
        ...

    def restore(self, peer: PeerId, features: Features) -> None:
        """Set the features of a reconnected peer, which it announced on a stream that stayed open."""
        ...

    def stream_opened(self, peer: PeerId) -> None:
        """Forget the features of a peer that replaced its stream."""
        ...

    def test_received(self, peer: PeerId) -> None:
        """Handle a test message."""
        ...


class PartialMessages(Protocol):
    """Partial messages, the first extension of gossipsub 1.3."""

    def has(self, topic: TopicId) -> bool:
        """Return whether an application has chosen partial messages in a topic."""
        ...

    def said_to(self, peer: ConnectedPeer, topic: TopicId) -> PartialUse:
        """Return the use of partial messages that a SUBSCRIBE to a peer announces."""
        ...

    def receive_use(self, peer: PeerId, topic: TopicId, use: PartialUse) -> None:
        """Remember the use of partial messages that a SUBSCRIBE of a peer announces."""
        ...

    def receive(self, sender: ConnectedPeer, partial: Partial) -> None: ...

    def choose(self, chosen: PartialsChosen) -> None: ...

    def publish(self, published: PublishPartial) -> None: ...
