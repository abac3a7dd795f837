"""What scores are enough for what: the table `[router.score.thresholds]`.

Rules (go):

* PARAMETERS-9: `graylist` is not above `publish`, which is not above `gossip`, which is not above 0: less trust never
  gives more. The other two are 0 or above.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from hearsay.core.scores.declarations import amount, penalty
from hearsay.core.shell.parameters import Parameters, Violation


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreThresholds(Parameters):
    """Scores below which a peer gets less, and two from which on it gets more."""

    owner: ClassVar[str] = "the thresholds"

    gossip: float = penalty("below it: no IHAVE to the peer, and its IHAVE and IWANT are not looked at")
    publish: float = penalty("below it: none of one's own messages to the peer, no place in a fan-out")
    graylist: float = penalty("below it: its RPCs are not looked at")
    accept_exchange: float = amount("from it on: peers that it names in a PRUNE are dialled")
    opportunistic_graft: float = amount("a mesh with a median below it grafts peers with better scores")

    def violations(self) -> Iterator[Violation]:
        found = tuple(self.field_violations())
        yield from found
        faulty = {violation.field for violation in found}
        for lower, upper in (("publish", "gossip"), ("graylist", "publish")):
            value, limit = getattr(self, lower), getattr(self, upper)
            if faulty.isdisjoint((lower, upper)) and value > limit:
                yield Violation(lower, value, f"must not be above {upper} ({limit})")
