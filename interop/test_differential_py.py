"""Random sequences on py-libp2p's router and on ours, and the few steps that show each of its known differences."""

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
from py_faults import FAULTS, to_sequence  # noqa: E402
from py_sequences import MORE, STEPS  # noqa: E402
from replay import Driver  # noqa: E402
from run_py import CHOICES, COMPARISON, like_py, sequence, start_driver  # noqa: E402

COUNT = 200


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    try:
        with start_driver() as started, like_py():
            yield started
    except Missing as error:
        pytest.skip(f"NOT TESTED: {error}")


def test_sequences_are_equal_to_their_end(driver):
    outcomes = [COMPARISON.play(driver, sequence(seed, "")) for seed in range(COUNT)]
    assert [outcome.unknown for outcome in outcomes if outcome.unknown] == []
    assert sum(outcome.steps for outcome in outcomes) == COUNT * STEPS


@pytest.mark.parametrize("more", MORE)
def test_a_sequence_with_a_difference_ends_at_it(driver, more):
    outcomes = [COMPARISON.play(driver, sequence(seed, more)) for seed in range(COUNT)]
    assert [outcome.unknown for outcome in outcomes if outcome.unknown] == []
    assert {outcome.ended for outcome in outcomes} == {"", more}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_known_difference(driver, fault: Fault):
    given = to_sequence(fault)
    ours, theirs = play(given, "py"), driver.play(given)
    last = given["steps"][-1:]
    assert difference(last, [fault.ours], [_only(ours[-1], fault.ours)]) is None
    assert fault.error in theirs.get("error", "")
    if fault.error:
        assert len(theirs["steps"]) == len(ours) - 1
    else:
        assert difference(last, [fault.expected], [_only(theirs["steps"][-1], fault.expected)]) is None
        assert difference(last, [fault.ours], [fault.expected]) is not None


def _only(seen, kinds):
    return {kind: seen[kind] for kind in kinds}


@pytest.mark.parametrize(
    ("more", "name", "value"),
    [
        ("", "graft_on_subscribe", False),
        ("", "backoff_slack_heartbeats", 1),
        ("", "backoff_when_not_joined", False),
        ("", "short_mesh", "top_up"),
        ("", "fanout_top_up", "publish"),
        ("", "gossip_targets", "select_then_filter"),
        ("", "heeds_idontwant", False),
        ("small_mesh", "full_mesh", "refuse"),
        ("small_mesh", "prune_trigger", "at_high"),
    ],
)
def test_the_comparison_finds_another_choice_of_ours(driver, more, name, value):
    with patch.dict(CHOICES, {name: value}):
        assert any(COMPARISON.play(driver, sequence(seed, more)).unknown for seed in range(COUNT))


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
    }.items():
        theirs = driver.play(given)
        change(theirs["steps"][-1])
        found = COMPARISON.compare(given, theirs).unknown
        assert found is not None
        assert found[:2] == (STEPS - 1, kind)
