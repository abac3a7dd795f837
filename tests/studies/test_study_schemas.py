"""The JSON Schemas of study, budget and tune files have the keys, ranges and words of the models of these files."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from hearsay.sim.scenario.scenario import Scenario
from hearsay.studies.budgets import BudgetFile
from hearsay.studies.packs import BY_NAME
from hearsay.studies.study_file import StudyFile, file_schema, load_study
from hearsay.studies.tuning.tune_file import TuneFile

STUDIES = sorted((Path(__file__).parents[2] / "studies").glob("*.toml"))
STUDY, BUDGET, TUNE = (file_schema(model) for model in (StudyFile, BudgetFile, TuneFile))


def described(schema: dict) -> dict[str, bool]:
    """Return by key whether the schema has a description, for all keys but those of scenarios."""
    tables = {name: table for name, table in schema["$defs"].items() if name.endswith("Table")}
    keys = {
        f"{name}.{key}": "description" in value
        for name, table in {"": schema, **tables}.items()
        for key, value in table["properties"].items()
    }
    return {
        key: description
        for key, description in keys.items()
        if key.removeprefix("BaseTable.") not in Scenario.model_fields
    }


@pytest.mark.parametrize("schema", [STUDY, BUDGET, TUNE], ids=["study", "budget", "tune"])
def test_every_key_is_described_and_unknown_keys_are_refused(schema):
    assert {key for key, description in described(schema).items() if not description} == set()
    assert schema["additionalProperties"] is False
    assert all(
        table["additionalProperties"] is False for name, table in schema["$defs"].items() if name.endswith("Table")
    )
    assert "null" not in str(schema)


def test_ranges_and_words_are_there():
    axis = STUDY["$defs"]["AxisTable"]["properties"]
    assert axis["count"] | {"title": "", "description": ""} == {
        "type": "integer", "minimum": 2, "maximum": 10_000, "title": "", "description": ""
    }  # fmt: skip
    assert axis["spacing"]["enum"] == ["linear", "log"]
    assert {"from", "to"} <= set(axis)
    assert STUDY["properties"]["engine"]["enum"] == ["auto", "reference", "array"]
    assert [way["type"] for way in STUDY["properties"]["seeds"]["anyOf"]] == ["integer", "array"]


def test_a_base_has_the_sections_of_a_scenario():
    base = STUDY["$defs"]["BaseTable"]["properties"]
    assert set(base) == {*Scenario.model_fields, "preset", "file"}
    assert "r1" in base["preset"]["enum"]
    assert STUDY["$defs"]["Network"]["properties"]["nodes"]["maximum"] == 100_000_000


def test_a_case_has_every_figure():
    case = BUDGET["$defs"]["CaseTable"]
    assert set(case["properties"]["budgets"]["properties"]) == set(BY_NAME)
    assert case["required"] == ["name", "budgets"]


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_the_studies_of_this_repository_have_only_keys_of_the_schema(path):
    study = load_study(path)
    assert len(study.seeds) > 1 or any(len(axis.steps) > 1 for axis in study.axes)
    document = tomllib.loads(path.read_text(encoding="utf-8"))
    assert set(document) <= set(STUDY["properties"])
    assert set(document["base"]) <= set(STUDY["$defs"]["BaseTable"]["properties"])
    for axis in document["axes"]:
        assert set(axis) <= set(STUDY["$defs"]["AxisTable"]["properties"])
