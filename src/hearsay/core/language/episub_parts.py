"""Protocol messages of episub (episub spec, "Protocol Messages").

Messages of the spec have "a source and monotonic sequence id". Messages between neighbours need neither field: the
connection identifies the source and keeps the order. A message that nodes forward (JOIN, FORWARDJOIN, LEAVE, SHUFFLE)
names its source and has the source's sequence number.

The spec's GOSSIP has no class here: it is an RPC's message with a hop count (`Message.hops`). The wire format has one
control part for all classes, see `docs/routers/episub.md`.
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
    """Requests peers of the receiver's views; the answer is `Nodes`."""

    topic: TopicId


@dataclass(frozen=True, slots=True)
class Nodes:
    """Some peers of the sender's views, and the TTL that it suggests for a JOIN."""

    topic: TopicId
    peers: tuple[PeerId, ...]
    ttl: int


@dataclass(frozen=True, slots=True)
class GetTopics:
    """Requests the topics to which a peer is subscribed."""


@dataclass(frozen=True, slots=True)
class Topics:
    topics: tuple[TopicId, ...]


@dataclass(frozen=True, slots=True)
class EpisubJoin:
    """`peer` wants to join; forwarded at random until a node accepts it."""

    topic: TopicId
    peer: PeerId
    ttl: int
    sequence: int


@dataclass(frozen=True, slots=True)
class ForwardJoin:
    """`peer` has joined; receivers remember it."""

    topic: TopicId
    peer: PeerId
    ttl: int
    sequence: int


@dataclass(frozen=True, slots=True)
class Neighbor:
    """`random`: the link is random, not near. `links` and `random_links` are the numbers of the sender's links.

    `rtt_us` is 0 if the sender does not know it. `peers` is the sender's active list in a REPLY.
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
    """The link has ended, or (`refused`) the request for one is declined."""

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
    """`peer` offers `peers` of its views, for about as many of the answering node (`ShuffleReply`).

    `sketch` serves to estimate the number of nodes (`core/episub/views.py`).
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
    """Message summaries: ids, and for each the announcer's distance from the publisher in hops."""

    topic: TopicId
    ids: tuple[MessageId, ...]
    hops: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class EpisubGraft:
    """Makes the link a tree edge, and requests messages."""

    topic: TopicId
    ids: tuple[MessageId, ...] = ()


@dataclass(frozen=True, slots=True)
class EpisubPrune:
    """Makes the link a lazy one."""

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
