"""Peers that are silent in a topic: in which public networks scores find them, and after which time
(arXiv 2212.05197).

The weights of the generator of 2020 find a peer that is silent in exactly one scored topic. Lighthouse's weights find
the peer in one topic of three. Prysm and Filecoin score no deliveries, so they find no silent peer. No set finds a
silent peer in a topic that is not scored.
"""

from __future__ import annotations

import pytest
from clean_set import checked

from hearsay.core.scores.scorer import Scorer
from hearsay.score_check.check import check_subject
from hearsay.score_check.curves import play_all
from hearsay.score_check.offences import Verdict, most_silent
from hearsay.score_check.subjects import subject_of_set
from hearsay.score_check.worth import worth_of

BLOCK, AGGREGATE, SUBNET = "beacon_block", "beacon_aggregate_and_proof", "beacon_attestation"


def find_silences(name):
    found = check_subject(subject_of_set(name))
    return {each.group.name: each for each in found.silences}, found.worth


def deficits(worth):
    return {topic.group.name: topic.deficit for topic in worth.topics if topic.has_p3}


def test_two_names_of_one_topic_are_one_topic():
    """Lotus gives at most 50 for blocks, 5 for messages and 62.5 for drand, and a little for time in mesh."""
    found, worth = find_silences("filecoin")
    assert set(found) == {"blocks", "msgs", "drand"}
    assert worth.best == pytest.approx(117.5, abs=0.001)


def test_the_generator_of_2020_finds_silence_in_one_topic_after_the_activation():
    found, worth = find_silences("ethereum")
    assert deficits(worth) == pytest.approx(dict.fromkeys((BLOCK, AGGREGATE, SUBNET), -107.5))
    assert worth.best == 53.75
    assert worth.all_topics == pytest.approx(107.5)
    remains = {BLOCK: -20.0, AGGREGATE: -20.0, SUBNET: -0.625}
    for topic, score in remains.items():
        assert found[topic].verdict is Verdict.CAUGHT
        assert found[topic].score == pytest.approx(score)
    assert [found[topic].from_start_s for topic in (BLOCK, AGGREGATE, SUBNET)] == [396, 396, 216]


def test_lighthouse_finds_silence_only_among_aggregates():
    found, worth = find_silences("lighthouse")
    assert deficits(worth) == pytest.approx({BLOCK: -0.1173, AGGREGATE: -19_494, SUBNET: -17.35}, rel=1e-3)
    verdicts = [found[topic].verdict for topic in (BLOCK, AGGREGATE, SUBNET)]
    assert verdicts == [Verdict.OUTWEIGHED, Verdict.CAUGHT, Verdict.OUTWEIGHED]
    assert found[AGGREGATE].score < worth.subject.score.thresholds.graylist
    assert [found[topic].score for topic in (BLOCK, SUBNET)] == [53.75, 53.75]


def test_lighthouse_finds_silence_in_many_subnets_at_once():
    """107.5 less 2 for each of the three topics that have no P3, and less 18 for each silent subnet."""
    _, worth = find_silences("lighthouse")
    chosen = {topic.group.name: many for topic, many in most_silent(worth)}
    assert chosen == {"voluntary_exit": 1, "proposer_slashing": 1, "attester_slashing": 1, SUBNET: 5}
    subnet = next(topic for topic in worth.topics if topic.group.name == SUBNET)
    assert worth.score(worth.all_topics - 3 * 2 - 5 * subnet.lost) >= 0
    assert worth.score(worth.all_topics - 3 * 2 - 6 * subnet.lost) < 0


@pytest.mark.parametrize("name", ["ethereum-prysm", "filecoin"])
def test_a_set_without_scores_of_deliveries_never_finds_silence(name):
    found, worth = find_silences(name)
    assert {each.verdict for each in found.values()} == {Verdict.NOT_EXPECTED}
    assert all(each.score >= 0 and each.from_start_s is None for each in found.values())
    assert sum(many for _, many in most_silent(worth)) == sum(topic.group.count for topic in worth.topics)


def test_silence_in_a_topic_that_is_not_scored_is_never_found(tmp_path):
    found = checked(tmp_path, {"expect.topics.2": {"topic": "columns", "count": 128, "messages_per_s": 1}})
    column = found.silences[-1]
    assert (column.group.count, column.verdict, column.score) == (128, Verdict.UNSCORED, 20)


@pytest.mark.parametrize("name", ["ethereum", "lighthouse", "hardening"])
def test_silent_peers_are_pruned_as_the_verdicts_predict(name):
    """The core's scorer prunes a silent peer at the time of the closed form, or never."""
    found, worth = find_silences(name)
    silent = {curve.name.removeprefix("silent in "): curve for curve in play_all(worth).curves}
    silent_topics = {topic: each for topic, each in found.items() if topic in silent}
    assert len(silent_topics) == min(3, len(found))
    for topic, each in silent_topics.items():
        assert silent[topic].first_pruned_s == each.from_start_s


def test_a_peer_that_stops_is_found_later_than_one_that_never_began():
    found, _ = find_silences("ethereum")
    assert [found[topic].from_stop_s for topic in (BLOCK, AGGREGATE, SUBNET)] == [1644, 624, 2880]


def test_a_peer_that_stops_is_found_when_the_verdict_predicts(tmp_path):
    """By the core's scorer: the peer is at every cap, then silent among blocks, but stays at the caps of votes."""
    found = checked(tmp_path, {})
    score = found.subject.score
    votes = score.topics["votes"].numbers()
    topics = {"blocks": score.topics["blocks"].numbers(), "votes": votes._replace(weight=4 * votes.weight)}
    scorer, interval = Scorer(score.peer, topics), score.peer.decay_interval_us
    scorer.connect("peer")
    for topic in topics:
        scorer.graft("peer", topic, 0)
    for refresh in range(1, 302):
        scorer.refresh(refresh * interval)
    deliver(scorer, "blocks", 25, 301 * interval)
    silent = 0
    for silent in range(1, 200):
        now = (301 + silent) * interval
        scorer.refresh(now)
        deliver(scorer, "votes", 500, now)
        if scorer.score("peer", now) < 0:
            break
    assert found.silences[0].from_stop_s == silent


def deliver(scorer, topic, many, now):
    for number in range(many):
        message = f"{topic} {now} {number}"
        scorer.validate(topic, message, now)
        scorer.deliver("peer", topic, message, now)


def test_thousands_of_topics_alike_are_one_group(tmp_path):
    found = checked(tmp_path, {"expect.topics.1.count": 1_000_000})
    votes = found.silences[1]
    assert (votes.group.count, votes.verdict) == (1_000_000, Verdict.OUTWEIGHED)
    assert worth_of(found.subject).all_topics == pytest.approx(8 + 8_000_000)
