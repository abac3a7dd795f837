"""The outputs of a router: the closed union `Action`.

The first group contains requests to the driver; the second (`TraceAction`) reports events for the trace.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

from hearsay.core.language.identifiers import MessageId, PeerId, TopicId
from hearsay.core.language.rpc import Message, Partial, PartKind, Rpc


class Via(IntEnum):
    """The reason why a copy of a message goes to a peer.

    EAGER and LAZY are links of episub's tree. INJECT: a script outside the network sent the copy. TOP_UP: the mesh
    has fewer than D peers.
    """

    MESH = 0
    IWANT = 1
    FLOOD = 2
    FANOUT = 3
    EAGER = 4
    LAZY = 5
    RANDOM = 6
    INJECT = 7
    TOP_UP = 8
    FLOOD_PUBLISH = 9
    DIRECT = 10


class Reason(IntEnum):
    """The reason why a message or a part of an RPC was not used."""

    REJECTED = 0
    IGNORED = 1
    SELF_ORIGIN = 2
    NOT_SUBSCRIBED = 3
    THROTTLED = 4
    OVER_LIMIT = 5
    LOST = 6
    UNREACHABLE = 7
    UNSUPPORTED = 8
    NOT_A_SUBSCRIBER = 9
    QUEUE_FULL = 10
    BACKOFF = 11
    BAD_SIGNATURE = 12
    NOT_A_NEIGHBOUR = 13
    GIVEN_UP = 14
    GRAYLISTED = 15
    GATED = 16
    LOW_SCORE = 17
    DIRECT_PEER = 18
    FILTERED = 19
    WITHDRAWN = 20
    UNWANTED = 21
    NOT_FIRST = 22


@dataclass(frozen=True, slots=True)
class Send:
    """Send an RPC to a connected peer; `vias` has the reason for each of its messages."""

    peer: PeerId
    rpc: Rpc
    vias: tuple[Via, ...] = ()


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Do not send a peer a copy of a message that still waits in its queue. A driver may ignore this."""

    peer: PeerId
    message_id: MessageId


@dataclass(frozen=True, slots=True)
class Deliver:
    """Pass a message to the application; `received_from` is None for a message that this node published."""

    message: Message
    received_from: PeerId | None


@dataclass(frozen=True, slots=True)
class DeliverPartial:
    """Pass a received partial message to the application (`PartialApplication`)."""

    partial: Partial
    received_from: PeerId


@dataclass(frozen=True, slots=True)
class RemindOfPartial:
    """Remind the application, at a heartbeat, of a remembered group in which it has published."""

    topic: TopicId
    group: bytes


@dataclass(frozen=True, slots=True)
class ExtensionTestReceived:
    """Inform the application that a peer sent a message of the test extension."""

    peer: PeerId


@dataclass(frozen=True, slots=True)
class Validate:
    """Ask the application about a message; the answer is a `MessageValidated` event."""

    message: Message
    received_from: PeerId


@dataclass(frozen=True, slots=True)
class Dial:
    peer: PeerId


@dataclass(frozen=True, slots=True)
class Disconnect:
    peer: PeerId


@dataclass(frozen=True, slots=True)
class Ping:
    peer: PeerId


@dataclass(frozen=True, slots=True)
class FindContacts:
    """Ask discovery for up to `count` peers of a topic; the answer is a `ContactsFound` event."""

    topic: TopicId
    count: int


@dataclass(frozen=True, slots=True)
class PeerAdded:
    peer: PeerId
    protocol: str


@dataclass(frozen=True, slots=True)
class PeerRemoved:
    peer: PeerId


@dataclass(frozen=True, slots=True)
class TopicJoined:
    topic: TopicId


@dataclass(frozen=True, slots=True)
class TopicLeft:
    topic: TopicId


@dataclass(frozen=True, slots=True)
class PeerGrafted:
    """A peer entered the mesh of a topic."""

    topic: TopicId
    peer: PeerId


@dataclass(frozen=True, slots=True)
class PeerPruned:
    """A peer left the mesh of a topic."""

    topic: TopicId
    peer: PeerId


class OverlayChange(IntEnum):
    """Changes of the lists of a router that chooses its neighbours."""

    NEIGHBOR_UP = 0
    """A peer entered the active list of a topic."""
    NEIGHBOR_DOWN = 1
    """A peer left the active list, and with it the tree."""
    PASSIVE_ADDED = 2
    PASSIVE_REMOVED = 3
    EAGER = 4
    """A link of the active list became an edge of the broadcast tree."""
    LAZY = 5
    """A link of the active list became a lazy one: announcements only."""


@dataclass(frozen=True, slots=True)
class OverlayChanged:
    change: OverlayChange
    topic: TopicId
    peer: PeerId


@dataclass(frozen=True, slots=True)
class MessagePublished:
    message: Message


@dataclass(frozen=True, slots=True)
class DuplicateReceived:
    message_id: MessageId
    topic: TopicId
    peer: PeerId | None


@dataclass(frozen=True, slots=True)
class MessageRejected:
    message: Message
    peer: PeerId
    reason: Reason


@dataclass(frozen=True, slots=True)
class PartDropped:
    """Parts of a received RPC were not handled: over a limit, unsupported or misplaced.

    `topic` is set if the driver needs it: for a GRAFT in backoff.
    """

    peer: PeerId
    kind: PartKind
    count: int
    reason: Reason
    topic: TopicId | None = None


@dataclass(frozen=True, slots=True)
class CopyWithheld:
    """A message was not sent to a peer that had sent IDONTWANT for it. `via`: why it would have been sent."""

    peer: PeerId
    message: Message
    via: Via


@dataclass(frozen=True, slots=True)
class NamedPeerDialled:
    """The router dials a peer that a PRUNE of the topic named (peer exchange)."""

    topic: TopicId
    peer: PeerId


TraceAction: TypeAlias = (
    PeerAdded
    | PeerRemoved
    | TopicJoined
    | TopicLeft
    | PeerGrafted
    | PeerPruned
    | MessagePublished
    | DuplicateReceived
    | MessageRejected
    | PartDropped
    | CopyWithheld
    | NamedPeerDialled
    | OverlayChanged
)

Action: TypeAlias = (
    Send
    | Withdraw
    | Deliver
    | DeliverPartial
    | RemindOfPartial
    | ExtensionTestReceived
    | Validate
    | Dial
    | Disconnect
    | Ping
    | FindContacts
    | TraceAction
)
