"""The mesh's parameters, and the named choices among its rules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from hearsay.core.language.identifiers import Micros
from hearsay.core.mesh.backoff import BackoffParameters
from hearsay.core.shell.parameters import Violation, choice, integer, milliseconds

_NEVER_FULL = 1 << 60
"""Peers in a mesh that refuses nobody."""


class PruneTrigger(StrEnum):
    """Upkeep prunes when the mesh is larger than D_high (seeds, js), or already as large (go, rust)."""

    ABOVE_HIGH = "above_high"
    AT_HIGH = "at_high"


class FullMesh(StrEnum):
    """What a GRAFT gets when the mesh has D_high peers: it is taken in (r1), or refused with PRUNE (v1.1)."""

    ACCEPT = "accept"
    REFUSE = "refuse"


class UnknownGraft(StrEnum):
    """What a GRAFT for a topic one has not joined gets: a PRUNE (r1) or nothing (v1.1)."""

    PRUNE = "prune"
    IGNORE = "ignore"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshParameters(BackoffParameters):
    """The mesh's degrees and its heartbeat.

    | field | rule | r1 | simsub |
    |---|---|---|---|
    | degree, degree_low, degree_high | D, D_low <= D <= D_high; all zero is legal: no mesh | 6/4/12 | 6/4/12 |
    | prune_trigger | prune above D_high, or at it | above_high | above_high |
    | full_mesh | answer to a GRAFT when the mesh has D_high peers | accept | accept |
    | unknown_graft | answer to a GRAFT for a topic one is not in | prune | prune |
    | heartbeat_interval_ms | time between heartbeats | 1000 | 1000 |
    | first_heartbeat_ms | time to the first heartbeat | 1000 | 1000 |
    | first_heartbeat_spread_ms | … plus a random share of this | 1000 | 1000 |
    | places_per_address | members of one address that need not give way to others; 0: all | 0 | 0 |
    """

    degree: int = integer(6, low=0)
    degree_low: int = integer(4, low=0)
    degree_high: int = integer(12, low=0)
    prune_trigger: PruneTrigger = choice(PruneTrigger.ABOVE_HIGH)
    full_mesh: FullMesh = choice(FullMesh.ACCEPT)
    unknown_graft: UnknownGraft = choice(UnknownGraft.PRUNE)
    heartbeat_interval_ms: int = milliseconds(1000, low=1)
    first_heartbeat_ms: int = milliseconds(1000)
    first_heartbeat_spread_ms: int = milliseconds(1000)
    places_per_address: int = integer(0, low=0)

    def cross_rules(self) -> Iterator[Violation]:
        if self.degree_low > self.degree:
            yield Violation("degree_low", self.degree_low, f"must not be above degree ({self.degree})")
        if self.degree > self.degree_high:
            yield Violation("degree_high", self.degree_high, f"must not be below degree ({self.degree})")

    @property
    def prune_from(self) -> int:
        """The size from which upkeep prunes a mesh."""
        return self.degree_high + (self.prune_trigger is PruneTrigger.ABOVE_HIGH)

    @property
    def refuse_from(self) -> int:
        """The size from which a mesh refuses a GRAFT."""
        return self.degree_high if self.full_mesh is FullMesh.REFUSE else _NEVER_FULL

    @property
    def backoff_slack_us(self) -> Micros:
        """How much longer than a backoff one's own GRAFT waits."""
        return self.backoff_slack_heartbeats * self.heartbeat_interval_ms * 1000
