"""Random sequences on the Rust router and on ours, and the few steps that show each of its known differences."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest
from foreign_peers import Missing

HERE = Path(__file__).parent / "differential"
sys.path.insert(0, str(HERE))

from compare import difference  # noqa: E402
from fault import Fault  # noqa: E402
from hearsay_side import play  # noqa: E402
from replay import Driver  # noqa: E402
from run_rust import CHOICES, COMPARISON, like_rust, start_driver  # noqa: E402
from rust_faults import FAULTS, to_sequence  # noqa: E402
from rust_sequences import MORE, STEPS, sequence  # noqa: E402

COUNT = 100


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    try:
        with start_driver() as started, like_rust():
            yield started
    except Missing as error:
        pytest.skip(f"NOT TESTED: {error}")


def test_nearly_all_sequences_are_equal_to_their_end(driver):
    outcomes = [COMPARISON.play(driver, sequence(seed, "")) for seed in range(2 * COUNT)]
    assert [outcome.unknown for outcome in outcomes if outcome.unknown] == []
    assert sum(not outcome.ended for outcome in outcomes) > 0.95 * len(outcomes)


@pytest.mark.parametrize("seed", [6608, 8079])
def test_a_pruned_peer_changes_the_choice_of_all_that_get_gossip(driver, seed):
    given = sequence(seed, "")
    assert COMPARISON.play(driver, given).unknown is None


@pytest.mark.parametrize("more", MORE)
def test_a_sequence_with_a_difference_ends_at_it(driver, more):
    outcomes = [COMPARISON.play(driver, sequence(seed, more)) for seed in range(COUNT)]
    assert [outcome.unknown for outcome in outcomes if outcome.unknown] == []
    assert {outcome.ended for outcome in outcomes} >= {"", more}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_known_difference(driver, fault: Fault):
    given = to_sequence(fault)
    ours, theirs = play(given, "rust")[-1], driver.play(given)["steps"][-1]
    last = given["steps"][-1:]
    assert difference(last, [fault.ours], [_only(ours, fault.ours)]) is None
    assert difference(last, [fault.expected], [_only(theirs, fault.expected)]) is None
    assert difference(last, [fault.ours], [fault.expected]) is not None


def _only(seen, kinds):
    return {kind: seen[kind] for kind in kinds}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("prune_trigger", "above_high"),
        ("short_mesh", "mesh_only"),
        ("median", "upper"),
        ("graft_on_subscribe", False),
        ("unsubscribed_graft", "taken_in"),
        ("direct_graft", "prune"),
        ("backoff_on_unsubscribe", False),
        ("backoff_when_not_joined", True),
        ("backoff_slack_heartbeats", 2),
        ("tracked_promises", "one"),
        ("ask_again_heartbeats", 3),
        ("skip_senders", False),
        ("idontwant_on_publish", True),
        ("heeds_idontwant", False),
        ("exchange_always", True),
        ("mesh_before_gossip", True),
        ("opportunity_choice", "first_from"),
        ("outbound_when_full", "never"),
        ("graylisted_subscriptions", False),
    ],
)
def test_the_comparison_finds_another_choice_of_ours(driver, name, value):
    with patch.dict(CHOICES, {name: value}):
        assert any(COMPARISON.play(driver, sequence(seed, "")).unknown for seed in range(1_000))


def test_a_changed_result_is_an_unknown_difference(driver):
    """A change of any kind of result is an unknown difference in the last step."""
    given = sequence(1, "")
    for kind, change in {
        "rpcs": lambda step: step["rpcs"].setdefault("A", {}).update(graft=["other"]),
        "mesh": lambda step: step["mesh"].update(news=["X"]),
        "fanout": lambda step: step["fanout"].update(news=["X"]),
        "backoffs": lambda step: step["backoffs"].update(news={"X": 1 << 40}),
        "delivers": lambda step: step["delivers"].append("m00"),
        "dials": lambda step: step["dials"].append("X"),
        "scores": lambda step: step["scores"].update(X=1.0),
    }.items():
        theirs = driver.play(given)
        change(theirs["steps"][-1])
        found = COMPARISON.compare(given, theirs).unknown
        assert found is not None
        assert found[:2] == (STEPS - 1, kind)
