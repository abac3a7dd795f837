"""Expectations and numbers of go's tests of scores (score_test.go of go-libp2p-pubsub v0.16.0)."""

from __future__ import annotations

import pytest
from scoring import GO_NUMBERS, MS, SECOND, TOPIC, deliver, scorer

from hearsay.core.language.actions import Reason


def test_time_in_mesh():
    """Rules: SCORE-1, SCORE-6."""
    made = scorer("A", weight=0.5, time_in_mesh_weight=1.0, quantum=MS, time_in_mesh_cap=3600.0)
    assert made.score("A", 0) == 0
    made.graft("A", TOPIC, 0)
    made.refresh(200 * MS)
    assert made.score("A", 200 * MS) == 100


def test_the_cap_of_time_in_mesh():
    """Rules: SCORE-1."""
    made = scorer("A", weight=0.5, time_in_mesh_weight=1.0, quantum=MS, time_in_mesh_cap=10.0)
    made.graft("A", TOPIC, 0)
    made.refresh(40 * MS)
    assert made.score("A", 40 * MS) == 5


def test_first_deliveries():
    """Rules: SCORE-2."""
    made = scorer("A", first_weight=1.0, first_cap=2000.0)
    made.graft("A", TOPIC, 0)
    deliver(made, "A", 100)
    made.refresh(0)
    assert made.score("A", 0) == 100


def test_the_cap_of_first_deliveries():
    """Rules: COUNTER-1."""
    made = scorer("A", first_weight=1.0, first_cap=50.0)
    made.graft("A", TOPIC, 0)
    deliver(made, "A", 100)
    made.refresh(0)
    assert made.score("A", 0) == 50


def test_first_deliveries_decay():
    """Rules: COUNTER-2."""
    made = scorer("A", first_weight=1.0, first_cap=2000.0, first_decay=0.9)
    made.graft("A", TOPIC, 0)
    deliver(made, "A", 100)
    made.refresh(0)
    expected = 100 * 0.9
    assert made.score("A", 0) == expected == 90
    for _ in range(10):
        made.refresh(0)
        expected *= 0.9
    assert made.score("A", 0) == expected


def test_mesh_deliveries():
    """A sends first, B a copy at once, C a copy after 30 ms. Rules: SCORE-3, ACTIVE-1, DELIVERY-1, DELIVERY-2."""
    made = scorer(
        "A", "B", "C", mesh_weight=-1.0, activation=SECOND, window=10 * MS, mesh_threshold=20.0, mesh_cap=100.0
    )
    for peer in "ABC":
        made.graft(peer, TOPIC, 0)
    made.refresh(SECOND)
    assert [made.score(peer, SECOND) for peer in "ABC"] == [0, 0, 0]
    for number in range(100):
        made.validate(TOPIC, number, SECOND)
        made.duplicate("B", TOPIC, number, SECOND)
        made.deliver("A", TOPIC, number, SECOND)
        made.duplicate("C", TOPIC, number, SECOND + 30 * MS)
    made.refresh(SECOND + 30 * MS)
    assert [made.score(peer, SECOND + 30 * MS) for peer in "ABC"] == [0, 0, -400]


def test_mesh_deliveries_decay():
    """Rules: COUNTER-2, SCORE-3."""
    made = scorer("A", mesh_weight=-1.0, mesh_threshold=20.0, mesh_cap=100.0, mesh_decay=0.9, window=10 * MS)
    made.graft("A", TOPIC, 0)
    deliver(made, "A", 40)
    made.refresh(MS)
    assert made.score("A", MS) == 0
    left = 40 * 0.9
    for _ in range(20):
        made.refresh(2 * MS)
        left *= 0.9
    assert made.score("A", 2 * MS) == -((20 - left) * (20 - left))


def test_mesh_failures():
    """Rules: SCORE-4, ACTIVE-4."""
    made = scorer("A", "B", failure_weight=-1.0, mesh_threshold=20.0, mesh_cap=100.0, failure_decay=1.0)
    for peer in "AB":
        made.graft(peer, TOPIC, 0)
    deliver(made, "A", 100)
    made.refresh(MS)
    assert [made.score(peer, MS) for peer in "AB"] == [0, 0]
    for peer in "AB":
        made.prune(peer, TOPIC, MS)
    made.refresh(2 * MS)
    assert [made.score(peer, 2 * MS) for peer in "AB"] == [0, -400]


def test_invalid_messages():
    """Rules: SCORE-5, DELIVERY-5."""
    made = scorer("A", invalid_weight=-1.0)
    made.graft("A", TOPIC, 0)
    for number in range(100):
        made.reject("A", TOPIC, number, Reason.BAD_SIGNATURE, 0)
    made.refresh(0)
    assert made.score("A", 0) == -10000


def test_invalid_messages_decay():
    """Rules: SCORE-5, COUNTER-2."""
    made = scorer("A", invalid_weight=-1.0, invalid_decay=0.9)
    for number in range(100):
        made.reject("A", TOPIC, number, Reason.BAD_SIGNATURE, 0)
    left = 100.0
    for _ in range(11):
        made.refresh(0)
        left *= 0.9
        assert made.score("A", 0) == -(left * left)


def test_rejections():
    """Rules: DELIVERY-3, DELIVERY-4, DELIVERY-6, DELIVERY-7."""
    made = scorer("A", "B", invalid_weight=-1.0)
    for reason in (Reason.QUEUE_FULL, Reason.OVER_LIMIT, Reason.NOT_SUBSCRIBED):
        made.reject("A", TOPIC, "turned away", reason, 0)
    assert [made.score(peer, 0) for peer in "AB"] == [0, 0]
    for reason in (Reason.THROTTLED, Reason.IGNORED):
        made.validate(TOPIC, reason, 0)
        made.reject("A", TOPIC, reason, reason, 0)
        made.duplicate("B", TOPIC, reason, 0)
        assert [made.score(peer, 0) for peer in "AB"] == [0, 0]
    made.validate(TOPIC, "copied later", 0)
    made.reject("A", TOPIC, "copied later", Reason.REJECTED, 0)
    made.duplicate("B", TOPIC, "copied later", 0)
    assert [made.score(peer, 0) for peer in "AB"] == [-1, -1]
    made.validate(TOPIC, "copied before", 0)
    made.duplicate("B", TOPIC, "copied before", 0)
    made.reject("A", TOPIC, "copied before", Reason.REJECTED, 0)
    assert [made.score(peer, 0) for peer in "AB"] == [-4, -4]


def test_the_application_score():
    """Rules: SCORE-7."""
    made = scorer("A", peer={"application_weight": 0.5})
    made.graft("A", TOPIC, 0)
    for value in range(-100, 100):
        made.set_application_score("A", value)
        made.refresh(0)
        assert made.score("A", 0) == value * 0.5


LAYOUT = {"A": ["1.2.3.4"], "B": ["2.3.4.5"], "C": ["2.3.4.5", "3.4.5.6"], "D": ["2.3.4.5"]}
COLOCATION = {"shared_address_weight": -1, "shared_address_threshold": 1}


@pytest.mark.parametrize(("allowed", "scores"), [((), [0, -4, -4, -4]), (("2.3.0.0/16",), [0, 0, 0, 0])])
def test_shared_addresses(allowed, scores):
    """Rules: SCORE-8, ADDRESS-1."""
    made = scorer(peer={**COLOCATION, "shared_address_allowed": allowed})
    for peer, addresses in LAYOUT.items():
        made.connect(peer, addresses)
        made.graft(peer, TOPIC, 0)
    made.refresh(0)
    assert [made.score(peer, 0) for peer in LAYOUT] == scores


def test_misbehaviour():
    """Rules: SCORE-9, COUNTER-2."""
    made = scorer(peer={"misbehaviour_weight": -1, "misbehaviour_decay": 0.99})
    made.penalise("A")
    assert made.score("A", 0) == 0
    made.connect("A")
    assert made.score("A", 0) == 0
    made.penalise("A")
    assert made.score("A", 0) == -1
    made.penalise("A")
    assert made.score("A", 0) == -4
    made.refresh(0)
    assert made.score("A", 0) == -3.9204


def test_retention():
    """Rules: RETAIN-3."""
    made = scorer("A", peer={"application_weight": 1, "retain_ms": 1_000})
    made.set_application_score("A", -1000)
    made.graft("A", TOPIC, 0)
    made.refresh(0)
    assert made.score("A", 0) == -1000
    made.disconnect("A", 0)
    made.refresh(500 * MS)
    assert made.score("A", 500 * MS) == -1000
    made.refresh(1_050 * MS)
    assert made.score("A", 1_050 * MS) == 0


def test_smaller_caps_hold_at_once():
    """Rules: COUNTER-3."""
    topic = {"first_weight": 1.0, "first_cap": 100.0, "mesh_weight": -1.0, "mesh_cap": 100.0, "mesh_threshold": 100.0}
    made = scorer("A", "B", **topic, activation=0, window=10 * MS)
    for peer in "AB":
        made.graft(peer, TOPIC, 0)
    made.refresh(MS)
    for number in range(100):
        made.validate(TOPIC, number, MS)
        made.deliver("A", TOPIC, number, MS)
        made.duplicate("B", TOPIC, number, MS)
    assert [made.score(peer, MS) for peer in "AB"] == [100, 0]
    made.set_topic_parameters(TOPIC, GO_NUMBERS._replace(**{**topic, "first_cap": 50.0, "mesh_cap": 50.0}))
    assert [made.score(peer, MS) for peer in "AB"] == [50 - 2500, -2500]


def test_weights_change_at_once():
    """Rules: SCORE-5."""
    made = scorer("A", invalid_weight=-1.0)
    for number in range(100):
        made.validate(TOPIC, number, 0)
        made.reject("A", TOPIC, number, Reason.REJECTED, 0)
    assert made.score("A", 0) == -10000
    made.set_topic_parameters(TOPIC, GO_NUMBERS._replace(invalid_weight=-10.0))
    assert made.score("A", 0) == -100000
