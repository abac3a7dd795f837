"""A study as it is written: a base scenario, axes, seeds, and how the runs are made.

    title = "Heartbeats"
    question = "Does a slower heartbeat cost deliveries?"
    seeds = 5                  # seeds 1…5 for every point; or an array

    [base]
    preset = "r1"
    loss.rate = 0.05

    [[axes]]
    key = "router.heartbeat_interval_ms"
    values = [300, 1000, 3000]

Everything that is wrong is told at once, a line each, with the file and the line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path

from hearsay.sim.scenario.scenario import MAX_SEED
from hearsay.sim.scenario.toml_text import parse_value, shown_value
from hearsay.studies.axes import Axis, axis_of_values, read_axes
from hearsay.studies.base import Base, Setting
from hearsay.studies.checked_toml import Table
from hearsay.studies.errors import StudyError

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

    def with_settings(self, settings: Sequence[Setting]) -> Study:
        return replace(self, base=self.base.with_settings(settings))

    def with_values(self, key: str, text: str) -> Study:
        """The same study with other values on the axis of a key; `text` is a TOML array."""
        label = f"--axis {key}={text}"
        values = parse_value(text)
        owners = [axis.name for axis in self.axes if axis.keys == (key,)]
        if not owners:
            single = ", ".join(axis.keys[0] for axis in self.axes if len(axis.keys) == 1) or "none"
            raise StudyError([f"{label}: no axis of this key alone; there are: {single}"])
        if not isinstance(values, list) or not values:
            raise StudyError([f"{label}: write the values as an array, as in --axis '{key}=[1, 2]'"])
        changed = axis_of_values(key, values, label)  # pyright: ignore[reportUnknownArgumentType]
        if len(set(changed.labels)) < len(changed.labels):
            raise StudyError([f"{label}: a value is there twice"])
        axes = tuple(changed if axis.keys == (key,) else axis for axis in self.axes)
        return replace(self, axes=axes)


def load_study(path: Path) -> Study:
    """Read a study; raises `StudyError` with a line for each thing that is wrong."""
    table = Table.of_file(path)
    base_table = table.table("base")
    study = Study(
        name=path.stem,
        title=table.text("title", path.stem),
        question=table.text("question"),
        base=Base.read(base_table, path.parent),
        axes=read_axes(table.tables("axes")),
        seeds=read_seeds(table, "seeds", 5),
        engine=table.text("engine", "auto", ENGINES),
        cores_per_task=table.integer("cores_per_task", 1, 1, MOST_CORES),
        traces=table.flag("traces", False),
    )
    table.finish()
    if table.problems:
        raise StudyError(table.problems)
    return study


def read_seeds(table: Table, key: str, default: int) -> tuple[int, ...]:
    """Seeds as a count (1, 2, …) or one by one."""
    value = table.raw(key)
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return tuple(range(1, table.integer(key, default, 1, MOST_SEEDS) + 1))
    seeds = table.array(key) or []
    for number, seed in enumerate(seeds):
        if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= MAX_SEED:
            table.wrong(f"must be an integer in 0…{MAX_SEED}", key, number)
    whole = tuple(seed for seed in seeds if isinstance(seed, int))
    if isinstance(value, list) and not 1 <= len(set(whole)) == len(whole) <= MOST_SEEDS:
        table.problems.append(
            f"{table.where(key)}: {key} = {shown_value(seeds)}: must be 1…{MOST_SEEDS} different seeds"
        )
    return whole
