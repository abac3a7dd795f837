"""What a topic's parts of a score are made with: one table of `[[router.score.topics]]`.

Rules:

* PARAMETERS-5: A quantum and a decay of invalid messages must be given; without them nothing could be counted.
* PARAMETERS-6: Mesh deliveries are expected after a second at the earliest, and need a cap, a threshold and a decay.
  A cap below the threshold is refused (nim, jvm): the deficit would never end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from hearsay.core.scores.declarations import (
    MIN_INTERVAL_MS,
    Group,
    GroupedParameters,
    amount,
    fraction,
    group,
    penalty,
    reward,
    span,
)
from hearsay.core.scores.numbers import TopicNumbers
from hearsay.core.shell.parameters import Violation

_GROUPS = (
    group(
        "time_in_mesh_weight",
        "time_in_mesh_quantum_ms",
        "time_in_mesh_cap",
        always={"time_in_mesh_quantum_ms": 0},
        time_in_mesh_cap=0,
    ),
    group(
        "first_deliveries_weight",
        "first_deliveries_decay",
        "first_deliveries_cap",
        first_deliveries_decay=0,
        first_deliveries_cap=0,
    ),
    group(
        "mesh_deliveries_weight",
        "mesh_deliveries_decay",
        "mesh_deliveries_cap",
        "mesh_deliveries_threshold",
        "mesh_deliveries_window_ms",
        "mesh_deliveries_activation_ms",
        mesh_deliveries_decay=0,
        mesh_deliveries_cap=0,
        mesh_deliveries_threshold=0,
        mesh_deliveries_activation_ms=MIN_INTERVAL_MS,
    ),
    group("mesh_failure_weight", "mesh_failure_decay", mesh_failure_decay=0),
    group("invalid_messages_weight", "invalid_messages_decay", always={"invalid_messages_decay": 0}),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicScoreParameters(GroupedParameters):
    """Weights, decays and caps of one topic. 0 is off."""

    owner: ClassVar[str] = "a topic's score"

    topic_weight: float = reward("what the topic's parts count in the score")
    time_in_mesh_weight: float = reward("P1: for each quantum in the mesh")
    time_in_mesh_quantum_ms: int = span("P1: the unit of time in the mesh")
    time_in_mesh_cap: float = amount("P1: quanta that count at most")
    first_deliveries_weight: float = reward("P2: for each message that the peer was first to bring")
    first_deliveries_decay: float = fraction("P2: what is left of the count after a refresh")
    first_deliveries_cap: float = amount("P2: most that is counted")
    mesh_deliveries_weight: float = penalty("P3: for the square of what a member's deliveries lack")
    mesh_deliveries_decay: float = fraction("P3: what is left of the count after a refresh")
    mesh_deliveries_cap: float = amount("P3: most that is counted")
    mesh_deliveries_threshold: float = amount("P3: deliveries that are expected")
    mesh_deliveries_window_ms: int = span("P3: how long after the verdict a copy counts")
    mesh_deliveries_activation_ms: int = span("P3: time in the mesh before deliveries are expected")
    mesh_failure_weight: float = penalty("P3b: for the squares that were lacking when the peer left the mesh")
    mesh_failure_decay: float = fraction("P3b: what is left after a refresh")
    invalid_messages_weight: float = penalty("P4: for the square of the number of invalid messages")
    invalid_messages_decay: float = fraction("P4: what is left of the count after a refresh")
    gater_weight: float = amount("what a message delivered in the topic counts for the gater", 1.0)

    @classmethod
    def groups(cls) -> tuple[Group, ...]:
        return _GROUPS

    def cross_rules(self) -> Iterator[Violation]:
        if self.mesh_deliveries_cap < self.mesh_deliveries_threshold:
            limit = f"must not be below mesh_deliveries_threshold ({self.mesh_deliveries_threshold})"
            yield Violation("mesh_deliveries_cap", self.mesh_deliveries_cap, limit)

    def numbers(self) -> TopicNumbers:
        return TopicNumbers(
            weight=float(self.topic_weight),
            time_in_mesh_weight=float(self.time_in_mesh_weight),
            quantum=self.time_in_mesh_quantum_ms * 1000,
            time_in_mesh_cap=float(self.time_in_mesh_cap),
            first_weight=float(self.first_deliveries_weight),
            first_decay=float(self.first_deliveries_decay),
            first_cap=float(self.first_deliveries_cap),
            mesh_weight=float(self.mesh_deliveries_weight),
            mesh_decay=float(self.mesh_deliveries_decay),
            mesh_cap=float(self.mesh_deliveries_cap),
            mesh_threshold=float(self.mesh_deliveries_threshold),
            window=self.mesh_deliveries_window_ms * 1000,
            activation=self.mesh_deliveries_activation_ms * 1000,
            failure_weight=float(self.mesh_failure_weight),
            failure_decay=float(self.mesh_failure_decay),
            invalid_weight=float(self.invalid_messages_weight),
            invalid_decay=float(self.invalid_messages_decay),
        )
