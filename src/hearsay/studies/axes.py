"""Axes of a study: what changes from run to run, in which steps.

    [[axes]]
    key = "loss.rate"
    values = [0, 0.05, 0.1]            # or: from, to, and step or count; spacing = "log"

    [[axes]]                           # several keys that change together
    keys = ["router.degree", "router.degree_low"]
    values = [[4, 3], [6, 5]]
    labels = ["thin", "usual"]

Axes are crossed: every value of one with every value of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from math import isfinite
from typing import cast

from hearsay.sim.scenario.toml_text import Document, shown_value
from hearsay.studies.base import Setting, flattened
from hearsay.studies.checked_toml import Table

MOST_VALUES = 10_000
_DIGITS = 12
_RANGE = ("from", "to", "step", "count", "spacing")


@dataclass(frozen=True, slots=True)
class Axis:
    """One step of an axis sets all its keys."""

    name: str
    keys: tuple[str, ...]
    steps: tuple[tuple[object, ...], ...]
    labels: tuple[str, ...]
    places: tuple[str, ...]
    """Where each step is written."""

    @property
    def numbers(self) -> tuple[float, ...] | None:
        """The steps as places on a scale, where their labels are ascending numbers."""
        try:
            numbers = [float(label) for label in self.labels]
        except ValueError:
            return None
        ascending = all(before < after for before, after in pairwise(numbers))
        return tuple(numbers) if ascending and all(map(isfinite, numbers)) else None

    def settings(self, step: int) -> list[Setting]:
        found: list[Setting] = []
        for key, value in zip(self.keys, self.steps[step], strict=True):
            found += flattened(cast(Document, value), f"{key}.") if isinstance(value, dict) else [(key, value)]
        return found


def read_axes(tables: Sequence[Table]) -> tuple[Axis, ...]:
    """The axes of a study; problems are noted in the tables."""
    found: list[Axis] = []
    owners: dict[str, str] = {}
    for table in tables:
        axis = _read_axis(table)
        table.finish()
        if axis is None:
            continue
        for key in axis.keys:
            if key in owners:
                table.lacks(f"{key} is on two axes ({owners[key]} has it too)")
            owners[key] = axis.name
        found.append(axis)
    return tuple(found)


def axis_of_values(key: str, values: Sequence[object], place: str) -> Axis:
    """An axis of one key."""
    return Axis(key, (key,), tuple((value,) for value in values), tuple(map(_label, values)), (place,) * len(values))


def _read_axis(table: Table) -> Axis | None:
    before = len(table.problems)
    keys = _keys(table)
    ranged = [key for key in _RANGE if table.has(key)]
    if table.has("values") and ranged:
        table.wrong("not together with values", ranged[0])
    values = table.array("values") if table.has("values") else _range(table)
    for key in _RANGE:
        table.raw(key)
    name = table.text("name", " + ".join(keys))
    given_labels = table.array("labels")
    if len(table.problems) > before or values is None:
        return None
    if not 1 <= len(values) <= MOST_VALUES:
        table.lacks(f"must have 1…{MOST_VALUES} values, has {len(values)}")
        return None
    steps: list[tuple[object, ...]] = []
    for number, value in enumerate(values):
        if len(keys) == 1:
            steps.append((value,))
        elif isinstance(value, list) and len(cast("list[object]", value)) == len(keys):
            steps.append(tuple(cast("list[object]", value)))
        else:
            table.wrong(f"must be an array of {len(keys)}, one for each of keys", "values", number)
    labels = tuple(_label(step[0]) for step in steps)
    if given_labels is not None:
        labels = tuple(str(label) for label in given_labels)
        if len(labels) != len(values):
            table.wrong(f"must have {len(values)} elements, one for each value", "labels")
    if len(set(labels)) < len(labels):
        table.lacks("two steps have the same label; give labels that differ")
    places = tuple(table.where("values", number) for number in range(len(steps)))
    return Axis(name, keys, tuple(steps), labels, places) if len(table.problems) == before else None


def _keys(table: Table) -> tuple[str, ...]:
    one, several = table.text("key"), table.array("keys")
    if bool(one) == (several is not None):
        table.lacks("needs either key or keys")
        return (one or "?",)
    keys = [one] if one else several or []
    if not keys or any(not isinstance(key, str) or not key or key == "seed" for key in keys):
        table.lacks("key and keys name keys of a scenario, such as network.nodes (seeds are not an axis)")
    return tuple(map(str, keys))


def _range(table: Table) -> list[object] | None:
    start, end, step = table.number("from"), table.number("to"), table.number("step")
    count = table.integer("count", 0, 2, MOST_VALUES) if table.has("count") else 0
    spacing = table.text("spacing", "linear", ("linear", "log"))
    if start is None or end is None or (step is None) == (count == 0):
        table.lacks("needs values, or from, to and either step or count")
        return None
    if end <= start:
        table.wrong(f"must be above from ({start})", "to")
        return None
    if spacing == "log" and (start <= 0 or not count):
        table.wrong("needs from above 0, and count", "spacing")
        return None
    if step is not None:
        if step <= 0 or (end - start) / step > MOST_VALUES:
            table.wrong(f"must be above 0, and give at most {MOST_VALUES} values", "step")
            return None
        return [_plain(start + number * step) for number in range(int((end - start) / step) + 1)]
    whole = all(bound == bound.to_integral_value() for bound in (start, end))
    values: list[object] = []
    for number in range(count):
        share = Decimal(number) / (count - 1)
        value = start * (end / start) ** share if spacing == "log" else start + (end - start) * share
        values.append(int(value.to_integral_value()) if whole else _plain(round(value, _DIGITS)))
    return values


def _plain(value: Decimal) -> object:
    return int(value) if value == value.to_integral_value() else value.normalize()


def _label(value: object) -> str:
    return value if isinstance(value, str) else shown_value(value)
