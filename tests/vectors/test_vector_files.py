"""The vectors of this project: they equal their generator's output, they hold, and their page describes them."""

from __future__ import annotations

import json
from pathlib import Path

import make_vectors
import pytest
from vector_scripts import recorded_calls

from hearsay.vectors.files import read_vectors, run_file, vector_files
from hearsay.vectors.router_run import router_parameters
from hearsay.vectors.schema import SCHEMA_TEXT
from hearsay.vectors.score_run import NAMES, is_time

FILES = list(vector_files([make_vectors.FOLDER]))
DOCS = Path(__file__).parents[2] / "docs" / "reference" / "vectors.md"


def test_the_folder_is_what_the_generator_makes():
    made = dict(make_vectors.files())
    there = {str(file.relative_to(make_vectors.FOLDER)) for file in make_vectors.FOLDER.rglob("*") if file.is_file()}
    assert there == set(made)
    for name, text in made.items():
        assert (make_vectors.FOLDER / name).read_text(encoding="utf-8") == text, name


@pytest.mark.parametrize("implementation", ["spec", "go"])
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_all_vectors_hold(file, implementation):
    outcomes = list(run_file(file, implementation))
    assert [outcome.line() for outcome in outcomes if outcome.fault is not None] == []
    assert len(outcomes) == len(read_vectors(file)["vectors"])


def test_go_differs_where_the_files_say_so_and_only_there():
    """Where a step has an expectation for go, it differs from that of the specification."""
    for file in FILES:
        found = read_vectors(file)
        if found["kind"] == "score":
            for vector in found["vectors"]:
                for step in vector["steps"]:
                    for peer, worth in step.get("differs", {}).get("go", {}).items():
                        assert worth != step.get("expect", {}).get(peer)


def test_all_recorded_calls_are_there():
    scripts = json.loads(recorded_calls.FILE.read_text(encoding="utf-8"))["scripts"]
    vectors = read_vectors(make_vectors.FOLDER / "score" / "recorded.json")["vectors"]
    assert [len(vector["steps"]) for vector in vectors] == [len(script["calls"]) for script in scripts]


def test_the_page_has_the_numbers_of_vectors():
    kinds = [read_vectors(file) for file in FILES]
    for kind in ("score", "router"):
        count = sum(len(found["vectors"]) for found in kinds if found["kind"] == kind)
        assert f"{count} vectors of kind `{kind}`" in DOCS.read_text(encoding="utf-8")


@pytest.mark.parametrize(("name", "ours"), [*NAMES["peer"].items(), *NAMES["topic"].items()])
def test_the_page_has_the_names_of_parameters(name, ours):
    assert f"|`{name}`|`{ours}`|" in DOCS.read_text(encoding="utf-8")


@pytest.mark.parametrize(("name", "ours"), NAMES["router"].items(), ids=list(NAMES["router"]))
def test_the_page_has_the_default_values_of_router_parameters(name, ours):
    value = getattr(router_parameters({}, "spec"), ours)
    shown = json.dumps(value * 1_000 if is_time(ours) else value)
    assert f"|`{name}`|`{ours}`|{shown}|" in DOCS.read_text(encoding="utf-8")


def references(value: object) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"]} if "$ref" in value else set()
        return own.union(*map(references, value.values()))
    return set().union(*map(references, value)) if isinstance(value, list) else set()


def test_references_in_the_schema_are_its_definitions():
    schema = json.loads(SCHEMA_TEXT)
    assert references(schema) == {f"#/$defs/{name}" for name in schema["$defs"]}
