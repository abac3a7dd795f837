"""The JSON Schema of scenario files knows what the sections know."""

from __future__ import annotations

import tomllib

import pytest

from hearsay.core.registry import ROUTERS
from hearsay.core.scores.topic_parameters import TopicScoreParameters
from hearsay.sim.scenario.scenario import Scenario
from hearsay.sim.scenario.scenario_file import preset_names, preset_text
from hearsay.sim.scenario.schema import scenario_schema

SCHEMA = scenario_schema()


def section(name: str) -> dict:
    return SCHEMA["$defs"][name]["properties"]


def test_every_section_and_its_ranges_are_there():
    assert set(SCHEMA["properties"]) == {*Scenario.model_fields, "preset"}
    assert section("Network")["nodes"] == {
        "default": 100, "maximum": 100_000_000, "minimum": 1, "title": "Nodes", "type": "integer"
    }  # fmt: skip
    assert section("Loss")["rate"]["maximum"] == 1
    assert "random" in section("Network")["topology"]["enum"]
    assert SCHEMA["additionalProperties"] is False


def test_every_router_has_its_parameters_with_their_ranges():
    kinds = SCHEMA["properties"]["router"]["anyOf"]
    assert [kind["properties"]["kind"].get("const") for kind in kinds] == [*ROUTERS, None]
    gossipsub = next(kind for kind in kinds if kind["properties"]["kind"].get("const") == "gossipsub")
    names = ROUTERS["gossipsub"].parameters.names()
    assert set(gossipsub["properties"]) == {"kind", "preset", "validators", *names}
    assert gossipsub["properties"]["degree"] == {
        "type": "integer",
        "minimum": 0,
        "maximum": 1_000_000_000,
        "default": 6,
    }


def test_scores_have_their_parameters_thresholds_and_topics():
    kinds = SCHEMA["properties"]["router"]["anyOf"]
    [gossipsub] = [kind for kind in kinds if kind["properties"]["kind"].get("const") == "gossipsub"]
    score = gossipsub["properties"]["score"]["properties"]
    assert {"misbehaviour_weight", "misbehaviour_decay_ms", "thresholds", "topics"} <= set(score)
    assert score["thresholds"]["properties"]["graylist"]["maximum"] == 0
    topic = score["topics"]["items"]
    assert topic["required"] == ["topic"]
    assert topic["additionalProperties"] is False
    assert set(topic["properties"]) >= {"topic", *TopicScoreParameters.names(), "first_deliveries_decay_ms"}
    assert gossipsub["properties"]["gater"]["properties"]["threshold"]["minimum"] == 0


@pytest.mark.parametrize("preset", preset_names())
def test_the_keys_of_presets_are_known(preset):
    for name, value in tomllib.loads(preset_text(preset)).items():
        assert name in SCHEMA["properties"]
        reference = SCHEMA["properties"][name].get("$ref", "").rpartition("/")[2]
        if isinstance(value, dict) and reference:
            assert set(value) <= set(section(reference))
