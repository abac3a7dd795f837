"""Scores equal go's after each of many recorded calls, bit for bit (recorded by interop/go_scores/record.py)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import score_tables

from hearsay.core.language.actions import Reason
from hearsay.core.scores.declarations import Validation
from hearsay.core.scores.named_sets import named_set
from hearsay.core.scores.score_parameters import PeerScoreParameters, TopicNumbers
from hearsay.core.scores.scorer import Scorer

FILE = Path(__file__).with_name("scores_of_go.json")
RECORDED = json.loads(FILE.read_text(encoding="utf-8"))["scripts"]
WITHOUT_NOW = ("connect", "penalise", "set_application_score")
ARGUMENTS = ("peer", "topic", "message", "reason", "value", "addresses")


def scorer(recorded) -> Scorer:
    """Return a scorer with the recorded parameters, and with go's choices where implementations differ."""
    go = named_set("go").peer
    parameters = PeerScoreParameters(
        validation=Validation.SELECTIVE,
        decay_interval_ms=1_000,
        deficit_after_prune=go.deficit_after_prune,
        second_prune_counts=go.second_prune_counts,
        **recorded["parameters"],
    )
    return Scorer(parameters, {name: TopicNumbers(**numbers) for name, numbers in recorded["topics"].items()})


def make(scorer: Scorer, call) -> None:
    arguments = [Reason[call[name]] if name == "reason" else call[name] for name in ARGUMENTS if name in call]
    now = [] if call["call"] in WITHOUT_NOW else [call["now"]]
    getattr(scorer, call["call"])(*arguments, *now)


def test_the_guide_says_how_many_calls_there_are():
    count = sum(len(recorded["calls"]) for recorded in RECORDED)
    assert f"each of {count:,} recorded calls" in score_tables.PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("recorded", RECORDED, ids=range(len(RECORDED)))
def test_scores_are_those_of_go(recorded):
    """Rules: SCORE-11, ACTIVE-3, ACTIVE-4, DELIVERY-1, DELIVERY-7, RETAIN-1, RETAIN-2, RETAIN-3."""
    made = scorer(recorded)
    scores = dict.fromkeys("ABCDE", 0.0)
    for number, call in enumerate(recorded["calls"]):
        make(made, call)
        scores |= call["scores"]
        found = {peer: made.score(peer, call["now"]) for peer in scores}
        assert found == scores, f"call {number}: {call}"
