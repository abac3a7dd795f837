"""A study, as a file declares it: a base scenario, axes, seeds, and the way to execute the runs.

    title = "Heartbeats"
    question = "Does a slower heartbeat cost deliveries?"
    seeds = 5                  # seeds 1…5 for every point; or an array

    [base]
    preset = "r1"
    loss.rate = 0.05

    [[axes]]
    key = "router.heartbeat_interval_ms"
    values = [300, 1000, 3000]

All mistakes in the tables of a file are reported together, with a line for each, in the order of the lines of the
file. Invalid values of scenario keys are found later, when the points are made (`points.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar, cast

from pydantic import Field, PlainValidator

from hearsay.core.shell.parameters import Violation
from hearsay.sim.scenario.reading import parse_value
from hearsay.sim.scenario.scenario import MAX_SEED
from hearsay.sim.scenario.scenario_file import FileSchema, scenario_schema
from hearsay.sim.scenario.values import Flag, PerhapsEmptyText, broken, integer_in, one_of, violated
from hearsay.studies.axes import Axes, Axis, Base, BaseTable, Texts, axis_of_values
from hearsay.studies.checked_file import FileTable, StudyError, read_checked
from hearsay.text import shown_value

ENGINES = ("auto", "reference", "array")
MOST_SEEDS = 100_000
MOST_RUNS = 1_000_000
MOST_CORES = 1024


@dataclass(frozen=True, slots=True)
class Study:
    """A base scenario, and axes and seeds. The runs are all combinations of one step of each axis and one seed."""

    name: str
    title: str
    base: Base
    axes: tuple[Axis, ...]
    seeds: tuple[int, ...]
    engine: str = "auto"
    cores_per_task: int = 1
    traces: bool = False
    question: str = ""
    """The question that the study answers, for reports."""

    def changed(
        self, axes: Texts, settings: Texts, seeds: tuple[int, ...] | None, engine: str | None,
        names: tuple[str, str] = ("--axis", "--set"),
    ) -> Self:  # fmt: skip
        """Return a copy of the study with changes. `axes` are keys of axes with TOML arrays of new values; `settings`
        change the base scenario. If `seeds` or `engine` is None, it stays the same. `names` are the options or
        parameters that give `axes` and `settings`, for messages. Raise `StudyError` for an invalid axis.
        """
        study = self
        for key, text in axes:
            study = study.with_values(key, text, names[0])
        base, seeds = study.base.with_settings(settings, names[1]), study.seeds if seeds is None else seeds
        return replace(study, base=base, seeds=seeds, engine=engine or study.engine)

    def with_values(self, key: str, text: str, name: str = "--axis") -> Self:
        """Return a copy of the study with other values on the axis whose only key is `key`. `text` is a TOML array.
        Raise `StudyError`, whose messages begin with `name`, if there is no such axis, or if the text is not an array
        of different values.
        """
        values = parse_value(text)
        label = f"{name} {key}={text if isinstance(values, str) else shown_value(values)}"
        owners = [axis.name for axis in self.axes if axis.keys == (key,)]
        if not owners:
            single = ", ".join(axis.keys[0] for axis in self.axes if len(axis.keys) == 1) or "none"
            raise StudyError([f"{label}: no axis has this key alone; axes with one key: {single}"])
        if not isinstance(values, list) or not values:
            raise StudyError([f"{label}: write the values as an array, such as [1, 2]"])
        changed = axis_of_values(key, values, name)  # pyright: ignore[reportUnknownArgumentType]
        if len(set(changed.labels)) < len(changed.labels):
            raise StudyError([f"{label}: a value is repeated"])
        axes = tuple(changed if axis.keys == (key,) else axis for axis in self.axes)
        return replace(self, axes=axes)


def _seeds(value: object) -> tuple[int, ...]:
    """Return the seeds for a value in a file: the number N for the seeds 1 to N, or an array of seeds."""
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


S = TypeVar("S", bound=Study)


class RunsFile(FileTable):
    """Keys that study, budget and tune files share."""

    title: PerhapsEmptyText | None = None
    """Title of reports; default: the name of the file without its suffix."""
    engine: Annotated[str, one_of(ENGINES)] = "auto"
    """Engine of the runs; auto selects the faster one that can execute the scenario."""
    cores_per_task: Annotated[int, integer_in(1, MOST_CORES)] = 1
    """Number of processor cores for each run, for engines that use several."""

    def study(
        self, kind: type[S], name: str, base: Base, axes: Iterable[Axis], seeds: tuple[int, ...], **more: Any
    ) -> S:
        """Return an instance of `kind` with the title, engine and cores of this file. `more` are further fields of
        `kind`.
        """
        title = name if self.title is None else self.title
        return kind(name, title, base, tuple(axes), seeds, self.engine, self.cores_per_task, **more)


class StudyFile(RunsFile):
    """A study: runs of a scenario with all combinations of the values of its axes."""

    question: PerhapsEmptyText = ""
    """The question that the study answers, shown below the title of reports."""
    base: BaseTable = BaseTable()
    """The scenario that all runs share: a preset or a file, and keys of a scenario with other values."""
    axes: Axes = ()
    """Axes. Each combination of a value of each axis is a point."""
    seeds: Seeds = (1, 2, 3, 4, 5)
    """A number N for the seeds 1 to N, or an array of seeds. Each point runs with every seed."""
    traces: Flag = False
    """True keeps the run folder of each run."""


def file_schema(model: type[RunsFile]) -> dict[str, Any]:
    """Return the JSON Schema of a kind of file. Its table `base` may have all keys of a scenario."""
    schema = model.model_json_schema(schema_generator=FileSchema)
    scenario = scenario_schema()
    own: dict[str, Any] = schema["$defs"][BaseTable.__name__]
    router = {"anyOf": [{"type": "string"}, *scenario["properties"]["router"]["anyOf"]]}
    own["properties"] = {**scenario["properties"], "router": router, **own["properties"]}
    own["additionalProperties"] = False
    definitions = {**scenario["$defs"], **schema["$defs"]}
    return {"$schema": scenario["$schema"], **schema, "$defs": definitions}


def load_study(path: Path) -> Study:
    """Return the study of a file. Raise `StudyError` with a line for each mistake."""
    file, key_lines = read_checked(path, StudyFile)
    base = Base.of(file.base, path.parent, key_lines, "base")
    axes = [axis.axis(key_lines, "axes", number) for number, axis in enumerate(file.axes)]
    return file.study(Study, path.stem, base, axes, file.seeds, traces=file.traces, question=file.question)
