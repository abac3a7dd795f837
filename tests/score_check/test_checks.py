"""Each check finds its fault, and none finds a fault in a set without faults."""

from __future__ import annotations

import pytest
from clean_set import CLEAN, checked

from hearsay.score_check.check import CHECKS, IDS, check_subject, chosen
from hearsay.score_check.subjects import read_subject

BLOCKS, VOTES, THRESHOLDS = "score.topics.0", "score.topics.1", "score.thresholds"
NO_P6_P7 = {"score.shared_address_weight": 0, "score.misbehaviour_weight": 0}
NO_P3 = {f"{BLOCKS}.mesh_deliveries_weight": 0, f"{VOTES}.mesh_deliveries_weight": 0}
CHANGES = {
    "silence-outweighed": {f"{BLOCKS}.mesh_deliveries_weight": -10},
    "silence-in-many": {f"{VOTES}.mesh_deliveries_weight": -0.005},
    "silence-nowhere-expected": NO_P3,
    "silence-not-expected": {f"{BLOCKS}.mesh_deliveries_weight": 0},
    "topic-unscored": {"expect.topics.0": {"topic": "news", "messages_per_s": 1}},
    "time-outweighs-silence": {f"{BLOCKS}.time_in_mesh_weight": 3},
    "silence-graylists": {f"{BLOCKS}.mesh_deliveries_weight": -200},
    "failure-not-scored": {f"{BLOCKS}.mesh_failure_weight": 0},
    "failure-fades": {f"{BLOCKS}.mesh_failure_decay": 0.9},
    "window-mirrors": {f"{BLOCKS}.mesh_deliveries_window_ms": 40},
    "threshold-out-of-reach": {f"{BLOCKS}.mesh_deliveries_cap": 1.5},
    "idle-prunes": {"expect.topics.0.messages_per_s": 0.001},
    "idle-costs": {"expect.topics.0.messages_per_s": 0.3},
    "pause-prunes": {"expect.topics.0.messages_per_s": 0.5},
    "activation-early": {f"{BLOCKS}.mesh_deliveries_activation_ms": 10_000},
    "traffic-unknown": {"expect.topics.0.messages_per_s": None},
    "invalid-unpunished": {f"{BLOCKS}.invalid_messages_weight": 0},
    "invalid-cheap": {f"{BLOCKS}.invalid_messages_weight": -0.1},
    "invalid-forgotten": {f"{BLOCKS}.invalid_messages_weight": -10, f"{BLOCKS}.invalid_messages_decay": 0.2},
    "misbehaviour-unpunished": {"score.misbehaviour_weight": 0},
    "misbehaviour-forgotten": {"score.misbehaviour_decay": 0.2, "expect.promises_per_heartbeat": 1},
    "addresses-unpunished": {"score.shared_address_weight": 0},
    "address-of-household": {"score.shared_address_threshold": 1},
    "offence-cheap": {"score.misbehaviour_weight": -0.0001},
    "forgotten-in-backoff": {"score.retain_ms": 59_999},
    "return-is-fresh": {"score.retained_scores": "until-return"},
    "decay-below-zero": {"score.misbehaviour_decay": 0.009},
    "threshold-unreachable": {
        **NO_P6_P7,
        **{f"{topic}.{part}_weight": 0 for topic in (BLOCKS, VOTES) for part in ("invalid_messages", "mesh_failure")},
        f"{THRESHOLDS}.graylist": -10_000,
    },
    "threshold-at-zero": {f"{THRESHOLDS}.{name}": 0 for name in ("gossip", "publish", "graylist")},
    "thresholds-equal": {f"{THRESHOLDS}.gossip": -100},
    "invalid-graylists": {f"{BLOCKS}.invalid_messages_weight": -201},
    "exchange-unreachable": {f"{THRESHOLDS}.accept_exchange": 21},
    "exchange-from-anyone": {f"{THRESHOLDS}.accept_exchange": 0},
    "opportunity-unreachable": {f"{THRESHOLDS}.opportunistic_graft": 21},
    "opportunity-off": {f"{THRESHOLDS}.opportunistic_graft": 0},
    "refused-incomplete": {
        f"{BLOCKS}.validation": "selective",
        **{f"{BLOCKS}.time_in_mesh_{name}": 0 for name in ("weight", "quantum_ms", "cap")},
    },
    "refused-by-nim": {"score.decay_to_zero": 0.51},
    "refused-by-jvm": {f"{THRESHOLDS}.graylist": -100},
    "nothing-scored": {**NO_P6_P7, "score.topics": []},
    "topic-weightless": {f"{BLOCKS}.topic_weight": 0},
    "topic-not-there": {"expect.topics.0.topic": "block"},
    "first-cap-never-binds": {f"{BLOCKS}.first_deliveries_cap": 101},
    "first-cap-always-binds": {f"{BLOCKS}.first_deliveries_cap": 12},
    "mesh-cap-never-binds": {f"{BLOCKS}.mesh_deliveries_cap": 34},
    "time-cap-at-once": {f"{BLOCKS}.time_in_mesh_cap": 6},
    "weight-negligible": {f"{BLOCKS}.time_in_mesh_weight": 0.0001},
    "topic-cap-never-binds": {"score.topic_cap": 40},
    "topic-cap-missing": {"score.topic_cap": 0},
    "activation-within-refresh": {"score.decay_interval_ms": 31_000},
    "refresh-rare": {"score.decay_interval_ms": 60_000},
}


def test_there_is_a_fault_for_every_check():
    assert set(CHANGES) == set(IDS)
    assert len(set(IDS)) == len(CHECKS)


def test_a_clean_set_is_clean(tmp_path):
    assert checked(tmp_path, {}).findings == []


@pytest.mark.parametrize("id_", IDS)
def test_a_check_finds_its_fault(tmp_path, id_):
    found = [each for each in checked(tmp_path, CHANGES[id_]).findings if each.check == id_]
    assert found, CHANGES[id_]
    severity = next(each.severity for each in CHECKS if each.id == id_)
    assert all(each.words and each.severity == severity for each in found)


@pytest.mark.parametrize(
    ("changes", "absent"),
    [
        ({f"{BLOCKS}.mesh_deliveries_window_ms": 39}, "window-mirrors"),
        ({"expect.topics.0.messages_per_s": 0.9}, "pause-prunes"),
        ({f"{BLOCKS}.mesh_deliveries_activation_ms": 20_000}, "activation-early"),
        ({f"{BLOCKS}.mesh_deliveries_weight": -16}, "silence-outweighed"),
        ({f"{BLOCKS}.invalid_messages_weight": -199}, "invalid-graylists"),
        ({"score.misbehaviour_decay": 0.2, "expect.promises_per_heartbeat": 2}, "misbehaviour-forgotten"),
        ({"score.retain_ms": 60_000}, "forgotten-in-backoff"),
        ({"score.topic_cap": 39}, "topic-cap-never-binds"),
        ({f"{BLOCKS}.first_deliveries_cap": 99}, "first-cap-never-binds"),
    ],
)
def test_a_check_finds_nothing_just_within_its_bound(tmp_path, changes, absent):
    assert absent not in {each.check for each in checked(tmp_path, changes).findings}


@pytest.mark.parametrize(("dials", "found"), [("true", True), ("false", False)])
def test_exchange_from_any_peer_is_found_only_if_the_router_dials(tmp_path, dials, found):
    path = tmp_path / "scenario.toml"
    thresholds = "[router.score.thresholds]\naccept_exchange = 0\n"
    text = f'[router]\npreset = "hardening"\naccept_exchange = {dials}\n{thresholds}'
    path.write_text(text, encoding="utf-8")
    finding = [each for each in check_subject(read_subject(path)).findings if each.check == "exchange-from-anyone"]
    assert bool(finding) is found
    assert not any("if the router dials" in each.words for each in finding)


def test_a_finding_in_a_set_is_limited_to_routers_that_dial(tmp_path):
    found = checked(tmp_path, CHANGES["exchange-from-anyone"]).findings
    assert [each.words.endswith("if the router dials") for each in found] == [True]


def test_a_threshold_of_grafts_that_are_never_made_is_found(tmp_path):
    found = checked(tmp_path, {"expect.opportunistic_graft_ticks": 0}).findings
    assert [(each.check, each.figures["threshold"]) for each in found] == [("opportunity-off", 5)]
    off = {"expect.opportunistic_graft_ticks": 0, f"{THRESHOLDS}.opportunistic_graft": 0}
    assert checked(tmp_path, off).findings == []


def test_a_finding_says_where_and_by_which_figures(tmp_path):
    path = tmp_path / "score.toml"
    path.write_text(CLEAN.replace("mesh_deliveries_weight = -30", "mesh_deliveries_weight = -10"), encoding="utf-8")
    found = check_subject(read_subject(path)).findings[0]
    assert (found.check, found.topic, found.place) == (
        "silence-outweighed",
        "blocks",
        "score.topics.0.mesh_deliveries_weight",
    )
    assert path.read_text().splitlines()[found.line - 1] == "mesh_deliveries_weight = -10"
    assert found.figures == pytest.approx({"deficit": -22.5, "others": 32, "time_in_mesh": 3, "score": 12.5})


def test_the_least_rate_is_the_least(tmp_path):
    """At the rate that the finding names no peer is pruned; below that rate, members that deliver everything are."""
    idle = {"expect.topics.0.messages_per_s": 0.001, f"{BLOCKS}.mesh_deliveries_weight": -100_000}
    finding = next(each for each in checked(tmp_path, idle).findings if each.check == "idle-prunes")
    least = finding.figures["least_messages_per_s"]
    assert least == pytest.approx(1.5 * 0.03 / 0.97)
    for rate, pruned in ((least * 1.001, False), (least * 0.9, True)):
        found = checked(tmp_path, {**idle, "expect.topics.0.messages_per_s": rate}).findings
        assert ("idle-prunes" in {each.check for each in found}) is pruned


def test_checks_are_chosen_and_left_out():
    assert [each.id for each in chosen(["idle-costs", "idle-prunes"])] == ["idle-prunes", "idle-costs"]
    assert [each.id for each in chosen(["idle-costs", "idle-prunes"], ["idle-costs"])] == ["idle-prunes"]
    assert len(chosen((), ["idle-costs"])) == len(CHECKS) - 1
