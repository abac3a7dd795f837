"""The layers of a scenario, merged into one document, with the origin of every value for error messages.

A *layer* sets some values of a scenario: a preset, a file, or an override (such as `--set`). A layer is *below* those
that are added after it.

Rules:

* Values of a later layer replace those of layers below. Tables are merged key by key; arrays are replaced. If
  `--set` is given several times for a key, the last value counts.
* If a layer changes the kind of router, only those router parameters of layers below remain that the new kind also
  has. If a layer names a preset of a router, no router parameters of layers below remain.
* `mistakes` turns the validation errors of pydantic into mistakes of a document: path, value and broken rule.
* The message about a mistake begins with the origin of the value: `file.toml:12: network.nodes = -3: must be in
  1…100000000`, or `--set network.nodes=-3: must be …`. If the broken rule names a key of an override, the message
  begins with the override.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias, cast, get_args

from pydantic import BaseModel, ValidationError

from hearsay.core.registry import find_router
from hearsay.core.shell.parameters import ParameterError, Violation
from hearsay.sim.scenario.reading import Document, KeyPath, ScenarioError, parse_value
from hearsay.sim.scenario.routers import RouterChoice
from hearsay.sim.scenario.scenario import Scenario
from hearsay.sim.scenario.values import near_key, unknown_key
from hearsay.text import dotted, shown_value

_ARRAY, _TABLE = "must be an array", "must be a table"
_WRONG_TYPES = {"tuple_type": _ARRAY, "list_type": _ARRAY, "model_type": _TABLE, "dict_type": _TABLE}
UnknownKey: TypeAlias = Callable[[KeyPath, object], str]
"""A function that returns the message for an unknown key. Its arguments are the path and the value of the key."""
FILE_KEYS = (("network", "edges_file"), ("links", "regions_file"))
"""Keys whose values are paths of files."""
OPTION_KEYS = {
    "nodes": "network.nodes",
    "connect": "network.degree",
    "messages": "workload.messages",
    "message_delay": "workload.interval_s",
    "fanout": "workload.inject",
    "seed": "seed",
}
"""The keys that the options of `hearsay simulate` with these names set."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """A rule that the value at a path of a document breaks."""

    path: KeyPath
    subject: str
    """Prefix of the message: the key and, if there is one, its value, such as `loss.rate = 2: `. For a mistake of the
    whole document it is empty."""
    rule: str


def mistakes(error: ValidationError, unknown: UnknownKey) -> Iterator[Mistake]:
    """Yield the mistakes of a validation error in pydantic's order."""
    for found in error.errors():
        path: KeyPath = found["loc"]
        value: object = found["input"]
        match found["type"]:
            case "violations":
                for violation in cast("tuple[Violation, ...]", found.get("ctx", {})["violations"]):
                    parts = violation.field.split(".") if violation.field else []
                    below = [int(part) if part.isdigit() else part for part in parts]
                    yield _mistake((*path, *below), violation.value, violation.rule)
            case "missing":
                yield _mistake(path, None, "is required")
            case "extra_forbidden":
                yield _mistake(path, value, unknown(path, value))
            case _ if path[-1:] == ("[key]",):
                yield _mistake(path[:-1], None, found["msg"])
            case kind:
                yield _mistake(path, value, _WRONG_TYPES.get(kind, found["msg"]))


def known_keys(model: type[BaseModel], path: KeyPath) -> list[str]:
    """Return the keys that the table at a path below `model` may have. Indices of arrays in the path are ignored."""
    for part in path:
        fields = {field.alias or name: field for name, field in model.model_fields.items()}
        if part in fields:
            model = _model_in(fields[part].annotation) or model
    return [field.alias or name for name, field in model.model_fields.items()]


def _mistake(path: KeyPath, value: object, rule: str) -> Mistake:
    shown = "" if value is None else f" = {shown_value(value)}"
    return Mistake(path, f"{dotted(path)}{shown}: " if path or shown else "", rule)


def _model_in(annotation: object) -> type[BaseModel] | None:
    """Return the model in a field's annotation, which may be the model itself, an optional one or an array of models.
    Return None if the annotation has no model."""
    if isinstance(annotation, type) and not get_args(annotation):
        return annotation if issubclass(annotation, BaseModel) else None
    return next((found for inner in get_args(annotation) if (found := _model_in(inner))), None)


def replace_router(document: Mapping[str, object], kind: str) -> Document:
    """Return a copy of the document with this kind of router.

    The preset remains if the new kind has a preset with the same name, and so do parameters with the same name. Raise
    `ScenarioError` if the kind is unknown.
    """
    try:
        definition = find_router(kind)
    except ValueError as error:
        raise ScenarioError([str(error)]) from None
    old, names = document.get("router"), definition.parameters.names()
    values = cast("Document", old).items() if isinstance(old, Mapping) else ()
    kept = {key: value for key, value in values if key in names or (key == "preset" and value in definition.presets)}
    return {**document, "router": {"kind": kind, **kept}}


@dataclass(frozen=True, slots=True)
class Origin:
    """The layer that sets a value, and the line of the value if the layer is a file."""

    label: str
    """The beginning of a message about the value: `FILE:LINE` or the name of the layer; for an override, a text with
    its key and value, such as `--set KEY=VALUE`."""
    path: KeyPath | None = None
    """The key of an override; None in other layers."""
    line: int = 0
    """The line of the key in the file; 0 if the layer is no file."""


class Layers:
    """The document that is merged from the layers so far, and the origin of each value in it."""

    def __init__(self, places: Mapping[str, str]) -> None:
        """Create the document without layers. `places` has by key the place of its override, for messages: an option
        (default: `--set`), a Python parameter, or FILE:LINE.
        """
        self._places = places
        self.document: Document = {}
        self._origins: dict[KeyPath, Origin] = {(): Origin("scenario")}

    def add(self, document: Document, label: str, lines: Mapping[KeyPath, int] | None = None) -> None:
        """Add a layer with this document. `lines` has the lines of its keys if it comes from a file."""
        if isinstance(router := document.get("router"), dict):
            self.change_router(cast("Document", router))
        origin = self._origins[()] = Origin(label)
        self.document = self._merge(self.document, document, ())
        for path in _paths(document, ()):
            line = (lines or {}).get(path)
            self._origins[path] = Origin(f"{label}:{line}", None, line) if line else origin

    def override(self, key: str, value: object) -> None:
        """Set one value. A string is parsed as a TOML value if it is one.

        Raise `ScenarioError` if `key` is not the dotted path of a key, such as `network.nodes` or `topics.0.name`, or
        if the path does not fit the document: it leads into a value that is no table, or beyond the end of an array.
        """
        origin = self._places.get(key, "--set")
        given = (value if isinstance(value, str) else shown_value(value)).replace("\n", "\\n")
        label = f"{origin} {key}={given}" if origin.startswith("-") else f"{origin}: {key} = {given}"
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
        """Remove the router parameters that must not remain if the router table `upper` is added (see the rules)."""
        below = cast("Document | None", self.document.get("router"))
        if not isinstance(below, dict):
            return
        if "preset" in upper:
            below = {"kind": below["kind"]} if "kind" in below else {}
            self.document = {**self.document, "router": below}
        kind = upper.get("kind")
        if isinstance(kind, str) and below.get("kind", "gossipsub") != kind:
            with suppress(ScenarioError):  # the check of the merged document reports an unknown kind
                self.document = replace_router(self.document, kind)

    def explain(self, error: ValidationError) -> list[str]:
        """Return a message for each mistake that pydantic found. Messages about a file are in the order of its lines,
        after all other messages."""
        found: list[tuple[int, str]] = []
        for mistake in mistakes(error, partial(_unknown, self._router_keys())):
            path, subject, origin = mistake.path, mistake.subject, self._origin(mistake.path)
            label = origin.label
            if origin.path is not None and origin.path[: len(path)] == path:
                subject = "" if origin.path == path else f"{dotted(path)}: "
            elif origin.path is None and (other := self._override_in(mistake)):
                label, subject = other.label, f"{subject.removesuffix(': ')} ({label}): "
            if mistake.rule.startswith("unknown key") and not label.startswith("-"):
                label = label.partition(" = ")[0]  # the same for all values of an axis, which `all_of` reports once
            found.append((origin.line, f"{label}: {subject}{mistake.rule}"))
        return [line for _, line in sorted(found, key=lambda one: one[0])]

    def _override_in(self, mistake: Mistake) -> Origin | None:
        """Return the override whose key the rule of a mistake names; None if there is none. A rule names a key of the
        same table without the name of the table.
        """
        words = re.findall(r"[\w.]+", mistake.rule)
        for path, origin in self._origins.items():
            if origin.path == path and dotted(path[-1:] if path[:-1] == mistake.path[:-1] else path) in words:
                return origin
        return None

    def _copy_preset_list(self, path: KeyPath, label: str) -> None:
        """If the path leads to an element of a list that only a router's preset has, copy the list into the document,
        so that the override changes only this element."""
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
        """Return the origin of the value at a path.

        If no layer sets this value, return the origin of the closest table around it; if there is none, that of a
        value inside it.
        """
        for end in range(len(path), 0, -1):
            if path[:end] in self._origins:
                return self._origins[path[:end]]
        below = (origin for known, origin in self._origins.items() if path and known[: len(path)] == path)
        return next(below, self._origins[()])

    def _router_keys(self) -> tuple[str, ...]:
        """Return the names of the parameters of the document's router; none if its kind is unknown."""
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
        self._origins = {known: one for known, one in self._origins.items() if known[: len(path)] != path}


def _paths(value: object, path: KeyPath) -> Iterator[KeyPath]:
    """Yield the path of a value, and the paths of all values inside it."""
    yield path
    if isinstance(value, dict):
        for key, inner in cast("Document", value).items():
            yield from _paths(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(cast("list[object]", value)):
            yield from _paths(inner, (*path, index))


def _value_at(document: Mapping[str, object], path: KeyPath) -> object:
    """Return the value at a path; None if the document has no value there."""
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
    """Set one value. Create missing tables and arrays on the path. An index that is equal to the length of an array
    appends an element."""
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
    """Return the message for an unknown key at a path. If the key is the name of an option, the message names the key
    that the option sets. If the path is the key alone, the message names the sections that have a similar key."""
    key, known = str(path[-1]), known_keys(Scenario, path[:-1])
    option_key = OPTION_KEYS.get(key)
    if option_key is not None and not option_key.endswith(key) and not isinstance(value, dict):
        return f"unknown key, did you mean {option_key}?"
    if len(path) > 1:
        return unknown_key(key, known)
    sections = [name for name in known if known_keys(Scenario, (name,)) != known or name == "router"]
    if isinstance(value, dict):
        others = f"unknown key; the sections are {', '.join(sections)}"
        return unknown_key(key, sections) if near_key(key, sections) else others
    inside = {name: router_keys if name == "router" else known_keys(Scenario, (name,)) for name in sections}
    near = near_key(key, {inner for keys in inside.values() for inner in keys})
    meant = [f"{name}.{near}" for name, keys in inside.items() if near in keys]
    return f"unknown key, did you mean {' or '.join(meant)}?" if meant else unknown_key(key, known)
