"""Scenarios from TOML: presets, files, overrides, and error messages that say where.

Rules:

* Layers, later ones win: the built-in defaults, a preset, the file, `--router`, `--set`. Tables are merged key by
  key, arrays are replaced. A file names the preset it starts from with `preset = "…"` at its top.
* A layer that changes the kind of router keeps the parameters of the layers below that the new kind also has. A
  layer that names a router's preset starts from that one, and drops the parameters of the layers below.
* All that is wrong is reported at once, a line each: `file.toml:12: network.nodes = -3: must be in 1…100000000`, or
  `--set network.nodes=-3: must be …`. Files that the scenario names are read, and their bad lines reported too.
* Paths are relative to the scenario file, those of `--set` to the working directory.
* `dump_scenario` spells everything out; loading that gives an equal scenario.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from decimal import Decimal
from difflib import get_close_matches
from enum import StrEnum
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import cast

import tomli_w
from pydantic import BaseModel, ValidationError

from hearsay.core.registry import ROUTERS, find_router
from hearsay.core.shell.parameters import ParameterError
from hearsay.sim.scenario.mistakes import known_keys, mistakes
from hearsay.sim.scenario.scenario import Scenario
from hearsay.sim.scenario.scenario_error import ScenarioError
from hearsay.sim.scenario.sections.routers import RouterChoice
from hearsay.sim.scenario.sections.values import near_key, unknown_key
from hearsay.sim.scenario.tables import read_edges, read_regions
from hearsay.sim.scenario.toml_lines import KeyPath
from hearsay.sim.scenario.toml_text import Document, parse, parse_file, parse_value
from hearsay.text.toml import dotted, shown_value

_FILE_KEYS = (("network", "edges_file"), ("links", "regions_file"))


def preset_names() -> tuple[str, ...]:
    """The presets there are, in alphabetical order."""
    folder = files("hearsay").joinpath("sim", "scenario", "presets")
    return tuple(
        sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))
    )


def preset_text(name: str) -> str:
    """A preset as commented TOML; raises `ScenarioError` when there is none of that name."""
    if name not in preset_names():
        raise ScenarioError([f"preset {name!r}: {_no_such_preset(name)}"])
    return files("hearsay").joinpath("sim", "scenario", "presets", f"{name}.toml").read_text("utf-8")


def find_scenario(name: str | Path) -> tuple[Path | None, str | None]:
    """A scenario by the path of its file, or by the name of a preset: the file, or the preset."""
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
    *,
    router: str | None = None,
) -> Scenario:
    """The scenario of a file, a preset, both or neither; `preset` wins over the file's own."""
    problems: list[str] = []
    layers = _Layers()
    document, lines = parse_file(path) if path is not None else ({}, {})
    own_preset = document.pop("preset", None)
    if preset is None and own_preset is not None:
        if isinstance(own_preset, str) and own_preset in preset_names():
            preset = own_preset
        else:
            shown = shown_value(own_preset)
            problems.append(f"{path}:{lines['preset',]}: preset = {shown}: {_no_such_preset(own_preset)}")
    if preset is not None:
        layers.add(parse(preset_text(preset), f"preset {preset}"), _Origin(f"preset {preset}"), {})
    if path is not None:
        _resolve_paths(document, path.parent)
        layers.add(document, _Origin(str(path)), lines)
    if router is not None:
        try:
            layers.document = replace_router(layers.document, router)
        except ScenarioError as error:
            problems += error.problems
    return _checked(layers, overrides, problems)


def change_scenario(
    scenario: Scenario, overrides: Sequence[tuple[str, object]], *, router: str | None = None
) -> Scenario:
    """The same scenario with keys changed, and perhaps with another router."""
    layers = _Layers()
    layers.add(parse(dump_scenario(scenario), "scenario"), _Origin("scenario"), {})
    if router is not None:
        layers.document = replace_router(layers.document, router)
    return _checked(layers, overrides, [])


def _checked(layers: _Layers, overrides: Sequence[tuple[str, object]], problems: list[str]) -> Scenario:
    """The scenario of these layers and overrides; `problems` are those known already."""
    chosen = {key: value for key, value in overrides if key in ("router.kind", "router.preset")}
    layers.change_router({key.removeprefix("router."): parse_value(value) for key, value in chosen.items()})
    for key, value in sorted(overrides, key=lambda one: ".score." in one[0]):  # of which preset it is, is said first
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


def dump_scenario(scenario: Scenario) -> str:
    """Fully resolved TOML: every key that has a value, every router parameter."""
    return tomli_w.dumps(_plain(scenario))


def replace_router(document: Mapping[str, object], kind: str) -> Document:
    """The same scenario with another router, which keeps the preset and the parameters that it also has."""
    try:
        definition = find_router(kind)
    except ValueError as error:
        raise ScenarioError([f"--router {kind}: {error}"]) from None
    replaced: Document = {"kind": kind}
    old = document.get("router", {})
    if isinstance(old, Mapping):
        for key, value in cast("Mapping[str, object]", old).items():
            if key in definition.parameters.names() or (key == "preset" and value in definition.presets):
                replaced[key] = value
    return {**document, "router": replaced}


@dataclass(frozen=True, slots=True)
class _Origin:
    """Where a value was said. An override's label ends in the value of its `path`."""

    label: str
    path: KeyPath | None = None
    line: int = 0


class _Layers:
    """The merged document, and for each of its values where it comes from."""

    def __init__(self) -> None:
        self.document: Document = {}
        self._origins: dict[KeyPath, _Origin] = {(): _Origin("scenario")}

    def add(self, document: Document, origin: _Origin, lines: Mapping[KeyPath, int]) -> None:
        router = document.get("router")
        if isinstance(router, dict):
            self.change_router(cast(Document, router))
        self._origins[()] = origin
        self.document = self._merge(self.document, document, ())
        for path in _paths(document, ()):
            line = lines.get(path)
            self._origins[path] = _Origin(f"{origin.label}:{line}", None, line) if line else origin

    def override(self, key: str, value: object) -> None:
        said = value if isinstance(value, str) else shown_value(value)
        label = f"--set {key}={said}".replace("\n", "\\n")
        path = tuple(int(part) if part.isascii() and part.isdigit() else part for part in key.split("."))
        if "" in path or isinstance(path[0], int):
            raise ScenarioError([f"{label}: {key!r} is not the path of a key"])
        parsed = parse_value(value)
        if path in _FILE_KEYS and isinstance(parsed, str) and parsed:
            parsed = str(Path(parsed).absolute())
        self.document = deepcopy(self.document)
        self._take_over_list(path, label)
        _put(self.document, path, parsed, label)
        self._forget_below(path)
        for below in _paths(parsed, path):
            self._origins[below] = _Origin(label, path)

    def _take_over_list(self, path: KeyPath, label: str) -> None:
        """Before a value in a list of a router's preset is changed, that list becomes one of the document."""
        place = path.index("router") + 1 if "router" in path else len(path)
        number = next((at for at in range(place, len(path)) if isinstance(path[at], int)), None)
        if number is None or _at(self.document, path[:number]) is not None:
            return
        with suppress(ParameterError):
            table = _at(self.document, path[:place])
            choice = RouterChoice.from_mapping(cast(Document, table) if isinstance(table, dict) else {})
            found = _at(choice.preset_values(), path[place:number])
            if isinstance(found, list):
                _put(self.document, path[:number], deepcopy(cast("list[object]", found)), label)

    def explain(self, error: ValidationError) -> list[str]:
        """A line for each thing that is wrong, those of the file in its order."""
        found: list[tuple[int, str]] = []
        for mistake in mistakes(error, partial(_unknown, self._router_keys())):
            path, rule = mistake.path, mistake.rule
            origin = self._origin_of(path)
            if origin.path == path:
                found.append((origin.line, f"{origin.label}: {rule}"))
            elif origin.path is not None and origin.path[: len(path)] == path:
                found.append((origin.line, f"{origin.label}: {dotted(path)}: {rule}"))
            else:
                found.append((origin.line, f"{origin.label}: {mistake.subject}{rule}"))
        return [line for _, line in sorted(found, key=lambda one: one[0])]

    def _origin_of(self, path: KeyPath) -> _Origin:
        """Where the value of a path was said: itself, the table it is in, or, if it is but a table, a key in it."""
        for end in range(len(path), 0, -1):
            if path[:end] in self._origins:
                return self._origins[path[:end]]
        below = (origin for known, origin in self._origins.items() if path and known[: len(path)] == path)
        return next(below, self._origins[()])

    def _router_keys(self) -> tuple[str, ...]:
        """The parameters of the router that the document asks for, as far as it can be told."""
        router = self.document.get("router")
        kind = cast(Document, router).get("kind") if isinstance(router, dict) else None
        with suppress(ValueError):
            return find_router(kind if isinstance(kind, str) else "gossipsub").parameters.names()
        return ()

    def change_router(self, upper: Mapping[str, object]) -> None:
        """Make way for the `kind` or `preset` of a layer that comes next."""
        router = self.document.get("router")
        if not isinstance(router, dict):
            return
        below = cast(Document, router)
        if "preset" in upper:
            below = {"kind": below["kind"]} if "kind" in below else {}
            self.document = {**self.document, "router": below}
        kind = upper.get("kind")
        if isinstance(kind, str) and below.get("kind", "gossipsub") != kind:
            # An unknown kind is left to the check of the merged document.
            with suppress(ScenarioError):
                self.document = replace_router(self.document, kind)

    def _merge(self, base: Document, top: Document, path: KeyPath) -> Document:
        merged = dict(base)
        for key, value in top.items():
            below = merged.get(key)
            if isinstance(below, dict) and isinstance(value, dict):
                merged[key] = self._merge(cast(Document, below), cast(Document, value), (*path, key))
            else:
                self._forget_below((*path, key))
                merged[key] = value
        return merged

    def _forget_below(self, path: KeyPath) -> None:
        for known in [known for known in self._origins if known[: len(path)] == path]:
            del self._origins[known]


def _paths(value: object, path: KeyPath) -> Iterator[KeyPath]:
    """The path of a value and of all values in it."""
    yield path
    if isinstance(value, dict):
        for key, inner in cast(Document, value).items():
            yield from _paths(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(cast("list[object]", value)):
            yield from _paths(inner, (*path, index))


def _at(document: Mapping[str, object], path: KeyPath) -> object:
    """What stands at a path, or None."""
    here: object = document
    for part in path:
        if isinstance(here, Mapping):
            here = cast("Mapping[object, object]", here).get(part)
        elif isinstance(here, list) and isinstance(part, int) and part < len(cast("list[object]", here)):
            here = cast("list[object]", here)[part]
        else:
            return None
    return here


def _put(document: Document, path: KeyPath, value: object, label: str) -> None:
    """Set one value; tables on the way are made, and so is the element right after an array's last."""
    # The cast forgets that this is a table: the steps below find out what they come to.
    here = cast(object, document)
    for place, part in enumerate(path):
        last = place == len(path) - 1
        fresh: object = value if last else ([] if isinstance(path[place + 1], int) else {})
        if isinstance(here, dict) and isinstance(part, str):
            table = cast(Document, here)
            if last or part not in table:
                table[part] = fresh
            here = table[part]
        elif isinstance(here, list) and isinstance(part, int):
            array = cast("list[object]", here)
            if part > len(array):
                raise ScenarioError([f"{label}: {dotted(path[:place])} has {len(array)} elements, numbered from 0"])
            if part == len(array):
                array.append(fresh)
            elif last:
                array[part] = fresh
            here = array[part]
        else:
            what = "an array: a number must follow" if isinstance(here, list) else "not a table"
            raise ScenarioError([f"{label}: {dotted(path[:place])} is {what}"])


def _resolve_paths(document: Document, folder: Path) -> None:
    for section, key in _FILE_KEYS:
        table = document.get(section)
        if isinstance(table, dict):
            values = cast(Document, table)
            name = values.get(key)
            if isinstance(name, str) and name:
                values[key] = str((folder / name).absolute())


def _file_problems(scenario: Scenario) -> list[str]:
    try:
        if scenario.network.edges_file is not None:
            read_edges(Path(scenario.network.edges_file), scenario.network.nodes)
    except ScenarioError as error:
        edge_problems = error.problems
    else:
        edge_problems: list[str] = []
    try:
        if scenario.links.regions_file is not None:
            read_regions(Path(scenario.links.regions_file))
    except ScenarioError as error:
        return edge_problems + error.problems
    return edge_problems


def _no_such_preset(name: object) -> str:
    names = preset_names()
    having = [kind.name for kind in ROUTERS.values() if name in kind.presets]
    if having:
        return f"no such preset; it is one of the router {having[0]}: router.preset = {shown_value(name)}"
    close = get_close_matches(str(name), names, n=1)
    return f"no such preset, did you mean {close[0]!r}?" if close else f"no such preset; there are {', '.join(names)}"


def _unknown(router_keys: Sequence[str], path: KeyPath, value: object) -> str:
    """What to say of an unknown key; one that stands outside of the sections may belong into one."""
    key, known = str(path[-1]), known_keys(Scenario, path[:-1])
    if len(path) > 1:
        return unknown_key(key, known)
    sections = [name for name in known if known_keys(Scenario, (name,)) != known or name == "router"]
    if isinstance(value, dict):
        return (
            unknown_key(key, sections)
            if near_key(key, sections)
            else f"unknown key; the sections are {', '.join(sections)}"
        )
    inside = {name: router_keys if name == "router" else known_keys(Scenario, (name,)) for name in sections}
    near = near_key(key, {inner for keys in inside.values() for inner in keys})
    meant = [f"{name}.{near}" for name, keys in inside.items() if near in keys]
    return f"unknown key, did you mean {' or '.join(meant)}?" if meant else unknown_key(key, known)


def _plain(section: BaseModel) -> Document:
    """A section as TOML can write it; keys without a value are left out."""
    return {
        key: _plain_value(value) for key in type(section).model_fields if (value := getattr(section, key)) is not None
    }


def _plain_value(value: object) -> object:
    match value:
        case BaseModel():
            return _plain(value)
        case RouterChoice():
            return value.to_mapping()
        case StrEnum():
            return str(value)
        case tuple():
            return [_plain_value(inner) for inner in cast("tuple[object, ...]", value)]
        case Decimal() if value == value.to_integral_value():
            return int(value)
        case _:
            return value
