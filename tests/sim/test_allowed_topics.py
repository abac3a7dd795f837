"""Nodes whose routers do not take part in all topics, in plans and runs.

Rules: SHELL-8.
"""

from __future__ import annotations

from decimal import Decimal

import pytest

from hearsay.core.language.actions import Reason
from hearsay.sim.plan.plan import make_plan
from hearsay.sim.scenario.reading import ScenarioError
from hearsay.sim.scenario.scenario import Scenario
from hearsay.sim.scenario.scenario_file import load_scenario
from hearsay.sim.simulate import Simulation

TWO_KINDS = {
    "network.nodes": 20,
    "router.preset": "v1.1",
    "router.allowed_topics": ["news", "sport"],
    "population": [{"share": Decimal("0.5"), "router": {"preset": "v1.1", "allowed_topics": ["sport", "cha?"]}}],
    "topics": [{"name": "news"}, {"name": "sport"}, {"name": "chat"}],
    "workload.publishers": "subscribers",
    "workload.messages": 9,
    "linger_s": 3,
}


def scenario(**changes: object) -> Scenario:
    given = {**TWO_KINDS, **{key.replace("__", "."): value for key, value in changes.items()}}
    return load_scenario(None, "r1", tuple(given.items()))


def test_nodes_are_in_the_topics_that_their_routers_allow():
    plan = make_plan(scenario())
    for node, topics in enumerate(plan.subscriptions):
        assert topics == ((1, 2) if plan.router_of[node] else (0, 1))


def test_a_run_with_two_kinds_of_nodes_delivers_all_and_filters_subscriptions():
    rows = []
    result = Simulation(scenario(), check=True, listener=rows.append).run()
    assert result.problems == ()
    assert result.summary.delivery_ratio == 1
    assert any(row.reason is Reason.FILTERED for row in rows)


@pytest.mark.parametrize(
    ("changes", "table"),
    [
        ({"workload__publishers": "any"}, "(population.0.)?router"),
        ({"workload__publishers": "script"}, "(population.0.)?router"),
        (
            {"timed": [{"at_s": 6, "node": node, "action": "join", "topic": "news"} for node in range(20)]},
            "population.0.router",
        ),
    ],
)
def test_a_node_that_is_to_publish_or_join_must_be_allowed_the_topic(changes, table):
    with pytest.raises(ScenarioError, match=rf"^{table}.allowed_topics: node \d+ is to join or publish in '\w+'"):
        make_plan(scenario(**changes))
