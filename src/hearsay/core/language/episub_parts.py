"""Protocol messages of episub (episub spec, "Protocol Messages").

In the spec, each message has "a source and monotonic sequence id". Messages between neighbours need neither field:
the connection identifies the source and keeps the order. A message that nodes forward (JOIN, FORWARDJOIN, LEAVE,
SHUFFLE) names its source and has the source's sequence number.

The spec's GOSSIP has no class here: it is a `Message` with a hop count (`Message.hops`). On the wire, one kind of
control part encodes all classes, see `docs/reference/wire.md`. The views of a node are its active list, which has its
neighbours, and its passive list of other known peers. A TTL is the number of times that a message may still be
forwarded; a LEAVE may be forwarded more often.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

from hearsay.core.language.identifiers import MessageId, Micros, PeerId, TopicId


class Role(IntEnum):
    """Purpose of a NEIGHBOR: to establish a link (REQUEST, ACCEPT), or to retrieve an active list (QUERY, REPLY)."""

    REQUEST = 0
    ACCEPT = 1
    QUERY = 2
    REPLY = 3


@dataclass(frozen=True, slots=True)
class GetNodes:
    """A request for peers of the receiver's views; the answer is `Nodes`."""

    topic: TopicId


@dataclass(frozen=True, slots=True)
class Nodes:
    """Some peers of the sender's views, and the TTL that the sender suggests for a JOIN."""

    topic: TopicId
    peers: tuple[PeerId, ...]
    ttl: int


@dataclass(frozen=True, slots=True)
class GetTopics:
    """A request for the topics to which the receiver is subscribed; the answer is `Topics`."""


@dataclass(frozen=True, slots=True)
class Topics:
    topics: tuple[TopicId, ...]


@dataclass(frozen=True, slots=True)
class EpisubJoin:
    """`peer` wants to join the overlay. A receiver accepts `peer` or, if `ttl` is above 0, forwards the JOIN to a
    random neighbour."""

    topic: TopicId
    peer: PeerId
    ttl: int
    sequence: int


@dataclass(frozen=True, slots=True)
class ForwardJoin:
    """`peer` has joined. Receivers may add `peer` to a list, and forward this part to a random neighbour."""

    topic: TopicId
    peer: PeerId
    ttl: int
    sequence: int


@dataclass(frozen=True, slots=True)
class Neighbor:
    """A message about the link between sender and receiver; `role` is its purpose.

    `random` is True for a link to a random peer, False for a link to a near peer. The sender has `links` links, of
    which `random_links` are random. `rtt_us` is the round-trip time between the two nodes, or 0 if the sender has not
    measured it. `peers` is the sender's active list in a REPLY, without the receiver.
    """

    topic: TopicId
    role: Role
    random: bool
    links: int
    random_links: int
    rtt_us: Micros = 0
    peers: tuple[PeerId, ...] = ()


@dataclass(frozen=True, slots=True)
class Disconnect:
    """The link between sender and receiver has ended or, if `refused` is True, the sender declines the receiver's
    request for a link."""

    topic: TopicId
    refused: bool


@dataclass(frozen=True, slots=True)
class EpisubLeave:
    """`source` has left the overlay."""

    topic: TopicId
    source: PeerId
    ttl: int
    sequence: int


@dataclass(frozen=True, slots=True)
class Shuffle:
    """`peer` sends some peers of its views. The last receiver answers with peers of its passive list
    (`ShuffleReply`).

    From `sketch`, the last receiver estimates the number of nodes (`core/episub/views.py`).
    """

    topic: TopicId
    peer: PeerId
    peers: tuple[PeerId, ...]
    ttl: int
    sequence: int
    sketch: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ShuffleReply:
    topic: TopicId
    peers: tuple[PeerId, ...]
    sequence: int
    sketch: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class EpisubIHave:
    """An announcement of messages: their ids and, for each id, the number of hops between the publisher and the
    sender of this part."""

    topic: TopicId
    ids: tuple[MessageId, ...]
    hops: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class EpisubGraft:
    """The sender makes its link to the receiver an edge of the broadcast tree, and requests the messages `ids`."""

    topic: TopicId
    ids: tuple[MessageId, ...] = ()


@dataclass(frozen=True, slots=True)
class EpisubPrune:
    """The sender makes its link to the receiver lazy: it only announces messages over the link."""

    topic: TopicId


EpisubPart: TypeAlias = (
    GetNodes
    | Nodes
    | GetTopics
    | Topics
    | EpisubJoin
    | ForwardJoin
    | Neighbor
    | Disconnect
    | EpisubLeave
    | Shuffle
    | ShuffleReply
    | EpisubIHave
    | EpisubGraft
    | EpisubPrune
)
