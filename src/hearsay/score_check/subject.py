"""The subject of a check: score parameters, the network's traffic, and groups of equal topics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from hearsay.core.scores.declarations import amount
from hearsay.core.scores.score_parameters import TopicScoreParameters
from hearsay.core.scores.score_set import ANY_TOPIC, ScoreSet, role_of
from hearsay.core.shell.parameters import Parameters, integer, milliseconds


@dataclass(frozen=True, slots=True)
class Topics:
    """Topics with the same traffic: a name for all, and the number of topics by their own names."""

    name: str
    names: Mapping[str, int]
    messages_per_s: float | None


def grouped(score: ScoreSet, there: Iterable[Topics], table: str) -> tuple[list[TopicGroup], list[TopicGroup]]:
    """Return the groups of existing topics, and the parameters of topics that do not exist."""
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
    """Return a topic for each table of parameters, if the topics are unknown."""
    return [
        TopicGroup(name, 1, parameters, None, f"{table}.topics.{number}")
        for number, (name, parameters) in enumerate(score.topics.items())
    ]


MAX_TOPICS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectations(Parameters):
    """The table `[expect]`: the network in which the scores will be used. Defaults are those of go-libp2p."""

    owner: ClassVar[str] = "expect"

    degree: int = integer(6, low=1, high=10_000)
    """Number of members of a mesh. Each member is the first sender of one message in `degree`."""
    heartbeat_ms: int = milliseconds(1_000, low=1)
    round_trip_ms: int = milliseconds(0)
    """Milliseconds to the nearest peer and back; 0 if unknown."""
    prune_backoff_ms: int = milliseconds(60_000)
    graft_flood_ms: int = milliseconds(10_000)
    """A GRAFT within this time after a PRUNE counts twice; 0: once."""
    opportunistic_graft_ticks: int = integer(60, low=0)
    promises_per_heartbeat: int = integer(10, low=0)
    """Maximum promises that one peer can break: go accepts ten IHAVEs, each one promise; 0: none is tracked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic(Parameters):
    """Expectations of a topic, or of `count` equal topics: a table of `[[expect.topics]]`."""

    owner: ClassVar[str] = "a topic's traffic"

    messages_per_s: float = amount()
    """Messages per second in each topic."""
    count: int = integer(1, low=1, high=MAX_TOPICS)


@dataclass(frozen=True, slots=True)
class TopicGroup:
    """Topics with the same score parameters."""

    name: str
    count: int
    parameters: TopicScoreParameters | None
    """The parameters; None if the topics are not scored."""
    messages_per_s: float | None
    """Messages per second in each topic; None if unknown."""
    place: str = ""
    """Key of the table with the parameters: `score.topics.0`."""

    @property
    def words(self) -> str:
        return self.name if self.count == 1 else f"{self.name} ×{self.count:,}"


@dataclass(frozen=True, slots=True)
class OtherPopulation:
    """Nodes of a scenario with another router, which are not checked."""

    place: str
    """Key of the table: `population.0`."""
    router: str
    """The preset of the router, or its kind if that is not gossipsub."""
    share: float | None
    nodes: int | None
    """Number of nodes in a list, whose share is unknown."""


@dataclass(frozen=True, slots=True)
class Subject:
    name: str
    """The file, or the named parameter set."""
    score: ScoreSet
    expected: Expectations
    topics: Sequence[TopicGroup]
    unmet: Sequence[TopicGroup] = ()
    """Groups with parameters for topics that do not exist."""
    dials_exchanged: bool | None = None
    """True if peers that a PRUNE names are dialled; None if unknown, as for a parameter set."""
    table: str = "score"
    """Key of the table with the parameters."""
    lines: Mapping[str, int] = field(default_factory=dict[str, int])
    """Lines of keys by their dotted paths; empty without a file."""
    others: Sequence[OtherPopulation] = ()
    router_is_run: bool = True
    """True if the populations leave nodes for the scenario's own router."""

    @property
    def scored(self) -> list[tuple[TopicGroup, TopicScoreParameters]]:
        return [(group, group.parameters) for group in self.topics if group.parameters is not None]

    def line_of(self, place: str) -> int:
        """Return the line of a key, or of the table in which it is missing; 0 stands for the whole file."""
        while place:
            if place in self.lines:
                return self.lines[place]
            place = place.rpartition(".")[0]
        return 0
