"""Numbers of the named score sets, as their sources publish or compute them."""

from __future__ import annotations

import pytest
from scoring import MS, SECOND

from hearsay.core.language.actions import Reason
from hearsay.core.scores.named_sets import NAMES, named_set
from hearsay.core.scores.score_parameters import ANY_TOPIC, ScoreSet
from hearsay.core.scores.scorer import Scorer
from hearsay.core.shell.parameters import ParameterError

BLOCK, AGGREGATE, SUBNET = "beacon_block", "beacon_aggregate_and_proof", "beacon_attestation"


def scorer_of(name: str, topic: str, table: str | None = None) -> Scorer:
    """Return a scorer that scores one topic by a table of a set, by default the table of the topic's name."""
    found = named_set(name)
    return Scorer(found.peer, {topic: found.topics[table or topic].numbers()})


@pytest.mark.parametrize("name", NAMES)
def test_a_named_set_comes_back_from_its_tables(name):
    """Rules: PARAMETERS-4."""
    made = named_set(name)
    again = ScoreSet.from_mapping(made.to_mapping())
    assert [again.peer, again.thresholds, again.topics] == [made.peer, made.thresholds, made.topics]


def test_unknown_sets_and_invalid_numbers_of_validators_are_refused():
    with pytest.raises(ParameterError, match="set = 'gerbil': must be one of go, rust, js"):
        named_set("gerbil")
    with pytest.raises(ParameterError, match="validators = 5: must be in 2048…100000000"):
        named_set("ethereum", 5)


@pytest.mark.parametrize(
    ("name", "thresholds"),
    [
        ("go", (0, 0, 0, 0, 0)),
        ("rust", (-10, -50, -80, 10, 20)),
        ("js", (-10, -50, -80, 10, 20)),
        ("nim", (-100, -1000, -10000, 0, 0)),
        ("jvm", (0, 0, 0, 0, 0)),
        ("ethereum", (-4000, -8000, -16000, 100, 5)),
        ("lighthouse", (-4000, -8000, -16000, 100, 5)),
        ("ethereum-prysm", (-4000, -8000, -16000, 100, 5)),
        ("filecoin", (-500, -1000, -2500, 1000, 3.5)),
        ("hardening", (-4000, -5000, -10000, 0, 0)),
    ],
)
def test_thresholds(name, thresholds):
    assert tuple(named_set(name).thresholds.to_mapping().values()) == thresholds


@pytest.mark.parametrize(
    ("validators", "topic", "first", "mesh", "invalid"),
    [
        (51_000, BLOCK, (1.14716, 0.99283, 34.8687), (0.971628, 0.684919, 2.05476, -458.311, 384), -215),
        (51_000, AGGREGATE, (0.107649, 0.865964, 371.578), (0.930572, 53.4042, 213.617, -0.0753853, 384), -215),
        (51_000, SUBNET, (0.861192, 0.865964, 46.4472), (0.964662, 13.5956, 217.53, -37.2213, 204), -6880),
        (1_000_000, BLOCK, (1.14716, 0.99283, 34.8687), (0.971628, 0.684919, 2.05476, -458.311, 384), -215),
        (1_000_000, AGGREGATE, (0.0205879, 0.865964, 1942.89), (0.930572, 279.238, 1116.95, -0.00275734, 384), -215),
        (1_000_000, SUBNET, (0.0439208, 0.865964, 910.73), (0.964662, 266.581, 4265.29, -0.0968125, 204), -6880),
    ],
)
def test_ethereum(validators, topic, first, mesh, invalid):
    """Published values are those for 51 000 validators."""
    made = named_set("ethereum", validators).topics[topic]
    close = pytest.approx
    found = made.first_deliveries_weight, made.first_deliveries_decay, made.first_deliveries_cap
    assert found == close(first, rel=5e-6)
    assert (
        made.mesh_deliveries_decay,
        made.mesh_deliveries_threshold,
        made.mesh_deliveries_cap,
        made.mesh_deliveries_weight,
        made.mesh_deliveries_activation_ms / 1000,
    ) == close(mesh, rel=5e-6)
    assert (made.mesh_failure_weight, made.mesh_failure_decay) == close((mesh[3], mesh[0]), rel=5e-6)
    assert made.invalid_messages_weight == invalid


def test_ethereum_as_a_whole():
    peer = named_set("ethereum").peer
    assert [peer.topic_cap, peer.shared_address_weight, peer.shared_address_threshold] == [53.75, -53.75, 3]
    assert [peer.misbehaviour_decay, peer.retain_ms] == [pytest.approx(0.98571, rel=5e-6), 100 * 384_000]
    block = named_set("ethereum").topics[BLOCK]
    assert [block.time_in_mesh_weight, block.invalid_messages_decay] == pytest.approx([0.03333, 0.99713], rel=2e-4)


@pytest.mark.parametrize("topic", [BLOCK, AGGREGATE, SUBNET])
def test_silence_in_one_topic_outweighs_all_others_with_ethereums(topic):
    """An active peer that delivers nothing in a topic loses 107.5; all other topics together give at most 53.75.
    Rules: SCORE-3."""
    made = scorer_of("ethereum", topic)
    made.connect("A")
    made.graft("A", topic, 0)
    later = 2_000 * SECOND
    made.refresh(later)
    topic_score = made.parts("A", later).topics[0][1]
    weight = named_set("ethereum").topics[topic].topic_weight
    assert topic_score.mesh_deliveries * weight == pytest.approx(-107.5)


def test_prysm_does_not_score_mesh_deliveries():
    made = named_set("ethereum-prysm")
    assert [made.peer.topic_cap, made.topics[BLOCK].invalid_messages_weight] == [32.72, -140.4475]
    assert {parameters.mesh_deliveries_weight for parameters in made.topics.values()} == {0}
    assert sum(made.topics[name].topic_weight for name in (BLOCK, AGGREGATE)) == 1.3
    assert SUBNET not in named_set("ethereum-prysm", 2_048).topics


def test_filecoin():
    made = named_set("filecoin")
    blocks = made.topics["blocks"]
    assert [blocks.first_deliveries_decay, made.peer.misbehaviour_decay] == [0.9987216039048303] * 2
    assert blocks.mesh_deliveries_weight == 0
    assert [made.topics[name].gater_weight for name in ("blocks", "messages", "drand")] == [10, 1, 5]


def test_lighthouse_does_not_make_up_for_rare_messages():
    """The largest deficits of mesh deliveries, for 1 000 000 validators (Lighthouse, 2026)."""
    made = named_set("lighthouse")
    lost = {
        topic: made.topics[topic].topic_weight
        * made.topics[topic].mesh_deliveries_weight
        * made.topics[topic].mesh_deliveries_threshold ** 2
        for topic in (BLOCK, AGGREGATE, SUBNET)
    }
    assert lost == pytest.approx({BLOCK: -0.1173, AGGREGATE: -19_493.5, SUBNET: -17.35}, rel=1e-3)
    assert made.topics[BLOCK].mesh_deliveries_cap == pytest.approx(2.05476, rel=5e-6)
    assert [made.peer.shared_address_threshold, made.peer.slow_peer_weight, made.peer.slow_peer_decay] == [
        8,
        -10,
        0.1,
    ]
    assert made.thresholds == named_set("ethereum").thresholds


def test_a_silent_peer_in_the_evaluation_of_2020():
    """It loses 6.25 after a minute in the mesh, and keeps this loss after it is pruned. Rules: SCORE-3, SCORE-4."""
    made = scorer_of("hardening", "news", ANY_TOPIC)
    made.connect("A")
    made.graft("A", "news", 0)
    made.refresh(60 * SECOND)
    assert made.score("A", 60 * SECOND) > 0
    made.refresh(61 * SECOND)
    parts = made.parts("A", 61 * SECOND)
    assert 0.25 * parts.topics[0][1].mesh_deliveries == -6.25
    assert parts.score == pytest.approx(-6.25 + 0.25 * 61 * 0.0027)
    made.prune("A", "news", 61 * SECOND)
    made.graft("A", "news", 62 * SECOND)
    assert made.score("A", 62 * SECOND) == -6.25


def test_invalid_messages_in_the_evaluation_of_2020():
    """Rules: SCORE-5."""
    made = scorer_of("hardening", "news", ANY_TOPIC)
    made.connect("A")
    for number in range(1, 5):
        made.reject("A", "news", number, Reason.BAD_SIGNATURE, number * MS)
        assert made.score("A", number * MS) == -24.75 * number * number
