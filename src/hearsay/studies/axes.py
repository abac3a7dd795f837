"""The axes and the base scenario of a study. The values of the axes replace values of the base scenario."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import pairwise
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, TypeAlias, cast

from pydantic import AfterValidator, ConfigDict, Field, PlainValidator, ValidationInfo, field_validator

from hearsay.core.shell.parameters import Violation
from hearsay.sim.scenario.reading import Document, ScenarioError
from hearsay.sim.scenario.scenario import Scenario
from hearsay.sim.scenario.scenario_file import load_scenario, preset_names
from hearsay.sim.scenario.values import Number, PerhapsEmptyText, Text, broken, integer_in, one_of, violated
from hearsay.studies.checked_file import FileTable, KeyLines, StudyError
from hearsay.studies.settings import flattened
from hearsay.text import shown_value

Setting: TypeAlias = tuple[str, object]
"""The dotted path of a key of a scenario, such as `network.nodes`, and the value of that key."""
Texts: TypeAlias = Sequence[tuple[str, str]]
"""Pairs of a key of a scenario and the text of that key's value, as in options such as `--set KEY=VALUE`."""

_PATHS = ("network.edges_file", "links.regions_file")


class BaseTable(FileTable):
    """[base]: the scenario that all runs share: a preset or a file, and keys of a scenario with other values."""

    model_config = ConfigDict(extra="allow")

    preset: Annotated[str, one_of(preset_names())] | None = None
    """Name of a preset scenario."""
    file: Text | None = None
    """Path of a scenario file, relative to the folder of the file with this key."""

    @field_validator("file")
    @classmethod
    def _is_there(cls, file: str | None, info: ValidationInfo) -> str | None:
        if file is not None and not (cast("Path", info.context) / file).is_file():
            raise broken("no such file")
        return file

    def cross_rules(self) -> Iterator[Violation]:
        if self.preset is not None and self.file is not None:
            yield Violation("file", self.file, 'not together with preset (the file itself may have preset = "…")')


@dataclass(frozen=True, slots=True)
class Base:
    """A scenario that is not loaded yet: a file or a preset, and settings that override keys of it. With neither file
    nor preset, all other keys have their defaults.
    """

    file: Path | None = None
    preset: str | None = None
    router: str | None = None
    """The router that replaces the scenario's own; None keeps that."""
    settings: tuple[Setting, ...] = ()
    origins: Mapping[str, str] = field(default_factory=dict[str, str])
    """The origins of settings, by key: an option, a Python parameter, or FILE:LINE. Error messages begin with the
    origin.
    """

    @classmethod
    def of(cls, table: BaseTable, folder: Path, key_lines: KeyLines, *path: str | int) -> Base:
        """Return the base that a table [base] declares. `path` is the key path of the table in the file of
        `key_lines`. Paths in the table are relative to `folder`.
        """
        sections: dict[str, Any] = dict(table.model_extra or {})
        router: str | None = sections.pop("router") if isinstance(sections.get("router"), str) else None
        settings = tuple(_resolved(setting, folder) for setting in flattened(sections))
        origins = {key: key_lines.of(*path, *key.split(".")) for key, _ in settings}
        file = None if table.file is None else folder / table.file
        return cls(file, table.preset, router or None, settings, origins)

    def with_settings(self, settings: Sequence[Setting], origin: str = "--set") -> Base:
        """Return a copy of the base with these settings, which override earlier ones and have the origin `origin`."""
        origins = {**self.origins, **dict.fromkeys(dict(settings), origin)}
        return replace(self, settings=(*self.settings, *settings), origins=origins)

    def at(self, axes: Sequence[Axis], steps: Sequence[int]) -> Base:
        """Return a copy of the base with one step of each axis. `steps` has the index of the step on each axis."""
        base = self
        for axis, step in zip(axes, steps, strict=True):
            base = base.with_settings(axis.settings(step), axis.origins[step])
        return base

    def scenario(self) -> Scenario:
        """Load the scenario. Raise `StudyError` with a line for each invalid value."""
        try:
            return load_scenario(self.file, self.preset, self.settings, router=self.router, origins=self.origins)
        except ScenarioError as error:
            raise StudyError(error.problems) from None


def _resolved(setting: Setting, folder: Path) -> Setting:
    key, value = setting
    return (key, str((folder / value).absolute())) if key in _PATHS and isinstance(value, str) else setting


MOST_VALUES = 10_000
_DIGITS = 12


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of a study. Each step has a value for each key of the axis, and a label."""

    name: str
    keys: tuple[str, ...]
    steps: tuple[tuple[object, ...], ...]
    labels: tuple[str, ...]
    origins: tuple[str, ...]
    """The origin of each step, as in `Base.origins`."""

    @property
    def numbers(self) -> tuple[float, ...] | None:
        """Return the labels as numbers if all are finite and each is above the one before, otherwise None."""
        try:
            numbers = [float(label) for label in self.labels]
        except ValueError:
            return None
        ascending = all(before < after for before, after in pairwise(numbers))
        return tuple(numbers) if ascending and all(map(isfinite, numbers)) else None

    def settings(self, step: int) -> list[Setting]:
        """Return the settings of the step with this index. A value that is a table gives a setting for each key of
        the table.
        """
        found: list[Setting] = []
        for key, value in zip(self.keys, self.steps[step], strict=True):
            found += flattened(cast("Document", value), f"{key}.") if isinstance(value, dict) else [(key, value)]
        return found


def _scenario_key(value: object) -> str:
    if not isinstance(value, str) or not value or value == "seed":
        raise broken("must name a key of a scenario, such as network.nodes (seeds are not an axis)")
    return value


ScenarioKey = Annotated[
    str, PlainValidator(_scenario_key, json_schema_input_type=Annotated[str, Field(min_length=1)])
]


class AxisTable(FileTable):
    """[[axes]]: one key, or several keys that change together, with a list of values or a range."""

    name: PerhapsEmptyText | None = None
    """Name of the axis in tables and charts; default: its keys."""
    key: ScenarioKey | None = None
    """The key of a scenario that changes, such as network.nodes."""
    keys: tuple[ScenarioKey, ...] | None = None
    """Several keys that change together; give either key or keys."""
    values: list[Any] | None = None
    """The values of the key. With several keys, each element is an array with a value for each key."""
    labels: list[Any] | None = None
    """Names of the values in tables and charts, one for each value; default: the values of the first key."""
    start: Number | None = Field(default=None, alias="from")
    """The first value of a range; give either values or a range."""
    to: Number | None = None
    """The end of a range. With step, the last value may be below this end."""
    step: Number | None = None
    """The difference between neighbouring values of a range."""
    count: Annotated[int, integer_in(2, MOST_VALUES)] | None = None
    """The number of values of a range, both ends included; give either step or count."""
    spacing: Annotated[str, one_of(("linear", "log"))] = "linear"
    """Spacing of a range: linear for equal differences, log for equal ratios. log needs count, and from above 0."""

    @property
    def own_keys(self) -> tuple[str, ...]:
        return (self.key,) if self.key is not None else self.keys or ()

    @property
    def own_name(self) -> str:
        return " + ".join(self.own_keys) if self.name is None else self.name

    def axis(self, key_lines: KeyLines, *path: str | int) -> Axis:
        """Return the axis that the table declares. `path` is the key path of the table in the file of `key_lines`."""
        values = cast("list[Any]", self._all_values())
        steps = tuple(self._step(value) for value in values)
        written = tuple(key_lines.of(*path, "values", step) for step in range(len(steps)))
        return Axis(self.own_name, self.own_keys, steps, self._labels(values), written)

    def cross_rules(self) -> Iterator[Violation]:
        values = self._all_values()
        if isinstance(values, Violation):
            yield values
        elif not 1 <= len(values) <= MOST_VALUES:
            yield Violation("", None, f"must have 1…{MOST_VALUES} values, has {len(values)}")
        if (self.key is None) == (self.keys is None):
            yield Violation("", None, "needs either key or keys")
        elif not self.own_keys:
            yield Violation("keys", [], "must name keys of a scenario")
        elif isinstance(values, list) and values:
            yield from self._step_rules(values)

    def _step_rules(self, values: list[Any]) -> Iterator[Violation]:
        needed = len(self.own_keys)
        if needed > 1 and self.values is None:
            yield Violation("keys", self.keys, "a range needs a single key; give values, an array for each step")
            return
        fits = [needed == 1 or (isinstance(value, list) and len(value) == needed) for value in values]  # pyright: ignore[reportUnknownArgumentType]
        wrong = [number for number, fit in enumerate(fits) if not fit]
        for number in wrong:
            yield Violation(f"values.{number}", values[number], f"must be an array of {needed}, one for each of keys")
        if self.labels is not None and len(self.labels) != len(values):
            yield Violation("labels", self.labels, f"must have {len(values)} elements, one for each value")
        if not wrong and len(set(self._labels(values))) < len(self._labels(values)):
            yield Violation("", None, "two steps have the same label; give labels that differ")

    def _all_values(self) -> list[Any] | Violation:
        """Return the values of all steps, from `values` or from the range. If these keys of the table break a rule,
        return the broken rule.
        """
        if self.values is None:
            return self._range()
        spacing = self.spacing if "spacing" in self.model_fields_set else None
        ranged = {"from": self.start, "to": self.to, "step": self.step, "count": self.count, "spacing": spacing}
        for key, value in ranged.items():
            if value is not None:
                return Violation(key, value, "not together with values")
        return self.values

    def _range(self) -> list[Any] | Violation:
        start, end, step, count = self.start, self.to, self.step, self.count
        if start is None or end is None or (step is None) == (count is None):
            return Violation("", None, "needs values, or from, to and either step or count")
        if end <= start:
            return Violation("to", end, f"must be above from ({start})")
        log = self.spacing == "log"
        if log and (start <= 0 or count is None):
            return Violation("spacing", self.spacing, "needs from above 0, and count")
        if count is not None:
            return _spread(start, end, count, log=log)
        if step is None or step <= 0 or (end - start) / step > MOST_VALUES:
            return Violation("step", step, f"must be above 0, and give at most {MOST_VALUES} values")
        return [_plain(start + number * step) for number in range(int((end - start) / step) + 1)]

    def _step(self, value: Any) -> tuple[Any, ...]:
        return (value,) if len(self.own_keys) == 1 else tuple(value)

    def _labels(self, values: list[Any]) -> tuple[str, ...]:
        if self.labels is not None:
            return tuple(map(str, self.labels))
        return tuple(_label(self._step(value)[0]) for value in values)


def _each_key_on_one_axis(axes: tuple[AxisTable, ...]) -> tuple[AxisTable, ...]:
    owners: dict[str, str] = {}
    found: list[Violation] = []
    for number, axis in enumerate(axes):
        for key in axis.own_keys:
            if key in owners:
                rule = f"{key} occurs twice (first on axis {owners[key]})"
                found.append(Violation(str(number), None, rule))
            owners[key] = axis.own_name
    if found:
        raise violated(tuple(found))
    return axes


Axes = Annotated[tuple[AxisTable, ...], AfterValidator(_each_key_on_one_axis)]


def axis_of_values(key: str, values: Sequence[object], origin: str) -> Axis:
    """Return an axis of one key with these values. `origin` is the origin of each value, as in `Base.origins`."""
    return Axis(key, (key,), tuple((value,) for value in values), tuple(map(_label, values)), (origin,) * len(values))


def _spread(start: Decimal, end: Decimal, count: int, *, log: bool) -> list[object]:
    """Return `count` values from `start` to `end`. If both ends are integers, round the values to integers."""
    whole = all(bound == bound.to_integral_value() for bound in (start, end))
    values: list[object] = []
    for number in range(count):
        share = Decimal(number) / (count - 1)
        value = start * (end / start) ** share if log else start + (end - start) * share
        values.append(int(value.to_integral_value()) if whole else _plain(round(value, _DIGITS)))
    return values


def _plain(value: Decimal) -> object:
    return int(value) if value == value.to_integral_value() else value.normalize()


def _label(value: object) -> str:
    return value if isinstance(value, str) else shown_value(value)
