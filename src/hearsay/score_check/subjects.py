"""Sources of subjects: named parameter sets, scenarios, and score files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from math import exp
from pathlib import Path
from typing import TypeVar, cast

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
from hearsay.core.scores.score_set import ScoreSet
from hearsay.core.shell.parameters import ParameterError, Violation
from hearsay.score_check.offences import MOST_OF_A_PEER, promises_per_heartbeat
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
from hearsay.sim.scenario.routers import Population
from hearsay.sim.scenario.scenario import Scenario
from hearsay.sim.scenario.scenario_error import ScenarioError
from hearsay.sim.scenario.scenario_file import load_scenario
from hearsay.sim.scenario.toml_text import Document, parse_file
from hearsay.sim.scenario.workload import TimedKind
from hearsay.text.escape import shown_value

T = TypeVar("T")
_SLOT_S = SLOT_MS / 1000
_ETHEREUM = Expectations(degree=8, heartbeat_ms=700, round_trip_ms=100)
_EXPECTED: Mapping[str, Expectations] = {
    "ethereum": _ETHEREUM,
    "lighthouse": _ETHEREUM,
    "ethereum-prysm": _ETHEREUM,
    "hardening": Expectations(degree=8, round_trip_ms=50),
    "filecoin": Expectations(degree=8),
    "rust": Expectations(promises_per_heartbeat=MOST_OF_A_PEER),
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
"""Tables of a set that repeat a topic under another name, and are left out: Lotus calls its messages `msgs`."""
_COUNTS = {"beacon_attestation": SUBNETS, "sync_committee": 4}


def subject_of_set(name: str, validators: int | None = None) -> Subject:
    """Return a set by name. Raise `ParameterError` if there is none, or if `validators` does not apply to it."""
    if name in FIXED and validators is not None:
        words = f"set {name} is not made from it; {', '.join(BY_VALIDATORS)} are"
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
"""Quantile of the normal distribution: one value in a hundred is 2.33 standard deviations below the mean, or more."""


def subject_of_scenario(scenario: Scenario, name: str, lines: Mapping[str, int]) -> Subject:
    """Return the subject of the scenario's own router; raise `ScenarioError` if it has no scores."""
    parameters = scenario.router.parameters
    if not isinstance(parameters, GossipsubParameters) or parameters.score is None:
        raise ScenarioError(
            [f"{name}: its router keeps no scores: there is no [router.score], and no preset with one"]
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
    """Return the populations whose router is not the scenario's own, by their tables."""
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
    """Return the latency to the nearest peers in whole milliseconds; 0 if unknown."""
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
    """Return the subject of a file; raise `ScenarioError` with all mistakes."""
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
    violations: list[Violation] = []
    score = _made(lambda: ScoreSet.from_mapping(_table(document, "score")), "score.", violations)
    expect = _made(lambda: _expected(_table(document, "expect")), "expect.", violations)
    named = Subject(file, ScoreSet(), Expectations(), (), lines=lines)
    placed = [(named.line_of(each.field), each) for each in violations]
    for line, each in sorted(placed, key=lambda one: one[0]):
        place = f"{file}:{line}" if line else file
        said = "" if each.value is None else f" = {shown_value(each.value)}"
        problems.append(f"{place}: {each.field.rstrip('.')}{said}: {each.rule}")
    if score is None or expect is None:
        return None
    expected, there = expect
    groups, unmet = grouped(score, there, "score") if there else (groups_of_all(score, "score"), [])
    return Subject(file, score, expected, groups, unmet, lines=lines)


def _expected(values: Mapping[str, object]) -> tuple[Expectations, list[Topics]]:
    own = {key: value for key, value in values.items() if key != "topics"}
    wrong: list[Violation] = []
    there: dict[str, Topics] = {}
    expected = _made(lambda: Expectations.from_mapping(own), "", wrong)
    for number, table in _tables(values.get("topics", []), wrong):
        rest = dict(table)
        name = rest.pop("topic", None)
        if not isinstance(name, str) or not name:
            wrong.append(Violation(f"topics.{number}.topic", name, "must be the name of a topic"))
            continue
        if name in there:
            wrong.append(Violation(f"topics.{number}.topic", name, "is there twice"))
        traffic = _made(partial(Traffic.from_mapping, rest), f"topics.{number}.", wrong)
        if traffic is not None:
            rate = traffic.messages_per_s if "messages_per_s" in rest else None
            there[name] = Topics(name, {name: traffic.count}, rate)
    if expected is None or wrong:
        raise ParameterError(tuple(wrong))
    return expected, list(there.values())


def _made(make: Callable[[], T], above: str, wrong: list[Violation]) -> T | None:
    """Return the result of `make`; if it raises, add its violations to `wrong`, with `above` before their fields."""
    try:
        return make()
    except ParameterError as error:
        wrong += [Violation(f"{above}{each.field}", each.value, each.rule) for each in error.violations]
        return None


def _table(document: Mapping[str, object], name: str) -> Mapping[str, object]:
    found = document.get(name, {})
    if isinstance(found, Mapping):
        return cast("Mapping[str, object]", found)
    raise ParameterError((Violation("", found, "must be a table"),))


def _tables(given: object, wrong: list[Violation]) -> Iterator[tuple[int, Mapping[str, object]]]:
    tables = cast("list[object]", given) if isinstance(given, list) else [given]
    for number, table in enumerate(tables):
        if isinstance(table, Mapping):
            yield number, cast("Mapping[str, object]", table)
        else:
            wrong.append(Violation(f"topics.{number}", table, "must be a table, as in [[expect.topics]]"))
