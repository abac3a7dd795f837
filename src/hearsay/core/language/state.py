"""The state of a router as a table, after the guide's section "State", and the parts of peers' scores."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from hearsay.core.language.identifiers import MessageId, Micros, PeerId, TopicId


class Peering(StrEnum):
    FULL_MESSAGE = "full-message"
    METADATA_ONLY = "metadata-only"
    FAN_OUT = "fan-out"


@dataclass(frozen=True, slots=True)
class PeerState:
    peer: PeerId
    protocol: str
    peerings: tuple[tuple[TopicId, Peering], ...]
    """The peer's subscriptions, in ascending order of topics."""


@dataclass(frozen=True, slots=True)
class OverlayState:
    """A router's neighbours in one topic, for routers that choose them."""

    active: Set[PeerId]
    passive: Set[PeerId]
    """Other known peers."""
    eager: Set[PeerId]
    """Neighbours that are sent full messages; the others are `lazy`."""
    lazy: Set[PeerId]
    active_limit: int | None
    passive_limit: int | None
    """None if all connected peers are neighbours."""
    bounded: tuple[tuple[str, int, int], ...]
    """Name, size and limit of each other collection."""


@dataclass(frozen=True, slots=True)
class SeenState:
    message_id: MessageId
    first_us: Micros
    sender: PeerId | None
    held: bool
    """True while the full message can still be sent on request."""


@dataclass(frozen=True, slots=True)
class RouterState:
    subscriptions: tuple[TopicId, ...]
    fanout: tuple[tuple[TopicId, Micros], ...]
    """Fan-out topics with the time of the last publish."""
    peers: tuple[PeerState, ...]
    seen: tuple[SeenState, ...]


@dataclass(frozen=True, slots=True)
class StateSize:
    """The size of a router's memory: entries, and their bytes in a plain form (`docs/reference/trace.md`)."""

    entries: int
    bytes: int


class TopicParts(NamedTuple):
    """The parts of a topic's score, each times its own weight, but not times the topic's weight."""

    time_in_mesh: float
    """P1"""
    first_deliveries: float
    """P2"""
    mesh_deliveries: float
    """P3"""
    mesh_failures: float
    """P3b"""
    invalid_messages: float
    """P4"""


class PeerParts(NamedTuple):
    """Summands of a peer's score, in this order, each times its weight."""

    topics: float
    """The capped sum of all topics."""
    application: float
    """P5"""
    shared_addresses: float
    """P6"""
    misbehaviour: float
    """P7"""
    slow_peer: float


@dataclass(frozen=True, slots=True)
class ScoreParts:
    """A score, its summands, and the parts of each topic in which the peer has counters, topics ascending."""

    score: float
    peer: PeerParts
    topics: tuple[tuple[TopicId, TopicParts], ...]
