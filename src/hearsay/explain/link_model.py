"""The links and nodes of a simulated run as its scenario defines them: latencies, uplinks, validation, service.

The resolved scenario is read by the names of its keys, so no router is loaded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hearsay.core.shell.randomness import Randomness
from hearsay.pipeline.input.run_facts import RunFacts
from hearsay.sim.plan.draws import natted_nodes
from hearsay.sim.plan.latency import LatencyModel, make_latency
from hearsay.sim.scenario.network import Links, Network, Service
from hearsay.sim.scenario.tables import read_text
from hearsay.sim.scenario.toml_text import parse
from hearsay.sim.scenario.workload import TopicGroup, Validation

_WITHOUT_GOSSIP = ("floodsub", "randomsub", "meshsub")


@dataclass(frozen=True, slots=True)
class LinkModel:
    """The delays that a scenario defines for links and nodes, without jitter and queues."""

    latency: LatencyModel
    uplink_bits_per_s: int
    """0: unlimited."""
    validation_us: int
    service_us: int
    natted: frozenset[int]
    """Nodes that accept no inbound connection."""
    history_us: int | None
    """Longest time for which a holder may announce a message; None if heartbeats do not limit it."""
    topics_in_parts: frozenset[str]
    """Topics whose messages are sent as partial messages."""

    def line_us(self, a: int, b: int) -> int:
        """Return the latency between two nodes, without jitter."""
        return self.latency.base_us(a, b)

    def uplink_us(self, size: int) -> int:
        """Return the time that `size` bytes take on the uplink of a node."""
        return -(-size * 8_000_000 // self.uplink_bits_per_s) if self.uplink_bits_per_s and size > 0 else 0


@dataclass(frozen=True, slots=True)
class _Net:
    links: Links
    network: Network


def link_model_of(run: RunFacts) -> LinkModel | None:
    """Return the link model of a run; None without a simulation, or if the scenario needs a file that is gone."""
    if not run.simulated:
        return None
    try:
        path = run.path / "scenario.toml"
        return _link_model(parse(read_text(path), str(path)))
    except (ValueError, KeyError, TypeError, AttributeError, OSError):
        return None


def _link_model(scenario: dict[str, Any]) -> LinkModel:
    net = _Net(Links.model_validate(scenario.get("links", {})), Network.model_validate(scenario.get("network", {})))
    topics = [TopicGroup.model_validate(group) for group in scenario.get("topics", [{}])]
    randomness = Randomness(scenario.get("seed", 1))
    return LinkModel(
        latency=make_latency(net, randomness),
        uplink_bits_per_s=net.links.uplink_bits_per_s,
        validation_us=Validation.model_validate(scenario.get("validation", {})).delay_us,
        service_us=Service.model_validate(scenario.get("service", {})).time_us,
        natted=natted_nodes(net.network, randomness),
        history_us=_history_us(scenario),
        topics_in_parts=frozenset(name for group in topics if group.goes_in_parts for name in group.names),
    )


def _history_us(scenario: dict[str, Any]) -> int | None:
    longest = 0
    for router in (scenario["router"], *(each["router"] for each in scenario.get("population", ()))):
        if "history_gossip" in router:
            longest = max(longest, router["history_gossip"] * router["heartbeat_interval_ms"] * 1000)
        elif router["kind"] not in _WITHOUT_GOSSIP:
            return None
    return longest
