"""What a model finds wrong in a document: where, what stands there, and the rule in words that it breaks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias, cast, get_args

from pydantic import BaseModel, ValidationError

from hearsay.core.shell.parameters import Violation
from hearsay.sim.scenario.toml_lines import KeyPath
from hearsay.text.toml import dotted, shown_value

UnknownKey: TypeAlias = Callable[[KeyPath, object], str]
"""What to say of an unknown key, by its path and value."""


@dataclass(frozen=True, slots=True)
class Mistake:
    path: KeyPath
    subject: str
    """How a message names the key, with its value if it has one: `loss.rate = 2: `. Empty for the whole document."""
    rule: str


def mistakes(error: ValidationError, unknown: UnknownKey) -> Iterator[Mistake]:
    """All that pydantic found, in its order."""
    for found in error.errors():
        path: KeyPath = found["loc"]
        value: object = found["input"]
        match found["type"]:
            case "violations":
                for violation in cast("tuple[Violation, ...]", found.get("ctx", {})["violations"]):
                    yield _below(path, violation)
            case "missing":
                yield _of_table(path, "is required")
            case "extra_forbidden":
                yield _of_value(path, value, unknown(path, value))
            case "tuple_type" | "list_type":
                yield _of_value(path, value, "must be an array")
            case "model_type" | "dict_type":
                yield _of_value(path, value, "must be a table")
            case _ if path[-1:] == ("[key]",):
                yield _of_table(path[:-1], found["msg"])
            case _:
                yield _of_value(path, value, found["msg"])


def known_keys(model: type[BaseModel], path: KeyPath) -> list[str]:
    """The keys that the table at a path of a document knows."""
    for part in path:
        fields = {field.alias or name: field for name, field in model.model_fields.items()}
        if part in fields:
            model = _model_in(fields[part].annotation) or model
    return [field.alias or name for name, field in model.model_fields.items()]


def _below(path: KeyPath, violation: Violation) -> Mistake:
    """Of a field below the table at a path; or of the table itself, which lacks something: no field, no value."""
    parts = violation.field.split(".") if violation.field else ()
    path = (*path, *(int(part) if part.isdigit() else part for part in parts))
    if violation.value is None:
        return _of_table(path, violation.rule)
    return _of_value(path, violation.value, violation.rule)


def _of_table(path: KeyPath, rule: str) -> Mistake:
    return Mistake(path, f"{dotted(path)}: " if path else "", rule)


def _of_value(path: KeyPath, value: object, rule: str) -> Mistake:
    return Mistake(path, f"{dotted(path)} = {shown_value(value)}: ", rule)


def _model_in(annotation: object) -> type[BaseModel] | None:
    """The model that a field holds, perhaps optional or many times."""
    if isinstance(annotation, type) and not get_args(annotation):
        return annotation if issubclass(annotation, BaseModel) else None
    return next((found for inner in get_args(annotation) if (found := _model_in(inner))), None)
