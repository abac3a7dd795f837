"""Declarations of score parameters: kinds of fields, groups of fields, choices, and decays.

A group has the parameters of one part of the score: a weight, and the parameters that are needed if the weight is not
0. A decay is the factor by which a refresh multiplies a counter. Rules (go):

* PARAMETERS-1: Numbers are finite and of the right sign; all mistakes are reported at once.
* PARAMETERS-2: If the weight of a group is not 0, the parameters that it needs must be given. Some parameters must be
  given in any case.
* PARAMETERS-3: With selective validation, a group whose parameters are all 0 is off, and is not checked.
* PARAMETERS-4: A decay is given as a number, `x_decay`, or as a time, `x_decay_ms`: the time in which a counter falls
  from 1 to `decay_to_zero`. A time is converted to the number when parameters are read.

A decay that is given as a time is correctly rounded. If each refresh multiplies a counter of 1 by the `ticks`-th root
of `zero`, the counter is `zero` after `ticks` refreshes. This root is the only number of a score that needs more than
addition, subtraction, multiplication and division. The math libraries of machines differ in the last bit of such a
root, which would change a run. So the root is computed when parameters are made, as the double nearest to the exact
root of the double `zero`.

Theory: `ln` and `exp` of `decimal` are correctly rounded. With a precision of p digits each step has a relative
error of at most 10^(1-p), and the argument of `exp` is below 746 in size, so the result is within 10^(5-p) of the
root. When both bounds of that interval round to the same double, this double is the nearest (Ziv's strategy);
otherwise the precision is doubled. This ends: for two ticks and more the root cannot lie in the middle between two
doubles, since a power of a number with 54 significant bits has more than the 53 bits of `zero`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import Any, ClassVar

from hearsay.core.shell.parameters import MAX_COUNT, MAX_TIME_MS, Parameters, Violation, choice, number


class Validation(StrEnum):
    """Rule that decides which parameters of a set must be given."""

    ATOMIC = "atomic"
    """Those of PARAMETERS-2, in all groups."""
    SELECTIVE = "selective"
    """Those of PARAMETERS-2, but only in groups that are in use; a group whose parameters are all 0 is off (go's
    "skip atomic validation")."""


class MeshTimes(StrEnum):
    """End of the time in the mesh that counts for P1 and P3."""

    LAST_REFRESH = "last-refresh"
    NOW = "now"
    """In jvm."""


class QuantumRounding(StrEnum):
    """Counting of time in the mesh: completed quanta, or also a fraction of the current one."""

    WHOLE = "whole"
    FRACTION = "fraction"
    """In rust, js, nim and jvm."""


class RetainedScores(StrEnum):
    """Peers whose score is kept when they disconnect."""

    NOT_POSITIVE = "not-positive"
    ALL = "all"
    """In nim and jvm."""
    UNTIL_RETURN = "until-return"
    """As `not-positive`, but a peer that returns starts with a new score: no penalty lasts (js)."""


class InvalidCopies(StrEnum):
    """Peers that are blamed for copies of an invalid message."""

    ALL = "all"
    MEMBERS = "members"
    """Only members of the mesh (jvm)."""


class Ipv6Counting(StrEnum):
    """Forms in which an IPv6 address is counted."""

    WHOLE_AND_PREFIX = "whole-and-prefix"
    """Once as it is, and once as its /64, usually of one household."""
    PREFIX = "prefix"
    WHOLE = "whole"
    """In rust."""
    NOT = "not"
    """In jvm."""


class TrackedPromises(StrEnum):
    """Ids of an IWANT that count as promises."""

    ONE = "one"
    ALL = "all"
    """In rust."""
    NONE = "none"
    """In nim."""


_FIRST_PRECISION = 32


@lru_cache(maxsize=4096)
def decay_over(ticks: int, zero: float) -> float:
    """Return the decay by which a counter falls from 1 to `zero` in this number of refreshes; 0 < zero < 1."""
    if ticks <= 1:
        return zero
    precision = _FIRST_PRECISION
    while True:
        low, high = _root_within(ticks, Decimal(zero), precision)
        if float(low) == float(high):
            return float(low)
        precision *= 2


def _root_within(ticks: int, zero: Decimal, precision: int) -> tuple[Decimal, Decimal]:
    """Return a lower and an upper bound of the `ticks`-th root of `zero`. A higher precision makes the bounds
    closer."""
    context = Context(prec=precision, rounding=ROUND_HALF_EVEN)
    root = context.exp(context.divide(context.ln(zero), Decimal(ticks)))
    margin = context.multiply(root, context.scaleb(Decimal(1), 5 - precision))
    return context.subtract(root, margin), context.add(root, margin)


_BELOW_ONE = 1.0 - 2.0**-53
MIN_INTERVAL_MS = 1_000


def amount(default: float = 0.0) -> Any:
    """Return a field for a number of 0 or more: a weight, a cap or a threshold."""
    return number(0, MAX_COUNT, default)


def penalty() -> Any:
    """Return a field for a number of 0 or less: a weight, or a threshold of the score."""
    return number(-MAX_COUNT, 0)


def fraction() -> Any:
    """Return a field for a decay, or for `decay_to_zero`; 0 stands for a value that is not given."""
    return number(0, _BELOW_ONE, words="above 0 and below 1, or 0 for none")


@dataclass(frozen=True, slots=True)
class Group:
    """The fields of one part of the score, with minimum values. The minimum 0 means "above 0"."""

    fields: tuple[str, ...]
    """Names of all fields of the part; the first one is the weight, except in a part that has no weight."""
    always: Mapping[str, float]
    """By field, minimum values that must always hold."""
    with_weight: Mapping[str, float]
    """By field, minimum values that must hold if the weight is not 0."""

    def violations(self, values: Mapping[str, float], validation: Validation) -> Iterator[Violation]:
        if validation is Validation.SELECTIVE and not any(values.values()):
            return
        weight = self.fields[0]
        for name, least in self.always.items():
            if _is_below(values[name], least):
                yield Violation(name, values[name], f"must be {_minimum_words(least)}")
        if values[weight]:
            for name, least in self.with_weight.items():
                if _is_below(values[name], least):
                    yield Violation(name, values[name], f"must be {_minimum_words(least)} when there is a {weight}")


def group(*names: str, always: Mapping[str, float] = MappingProxyType({}), **with_weight: float) -> Group:
    """Return a group with the fields `names`, the weight first, and then the fields with minimum values."""
    return Group((*names, *always, *with_weight), always, with_weight)


def _is_below(value: float, least: float) -> bool:
    return value < least or value <= 0


def _minimum_words(least: float) -> str:
    return f"at least {least}" if least else "above 0"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedParameters(Parameters):
    """Parameters in groups. The rules of a group are checked only if each field of the group is in its own range."""

    groups: ClassVar[tuple[Group, ...]]
    """The groups, in the order in which their violations are reported."""

    validation: Validation = choice(Validation.ATOMIC)
    """Rule that decides which parameters must be given."""

    def _rules_between(self, faulty: set[str]) -> Iterator[Violation]:
        if "validation" not in faulty:
            for each in self.groups:
                if faulty.isdisjoint(each.fields):
                    values = {name: getattr(self, name) for name in each.fields}
                    yield from each.violations(values, self.validation)
        if not faulty:
            yield from self.cross_rules()


def with_decays(
    values: Mapping[str, object], names: tuple[str, ...], interval_ms: int, zero: float
) -> tuple[dict[str, object], tuple[Violation, ...]]:
    """Return `values` with the decays `x_decay` in place of the times `x_decay_ms`, and the violations of these
    times.

    `names` are the names of all fields. A counter decays every `interval_ms`, and becomes 0 below `zero`.
    """
    resolved = dict(values)
    violations: list[Violation] = []
    for name in names:
        time_name = f"{name}_ms"
        if not name.endswith("_decay") or time_name not in resolved:
            continue
        time = resolved.pop(time_name)
        if name in resolved:
            violations.append(Violation(time_name, time, f"cannot be combined with {name}; give one of them"))
        elif interval_ms < MIN_INTERVAL_MS or not 0 < zero < 1:
            violations.append(Violation(time_name, time, "needs decay_interval_ms >= 1000 and 0 < decay_to_zero < 1"))
        elif not isinstance(time, int) or isinstance(time, bool) or not interval_ms <= time <= MAX_TIME_MS:
            words = f"must be an integer in {interval_ms}…{MAX_TIME_MS}, a decay_interval_ms or more"
            violations.append(Violation(time_name, time, words))
        else:
            resolved[name] = decay_over(time // interval_ms, zero)
    return resolved, tuple(violations)
