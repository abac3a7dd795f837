"""What Prysm runs (July 2026; go underneath), made from the number of validators.

Its own weights, for more topics than the generator of the others knows, and whole messages per slot. Mesh deliveries
are not scored: a flag in its source has set their weights to 0 for years, so peers that forward nothing keep their
places. Topics in which less than one message per slot is expected are not scored either.
"""

from __future__ import annotations

from dataclasses import replace

from hearsay.core.scores.choices import Validation
from hearsay.core.scores.score_set import ScoreSet
from hearsay.core.scores.sets.ethereum import (
    EPOCH,
    SLOT_MS,
    SUBNETS,
    THRESHOLDS,
    committees_per_slot,
    fades_in,
    steady,
)
from hearsay.core.scores.sets.implementations import GO
from hearsay.core.scores.topic_parameters import TopicScoreParameters

_DEGREE = 8
_AGGREGATORS = 16
_SYNC_SUBNETS = 4
_SYNC_COMMITTEE = 512
MOST_SCORE = 50 * 3.1
"""3.1 are the weights of all topics."""


def _topic(
    weight: float, first: float, cap: float, first_slots: int, invalid: float | None = None
) -> TopicScoreParameters:
    return TopicScoreParameters(
        validation=Validation.SELECTIVE,
        topic_weight=weight,
        time_in_mesh_weight=10 / 300,
        time_in_mesh_quantum_ms=SLOT_MS,
        time_in_mesh_cap=300,
        first_deliveries_weight=first,
        first_deliveries_decay=fades_in(first_slots),
        first_deliveries_cap=cap,
        invalid_messages_weight=-MOST_SCORE / weight if invalid is None else invalid,
        invalid_messages_decay=fades_in(50 * EPOCH),
    )


def _by_rate(weight: float, per_slot: int, first_epochs: int = 1) -> TopicScoreParameters | None:
    """A topic in which so many messages are expected, of which each of D mesh peers brings its share first."""
    cap = steady(float(per_slot * 2 // _DEGREE), fades_in(first_epochs * EPOCH))
    return _topic(weight, 40 / cap, cap, first_epochs * EPOCH) if cap else None


def prysm(validators: int) -> ScoreSet:
    """The set for so many active validators."""
    committees = committees_per_slot(validators)
    many = committees >= 2 * SUBNETS // EPOCH
    block = _topic(0.8, 1, 23, 20 * EPOCH, -140.4475)
    rare = _topic(0.05, 2, 5, 100 * EPOCH, -2000)
    slashing = _topic(0.05, 36, 1, 100 * EPOCH, -2000)
    topics = {
        "beacon_block": block,
        "blob_sidecar": block,
        "data_column_sidecar": block,
        "beacon_aggregate_and_proof": _by_rate(0.5, committees * _AGGREGATORS),
        "beacon_attestation": _by_rate(1 / SUBNETS, validators // SUBNETS // EPOCH, 4 if many else 1),
        "sync_committee_contribution_and_proof": _by_rate(0.2, _SYNC_SUBNETS * _AGGREGATORS),
        "sync_committee": _by_rate(0.4 / _SYNC_SUBNETS, min(validators, _SYNC_COMMITTEE) // _SYNC_SUBNETS),
        "voluntary_exit": rare,
        "bls_to_execution_change": rare,
        "proposer_slashing": slashing,
        "attester_slashing": slashing,
    }
    return ScoreSet(
        peer=replace(
            GO.peer,
            topic_cap=32.72,
            application_weight=1,
            shared_address_weight=-35.11,
            shared_address_threshold=10,
            misbehaviour_weight=-15.92,
            misbehaviour_threshold=6,
            misbehaviour_decay=fades_in(10 * EPOCH),
            decay_interval_ms=SLOT_MS,
            retain_ms=100 * EPOCH * SLOT_MS,
        ),
        thresholds=THRESHOLDS,
        topics={name: parameters for name, parameters in topics.items() if parameters is not None},
    )
