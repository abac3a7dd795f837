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
    """Gossipsub 1.3; all off is 1.2.

    | field | rule | 1.2 | go |
    |---|---|---|---|
    | extensions | the router speaks 1.3, also if there is nothing that it can do beyond | off | on |
    | partial_messages | the router has partial messages; then it speaks 1.3, too | off | as given |
    | test_extension | the router has the test extension, for tests; then it speaks 1.3, too | off | as given |
    | late_extensions | what an extensions control gets that is not in the first RPC | penalise | penalise |
    | supporters_told | who tells those who only support parts (rust: by_all) | by_requesters | by_requesters |
    | partial_group_heartbeats | a group is kept for so long after it was published or came (rust: 5) | 3 | 3 |
    | max_peer_groups | groups that peers have opened in a topic | 255 | 255 |
    | max_groups_per_peer | … and one peer | 8 | 8 |
    | max_metadata_bytes | of metadata that is heard (rust; go: any) | 1000 | 1000 |
    """

    extensions: bool = False
    partial_messages: bool = False
    test_extension: bool = False
    late_extensions: LateExtensions = choice(LateExtensions.PENALISE)
    supporters_told: SupportersTold = choice(SupportersTold.BY_REQUESTERS)
    partial_group_heartbeats: int = integer(3, low=1)
    max_peer_groups: int = integer(255, low=0)
    max_groups_per_peer: int = integer(8, low=0)
    max_metadata_bytes: int = integer(1_000, low=1)

    @property
    def speaks_13(self) -> bool:
        return self.extensions or self.partial_messages or self.test_extension
