"""The subject of a check: score parameters, the network's traffic, and groups of equal topics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from hearsay.core.scores.declarations import amount
from hearsay.core.scores.score_parameters import ANY_TOPIC, ScoreSet, TopicScoreParameters, role_of
from hearsay.core.shell.parameters import Parameters, integer, milliseconds


@dataclass(frozen=True, slots=True)
class Topics:
    """Topics with the same traffic. `name` is the name for all these topics together. `names` maps each name to
    the number of topics that it stands for: 1 in a scenario, `count` in `[[expect.topics]]`.
    """

    name: str
    names: Mapping[str, int]
    messages_per_s: float | None


def grouped(score: ScoreSet, there: Iterable[Topics], table: str) -> tuple[list[TopicGroup], list[TopicGroup]]:
    """Return the groups of the topics in `there`, which are the topics of the network; and a group for each other
    topic with parameters, except the topic "any". `table` is the key of the table with the score parameters.
    """
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
    """Return a group for each topic with parameters, for a network whose topics are unknown."""
    return [
        TopicGroup(name, 1, parameters, None, f"{table}.topics.{number}")
        for number, (name, parameters) in enumerate(score.topics.items())
    ]


MAX_TOPICS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectations(Parameters):
    """The table `[expect]`: the network in which the scores will be used. The defaults are those of go-libp2p."""

    owner: ClassVar[str] = "expect"

    degree: int = integer(6, low=1, high=10_000)
    """Number of members of a mesh. A usual member is the first sender of one in `degree` messages."""
    heartbeat_ms: int = milliseconds(1_000, low=1)
    round_trip_ms: int = milliseconds(0)
    """Milliseconds for a round trip to the nearest peer; 0 if unknown."""
    prune_backoff_ms: int = milliseconds(60_000)
    graft_flood_ms: int = milliseconds(10_000)
    """A GRAFT within this time after a PRUNE adds 2 to the count of misbehaviour (P7). 0: it always adds 1."""
    opportunistic_graft_ticks: int = integer(60, low=0)
    promises_per_heartbeat: int = integer(10, low=0)
    """Maximum promises that one peer can break between two heartbeats; 0: the router tracks no promises. go-libp2p
    accepts ten IHAVEs between two heartbeats, and each makes one promise.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic(Parameters):
    """The traffic of a topic, or of `count` equal topics: a table of `[[expect.topics]]`."""

    owner: ClassVar[str] = "a topic's traffic"

    messages_per_s: float = amount()
    """Messages per second in each topic."""
    count: int = integer(1, low=1, high=MAX_TOPICS)


@dataclass(frozen=True, slots=True)
class TopicGroup:
    """Topics with the same score parameters and the same traffic."""

    name: str
    count: int
    parameters: TopicScoreParameters | None
    """The parameters; None if the topics are not scored."""
    messages_per_s: float | None
    """Messages per second in each topic; None if unknown."""
    place: str = ""
    """Key of the table with the parameters, such as `score.topics.0`; empty if there is none."""

    @property
    def words(self) -> str:
        """Return the name and the number of topics, such as "votes ×16"."""
        return self.name if self.count == 1 else f"{self.name} ×{self.count:,}"


@dataclass(frozen=True, slots=True)
class OtherPopulation:
    """A population whose router differs from the scenario's own router. Its router is not checked."""

    place: str
    """Key of the table of the population, such as `population.0`."""
    router: str
    """The preset of a gossipsub router, otherwise the kind of the router."""
    share: float | None
    """Share of all nodes; None if `nodes` has their number."""
    nodes: int | None
    """Number of nodes if the population lists its nodes, otherwise None."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The score parameters to check, and the network in which they will be used."""

    name: str
    """The path of the file, or the name of the parameter set."""
    score: ScoreSet
    expected: Expectations
    topics: Sequence[TopicGroup]
    unmet: Sequence[TopicGroup] = ()
    """A group for each topic that has parameters, but is not in the network."""
    dials_exchanged: bool | None = None
    """True if peers that a PRUNE names are dialled; None if unknown, as for a parameter set."""
    table: str = "score"
    """Key of the table with the parameters; empty for a named set."""
    lines: Mapping[str, int] = field(default_factory=dict[str, int])
    """The lines of keys in the file, by dotted key; empty without a file."""
    others: Sequence[OtherPopulation] = ()
    router_is_run: bool = True
    """True if the populations leave nodes for the scenario's own router."""

    @property
    def scored(self) -> list[tuple[TopicGroup, TopicScoreParameters]]:
        """Return the groups with parameters, each with its parameters."""
        return [(group, group.parameters) for group in self.topics if group.parameters is not None]

    def line_of(self, place: str) -> int:
        """Return the line of a key or, if the file lacks it, of the innermost table around it; 0 without either."""
        while place:
            if place in self.lines:
                return self.lines[place]
            place = place.rpartition(".")[0]
        return 0
