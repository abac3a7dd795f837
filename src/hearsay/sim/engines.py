"""Which engine runs a scenario.

The reference engine runs everything. The array engine gives the same trace, many times faster, for the four routers
that it has kernels for; it is compiled once on a machine, which small runs do not pay for.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from hearsay.sim.scenario import Scenario
from hearsay.sim.sections.network import TopologyKind

EngineName: TypeAlias = Literal["reference", "array"]

WITH_KERNELS = ("floodsub", "randomsub", "meshsub", "gossipsub")
WORTH_COMPILING = 2_000_000
"""Events from which the array engine is faster although it may have to be compiled first."""


class OutOfRoom(Exception):
    """Something in the array engine grew beyond what was set aside for it; says what."""


def unsupported(scenario: Scenario) -> list[str]:
    """What the array engine cannot do, by key; nothing when it can do all."""
    choices = {"router.kind": scenario.router.kind}
    for number, population in enumerate(scenario.population):
        choices[f"population.{number}.router.kind"] = population.router.kind
    return [
        f"{key} = {kind!r}: only {', '.join(WITH_KERNELS)}"
        for key, kind in choices.items()
        if kind not in WITH_KERNELS
    ]


def choose_engine(scenario: Scenario, *, checked: bool = False) -> tuple[EngineName, str]:
    """The engine for a run, and why in a few words."""
    if checked:
        return "reference", "--check looks into the routers"
    missing = unsupported(scenario)
    if missing:
        return "reference", missing[0]
    events = estimated_events(scenario)
    if events < WORTH_COMPILING:
        return "reference", f"about {events:,} events, a small run"
    return "array", f"about {events:,} events"


def estimated_events(scenario: Scenario) -> int:
    """Very roughly what a run's routers will have to handle."""
    nodes = scenario.network.nodes
    degree = mean_degree(scenario)
    messages = scenario.workload.messages
    run_s = (scenario.warmup_us + scenario.linger_us + messages * scenario.workload.interval_us) / 1e6
    copies = degree if scenario.router.kind == "floodsub" else COPIES_PER_DELIVERY
    return int(nodes * (degree * 2 + messages * copies + run_s))


COPIES_PER_DELIVERY = 7


def mean_degree(scenario: Scenario) -> int:
    network = scenario.network
    return network.nodes - 1 if network.topology is TopologyKind.COMPLETE else 2 * network.degree
