"""The named sets with the traffic that their networks have, as far as it is known.

Ethereum's follows from the number of validators (consensus specification); a fifth of a slashing of each kind and
four exits in an epoch are what the generator of 2020 expects. Prysm's sync committees have 512 members, each of whom
sends a message per slot. Filecoin makes five blocks in 30 s on average; the evaluation of 2020 published 120
messages per second, over links of 25 ms. Of Filecoin's other topics nothing is known. That a near peer of Ethereum's
is 100 ms there and back is assumed. rust follows every id that it asks for, nim none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hearsay.core.scores.named_sets import (
    BY_VALIDATORS,
    EPOCH,
    FIXED,
    SLOT_MS,
    SUBNETS,
    VALIDATORS,
    aggregates_per_slot,
    named_set,
)
from hearsay.core.shell.parameters import ParameterError, Violation
from hearsay.score_check.promises import MOST_OF_A_PEER
from hearsay.score_check.subject import Expectations, Subject, TopicGroup

_SLOT_S = SLOT_MS / 1000
_ETHEREUM = Expectations(degree=8, heartbeat_ms=700, round_trip_ms=100)
_EXPECTED: Mapping[str, Expectations] = {
    "ethereum": _ETHEREUM,
    "lighthouse": _ETHEREUM,
    "ethereum-prysm": _ETHEREUM,
    "hardening": Expectations(degree=8, round_trip_ms=50),
    "filecoin": Expectations(degree=8),
    "rust": Expectations(promises_per_heartbeat=MOST_OF_A_PEER),
    "nim": Expectations(promises_per_heartbeat=0),
}
_PER_SLOT: Mapping[str, Callable[[int], float]] = {
    "beacon_block": lambda _: 1.0,
    "beacon_aggregate_and_proof": aggregates_per_slot,
    "beacon_attestation": lambda validators: validators / (SUBNETS * EPOCH),
    "voluntary_exit": lambda _: 4 / EPOCH,
    "proposer_slashing": lambda _: 1 / 5 / EPOCH,
    "attester_slashing": lambda _: 1 / 5 / EPOCH,
}
_PER_S: Mapping[str, Mapping[str, float]] = {"hardening": {"any": 120.0}, "filecoin": {"blocks": 5 / 30}}
_OTHER_NAMES: Mapping[str, tuple[str, ...]] = {"filecoin": ("messages",)}
"""Tables that a set has a second time, for another name of the same topic: Lotus calls its messages `msgs`."""
_COUNTS = {"beacon_attestation": SUBNETS, "sync_committee": 4}


def subject_of_set(name: str, validators: int | None = None) -> Subject:
    """A set by its name; raises `ParameterError` where there is none, or where it is not made from validators."""
    if name in FIXED and validators is not None:
        words = f"set {name} is not made from it; {', '.join(BY_VALIDATORS)} are"
        raise ParameterError((Violation("validators", validators, words),))
    validators = VALIDATORS if validators is None else validators
    score = named_set(name, validators)
    groups = [
        TopicGroup(topic, _COUNTS.get(topic, 1), parameters, _rate(name, topic, validators))
        for topic, parameters in score.topics.items()
        if topic not in _OTHER_NAMES.get(name, ())
    ]
    return Subject(name, score, _EXPECTED.get(name, Expectations()), groups, table="")


def _rate(name: str, topic: str, validators: int) -> float | None:
    if topic in _PER_SLOT:
        return _PER_SLOT[topic](validators) / _SLOT_S
    return _PER_S.get(name, {}).get(topic)
