"""Refused parameters of scores, with go's numbers (score_params_test.go of go-libp2p-pubsub v0.16.0).

go also tests that the application's callback is there; here it is a call, so it cannot be missing. Thresholds have no
validation mode, since thresholds of 0 are valid in both modes.
"""

from __future__ import annotations

from math import inf, nan
from typing import Any

import pytest

from hearsay.core.registry import ROUTERS
from hearsay.core.scores.declarations import Validation
from hearsay.core.scores.gater import GaterParameters
from hearsay.core.scores.score_parameters import PeerScoreParameters, ScoreSet, ScoreThresholds, TopicScoreParameters
from hearsay.core.shell.parameters import ParameterError

BOTH = pytest.mark.parametrize("validation", Validation)
HALF = 0.5


def wrong(make, **values) -> dict[str, str]:
    """Return the reported violation of each field."""
    with pytest.raises(ParameterError) as caught:
        make(**values)
    return {violation.field: violation.rule for violation in caught.value.violations}


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("gossip", {"gossip": 1}),
        ("publish", {"publish": 1}),
        ("publish", {"gossip": -1, "publish": 0}),
        ("graylist", {"graylist": 1}),
        ("graylist", {"publish": -1, "graylist": 0}),
        ("graylist", {"gossip": -1, "publish": -2, "graylist": 0}),
        ("accept_exchange", {"accept_exchange": -1}),
        ("opportunistic_graft", {"opportunistic_graft": -1}),
        *((name, {name: value}) for name in ScoreThresholds.names() for value in (inf, -inf, nan)),
    ],
)
def test_thresholds_that_are_refused(field, values):
    """Rules: PARAMETERS-1, PARAMETERS-9."""
    assert field in wrong(ScoreThresholds, **values)


def test_thresholds():
    """Rules: PARAMETERS-9."""
    made = ScoreThresholds(gossip=-1, publish=-2, graylist=-3, accept_exchange=1, opportunistic_graft=2)
    assert made.graylist == -3


QUANTUM = {"time_in_mesh_quantum_ms": 1_000}
P4 = {"invalid_messages_decay": HALF}
NEEDED = {**QUANTUM, **P4}
P3 = {
    "mesh_deliveries_weight": -1,
    "mesh_deliveries_decay": HALF,
    "mesh_deliveries_cap": 10,
    "mesh_deliveries_threshold": 5,
    "mesh_deliveries_window_ms": 1,
    "mesh_deliveries_activation_ms": 1_000,
}


@BOTH
@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("topic_weight", {"topic_weight": -1}),
        ("time_in_mesh_weight", {"time_in_mesh_weight": -1}),
        ("time_in_mesh_quantum_ms", {"time_in_mesh_weight": 1, "time_in_mesh_quantum_ms": -1}),
        ("time_in_mesh_cap", {"time_in_mesh_weight": 1, "time_in_mesh_cap": -1}),
        ("first_deliveries_weight", {"first_deliveries_weight": -1}),
        *(
            ("first_deliveries_decay", {"first_deliveries_weight": 1, "first_deliveries_decay": value})
            for value in (-1, 2, 1)
        ),
        (
            "first_deliveries_cap",
            {"first_deliveries_weight": 1, "first_deliveries_decay": HALF, "first_deliveries_cap": -1},
        ),
        ("mesh_deliveries_weight", {"mesh_deliveries_weight": 1}),
        ("mesh_deliveries_decay", {**P3, "mesh_deliveries_decay": -1}),
        ("mesh_deliveries_decay", {**P3, "mesh_deliveries_decay": 2}),
        ("mesh_deliveries_cap", {**P3, "mesh_deliveries_cap": -1}),
        ("mesh_deliveries_threshold", {**P3, "mesh_deliveries_threshold": -3}),
        ("mesh_deliveries_window_ms", {**P3, "mesh_deliveries_window_ms": -1}),
        ("mesh_deliveries_activation_ms", {**P3, "mesh_deliveries_activation_ms": 1}),
        ("mesh_failure_weight", {"mesh_failure_weight": 1}),
        *(("mesh_failure_decay", {"mesh_failure_weight": -1, "mesh_failure_decay": value}) for value in (-1, 2)),
        ("invalid_messages_weight", {"invalid_messages_weight": 1}),
        *(
            ("invalid_messages_decay", {"invalid_messages_weight": -1, "invalid_messages_decay": value})
            for value in (-1, 2)
        ),
    ],
)
def test_topics_that_are_refused(validation, field, values):
    """Rules: PARAMETERS-1, PARAMETERS-2, PARAMETERS-6."""
    assert list(wrong(TopicScoreParameters, validation=validation, **{**NEEDED, **values})) == [field]


@BOTH
@pytest.mark.parametrize("value", [inf, -inf, nan])
def test_numbers_of_topics_are_finite(validation, value):
    """Rules: PARAMETERS-1."""
    for name in TopicScoreParameters.names():
        if name != "validation":
            assert name in wrong(TopicScoreParameters, validation=validation, **{name: value})


def test_an_empty_topic():
    """Rules: PARAMETERS-2, PARAMETERS-3, PARAMETERS-5."""
    assert wrong(TopicScoreParameters) == {
        "time_in_mesh_quantum_ms": "must be above 0",
        "invalid_messages_decay": "must be above 0",
    }
    TopicScoreParameters(validation=Validation.SELECTIVE)
    TopicScoreParameters(**NEEDED)


PARTS = [
    {"topic_weight": 1},
    {"time_in_mesh_weight": 0.01, "time_in_mesh_quantum_ms": 1_000, "time_in_mesh_cap": 10},
    {"first_deliveries_weight": 1, "first_deliveries_decay": HALF, "first_deliveries_cap": 10},
    P3,
    {"mesh_failure_weight": -1, "mesh_failure_decay": HALF},
    {"invalid_messages_weight": -1, "invalid_messages_decay": HALF},
]


def test_parts_of_a_topic_may_be_added_one_by_one():
    """Rules: PARAMETERS-3."""
    values: dict[str, float] = {}
    for part in PARTS:
        values |= part
        TopicScoreParameters(validation=Validation.SELECTIVE, **values)
    TopicScoreParameters(**values)


@pytest.mark.parametrize(
    ("part", "missing"),
    [
        ({"time_in_mesh_cap": 10}, {"time_in_mesh_quantum_ms"}),
        ({"first_deliveries_weight": 1}, {"first_deliveries_decay", "first_deliveries_cap"}),
        (
            {"mesh_deliveries_weight": -1},
            {
                "mesh_deliveries_decay",
                "mesh_deliveries_cap",
                "mesh_deliveries_threshold",
                "mesh_deliveries_activation_ms",
            },
        ),
        ({"mesh_failure_weight": -1}, {"mesh_failure_decay"}),
        ({"invalid_messages_weight": -1}, {"invalid_messages_decay"}),
    ],
)
def test_a_part_of_a_topic_needs_all_its_numbers(part, missing):
    """Rules: PARAMETERS-3."""
    assert set(wrong(TopicScoreParameters, validation=Validation.SELECTIVE, **part)) == missing


REFRESH = {"decay_interval_ms": 1_000, "decay_to_zero": 0.01}


@BOTH
@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("topic_cap", {"topic_cap": -1}),
        ("shared_address_weight", {"shared_address_weight": 1}),
        ("shared_address_threshold", {"shared_address_weight": -1, "shared_address_threshold": -1}),
        ("shared_address_threshold", {"shared_address_weight": -1, "shared_address_threshold": 0}),
        ("shared_address_allowed", {"shared_address_allowed": ("2.3.0.0/99",)}),
        ("decay_interval_ms", {"decay_interval_ms": 1}),
        ("decay_to_zero", {"decay_to_zero": -1}),
        ("decay_to_zero", {"decay_to_zero": 2}),
        ("misbehaviour_weight", {"misbehaviour_weight": 1}),
        ("misbehaviour_decay", {"misbehaviour_weight": -1}),
        ("misbehaviour_decay", {"misbehaviour_weight": -1, "misbehaviour_decay": 2}),
        ("misbehaviour_threshold", {"misbehaviour_threshold": -1}),
        ("slow_peer_decay", {"slow_peer_weight": -1}),
    ],
)
def test_peers_that_are_refused(validation, field, values):
    """Rules: PARAMETERS-1, PARAMETERS-2, PARAMETERS-7, PARAMETERS-8."""
    assert list(wrong(PeerScoreParameters, validation=validation, **{**REFRESH, **values})) == [field]


@BOTH
@pytest.mark.parametrize("value", [inf, -inf, nan])
def test_numbers_of_peers_are_finite(validation, value):
    """Rules: PARAMETERS-1."""
    for name in (
        "topic_cap",
        "application_weight",
        "shared_address_weight",
        "misbehaviour_threshold",
        "slow_peer_decay",
    ):
        assert list(wrong(PeerScoreParameters, validation=validation, **{**REFRESH, name: value})) == [name]


@BOTH
@pytest.mark.parametrize("weight", [0, -1])
@pytest.mark.parametrize("cap", [0, 1])
def test_peers(validation, weight, cap):
    """Rules: PARAMETERS-7."""
    values = {**REFRESH, "shared_address_weight": weight, "shared_address_threshold": 1, "topic_cap": cap}
    PeerScoreParameters(validation=validation, **values, misbehaviour_weight=-1, misbehaviour_decay=0.999)


def test_an_empty_peer():
    """Rules: PARAMETERS-3, PARAMETERS-8."""
    assert set(wrong(PeerScoreParameters)) == {"decay_interval_ms", "decay_to_zero"}
    PeerScoreParameters(validation=Validation.SELECTIVE)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("threshold", 0),
        ("global_decay", 0),
        ("source_decay", 1),
        ("decay_interval_ms", 999),
        ("decay_to_zero", 0),
        ("quiet_ms", 999),
        ("duplicate_weight", 0),
        ("ignore_weight", HALF),
        ("reject_weight", HALF),
    ],
)
def test_gaters_that_are_refused(field, value):
    """Rules: PARAMETERS-10."""
    given: Any = ROUTERS["gossipsub"].presets["filecoin"]["gater"]
    assert list(wrong(GaterParameters, **{**given, field: value})) == [field]


def test_all_violations_are_reported_at_once():
    """Rules: PARAMETERS-1, PARAMETERS-4."""
    faults = wrong(
        lambda **values: ScoreSet.from_mapping(values),
        **REFRESH,
        topic_cap=-1,
        misbehaviour_weight=-1,
        misbehaviour_decay=0.5,
        misbehaviour_decay_ms=5_000,
        slow_peer_wait=3,
        thresholds={"gossip": 1, "publish": 0, "graylist": "low"},
        topics=[
            {"topic": "blocks", **NEEDED, "first_deliveries_weight": 1, "first_deliveries_decay_ms": 10},
            {"topic": "blocks", "validation": "some"},
            {"topic": 7},
            "blocks",
        ],
    )
    assert faults == {
        "misbehaviour_decay_ms": "cannot be combined with misbehaviour_decay; give one of them",
        "slow_peer_wait": faults["slow_peer_wait"],
        "topic_cap": "must be in 0…1000000000",
        "thresholds.gossip": "must be in -1000000000…0",
        "thresholds.graylist": "must be a number",
        "topics.0.first_deliveries_decay_ms": "must be an integer in 1000…2592000000, a decay_interval_ms or more",
        "topics.0.first_deliveries_cap": "must be above 0 when there is a first_deliveries_weight",
        "topics.1.validation": "must be one of atomic, selective",
        "topics.1.topic": "has a table already; give each topic one",
        "topics.2.topic": "must be the name of a topic",
        "topics.3": "must be a table",
    }
    assert faults["slow_peer_wait"].startswith("is not a parameter of the score; did you mean slow_peer_weight?")


def test_a_decay_that_is_given_as_a_time_becomes_a_factor():
    """Rules: PARAMETERS-4."""
    topic = {"topic": "blocks", **QUANTUM, "invalid_messages_weight": -1, "invalid_messages_decay_ms": 3_600_000}
    made = ScoreSet.from_mapping({**REFRESH, "topics": [topic]})
    assert made.topics["blocks"].invalid_messages_decay == 0.9987216039048303
    assert ScoreSet.from_mapping(made.to_mapping()) == made


def test_a_time_without_an_interval():
    """Rules: PARAMETERS-4."""
    faults = wrong(lambda: ScoreSet.from_mapping({"misbehaviour_decay_ms": 5_000, "decay_interval_ms": "1 s"}))
    assert faults == {
        "misbehaviour_decay_ms": "needs decay_interval_ms >= 1000 and 0 < decay_to_zero < 1",
        "decay_interval_ms": "must be an integer",
    }
