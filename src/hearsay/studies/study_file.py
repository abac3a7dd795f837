"""A study as declared in a file: a base scenario, axes, seeds, and how the runs are made.

    title = "Heartbeats"
    question = "Does a slower heartbeat cost deliveries?"
    seeds = 5                  # seeds 1…5 for every point; or an array

    [base]
    preset = "r1"
    loss.rate = 0.05

    [[axes]]
    key = "router.heartbeat_interval_ms"
    values = [300, 1000, 3000]

All mistakes of a file are reported at once, a line each, in the order of its lines.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Annotated, Any, cast

from pydantic import Field, PlainValidator

from hearsay.core.shell.parameters import Violation
from hearsay.sim.scenario.scenario import MAX_SEED
from hearsay.sim.scenario.scenario_file import FileSchema, scenario_schema
from hearsay.sim.scenario.toml_text import parse_value
from hearsay.sim.scenario.values import Flag, PerhapsEmptyText, broken, integer_in, one_of, violated
from hearsay.studies.axes import Axes, Axis, Base, BaseTable, Texts, axis_of_values
from hearsay.studies.checked_file import FileTable, StudyError, read_checked
from hearsay.text.escape import shown_value

ENGINES = ("auto", "reference", "array")
MOST_SEEDS = 100_000
MOST_RUNS = 1_000_000
MOST_CORES = 1024


@dataclass(frozen=True, slots=True)
class Study:
    name: str
    title: str
    question: str
    base: Base
    axes: tuple[Axis, ...]
    seeds: tuple[int, ...]
    engine: str = "auto"
    cores_per_task: int = 1
    traces: bool = False

    @property
    def runs(self) -> int:
        return prod((len(axis.steps) for axis in self.axes), start=len(self.seeds))

    def changed(self, axes: Texts, settings: Texts, seeds: tuple[int, ...] | None, engine: str | None) -> Study:
        """Return the study with other values on axes, keys of its base, seeds and engine."""
        study = self
        for key, text in axes:
            study = study.with_values(key, text)
        seeds = study.seeds if seeds is None else seeds
        return replace(study, base=study.base.with_settings(settings), seeds=seeds, engine=engine or study.engine)

    def with_values(self, key: str, text: str) -> Study:
        """Return the study with other values on the axis of a key; `text` is a TOML array."""
        values = parse_value(text)
        label = f"--axis {key}={text if isinstance(values, str) else shown_value(values)}"
        owners = [axis.name for axis in self.axes if axis.keys == (key,)]
        if not owners:
            single = ", ".join(axis.keys[0] for axis in self.axes if len(axis.keys) == 1) or "none"
            raise StudyError([f"{label}: no axis has this key alone; axes with one key: {single}"])
        if not isinstance(values, list) or not values:
            raise StudyError([f"{label}: write the values as an array, as in --axis '{key}=[1, 2]'"])
        changed = axis_of_values(key, values, label)  # pyright: ignore[reportUnknownArgumentType]
        if len(set(changed.labels)) < len(changed.labels):
            raise StudyError([f"{label}: a value is repeated"])
        axes = tuple(changed if axis.keys == (key,) else axis for axis in self.axes)
        return replace(self, axes=axes)


def _seeds(value: object) -> tuple[int, ...]:
    """Return seeds, given as a number of seeds from 1, or as an array."""
    if isinstance(value, int) and not isinstance(value, bool):
        if not 1 <= value <= MOST_SEEDS:
            raise broken(f"must be in 1…{MOST_SEEDS}")
        return tuple(range(1, value + 1))
    if not isinstance(value, list):
        raise broken(f"must be an integer in 1…{MOST_SEEDS}, or an array of seeds")
    seeds = cast("list[object]", value)
    wrong = [number for number, seed in enumerate(seeds) if type(seed) is not int or not 0 <= seed <= MAX_SEED]
    if wrong:
        rule = f"must be an integer in 0…{MAX_SEED}"
        raise violated(tuple(Violation(str(number), seeds[number], rule) for number in wrong))
    whole = cast("list[int]", seeds)
    if not 1 <= len(set(whole)) == len(whole) <= MOST_SEEDS:
        raise broken(f"must be 1…{MOST_SEEDS} different seeds")
    return tuple(whole)


_ManySeeds = Annotated[int, Field(ge=1, le=MOST_SEEDS)]
_TheseSeeds = Annotated[list[Annotated[int, Field(ge=0, le=MAX_SEED)]], Field(min_length=1, max_length=MOST_SEEDS)]
Seeds = Annotated[tuple[int, ...], PlainValidator(_seeds, json_schema_input_type=_ManySeeds | _TheseSeeds)]


class RunsFile(FileTable):
    """Keys that study, budget and tune files share."""

    title: PerhapsEmptyText | None = None
    """Title of reports; default: the name of the file."""
    engine: Annotated[str, one_of(ENGINES)] = "auto"
    """Engine of the runs; auto takes the faster one."""
    cores_per_task: Annotated[int, integer_in(1, MOST_CORES)] = 1
    """Number of cores of each run, for engines that use several."""


class StudyFile(RunsFile):
    """A study: many runs over the axes of a scenario."""

    question: PerhapsEmptyText = ""
    """Question of the study, shown below the title of reports."""
    base: BaseTable = BaseTable()
    """The scenario that all runs start from: a preset or a file, and keys of a scenario."""
    axes: Axes = ()
    """Axes, whose values are combined with each other."""
    seeds: Seeds = (1, 2, 3, 4, 5)
    """Number of seeds, from 1, or an array of seeds; every point runs with each."""
    traces: Flag = False
    """True to keep the run folders."""


def file_schema(model: type[RunsFile]) -> dict[str, Any]:
    """Return the JSON Schema of a kind of file, for editors. A base may have all keys of a scenario."""
    schema = model.model_json_schema(schema_generator=FileSchema)
    scenario = scenario_schema()
    own: dict[str, Any] = schema["$defs"][BaseTable.__name__]
    router = {"anyOf": [{"type": "string"}, *scenario["properties"]["router"]["anyOf"]]}
    own["properties"] = {**scenario["properties"], "router": router, **own["properties"]}
    own["additionalProperties"] = False
    definitions = {**scenario["$defs"], **schema["$defs"]}
    return {"$schema": scenario["$schema"], **schema, "$defs": definitions}


def load_study(path: Path) -> Study:
    """Read a study. Raise `StudyError` with a line for each mistake."""
    file, key_lines = read_checked(path, StudyFile)
    return Study(
        name=path.stem,
        title=path.stem if file.title is None else file.title,
        question=file.question,
        base=Base.of(file.base, path.parent, key_lines, "base"),
        axes=tuple(axis.axis(key_lines, "axes", number) for number, axis in enumerate(file.axes)),
        seeds=file.seeds,
        engine=file.engine,
        cores_per_task=file.cores_per_task,
        traces=file.traces,
    )
