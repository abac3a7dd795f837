"""Actions of users on a running simulation, as a scenario that reproduces the run.

A message is a `[[timed]]` publication, a crash a `[[faults.crash]]` of one listed node, and its return the crash's
`rejoin_after_s`.
"""

from __future__ import annotations

from decimal import Decimal

from hearsay.core.language.identifiers import Micros
from hearsay.sim.scenario.faults import Crash
from hearsay.sim.scenario.scenario import Scenario
from hearsay.sim.scenario.scenario_error import ScenarioError
from hearsay.sim.scenario.scenario_file import change_scenario
from hearsay.sim.scenario.values import MILLION, Section
from hearsay.sim.scenario.workload import Timed, TimedKind
from hearsay.watch.broadcast import Refused


def published(scenario: Scenario, node: int, topic: str, at_us: Micros) -> Scenario:
    more = Timed(at_s=_seconds(at_us), node=node, action=TimedKind.PUBLISH, topic=topic)
    return _changed(scenario, {"timed": (*scenario.timed, more)})


def crashed(scenario: Scenario, node: int, at_us: Micros) -> Scenario:
    return _with_crashes(scenario, (*scenario.faults.crash, Crash(at_s=_seconds(at_us), listed=(node,))))


def back(scenario: Scenario, node: int, at_us: Micros) -> Scenario:
    """The return of a node that a crash of its own took down. `Refused` when there is none."""
    crashes = list(scenario.faults.crash)
    for place in reversed(range(len(crashes))):
        crash = crashes[place]
        if crash.listed == (node,) and crash.rejoin_after_s is None:
            after = _seconds(at_us - crash.at_us)
            crashes[place] = Crash(at_s=crash.at_s, listed=(node,), rejoin_after_s=after)
            return _with_crashes(scenario, tuple(crashes))
    raise Refused(f"node {node} is away because the scenario says so; it comes back when that says so")


def _with_crashes(scenario: Scenario, crashes: tuple[Crash, ...]) -> Scenario:
    return _changed(scenario, {"faults": scenario.faults.model_copy(update={"crash": crashes})})


def _changed(scenario: Scenario, update: dict[str, Section | tuple[Section, ...]]) -> Scenario:
    """Checked as if it had been read from a file."""
    try:
        return change_scenario(scenario.model_copy(update=update), ())
    except ScenarioError as error:
        raise Refused("; ".join(error.problems)) from None


def _seconds(time_us: Micros) -> Decimal:
    return Decimal(time_us) / MILLION
