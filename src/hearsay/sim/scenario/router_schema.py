"""The JSON Schema of a table with a router: a kind of Hearsay with its parameters, or one by its import path."""

from __future__ import annotations

import ast
from dataclasses import Field, fields
from functools import cache
from importlib import import_module
from inspect import getsource
from itertools import pairwise
from typing import Any

from hearsay.core.registry import ROUTERS, RouterKind
from hearsay.core.scores.score_parameters import PeerScoreParameters, ScoreThresholds, TopicScoreParameters
from hearsay.core.scores.score_set import ScoreSet
from hearsay.core.shell.parameters import MAX_TIME_MS, Parameters, arguments

_KIND = "Kind of router."
_PRESET = "Named parameters to start from."


def router_schema() -> dict[str, Any]:
    """Return the schema of the table."""
    outside = {
        "type": "object",
        "properties": {"kind": {"type": "string", "description": "Import path of a router, module:attribute."}},
        "required": ["kind"],
    }
    known = {"properties": {"kind": {"enum": list(ROUTERS)}}}
    return {"anyOf": [*map(kind_schema, ROUTERS.values()), {**outside, "not": known}]}


def kind_schema(kind: RouterKind) -> dict[str, Any]:
    """Return the schema of one kind's table; a table without `kind` is gossipsub's."""
    from_arguments = {
        name: {
            "type": "integer",
            "minimum": preset.low,
            "maximum": preset.high,
            "default": preset.default,
            "description": f"Argument of the presets that are made from a number of {name}.",
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
    """Return the docstring below each field of a class and of its bases, on one line."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        if not each.__module__.startswith("hearsay."):
            continue
        module = ast.parse(getsource(import_module(each.__module__)))
        body = next(
            node.body for node in module.body if isinstance(node, ast.ClassDef) and node.name == each.__name__
        )
        for field, below in pairwise(body):
            match field, below:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    found[name] = " ".join(text.split())
                case _:
                    pass
    return found


def _table(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _parameters(kind: type[Parameters]) -> dict[str, Any]:
    docstrings = attribute_docstrings(kind)
    return {
        each.name: {**_type(each), "description": each.metadata.get("meaning") or docstrings[each.name]}
        for each in fields(kind)
    }


def _type(declared: Field[Any]) -> dict[str, Any]:
    """Return the range or the words of a parameter, and its default."""
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
    """Return the parameters, and for each decay the time that may replace it."""
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
