"""The JSON Schema of scenario files, made from the sections, for editors that complete and check keys.

It has keys, types, ranges, words and descriptions. Rules between keys are checked when a scenario is loaded.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from hearsay.sim.scenario.routers import RouterChoice, attribute_docstrings
from hearsay.sim.scenario.scenario import Scenario
from hearsay.sim.scenario.scenario_file import plain_value, preset_names


class FileSchema(GenerateJsonSchema):
    """A schema with defaults as in a file, docstrings as descriptions, and no null, which TOML lacks."""

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
    """Return the schema of a scenario, or of a file that changes some keys of a preset."""
    schema = Scenario.model_json_schema(schema_generator=FileSchema)
    schema["properties"]["preset"] = {"enum": list(preset_names()), "description": "Preset to start from."}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
