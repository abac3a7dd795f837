"""The named sets, by their names in scenarios."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from hearsay.core.scores.score_set import ScoreSet
from hearsay.core.scores.sets.ethereum import ethereum, lighthouse
from hearsay.core.scores.sets.filecoin import FILECOIN
from hearsay.core.scores.sets.hardening import HARDENING
from hearsay.core.scores.sets.implementations import GO, JS, JVM, NIM, RUST
from hearsay.core.scores.sets.prysm import prysm
from hearsay.core.shell.parameters import ParameterError, Violation

FEWEST_VALIDATORS = 2_048
"""One in each subnet and slot."""
MOST_VALIDATORS = 100_000_000
VALIDATORS = 1_000_000
"""About as many as there are."""

FIXED: Mapping[str, ScoreSet] = {
    "go": GO,
    "rust": RUST,
    "js": JS,
    "nim": NIM,
    "jvm": JVM,
    "filecoin": FILECOIN,
    "hardening": HARDENING,
}
BY_VALIDATORS: Mapping[str, Callable[[int], ScoreSet]] = {
    "ethereum": ethereum,
    "lighthouse": lighthouse,
    "ethereum-prysm": prysm,
}
NAMES = (*FIXED, *BY_VALIDATORS)


@lru_cache(maxsize=16)
def named_set(name: str, validators: int = VALIDATORS) -> ScoreSet:
    """The set of a name; `validators` is for Ethereum's."""
    if name in FIXED:
        return FIXED[name]
    if name not in BY_VALIDATORS:
        raise ParameterError((Violation("set", name, f"must be one of {', '.join(NAMES)}"),))
    if not FEWEST_VALIDATORS <= validators <= MOST_VALIDATORS:
        words = f"must be in {FEWEST_VALIDATORS}…{MOST_VALIDATORS}"
        raise ParameterError((Violation("validators", validators, words),))
    return BY_VALIDATORS[name](validators)
