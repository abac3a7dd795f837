"""Bounds of the collections that peers can make grow, and calls about unknown peers."""

from __future__ import annotations

import pytest
from scoring import MS, SECOND, TOPIC, scorer, sizes

from hearsay.core.language.actions import Reason

KEPT = {"retain_ms": 10_000, "misbehaviour_weight": -1, "misbehaviour_decay": 0.5}


def test_records_of_messages_are_bounded_and_end():
    """The oldest goes first. Rules: DELIVERY-8."""
    made = scorer("A", "B", peer={"max_deliveries": 3, "delivery_ttl_ms": 1_000}, invalid_weight=-1.0)
    for number in range(5):
        made.validate(TOPIC, number, number)
        made.duplicate("B", TOPIC, number, number)
    assert sizes(made)["delivery records"] == 3
    made.reject("A", TOPIC, 0, Reason.REJECTED, 5)
    made.reject("A", TOPIC, 4, Reason.REJECTED, 5)
    assert [made.score(peer, 5) for peer in "AB"] == [-4, -1]
    made.refresh(SECOND + 4)
    assert sizes(made)["delivery records"] == 2
    made.refresh(SECOND + 6)
    assert sizes(made)["delivery records"] == 0


def test_senders_of_copies_are_bounded():
    """Rules: DELIVERY-8."""
    made = scorer(*"ABCD", peer={"max_senders_per_delivery": 2}, mesh_cap=9.0, mesh_weight=-1.0, mesh_threshold=2.0)
    for peer in "ABCD":
        made.graft(peer, TOPIC, 0)
        made.duplicate(peer, TOPIC, 1, 0)
    made.refresh(MS)
    made.deliver("D", TOPIC, 1, MS)
    made.duplicate("C", TOPIC, 1, MS)
    assert [made.score(peer, MS) for peer in "ABCD"] == [-1, -1, -4, -1]


def test_a_copy_counts_once():
    """Rules: DELIVERY-3."""
    made = scorer("A", "B", mesh_cap=9.0, mesh_weight=-1.0, mesh_threshold=4.0)
    made.graft("B", TOPIC, 0)
    for message in (1, 2):
        for _ in range(3):
            made.duplicate("B", TOPIC, message, 0)
        made.deliver("A", TOPIC, message, 0)
        for _ in range(3):
            made.duplicate("B", TOPIC, message, 0)
    made.refresh(MS)
    assert made.score("B", MS) == -4


def test_nothing_is_kept_of_topics_that_are_not_scored():
    """Rules: SCORE-6."""
    made = scorer("A", "B")
    made.graft("A", "other", 0)
    made.validate("other", 1, 0)
    made.duplicate("B", "other", 1, 0)
    made.deliver("A", "other", 1, 0)
    made.reject("A", "other", 2, Reason.REJECTED, 0)
    made.reject("A", "other", 3, Reason.BAD_SIGNATURE, 0)
    made.prune("A", "other", 0)
    assert sizes(made) == {"delivery records": 0, "retained peers": 0, "topic counters": 0, "addresses": 0}


def test_retained_peers_are_bounded():
    """Many peers connect and disconnect, so that a negative score is forgotten. Rules: RETAIN-5."""
    made = scorer("bad", "worse", peer={**KEPT, "max_retained_peers": 3})
    for peer in ("bad", "worse"):
        made.penalise(peer)
        made.disconnect(peer, 0)
    for number in range(10):
        made.connect(number)
        made.disconnect(number, number)
    assert sizes(made)["retained peers"] == 3
    assert [made.score(peer, 10) for peer in ("bad", "worse")] == [-1, -1]
    assert [number for number in range(10) if made.parts(number, 10)] == [9]
    for number in range(2):
        made.connect(number)
        made.penalise(number, 2)
        made.disconnect(number, 10 + number)
    assert [made.score(peer, 11) for peer in ("bad", "worse", 0, 1)] == [0, -1, -4, -4]


def test_blame_of_a_disconnected_peer_does_not_extend_its_retention():
    """Rules: RETAIN-3. B disconnects later than A, and is blamed first."""
    made = scorer("A", "B", peer={**KEPT, "retain_ms": 10_000})
    made.disconnect("A", 0)
    made.penalise("B")
    made.disconnect("B", 5 * SECOND)
    made.penalise("A")
    made.refresh(11 * SECOND)
    assert [made.score(peer, 11 * SECOND) for peer in ("A", "B")] == [0, -1]


@pytest.mark.parametrize("event", ["a broken promise", "a verdict", "a copy"])
def test_blame_of_a_disconnected_peer_is_retained(event):
    """Rules: RETAIN-5."""
    made = scorer("A", "B", peer={**KEPT, "max_retained_peers": 2}, invalid_weight=-1.0)
    made.disconnect("A", 0)
    made.validate(TOPIC, 1, 0)
    if event == "a copy":
        made.duplicate("A", TOPIC, 1, 0)
    if event == "a broken promise":
        made.penalise("A")
    else:
        made.reject("A" if event == "a verdict" else "B", TOPIC, 1, Reason.REJECTED, 0)
    for number in range(5):
        made.connect(number)
        made.disconnect(number, number)
    assert made.score("A", 5) == -1


def test_addresses_of_a_peer_are_bounded():
    """Rules: ADDRESS-4."""
    peer = {"shared_address_weight": -1, "shared_address_threshold": 1, "max_addresses_per_peer": 2}
    made = scorer(peer=peer)
    made.connect("A", ["1.0.0.1", "1.0.0.2", "1.0.0.3"])
    made.connect("B", ["1.0.0.3"])
    made.connect("C", ["1.0.0.2"])
    assert [made.score(peer, 0) for peer in "ABC"] == [-1, 0, -1]
    assert sizes(made)["addresses"] == 3
    for name in "ABC":
        made.set_addresses(name, [])
    assert sizes(made)["addresses"] == 0


def test_calls_about_unknown_peers_change_nothing():
    """Rules: SCORE-11."""
    made = scorer()
    made.disconnect("A", 0)
    made.graft("A", TOPIC, 0)
    made.prune("A", TOPIC, 0)
    made.deliver("A", TOPIC, 1, 0)
    made.deliver(None, TOPIC, 2, 0)
    made.duplicate("A", TOPIC, 1, 0)
    made.reject("A", TOPIC, 3, Reason.REJECTED, 0)
    made.penalise("A")
    made.set_application_score("A", 5)
    assert made.score("A", 0) == 0
    assert made.parts("A", 0) is None


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1])
def test_invalid_numbers_are_refused(value):
    made = scorer("A")
    for call in (made.penalise, made.penalise_slow):
        with pytest.raises(ValueError, match="must be in"):
            call("A", value)
    if value != -1:
        with pytest.raises(ValueError, match="must be in"):
            made.set_application_score("A", value)


def test_a_score_is_the_sum_of_its_parts():
    """Rules: SCORE-6, SCORE-11."""
    made = scorer(
        "A",
        peer={**KEPT, "topic_cap": 3, "application_weight": 2, "slow_peer_weight": -1, "slow_peer_decay": 0.5},
        weight=0.5,
        time_in_mesh_weight=1.0,
        time_in_mesh_cap=10.0,
        first_weight=8.0,
        first_cap=9.0,
        invalid_weight=-2.0,
    )
    made.graft("A", TOPIC, 0)
    made.deliver("A", TOPIC, 1, 0)
    made.reject("A", TOPIC, 2, Reason.REJECTED, 0)
    made.set_application_score("A", 0.25)
    made.refresh(4 * SECOND)
    made.penalise("A", 3)
    made.penalise_slow("A", 5)
    parts = made.parts("A", 4 * SECOND)
    assert parts.score == made.score("A", 4 * SECOND) == 3 + 0.5 - 9 - 5
    assert parts.peer == (3, 0.5, 0, -9, -5)
    assert parts.topics == ((TOPIC, (4, 8, 0, 0, -2)),)
    made.set_application_score("A", 0)
    assert made.parts("A", 4 * SECOND).peer.application == 0


def test_the_cap_of_topics_is_an_upper_bound_only():
    """Rules: SCORE-6."""
    made = scorer("A", peer={"topic_cap": 3}, invalid_weight=-10.0)
    made.reject("A", TOPIC, 2, Reason.REJECTED, 0)
    assert made.score("A", 0) == -10
