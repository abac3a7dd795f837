"""The JSON Schema of scenario files has all sections, keys, ranges and descriptions."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
import scenario_page

from hearsay.core.registry import ROUTERS
from hearsay.core.scores.score_parameters import TopicScoreParameters
from hearsay.sim.scenario.scenario import Scenario
from hearsay.sim.scenario.scenario_file import load_scenario, preset_names, preset_text, scenario_schema

SCHEMA = scenario_schema()


def section(name: str) -> dict:
    return SCHEMA["$defs"][name]["properties"]


def test_every_section_and_its_ranges_are_there():
    assert set(SCHEMA["properties"]) == {*Scenario.model_fields, "preset"}
    assert section("Network")["nodes"] == {
        "default": 100, "description": "Number of nodes.", "maximum": 100_000_000, "minimum": 1, "title": "Nodes",
        "type": "integer",
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
        "description": "D, the mesh degree. Without a mesh, `degree`, `degree_low` and `degree_high` are all 0.",
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


def keys(schema: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every key of a schema, those of tables in it included."""
    if isinstance(schema, dict):
        for name, rules in schema.get("properties", {}).items():
            yield f"{path}.{name}", rules
        for name in schema.keys() - {"not"}:
            yield from keys(schema[name], f"{path}.{name}")
    elif isinstance(schema, list):
        for number, inner in enumerate(schema):
            yield from keys(inner, f"{path}.{number}")


def test_every_key_has_a_description():
    described = dict(keys(SCHEMA))
    assert len(described) > 700
    assert [path for path, rules in described.items() if not rules.get("description")] == []


def test_the_page_of_keys_is_up_to_date():
    assert scenario_page.PAGE.read_text(encoding="utf-8") == scenario_page.page(), "run tools/scenario_page.py"


@pytest.mark.parametrize("place", scenario_page.EXAMPLES)
def test_the_example_of_a_section_is_a_scenario(place, tmp_path):
    file = tmp_path / "example.toml"
    file.write_text(scenario_page.EXAMPLES[place], encoding="utf-8")
    assert isinstance(load_scenario(file), Scenario)
