"""The router of each node: the sections [router] and [[population]], and their JSON Schema.

The key `kind` names one of Hearsay's routers, or has the import path of a router of another package. Other keys are
parameters of that router.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import Field, dataclass, field, fields, replace
from functools import cache
from importlib import import_module
from inspect import getsource
from itertools import pairwise
from typing import Annotated, Any, Self, cast

from pydantic import PlainValidator

from hearsay.core.registry import ROUTERS, RouterKind, find_router
from hearsay.core.scores.score_parameters import PeerScoreParameters, ScoreSet, ScoreThresholds, TopicScoreParameters
from hearsay.core.shell.parameters import (
    MAX_TIME_MS,
    ParameterError,
    Parameters,
    RouterParameters,
    Violation,
    arguments,
    merged,
    preset_values,
)
from hearsay.sim.scenario.values import MILLION, NodeNumber, Section, Share, broken, scaled, unknown_key, violated

_KIND = "Kind of router."
_PRESET = "Named parameters to start from."


def router_schema() -> dict[str, Any]:
    """Return the schema of the table of any router."""
    outside = {
        "type": "object",
        "properties": {"kind": {"type": "string", "description": "Import path of a router, module:attribute."}},
        "required": ["kind"],
    }
    known = {"properties": {"kind": {"enum": list(ROUTERS)}}}
    return {"anyOf": [*map(kind_schema, ROUTERS.values()), {**outside, "not": known}]}


def kind_schema(kind: RouterKind) -> dict[str, Any]:
    """Return the schema of the table of one kind of router. In a table of gossipsub, the key `kind` is optional."""
    from_arguments = {
        name: {
            "type": "integer",
            "minimum": preset.low,
            "maximum": preset.high,
            "default": preset.default,
            "description": f"Number of {name}, from which some presets compute parameters.",
        }
        for name, preset in arguments(kind.presets).items()
    }
    properties = {
        "kind": {"const": kind.name, "description": _KIND},
        "preset": {"enum": list(kind.presets), "description": _PRESET},
        **from_arguments,
        **_parameters(kind.parameters),
    }
    return _table(properties, [] if kind.name == "gossipsub" else ["kind"])


@cache
def attribute_docstrings(kind: type) -> dict[str, str]:
    """Return the docstrings below the fields of a class and of its base classes. Each is one line, by its field."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        if not each.__module__.startswith("hearsay."):
            continue
        module = ast.parse(getsource(import_module(each.__module__)))
        body = next(
            node.body for node in module.body if isinstance(node, ast.ClassDef) and node.name == each.__name__
        )
        for statement, below in pairwise(body):
            match statement, below:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    found[name] = " ".join(text.split())
                case _:
                    pass
    return found


def _table(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _parameters(kind: type[Parameters]) -> dict[str, Any]:
    docstrings = attribute_docstrings(kind)
    return {each.name: {**_type(each), "description": docstrings[each.name]} for each in fields(kind)}


def _type(declared: Field[Any]) -> dict[str, Any]:
    """Return the schema of a parameter: its type, its range or allowed words, and its default."""
    rules = declared.metadata
    if "choices" in rules:
        return {"enum": [str(word) for word in rules["choices"]], "default": str(declared.default)}
    if "table" in rules:
        return _score() if rules["table"] is ScoreSet else _table(_parameters(rules["table"]), [])
    if "pairs" in rules:
        pair = {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 2, "maxItems": 2}
        return {"type": "array", "items": pair, "default": []}
    if "texts" in rules:
        return {"type": "array", "items": {"type": "string"}, "default": []}
    if "low" in rules:
        kind = "number" if "number" in rules else "integer"
        return {"type": kind, "minimum": rules["low"], "maximum": rules["high"], "default": declared.default}
    return {"type": "boolean", "default": declared.default}


def _score() -> dict[str, Any]:
    topic = {
        "topic": {"type": "string", "minLength": 1, "description": "Name of the topic, or of its role."},
        **_with_times(TopicScoreParameters),
    }
    tables = {
        "thresholds": {
            **_table(_parameters(ScoreThresholds), []),
            "description": "Scores that a peer needs.",
        },
        "topics": {
            "type": "array",
            "items": _table(topic, ["topic"]),
            "description": "Parameters of each topic's scores.",
        },
    }
    return _table({**_with_times(PeerScoreParameters), **tables}, [])


def _with_times(kind: type[Parameters]) -> dict[str, Any]:
    """Return the schemas of score parameters. For each parameter `…_decay` there is also a key `…_decay_ms`, which a
    table may have instead of the parameter."""
    found = _parameters(kind)
    times = {
        f"{name}_ms": {
            "type": "integer",
            "minimum": 1,
            "maximum": MAX_TIME_MS,
            "description": f"Time in which the count decays to zero; in place of {name}.",
        }
        for name in found
        if name.endswith("_decay")
    }
    return {**found, **times}


@dataclass(frozen=True, slots=True)
class RouterChoice:
    """A kind of router, with values for all parameters of that kind."""

    kind: str
    preset: str | None
    definition: RouterKind = field(repr=False, hash=False)
    parameters: RouterParameters
    argument: Mapping[str, int] = field(default_factory=dict[str, int], hash=False)
    """The name and the value of the preset's argument; empty for a preset without one."""
    base: Mapping[str, object] = field(default_factory=dict[str, object], hash=False, compare=False, repr=False)
    """The parameters that the preset sets."""

    @classmethod
    def from_mapping(cls, values: Mapping[str, object]) -> Self:
        """Return the choice that a table with `kind`, `preset` and parameters describes.

        Raise `ParameterError` with all violations in the table.
        """
        kind = values.get("kind", "gossipsub")
        if not isinstance(kind, str):
            raise ParameterError((Violation("kind", kind, "must be a string"),))
        try:
            definition = find_router(kind)
        except ValueError as error:
            raise ParameterError((Violation("kind", kind, str(error)),)) from None
        preset = values.get("preset", "r1" if "r1" in definition.presets else None)
        names = definition.parameters.names()
        known = ("kind", "preset", *arguments(definition.presets), *names)
        violations = [
            Violation(key, value, unknown_key(key, known)) for key, value in values.items() if key not in known
        ]
        base: Mapping[str, object] = {}
        argument: dict[str, int] = {}
        if isinstance(preset, str) and preset in definition.presets:
            try:
                argument, base = preset_values(definition.presets, preset, values)
            except ParameterError as error:
                violations += error.violations
        elif preset is not None:
            violations.append(Violation("preset", preset, f"must be one of {', '.join(definition.presets)}"))
        own = {key: value for key, value in values.items() if key in names}
        try:
            parameters = definition.parameters.from_mapping(merged(base, own))
        except ParameterError as error:
            raise ParameterError((*violations, *error.violations)) from None
        if violations:
            raise ParameterError(tuple(violations))
        return cls(kind, cast("str | None", preset), definition, parameters, argument, base)

    def to_mapping(self) -> dict[str, object]:
        """Return the table of this choice, with every parameter."""
        preset = {} if self.preset is None else {"preset": self.preset}
        return {"kind": self.kind, **preset, **self.argument, **self.parameters.to_mapping()}

    def validating(self) -> RouterChoice:
        """Return a copy whose parameter `validate` is True."""
        return replace(self, parameters=replace(self.parameters, validate=True))


def _router(value: object) -> RouterChoice:
    if isinstance(value, RouterChoice):
        return value
    if not isinstance(value, Mapping):
        raise broken("must be a table")
    try:
        return RouterChoice.from_mapping(cast("Mapping[str, object]", value))
    except ParameterError as error:
        raise violated(error.violations) from None


class _RouterSchema:
    def __get_pydantic_json_schema__(self, _core: object, _handler: object) -> dict[str, Any]:
        return router_schema()


RouterTable = Annotated[RouterChoice, PlainValidator(_router), _RouterSchema()]


class Population(Section):
    """[[population]]: nodes with another router, as a random share or as a list."""

    share: Share | None = None
    """Size of the population as a share of all nodes. They are drawn from the nodes that no population lists."""
    listed: tuple[NodeNumber, ...] | None = None
    """The nodes, by number; in place of `share`."""
    router: RouterTable
    """Router of these nodes, with the keys of `[router]`."""

    def cross_rules(self) -> Iterator[Violation]:
        if self.share is None and self.listed is None:
            yield Violation("share", None, "is required, unless listed names the nodes")
        yield from self.exclusive("share", "listed")

    @property
    def share_millionths(self) -> int:
        """The share in millionths; 0 if the nodes are listed."""
        return 0 if self.share is None else scaled(self.share, MILLION)
