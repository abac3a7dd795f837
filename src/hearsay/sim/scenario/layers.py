"""The layers of a scenario, merged into one document, with the origin of every value for error messages.

Rules:

* A later layer wins. Tables are merged key by key, arrays are replaced.
* A layer that changes the kind of router keeps the parameters of the layers below that the new kind also has. A
  layer that names a router's preset drops the parameters of the layers below.
* A mistake is reported with the file and line, or the override, that it comes from: `file.toml:12: network.nodes =
  -3: must be in 1…100000000`, or `--set network.nodes=-3: must be …`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

from pydantic import ValidationError

from hearsay.core.registry import find_router
from hearsay.core.shell.parameters import ParameterError
from hearsay.sim.scenario.mistakes import known_keys, mistakes
from hearsay.sim.scenario.routers import RouterChoice
from hearsay.sim.scenario.scenario import Scenario
from hearsay.sim.scenario.scenario_error import ScenarioError
from hearsay.sim.scenario.toml_text import Document, KeyPath, parse_value
from hearsay.sim.scenario.values import near_key, unknown_key
from hearsay.text.escape import dotted, shown_value

FILE_KEYS = (("network", "edges_file"), ("links", "regions_file"))
"""Keys whose values are paths of files."""


def replace_router(document: Mapping[str, object], kind: str) -> Document:
    """Return the document with another kind of router; keep the preset and the parameters that the new kind has, too.

    Raise `ScenarioError` for an unknown kind.
    """
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
class Origin:
    """The layer that sets a value, and the line of a file."""

    label: str
    """How messages begin: `FILE:LINE`, or `--set KEY=VALUE`, which contains the value."""
    path: KeyPath | None = None
    """The key that `--set` names; None in other layers."""
    line: int = 0
    """The line of the key; 0 if it is unknown."""


class Layers:
    """The merged document, and the origin of each of its values."""

    def __init__(self) -> None:
        self.document: Document = {}
        self._origins: dict[KeyPath, Origin] = {(): Origin("scenario")}

    def add(self, document: Document, label: str, lines: Mapping[KeyPath, int] | None = None) -> None:
        """Merge a document over the layers below; `lines` are the lines of its keys if it comes from a file."""
        router = document.get("router")
        if isinstance(router, dict):
            self.change_router(cast("Document", router))
        origin = self._origins[()] = Origin(label)
        self.document = self._merge(self.document, document, ())
        for path in _paths(document, ()):
            line = (lines or {}).get(path)
            self._origins[path] = Origin(f"{label}:{line}", None, line) if line else origin

    def override(self, key: str, value: object) -> None:
        """Set one value, as `--set` does; raise `ScenarioError` if `key` is not the dotted path of a key."""
        given = value if isinstance(value, str) else shown_value(value)
        label = f"--set {key}={given}".replace("\n", "\\n")
        path = tuple(int(part) if part.isascii() and part.isdigit() else part for part in key.split("."))
        if "" in path or isinstance(path[0], int):
            raise ScenarioError([f"{label}: {key!r} is not the path of a key, such as network.nodes"])
        parsed = parse_value(value)
        if path in FILE_KEYS and isinstance(parsed, str) and parsed:
            parsed = str(Path(parsed).absolute())
        self.document = deepcopy(self.document)
        self._copy_preset_list(path, label)
        _put(self.document, path, parsed, label)
        self._forget_below(path)
        for below in _paths(parsed, path):
            self._origins[below] = Origin(label, path)

    def change_router(self, upper: Mapping[str, object]) -> None:
        """Remove the router's parameters that the `kind` or `preset` in the table of an upper layer makes invalid."""
        router = self.document.get("router")
        if not isinstance(router, dict):
            return
        below = cast("Document", router)
        if "preset" in upper:
            below = {"kind": below["kind"]} if "kind" in below else {}
            self.document = {**self.document, "router": below}
        kind = upper.get("kind")
        if isinstance(kind, str) and below.get("kind", "gossipsub") != kind:
            with suppress(ScenarioError):  # the check of the merged document reports an unknown kind
                self.document = replace_router(self.document, kind)

    def explain(self, error: ValidationError) -> list[str]:
        """Return a line for each mistake; mistakes in the file are in the order of its lines."""
        found: list[tuple[int, str]] = []
        for mistake in mistakes(error, partial(_unknown, self._router_keys())):
            path, rule = mistake.path, mistake.rule
            origin = self._origin(path)
            if origin.path == path:
                found.append((origin.line, f"{origin.label}: {rule}"))
            elif origin.path is not None and origin.path[: len(path)] == path:
                found.append((origin.line, f"{origin.label}: {dotted(path)}: {rule}"))
            else:
                found.append((origin.line, f"{origin.label}: {mistake.subject}{rule}"))
        return [line for _, line in sorted(found, key=lambda one: one[0])]

    def _copy_preset_list(self, path: KeyPath, label: str) -> None:
        """Copy the list of a router's preset into the document before one of its elements is changed."""
        place = path.index("router") + 1 if "router" in path else len(path)
        number = next((at for at in range(place, len(path)) if isinstance(path[at], int)), None)
        if number is None or _value_at(self.document, path[:number]) is not None:
            return
        with suppress(ParameterError):
            table = _value_at(self.document, path[:place])
            choice = RouterChoice.from_mapping(cast("Document", table) if isinstance(table, dict) else {})
            found = _value_at(choice.base, path[place:number])
            if isinstance(found, list):
                _put(self.document, path[:number], deepcopy(cast("list[object]", found)), label)

    def _origin(self, path: KeyPath) -> Origin:
        """Return the origin of a value, or of the table around it, or of any key inside it."""
        for end in range(len(path), 0, -1):
            if path[:end] in self._origins:
                return self._origins[path[:end]]
        below = (origin for known, origin in self._origins.items() if path and known[: len(path)] == path)
        return next(below, self._origins[()])

    def _router_keys(self) -> tuple[str, ...]:
        """Return the names of the router's parameters; none if the document has an unknown kind."""
        router = self.document.get("router")
        kind = cast("Document", router).get("kind") if isinstance(router, dict) else None
        with suppress(ValueError):
            return find_router(kind if isinstance(kind, str) else "gossipsub").parameters.names()
        return ()

    def _merge(self, base: Document, top: Document, path: KeyPath) -> Document:
        merged = dict(base)
        for key, value in top.items():
            below = merged.get(key)
            if isinstance(below, dict) and isinstance(value, dict):
                merged[key] = self._merge(cast("Document", below), cast("Document", value), (*path, key))
            else:
                self._forget_below((*path, key))
                merged[key] = value
        return merged

    def _forget_below(self, path: KeyPath) -> None:
        for known in [known for known in self._origins if known[: len(path)] == path]:
            del self._origins[known]


def _paths(value: object, path: KeyPath) -> Iterator[KeyPath]:
    """Yield the path of a value and of all values in it."""
    yield path
    if isinstance(value, dict):
        for key, inner in cast("Document", value).items():
            yield from _paths(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(cast("list[object]", value)):
            yield from _paths(inner, (*path, index))


def _value_at(document: Mapping[str, object], path: KeyPath) -> object:
    """Return the value at a path, or None."""
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
    """Set one value. Create missing tables on the path; an index one past an array's end appends to it."""
    here = cast("object", document)  # each step below checks the type
    for place, part in enumerate(path):
        last = place == len(path) - 1
        fresh: object = value if last else ([] if isinstance(path[place + 1], int) else {})
        if isinstance(here, dict) and isinstance(part, str):
            table = cast("Document", here)
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


def _unknown(router_keys: Sequence[str], path: KeyPath, value: object) -> str:
    """Return the error for an unknown key; for a key outside of all sections, name the sections that have it."""
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
