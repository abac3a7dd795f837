"""The interface between the shared shell and a router's own part: `Shell`, `ControlHandlers` and `Strategy`.

A strategy decides which peers get messages, and does its own upkeep. It reads peers, topics and the time from the
shell, sends by putting parts into the outbox, reports by appending actions, and sets `due` when it wants a timer. A
router written outside the package is a subclass of `Strategy` (or of a router of this package) and is named by its
import path; see `docs/guide/extending.md`. Each optional capability is an object (`capabilities.py`), or None if a
router does not have it. Checkers and metrics read a router's state through `Inspection`.

* FLOOD-2: Peers that only flood, since they speak none of the router's own protocols, get every message of their
  topics, whatever the router (r1: "behaves like floodsub towards them").
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from enum import Enum
from typing import Protocol

from hearsay.core.language.actions import Action, Reason, Via
from hearsay.core.language.episub_parts import EpisubPart
from hearsay.core.language.events import ContactsFound, DialFailed, RoundTripMeasured
from hearsay.core.language.identifiers import MessageId, Micros, PeerId, TopicId
from hearsay.core.language.rpc import Extension, IDontWant, IHave, IWant, Message, PartKind, Prune, Rpc
from hearsay.core.language.sizes import part_kind
from hearsay.core.shell.capabilities import CopyListener, FeatureExchange, Heartbeat, PartialMessages, PeerScoring
from hearsay.core.shell.guarantees import Inspection
from hearsay.core.shell.outbox import Outbox
from hearsay.core.shell.parameters import RouterParameters
from hearsay.core.shell.peers import ConnectedPeer, PeerBook
from hearsay.core.shell.randomness import Purpose, Randomness
from hearsay.core.shell.seen import SeenCache, TimedSeen


class Shell(Protocol):
    """The part of the router that its strategy sees."""

    node: PeerId
    key: int
    """Key of the node in draws."""
    randomness: Randomness
    now: Micros
    peers: PeerBook
    connected: dict[PeerId, ConnectedPeer]
    joined: set[TopicId]
    pending: dict[MessageId, tuple[Message, PeerId]]
    """Messages that wait for the application's verdict, with their senders."""
    outbox: Outbox
    actions: list[Action]
    seen: SeenCache
    known: set[MessageId]

    @property
    def due(self) -> Micros | None:
        """Time of the next timer."""
        ...

    @due.setter
    def due(self, time: Micros | None) -> None: ...

    def allows(self, topic: TopicId) -> bool:
        """Return whether a topic may be joined and published in."""
        ...

    def draw(self, purpose: Purpose, topic: TopicId, *words: int) -> int:
        """Return this node's draw for a topic."""
        ...

    def unknown(self, ids: Iterable[MessageId]) -> list[MessageId]:
        """Return the ids that the seen cache does not know."""
        ...

    def drop(self, peer: PeerId, kind: PartKind, count: int, reason: Reason, topic: TopicId | None = None) -> None:
        """Report parts of a received RPC that are not acted on."""
        ...


class Dialling(Enum):
    """The side that dials and disconnects: the driver, or the router itself."""

    BY_DRIVER = "driver"
    BY_ROUTER = "router"


class ControlGroup(Enum):
    """IHAVE and IWANT, or GRAFT and PRUNE: the control parts of an RPC that are handled together."""

    GOSSIP = "gossip"
    MESH = "mesh"


class ControlHandlers:
    """Handlers of received control parts. The defaults drop the parts as unsupported."""

    control_order: tuple[ControlGroup, ControlGroup] = (ControlGroup.GOSSIP, ControlGroup.MESH)
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
        """Handle all IDONTWANTs of one RPC."""
        self._unsupported(sender, PartKind.IDONTWANT, sum(len(part.ids) for part in parts))

    def on_extension(self, sender: ConnectedPeer, extension: Extension) -> None:
        self._unsupported(sender, PartKind.EXTENSION)

    def on_episub(self, sender: ConnectedPeer, part: EpisubPart) -> None:
        self._unsupported(sender, part_kind(part))

    def control_handled(self) -> None:
        """Finish an RPC whose control parts have all been handled; for strategies with a `scoring`."""

    def _unsupported(self, sender: ConnectedPeer, kind: PartKind, count: int = 1) -> None:
        self.shell.drop(sender.id, kind, count, Reason.UNSUPPORTED)


class Strategy(ControlHandlers, Inspection, ABC):
    """The decisions of one router. Its methods are called during a `handle` call of the shell."""

    protocols: tuple[str, ...]
    """Protocol ids of this router, preferred first."""
    native_protocols: tuple[str, ...]
    """Protocol ids of peers that the strategy itself sends to; all other peers are served by flooding."""
    dialling: Dialling = Dialling.BY_DRIVER

    heartbeat: Heartbeat | None = None
    """Set if the strategy has a heartbeat. Subscriptions that were not sent are then repeated at each heartbeat."""
    copies: CopyListener | None = None
    scoring: PeerScoring | None = None
    features: FeatureExchange | None = None
    """Set if the router speaks 1.3."""
    partial_messages: PartialMessages | None = None
    """Set if the router supports partial messages; then `features` is set too."""

    def __init__(self, parameters: RouterParameters) -> None:
        self.parameters = parameters

    def attach(self, shell: Shell) -> None:
        """Set `shell`; called once, when the router is made."""
        self.shell = shell

    @property
    def keeps_scores(self) -> bool:
        return self.scoring is not None and self.scoring.keeps_scores

    def new_seen_cache(self) -> SeenCache:
        parameters = self.parameters
        return TimedSeen(parameters.seen_ttl_us, parameters.max_seen, parameters.max_seen_bytes)

    @abstractmethod
    def accepted(self, message: Message, received_from: PeerId) -> None:
        """Cache and forward an accepted message of a peer."""

    @abstractmethod
    def publish(self, message: Message) -> None:
        """Cache and send a message that the application publishes."""

    def reaches(self, topic: TopicId) -> bool:
        """Return whether a message that is published now would go to a peer."""
        return bool(self.shell.peers.in_topic(topic))

    def timer_fired(self) -> None:
        """Handle the timer of `self.shell.due`, and set `self.shell.due` to the next time, or None for no timer."""

    def peer_added(self, peer: ConnectedPeer) -> None:
        """Handle a new connection."""

    def stream_opened(self, peer: PeerId) -> None:
        """Handle a peer's new stream: the peer may have forgotten this router. The SUBSCRIBEs are in the outbox."""

    def peer_removed(self, peer: ConnectedPeer) -> None:
        """Handle a disconnection; the peer's subscriptions still exist."""

    def peer_subscribed(self, peer: ConnectedPeer, topic: TopicId) -> None:
        """Handle a SUBSCRIBE."""

    def peer_unsubscribed(self, peer: ConnectedPeer, topic: TopicId) -> None:
        """Handle an UNSUBSCRIBE; the peer is still in the topic's view."""

    def joined(self, topic: TopicId) -> None:
        """Handle the application's join; the SUBSCRIBE is in the outbox."""

    def left(self, topic: TopicId) -> None:
        """Handle the application's leave; the UNSUBSCRIBE is in the outbox."""

    def discovery(self, event: DialFailed | RoundTripMeasured | ContactsFound) -> None:
        """Handle the answer to a `Dial`, `Ping` or `FindContacts`."""

    def choose_direct(self, peer: PeerId, direct: bool) -> None:
        """Make a peer direct, or no longer direct; for strategies with a `scoring`."""

    def send_failed(self, peer: PeerId, rpc: Rpc) -> None:
        """Handle an RPC that was not sent."""

    def say_again(self, peers: list[PeerId]) -> None:
        """Add parts that could not be sent before to the RPCs that these peers, ascending, get now."""

    def flood(self, message: Message, received_from: PeerId | None) -> None:
        """Send a message to the peers that only flood (FLOOD-2)."""
        others = self.shell.peers.in_topic(message.topic).flood
        if others.members:
            self.shell.outbox.forward(others.ordered, message, Via.FLOOD, received_from)
