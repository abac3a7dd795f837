"""Checks and their findings.

A check is a function that yields a remark for each fault of one kind. Under the id of the check, `checks.toml` has
the severity of this kind of fault, the name of the faulty parameter, and the words for a finding.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.resources import files
from string import Formatter
from typing import Any, TypeAlias

from hearsay.number_text import FORMS, figure
from hearsay.score_check.subject import TopicGroup
from hearsay.score_check.worth import Worth


class Severity(StrEnum):
    """The severity of a finding, in ascending order."""

    NOTE = "note"
    """Good to know; may be intended."""
    WARNING = "warning"
    """A parameter does not have the effect that it suggests."""
    ERROR = "error"
    """Honest peers are punished, or harmful behaviour is not punished."""


@dataclass(frozen=True, slots=True)
class Remark:
    """A fault that a check found, with the values for its words in `checks.toml`."""

    group: TopicGroup | None = None
    """The topics with the fault; None if the fault is not in the parameters of one group."""
    figures: Mapping[str, float] = field(default_factory=dict[str, float])
    """Numbers by name, for the words of the finding and for its `figures`."""
    values: Mapping[str, object] = field(default_factory=dict[str, object])
    """Further numbers and texts by name, only for the parameter and the words of the finding."""


Look: TypeAlias = Callable[[Worth], Iterator[Remark]]
"""A function that yields a remark for each fault."""


@dataclass(frozen=True, slots=True)
class Check:
    """A check. `meaning` describes its kind of fault; `words` and `parameter` are format strings for a finding."""

    id: str
    look: Look
    severity: Severity
    meaning: str
    words: str
    parameter: str = ""


_CHECKS: Mapping[str, Any] = tomllib.loads((files("hearsay.score_check") / "checks.toml").read_text(encoding="utf-8"))


def check(look: Look) -> Check:
    """Make a check from a function, as a decorator. The id of the check is the function's name, with hyphens."""
    name = look.__name__.replace("_", "-")
    texts = _CHECKS[name]
    return Check(name, look, **{**texts, "severity": Severity(texts["severity"])})


@dataclass(frozen=True, slots=True)
class ScoreFinding:
    """A fault that a check found, with a description in words."""

    check: str
    severity: Severity
    words: str
    topic: str | None
    place: str
    """The key of the parameter, such as `score.topics.0.topic_weight`, or the key of its table if no single parameter
    causes the fault. Empty for a named set, and for topics without parameters.
    """
    line: int
    """The line of `place` in the file or, if the file lacks this key, of the innermost table around it; 0 if unknown.
    """
    figures: Mapping[str, float]


def finding(check: Check, remark: Remark, worth: Worth) -> ScoreFinding:
    """Return the finding for a remark of this check."""
    values = {**remark.figures, **remark.values}
    words, parameter = (_WORDS.format(text, **values) for text in (check.words, check.parameter))
    subject, group = worth.subject, remark.group
    table = subject.table if group is None else group.place
    place = f"{table}.{parameter}" if table and parameter else table
    topic = None if group is None else group.words
    words = words if topic is None else f"{topic}: {words}"
    return ScoreFinding(check.id, check.severity, words, topic, place, subject.line_of(place), remark.figures)


def rate(messages_per_s: float) -> str:
    """Return a rate as text: per second, minute or hour, the shortest of these with at least one message, otherwise
    per day.
    """
    for factor, unit in ((1, "second"), (60, "minute"), (3_600, "hour")):
        if messages_per_s * factor >= 1:
            return f"{figure(messages_per_s * factor)} messages per {unit}"
    return "no messages" if not messages_per_s else f"{figure(messages_per_s * 86_400)} messages per day"


_FORMS: Mapping[str, Callable[[float], str]] = {**FORMS, "rate": rate}


class _Words(Formatter):
    """A formatter whose format specs are the names in `_FORMS` (default: `number`) and those of Python. A string is
    inserted unchanged, whatever its spec.
    """

    def format_field(self, value: Any, format_spec: str) -> str:
        if isinstance(value, str):
            return value
        form = _FORMS.get(format_spec or "number")
        return format(value, format_spec) if form is None else form(value)


_WORDS = _Words()
