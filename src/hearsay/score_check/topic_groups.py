"""Topics alike, put together: from the topics that are there, what is expected of them, and their parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hearsay.core.scores.score_set import ANY_TOPIC, ScoreSet, role_of
from hearsay.score_check.subject import TopicGroup


@dataclass(frozen=True, slots=True)
class Topics:
    """Topics of which the same is expected: a name for all, and how many there are of each name."""

    name: str
    names: Mapping[str, int]
    messages_per_s: float | None


def grouped(score: ScoreSet, there: Iterable[Topics], table: str) -> tuple[list[TopicGroup], list[TopicGroup]]:
    """The groups of what is there, and those parameters that are of no topic that is there."""
    places = {name: f"{table}.topics.{number}" for number, name in enumerate(score.topics)}
    groups: list[TopicGroup] = []
    met: set[str | None] = set()
    for topics in there:
        counts: dict[str | None, int] = {}
        firsts: dict[str | None, str] = {}
        for name, count in topics.names.items():
            role = name if name in score.topics else role_of(name, score.topics)
            counts[role] = counts.get(role, 0) + count
            firsts.setdefault(role, name)
        for role, count in counts.items():
            name = topics.name if count > 1 else firsts[role]
            parameters, place = (None, "") if role is None else (score.topics[role], places[role])
            groups.append(TopicGroup(name, count, parameters, topics.messages_per_s, place))
            met.add(role)
    unmet = [
        TopicGroup(name, 1, parameters, None, places[name])
        for name, parameters in score.topics.items()
        if name not in met and name != ANY_TOPIC
    ]
    return groups, unmet


def groups_of_all(score: ScoreSet, table: str) -> list[TopicGroup]:
    """A topic for each table of parameters, where nothing else is known."""
    return [
        TopicGroup(name, 1, parameters, None, f"{table}.topics.{number}")
        for number, (name, parameters) in enumerate(score.topics.items())
    ]
