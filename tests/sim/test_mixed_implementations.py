"""Networks of several implementations: go, rust, js, nim and jvm on a fifth of the nodes each. Also populations given
by lists of nodes.
"""

from __future__ import annotations

from collections import Counter

import pytest
from pydantic import ValidationError

from hearsay.core.registry import ROUTERS
from hearsay.sim.plan.plan import make_plan
from hearsay.sim.reference.engine import ReferenceEngine
from hearsay.sim.scenario.scenario import Scenario
from hearsay.sim.scenario.scenario_file import dump_scenario, load_scenario
from hearsay.sim.simulate import Simulation

IMPLEMENTATIONS = ("go", "rust", "js", "nim", "jvm")
FIFTHS = """
preset = "r1"
warmup_s = 10
linger_s = 15
[network]
nodes = 50
[router]
preset = "go"
[[population]]
share = 0.2
router = { preset = "rust" }
[[population]]
share = 0.2
router = { preset = "js" }
[[population]]
share = 0.2
router = { preset = "nim" }
[[population]]
share = 0.2
router = { preset = "jvm" }
[validation]
delay_ms = 20
[workload]
messages = 20
interval_s = 0.5
publishers = "subscribers"
size_bytes = 20000
"""


@pytest.fixture(scope="module")
def scenario(tmp_path_factory):
    file = tmp_path_factory.mktemp("mixed") / "fifths.toml"
    file.write_text(FIFTHS, encoding="utf-8")
    return file


def test_five_implementations_deliver_everything_to_each_other(scenario):
    """The checker finds nothing, and each node has the parameters of its implementation."""
    simulation = Simulation(load_scenario(scenario), check=True)
    engine = simulation.engine
    assert isinstance(engine, ReferenceEngine)
    result = simulation.run()
    assert result.problems == ()
    assert result.summary.delivery_ratio == 1
    found = {
        number: (node.router.parameters.idontwant_threshold_bytes, node.router.parameters.degree_low)
        for number, node in enumerate(engine.nodes)
        if node.router is not None
    }
    shipped = [ROUTERS["gossipsub"].presets[name] for name in IMPLEMENTATIONS]
    own = [(preset["idontwant_threshold_bytes"], preset.get("degree_low", 4)) for preset in shipped]
    assert found == {number: own[router] for number, router in enumerate(simulation.plan.router_of)}
    assert Counter(simulation.plan.router_of) == dict.fromkeys(range(5), 10)


@pytest.mark.parametrize(
    "changes",
    [
        [("loss.rate", "0.05"), ("links.uplink_mbit", "10"), ("seed", "2")],
        [("faults.churn.away_share", "0.2"), ("faults.churn.mean_session_s", "10"), ("seed", "3")],
    ],
    ids=["losses", "churn"],
)
def test_the_checker_finds_nothing_in_networks_of_five_implementations(scenario, changes):
    result = Simulation(load_scenario(scenario, overrides=changes), check=True).run()
    assert result.problems == ()
    assert result.summary.delivery_ratio > 0.98


def populations(*given, nodes=100):
    return Scenario.model_validate({"network": {"nodes": nodes}, "population": list(given)})


def test_a_population_is_a_list_or_a_share_of_the_others():
    made = make_plan(
        populations(
            {"share": 0.3, "router": {"preset": "rust"}},
            {"listed": [1, 5, 7], "router": {"preset": "nim"}},
            {"share": 0.6, "router": {"preset": "js"}},
        )
    )
    assert Counter(made.router_of) == {0: 7, 1: 30, 2: 3, 3: 60}
    assert [node for node, router in enumerate(made.router_of) if router == 2] == [1, 5, 7]


def test_a_list_elsewhere_moves_no_node_between_shares():
    """A node that is not listed has the same position in the draw as without lists."""
    share = {"share": 0.3, "router": {"preset": "rust"}}
    alone = make_plan(populations(share)).router_of
    with_list = make_plan(populations(share, {"listed": [0], "router": {"preset": "nim"}})).router_of
    moved = [node for node in range(100) if (alone[node] == 1) != (with_list[node] == 1)]
    assert len(moved) in ((0,) if alone[0] != 1 else (2,))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([{"router": {}}], "population.0.share: is required, unless listed names the nodes"),
        ([{"share": 0.5, "listed": [1], "router": {}}], "population.0.listed = (1,): not together with share"),
        (
            [{"listed": [1], "router": {}}, {"listed": [1], "router": {}}],
            "population.0.listed.0 = 1: is listed more than once",
        ),
        ([{"listed": [100], "router": {}}], "population.0.listed.0 = 100: must be below network.nodes (100)"),
        (
            [{"listed": [1], "router": {}}, {"share": 1, "router": {}}],
            "population.1.share = 1: the shares of all populations must not sum to more than 1, "
            "those of the listed nodes included",
        ),
    ],
)
def test_contradictory_populations_are_refused(given, message):
    with pytest.raises(ValidationError) as refusal:
        populations(*given)
    [error] = refusal.value.errors()
    [violation] = error.get("ctx", {})["violations"]
    place = ".".join(map(str, (*error["loc"], violation.field)))
    shown = "" if violation.value is None else f" = {violation.value}"
    assert f"{place}{shown}: {violation.rule}" == message


def test_the_argument_of_a_preset_is_dumped():
    made = load_scenario(None, "r1", [("router.preset", "ethereum"), ("router.validators", "51000")])
    assert made.router.argument == {"validators": 51_000}
    assert "validators = 51000" in dump_scenario(made)
    default = load_scenario(None, "r1", [("router.preset", "ethereum")])
    assert default.router.argument == {"validators": 1_000_000}
    assert default.router.parameters != made.router.parameters
