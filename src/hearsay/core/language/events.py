"""Events that a driver (node, simulator, test) passes to a router: the closed union `Event`.

`EventKind` is the canonical order of events that reach one node at the same microsecond; engines sort by
(time, kind, source, sequence on the link). An application that uses partial messages (v1.3) implements
`PartialApplication`: the router asks it which parts of a group each peer gets."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import NamedTuple, Protocol, TypeAlias, final

from hearsay.core.language.actions import Reason
from hearsay.core.language.identifiers import MessageId, Micros, PeerId, TopicId
from hearsay.core.language.rpc import Features, Message, PartialUse, Portion, Rpc


@dataclass(frozen=True, slots=True)
class PartialPeer:
    """A peer for which the application chooses parts, and the state of the exchange in one group."""

    peer: PeerId
    requests: bool
    """True if the peer wants parts; otherwise it gets full messages, and of partial messages only metadata."""
    gossip: bool
    """True if the router sends the peer no messages of the topic; the peer gets metadata, and may request parts."""
    received: bytes | None = None
    """The last metadata from the peer; None if it has sent none."""
    sent: bytes | None = None
    """The last metadata that were sent to the peer; None if none were."""
    note: object = None
    """The application's note about the peer from the last call."""


class PartsFor(NamedTuple):
    """Parts and metadata for a peer. If there are neither, nothing is sent."""

    parts: bytes | None = None
    """None for no parts. They are not sent to a peer that does not request parts."""
    metadata: bytes | None = None
    """None if the metadata have not changed since `PartialPeer.sent`."""
    note: object = None
    """Passed to the application in the next `PartialPeer` for this peer and group."""


class PartialApplication(Protocol):
    def parts_for(self, topic: TopicId, group: bytes, peer: PartialPeer) -> PartsFor:
        """Return the parts and metadata of a group to send to this peer now."""
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
    """Verdict of the application on a message: accept, reject as invalid, or ignore silently."""

    ACCEPT = "accept"
    REJECT = "reject"
    IGNORE = "ignore"


@dataclass(frozen=True, slots=True)
class TimerFired:
    """The time of `deadline()` has come."""


@dataclass(frozen=True, slots=True)
class PeerConnected:
    """A peer that speaks `protocol` has connected. `subscribed` lists its topics that are known without a hello.

    Peers with the same `address` may belong together; an empty address is unknown. `outbound`: this side dialled.
    `features` were announced before, on a stream that is still open; None if the peer's first RPC is yet to come.
    """

    peer: PeerId
    protocol: str
    subscribed: tuple[TopicId, ...] = ()
    address: str = ""
    outbound: bool = False
    features: Features | None = None


@dataclass(frozen=True, slots=True)
class StreamOpened:
    """A connected peer replaced the stream on which it sends. Its next RPC is the first of a stream."""

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
    """Discovery found peers for a topic; they are not connected yet."""

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
    """The application publishes a message, which is not validated again."""

    message: Message


@final
@dataclass(frozen=True, slots=True)
class RpcReceived:
    peer: PeerId
    rpc: Rpc
    accepted: bool = False
    """True if the application has accepted the RPC's messages already; then the router asks for no verdict."""
    portion: Portion | None = None
    """The part of the RPC that is handled now; None for all of it."""


@dataclass(frozen=True, slots=True)
class MessageValidated:
    """The application's verdict on a message about which the router asked."""

    message_id: MessageId
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class SendFailed:
    """An RPC of the router was not sent, for example because the peer's queue is full."""

    peer: PeerId
    rpc: Rpc


@dataclass(frozen=True, slots=True)
class PeerRated:
    """The application's score of a peer, connected or not (v1.1, P5); 0 is neutral."""

    peer: PeerId
    rating: float


@dataclass(frozen=True, slots=True)
class DirectPeerChosen:
    """A peer is direct from now on, or no longer (v1.1, "Explicit peering agreements")."""

    peer: PeerId
    direct: bool = True


@dataclass(frozen=True, slots=True)
class MessageRefused:
    """The driver has refused a peer's message. A router that keeps scores blames the peer for BAD_SIGNATURE; for
    UNSUPPORTED, on which implementations differ, it does not.
    """

    peer: PeerId
    message: Message
    reason: Reason


@dataclass(frozen=True, slots=True)
class TopicScored:
    """A topic is scored by these parameters from now on (`hearsay.core.scores.score_parameters`)."""

    topic: TopicId
    parameters: object


@dataclass(frozen=True, slots=True)
class PartialsChosen:
    """A topic, joined or not, has partial messages (v1.3) from now on, or no longer."""

    topic: TopicId
    use: PartialUse
    application: PartialApplication | None


@dataclass(frozen=True, slots=True)
class PublishPartial:
    """A group of the application has changed: the router calls `parts_for` for each peer, or for each of `peers`."""

    topic: TopicId
    group: bytes
    peers: tuple[PeerId, ...] | None = None


@dataclass(frozen=True, slots=True)
class PartialFeedback:
    """Parts of a peer were useful or invalid, which counts in its score (P2, P4)."""

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
