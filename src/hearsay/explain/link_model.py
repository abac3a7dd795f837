"""What the scenario of a simulated run says of its links and nodes: latencies, uplinks, validation, service."""

from __future__ import annotations

from dataclasses import dataclass

from hearsay.core.flooding.floodsub import FloodsubParameters
from hearsay.core.flooding.randomsub import RandomsubParameters
from hearsay.core.mesh.gossip_parameters import GossipsubParameters
from hearsay.core.mesh.meshsub import MeshsubParameters
from hearsay.core.shell.randomness import Randomness
from hearsay.pipeline.input.run_facts import RunFacts
from hearsay.sim.plan.latency import LatencyModel, make_latency
from hearsay.sim.plan.plan import natted_nodes
from hearsay.sim.scenario.scenario import Scenario, ScenarioError
from hearsay.sim.scenario.scenario_file import load_scenario


@dataclass(frozen=True, slots=True)
class LinkModel:
    latency: LatencyModel
    uplink_bits_per_s: int
    """0 is unlimited."""
    validation_us: int
    service_us: int
    natted: frozenset[int]
    history_us: int | None
    """For how long who has a message may still announce it, at most; None where that is no matter of heartbeats."""
    topics_in_parts: frozenset[str]
    """Whose messages go in parts."""

    def line_us(self, a: int, b: int) -> int:
        """From one node to another, without jitter."""
        return self.latency.base_us(a, b)

    def uplink_us(self, size: int) -> int:
        """How long so many bytes take to leave a node."""
        return -(-size * 8_000_000 // self.uplink_bits_per_s) if self.uplink_bits_per_s and size > 0 else 0


def link_model_of(run: RunFacts) -> LinkModel | None:
    """None for what is no simulation, or whose scenario cannot be read here (a router from outside, a file of regions
    that is gone)."""
    if not run.simulated:
        return None
    try:
        scenario = load_scenario(run.path / "scenario.toml", None, ())
        randomness = Randomness(scenario.seed)
        return LinkModel(
            latency=make_latency(scenario, randomness),
            uplink_bits_per_s=scenario.links.uplink_bits_per_s,
            validation_us=scenario.validation.delay_us,
            service_us=scenario.service.time_us,
            natted=natted_nodes(scenario, randomness),
            history_us=_history_us(scenario),
            topics_in_parts=frozenset(
                name for group in scenario.topics if group.goes_in_parts for name in group.names
            ),
        )
    except (ScenarioError, OSError):
        return None


def _history_us(scenario: Scenario) -> int | None:
    longest = 0
    for choice in (scenario.router, *(population.router for population in scenario.population)):
        parameters = choice.parameters
        if isinstance(parameters, GossipsubParameters):
            longest = max(longest, parameters.history_gossip * parameters.heartbeat_interval_ms * 1000)
        elif not isinstance(parameters, FloodsubParameters | RandomsubParameters | MeshsubParameters):
            return None
    return longest
