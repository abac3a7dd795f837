"""Events that a driver (node, simulator, test) passes to a router: the union `Event`.

`EventKind` is the order of events that reach one node at the same microsecond; engines sort by (time, kind, source,
sequence on the link). An application that uses partial messages (v1.3) implements `PartialApplication`: the router
asks the application which parts of a group each peer gets. A group is one message in parts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import NamedTuple, Protocol, TypeAlias, final

from hearsay.core.language.actions import Reason
from hearsay.core.language.identifiers import MessageId, Micros, PeerId, TopicId
from hearsay.core.language.rpc import Features, Message, PartialUse, Portion, Rpc


@dataclass(frozen=True, slots=True)
class PartialPeer:
    """A peer for which the application chooses parts of a group, and the state of the exchange with this peer."""

    peer: PeerId
    requests: bool
    """True if the peer requests parts. Otherwise the peer gets full messages, and metadata without parts."""
    gossip: bool
    """True if the peer is not in the mesh but was drawn for gossip. It can ask for parts after it has received
    metadata."""
    received: bytes | None = None
    """The last metadata from the peer; None if it has sent none."""
    sent: bytes | None = None
    """The last metadata that the router sent to the peer; None if it has sent none, or if a partial message of the
    group could not be sent to the peer after that."""
    note: object = None
    """The `note` that the application returned last for this peer and group; None if there is none, or if a partial
    message of the group could not be sent to the peer after that."""


class PartsFor(NamedTuple):
    """Parts and metadata for a peer. If both are None, the router sends nothing."""

    parts: bytes | None = None
    """The encoded parts; None or empty for no parts. The router sends parts only to a peer that requests parts."""
    metadata: bytes | None = None
    """The encoded metadata; None or empty for none, for example if they are equal to `PartialPeer.sent`."""
    note: object = None
    """Any object; the router passes it to the application in the next `PartialPeer` for this peer and group."""


class PartialApplication(Protocol):
    def parts_for(self, topic: TopicId, group: bytes, peer: PartialPeer) -> PartsFor:
        """Return the parts and metadata of a group that the router sends to this peer now."""
        ...


class EventKind(IntEnum):
    TIMER_FIRED = 0
    PEER_DISCONNECTED = 1
    PEER_CONNECTED = 2
    DIAL_FAILED = 3
    ROUND_TRIP_MEASURED = 4
    CONTACTS_FOUND = 5
    JOIN = 6
    LEAVE = 7
    PUBLISH = 8
    RPC_RECEIVED = 9
    MESSAGE_VALIDATED = 10
    SEND_FAILED = 11


class Verdict(Enum):
    """The verdict of the application on a message: accept, reject as invalid, or ignore without blame."""

    ACCEPT = "accept"
    REJECT = "reject"
    IGNORE = "ignore"


@dataclass(frozen=True, slots=True)
class TimerFired:
    """The time of `deadline()` has come."""


@dataclass(frozen=True, slots=True)
class PeerConnected:
    """A peer that speaks `protocol` has connected. `subscribed` lists topics that the peer is known to be in without
    a hello.

    Peers with the same `address` may have one owner; an empty text stands for an unknown address. `outbound` is True
    if this node dialled. `features` are the features that the peer announced earlier on a stream that is still open;
    None if no RPC has come on the stream yet.
    """

    peer: PeerId
    protocol: str
    subscribed: tuple[TopicId, ...] = ()
    address: str = ""
    outbound: bool = False
    features: Features | None = None


@dataclass(frozen=True, slots=True)
class StreamOpened:
    """A connected peer replaced the stream on which it sends. Its next RPC is the first one of the new stream."""

    peer: PeerId


@dataclass(frozen=True, slots=True)
class PeerDisconnected:
    peer: PeerId


@dataclass(frozen=True, slots=True)
class DialFailed:
    peer: PeerId


@dataclass(frozen=True, slots=True)
class RoundTripMeasured:
    peer: PeerId
    round_trip_us: Micros


@dataclass(frozen=True, slots=True)
class ContactsFound:
    """Discovery found peers for a topic. They need not be connected."""

    topic: TopicId
    peers: tuple[PeerId, ...]


@dataclass(frozen=True, slots=True)
class Join:
    topic: TopicId


@dataclass(frozen=True, slots=True)
class Leave:
    topic: TopicId


@dataclass(frozen=True, slots=True)
class Publish:
    """The application publishes a message. The router does not ask for a verdict on it."""

    message: Message


@final
@dataclass(frozen=True, slots=True)
class RpcReceived:
    peer: PeerId
    rpc: Rpc
    accepted: bool = False
    """True if the application has already accepted the messages of the RPC; then the router asks for no verdict."""
    portion: Portion | None = None
    """The portion of the RPC that is handled now; None for the whole RPC."""


@dataclass(frozen=True, slots=True)
class MessageValidated:
    """The application's verdict on a message that the router asked the application to validate."""

    message_id: MessageId
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class SendFailed:
    """An RPC of the router was not sent, for example because the peer's queue is full."""

    peer: PeerId
    rpc: Rpc


@dataclass(frozen=True, slots=True)
class PeerRated:
    """The application scores a peer, which need not be connected (v1.1, P5). 0 is neutral."""

    peer: PeerId
    rating: float


@dataclass(frozen=True, slots=True)
class DirectPeerChosen:
    """The application makes a peer a direct peer or, if `direct` is False, an ordinary one (v1.1, "Explicit peering
    agreements")."""

    peer: PeerId
    direct: bool = True


@dataclass(frozen=True, slots=True)
class MessageRefused:
    """The driver has refused a peer's message for this reason.

    A router that keeps scores blames the peer if the reason is BAD_SIGNATURE. It does not blame the peer if the
    reason is UNSUPPORTED, which stands for a signature that only some implementations accept.
    """

    peer: PeerId
    message: Message
    reason: Reason


@dataclass(frozen=True, slots=True)
class TopicScored:
    """A topic is scored by these parameters from now on; `parameters` are `TopicScoreParameters`."""

    topic: TopicId
    parameters: object


@dataclass(frozen=True, slots=True)
class PartialsChosen:
    """The application begins to use partial messages (v1.3) in a topic. If `use` is NONE, the application ends this
    use, and `application` is None."""

    topic: TopicId
    use: PartialUse
    application: PartialApplication | None


@dataclass(frozen=True, slots=True)
class PublishPartial:
    """A group of the application has changed. The router calls `parts_for` for each of `peers` that exchanges partial
    messages with it (PARTIAL-5). None stands for all peers of mesh or fan-out, and all peers of the group."""

    topic: TopicId
    group: bytes
    peers: tuple[PeerId, ...] | None = None


@dataclass(frozen=True, slots=True)
class PartialFeedback:
    """The application found parts that a peer sent useful (P2) or invalid (P4). This changes the peer's score."""

    peer: PeerId
    topic: TopicId
    useful: bool


OtherEvent: TypeAlias = (
    TimerFired
    | PeerConnected
    | PeerDisconnected
    | StreamOpened
    | DialFailed
    | RoundTripMeasured
    | ContactsFound
    | Join
    | Leave
    | Publish
    | MessageValidated
    | SendFailed
    | PeerRated
    | DirectPeerChosen
    | MessageRefused
    | TopicScored
    | PartialsChosen
    | PublishPartial
    | PartialFeedback
)
Event: TypeAlias = RpcReceived | OtherEvent
