"""The scenario's values: exact integers, resolved routers, rules between keys."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from hearsay.core.mesh.parameters import GossipsubParameters
from hearsay.core.shell.parameters import Violation
from hearsay.sim.scenario.scenario import Scenario
from hearsay.sim.scenario.values import scaled


def violations(**document: object) -> list[Violation]:
    with pytest.raises(ValidationError) as error:
        Scenario.model_validate(document)
    return [violation for found in error.value.errors() for violation in found.get("ctx", {}).get("violations", ())]


@pytest.mark.parametrize(
    ("written", "micros"),
    [
        (0.1, 100_000),
        (1e-6, 1),
        (0.0000005, 0),
        (0.0000015, 2),
        (Decimal("0.0000025"), 2),
        (86_400, 86_400_000_000),
        (Decimal("86399.999999"), 86_399_999_999),
        (0.29, 290_000),
        (1.005, 1_005_000),
    ],
)
def test_seconds_become_exact_microseconds(written: float | Decimal, micros: int):
    assert Scenario.model_validate({"warmup_s": written}).warmup_us == micros


@given(st.integers(0, 10**15))
def test_every_microsecond_can_be_written(micros: int):
    assert scaled(Decimal(micros).scaleb(-6), 1_000_000) == micros


def test_integers_for_the_engine():
    made = Scenario.model_validate(
        {
            "links": {"min_ms": 0.5, "max_ms": 2.25, "uplink_mbit": 12.5, "sigma": 0.25, "jitter_ms": 0.001},
            "loss": {"rate": 0.125},
            "service": {"time_ms": 0.75},
            "validation": {"delay_ms": 1.5, "reject_share": 0.01},
            "faults": {
                "churn": {"away_share": 0.25, "mean_session_s": 30},
                "crash": [{"at_s": 1.5, "share": 0.5}],
                "cut": [{"at_s": 1, "links": [[1, 2]]}],
            },
        }
    )
    links, faults = made.links, made.faults
    assert (links.min_us, links.max_us, links.uplink_bits_per_s) == (500, 2250, 12_500_000)
    assert (links.sigma_millionths, links.jitter_us) == (250_000, 1)
    assert (made.loss.rate_millionths, made.service.time_us) == (125_000, 750)
    assert (made.validation.delay_us, made.validation.reject_millionths) == (1500, 10_000)
    assert faults.churn is not None
    assert faults.churn.mean_away_us == 10_000_000
    assert (faults.crash[0].at_us, faults.crash[0].share_millionths) == (1_500_000, 500_000)
    assert faults.crash[0].rejoin_after_us is None
    assert (faults.cut[0].heal_us, faults.cut[0].share_millionths) == (None, None)
    assert (faults.detection_us, made.trace.state_interval_us) == (1_000_000, 10_000_000)


def test_the_bare_router_is_r1_s_gossipsub():
    router = Scenario().router
    assert (router.kind, router.preset) == ("gossipsub", "r1")
    assert router.parameters == GossipsubParameters()
    assert router.definition.name == "gossipsub"


def test_a_router_s_preset_and_own_parameters():
    router = Scenario.model_validate({"router": {"preset": "simsub", "degree": 5, "seen_by": "time"}}).router
    assert isinstance(router.parameters, GossipsubParameters)
    assert (router.parameters.hello, router.parameters.history_length) == (False, 121)
    assert (router.parameters.degree, router.parameters.seen_by) == (5, "time")


@pytest.mark.parametrize("validation", [{"delay_ms": 1}, {"reject_share": 0.5}, {"invalid": [{}]}])
def test_validation_turns_validate_on_in_every_router(validation: dict[str, object]):
    population = [{"share": 0.5, "router": {"kind": "floodsub"}}]
    workload = {"publishers": "any"}
    made = Scenario.model_validate({"validation": validation, "population": population, "workload": workload})
    assert made.router.parameters.validate
    assert made.population[0].router.parameters.validate
    assert not Scenario.model_validate({"population": population}).population[0].router.parameters.validate


def test_topic_groups_are_expanded():
    made = Scenario.model_validate({"topics": [{"name": "новости"}, {"name": "t", "count": 2}, {"name": "x-0"}]})
    assert made.topic_names == ("новости", "t-0", "t-1", "x-0")


def test_a_scenario_is_frozen_and_comparable():
    assert Scenario() == Scenario.model_validate({"network": {"nodes": 100}})
    assert Scenario() != Scenario.model_validate({"network": {"nodes": 101}})
    with pytest.raises(ValidationError):
        Scenario().network.nodes = 3  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(
    ("document", "violation"),
    [
        (
            {"population": [{"share": 0.6, "router": {}}, {"share": 0.5, "router": {}}]},
            Violation(
                "population.1.share", Decimal("0.5"), "the shares of all populations must not sum to more than 1"
            ),
        ),
        (
            {"topics": [{"name": "a", "count": 3}, {"name": "a-1"}]},
            Violation("topics.1.name", "a-1", "topic 'a-1' exists already"),
        ),
        ({"topics": []}, Violation("topics", [], "must not be empty")),
        (
            {"topics": [{"weight": 0}]},
            Violation("topics.0.weight", 0, "no topic has a weight for workload.messages"),
        ),
        (
            {"topics": [{"subscribers": [1, 2, 1]}]},
            Violation("topics.0.subscribers.0", 1, "is listed more than once"),
        ),
        (
            {"topics": [{"subscribers": [100]}]},
            Violation("topics.0.subscribers.0", 100, "must be below network.nodes (100)"),
        ),
        (
            {"topics": [{"subscribers_count": 101}]},
            Violation("topics.0.subscribers_count", 101, "must not be above network.nodes (100)"),
        ),
        (
            {"topics": [{"subscribers_count": 1, "subscribers": [4]}]},
            Violation("subscribers", (4,), "not together with subscribers_count"),
        ),
        (
            {"timed": [{"at_s": 1, "node": 3, "action": "join", "topic": "topik"}]},
            Violation("timed.0.topic", "topik", "no such topic, did you mean 'topic'?"),
        ),
        (
            {"timed": [{"at_s": 1, "node": 3, "action": "join"}], "router": {"hello": False}},
            Violation("timed.0.action", "join", "not with router.hello = false: peers would not learn of it"),
        ),
        (
            {
                "timed": [{"at_s": 1, "node": 3, "action": "leave"}],
                "population": [{"share": 0.5, "router": {"kind": "floodsub", "preset": "simsub"}}],
            },
            Violation(
                "timed.0.action",
                "leave",
                "not with population.0.router.hello = false: peers would not learn of it",
            ),
        ),
        (
            {"addresses": {"shared": [[1, 2], [2]]}},
            Violation("addresses.shared.0.1", 2, "is listed more than once"),
        ),
        (
            {"addresses": {"shared": [[1], [100]]}},
            Violation("addresses.shared.1.0", 100, "must be below network.nodes (100)"),
        ),
        (
            {"ratings": [{"rating": 1, "by": [100]}]},
            Violation("ratings.0.by.0", 100, "must be below network.nodes (100)"),
        ),
        (
            {"ratings": [{"rating": 1, "population": 0}]},
            Violation("ratings.0.population", 0, "must be below the number of populations (0)"),
        ),
        (
            {"ratings": [{"rating": 1, "listed": [1], "share": 0.5}]},
            Violation("share", Decimal("0.5"), "not together with listed"),
        ),
        (
            {"validation": {"invalid": [{"topics": ["topik"]}]}, "workload": {"publishers": "any"}},
            Violation("validation.invalid.0.topics.0", "topik", "no such topic, did you mean 'topic'?"),
        ),
        (
            {"validation": {"invalid": [{}]}},
            Violation(
                "workload.publishers",
                "script",
                "no node publishes anything, so nothing is invalid (validation.invalid)",
            ),
        ),
        ({"links": {"max_ms": 5}}, Violation("max_ms", Decimal(5), "must not be below min_ms (10)")),
        ({"links": {"cap_ms": 5}}, Violation("cap_ms", Decimal(5), "must not be below median_ms (60)")),
        ({"links": {"median_ms": 5000}}, Violation("median_ms", Decimal(5000), "must not be above cap_ms (2000)")),
        (
            {"network": {"topology": "complete", "nodes": 10_001}},
            Violation("nodes", 10_001, 'must not be above 10000 with topology = "complete"'),
        ),
        (
            {"faults": {"partition": [{"at_s": 5, "heal_s": 5, "share": 0.1}]}},
            Violation("heal_s", Decimal(5), "must be above at_s (5)"),
        ),
        ({"faults": {"cut": [{"at_s": 5}]}}, Violation("at_s", Decimal(5), "needs share or links")),
        (
            {"faults": {"cut": [{"at_s": 5, "links": [[1, 1]]}]}},
            Violation("links.0", [1, 1], "must be two different nodes"),
        ),
        (
            {"faults": {"cut": [{"at_s": 5, "links": [[1, 2], [1, 100]]}]}},
            Violation("faults.cut.0.links.1", [1, 100], "must name nodes below network.nodes (100)"),
        ),
    ],
)
def test_rules_between_keys(document: dict[str, object], violation: Violation):
    assert violations(**document) == [violation]
