"""A scenario: everything that one simulation is about, as checked and frozen values.

Rules:

* Every section and key is optional; a bare scenario is simsub's network (100 nodes, 10 random dials each, 10–150 ms)
  with r1's gossipsub.
* A key declares its range beside its type; a section's `cross_rules` state what holds between keys. All that is
  wrong is reported at once, each with its key, its value and the rule.
* No floating point decides anything: a number of the file is kept as the decimal that was written, and the
  properties (`warmup_us`, `rate_millionths`, …) turn it once into integers. Engines read only those.
* With validation at work (`[validation]` not all zero) every router's parameters say `validate`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from decimal import Decimal
from difflib import get_close_matches
from typing import Annotated, cast

from pydantic import Field, ValidationInfo, field_validator

from hearsay.core.language.identifiers import Micros
from hearsay.core.mesh.judging_parameters import JudgingParameters
from hearsay.core.registry import ROUTERS
from hearsay.core.scores.score_set import ANY_TOPIC, ScoreSet, role_of
from hearsay.core.shell.parameters import Violation
from hearsay.sim.scenario.sections.faults import Faults
from hearsay.sim.scenario.sections.identities import Addresses, Rating
from hearsay.sim.scenario.sections.network import Links, Loss, Network, Service
from hearsay.sim.scenario.sections.routers import Population, RouterChoice, RouterTable
from hearsay.sim.scenario.sections.section import Section
from hearsay.sim.scenario.sections.some_nodes import SomeNodes
from hearsay.sim.scenario.sections.values import MILLION, Seconds, integer_in, number_in, scaled
from hearsay.sim.scenario.sections.workload import (
    Publishers,
    Timed,
    TimedKind,
    TopicGroup,
    Validation,
    Workload,
)

MAX_SEED = (1 << 63) - 1


class Trace(Section):
    """[trace] – how often the state of all nodes is written down; 0 is never."""

    state_interval_s: Seconds = Decimal(10)

    @property
    def state_interval_us(self) -> Micros:
        return scaled(self.state_interval_s, MILLION)


class Scores(Section):
    """[scores] – how often what routers think of their peers is written down, and at the end; 0 is never."""

    every_s: Seconds = Decimal(0)

    @property
    def every_us(self) -> Micros:
        return scaled(self.every_s, MILLION)


_Quiet = Annotated[Decimal, number_in("0", 86_400)]
"""Seconds in which nothing is published: a day is much, and each is simulated with all its heartbeats."""


class Scenario(Section):
    """A whole scenario. `validation` stands before the routers because it turns `validate` on in them."""

    seed: Annotated[int, integer_in(0, MAX_SEED)] = 1
    warmup_s: _Quiet = Decimal(5)
    linger_s: _Quiet = Decimal(10)
    network: Network = Network()
    links: Links = Links()
    loss: Loss = Loss()
    service: Service = Service()
    validation: Validation = Validation()
    router: RouterTable = Field(default=RouterChoice.from_mapping({}), validate_default=True)
    population: tuple[Population, ...] = ()
    addresses: Addresses = Addresses()
    ratings: tuple[Rating, ...] = ()
    topics: tuple[TopicGroup, ...] = (TopicGroup(),)
    workload: Workload = Workload()
    timed: tuple[Timed, ...] = ()
    faults: Faults = Faults()
    trace: Trace = Trace()
    scores: Scores = Scores()

    @field_validator("router")
    @classmethod
    def _validate_in_router(cls, router: RouterChoice, info: ValidationInfo) -> RouterChoice:
        validation = info.data.get("validation")
        return router.validating() if isinstance(validation, Validation) and validation.active else router

    @field_validator("population")
    @classmethod
    def _validate_in_population(
        cls, population: tuple[Population, ...], info: ValidationInfo
    ) -> tuple[Population, ...]:
        validation = info.data.get("validation")
        if not isinstance(validation, Validation) or not validation.active:
            return population
        return tuple(one.model_copy(update={"router": one.router.validating()}) for one in population)

    def cross_rules(self) -> Iterator[Violation]:
        yield from self._population_rules()
        yield from self._direct_peer_rules()
        yield from self._topic_rules()
        yield from self._score_rules()
        yield from self._timed_rules()
        yield from self._address_rules()
        for number, entry in enumerate(self.ratings):
            yield from self._some_nodes_rules(f"ratings.{number}", entry)
            places = {f"ratings.{number}.by.{place}": node for place, node in enumerate(entry.by or ())}
            yield from self._nodes_that_are_not_there(places)
        yield from self._invalid_message_rules()
        for number, crash in enumerate(self.faults.crash):
            places = {f"faults.crash.{number}.listed.{place}": node for place, node in enumerate(crash.listed or ())}
            yield from self._nodes_that_are_not_there(places)
        for number, cut in enumerate(self.faults.cut):
            for place, link in enumerate(cut.links or ()):
                for node in link:
                    if not 0 <= node < self.network.nodes:
                        rule = f"must name nodes below network.nodes ({self.network.nodes})"
                        yield Violation(f"faults.cut.{number}.links.{place}", list(link), rule)
                        break

    def _population_rules(self) -> Iterator[Violation]:
        places = {
            f"population.{number}.listed.{place}": node
            for number, population in enumerate(self.population)
            for place, node in enumerate(population.listed or ())
        }
        yield from self._nodes_that_are_not_there(places)
        yield from _there_twice(places)
        total = MILLION * len(places)
        for number, population in enumerate(self.population):
            total += population.share_millionths * self.network.nodes
            if total > MILLION * self.network.nodes:
                rule = "the shares of all populations must not sum to more than 1"
                rule += ", those of the listed nodes included" if places else ""
                yield Violation(f"population.{number}.share", population.share, rule)
                return

    def _direct_peer_rules(self) -> Iterator[Violation]:
        for key, choice in self._choices().items():
            if isinstance(choice.parameters, JudgingParameters):
                pairs = enumerate(choice.parameters.direct_peers)
                yield from self._nodes_that_are_not_there(
                    {f"{key}.direct_peers.{place}": max(pair) for place, pair in pairs}
                )

    def _topic_rules(self) -> Iterator[Violation]:
        if not self.topics:
            yield Violation("topics", [], "must not be empty")
        elif self.workload.messages and not any(group.weight for group in self.topics):
            yield Violation("topics.0.weight", 0, "no topic has a weight for workload.messages")
        nodes = self.network.nodes
        seen: set[str] = set()
        for number, group in enumerate(self.topics):
            path = f"topics.{number}"
            twice = next((name for name in group.names if name in seen), None)
            if twice is not None:
                yield Violation(f"{path}.name", group.name, f"topic {twice!r} is there already")
            seen.update(group.names)
            if group.subscribers_count is not None and group.subscribers_count > nodes:
                rule = f"must not be above network.nodes ({nodes})"
                yield Violation(f"{path}.subscribers_count", group.subscribers_count, rule)
            if group.goes_in_parts and not self._has_partial_messages():
                yield Violation(f"{path}.name", group.name, "no router has partial_messages, and it goes in parts")
            if group.partial is not None and group.goes_in_parts and self.validation.active:
                rule = "not with [validation], which is about full messages: parts are judged by their application"
                yield Violation(f"{path}.partial.use", group.partial.use.value, rule)
            times = Counter(group.subscribers or ())
            places = {f"{path}.subscribers.{place}": node for place, node in enumerate(group.subscribers or ())}
            yield from self._nodes_that_are_not_there(places)
            for place, node in enumerate(group.subscribers or ()):
                if node < nodes and times[node] > 1:
                    yield Violation(f"{path}.subscribers.{place}", node, "is there more than once")
                    times[node] = 0

    def _score_rules(self) -> Iterator[Violation]:
        """Tables of a preset may be for topics that this network has not; others are mistakes."""
        scored = False
        for key, choice in self._choices().items():
            score = getattr(choice.parameters, "score", None)
            scored = scored or score is not None or choice.kind not in ROUTERS
            if isinstance(score, ScoreSet):
                own = {ANY_TOPIC, *_scored_topics(choice.preset_values())}
                for number, table in enumerate(score.topics):
                    if table not in own and not any(role_of(name, {table: None}) for name in self.topic_names):
                        yield from self._topic_that_is_not_there(f"{key}.score.topics.{number}.topic", table)
        if self.scores.every_us and not scored:
            yield Violation("scores.every_s", self.scores.every_s, "no router keeps scores (router.score)")

    def _timed_rules(self) -> Iterator[Violation]:
        silent = self._without_hello()
        places = {f"timed.{number}.node": timed.node for number, timed in enumerate(self.timed)}
        yield from self._nodes_that_are_not_there(places)
        for number, timed in enumerate(self.timed):
            if silent and timed.action is not TimedKind.PUBLISH:
                rule = f"not with {silent} = false, without which nobody would learn of it"
                yield Violation(f"timed.{number}.action", str(timed.action), rule)
            yield from self._topic_that_is_not_there(f"timed.{number}.topic", timed.topic)

    def _topic_that_is_not_there(self, path: str, topic: str) -> Iterator[Violation]:
        known = self.topic_names
        if topic not in known:
            close = get_close_matches(topic, sorted(known), n=1)
            hint = f", did you mean {close[0]!r}?" if close else ""
            yield Violation(path, topic, f"no such topic{hint}")

    def _address_rules(self) -> Iterator[Violation]:
        at = [(f"addresses.shared.{one}", nodes) for one, nodes in enumerate(self.addresses.shared)]
        places = {f"{path}.{place}": node for path, nodes in at for place, node in enumerate(nodes)}
        yield from self._nodes_that_are_not_there(places)
        yield from _there_twice(places)

    def _invalid_message_rules(self) -> Iterator[Violation]:
        invalid = self.validation.invalid
        for number, entry in enumerate(invalid):
            path = f"validation.invalid.{number}"
            yield from self._some_nodes_rules(path, entry)
            for place, topic in enumerate(entry.topics or ()):
                yield from self._topic_that_is_not_there(f"{path}.topics.{place}", topic)
        published = any(timed.action is TimedKind.PUBLISH for timed in self.timed)
        if invalid and self.workload.publishers is Publishers.SCRIPT and not published:
            rule = "no node publishes anything, so nothing is invalid (validation.invalid)"
            yield Violation("workload.publishers", str(self.workload.publishers), rule)

    def _some_nodes_rules(self, path: str, some: SomeNodes) -> Iterator[Violation]:
        places = {f"{path}.listed.{place}": node for place, node in enumerate(some.listed or ())}
        yield from self._nodes_that_are_not_there(places)
        if some.population is not None and some.population >= len(self.population):
            rule = f"must be below the number of populations ({len(self.population)})"
            yield Violation(f"{path}.population", some.population, rule)

    def _nodes_that_are_not_there(self, places: Mapping[str, int]) -> Iterator[Violation]:
        """One line for all of them, with the highest: a network that has it has the others."""
        outside = {place: node for place, node in places.items() if node >= self.network.nodes}
        if not outside:
            return
        place, node = max(outside.items(), key=lambda item: item[1])
        rule = f"must be below network.nodes ({self.network.nodes})"
        if len(outside) > 1:
            rule += f", and so must {len(outside) - 1} more; all need network.nodes = {node + 1} or more"
        yield Violation(place, node, rule)

    def _without_hello(self) -> str | None:
        """The key that lets some routers say no hello: their peers know of topics what holds when they connect."""
        return next((f"{key}.hello" for key, choice in self._choices().items() if not choice.parameters.hello), None)

    def _has_partial_messages(self) -> bool:
        return any(getattr(choice.parameters, "partial_messages", False) for choice in self._choices().values())

    def _choices(self) -> dict[str, RouterChoice]:
        """All routers of the network, by their keys."""
        of_populations = {f"population.{number}.router": one.router for number, one in enumerate(self.population)}
        return {"router": self.router, **of_populations}

    @property
    def topic_names(self) -> tuple[str, ...]:
        """All topics, groups expanded; a topic's number is its place here."""
        return tuple(name for group in self.topics for name in group.names)

    @property
    def warmup_us(self) -> Micros:
        return scaled(self.warmup_s, MILLION)

    @property
    def linger_us(self) -> Micros:
        return scaled(self.linger_s, MILLION)


def _there_twice(places: Mapping[str, int]) -> Iterator[Violation]:
    """A line for each node that stands at several places."""
    times = Counter(places.values())
    for place, node in places.items():
        if times[node] > 1:
            yield Violation(place, node, "is there more than once")
            times[node] = 0


def _scored_topics(preset: Mapping[str, object]) -> set[str]:
    """The topics that a router's preset has tables for."""
    score = preset.get("score")
    return set() if score is None else set(ScoreSet.from_mapping(cast("Mapping[str, object]", score)).topics)
