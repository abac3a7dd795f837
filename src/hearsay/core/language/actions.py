"""The outputs of a router: the union `Action`, and fast constructors for the most frequent ones (`fast_init`).

The classes from `Send` to `FindContacts` are requests to the driver. All others (`TraceAction`) report what the
router did, for the trace.

The constructor of a frozen dataclass sets each field by a call of `object.__setattr__`, because the class's own
`__setattr__` raises. These calls take most of the constructor's time. A constructor of `fast_init` makes equal
objects in another way: it fills a *draft*, which is an object of a plain class with the same slots, and then changes
the class of the draft to the frozen class. The constructor is a function, since a call of a function costs less than
a call of a class.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from enum import IntEnum
from typing import Any, ParamSpec, TypeAlias, TypeVar

from hearsay.core.language.identifiers import MessageId, PeerId, TopicId
from hearsay.core.language.rpc import Message, Partial, PartKind, Rpc

P = ParamSpec("P")
T = TypeVar("T")


class Via(IntEnum):
    """The reason why a copy of a message goes to a peer.

    FLOOD: the peer only floods. EAGER: the link to the peer is an edge of episub's broadcast tree. LAZY: the copy
    answers a GRAFT of episub. INJECT: a script outside the network sent the copy. TOP_UP: the mesh has fewer than D
    peers, so the publisher also sends the message to peers outside of the mesh.
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
    """The reason why a part of an RPC, such as a message or a subscription, was not sent, was lost or was not
    used."""

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
    """Send an RPC to a connected peer; `vias` has the reason for each message of the RPC, in the same order."""

    peer: PeerId
    rpc: Rpc
    vias: tuple[Via, ...] = ()


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Remove the copies of a message that wait in a peer's send queue. A driver may ignore this."""

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
    """Remind the application, at a heartbeat, of a group in which it has published (a group: a message in parts)."""

    topic: TopicId
    group: bytes


@dataclass(frozen=True, slots=True)
class ExtensionTestReceived:
    """Inform the application that a peer sent a message of the test extension."""

    peer: PeerId


@dataclass(frozen=True, slots=True)
class Validate:
    """Ask the application to validate a message; the answer is a `MessageValidated` event."""

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
    """A change in the lists of peers of episub, a router that chooses its neighbours itself."""

    NEIGHBOR_UP = 0
    """A peer entered the active list of a topic."""
    NEIGHBOR_DOWN = 1
    """A peer left the active list, and therefore also the broadcast tree of the topic."""
    PASSIVE_ADD = 2
    PASSIVE_REMOVE = 3
    EAGER = 4
    """The link to a neighbour became an edge of the broadcast tree."""
    LAZY = 5
    """The link to a neighbour became lazy: messages are only announced over it, and sent on request."""


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
    """The router did not use parts that a peer sent. `count` is the number of parts, or of ids in them.

    The kind IHAVE with the reason GIVEN_UP stands for announced messages that did not arrive in time after an IWANT
    or GRAFT. `topic` is set only for a GRAFT during a backoff, because drivers need the topic of such a GRAFT.
    """

    peer: PeerId
    kind: PartKind
    count: int
    reason: Reason
    topic: TopicId | None = None


@dataclass(frozen=True, slots=True)
class CopyWithheld:
    """The router did not send a message to a peer, because the peer had sent IDONTWANT for this message.

    `via` is the reason for which the router would have sent the copy.
    """

    peer: PeerId
    message: Message
    via: Via


@dataclass(frozen=True, slots=True)
class NamedPeerDialled:
    """The router dials a peer that a PRUNE for this topic named (peer exchange)."""

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


def fast_init(frozen: Callable[P, T]) -> Callable[P, T]:
    """Return a function that takes the arguments of a frozen dataclass with slots, and returns an equal object.

    Fields of the dataclass may have defaults, but no default factories. `__post_init__` is not called.
    """
    declared: Any = fields(frozen)  # pyright: ignore[reportArgumentType]
    names = [field.name for field in declared]
    parameters = ", ".join(
        field.name if field.default is MISSING else f"{field.name}=defaults[{field.name!r}]" for field in declared
    )
    body = "".join(f" draft.{name} = {name}\n" for name in names)
    source = (
        f"class Draft:\n __slots__ = {tuple(names)}\n"
        f"def make({parameters}):\n draft = Draft()\n{body} draft.__class__ = frozen\n return draft\n"
    )
    scope: dict[str, Any] = {"frozen": frozen, "defaults": {field.name: field.default for field in declared}}
    exec(source, scope)
    return scope["make"]
