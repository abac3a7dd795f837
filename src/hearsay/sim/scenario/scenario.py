"""A scenario: everything that the result of one simulation depends on, as checked and frozen values.

Rules:

* Every section and most keys are optional. An empty scenario is simsub's network (100 nodes, 10 random dials of each,
  latencies of 10–150 ms) with r1's gossipsub.
* A key has its type, range, default and description in one place. `cross_rules` has the rules between keys. All
  mistakes are reported at once, each with its key, its value and the rule.
* No decision depends on floating point. A number in a file becomes a decimal with the same digits. Fields such as
  `warmup_us` and `rate_millionths` are integers, which are computed from decimals. Engines read only the integers.
* If `[validation]` has an effect, the parameter `validate` of all routers is True.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from difflib import get_close_matches
from typing import Annotated, cast

from pydantic import Field, ValidationInfo, field_validator

from hearsay.core.mesh.parameters import GossipsubParameters
from hearsay.core.registry import ROUTERS
from hearsay.core.scores.score_parameters import ANY_TOPIC, ScoreSet, role_of
from hearsay.core.shell.parameters import Violation
from hearsay.sim.scenario.network import Addresses, Faults, Links, Loss, Network, Rating, Service
from hearsay.sim.scenario.routers import Population, RouterChoice, RouterTable
from hearsay.sim.scenario.values import MILLION, Scaled, Seconds, Section, SomeNodes, integer_in, number_in
from hearsay.sim.scenario.workload import Publishers, Timed, TimedKind, TopicGroup, Validation, Workload

MAX_SEED = (1 << 63) - 1


class Trace(Section):
    """[trace]: samples of the size of nodes' state."""

    state_interval_s: Seconds = Decimal(10)
    """Time between two samples of the size of every node's state; with 0 there are none."""
    state_interval_us = Scaled("state_interval_s", MILLION)


class Scores(Section):
    """[scores]: samples of the scores that nodes give their peers."""

    every_s: Seconds = Decimal(0)
    """Time between two samples of all scores; one more is at the end. With 0 there are none. Some router must have
    scores."""
    every_us = Scaled("every_s", MILLION)


_UpToADay = Annotated[Decimal, number_in("0", 86_400)]


class Scenario(Section):
    """All sections of a scenario. `validation` is declared before the routers, because their validators read it."""

    seed: Annotated[int, integer_in(0, MAX_SEED)] = 1
    """Seed of all random numbers."""
    warmup_s: _UpToADay = Decimal(5)
    """Time before the workload begins."""
    linger_s: _UpToADay = Decimal(10)
    """Time that the run continues after the last message and one more interval. A node must stay in the topic this
    long after a message to be eligible for it."""
    network: Network = Network()
    """The nodes, and the peers that they dial."""
    links: Links = Links()
    """Latency, jitter and uplinks."""
    loss: Loss = Loss()
    """Loss of messages and control parts."""
    service: Service = Service()
    """Time that a node takes for an event."""
    validation: Validation = Validation()
    """The applications' check of messages."""
    router: RouterTable = Field(default=RouterChoice.from_mapping({}), validate_default=True)
    """The router of all nodes that are in no population: `kind`, `preset` and any parameter of that router."""
    population: tuple[Population, ...] = ()
    """Nodes with another router."""
    addresses: Addresses = Addresses()
    """IP addresses of the nodes."""
    ratings: tuple[Rating, ...] = ()
    """Application-specific scores of some nodes."""
    topics: tuple[TopicGroup, ...] = (TopicGroup(),)
    """Topics and their subscribers."""
    workload: Workload = Workload()
    """The messages that are published."""
    timed: tuple[Timed, ...] = ()
    """Single joins, leaves and publications."""
    faults: Faults = Faults()
    """Churn, crashes, partitions and cut links."""
    trace: Trace = Trace()
    """Samples of the size of nodes' state."""
    scores: Scores = Scores()
    """Samples of the scores that nodes give their peers."""
    warmup_us = Scaled("warmup_s", MILLION)
    linger_us = Scaled("linger_s", MILLION)

    @field_validator("router", "population")
    @classmethod
    def _validate_in_routers(
        cls, given: RouterChoice | tuple[Population, ...], info: ValidationInfo
    ) -> RouterChoice | tuple[Population, ...]:
        validation = info.data.get("validation")
        if not isinstance(validation, Validation) or not validation.active:
            return given
        if isinstance(given, RouterChoice):
            return given.validating()
        return tuple(one.model_copy(update={"router": one.router.validating()}) for one in given)

    @property
    def topic_names(self) -> tuple[str, ...]:
        """The names of all topics; the number of a topic is its index in this tuple."""
        return tuple(name for group in self.topics for name in group.names)

    @property
    def routers(self) -> dict[str, RouterChoice]:
        """All routers of the network, by the path of their table: `router`, `population.0.router`, …"""
        of_populations = {f"population.{number}.router": one.router for number, one in enumerate(self.population)}
        return {"router": self.router, **of_populations}

    def cross_rules(self) -> Iterator[Violation]:
        yield from self._population_rules()
        for key, choice in self.routers.items():
            if isinstance(choice.parameters, GossipsubParameters):
                yield from self._unknown_nodes(f"{key}.direct_peers", map(max, choice.parameters.direct_peers))
        yield from self._topic_rules()
        yield from self._score_rules()
        yield from self._timed_rules()
        addresses: dict[str, int] = {}
        for number, nodes in enumerate(self.addresses.shared):
            addresses |= _places(f"addresses.shared.{number}", nodes)
        yield from self._unknown_places(addresses)
        yield from _repeated(addresses)
        for number, entry in enumerate(self.ratings):
            yield from self._some_nodes_rules(f"ratings.{number}", entry)
            yield from self._unknown_nodes(f"ratings.{number}.by", entry.by)
        yield from self._invalid_message_rules()
        for number, crash in enumerate(self.faults.crash):
            yield from self._unknown_nodes(f"faults.crash.{number}.listed", crash.listed)
        for number, cut in enumerate(self.faults.cut):
            for place, link in enumerate(cut.links or ()):
                if not all(0 <= node < self.network.nodes for node in link):
                    rule = f"must name nodes below network.nodes ({self.network.nodes})"
                    yield Violation(f"faults.cut.{number}.links.{place}", list(link), rule)

    def _population_rules(self) -> Iterator[Violation]:
        places: dict[str, int] = {}
        for number, population in enumerate(self.population):
            places |= _places(f"population.{number}.listed", population.listed)
        yield from self._unknown_places(places)
        yield from _repeated(places)
        total = MILLION * len(places)
        for number, population in enumerate(self.population):
            total += population.share_millionths * self.network.nodes
            if total > MILLION * self.network.nodes:
                rule = "the shares of all populations must not sum to more than 1"
                rule += ", those of the listed nodes included" if places else ""
                yield Violation(f"population.{number}.share", population.share, rule)
                return

    def _topic_rules(self) -> Iterator[Violation]:
        if not self.topics:
            yield Violation("topics", [], "must not be empty")
        elif self.workload.messages and not any(group.weight for group in self.topics):
            yield Violation("topics.0.weight", 0, "no topic has a weight for workload.messages")
        nodes = self.network.nodes
        has_parts = any(getattr(each.parameters, "partial_messages", False) for each in self.routers.values())
        seen: set[str] = set()
        for number, group in enumerate(self.topics):
            path = f"topics.{number}"
            twice = next((name for name in group.names if name in seen), None)
            if twice is not None:
                yield Violation(f"{path}.name", group.name, f"topic {twice!r} exists already")
            seen.update(group.names)
            if group.subscribers_count is not None and group.subscribers_count > nodes:
                rule = f"must not be above network.nodes ({nodes})"
                yield Violation(f"{path}.subscribers_count", group.subscribers_count, rule)
            if group.goes_in_parts and not has_parts:
                yield Violation(f"{path}.name", group.name, "is sent in parts, but no router has partial_messages")
            if group.partial is not None and group.goes_in_parts and self.validation.active:
                rule = "not with [validation], which checks full messages; applications check parts themselves"
                yield Violation(f"{path}.partial.use", group.partial.use.value, rule)
            places = _places(f"{path}.subscribers", group.subscribers)
            yield from self._unknown_places(places)
            yield from _repeated({place: node for place, node in places.items() if node < nodes})

    def _score_rules(self) -> Iterator[Violation]:
        """Yield a violation for each score table of an unknown topic, except tables of presets, and one for
        `scores.every_s` if no router scores peers."""
        scored = False
        for key, choice in self.routers.items():
            score = getattr(choice.parameters, "score", None)
            scored = scored or score is not None or choice.kind not in ROUTERS
            if isinstance(score, ScoreSet):
                known = {ANY_TOPIC, *_scored_topics(choice.base)}
                for number, table in enumerate(score.topics):
                    if table not in known and not any(role_of(name, {table: None}) for name in self.topic_names):
                        yield from self._unknown_topic(f"{key}.score.topics.{number}.topic", table)
        if self.scores.every_us and not scored:
            yield Violation("scores.every_s", self.scores.every_s, "needs a router with scores (router.score)")

    def _timed_rules(self) -> Iterator[Violation]:
        silent = next((key for key, choice in self.routers.items() if not choice.parameters.hello), None)
        yield from self._unknown_places(
            {f"timed.{number}.node": timed.node for number, timed in enumerate(self.timed)}
        )
        for number, timed in enumerate(self.timed):
            if silent and timed.action is not TimedKind.PUBLISH:
                rule = f"not with {silent}.hello = false: peers would not learn of it"
                yield Violation(f"timed.{number}.action", str(timed.action), rule)
            yield from self._unknown_topic(f"timed.{number}.topic", timed.topic)

    def _invalid_message_rules(self) -> Iterator[Violation]:
        invalid = self.validation.invalid
        for number, entry in enumerate(invalid):
            path = f"validation.invalid.{number}"
            yield from self._some_nodes_rules(path, entry)
            for place, topic in enumerate(entry.topics or ()):
                yield from self._unknown_topic(f"{path}.topics.{place}", topic)
        published = any(timed.action is TimedKind.PUBLISH for timed in self.timed)
        if invalid and self.workload.publishers is Publishers.SCRIPT and not published:
            rule = "no node publishes anything, so nothing is invalid (validation.invalid)"
            yield Violation("workload.publishers", str(self.workload.publishers), rule)

    def _some_nodes_rules(self, path: str, some: SomeNodes) -> Iterator[Violation]:
        yield from self._unknown_nodes(f"{path}.listed", some.listed)
        if some.population is not None and some.population >= len(self.population):
            rule = f"must be below the number of populations ({len(self.population)})"
            yield Violation(f"{path}.population", some.population, rule)

    def _unknown_topic(self, path: str, topic: str) -> Iterator[Violation]:
        known = self.topic_names
        if topic not in known:
            close = get_close_matches(topic, sorted(known), n=1)
            hint = f", did you mean {close[0]!r}?" if close else ""
            yield Violation(path, topic, f"no such topic{hint}")

    def _unknown_nodes(self, path: str, nodes: Iterable[int] | None) -> Iterator[Violation]:
        yield from self._unknown_places(_places(path, nodes))

    def _unknown_places(self, places: Mapping[str, int]) -> Iterator[Violation]:
        """Yield one violation if some nodes do not exist. It names the highest of these nodes, and the number of
        nodes that the network would need. `places` has nodes by their paths, as `_places` returns them."""
        outside = {place: node for place, node in places.items() if node >= self.network.nodes}
        if not outside:
            return
        place, node = max(outside.items(), key=lambda item: item[1])
        rule = f"must be below network.nodes ({self.network.nodes})"
        if len(outside) > 1:
            rule += f", and so must {len(outside) - 1} more; all need network.nodes = {node + 1} or more"
        yield Violation(place, node, rule)


def _places(path: str, nodes: Iterable[int] | None) -> dict[str, int]:
    """Return each node of a list by the path of its element, such as `population.0.listed.2`; empty for None."""
    return {f"{path}.{place}": node for place, node in enumerate(nodes or ())}


def _repeated(places: Mapping[str, int]) -> Iterator[Violation]:
    """Yield one violation for each node that has several places."""
    times = Counter(places.values())
    for place, node in places.items():
        if times[node] > 1:
            yield Violation(place, node, "is listed more than once")
            times[node] = 0


def _scored_topics(preset: Mapping[str, object]) -> set[str]:
    """Return the topics for which a router's preset has score parameters."""
    score = preset.get("score")
    return set() if score is None else set(ScoreSet.from_mapping(cast("Mapping[str, object]", score)).topics)
