"""Scenarios from TOML (presets, files and overrides), and the JSON Schema of scenario files.

Rules:

* A scenario is merged from layers, and a later layer overrides an earlier one (`layers.py`). The layers are: the
  defaults, a preset, the file, `--router`, and *overrides* (such as `--set`). A file names the preset that it starts
  from with `preset = "…"` at its top.
* All mistakes are reported at once, one in each line. Files that the scenario names are also read, and their bad
  lines are reported.
* Paths in a scenario file are relative to its folder, and paths of overrides to the working directory.
* `dump_scenario` writes every key that has a value. A scenario that is loaded from its output is equal.

The schema is for editors. It is made from the sections, and has keys, types, ranges, allowed strings and
descriptions. It lacks the rules between keys, which are checked when a scenario is loaded.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from difflib import get_close_matches
from enum import StrEnum
from functools import partial
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import tomli_w
from pydantic import BaseModel, ValidationError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from hearsay.core.registry import ROUTERS
from hearsay.sim.scenario.layers import FILE_KEYS, Layers, replace_router
from hearsay.sim.scenario.reading import (
    Document,
    ScenarioError,
    parse,
    parse_file,
    parse_value,
    read_edges,
    read_regions,
)
from hearsay.sim.scenario.routers import RouterChoice, attribute_docstrings
from hearsay.sim.scenario.scenario import Scenario
from hearsay.text import shown_value

_PRESETS = files("hearsay").joinpath("sim", "scenario", "presets")


def preset_names() -> tuple[str, ...]:
    """Return the names of all presets in alphabetical order."""
    return tuple(sorted(entry.name[:-5] for entry in _PRESETS.iterdir() if entry.name.endswith(".toml")))


def preset_text(name: str) -> str:
    """Return the TOML text of a preset, with its comments. Raise `ScenarioError` if no preset has this name."""
    if name not in preset_names():
        raise ScenarioError([f"preset {name!r}: {_no_such_preset(name)}"])
    return _PRESETS.joinpath(f"{name}.toml").read_text("utf-8")


def find_scenario(name: str | Path) -> tuple[Path | None, str | None]:
    """Return (path, None) if `name` is the path of a file, and (None, name) if it is that of a preset.

    Raise `ScenarioError` if it is neither.
    """
    path = Path(name)
    if path.is_file():
        return path, None
    if name in preset_names():
        return None, str(name)
    raise ScenarioError([f"{name}: no such file, and no such preset; there are {', '.join(preset_names())}"])


def load_scenario(
    path: Path | None = None,
    preset: str | None = None,
    overrides: Sequence[tuple[str, object]] = (),
    origins: Mapping[str, str] = MappingProxyType({}),
    *,
    router: str | None = None,
) -> Scenario:
    """Return the scenario that is merged from these layers.

    `preset` replaces the preset that the file names. `overrides` are pairs of a dotted key and a value. `origins` has
    by key the origin of its override, for messages: an option (default: `--set`), a Python parameter, or FILE:LINE.
    Raise `ScenarioError` with all mistakes.
    """
    problems: list[str] = []
    layers = Layers(origins)
    document, lines = parse_file(path) if path is not None else ({}, {})
    own_preset = document.pop("preset", None)
    if preset is None and own_preset is not None:
        if isinstance(own_preset, str) and own_preset in preset_names():
            preset = own_preset
        else:
            shown = shown_value(own_preset)
            problems.append(f"{path}:{lines['preset',]}: preset = {shown}: {_no_such_preset(own_preset)}")
    if preset is not None:
        layers.add(parse(preset_text(preset), f"preset {preset}"), f"preset {preset}")
    if path is not None:
        _resolve_paths(document, path.parent)
        layers.add(document, str(path), lines)
    if router is not None:
        try:
            layers.document = replace_router(layers.document, router)
        except ScenarioError as error:
            problems += error.problems
    return _checked(layers, overrides, problems)


def change_scenario(
    scenario: Scenario, overrides: Sequence[tuple[str, object]], origins: Mapping[str, str], router: str | None = None
) -> Scenario:
    """Return a copy of the scenario with the values of `overrides` and, unless `router` is None, with this kind of
    router. `origins` are those of `load_scenario`. Raise `ScenarioError` with all mistakes."""
    layers = Layers(origins)
    layers.add(parse(dump_scenario(scenario), "scenario"), "scenario")
    if router is not None:
        layers.document = replace_router(layers.document, router)
    return _checked(layers, overrides, [])


def dump_scenario(scenario: Scenario) -> str:
    """Return the scenario as TOML, with every key that has a value and with all router parameters."""
    return tomli_w.dumps(plain_section(scenario))


def plain_section(section: BaseModel) -> Document:
    """Return a section as a table of TOML, without the keys that have no value."""
    return {
        key: plain_value(value) for key in type(section).model_fields if (value := getattr(section, key)) is not None
    }


def _checked(layers: Layers, overrides: Sequence[tuple[str, object]], problems: list[str]) -> Scenario:
    """Return the scenario of layers and overrides. If there are problems, raise `ScenarioError` with `problems` and
    all others."""
    chosen = {key: value for key, value in overrides if key in ("router.kind", "router.preset")}
    layers.change_router({key.removeprefix("router."): parse_value(value) for key, value in chosen.items()})
    # Scores last: another override may name the preset whose scores they change.
    for key, value in sorted(overrides, key=lambda one: ".score." in one[0]):
        try:
            layers.override(key, value)
        except ScenarioError as error:
            problems += error.problems
    try:
        scenario = Scenario.model_validate(layers.document)
    except ValidationError as error:
        raise ScenarioError(problems + layers.explain(error)) from None
    problems += _file_problems(scenario)
    if problems:
        raise ScenarioError(problems)
    return scenario


def _resolve_paths(document: Document, folder: Path) -> None:
    for section, key in FILE_KEYS:
        table = cast("Document | None", document.get(section))
        if isinstance(table, dict) and isinstance(name := table.get(key), str) and name:
            table[key] = str((folder / name).absolute())


def _file_problems(scenario: Scenario) -> list[str]:
    edges, regions = scenario.network.edges_file, scenario.links.regions_file
    read: Callable[[Path], object] = partial(read_edges, nodes=scenario.network.nodes)
    problems: list[str] = []
    for file, reader in ((edges, read), (regions, read_regions)):
        try:
            if file is not None:
                reader(Path(file))
        except ScenarioError as error:
            problems += error.problems
    return problems


def _no_such_preset(name: object) -> str:
    names = preset_names()
    having = [kind.name for kind in ROUTERS.values() if name in kind.presets]
    if having:
        return f"no such preset; the router {having[0]} has one: router.preset = {shown_value(name)}"
    close = get_close_matches(str(name), names, n=1)
    return f"no such preset, did you mean {close[0]!r}?" if close else f"no such preset; there are {', '.join(names)}"


def plain_value(value: object) -> object:
    """Return a value of a scenario as a value of TOML."""
    match value:
        case BaseModel():
            return plain_section(value)
        case RouterChoice():
            return value.to_mapping()
        case StrEnum():
            return str(value)
        case tuple():
            return [plain_value(inner) for inner in cast("tuple[object, ...]", value)]
        case Decimal() if value == value.to_integral_value():
            return int(value)
        case _:
            return value


class FileSchema(GenerateJsonSchema):
    """A generator of schemas for TOML. Defaults are values as a file has them, descriptions are docstrings, and no
    key can be null."""

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        found = super().model_schema(schema)
        if "description" in found:
            found["description"] = " ".join(found["description"].split())
        for key, description in attribute_docstrings(schema["cls"]).items():
            if key in found["properties"]:
                found["properties"][key]["description"] = description
        return found

    def encode_default(self, dft: Any) -> Any:
        if isinstance(dft, RouterChoice):
            return {"kind": dft.kind}
        return json.loads(json.dumps(plain_value(dft), default=float))

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        found = super().default_schema(schema)
        return {key: value for key, value in found.items() if (key, value) != ("default", None)}


def scenario_schema() -> dict[str, Any]:
    """Return the JSON Schema of scenario files, with the sections of `Scenario` and the key `preset`."""
    schema = Scenario.model_json_schema(schema_generator=FileSchema)
    schema["properties"]["preset"] = {"enum": list(preset_names()), "description": "Preset to start from."}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
