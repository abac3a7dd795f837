"""Findings of checks: topic, parameter, words, and the figures behind them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from hearsay.score_check.subject import TopicGroup
from hearsay.score_check.worth import Worth


class Severity(StrEnum):
    """The severity of a finding, in ascending order."""

    NOTE = "note"
    """Good to know; may be intended."""
    WARNING = "warning"
    """A parameter does not have the effect that it suggests."""
    ERROR = "error"
    """Honest peers are harmed, or harm that should be punished is not."""


@dataclass(frozen=True, slots=True)
class Remark:
    """The remark of a check about one parameter; `figures` are numbers by name."""

    words: str
    parameter: str = ""
    group: TopicGroup | None = None
    """The topics; None if the parameter is one of the peer or a threshold."""
    figures: Mapping[str, float] = field(default_factory=dict[str, float])


Look: TypeAlias = Callable[[Worth], Iterator[Remark]]


@dataclass(frozen=True, slots=True)
class Check:
    """A check: `look` yields a remark for each parameter that it finds, and `meaning` describes these findings."""

    id: str
    severity: Severity
    meaning: str
    look: Look


def check(severity: Severity, meaning: str) -> Callable[[Look], Check]:
    """Return a decorator that makes a check from a function. The function's name is the public id of the check."""
    return lambda look: Check(look.__name__.replace("_", "-"), severity, meaning, look)


@dataclass(frozen=True, slots=True)
class ScoreFinding:
    check: str
    severity: Severity
    words: str
    topic: str | None
    place: str
    """The parameter's key: `score.topics.0.topic_weight`; empty if there is no single one."""
    line: int
    """The line in the file; 0 if unknown."""
    figures: Mapping[str, float]


def finding(check: Check, remark: Remark, worth: Worth) -> ScoreFinding:
    subject = worth.subject
    table = subject.table if remark.group is None else remark.group.place
    place = f"{table}.{remark.parameter}" if table and remark.parameter else table
    topic = None if remark.group is None else remark.group.words
    words = remark.words if topic is None else f"{topic}: {remark.words}"
    return ScoreFinding(check.id, check.severity, words, topic, place, subject.line_of(place), remark.figures)
