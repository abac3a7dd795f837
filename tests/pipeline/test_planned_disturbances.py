"""The disturbances that a scenario plans: their text, start and end."""

from __future__ import annotations

import pytest

from hearsay.pipeline.run_facts import planned_in

END_US = 60_000_000


@pytest.mark.parametrize(
    ("scenario", "kind", "what", "since_us", "until_us"),
    [
        ({"loss": {"rate": 0.05, "control": False}}, "loss",
         "5 % of messages lost on links throughout", 0, END_US),
        ({"loss": {"rate": 0.125, "control": True}}, "loss",
         "12.5 % of messages and control lost on links throughout", 0, END_US),
        ({"faults": {"partition": [{"at_s": 10, "heal_s": 20.5, "share": 0.4}]}}, "partition",
         "40 % of the nodes cut off from the others from 10 s to 20.5 s", 10_000_000, 20_500_000),
        ({"faults": {"cut": [{"at_s": 3, "links": [[1, 2]]}]}}, "cut", "1 link cut at 3 s for good", 3_000_000, None),
        ({"faults": {"cut": [{"at_s": 3, "heal_s": 5, "share": 0.3}]}}, "cut",
         "30 % of the links cut from 3 s to 5 s", 3_000_000, 5_000_000),
        ({"faults": {"crash": [{"at_s": 14, "share": 0.2}]}}, "crash",
         "20 % of the nodes crashed at 14 s", 14_000_000, None),
        ({"faults": {"crash": [{"at_s": 14, "share": 0.2, "rejoin_after_s": 3}]}}, "crash",
         "20 % of the nodes crashed at 14 s and came back 3 s later", 14_000_000, 17_000_000),
        ({"faults": {"churn": {"away_share": 0.3, "mean_session_s": 60, "start_s": 0}}}, "churn",
         "nodes came and went: 30 % away at a time, after sessions of 60 s on average", 0, END_US),
    ],
)  # fmt: skip
def test_text_and_times_of_a_planned_disturbance(scenario, kind, what, since_us, until_us):
    (found,) = planned_in(scenario, END_US)
    assert (found.kind, found.what, found.since_us, found.until_us) == (kind, what, since_us, until_us)


def test_a_scenario_without_disturbances_plans_none():
    assert planned_in({}, END_US) == ()
    assert planned_in({"loss": {"rate": 0, "control": False}, "faults": {"crash": [], "partition": []}}, END_US) == ()
