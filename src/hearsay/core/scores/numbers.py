"""Parameters as the rules compute with them: doubles, integer microseconds, truth values.

Nothing here is checked; the parameter objects are. Kernels can take these as columns.
"""

from __future__ import annotations

from typing import NamedTuple

from hearsay.core.language.identifiers import Micros


class TopicNumbers(NamedTuple):
    """Of one topic."""

    weight: float = 0.0
    time_in_mesh_weight: float = 0.0
    quantum: Micros = 0
    time_in_mesh_cap: float = 0.0
    first_weight: float = 0.0
    first_decay: float = 0.0
    first_cap: float = 0.0
    mesh_weight: float = 0.0
    mesh_decay: float = 0.0
    mesh_cap: float = 0.0
    mesh_threshold: float = 0.0
    window: Micros = 0
    activation: Micros = 0
    failure_weight: float = 0.0
    failure_decay: float = 0.0
    invalid_weight: float = 0.0
    invalid_decay: float = 0.0


class PeerNumbers(NamedTuple):
    """Of the peer, and where implementations differ."""

    topic_cap: float = 0.0
    application_weight: float = 0.0
    address_weight: float = 0.0
    address_threshold: int = 0
    misbehaviour_weight: float = 0.0
    misbehaviour_threshold: float = 0.0
    misbehaviour_decay: float = 0.0
    slow_weight: float = 0.0
    slow_threshold: float = 0.0
    slow_decay: float = 0.0
    zero: float = 0.01
    retain: Micros = 0
    whole_quanta: bool = True
    mesh_time_of_now: bool = False
    deficit_after_prune: bool = False
    second_prune_counts: bool = False
    blame_members_only: bool = False
    retain_positive: bool = False
    return_is_fresh: bool = False
    decay_while_away: bool = False
    delivery_ttl: Micros = 120_000_000
