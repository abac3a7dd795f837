"""Score parameters by name, and those of Ethereum's consensus clients, made from the number of validators.

Lighthouse, Teku and Lodestar share a generator of 2020 (blacktemplar's gist). A refresh comes each slot. Theory: a
counter that grows by r per slot and is multiplied by d at each decay tends to r / (1 - d) just before a decay and
r · d / (1 - d) just after. So caps and thresholds are computed from the expected rates:

* A peer gets 40 points for first deliveries if it is first with twice its share, which is the topic's rate / D. The
  topic's weight multiplies them.
* Mesh deliveries are expected at a fiftieth of the topic's rate. A peer that delivers nothing loses as much as it can
  get from all topics. A peer that sends one invalid message loses as much.

Committees and their aggregators are those of the consensus specification. These clients run on different
implementations of gossipsub; where these differ, the set `ethereum` follows the specification. `lighthouse` has
Lighthouse's own changes.

Prysm (July 2026) runs on go. It has its own weights, for more topics than the shared generator, and counts whole
messages per slot. Mesh deliveries are not scored: a flag in its source has set their weights to 0 for years, so peers
that forward nothing stay in the mesh. A topic whose parameters follow from its rate is not scored if twice a peer's
share is less than one message per slot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from hearsay.core.scores.declarations import Ipv6Counting, QuantumRounding, Validation, decay_over
from hearsay.core.scores.score_parameters import PeerScoreParameters, ScoreThresholds, TopicScoreParameters
from hearsay.core.scores.score_set import ScoreSet
from hearsay.core.shell.parameters import ParameterError, Violation, preset_tables

SLOT_MS = 12_000
EPOCH = 32
"""Slots in an epoch."""
SUBNETS = 64
_ZERO = 0.01
_DEGREE = 8
_TARGET_COMMITTEE = 128
_MAX_COMMITTEES = 64
_AGGREGATORS_PER_COMMITTEE = 16
_IN_MESH_SCORE = 10.0
_IN_MESH_QUANTA = 300.0
_FIRST_SCORE = 40.0
_EXPECTED_SHARE = 50.0
_WEIGHTS = {
    "beacon_block": 0.5,
    "beacon_aggregate_and_proof": 0.5,
    "beacon_attestation": 1 / SUBNETS,
    "voluntary_exit": 0.05,
    "proposer_slashing": 0.05,
    "attester_slashing": 0.05,
}
MOST_SCORE = (_IN_MESH_SCORE + _FIRST_SCORE) * 2.15
"""The largest sum of all topics; 2.15 is the sum of their weights, including all subnets."""
THRESHOLDS = ScoreThresholds(
    gossip=-4_000, publish=-8_000, graylist=-16_000, accept_exchange=100, opportunistic_graft=5
)


@dataclass(frozen=True, slots=True)
class _MeshDeliveries:
    decay_slots: int
    cap_factor: float
    activation_slots: int


def fades_in(slots: int) -> float:
    """Return the decay per slot by which a counter of 1 becomes 0 in this number of slots."""
    return decay_over(slots, _ZERO)


def steady(rate: float, decay: float) -> float:
    """Return the limit of a counter just before a decay; `rate` is its growth per slot."""
    return rate / (1.0 - decay)


def committees_per_slot(validators: int) -> int:
    return max(1, min(_MAX_COMMITTEES, validators // EPOCH // _TARGET_COMMITTEE))


def aggregates_per_slot(validators: int) -> float:
    """Return the expected number of aggregates per slot: one of every `committee // 16` attesters sends one."""
    attesters = validators / EPOCH
    committee = int(attesters / committees_per_slot(validators))
    return attesters / max(1, committee // _AGGREGATORS_PER_COMMITTEE)


def _topic(name: str, rate: float, first_slots: int, mesh: _MeshDeliveries | None = None) -> TopicScoreParameters:
    weight = _WEIGHTS[name]
    first_decay = fades_in(first_slots)
    cap = steady(2.0 * rate / _DEGREE, first_decay)
    parameters = TopicScoreParameters(
        validation=Validation.SELECTIVE,
        topic_weight=weight,
        time_in_mesh_weight=_IN_MESH_SCORE / _IN_MESH_QUANTA,
        time_in_mesh_quantum_ms=SLOT_MS,
        time_in_mesh_cap=_IN_MESH_QUANTA,
        first_deliveries_weight=_FIRST_SCORE / cap,
        first_deliveries_decay=first_decay,
        first_deliveries_cap=cap,
        invalid_messages_weight=-MOST_SCORE / weight,
        invalid_messages_decay=fades_in(50 * EPOCH),
    )
    return parameters if mesh is None else _with_mesh_deliveries(parameters, rate, mesh)


def _with_mesh_deliveries(
    parameters: TopicScoreParameters, rate: float, mesh: _MeshDeliveries
) -> TopicScoreParameters:
    decay = fades_in(mesh.decay_slots)
    threshold = steady(rate / _EXPECTED_SHARE, decay) * decay
    penalty = -MOST_SCORE / (parameters.topic_weight * threshold * threshold)
    return replace(
        parameters,
        mesh_deliveries_weight=penalty,
        mesh_deliveries_decay=decay,
        mesh_deliveries_cap=mesh.cap_factor * threshold,
        mesh_deliveries_threshold=threshold,
        mesh_deliveries_window_ms=2_000,
        mesh_deliveries_activation_ms=mesh.activation_slots * SLOT_MS,
        mesh_failure_weight=penalty,
        mesh_failure_decay=decay,
    )


def ethereum(validators: int) -> ScoreSet:
    """Return the set for a number of active validators."""
    many = committees_per_slot(validators) >= 2 * SUBNETS // EPOCH
    subnet = _MeshDeliveries(4 * EPOCH, 16, EPOCH // 2 + 1) if many else _MeshDeliveries(16 * EPOCH, 16, 3 * EPOCH)
    slashings = 1 / 5 / EPOCH
    return ScoreSet(
        peer=PeerScoreParameters(
            topic_cap=MOST_SCORE / 2,
            application_weight=1,
            shared_address_weight=-MOST_SCORE / 2,
            shared_address_threshold=3,
            misbehaviour_weight=-15.879,
            misbehaviour_threshold=6,
            misbehaviour_decay=fades_in(10 * EPOCH),
            decay_interval_ms=SLOT_MS,
            decay_to_zero=_ZERO,
            retain_ms=100 * EPOCH * SLOT_MS,
        ),
        thresholds=THRESHOLDS,
        topics={
            "beacon_block": _topic("beacon_block", 1, 20 * EPOCH, _MeshDeliveries(5 * EPOCH, 3, EPOCH)),
            "beacon_aggregate_and_proof": _topic(
                "beacon_aggregate_and_proof",
                aggregates_per_slot(validators),
                EPOCH,
                _MeshDeliveries(2 * EPOCH, 4, EPOCH),
            ),
            "beacon_attestation": _topic(
                "beacon_attestation", validators / (SUBNETS * EPOCH), EPOCH if many else 4 * EPOCH, subnet
            ),
            "voluntary_exit": _topic("voluntary_exit", 4 / EPOCH, 100 * EPOCH),
            "proposer_slashing": _topic("proposer_slashing", slashings, 100 * EPOCH),
            "attester_slashing": _topic("attester_slashing", slashings, 100 * EPOCH),
        },
    )


def lighthouse(validators: int) -> ScoreSet:
    """Return Lighthouse's set of 2026, on rust. Missing mesh deliveries have the weight of the topic, and the cap of
    mesh deliveries is at least 2. Eight peers may share an address, and slow peers lose much."""
    common = ethereum(validators)
    return replace(
        common,
        peer=replace(
            common.peer,
            shared_address_threshold=8,
            ipv6_addresses=Ipv6Counting.WHOLE,
            slow_peer_weight=-10,
            slow_peer_decay=0.1,
            time_in_mesh_quanta=QuantumRounding.FRACTION,
        ),
        topics={name: _as_in_lighthouse(parameters) for name, parameters in common.topics.items()},
    )


def _as_in_lighthouse(parameters: TopicScoreParameters) -> TopicScoreParameters:
    if not parameters.mesh_deliveries_weight:
        return parameters
    return replace(
        parameters,
        mesh_deliveries_weight=-parameters.topic_weight,
        mesh_deliveries_cap=max(2.0, parameters.mesh_deliveries_cap),
        mesh_failure_weight=-parameters.topic_weight,
    )


_SYNC_SUBNETS = 4
_SYNC_COMMITTEE = 512
PRYSM_MOST_SCORE = 50 * 3.1
"""The largest sum of all topics; 3.1 is the sum of their weights."""


def _prysm_topic(
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
        invalid_messages_weight=-PRYSM_MOST_SCORE / weight if invalid is None else invalid,
        invalid_messages_decay=fades_in(50 * EPOCH),
    )


def _by_rate(weight: float, per_slot: int, first_epochs: int = 1) -> TopicScoreParameters | None:
    """Return the parameters of a topic with this rate; None if twice a peer's share is less than one per slot."""
    cap = steady(float(per_slot * 2 // _DEGREE), fades_in(first_epochs * EPOCH))
    return _prysm_topic(weight, 40 / cap, cap, first_epochs * EPOCH) if cap else None


def prysm(validators: int) -> ScoreSet:
    """Return the set for a number of active validators."""
    committees = committees_per_slot(validators)
    many = committees >= 2 * SUBNETS // EPOCH
    block = _prysm_topic(0.8, 1, 23, 20 * EPOCH, -140.4475)
    rare = _prysm_topic(0.05, 2, 5, 100 * EPOCH, -2000)
    slashing = _prysm_topic(0.05, 36, 1, 100 * EPOCH, -2000)
    topics = {
        "beacon_block": block,
        "blob_sidecar": block,
        "data_column_sidecar": block,
        "beacon_aggregate_and_proof": _by_rate(0.5, committees * _AGGREGATORS_PER_COMMITTEE),
        "beacon_attestation": _by_rate(1 / SUBNETS, validators // SUBNETS // EPOCH, 4 if many else 1),
        "sync_committee_contribution_and_proof": _by_rate(0.2, _SYNC_SUBNETS * _AGGREGATORS_PER_COMMITTEE),
        "sync_committee": _by_rate(0.4 / _SYNC_SUBNETS, min(validators, _SYNC_COMMITTEE) // _SYNC_SUBNETS),
        "voluntary_exit": rare,
        "bls_to_execution_change": rare,
        "proposer_slashing": slashing,
        "attester_slashing": slashing,
    }
    return ScoreSet(
        peer=replace(
            FIXED["go"].peer,
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


MIN_VALIDATORS = 2_048
"""The smallest number with a validator in each subnet and slot."""
MAX_VALIDATORS = 100_000_000
VALIDATORS = 1_000_000
"""Approximate number of validators of the main network."""

FIXED: Mapping[str, ScoreSet] = {
    name: ScoreSet.from_mapping(table) for name, table in preset_tables("score_sets").items()
}
BY_VALIDATORS: Mapping[str, Callable[[int], ScoreSet]] = {
    "ethereum": ethereum,
    "lighthouse": lighthouse,
    "ethereum-prysm": prysm,
}
NAMES = (*FIXED, *BY_VALIDATORS)


@lru_cache(maxsize=16)
def named_set(name: str, validators: int = VALIDATORS) -> ScoreSet:
    """Return the set with this name; `validators` applies to Ethereum's sets."""
    if name in FIXED:
        return FIXED[name]
    if name not in BY_VALIDATORS:
        raise ParameterError((Violation("set", name, f"must be one of {', '.join(NAMES)}"),))
    if not MIN_VALIDATORS <= validators <= MAX_VALIDATORS:
        words = f"must be in {MIN_VALIDATORS}…{MAX_VALIDATORS}"
        raise ParameterError((Violation("validators", validators, words),))
    return BY_VALIDATORS[name](validators)
