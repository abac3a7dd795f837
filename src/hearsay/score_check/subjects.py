"""Subjects from named parameter sets, scenarios and score files. A subject is the score parameters to check, and the
network in which they will be used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from math import exp
from pathlib import Path
from typing import TypeVar

from hearsay.core.mesh.parameters import GossipsubParameters
from hearsay.core.scores.named_sets import (
    BY_VALIDATORS,
    EPOCH,
    FIXED,
    SLOT_MS,
    SUBNETS,
    VALIDATORS,
    aggregates_per_slot,
    named_set,
)
from hearsay.core.scores.promises import MAX_PROMISES_OF_PEER
from hearsay.core.scores.score_parameters import ScoreSet, table_in, topic_tables
from hearsay.core.shell.parameters import ParameterError, Violation
from hearsay.score_check.offences import promises_per_heartbeat
from hearsay.score_check.subject import (
    Expectations,
    OtherPopulation,
    Subject,
    TopicGroup,
    Topics,
    Traffic,
    grouped,
    groups_of_all,
)
from hearsay.sim.scenario.network import LatencyKind, Links
from hearsay.sim.scenario.reading import Document, ScenarioError, parse_file
from hearsay.sim.scenario.routers import Population
from hearsay.sim.scenario.scenario import Scenario
from hearsay.sim.scenario.scenario_file import load_scenario
from hearsay.sim.scenario.workload import TimedKind
from hearsay.text import shown_value

T = TypeVar("T")
_SLOT_S = SLOT_MS / 1000
_ETHEREUM = Expectations(degree=8, heartbeat_ms=700, round_trip_ms=100)
_EXPECTED: Mapping[str, Expectations] = {
    "ethereum": _ETHEREUM,
    "lighthouse": _ETHEREUM,
    "ethereum-prysm": _ETHEREUM,
    "hardening": Expectations(degree=8, round_trip_ms=50),
    "filecoin": Expectations(degree=8),
    "rust": Expectations(promises_per_heartbeat=MAX_PROMISES_OF_PEER),
    "nim": Expectations(promises_per_heartbeat=0),
}
_PER_SLOT: Mapping[str, Callable[[int], float]] = {
    "beacon_block": lambda _: 1.0,
    "beacon_aggregate_and_proof": aggregates_per_slot,
    "beacon_attestation": lambda validators: validators / (SUBNETS * EPOCH),
    "voluntary_exit": lambda _: 4 / EPOCH,
    "proposer_slashing": lambda _: 1 / 5 / EPOCH,
    "attester_slashing": lambda _: 1 / 5 / EPOCH,
}
_PER_S: Mapping[str, Mapping[str, float]] = {"hardening": {"any": 120.0}, "filecoin": {"blocks": 5 / 30}}
_OTHER_NAMES: Mapping[str, tuple[str, ...]] = {"filecoin": ("messages",)}
"""The topics that are left out, by set. Each is a second name of another topic: Lotus calls `messages` `msgs`."""
_COUNTS = {"beacon_attestation": SUBNETS, "sync_committee": 4}


def subject_of_set(name: str, validators: int | None = None) -> Subject:
    """Return the subject of a named parameter set. `validators` is the number of Ethereum's validators; None is the
    default. Raise `ParameterError` if there is no such set, if `validators` is out of range, or if it is given and
    the set does not depend on it.
    """
    if name in FIXED and validators is not None:
        words = f"set {name} does not depend on it; {', '.join(BY_VALIDATORS)} do"
        raise ParameterError((Violation("validators", validators, words),))
    validators = VALIDATORS if validators is None else validators
    score = named_set(name, validators)
    groups = [
        TopicGroup(topic, _COUNTS.get(topic, 1), parameters, _rate(name, topic, validators))
        for topic, parameters in score.topics.items()
        if topic not in _OTHER_NAMES.get(name, ())
    ]
    return Subject(name, score, _EXPECTED.get(name, Expectations()), groups, table="")


def _rate(name: str, topic: str, validators: int) -> float | None:
    if topic in _PER_SLOT:
        return _PER_SLOT[topic](validators) / _SLOT_S
    return _PER_S.get(name, {}).get(topic)


_MILLION = 1_000_000
_NEAREST = -2.33
"""A quantile of the standard normal distribution: one value in a hundred is below this."""


def subject_of_scenario(scenario: Scenario, name: str, lines: Mapping[str, int]) -> Subject:
    """Return the subject of the scenario's own router. `name` is the name of the subject, and `lines` has the lines
    of keys in the scenario file. Raise `ScenarioError` if the router keeps no scores.
    """
    parameters = scenario.router.parameters
    if not isinstance(parameters, GossipsubParameters) or parameters.score is None:
        raise ScenarioError(
            [f"{name}: its router keeps no scores; scores need gossipsub with [router.score] or a preset that has it"]
        )
    expected = Expectations(
        degree=max(1, parameters.degree),
        heartbeat_ms=parameters.heartbeat_interval_ms,
        round_trip_ms=2 * _nearest_ms(scenario.links),
        prune_backoff_ms=parameters.prune_backoff_ms,
        graft_flood_ms=parameters.graft_flood_ms,
        opportunistic_graft_ticks=parameters.opportunistic_graft_ticks,
        promises_per_heartbeat=promises_per_heartbeat(parameters),
    )
    table = "router.score"
    others, nodes = _other_populations(scenario), scenario.network.nodes
    groups, unmet = grouped(parameters.score, _topics(scenario), table)
    return Subject(
        name,
        parameters.score,
        expected,
        groups,
        unmet,
        parameters.accept_exchange,
        table,
        lines,
        [_other(place, population) for place, population in others.items()],
        sum(_nodes_millionths(each, nodes) for each in others.values()) < nodes * _MILLION,
    )


def _other_populations(scenario: Scenario) -> dict[str, Population]:
    """Return the populations whose router is not the scenario's own, by the keys of their tables."""
    return {
        f"population.{number}": population
        for number, population in enumerate(scenario.population)
        if population.router.to_mapping() != scenario.router.to_mapping()
    }


def _other(place: str, population: Population) -> OtherPopulation:
    nodes = None if population.listed is None else len(population.listed)
    share = None if nodes is not None else population.share_millionths / _MILLION
    choice = population.router
    name = choice.preset or choice.kind if choice.kind == "gossipsub" else choice.kind
    return OtherPopulation(place, name, share, nodes)


def _nodes_millionths(population: Population, nodes: int) -> int:
    """Return the number of nodes of a population, in millionths of a node. `nodes` is the number of nodes of the
    network.
    """
    if population.listed is not None:
        return len(population.listed) * _MILLION
    return population.share_millionths * nodes


def _topics(scenario: Scenario) -> Iterator[Topics]:
    work = scenario.workload
    shares = sum(group.weight * group.count for group in scenario.topics)
    timed = Counter(each.topic for each in scenario.timed if each.action is TimedKind.PUBLISH)
    for group in scenario.topics:
        names = dict.fromkeys(group.names, 1)
        if work.messages and not work.interval_us:
            rate = None
        else:
            rate = group.weight / shares * _MILLION / work.interval_us if work.messages and shares else 0.0
        if timed.keys() & names:
            rate = None
        yield Topics(group.name, names, rate)


def _nearest_ms(links: Links) -> int:
    """Return the latency to the nearest peers in milliseconds, rounded down; 0 if unknown."""
    match links.latency:
        case LatencyKind.UNIFORM:
            nearest = links.min_us
        case LatencyKind.CONSTANT:
            nearest = links.value_us
        case LatencyKind.LOG_NORMAL:
            nearest = int(min(links.median_us * exp(_NEAREST * links.sigma_millionths / _MILLION), links.cap_us))
        case LatencyKind.REGIONS:
            nearest = 0
    return nearest // 1000


TABLES = ("score", "expect")


def read_subject(path: Path) -> Subject:
    """Return the score parameters that a file declares, and their network, as a `Subject`. The file is a scenario, or
    has the table [score] and perhaps [expect]. Raise `ScenarioError` with the mistakes of the file.
    """
    document, paths = parse_file(path)
    lines = {".".join(map(str, key)): line for key, line in paths.items()}
    if not document.keys() & set(TABLES):
        return subject_of_scenario(load_scenario(path), str(path), lines)
    problems = [
        f"{path}:{paths[key,]}: {key}: is not allowed in a file with [score] or [expect], which has only these tables"
        for key in document
        if key not in TABLES
    ]
    if "score" not in document:
        raise ScenarioError([*problems, f"{path}: has [expect] but no [score]"])
    subject = _subject(document, str(path), lines, problems)
    if problems or subject is None:
        raise ScenarioError(problems)
    return subject


def _subject(document: Document, file: str, lines: Mapping[str, int], problems: list[str]) -> Subject | None:
    """Return the subject of a file with [score]; None if a mistake prevents this. Add all mistakes to `problems`."""
    wrong: list[Violation] = []
    table = table_in(document, "score", wrong)
    score = None if wrong else _made(lambda: ScoreSet.from_mapping(table), "score.", wrong)
    expect = _made(lambda: _expected(table_in(document, "expect", wrong)), "expect.", wrong)
    named = Subject(file, ScoreSet(), Expectations(), (), lines=lines)
    placed = [(named.line_of(each.field), each) for each in wrong]
    for line, each in sorted(placed, key=lambda one: one[0]):
        place = f"{file}:{line}" if line else file
        value = "" if each.value is None else f" = {shown_value(each.value)}"
        problems.append(f"{place}: {each.field.rstrip('.')}{value}: {each.rule}")
    if score is None or expect is None:
        return None
    expected, there = expect
    groups, unmet = grouped(score, there, "score") if there else (groups_of_all(score, "score"), [])
    return Subject(file, score, expected, groups, unmet, lines=lines)


def _expected(values: Mapping[str, object]) -> tuple[Expectations, list[Topics]]:
    """Return the expectations in the table [expect] with these values, and the topics in its tables
    [[expect.topics]]. Raise `ParameterError` with all mistakes.
    """
    own = {key: value for key, value in values.items() if key != "topics"}
    wrong: list[Violation] = []
    there: dict[str, Topics] = {}
    expected = _made(lambda: Expectations.from_mapping(own), "", wrong)
    for place, name, table in topic_tables(values.get("topics", []), wrong):
        if name in there:
            wrong.append(Violation(f"{place}.topic", name, "is the topic of another table"))
        traffic = _made(partial(Traffic.from_mapping, table), f"{place}.", wrong)
        if traffic is not None:
            rate = traffic.messages_per_s if "messages_per_s" in table else None
            there[name] = Topics(name, {name: traffic.count}, rate)
    if expected is None or wrong:
        raise ParameterError(tuple(wrong))
    return expected, list(there.values())


def _made(make: Callable[[], T], above: str, wrong: list[Violation]) -> T | None:
    """Return the result of `make`. If it raises `ParameterError`, add the violations to `wrong`, with `above` before
    the field of each, and return None.
    """
    try:
        return make()
    except ParameterError as error:
        wrong += [Violation(f"{above}{each.field}", each.value, each.rule) for each in error.violations]
        return None
