"""Parameters in which scores of implementations differ: all their choices, and the resulting scores."""

from __future__ import annotations

import pytest
from scoring import MS, SECOND, TOPIC, deliver, scorer

from hearsay.core.language.actions import Reason
from hearsay.core.scores.declarations import InvalidCopies, Ipv6Counting, MeshTimes, QuantumRounding, RetainedScores

MEMBER = {"time_in_mesh_weight": 1.0, "time_in_mesh_cap": 100.0}


@pytest.mark.parametrize(("rounding", "score"), [(QuantumRounding.WHOLE, 2), (QuantumRounding.FRACTION, 2.75)])
def test_quanta_in_the_mesh(rounding, score):
    """Rules: SCORE-1."""
    made = scorer("A", peer={"time_in_mesh_quanta": rounding}, **MEMBER)
    made.graft("A", TOPIC, 0)
    made.refresh(2_750 * MS)
    assert made.score("A", 2_750 * MS) == score


@pytest.mark.parametrize(("times", "scores"), [(MeshTimes.LAST_REFRESH, [0, 1]), (MeshTimes.NOW, [3, 4])])
def test_time_in_the_mesh_is_that_of_the_last_refresh_or_of_now(times, scores):
    """Rules: SCORE-1, ACTIVE-2."""
    made = scorer("A", peer={"mesh_times": times}, **MEMBER)
    made.graft("A", TOPIC, 0)
    before = made.score("A", 3 * SECOND)
    made.refresh(SECOND)
    assert [before, made.score("A", 4 * SECOND)] == scores


@pytest.mark.parametrize(("times", "score"), [(MeshTimes.LAST_REFRESH, 0), (MeshTimes.NOW, -100)])
def test_deliveries_are_expected_from_a_refresh_on_or_from_now(times, score):
    """Rules: ACTIVE-1, ACTIVE-2."""
    made = scorer("A", peer={"mesh_times": times}, mesh_weight=-1.0, mesh_threshold=10.0, activation=SECOND)
    made.graft("A", TOPIC, 0)
    assert made.score("A", SECOND) == 0
    assert made.score("A", SECOND + 1) == score


@pytest.mark.parametrize("times", MeshTimes)
@pytest.mark.parametrize(("deficit_counts", "scores"), [(True, [-100, -100, 0]), (False, [-100, 0, 0])])
def test_a_deficit_after_the_mesh(times, deficit_counts, scores):
    """Rules: ACTIVE-3."""
    made = scorer(
        "A", peer={"mesh_times": times, "deficit_after_prune": deficit_counts}, mesh_weight=-1.0, mesh_threshold=10.0
    )
    made.graft("A", TOPIC, 0)
    made.refresh(SECOND)
    found = [made.score("A", SECOND)]
    made.prune("A", TOPIC, SECOND)
    found.append(made.score("A", SECOND))
    made.graft("A", TOPIC, 2 * SECOND)
    found.append(made.score("A", 2 * SECOND))
    assert found == scores


@pytest.mark.parametrize(
    ("deficit_counts", "second_counts", "scores"),
    [(True, True, [-100, -200]), (True, False, [-100, -100]), (False, True, [-100, -100])],
)
def test_a_second_prune_counts_by_parameter(deficit_counts, second_counts, scores):
    """Rules: ACTIVE-4."""
    made = scorer(
        "A",
        peer={"deficit_after_prune": deficit_counts, "second_prune_counts": second_counts},
        failure_weight=-1.0,
        mesh_threshold=10.0,
    )
    made.graft("A", TOPIC, 0)
    made.refresh(SECOND)
    found = []
    for _ in range(2):
        made.prune("A", TOPIC, SECOND)
        found.append(made.score("A", SECOND))
    assert found == scores


@pytest.mark.parametrize(
    ("blamed", "scores"), [(InvalidCopies.ALL, [-1, -1, -4]), (InvalidCopies.MEMBERS, [-1, -1, 0])]
)
def test_senders_that_are_blamed_for_copies_of_invalid_messages(blamed, scores):
    """A is the first sender, B is in the mesh, C is not. Rules: DELIVERY-4."""
    made = scorer("A", "B", "C", peer={"invalid_copies": blamed}, invalid_weight=-1.0)
    made.graft("B", TOPIC, 0)
    made.validate(TOPIC, 1, 0)
    made.duplicate("B", TOPIC, 1, 0)
    made.duplicate("C", TOPIC, 1, 0)
    made.reject("A", TOPIC, 1, Reason.REJECTED, 0)
    made.duplicate("C", TOPIC, 1, 0)
    assert [made.score(peer, 0) for peer in "ABC"] == scores


KEPT = {"retain_ms": 10_000, "misbehaviour_weight": -1, "misbehaviour_decay": 0.5, "application_weight": 1}


@pytest.mark.parametrize(
    ("kept", "good", "bad"),
    [
        (RetainedScores.NOT_POSITIVE, 0, -4),
        (RetainedScores.ALL, -4, -4),
        (RetainedScores.UNTIL_RETURN, 0, 0),
    ],
)
def test_retained_scores_by_implementation(kept, good, bad):
    """Both misbehave. The deliveries of `good` outweigh it until the disconnection. Rules: RETAIN-1, RETAIN-3."""
    made = scorer("good", "bad", peer={**KEPT, "retained_scores": kept}, first_weight=5.0, first_cap=9.0)
    deliver(made, "good", 1)
    for peer in ("good", "bad"):
        made.penalise(peer, 2)
    assert [made.score(peer, 0) for peer in ("good", "bad")] == [1, -4]
    for peer in ("good", "bad"):
        made.disconnect(peer, 0)
    assert made.score("bad", SECOND) == -4
    for peer in ("good", "bad"):
        made.connect(peer)
    assert [made.score(peer, SECOND) for peer in ("good", "bad")] == [good, bad]


def test_nothing_is_retained_without_a_retention_time():
    """Rules: RETAIN-1."""
    made = scorer("A", peer={**KEPT, "retain_ms": 0})
    made.penalise("A")
    made.disconnect("A", 0)
    assert made.parts("A", 0) is None


def test_a_retained_peer_leaves_the_mesh_without_first_deliveries():
    """Rules: RETAIN-2, ACTIVE-4."""
    made = scorer(
        "A", peer=KEPT, first_weight=1.0, first_cap=9.0, failure_weight=-1.0, mesh_threshold=10.0, mesh_cap=9.0
    )
    made.graft("A", TOPIC, 0)
    deliver(made, "A", 1)
    made.refresh(SECOND)
    made.penalise("A", 4)
    made.disconnect("A", SECOND)
    assert made.score("A", SECOND) == -81 - 16
    made.disconnect("A", SECOND)
    assert made.score("A", SECOND) == -81 - 16


@pytest.mark.parametrize(("decays", "score"), [(False, -16), (True, -4)])
def test_scores_of_disconnected_peers_decay_by_parameter(decays, score):
    """Rules: RETAIN-4."""
    made = scorer("A", peer={**KEPT, "decay_while_away": decays})
    made.penalise("A", 4)
    made.disconnect("A", 0)
    made.refresh(SECOND)
    assert made.score("A", SECOND) == score
    made.connect("A")
    made.refresh(2 * SECOND)
    assert made.score("A", 2 * SECOND) == score / 4


def test_the_last_instant_of_retention():
    """Rules: RETAIN-3."""
    made = scorer("A", peer={**KEPT, "retain_ms": 1_000})
    made.penalise("A")
    made.disconnect("A", 0)
    made.refresh(SECOND)
    assert made.score("A", SECOND) == -1
    made.refresh(SECOND + 1)
    assert made.parts("A", SECOND + 1) is None


COLOCATED = {"shared_address_weight": -1, "shared_address_threshold": 1}
NEIGHBOURS = {"A": "2001:db8::1", "B": "2001:db8::1", "C": "2001:db8::2", "D": "2001:db8:0:1::1"}


@pytest.mark.parametrize(
    ("counting", "scores"),
    [
        (Ipv6Counting.WHOLE_AND_PREFIX, [-5, -5, -4, 0]),
        (Ipv6Counting.PREFIX, [-4, -4, -4, 0]),
        (Ipv6Counting.WHOLE, [-1, -1, 0, 0]),
        (Ipv6Counting.NOT, [0, 0, 0, 0]),
    ],
)
def test_ipv6_addresses(counting, scores):
    """Rules: ADDRESS-2."""
    made = scorer(peer={**COLOCATED, "ipv6_addresses": counting})
    for peer, address in NEIGHBOURS.items():
        made.connect(peer, [address])
    assert [made.score(peer, 0) for peer in NEIGHBOURS] == scores


@pytest.mark.parametrize(
    ("address", "other", "score"),
    [
        ("127.0.0.1", "127.0.0.1", 0),
        ("::1", "::1", 0),
        ("::ffff:127.0.0.1", "127.0.0.1", 0),
        ("::ffff:1.2.3.4", "1.2.3.4", -1),
        ("fe80::1%eth0", "fe80::1%eth1", -2),
        ("cellar-3", "cellar-3", -1),
        ("cellar-3", "cellar-4", 0),
        ("", "", 0),
        ("10.1.2.3", "10.1.2.3", 0),
        ("2001:db8::1", "2001:db8::1", 0),
    ],
)
def test_which_addresses_count(address, other, score):
    """Rules: ADDRESS-1."""
    made = scorer(peer={**COLOCATED, "shared_address_allowed": ("10.0.0.0/8", "2001:db8::/32")})
    made.connect("A", [address])
    made.connect("B", [other])
    assert made.score("A", 0) == score


def test_a_disconnected_peer_counts_at_its_address():
    """Rules: ADDRESS-3."""
    made = scorer(peer={**COLOCATED, "retain_ms": 1_000})
    for peer in "AB":
        made.connect(peer, ["1.2.3.4"])
    made.disconnect("B", 0)
    assert made.score("A", 0) == -1
    made.refresh(SECOND + 1)
    assert made.score("A", SECOND + 1) == 0


def test_a_change_of_address_changes_the_count_of_both_addresses():
    """Rules: ADDRESS-1."""
    made = scorer(peer=COLOCATED)
    for peer in "AB":
        made.connect(peer, ["1.2.3.4"])
    made.set_addresses("B", ["1.2.3.5"])
    made.set_addresses("stranger", ["1.2.3.4"])
    assert [made.score(peer, 0) for peer in "AB"] == [0, 0]


@pytest.mark.parametrize(("weight", "score"), [(0, 0), (-0.5, -1)])
def test_slow_peers(weight, score):
    """The excess is not squared. Rules: SCORE-10, COUNTER-2."""
    made = scorer("A", peer={"slow_peer_weight": weight, "slow_peer_threshold": 2, "slow_peer_decay": 0.5})
    made.penalise_slow("A", 4)
    made.penalise_slow("stranger")
    assert made.score("A", 0) == score
    made.refresh(0)
    assert made.score("A", 0) == 0
