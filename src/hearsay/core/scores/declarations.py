"""How parameters of scores are declared: fields with their meaning, and groups that belong together.

A group is one part of the score: a weight, and what it needs. Rules (go):

* PARAMETERS-1: Numbers are finite and of the right sign; all that is wrong is said at once.
* PARAMETERS-2: With a weight, what the group needs must be given. Some things must be given without one too.
* PARAMETERS-3: With selective validation, a group of which everything is 0 is off, and not looked at.
* PARAMETERS-4: A decay is given as itself, or as the time until a counter of 1 is 0: `x_decay_ms` in place of
  `x_decay`. It is resolved to the number when parameters are read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from hearsay.core.scores.choices import Validation
from hearsay.core.scores.decays import decay_over
from hearsay.core.shell.parameters import MAX_COUNT, MAX_TIME_MS, Parameters, Violation

_BELOW_ONE = 1.0 - 2.0**-53
MIN_INTERVAL_MS = 1_000


def reward(meaning: str) -> Any:
    """A weight of what is good."""
    return _number(meaning, 0, MAX_COUNT)


def penalty(meaning: str) -> Any:
    """A weight of what is bad."""
    return _number(meaning, -MAX_COUNT, 0)


def amount(meaning: str, default: float = 0.0) -> Any:
    """A cap or a threshold of a counter."""
    return _number(meaning, 0, MAX_COUNT, default=default)


def fraction(meaning: str) -> Any:
    """A number between 0 and 1, or 0 when there is none: decays."""
    return _number(meaning, 0, _BELOW_ONE, "above 0 and below 1, or 0 for none")


def count(meaning: str) -> Any:
    return field(default=0, metadata={"low": 0, "high": MAX_COUNT, "meaning": meaning})


def span(meaning: str, default: int = 0) -> Any:
    """A time in milliseconds."""
    return field(default=default, metadata={"low": 0, "high": MAX_TIME_MS, "meaning": meaning})


def bound(meaning: str, default: int) -> Any:
    """How much is kept."""
    return field(default=default, metadata={"low": 1, "high": MAX_COUNT, "meaning": meaning})


def word(meaning: str, default: StrEnum) -> Any:
    """A difference between implementations, by name."""
    return field(default=default, metadata={"choices": type(default), "meaning": meaning})


def switch(meaning: str) -> Any:
    """A difference between implementations that is on or off."""
    return field(default=False, metadata={"meaning": meaning})


def _number(meaning: str, low: float, high: float, words: str = "", default: float = 0.0) -> Any:
    metadata = {"low": low, "high": high, "number": True, "words": words, "meaning": meaning}
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True)
class Group:
    """Fields of one part, and the least that some of them must be; 0 stands for "above 0"."""

    fields: tuple[str, ...]
    always: Mapping[str, float]
    with_weight: Mapping[str, float]
    """The first field is the weight."""

    def violations(self, values: Mapping[str, float], validation: Validation) -> Iterator[Violation]:
        if validation is Validation.SELECTIVE and not any(values.values()):
            return
        weight = self.fields[0]
        for name, least in self.always.items():
            if _is_below(values[name], least):
                yield Violation(name, values[name], f"must be {_from(least)}")
        if values[weight]:
            for name, least in self.with_weight.items():
                if _is_below(values[name], least):
                    yield Violation(name, values[name], f"must be {_from(least)} when there is a {weight}")


def group(*names: str, always: Mapping[str, float] | None = None, **with_weight: float) -> Group:
    return Group(names, always or {}, with_weight)


def _is_below(value: float, least: float) -> bool:
    return value < least or value <= 0


def _from(least: float) -> str:
    return f"at least {least}" if least else "above 0"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedParameters(Parameters, ABC):
    """Parameters in groups. A group is looked at when its fields are right by themselves."""

    validation: Validation = word("how much must be given", Validation.ATOMIC)

    @classmethod
    @abstractmethod
    def groups(cls) -> tuple[Group, ...]:
        """The groups, in the order in which mistakes are told."""

    def violations(self) -> Iterator[Violation]:
        found = tuple(self.field_violations())
        yield from found
        faulty = {violation.field for violation in found}
        if "validation" not in faulty:
            for each in self.groups():
                if faulty.isdisjoint(each.fields):
                    values = {name: getattr(self, name) for name in each.fields}
                    yield from each.violations(values, self.validation)
        if not faulty:
            yield from self.cross_rules()


def with_decays(
    values: Mapping[str, object], names: tuple[str, ...], interval_ms: int, zero: float
) -> tuple[dict[str, object], tuple[Violation, ...]]:
    """The values with times of decays made into decays, and what is wrong with the times."""
    resolved = dict(values)
    violations: list[Violation] = []
    for name in names:
        time_name = f"{name}_ms"
        if not name.endswith("_decay") or time_name not in resolved:
            continue
        time = resolved.pop(time_name)
        if name in resolved:
            violations.append(Violation(time_name, time, f"stands beside {name}; give one of them"))
        elif interval_ms < MIN_INTERVAL_MS or not 0 < zero < 1:
            violations.append(Violation(time_name, time, "needs a decay_interval_ms and a decay_to_zero"))
        elif not isinstance(time, int) or isinstance(time, bool) or not interval_ms <= time <= MAX_TIME_MS:
            words = f"must be an integer in {interval_ms}…{MAX_TIME_MS}, a decay_interval_ms or more"
            violations.append(Violation(time_name, time, words))
        else:
            resolved[name] = decay_over(time // interval_ms, zero)
    return resolved, tuple(violations)
