"""The plan of a run: everything that is decided before it starts, as plain integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from hearsay.core.identifiers import Micros
from hearsay.core.parameters import RouterParameters
from hearsay.core.registry import RouterKind
from hearsay.sim.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Publication:
    """A message and where it enters: `publisher` is a node, or `nodes` for the script, which sends it to `inject`."""

    time_us: Micros
    message: int
    topic: int
    publisher: int
    inject: tuple[int, ...]
    size_bytes: int


@dataclass(frozen=True, slots=True)
class TimedAction:
    """A node joins or leaves a topic."""

    time_us: Micros
    node: int
    join: bool
    topic: int


@dataclass(frozen=True, slots=True)
class NodeDown:
    time_us: Micros
    node: int
    goodbye: bool


@dataclass(frozen=True, slots=True)
class NodeUp:
    time_us: Micros
    node: int


@dataclass(frozen=True, slots=True)
class LinksCut:
    """A partition names one side, and all links across are cut; a cut names the links."""

    time_us: Micros
    fault: int
    side: frozenset[int] | None
    links: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class LinksHealed:
    time_us: Micros
    fault: int


Fault: TypeAlias = NodeDown | NodeUp | LinksCut | LinksHealed


@dataclass(frozen=True, slots=True)
class Plan:
    scenario: Scenario
    topics: tuple[str, ...]
    routers: tuple[tuple[RouterKind, RouterParameters], ...]
    router_of: list[int]
    subscriptions: list[tuple[int, ...]]
    dials: list[list[int]]
    publications: tuple[Publication, ...]
    timed: tuple[TimedAction, ...]
    faults: tuple[Fault, ...]
    initially_down: frozenset[int]
    end_us: Micros


def make_plan(scenario: Scenario) -> Plan:
    """The plan of a scenario; depends on nothing else."""
    raise NotImplementedError
