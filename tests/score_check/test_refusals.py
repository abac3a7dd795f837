"""Parameters that some implementations refuse: each rule finds its fault, and accepts values at its bound.

`tests/core/scores/test_score_parameters.py` has the refusals of go; here are the further ones of rust and js (which
always check the whole set), nim and jvm.
"""

from __future__ import annotations

import pytest
from clean_set import checked

from hearsay.core.scores.score_parameters import TopicScoreParameters
from hearsay.core.shell.parameters import ParameterError
from hearsay.score_check.check import check_subject, chosen
from hearsay.score_check.subjects import subject_of_set

TOPIC, THRESHOLDS = "score.topics.0", "score.thresholds"
NO_P3 = {f"{TOPIC}.mesh_deliveries_weight": 0}
NIM = [
    ({"score.decay_to_zero": 0.51}, {"score.decay_to_zero": 0.5}, "decay_to_zero must be above 0 and at most 0.5"),
    (
        {"score.shared_address_weight": 0, "score.shared_address_threshold": 0},
        {"score.shared_address_weight": 0, "score.shared_address_threshold": 1},
        "shared_address_threshold must be at least 1",
    ),
    (
        {"score.slow_peer_threshold": 2},
        {"score.slow_peer_threshold": 2, "score.slow_peer_decay": 0.2},
        "slow_peer_decay must be above 0",
    ),
    ({"score.misbehaviour_weight": 0}, {"score.misbehaviour_weight": -0.001}, "misbehaviour_weight must be below 0"),
    ({f"{THRESHOLDS}.gossip": 0}, {f"{THRESHOLDS}.gossip": -0.001}, "thresholds.gossip must be below 0"),
    (
        {f"{THRESHOLDS}.publish": -50},
        {f"{THRESHOLDS}.publish": -50.001},
        "thresholds.publish must be below gossip",
    ),
    (
        {f"{THRESHOLDS}.graylist": -100},
        {f"{THRESHOLDS}.graylist": -100.001},
        "thresholds.graylist must be below publish",
    ),
    (
        {f"{TOPIC}.time_in_mesh_weight": 0},
        {f"{TOPIC}.time_in_mesh_weight": 1},
        "time_in_mesh_weight must be above 0 and at most 1",
    ),
    (
        {f"{TOPIC}.time_in_mesh_weight": 1.001},
        {f"{TOPIC}.time_in_mesh_weight": 0.001},
        "time_in_mesh_weight must be above 0 and at most 1",
    ),
    (
        {f"{TOPIC}.time_in_mesh_weight": 0, f"{TOPIC}.time_in_mesh_cap": 0},
        {f"{TOPIC}.time_in_mesh_cap": 0.001},
        "time_in_mesh_cap must be above 0",
    ),
    (
        {f"{TOPIC}.first_deliveries_weight": 0},
        {f"{TOPIC}.first_deliveries_weight": 0.001},
        "first_deliveries_weight must be above 0",
    ),
    (NO_P3, {f"{TOPIC}.mesh_deliveries_weight": -0.001}, "mesh_deliveries_weight must be below 0"),
    (
        {**NO_P3, f"{TOPIC}.mesh_deliveries_threshold": 0},
        {f"{TOPIC}.mesh_deliveries_threshold": 0.001},
        "mesh_deliveries_threshold must be above 0",
    ),
    (
        {f"{TOPIC}.mesh_failure_weight": 0},
        {f"{TOPIC}.mesh_failure_weight": -0.001},
        "mesh_failure_weight must be below 0",
    ),
    (
        {f"{TOPIC}.invalid_messages_weight": 0},
        {f"{TOPIC}.invalid_messages_weight": -0.001},
        "invalid_messages_weight must be below 0",
    ),
]
JVM = [
    (
        {"score.misbehaviour_weight": 0, "score.misbehaviour_decay": 0},
        {"score.misbehaviour_weight": 0, "score.misbehaviour_decay": 0.001},
        "misbehaviour_decay must be above 0",
    ),
    (
        {f"{THRESHOLDS}.graylist": -100},
        {f"{THRESHOLDS}.graylist": -100.001},
        "thresholds.graylist must be below publish, or both must be 0",
    ),
    (
        {f"{THRESHOLDS}.graylist": -100},
        {f"{THRESHOLDS}.{name}": 0 for name in ("gossip", "publish", "graylist")},
        "thresholds.graylist must be below publish, or both must be 0",
    ),
]
SELECTIVE = {f"{TOPIC}.validation": "selective"}
NO_P1 = {f"{TOPIC}.time_in_mesh_{name}": 0 for name in ("weight", "quantum_ms", "cap")}
NO_P4 = {f"{TOPIC}.invalid_messages_{name}": 0 for name in ("weight", "decay")}
INCOMPLETE = [
    ({**SELECTIVE, **NO_P1}, SELECTIVE, "time_in_mesh_quantum_ms must be above 0"),
    ({**SELECTIVE, **NO_P4}, SELECTIVE, "invalid_messages_decay must be above 0"),
]
REFUSED = [
    *(("refused-by-nim", *each) for each in NIM),
    *(("refused-by-jvm", *each) for each in JVM),
    *(("refused-incomplete", *each) for each in INCOMPLETE),
]


def refusals(tmp_path, changes, id_: str) -> list[str]:
    return [each.words for each in checked(tmp_path, changes).findings if each.check == id_]


@pytest.mark.parametrize(("id_", "refused", "accepted", "words"), REFUSED)
def test_a_set_that_an_implementation_refuses(tmp_path, id_, refused, accepted, words):
    assert [each for each in refusals(tmp_path, refused, id_) if each.endswith(words)]
    assert not [each for each in refusals(tmp_path, accepted, id_) if each.endswith(words)]


@pytest.mark.parametrize("weight", [0, -1])
def test_a_cap_below_the_threshold_is_refused_when_it_is_read(weight):
    """Rules: PARAMETERS-6."""
    values = {
        "time_in_mesh_quantum_ms": 1_000,
        "invalid_messages_decay": 0.5,
        "mesh_deliveries_weight": weight,
        "mesh_deliveries_decay": 0.5,
        "mesh_deliveries_threshold": 5,
        "mesh_deliveries_activation_ms": 1_000,
    }
    TopicScoreParameters(**values, mesh_deliveries_cap=5)
    with pytest.raises(ParameterError, match=r"must not be below mesh_deliveries_threshold \(5\)"):
        TopicScoreParameters(**values, mesh_deliveries_cap=4.999)


@pytest.mark.parametrize(
    ("name", "id_"),
    [
        ("rust", "refused-incomplete"),
        ("js", "refused-incomplete"),
        ("nim", "refused-by-nim"),
        ("jvm", "refused-by-jvm"),
    ],
)
def test_no_implementation_refuses_its_own_defaults(name, id_):
    assert check_subject(subject_of_set(name), chosen([id_])).findings == []
