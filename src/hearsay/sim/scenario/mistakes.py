"""The validation errors of pydantic as mistakes of a TOML document: path, value and broken rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias, cast, get_args

from pydantic import BaseModel, ValidationError

from hearsay.core.shell.parameters import Violation
from hearsay.sim.scenario.toml_text import KeyPath
from hearsay.text.escape import dotted, shown_value

UnknownKey: TypeAlias = Callable[[KeyPath, object], str]
"""Returns the error for an unknown key, from its path and value."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """A broken rule at a path of a document."""

    path: KeyPath
    subject: str
    """Prefix of the message: the key, and its value if it has one (`loss.rate = 2: `); empty for a whole document."""
    rule: str


def mistakes(error: ValidationError, unknown: UnknownKey) -> Iterator[Mistake]:
    """Yield the mistakes of a validation error in pydantic's order."""
    for found in error.errors():
        path: KeyPath = found["loc"]
        value: object = found["input"]
        match found["type"]:
            case "violations":
                for violation in cast("tuple[Violation, ...]", found.get("ctx", {})["violations"]):
                    yield _below(path, violation)
            case "missing":
                yield _mistake(path, None, "is required")
            case "extra_forbidden":
                yield _mistake(path, value, unknown(path, value))
            case "tuple_type" | "list_type":
                yield _mistake(path, value, "must be an array")
            case "model_type" | "dict_type":
                yield _mistake(path, value, "must be a table")
            case _ if path[-1:] == ("[key]",):
                yield _mistake(path[:-1], None, found["msg"])
            case _:
                yield _mistake(path, value, found["msg"])


def known_keys(model: type[BaseModel], path: KeyPath) -> list[str]:
    """Return the keys that the table at a path may have; indices of arrays in the path are skipped."""
    for part in path:
        fields = {field.alias or name: field for name, field in model.model_fields.items()}
        if part in fields:
            model = _model_in(fields[part].annotation) or model
    return [field.alias or name for name, field in model.model_fields.items()]


def _below(path: KeyPath, violation: Violation) -> Mistake:
    """Return the mistake of a field below a path, or of the table itself if the violation names no field."""
    parts = violation.field.split(".") if violation.field else ()
    path = (*path, *(int(part) if part.isdigit() else part for part in parts))
    return _mistake(path, violation.value, violation.rule)


def _mistake(path: KeyPath, value: object, rule: str) -> Mistake:
    if value is None:
        return Mistake(path, f"{dotted(path)}: " if path else "", rule)
    return Mistake(path, f"{dotted(path)} = {shown_value(value)}: ", rule)


def _model_in(annotation: object) -> type[BaseModel] | None:
    """Return the model in a field's annotation, also if it is optional or in an array; None without a model."""
    if isinstance(annotation, type) and not get_args(annotation):
        return annotation if issubclass(annotation, BaseModel) else None
    return next((found for inner in get_args(annotation) if (found := _model_in(inner))), None)
