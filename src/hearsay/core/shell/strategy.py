"""The interface between the shared shell and a router's own part: `Shell`, `Strategy`, and optional capabilities.

A strategy decides which peers get messages, and maintains its own state. It reads peers, topics and the time from the
shell, puts the parts that it sends into the outbox, appends other actions to `actions`, and sets `due` when it needs
a timer. A router of another package is a subclass of `Strategy`, or of a strategy of this package; users name it by
its import path (`docs/guide/extending.md`). Each optional capability is an attribute of `Strategy`: an object, or
None if a router does not have the capability. The shell and drivers (node, simulator) use those that are not None.
Checkers and metrics read a router's state through `Inspection`.

* FLOOD-2: A peer that speaks none of the router's native protocols only floods. Every router sends such a peer every
  message of its topics (r1: "behaves like floodsub towards them").
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from enum import Enum
from typing import Protocol

from hearsay.core.language.actions import Action, Reason, Via
from hearsay.core.language.episub_parts import EpisubPart
from hearsay.core.language.events import ContactsFound, DialFailed, PartialsChosen, PublishPartial, RoundTripMeasured
from hearsay.core.language.identifiers import MessageId, Micros, PeerId, TopicId
from hearsay.core.language.rpc import (
    Control,
    Extension,
    Features,
    IDontWant,
    IHave,
    IWant,
    Message,
    Partial,
    PartialUse,
    PartKind,
    Prune,
    Rpc,
)
from hearsay.core.language.sizes import part_kind
from hearsay.core.rules.randomness import Purpose, Randomness
from hearsay.core.shell.guarantees import Inspection
from hearsay.core.shell.outbox import Outbox
from hearsay.core.shell.parameters import RouterParameters
from hearsay.core.shell.peers import ConnectedPeer, PeerBook
from hearsay.core.shell.seen import SeenCache, TimedSeen


class Shell(Protocol):
    """The part of the router that its strategy uses."""

    node: PeerId
    key: int
    """The number that stands for the node in draws (`randomness.key_of`)."""
    randomness: Randomness
    now: Micros
    peers: PeerBook
    connected: dict[PeerId, ConnectedPeer]
    joined: set[TopicId]
    pending: dict[MessageId, tuple[Message, PeerId]]
    """Each message that waits for the application's verdict, with the peer that sent it."""
    outbox: Outbox
    actions: list[Action]
    seen: SeenCache
    known: set[MessageId]
    """The ids in `seen`, only for lookups."""

    @property
    def due(self) -> Micros | None:
        """The time at which the timer fires next; None if no timer is set."""
        ...

    @due.setter
    def due(self, time: Micros | None) -> None: ...

    def allows(self, topic: TopicId) -> bool:
        """Return whether the router may join a topic and publish in it (`allowed_topics`)."""
        ...

    def draw(self, purpose: Purpose, topic: TopicId, *words: int) -> int:
        """Return the draw of this node for a purpose, a topic and these words."""
        ...

    def unknown(self, ids: Iterable[MessageId]) -> list[MessageId]:
        """Return those of `ids` that are not in the seen cache, in the given order."""
        ...

    def drop(self, peer: PeerId, kind: PartKind, count: int, reason: Reason, topic: TopicId | None = None) -> None:
        """Report that the router ignores `count` parts (or ids) of a received RPC, and why."""


class Dialling(Enum):
    """The part of a node that decides about dials and disconnections: the driver, or the router itself."""

    BY_DRIVER = "driver"
    BY_ROUTER = "router"


class ControlGroup(Enum):
    """A group of control parts that are handled together: GOSSIP for IHAVE and IWANT, MESH for GRAFT and PRUNE."""

    GOSSIP = "gossip"
    MESH = "mesh"


class ControlHandlers:
    """Handlers of received control parts. By default a handler ignores its part, and reports it as unsupported."""

    control_order: tuple[ControlGroup, ControlGroup] = (ControlGroup.GOSSIP, ControlGroup.MESH)
    """The order in which the two groups of one RPC are handled."""
    shell: Shell

    def on_ihave(self, sender: ConnectedPeer, ihave: IHave) -> None:
        self._unsupported(sender, PartKind.IHAVE)

    def on_iwant(self, sender: ConnectedPeer, iwant: IWant) -> None:
        self._unsupported(sender, PartKind.IWANT)

    def on_graft(self, sender: ConnectedPeer, topic: TopicId) -> None:
        self._unsupported(sender, PartKind.GRAFT)

    def on_prune(self, sender: ConnectedPeer, prune: Prune) -> None:
        self._unsupported(sender, PartKind.PRUNE)

    def on_idontwant(self, sender: ConnectedPeer, parts: tuple[IDontWant, ...]) -> None:
        """Handle all IDONTWANTs of one RPC. By default report the number of their ids as dropped (SHELL-7)."""
        self._unsupported(sender, PartKind.IDONTWANT, sum(len(part.ids) for part in parts))

    def on_extension(self, sender: ConnectedPeer, extension: Extension) -> None:
        self._unsupported(sender, PartKind.EXTENSION)

    def on_episub(self, sender: ConnectedPeer, part: EpisubPart) -> None:
        self._unsupported(sender, part_kind(part))

    def control_handled(self) -> None:
        """Handle the end of the control of one RPC. The shell calls this after the last control part, and only if
        `scoring` is set."""

    def _unsupported(self, sender: ConnectedPeer, kind: PartKind, count: int = 1) -> None:
        self.shell.drop(sender.id, kind, count, Reason.UNSUPPORTED)


class Strategy(ControlHandlers, Inspection):
    """The decisions of one router. The shell calls the methods during its own call `handle`.

    A method that handles an event does nothing by default, unless its docstring says otherwise.
    """

    protocols: tuple[str, ...]
    """The protocol ids that this router accepts, the preferred one first."""
    native_protocols: tuple[str, ...]
    """The protocol ids of native peers, which this strategy handles. All other peers only flood (FLOOD-2)."""
    dialling: Dialling = Dialling.BY_DRIVER

    heartbeat: Heartbeat | None = None
    """The heartbeat; None for a strategy without one. A router without a heartbeat sets a timer of its own to repeat
    subscriptions that could not be sent (SHELL-5)."""
    copies: CopyListener | None = None
    scoring: PeerScoring | None = None
    features: FeatureExchange | None = None
    """The extensions control; None if the router does not speak gossipsub 1.3."""
    partial_messages: PartialMessages | None = None
    """The use of partial messages; None if the router does not support them. With it, `features` is set too."""

    def __init__(self, parameters: RouterParameters) -> None:
        self.parameters = parameters

    def attach(self, shell: Shell) -> None:
        """Set `shell`. The constructor of the router calls this once."""
        self.shell = shell

    @property
    def keeps_scores(self) -> bool:
        return self.scoring is not None and self.scoring.keeps_scores

    def new_seen_cache(self) -> SeenCache:
        parameters = self.parameters
        return TimedSeen(parameters.seen_ttl_us, parameters.max_seen, parameters.max_seen_bytes)

    def accepted(self, message: Message, received_from: PeerId) -> None:
        """Handle an accepted message that came from a peer. By default forward it; a router with a cache also caches
        it."""
        self.forward(message, received_from)

    def publish(self, message: Message) -> None:
        """Handle a message that the application publishes. By default forward it; a router with a cache also caches
        it."""
        self.forward(message, None)

    def forward(self, message: Message, received_from: PeerId | None) -> None:
        """Send a message to the peers that get it at once. By default these are the peers that only flood.

        `received_from` is the peer that sent the message, None for the router's own message.
        """
        self.flood(message, received_from)

    def reaches(self, topic: TopicId) -> bool:
        """Return whether a message that is published in this topic now would go to at least one peer. By default
        return True if a peer subscribes to the topic."""
        return bool(self.shell.peers.in_topic(topic))

    def timer_fired(self) -> None:
        """Handle the timer, whose time `self.shell.due` has come. Set `self.shell.due` to the time of the next timer,
        or to None for no timer."""

    def peer_added(self, peer: ConnectedPeer) -> None:
        """Handle a new connection. `peer.topics` may have topics that are known without a SUBSCRIBE; the shell does
        not call `peer_subscribed` for these."""

    def stream_opened(self, peer: PeerId) -> None:
        """Handle a peer's new stream: the peer may have forgotten this router's state. The SUBSCRIBEs for the peer
        are in the outbox already."""

    def peer_removed(self, peer: ConnectedPeer) -> None:
        """Handle a disconnection. The peer is still in `shell.connected` and in the topics to which it subscribed."""

    def peer_subscribed(self, peer: ConnectedPeer, topic: TopicId) -> None:
        """Handle a peer's SUBSCRIBE to a topic to which it was not subscribed. The peer is in the topic already."""

    def peer_unsubscribed(self, peer: ConnectedPeer, topic: TopicId) -> None:
        """Handle an UNSUBSCRIBE. The peer is still in `shell.peers.in_topic(topic)`."""

    def joined(self, topic: TopicId) -> None:
        """Handle the application's join. The topic is in `shell.joined`, and the SUBSCRIBEs are in the outbox."""

    def left(self, topic: TopicId) -> None:
        """Handle the application's leave. The topic is no longer in `shell.joined`, and the UNSUBSCRIBEs are in the
        outbox."""

    def discovery(self, event: DialFailed | RoundTripMeasured | ContactsFound) -> None:
        """Handle the answer to a `Dial`, `Ping` or `FindContacts`."""

    def choose_direct(self, peer: PeerId, direct: bool) -> None:
        """Make a peer direct, or no longer direct. The shell calls this only if `scoring` is set."""

    def send_failed(self, peer: PeerId, rpc: Rpc) -> None:
        """Handle an RPC to a connected peer that could not be sent. The shell handles its subscriptions."""

    def repeat_unsent(self, peers: list[PeerId]) -> None:
        """Send again the parts that could not be sent to these peers. `peers`, which ascend, all get an RPC now."""

    def flood(self, message: Message, received_from: PeerId | None) -> None:
        """Send a message to the peers in its topic that only flood, except its sender and its author (FLOOD-2)."""
        others = self.shell.peers.in_topic(message.topic).flood
        if others.members:
            self.shell.outbox.forward(others.ordered, message, Via.FLOOD, received_from)


class Heartbeat(Protocol):
    """The regular timer of a strategy."""

    tick: int
    """The number of heartbeats since the router was constructed."""


class CopyListener(Protocol):
    """A listener to the copies of messages that the router receives. Most copies are duplicates."""

    def first_copy(self, message: Message, received_from: PeerId) -> None:
        """Handle the first copy of a message, before the router accepts the message or the application validates it.
        Not called for a message that the router rejects at once."""

    def duplicate(self, message: Message, received_from: PeerId) -> None:
        """Handle a later copy of a message. The application may still be validating the message."""


class PeerScoring(Protocol):
    """The treatment of peers by their conduct (gossipsub 1.1): scores, thresholds, direct peers."""

    @property
    def keeps_scores(self) -> bool:
        """False if the router has no score parameters. Then all scores are 0, and the application cannot change
        them."""
        ...

    @property
    def direct(self) -> Set[PeerId]:
        """The direct peers: those with an explicit peering agreement."""
        ...

    def admit(self, sender: ConnectedPeer, rpc: Rpc) -> Rpc:
        """Return an RPC without the parts that the router ignores because of the sender's score or the gater. Report
        these parts as dropped."""
        ...

    def admit_gossip(self, sender: ConnectedPeer, control: Control) -> Control:
        """Return control without the IHAVEs and IWANTs that the router ignores. Report these parts as dropped."""
        ...

    def reject(self, peer: PeerId, message: Message, reason: Reason) -> None:
        """Note that the router or its driver rejected a peer's message for this reason, which may lower the score."""

    def rate(self, peer: PeerId, rating: float) -> None:
        """Set the application's score of a peer (P5)."""

    def choose_topic_score(self, topic: TopicId, parameters: object) -> None:
        """Score a topic by these parameters, a `TopicScoreParameters`, from now on."""

    def feedback(self, peer: PeerId, topic: TopicId, useful: bool) -> None:
        """Change a peer's score for parts of a message that it sent: upwards if they were `useful`, else
        downwards."""

    def accepts_from(self, peer: PeerId) -> bool:
        """Return whether a peer is direct or not graylisted; if not, the router ignores its messages now. Drivers
        call this before expensive checks."""
        ...

    def trusts_exchange_of(self, peer: PeerId) -> bool:
        """Return whether the peer's score lets the router dial the peers that a PRUNE of this peer names."""
        ...


class FeatureExchange(Protocol):
    """The extensions control and the test extension of gossipsub 1.3."""

    def receive(self, sender: ConnectedPeer, announced: tuple[Features, ...]) -> None:
        """Handle the features in an RPC, before its other parts. `announced` is empty if the RPC has none."""

    def features_of(self, peer: PeerId) -> Features | None:
        """Return the features of a connected peer; None if the peer has sent no RPC on its present stream."""
        ...

    def restore(self, peer: PeerId, features: Features) -> None:
        """Set the features of a peer that has reconnected and that announced them on an earlier stream, which is
        still open."""

    def stream_opened(self, peer: PeerId) -> None:
        """Forget the features of a peer that replaced the stream on which it sends."""

    def test_received(self, peer: PeerId) -> None:
        """Handle a message of the test extension."""


class PartialMessages(Protocol):
    """Partial messages, the first extension of gossipsub 1.3."""

    def has(self, topic: TopicId) -> bool:
        """Return whether an application has chosen partial messages in a topic."""
        ...

    def announced_use(self, peer: ConnectedPeer, topic: TopicId) -> PartialUse:
        """Return the use of partial messages that this router announces in a SUBSCRIBE to the peer."""
        ...

    def receive_use(self, peer: PeerId, topic: TopicId, use: PartialUse) -> None:
        """Remember the use of partial messages that a peer announces in a SUBSCRIBE."""

    def receive(self, sender: ConnectedPeer, partial: Partial) -> None: ...

    def choose(self, chosen: PartialsChosen) -> None: ...

    def publish(self, published: PublishPartial) -> None: ...
