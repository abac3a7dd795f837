"""Who never got a message: the figures are those of the analysis, and each reason is one that was made to hold."""

from __future__ import annotations

import numpy as np
import pytest
from explained_runs import KINDS, SMALL, random_run, scenario_of, simulated
from profiles import examples

from hearsay.explain.message import Message, open_message, rows_of_message
from hearsay.explain.missing import Why, explain_missing
from hearsay.pipeline.kernels.eligibility import Eligibility
from hearsay.pipeline.kernels.memberships import memberships_of
from hearsay.pipeline.kernels.message_file import FIGURES, pass_over
from hearsay.pipeline.kernels.sorted_values import UNKNOWN
from hearsay.sim.scenario.scenario_file import load_scenario

OF_A_COPY = (
    Why.REFUSED, Why.UNREAD, Why.UNKNOWN_OUTCOME, Why.UNDER_WAY, Why.LOST, Why.QUEUE_FULL, Why.UNWANTED
)  # fmt: skip


def figures_of(story: Message) -> dict[str, int]:
    """Return what the pass of the analysis says of the message."""
    run, members = story.run, memberships_of(story.run)
    eligible = {}
    for topic in np.unique(members.topic).tolist():
        there = members.of_topic(topic)
        eligible[topic] = Eligibility(there.node, there.since_us, there.until_us, run.end_us)
    rows = rows_of_message(run, story.name.number)
    figures = pass_over(rows, eligible, run.end_us, run.window_us).figures
    return dict(zip(FIGURES, figures.values[0].tolist(), strict=True))


def compare(run, messages):
    missing = 0
    for message in range(messages):
        try:
            story = open_message(run, str(message))
        except ValueError:
            continue
        figures, answer = figures_of(story), explain_missing(story)
        if answer.due is None:
            assert figures["eligible"] == UNKNOWN
            continue
        assert answer.due == figures["eligible"]
        assert answer.got == figures["delivered_eligible"]
        assert len(answer.missing) == answer.due - answer.got
        missing += len(answer.missing)
        for each in answer.missing:
            assert each.why is not Why.UNKNOWN
            assert bool(each.copies) == (each.why in OF_A_COPY)
    return missing


@pytest.mark.parametrize("kind", KINDS)
def test_figures_are_those_of_the_analysis(tmp_path, kind):
    run = simulated(scenario_of(kind), tmp_path / "run")
    assert run is not None
    compare(run, 8)


@pytest.mark.parametrize("number", range(100, 100 + examples(0.5).max_examples))
def test_figures_of_random_scenarios_too(tmp_path, number):
    run, scenario = random_run(number, tmp_path)
    compare(run, scenario.workload.messages)


FLOOD = [*SMALL, ("router.kind", "floodsub"), ("workload.inject", "1"), ("linger_s", "3")]


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ([*FLOOD, ("loss.rate", "0.9")], Why.LOST),
        ([*FLOOD, ("loss.rate", "0.9")], Why.NO_HOLDER),
        ([*FLOOD, ("network.degree", "0")], Why.ALONE),
        ([*FLOOD, ("links.uplink_mbit", "0.01"), ("links.uplink_queue_bytes", "300")], Why.QUEUE_FULL),
        ([*FLOOD, ("links.min_ms", "4000"), ("links.max_ms", "4000"), ("warmup_s", "20")], Why.UNDER_WAY),
        ([*SMALL, ("router.degree_lazy", "0"), ("router.degree", "1"), ("router.degree_low", "1"),
          ("router.degree_high", "2")], Why.NO_MESH),
        ([*SMALL, ("loss.rate", "0.85"), ("router.degree", "2"), ("router.degree_low", "1"),
          ("router.degree_high", "3")], Why.GOSSIP_LOST),
        ([*SMALL, ("router.validate", "true"), ("validation.delay_ms", "2000"), ("workload.interval_s", "0.1"),
          ("router.max_pending_validations", "1"), ("router.degree_lazy", "0")], Why.REFUSED),
    ],
)  # fmt: skip
def test_reasons_are_what_was_done(tmp_path, overrides, expected):
    scenario = load_scenario(None, "r1", overrides)
    run = simulated(scenario, tmp_path / "run")
    assert run is not None
    found = [each.why for message in range(8) for each in explain_missing(open_message(run, str(message))).missing]
    assert expected in found
