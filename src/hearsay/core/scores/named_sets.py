"""Score sets by name. Some are fixed; the sets of Ethereum's consensus clients depend on the number of validators.

The fixed sets are in `presets/score_sets.toml`; `presets/validator_sets.toml` has the numbers from which the sets of
Ethereum are computed. Lighthouse, Teku and Lodestar share a generator of parameters from 2020 (blacktemplar's gist).
There is one refresh in each slot, Ethereum's unit of time. Theory: a counter that grows by r per slot, and is
multiplied by d at each refresh, tends to r / (1 - d) just before a refresh and to r · d / (1 - d) just after. So caps
and thresholds are computed from the rates of topics, which are their expected numbers of messages per slot:

* The share of a peer is the topic's rate divided by D. A peer that is the first to deliver twice this share gets 40
  points for first deliveries, before the multiplication by the topic's weight.
* Mesh deliveries are expected at a fiftieth of the topic's rate. A peer that delivers nothing loses as many points as
  it can get from all topics together. So does a peer that sends one invalid message.

Committees and their aggregators are those of the consensus specification. The three clients run on different
implementations of gossipsub; where the implementations differ, the set `ethereum` follows the specification.
`lighthouse` has Lighthouse's own changes.

Prysm (July 2026) runs on go. It has its own weights, for more topics than the shared generator, and rounds rates down
to whole messages per slot. It does not score mesh deliveries: for years, a flag in its source has set their weights
to 0, so peers that forward nothing stay in the mesh. If the parameters of a topic are computed from its rate, and
twice a peer's share is less than one message per slot, the topic is not scored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from hearsay.core.scores.declarations import Validation, decay_over
from hearsay.core.scores.score_parameters import ScoreSet, TopicScoreParameters
from hearsay.core.shell.parameters import ParameterError, Violation, merged, preset_tables

SLOT_MS = 12_000
EPOCH = 32
"""Slots in an epoch."""
SUBNETS = 64
_ZERO = 0.01
_DEGREE = 8
_TARGET_COMMITTEE = 128
_MAX_COMMITTEES = 64
_AGGREGATORS_PER_COMMITTEE = 16
_SYNC_SUBNETS = 4
_SYNC_COMMITTEE = 512
_IN_MESH_SCORE = 10.0
_IN_MESH_QUANTA = 300.0
_FIRST_SCORE = 40.0
_EXPECTED_SHARE = 50.0
MOST_SCORE = (_IN_MESH_SCORE + _FIRST_SCORE) * 2.15
"""The largest sum of all topics; 2.15 is the sum of their weights, including all subnets."""
_PRYSM_MOST_SCORE = (_IN_MESH_SCORE + _FIRST_SCORE) * 3.1
"""The largest sum of all topics with Prysm; 3.1 is the sum of their weights."""

Inputs = dict[str, Any]
"""The numbers of a topic in `presets/validator_sets.toml`, from which its parameters are computed."""


def decay_over_slots(slots: int) -> float:
    """Return the decay per slot by which a counter falls from 1 to 0.01, `decay_to_zero`, in this number of slots."""
    return decay_over(slots, _ZERO)


def limit_before_refresh(rate: float, decay: float) -> float:
    """Return the limit to which a counter tends, just before a refresh; `rate` is its growth per slot."""
    return rate / (1.0 - decay)


def committees_per_slot(validators: int) -> int:
    return max(1, min(_MAX_COMMITTEES, validators // EPOCH // _TARGET_COMMITTEE))


def aggregates_per_slot(validators: int) -> float:
    """Return the expected number of aggregates per slot: in a committee of n attesters, one of every n // 16 sends an
    aggregate."""
    attesters = validators / EPOCH
    committee = int(attesters / committees_per_slot(validators))
    return attesters / max(1, committee // _AGGREGATORS_PER_COMMITTEE)


def _topic(inputs: Inputs, first: float, cap: float, invalid: float) -> TopicScoreParameters:
    """Return the parameters of a topic, without mesh deliveries. `first` and `invalid` are weights of first
    deliveries and of invalid messages; `cap` is the cap of first deliveries."""
    return TopicScoreParameters(
        validation=Validation.SELECTIVE,
        topic_weight=inputs["weight"],
        time_in_mesh_weight=_IN_MESH_SCORE / _IN_MESH_QUANTA,
        time_in_mesh_quantum_ms=SLOT_MS,
        time_in_mesh_cap=_IN_MESH_QUANTA,
        first_deliveries_weight=first,
        first_deliveries_decay=decay_over_slots(inputs["first_epochs"] * EPOCH),
        first_deliveries_cap=cap,
        invalid_messages_weight=invalid,
        invalid_messages_decay=decay_over_slots(50 * EPOCH),
    )


def _shared(inputs: Inputs, rate: float) -> TopicScoreParameters:
    """Return the parameters that the shared generator gives a topic with this rate."""
    cap = limit_before_refresh(2.0 * rate / _DEGREE, decay_over_slots(inputs["first_epochs"] * EPOCH))
    parameters = _topic(inputs, _FIRST_SCORE / cap, cap, -MOST_SCORE / inputs["weight"])
    if "mesh" not in inputs:
        return parameters
    mesh = inputs["mesh"]
    decay = decay_over_slots(mesh["decay_epochs"] * EPOCH)
    threshold = limit_before_refresh(rate / _EXPECTED_SHARE, decay) * decay
    penalty = -MOST_SCORE / (parameters.topic_weight * threshold * threshold)
    return replace(
        parameters,
        mesh_deliveries_weight=penalty,
        mesh_deliveries_decay=decay,
        mesh_deliveries_cap=mesh["cap_factor"] * threshold,
        mesh_deliveries_threshold=threshold,
        mesh_deliveries_window_ms=2_000,
        mesh_deliveries_activation_ms=mesh["activation_slots"] * SLOT_MS,
        mesh_failure_weight=penalty,
        mesh_failure_decay=decay,
    )


def _inputs(name: str, validators: int) -> dict[str, Inputs]:
    """Return the inputs of each topic of the set `name`. With many committees, some topics have other inputs."""
    topics: dict[str, Inputs] = _TABLES[name]["topics"]
    if committees_per_slot(validators) < 2 * SUBNETS // EPOCH:
        return topics
    return {topic: {**inputs, **inputs.get("many_committees", {})} for topic, inputs in topics.items()}


def ethereum(validators: int) -> ScoreSet:
    """Return the set `ethereum`, of the shared generator, for a number of active validators."""
    rates = {
        "beacon_aggregate_and_proof": aggregates_per_slot(validators),
        "beacon_attestation": validators / (SUBNETS * EPOCH),
    }
    topics = {
        topic: _shared(inputs, rates[topic] if topic in rates else inputs["rate"])
        for topic, inputs in _inputs("ethereum", validators).items()
    }
    return replace(_MADE["ethereum"], topics=topics)


def lighthouse(validators: int) -> ScoreSet:
    """Return Lighthouse's set for a number of active validators. In contrast to `ethereum`, the weights of P3 and P3b
    are minus the topic's weight, and the cap of mesh deliveries is at least 2."""
    topics = dict(ethereum(validators).topics)
    for topic, parameters in topics.items():
        if parameters.mesh_deliveries_weight:
            topics[topic] = replace(
                parameters,
                mesh_deliveries_weight=-parameters.topic_weight,
                mesh_deliveries_cap=max(2.0, parameters.mesh_deliveries_cap),
                mesh_failure_weight=-parameters.topic_weight,
            )
    return replace(_MADE["lighthouse"], topics=topics)


def prysm(validators: int) -> ScoreSet:
    """Return Prysm's set for a number of active validators."""
    per_slot = {
        "beacon_aggregate_and_proof": committees_per_slot(validators) * _AGGREGATORS_PER_COMMITTEE,
        "beacon_attestation": validators // SUBNETS // EPOCH,
        "sync_committee_contribution_and_proof": _SYNC_SUBNETS * _AGGREGATORS_PER_COMMITTEE,
        "sync_committee": min(validators, _SYNC_COMMITTEE) // _SYNC_SUBNETS,
    }
    topics: dict[str, TopicScoreParameters] = {}
    for topic, inputs in _inputs("ethereum-prysm", validators).items():
        if topic not in per_slot:
            topics[topic] = _topic(inputs, inputs["first"], inputs["cap"], inputs["invalid"])
        elif twice_the_share := per_slot[topic] * 2 // _DEGREE:
            cap = limit_before_refresh(float(twice_the_share), decay_over_slots(inputs["first_epochs"] * EPOCH))
            topics[topic] = _topic(inputs, _FIRST_SCORE / cap, cap, -_PRYSM_MOST_SCORE / inputs["weight"])
    return replace(_MADE["ethereum-prysm"], topics=topics)


MIN_VALIDATORS = 2_048
"""The smallest number of validators with which each subnet has a validator in each slot."""
MAX_VALIDATORS = 100_000_000
VALIDATORS = 1_000_000
"""Approximate number of validators of the main network."""

FIXED: Mapping[str, ScoreSet] = {
    name: ScoreSet.from_mapping(table) for name, table in preset_tables("score_sets").items()
}
_TABLES: dict[str, dict[str, Any]] = preset_tables("validator_sets")
_MADE = {
    name: ScoreSet.from_mapping(merged(_TABLES[table["base"]]["score"] if "base" in table else {}, table["score"]))
    for name, table in _TABLES.items()
}
"""The sets that depend on the number of validators, without the parameters of their topics."""
BY_VALIDATORS: Mapping[str, Callable[[int], ScoreSet]] = {
    "ethereum": ethereum,
    "lighthouse": lighthouse,
    "ethereum-prysm": prysm,
}
NAMES = (*FIXED, *BY_VALIDATORS)


@lru_cache(maxsize=16)
def named_set(name: str, validators: int = VALIDATORS) -> ScoreSet:
    """Return the set with this name, one of `NAMES`. Only the sets of Ethereum depend on `validators`.

    Raises `ParameterError` for another name, or for a number of validators that is out of range.
    """
    if name in FIXED:
        return FIXED[name]
    if name not in BY_VALIDATORS:
        raise ParameterError((Violation("set", name, f"must be one of {', '.join(NAMES)}"),))
    if not MIN_VALIDATORS <= validators <= MAX_VALIDATORS:
        words = f"must be in {MIN_VALIDATORS}…{MAX_VALIDATORS}"
        raise ParameterError((Violation("validators", validators, words),))
    return BY_VALIDATORS[name](validators)
