"""The JSON Schema of scenario files, made from the sections: for editors, which complete keys and mark what is wrong.

It knows keys, types, ranges and words; what holds between keys only loading a scenario tells.
"""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum
from typing import Any, cast

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from hearsay.sim.scenario.scenario import Scenario
from hearsay.sim.scenario.scenario_file import preset_names
from hearsay.sim.scenario.sections.routers import RouterChoice


class FileSchema(GenerateJsonSchema):
    """Defaults as a file writes them; nothing is null in TOML."""

    def encode_default(self, dft: Any) -> Any:
        return _plain(dft)

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        found = super().default_schema(schema)
        return {key: value for key, value in found.items() if (key, value) != ("default", None)}


def scenario_schema() -> dict[str, Any]:
    """A scenario, or what a file changes of the preset it names."""
    schema = Scenario.model_json_schema(schema_generator=FileSchema)
    schema["properties"]["preset"] = {"enum": list(preset_names())}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _plain(value: Any) -> Any:
    match value:
        case Decimal():
            return int(value) if value == value.to_integral_value() else float(value)
        case StrEnum():
            return str(value)
        case RouterChoice():
            return {"kind": value.kind}
        case BaseModel():
            return {
                key: _plain(getattr(value, key))
                for key in type(value).model_fields
                if getattr(value, key) is not None
            }
        case tuple():
            return [_plain(inner) for inner in cast("tuple[Any, ...]", value)]
        case _:
            return value
