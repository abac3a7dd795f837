"""The parameters of gossipsub 1.3: what routers tell each other that they can do, and partial messages."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from hearsay.core.mesh.judging_parameters import JudgingParameters
from hearsay.core.shell.parameters import choice, integer


class LateExtensions(StrEnum):
    """What an extensions control gets that is not in a peer's first RPC: ten points of P7 (go, jvm), or nothing
    (rust). In either case it is not heard."""

    PENALISE = "penalise"
    IGNORE = "ignore"


class SupportersTold(StrEnum):
    """Who tells metadata to a peer that supports parts without requesting them: those who request them, which alone
    need it (go, nim), or all who support them (rust)."""

    BY_REQUESTERS = "by_requesters"
    BY_ALL = "by_all"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtensionParameters(JudgingParameters):
    """Parameters of gossipsub 1.3; with all of them off, the router speaks gossipsub 1.2."""

    extensions: bool = False
    """Speak 1.3 even without an extension."""
    partial_messages: bool = False
    """Support partial messages; the router then speaks 1.3."""
    test_extension: bool = False
    """Support the test extension, for tests; the router then speaks 1.3."""
    late_extensions: LateExtensions = choice(LateExtensions.PENALISE)
    """Reaction to an extensions control after a peer's first RPC."""
    supporters_told: SupportersTold = choice(SupportersTold.BY_REQUESTERS)
    """Routers that send metadata to a peer that supports parts without requesting them."""
    partial_group_heartbeats: int = integer(3, low=1)
    """Heartbeats that a group is kept after it was published or received (rust: 5)."""
    max_peer_groups: int = integer(255, low=0)
    """Groups of a topic that peers may open."""
    max_groups_per_peer: int = integer(8, low=0)
    """Groups of a topic that one peer may open."""
    max_metadata_bytes: int = integer(1_000, low=1)
    """Size of metadata that is accepted (go: unlimited)."""

    @property
    def speaks_13(self) -> bool:
        return self.extensions or self.partial_messages or self.test_extension
