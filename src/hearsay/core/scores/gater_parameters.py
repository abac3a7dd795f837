"""What the gater is made with: the table `[router.gater]`.

Rules (go):

* PARAMETERS-10: All of it must be given. Ignored and rejected messages weigh at least as much as delivered ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from hearsay.core.scores.decays import decay_over
from hearsay.core.scores.declarations import MIN_INTERVAL_MS, amount, bound, fraction, span
from hearsay.core.shell.parameters import Parameters, Violation

_LEAST: tuple[tuple[str, float], ...] = (
    ("threshold", 0),
    ("global_decay", 0),
    ("source_decay", 0),
    ("decay_interval_ms", MIN_INTERVAL_MS),
    ("decay_to_zero", 0),
    ("quiet_ms", MIN_INTERVAL_MS),
    ("duplicate_weight", 0),
    ("ignore_weight", 1),
    ("reject_weight", 1),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GaterParameters(Parameters):
    """When messages are looked at by chance, and what makes the chance."""

    owner: ClassVar[str] = "the gater"

    threshold: float = amount("share of messages turned away from which on the gater works")
    global_decay: float = fraction("what is left of the node's counts after a refresh")
    source_decay: float = fraction("what is left of an address's counts after a refresh")
    decay_interval_ms: int = span("the time between two refreshes", 1_000)
    decay_to_zero: float = fraction("below this a counter is 0")
    quiet_ms: int = span("after so long without turning messages away all is looked at", 60_000)
    retain_ms: int = span("how long an address is known when its last peer has gone", 6 * 3_600_000)
    duplicate_weight: float = amount("what a duplicate weighs against a delivered message")
    ignore_weight: float = amount("what an ignored message weighs")
    reject_weight: float = amount("what a rejected message weighs")
    max_retained_addresses: int = bound("addresses that are known though all their peers have gone", 10_000)

    def violations(self) -> Iterator[Violation]:
        found = tuple(self.field_violations())
        yield from found
        faulty = {violation.field for violation in found}
        for name, least in _LEAST:
            value = getattr(self, name)
            if name not in faulty and (value < least or value <= 0):
                yield Violation(name, value, f"must be at least {least}" if least else "must be above 0")


GO = GaterParameters(
    threshold=0.33,
    global_decay=decay_over(120, 0.01),
    source_decay=decay_over(3600, 0.01),
    decay_to_zero=0.01,
    duplicate_weight=0.125,
    ignore_weight=1.0,
    reject_weight=16.0,
)
"""go's defaults: the node's counts fade in two minutes, an address's in an hour."""
FILECOIN_BOOTSTRAP = replace(GO, source_decay=decay_over(600, 0.01))
