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
    """Parameters of the mesh and its heartbeat."""

    degree: int = integer(6, low=0)
    """D, the mesh degree. Without a mesh, `degree`, `degree_low` and `degree_high` are all 0."""
    degree_low: int = integer(4, low=0)
    """D_low: the heartbeat grafts peers when the mesh has fewer."""
    degree_high: int = integer(12, low=0)
    """D_high: the heartbeat prunes peers when the mesh has more."""
    prune_trigger: PruneTrigger = choice(PruneTrigger.ABOVE_HIGH)
    """Prune when the mesh is larger than D_high, or already when it has D_high peers."""
    full_mesh: FullMesh = choice(FullMesh.ACCEPT)
    """Answer to a GRAFT when the mesh has D_high peers."""
    unknown_graft: UnknownGraft = choice(UnknownGraft.PRUNE)
    """Answer to a GRAFT for a topic that the node has not joined."""
    heartbeat_interval_ms: int = milliseconds(1000, low=1)
    """Time between heartbeats."""
    first_heartbeat_ms: int = milliseconds(1000)
    """Time until the first heartbeat."""
    first_heartbeat_spread_ms: int = milliseconds(1000)
    """Range of a random delay that is added to `first_heartbeat_ms`."""
    places_per_address: int = integer(0, low=0)
    """Mesh members of one IP address that do not have to give way to others; 0: all."""

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
