"""The JSON Schemas of study, budget and tune files, made from their models, for editors.

A base takes the keys of a scenario, so its schema contains the sections of a scenario.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from hearsay.sim.scenario.scenario_file import FileSchema, scenario_schema
from hearsay.studies.axes import BaseTable
from hearsay.studies.budgets import BudgetFile
from hearsay.studies.checked_file import FileTable
from hearsay.studies.study_file import StudyFile
from hearsay.studies.tuning.tune_file import TuneFile


def _schema(model: type[FileTable]) -> dict[str, Any]:
    schema = model.model_json_schema(schema_generator=FileSchema)
    scenario = scenario_schema()
    own: dict[str, Any] = schema["$defs"][BaseTable.__name__]
    router = {"anyOf": [{"type": "string"}, *scenario["properties"]["router"]["anyOf"]]}
    own["properties"] = {**scenario["properties"], "router": router, **own["properties"]}
    own["additionalProperties"] = False
    definitions = {**scenario["$defs"], **schema["$defs"]}
    return {"$schema": scenario["$schema"], **schema, "$defs": definitions}


study_schema, budget_schema, tune_schema = (partial(_schema, model) for model in (StudyFile, BudgetFile, TuneFile))
