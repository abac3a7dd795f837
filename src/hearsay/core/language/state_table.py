"""A router's state as a table, after the guide's section "State".

What each peer must remember: its subscriptions; fan-out topics with the time of the last publish; per connected
peer and topic the kind of peering; recently seen messages with first time and sender, and whether the full message
is still held.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from enum import StrEnum

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
    """Per topic the peer subscribes to, topics ascending."""


@dataclass(frozen=True, slots=True)
class OverlayState:
    """A router's neighbours in one topic, where it chooses them."""

    active: Set[PeerId]
    passive: Set[PeerId]
    """Others that are known."""
    eager: Set[PeerId]
    """Neighbours that are sent full messages; the others are `lazy`."""
    lazy: Set[PeerId]
    active_limit: int | None
    passive_limit: int | None
    """None where neighbours are whoever is connected."""
    bounded: tuple[tuple[str, int, int], ...]
    """What else is kept: its name, how much there is, how much there may be."""


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
    """How much a router remembers: entries, and their bytes written down plainly (`docs/reference/trace.md`)."""

    entries: int
    bytes: int
