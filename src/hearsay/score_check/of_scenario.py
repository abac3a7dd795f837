"""What a scenario says of scores: its router's parameters, its topics with their traffic, its links."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from math import exp

from hearsay.core.mesh.parameters import GossipsubParameters
from hearsay.score_check.promises import promises_per_heartbeat
from hearsay.score_check.subject import Expectations, OtherPopulation, Subject
from hearsay.score_check.topic_groups import Topics, grouped
from hearsay.sim.scenario.network import LatencyKind, Links
from hearsay.sim.scenario.routers import Population
from hearsay.sim.scenario.scenario import Scenario
from hearsay.sim.scenario.scenario_error import ScenarioError
from hearsay.sim.scenario.workload import TimedKind

_MILLION = 1_000_000
_NEAREST = -2.33
"""Of a normal distribution: one in a hundred is so many deviations below the mean."""


def subject_of_scenario(scenario: Scenario, name: str, lines: Mapping[str, int]) -> Subject:
    """Of the scenario's own router; raises `ScenarioError` if that keeps no scores."""
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
    """Those whose router is another than the scenario's own, by their tables."""
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
    """The latency to the nearest peers, in whole milliseconds; 0 if it is not known."""
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
