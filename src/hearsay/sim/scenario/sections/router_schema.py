"""The JSON Schema of a table that says who runs which router: that of each router of ours, or one from outside.

Parameters come with their ranges and words, as they are declared; a decay of a score also as a time.
"""

from __future__ import annotations

from dataclasses import Field, fields
from typing import Any

from hearsay.core.registry import ROUTERS, RouterKind
from hearsay.core.scores.peer_parameters import PeerScoreParameters
from hearsay.core.scores.score_set import ScoreSet
from hearsay.core.scores.thresholds import ScoreThresholds
from hearsay.core.scores.topic_parameters import TopicScoreParameters
from hearsay.core.shell.parameters import MAX_TIME_MS, Parameters
from hearsay.core.shell.presets import arguments


def router_schema() -> dict[str, Any]:
    """What an editor is told of the table."""
    outside = {"type": "object", "properties": {"kind": {"type": "string"}}, "required": ["kind"]}
    known = {"properties": {"kind": {"enum": list(ROUTERS)}}}
    return {"anyOf": [*map(_of_kind, ROUTERS.values()), {**outside, "not": known}]}


def _of_kind(kind: RouterKind) -> dict[str, object]:
    """The table of a router of ours; a table that names no kind is gossipsub's."""
    made_from = {
        name: {"type": "integer", "minimum": preset.low, "maximum": preset.high, "default": preset.default}
        for name, preset in arguments(kind.presets).items()
    }
    properties = {
        "kind": {"const": kind.name},
        "preset": {"enum": list(kind.presets)},
        **made_from,
        **_of_parameters(kind.parameters),
    }
    required = [] if kind.name == "gossipsub" else ["kind"]
    return _closed(properties, required)


def _closed(properties: dict[str, Any], required: list[str]) -> dict[str, object]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _of_parameters(kind: type[Parameters]) -> dict[str, Any]:
    return {declared.name: _of_parameter(declared) for declared in fields(kind)}


def _of_parameter(declared: Field[Any]) -> dict[str, object]:
    """A parameter with its range or words."""
    rules = declared.metadata
    if "choices" in rules:
        return {"enum": [str(word) for word in rules["choices"]], "default": str(declared.default)}
    if "table" in rules:
        return _of_score() if rules["table"] is ScoreSet else _closed(_of_parameters(rules["table"]), [])
    if "pairs" in rules:
        pair = {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 2, "maxItems": 2}
        return {"type": "array", "items": pair, "default": []}
    if "texts" in rules:
        return {"type": "array", "items": {"type": "string"}, "default": []}
    if "expression" in rules:
        return {"type": "string", "format": "regex", "default": declared.default}
    if "low" in rules:
        kind = "number" if "number" in rules else "integer"
        return {"type": kind, "minimum": rules["low"], "maximum": rules["high"], "default": declared.default}
    return {"type": "boolean", "default": declared.default}


def _of_score() -> dict[str, object]:
    """`[router.score]` with its thresholds and topics."""
    topic = {"topic": {"type": "string", "minLength": 1}, **_with_times(TopicScoreParameters)}
    tables = {
        "thresholds": _closed(_of_parameters(ScoreThresholds), []),
        "topics": {"type": "array", "items": _closed(topic, ["topic"])},
    }
    return _closed({**_with_times(PeerScoreParameters), **tables}, [])


def _with_times(kind: type[Parameters]) -> dict[str, Any]:
    """Parameters, and for each decay the time that may stand in its place."""
    found = _of_parameters(kind)
    time = {"type": "integer", "minimum": 1, "maximum": MAX_TIME_MS}
    return {**found, **{f"{name}_ms": time for name in found if name.endswith("_decay")}}
