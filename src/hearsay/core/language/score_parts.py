"""What a score is made of, for people and for traces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from hearsay.core.language.identifiers import TopicId


class TopicParts(NamedTuple):
    """The parts of a topic, each times its own weight; not yet times the topic's."""

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
    """What adds up to the score, in this order, each times its weight."""

    topics: float
    """The sum of all topics, capped."""
    application: float
    """P5"""
    shared_addresses: float
    """P6"""
    misbehaviour: float
    """P7"""
    slow_peer: float


@dataclass(frozen=True, slots=True)
class ScoreParts:
    """A score, the parts of the peer, and those of each topic that has counted something, topics ascending."""

    score: float
    peer: PeerParts
    topics: tuple[tuple[TopicId, TopicParts], ...]
