"""Random sequences on go's router and on ours, and the few steps that show each of its known differences."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest
from foreign_peers import Missing

HERE = Path(__file__).parent / "differential"
VECTORS = Path(__file__).parents[1] / "vectors" / "router"
sys.path.insert(0, str(HERE))

from compare import difference  # noqa: E402
from fault import Fault  # noqa: E402
from go_faults import FAULTS, to_sequence  # noqa: E402
from go_sequences import MORE, STEPS  # noqa: E402
from hearsay_side import play  # noqa: E402
from replay import Driver  # noqa: E402
from run_go import CHOICES, COMPARISON, like_go, sequence, start_driver  # noqa: E402

COUNT = 300
DIFFERENT_VECTORS = {"left-before-the-verdict"}
"""Names of vectors that show a known difference."""
REFUSED_VECTORS = {"mesh": 7}
"""Number of vectors with parameters that go refuses, by name of the file."""


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    try:
        with start_driver() as started, like_go():
            yield started
    except Missing as error:
        pytest.skip(f"NOT TESTED: {error}")


def test_sequences_are_equal_but_for_known_differences(driver):
    outcomes = [COMPARISON.play(driver, sequence(seed, "")) for seed in range(COUNT)]
    assert [outcome.unknown for outcome in outcomes if outcome.unknown] == []
    assert sum(outcome.steps for outcome in outcomes) > 0.98 * COUNT * STEPS


@pytest.mark.parametrize("more", MORE)
def test_a_sequence_with_a_difference_ends_at_it_or_at_a_known_one(driver, more):
    outcomes = [COMPARISON.play(driver, sequence(seed, more)) for seed in range(COUNT)]
    assert [outcome.unknown for outcome in outcomes if outcome.unknown] == []
    assert more in {outcome.ended for outcome in outcomes}


@pytest.mark.parametrize("file", sorted(VECTORS.glob("*.json")), ids=lambda file: file.stem)
def test_vectors(driver, file):
    """go refuses the degrees of vectors with a mesh of one peer, and a D_out that is not less than D_low."""
    given = json.loads(file.read_text(encoding="utf-8"))["vectors"]
    found = {each["name"]: COMPARISON.play(driver, each).unknown for each in given}
    unknown = {name: each for name, each in found.items() if each and each[1] != "error"}
    assert {*unknown} == {*DIFFERENT_VECTORS} & {*found}
    assert sum(each is not None and each[1] == "error" for each in found.values()) == REFUSED_VECTORS.get(
        file.stem, 0
    )


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_known_difference(driver, fault: Fault):
    given = to_sequence(fault)
    ours, theirs = play(given, "go")[-1], driver.play(given)["steps"][-1]
    last = given["steps"][-1:]
    assert difference(last, [fault.ours], [{kind: ours[kind] for kind in fault.ours}]) is None
    assert difference(last, [fault.expected], [{kind: theirs[kind] for kind in fault.expected}]) is None
    assert difference(last, [fault.ours], [fault.expected]) is not None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("backoff_until_forgotten", False),
        ("backoff_slack_heartbeats", 0),
        ("prune_trigger", "above_high"),
        ("full_mesh", "accept"),
        ("unknown_graft", "prune"),
        ("short_mesh", "top_up"),
        ("graft_on_subscribe", True),
        ("median", "lower"),
        ("opportunity_choice", "first_from"),
        ("graft_choice", "best"),
        ("unwelcome_graft", "taken_in"),
        ("member_graft_is_judged", True),
        ("exchange_always", True),
        ("mesh_before_gossip", True),
        ("asked_peer_must_send", True),
        ("tracked_promises", "all"),
        ("graylisted_subscriptions", False),
        ("gossip_targets", "select_then_filter"),
        ("fanout_top_up", "publish"),
        ("heeds_idontwant", False),
        ("idontwant_on_publish", False),
        ("skip_senders", True),
        ("late_extensions", "ignore"),
        ("ask_again_heartbeats", 3),
        ("backoff_when_not_joined", True),
        ("direct_graft", "ignore"),
    ],
)
def test_the_comparison_finds_another_choice_of_ours(driver, name, value):
    with patch.dict(CHOICES, {name: value}), like_go():
        assert any(COMPARISON.play(driver, sequence(seed, "")).unknown for seed in range(2_000))


def test_a_changed_result_is_an_unknown_difference(driver):
    """A change of any kind of result is an unknown difference in the last step."""
    given = sequence(1, "")
    peer = next(iter(play(given, "go")[-1]["scores"]))
    for kind, change in {
        "rpcs": lambda step: step["rpcs"].setdefault("A", {}).update(graft=["other"]),
        "mesh": lambda step: step["mesh"].update(news=["X"]),
        "fanout": lambda step: step["fanout"].update(news=["X"]),
        "backoffs": lambda step: step["backoffs"].update(news={"X": 1 << 40}),
        "scores": lambda step: step["scores"].update({peer: step["scores"][peer] + 1e-6}),
        "delivers": lambda step: step.update(delivers=["m00"]),
        "dials": lambda step: step.update(dials=["X"]),
    }.items():
        theirs = driver.play(given)
        change(theirs["steps"][-1])
        found = COMPARISON.compare(given, theirs).unknown
        assert found is not None
        assert found[:2] == (STEPS - 1, kind)
