"""Parameters of a router with scores: contradictions, and the parameters that enable scoring."""

from __future__ import annotations

import pytest
from router_driver import GO, score_table

from hearsay.core.mesh.gossipsub import Gossipsub
from hearsay.core.mesh.parameters import GossipsubParameters
from hearsay.core.rules.randomness import Randomness
from hearsay.core.shell.parameters import ParameterError
from hearsay.core.shell.router import Router

NO_MESH = {"degree": 0, "degree_low": 0, "degree_high": 0, "degree_score": 0, "degree_out": 0}


def made(**given):
    return GossipsubParameters.from_mapping({**GO, **given})


def refused(**given):
    with pytest.raises(ParameterError) as refusal:
        made(**given)
    return str(refusal.value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"degree_score": 13}, "degree_score = 13: must not be above degree_high (12)"),
        (
            {"degree_out": 5, "degree_low": 5, "degree": 10},
            "degree_out = 5: must be below degree_low (5) and at most half of degree (10)",
        ),
        ({"degree_out": 4}, "degree_out = 4: must be below degree_low (5) and at most half of degree (6)"),
        (
            {"direct_peers": [[0, 1]], "direct_connect_ticks": 0},
            "direct_peers = ((0, 1),): needs direct_connect_ticks above 0",
        ),
        ({"direct_peers": [[1, 1]]}, "direct_peers = ((1, 1),): must be a list of pairs of different nodes"),
        (
            {"score": score_table(), "places_per_address": 2},
            "places_per_address = 2: must be 0 with a score, since its part P6 counts the peers of an address",
        ),
        ({"degree_low": 7}, "degree_low = 7: must not be above degree (6)"),
        ({"gossip_factor": 1.5}, "gossip_factor = 1.5: must be in 0…1"),
        ({"gossip_factor": float("nan")}, "gossip_factor = nan: must be in 0…1"),
        ({"iwant_followup_ms": 0}, "iwant_followup_ms = 0: must be in 1…2592000000"),
        ({"median": "middle"}, "median = 'middle': must be one of upper, lower, mean"),
        ({"history_gossip": 6}, "history_gossip = 6: must not be above history_length (5)"),
        ({"score": 5}, "score = 5: must be a table"),
    ],
    ids=str,
)
def test_contradictory_parameters_are_refused(given, message):
    """Go's ParamsValidate: D_out is below D_low and at most half of D (v1.1), D_score is at most D_high."""
    assert message in refused(**given)


def test_all_violations_are_reported_at_once():
    without_ticks = {"direct_peers": [[0, 1]], "direct_connect_ticks": 0}
    wrong = refused(degree_score=13, degree_out=3, history_gossip=9, **without_ticks)
    assert wrong.count("; ") == 2 or wrong.count("must") >= 3
    table = score_table(thresholds={"gossip": 1, "publish": -1, "graylist": 0})
    wrong = refused(score=table, degree_lazy=-1)
    assert "score.thresholds.gossip = 1" in wrong
    assert "degree_lazy = -1" in wrong


def test_a_mesh_without_peers_is_legal():
    """Go's BootstrapParamsValidate: all D are 0."""
    assert made(**NO_MESH, degree_lazy=64).degree == 0
    assert made(degree_out=3).degree_out == 3


def test_custom_parameters_are_kept_as_given():
    """Go's CustomParams: a follow-up time of one second, and a gossip factor of 0.12."""
    parameters = made(iwant_followup_ms=1_000, gossip_factor=0.12)
    assert (parameters.iwant_followup_ms, parameters.gossip_factor) == (1_000, 0.12)


def test_parameters_survive_a_round_trip():
    parameters = made(score=score_table({"first_deliveries_weight": 1, "first_deliveries_decay": 0.5,
                                   "first_deliveries_cap": 9}), direct_peers=[[0, 1]])  # fmt: skip
    assert GossipsubParameters.from_mapping(parameters.to_mapping()) == parameters


@pytest.mark.parametrize(
    "given",
    [
        {"score": score_table()},
        {"graft_on_subscribe": True},
        {"flood_publish": True},
        {"gossip_factor": 0.1},
        {"degree_score": 1},
        {"degree_out": 1},
        {"max_ihave_messages": 1},
        {"direct_connect_ticks": 1},
    ],
    ids=lambda given: next(iter(given)),
)
def test_each_of_these_parameters_enables_scoring(given):
    strategy = Gossipsub(GossipsubParameters.from_mapping(given))
    Router(0, strategy, Randomness(1))
    assert strategy.scoring is not None


def test_default_parameters_have_no_scoring():
    strategy = Gossipsub()
    Router(0, strategy, Randomness(1))
    assert strategy.scoring is None
