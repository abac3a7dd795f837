"""Findings of checks: topic, parameter, words, and the figures behind them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from hearsay.score_check.subject import TopicGroup
from hearsay.score_check.worth import Worth


class Severity(StrEnum):
    """Ascending in weight."""

    NOTE = "note"
    """Good to know; may be meant so."""
    WARNING = "warning"
    """Something will not work as its parameters look."""
    ERROR = "error"
    """Honest peers are harmed, or harm goes unpunished that the parameters mean to punish."""


@dataclass(frozen=True, slots=True)
class Remark:
    """The remark of a check about one parameter; `figures` are numbers by name."""

    words: str
    parameter: str = ""
    group: TopicGroup | None = None
    """None: of the peer, or the thresholds."""
    figures: Mapping[str, float] = field(default_factory=dict[str, float])


Look: TypeAlias = Callable[[Worth], Iterator[Remark]]


@dataclass(frozen=True, slots=True)
class Check:
    id: str
    severity: Severity
    meaning: str
    look: Look


@dataclass(frozen=True, slots=True)
class ScoreFinding:
    check: str
    severity: Severity
    words: str
    topic: str | None
    place: str
    """The parameter in the file: `score.topics.0.topic_weight`; empty where it is of no one parameter."""
    line: int
    """0: not known."""
    figures: Mapping[str, float]


def finding(check: Check, remark: Remark, worth: Worth) -> ScoreFinding:
    subject = worth.subject
    table = subject.table if remark.group is None else remark.group.place
    place = f"{table}.{remark.parameter}" if table and remark.parameter else table
    topic = None if remark.group is None else remark.group.words
    words = remark.words if topic is None else f"{topic}: {remark.words}"
    return ScoreFinding(check.id, check.severity, words, topic, place, subject.line_of(place), remark.figures)
