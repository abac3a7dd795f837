"""The interface between the shared shell and a router's own part: `Strategy` and `Shell`.

A strategy decides to whom messages go, and does its own upkeep. It reads peers, topics and the time from the shell,
sends by putting parts into the outbox, reports by appending actions, and sets `due` when it wants a timer. A router
written outside the package subclasses `Strategy` (or a router of this package) and plugs in by import path; see
`docs/guide/extending.md`.

* FLOOD-2: peers that only flood get every message of their topics, whatever the router (r1: "behaves like floodsub
  towards them")."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

from hearsay.core.language.actions import Action, Reason, Via
from hearsay.core.language.episub_parts import EpisubPart
from hearsay.core.language.events import (
    ContactsFound,
    DialFailed,
    PartialFeedback,
    PartialsChosen,
    PublishPartial,
    RoundTripMeasured,
)
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
from hearsay.core.language.sizes import part_kind, partial_kind
from hearsay.core.language.state import OverlayState, Peering, ScoreParts
from hearsay.core.shell.guarantees import Promises
from hearsay.core.shell.outbox import Outbox
from hearsay.core.shell.parameters import RouterParameters
from hearsay.core.shell.peers import ConnectedPeer, PeerBook
from hearsay.core.shell.randomness import Purpose, Randomness
from hearsay.core.shell.seen import SeenCache, TimedSeen


class Shell(Protocol):
    node: PeerId
    key: int
    """The node's, for draws."""
    randomness: Randomness
    now: Micros
    peers: PeerBook
    connected: dict[PeerId, ConnectedPeer]
    joined: set[TopicId]
    pending: dict[MessageId, tuple[Message, PeerId]]
    """Messages that the application is asked about, with their senders."""
    outbox: Outbox
    actions: list[Action]
    seen: SeenCache
    known: set[MessageId]

    @property
    def due(self) -> Micros | None:
        """When the next timer is wanted."""
        ...

    @due.setter
    def due(self, time: Micros | None) -> None: ...

    def allows(self, topic: TopicId) -> bool:
        """Whether a topic may be joined and published in."""
        ...

    def draw(self, purpose: Purpose, topic: TopicId, *words: int) -> int:
        """This node's draw for a topic."""
        ...

    def unknown(self, ids: Iterable[MessageId]) -> list[MessageId]:
        """Those of `ids` that the seen cache does not know."""
        ...

    def drop(self, peer: PeerId, kind: PartKind, count: int, reason: Reason, topic: TopicId | None = None) -> None:
        """Report parts of a received RPC that are not acted on."""
        ...


class Strategy(ABC):
    """The part of a router that differs from the others. Hooks run inside one `handle` call of the shell."""

    protocols: tuple[str, ...]
    """Protocol ids this router speaks, preferred first."""
    native_protocols: tuple[str, ...]
    """Those whose peers take part in this router's own scheme; the others are served by flooding."""

    chooses_connections: bool = False
    """Whether the router dials and hangs up by itself; then its driver makes no connections on its behalf."""

    has_heartbeat: bool = False
    """Whether `timer_fired` is called again and again, however quiet it is; what did not leave is said again then."""

    has_mesh: bool = False
    """Whether messages of a joined topic go to its full-message peers (`peerings`), not to whoever is in it."""

    wants_duplicates: bool = False
    """Whether `duplicate` is called. Most of what routers receive is duplicates, and most have nothing to do then."""

    wants_first_copies: bool = False
    """Whether `first_copy` is called."""

    judges: bool = False
    """Whether peers are judged by what they do: `admitted` and `rejected` are called; there may be direct peers."""

    mesh_before_gossip: bool = False
    """Whether GRAFT and PRUNE of an RPC are handled before its IHAVE and IWANT."""

    withdraws: bool = False
    """Whether copies that wait are withdrawn (`Withdraw`); drivers that can do so keep them where they find them."""

    keeps_scores: bool = False
    """Whether there are scores that the application may add to; then `judges`, too."""

    has_features: bool = False
    """Whether the router speaks 1.3: `hear_features` is called for every RPC."""

    has_partials: bool = False
    """Whether the router knows partial messages; then `has_features`, too."""

    shell: Shell

    def __init__(self, parameters: RouterParameters) -> None:
        self.parameters = parameters

    def attach(self, shell: Shell) -> None:
        """Called once, when the router is made."""
        self.shell = shell

    def new_seen_cache(self) -> SeenCache:
        parameters = self.parameters
        return TimedSeen(parameters.seen_ttl_us, parameters.max_seen, parameters.max_seen_bytes)

    def first_copy(self, message: Message, received_from: PeerId) -> None:
        """A message is here for the first time; nobody has looked at it yet. For strategies that are
        `wants_first_copies`."""

    @abstractmethod
    def accepted(self, message: Message, received_from: PeerId) -> None:
        """A peer's message was accepted: cache it, forward it."""

    def duplicate(self, message: Message, received_from: PeerId) -> None:
        """A peer sent a message that was here before; for strategies that are `wants_duplicates`."""

    def admitted(self, sender: ConnectedPeer, rpc: Rpc) -> Rpc:
        """What is looked at of an RPC; what is not is dropped here. For strategies that `judges`."""
        return rpc

    def gossip_heard(self, sender: ConnectedPeer, control: Control) -> Control:
        """Return control with the IHAVE and IWANT that are acted on; the others are dropped here. It is called after
        the messages of the RPC, for strategies that `judges`."""
        del sender
        return control

    def hear_features(self, sender: ConnectedPeer, said: tuple[Features, ...]) -> None:
        """What an RPC says of what its sender can do, before anything else of it is handled; for strategies that are
        `has_features`."""

    def features_of(self, peer: PeerId) -> Features | None:
        """What a connected peer said it can do; None when its stream has brought no RPC yet."""
        return None

    def restore_features(self, peer: ConnectedPeer, features: Features) -> None:
        """A peer that connected again said this on a stream that stayed open."""

    def stream_opened(self, peer: PeerId) -> None:
        """A peer replaced the stream on which it sends: state that belongs to a stream begins anew."""

    def control_heard(self) -> None:
        """All control of an RPC was handled; for strategies that `judges`."""

    def rejected(self, message: Message, received_from: PeerId, reason: Reason) -> None:
        """A peer's message is not used; for strategies that `judges`."""

    def rated(self, peer: PeerId, rating: float) -> None:
        """The application's opinion of a peer; for strategies that `judges`."""

    def score_topic(self, topic: TopicId, parameters: object) -> None:
        """From now on a topic is scored by these parameters; for strategies that are `keeps_scores`."""

    def has_partials_in(self, topic: TopicId) -> bool:
        """Whether an application has chosen partial messages in a topic."""
        return False

    def partial_use(self, peer: ConnectedPeer, topic: TopicId) -> PartialUse:
        """What a SUBSCRIBE says to a peer of what this side does with partial messages."""
        return PartialUse.NONE

    def hear_partial_use(self, sender: ConnectedPeer, topic: TopicId, use: PartialUse) -> None:
        """What a SUBSCRIBE says of it; for strategies that are `has_partials`."""

    def on_partial(self, sender: ConnectedPeer, partial: Partial) -> None:
        self.shell.drop(sender.id, partial_kind(partial), 1, Reason.UNSUPPORTED)

    def on_test_message(self, sender: ConnectedPeer) -> None:
        self.shell.drop(sender.id, PartKind.EXTENSION, 1, Reason.UNSUPPORTED)

    def choose_partials(self, chosen: PartialsChosen) -> None:
        """An application chooses partial messages in a topic; for strategies that are `has_partials`, as all of
        these."""

    def publish_partial(self, published: PublishPartial) -> None:
        """The application has news of a group."""

    def partial_feedback(self, feedback: PartialFeedback) -> None:
        """What the application thinks of parts that a peer sent."""

    def hears(self, peer: PeerId) -> bool:
        """Whether a peer's messages are looked at now; drivers ask before they check what costs much."""
        return True

    def believes(self, peer: PeerId) -> bool:
        """Whether those whom a peer names are dialled."""
        return True

    def direct_peers(self) -> Collection[PeerId]:
        """Peers with an explicit peering agreement."""
        return ()

    def choose_direct(self, peer: PeerId, direct: bool) -> None:
        """A peer is direct from now on, or is not any more; for strategies that `judges`."""

    @abstractmethod
    def publish(self, message: Message) -> None:
        """The application published: cache it, send it."""

    def timer_fired(self) -> None:
        """The time that `self.shell.due` named has come; set the next one, or None."""

    def peer_added(self, peer: ConnectedPeer) -> None:
        """A peer connected."""

    def peer_removed(self, peer: ConnectedPeer) -> None:
        """A peer disconnects; its subscriptions are still there to look at."""

    def peer_subscribed(self, peer: ConnectedPeer, topic: TopicId) -> None:
        """A peer said that it is in a topic."""

    def peer_unsubscribed(self, peer: ConnectedPeer, topic: TopicId) -> None:
        """A peer leaves a topic; it is still in the topic's view."""

    def joined(self, topic: TopicId) -> None:
        """The application joined a topic; the SUBSCRIBE is in the outbox."""

    def left(self, topic: TopicId) -> None:
        """The application left a topic; the UNSUBSCRIBE is in the outbox."""

    def discovery(self, event: DialFailed | RoundTripMeasured | ContactsFound) -> None:
        """News for routers that manage their own connections."""

    def send_failed(self, peer: PeerId, rpc: Rpc) -> None:
        """An RPC did not leave."""

    def say_again(self, peers: list[PeerId]) -> None:
        """RPCs go to these peers, ascending, to whom one did not leave before: add what they missed."""

    def on_ihave(self, sender: ConnectedPeer, ihave: IHave) -> None:
        self.shell.drop(sender.id, PartKind.IHAVE, 1, Reason.UNSUPPORTED)

    def on_iwant(self, sender: ConnectedPeer, iwant: IWant) -> None:
        self.shell.drop(sender.id, PartKind.IWANT, 1, Reason.UNSUPPORTED)

    def on_graft(self, sender: ConnectedPeer, topic: TopicId) -> None:
        self.shell.drop(sender.id, PartKind.GRAFT, 1, Reason.UNSUPPORTED)

    def on_prune(self, sender: ConnectedPeer, prune: Prune) -> None:
        self.shell.drop(sender.id, PartKind.PRUNE, 1, Reason.UNSUPPORTED)

    def on_idontwant(self, sender: ConnectedPeer, parts: tuple[IDontWant, ...]) -> None:
        """All that one RPC says the peer does not want."""
        self.shell.drop(sender.id, PartKind.IDONTWANT, sum(len(part.ids) for part in parts), Reason.UNSUPPORTED)

    def on_extension(self, sender: ConnectedPeer, extension: Extension) -> None:
        self.shell.drop(sender.id, PartKind.EXTENSION, 1, Reason.UNSUPPORTED)

    def on_episub(self, sender: ConnectedPeer, part: EpisubPart) -> None:
        self.shell.drop(sender.id, part_kind(part), 1, Reason.UNSUPPORTED)

    def peerings(self) -> Iterable[tuple[TopicId, PeerId, Peering]]:
        """Full-message and fan-out peerings; all others are metadata-only."""
        return ()

    def mesh_peers(self, topic: TopicId) -> list[PeerId]:
        """The peers with whom full messages of a topic are exchanged; none for routers without a mesh."""
        return [
            peer for known, peer, peering in self.peerings() if known == topic and peering is Peering.FULL_MESSAGE
        ]

    def overlays(self) -> Mapping[TopicId, OverlayState]:
        """The neighbours of each joined topic, for routers that choose them."""
        return {}

    def promises(self) -> Promises:
        """What the router can be held to beside what all are."""
        return Promises()

    def heartbeats(self) -> int | None:
        """How many there were; None if each timer is one."""
        return None

    def remembers(self, peer: PeerId) -> bool:
        """Whether anything is kept of a peer beside what a state table shows; asked after its disconnect."""
        return False

    def fanout_topics(self) -> Iterable[tuple[TopicId, Micros]]:
        """Topics published to without membership, with the time of the last publish, ascending."""
        return ()

    def holds(self, message_id: MessageId) -> bool:
        """Whether the full message is still kept."""
        return False

    def scores(self) -> Iterable[tuple[PeerId, ScoreParts]]:
        """What the router thinks of each connected peer, ascending; nothing if it keeps no scores."""
        return ()

    def other_state(self) -> Iterable[PeerId]:
        """Peers that are remembered beside those connected and peered with, once for each list they are on."""
        return ()

    def held_messages(self) -> Iterable[Message]:
        return ()

    def flood(self, message: Message, received_from: PeerId | None) -> None:
        """Serve the peers that only flood (r1: "behaves like floodsub towards them")."""
        others = self.shell.peers.in_topic(message.topic).flood
        if others.members:
            self.shell.outbox.forward(others.ordered, message, Via.FLOOD, received_from)
