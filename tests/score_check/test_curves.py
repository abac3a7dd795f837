"""Curves of scores, which the core's scorer computes; messages count in bundles, which do not change the curves."""

from __future__ import annotations

import pytest
from clean_set import checked

from hearsay.score_check.curves import MOST_TOPICS, PARTS, play_all, stage_of
from hearsay.score_check.subjects import subject_of_set
from hearsay.score_check.worth import worth_of

TRAFFIC_64_TIMES = {
    "score.topics.1.first_deliveries_cap": 500 * 64,
    "score.topics.1.first_deliveries_weight": 0.01 / 64,
    "score.topics.1.mesh_deliveries_cap": 200 * 64,
    "score.topics.1.mesh_deliveries_threshold": 30 * 64,
    "score.topics.1.mesh_deliveries_weight": -0.075 / 64**2,
    "score.topics.1.mesh_failure_weight": -0.075 / 64**2,
    "expect.topics.1.messages_per_s": 20 * 64,
}


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    return play_all(checked(tmp_path_factory.mktemp("clean"), {}).worth)


def find_curve(played, name):
    return next(each for each in played.curves if each.name == name)


def test_the_honest_peer_is_never_pruned_and_is_worth_what_a_usual_member_is(played):
    honest = find_curve(played, "honest")
    assert honest.first_pruned_s is None
    assert min(honest.scores) >= 0
    assert honest.scores[-1] == pytest.approx(played.stage.worth.usual, rel=0.05)


def test_every_misbehaviour_of_the_clean_set_is_found(played):
    others = [each for each in played.curves if each.name != "honest"]
    assert {each.name for each in others} == {
        "silent in blocks", "silent in votes", "late", "invalid messages", "broken promises", "shared address",
    }  # fmt: skip
    assert all(each.first_pruned_s is not None for each in others)


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("silent in blocks", "mesh failures"),
        ("late", "mesh failures"),
        ("invalid messages", "invalid messages"),
        ("broken promises", "misbehaviour"),
        ("shared address", "shared addresses"),
    ],
)
def test_a_misbehaviour_shows_in_its_part_and_in_no_other(played, name, part):
    found = find_curve(played, name)
    lowest = {each: min(values) for each, values in zip(PARTS, found.parts, strict=True)}
    assert lowest[part] < 0
    expected_parts = {part, "mesh deliveries", "mesh failures"}
    assert {each for each in lowest if each not in expected_parts and lowest[each] < 0} == set()


def test_parts_add_up_to_the_score_below_the_cap(played):
    found = find_curve(played, "silent in blocks")
    for place, score in enumerate(found.scores):
        whole = sum(values[place] for values in found.parts)
        assert score == pytest.approx(min(whole, 20.0))


def test_messages_in_bundles_make_the_same_curves(played, tmp_path):
    """64 times the traffic, with caps, thresholds and weights scaled to it, gives the same curves."""
    many = play_all(checked(tmp_path, TRAFFIC_64_TIMES).worth)
    for before, after in zip(played.curves, many.curves, strict=True):
        assert before.first_pruned_s == after.first_pruned_s
        assert after.scores == pytest.approx(before.scores, rel=0.02, abs=0.5)


def test_curves_are_the_same_every_time():
    worth = worth_of(subject_of_set("hardening"))
    assert play_all(worth) == play_all(worth)


def test_few_topics_are_played_of_thousands(tmp_path):
    topics = {f"score.topics.{2 + number}": topic_table(number) for number in range(2000)}
    expected = {f"expect.topics.{2 + number}": {"topic": f"t{number}", "messages_per_s": 5} for number in range(2000)}
    stage = stage_of(checked(tmp_path, {**topics, **expected}).worth)
    assert (len(stage.played), stage.left_out) == (MOST_TOPICS, 2002 - MOST_TOPICS)
    bundles = sum(topic.bundles for topic in stage.topics()) * stage.refreshes
    assert bundles <= 40_000 + stage.refreshes * MOST_TOPICS


def topic_table(number):
    return {
        "topic": f"t{number}",
        "topic_weight": 1 + number,
        "time_in_mesh_quantum_ms": 1000,
        "first_deliveries_weight": 1,
        "first_deliveries_decay": 0.5,
        "first_deliveries_cap": 10,
        "invalid_messages_weight": -1000,
        "invalid_messages_decay": 0.99,
    }
