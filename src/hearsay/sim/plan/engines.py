"""The choice of an engine for a scenario, and the estimated memory and time of a run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from hearsay.core.episub.parameters import EpisubParameters, Overlay
from hearsay.core.mesh.parameters import GossipsubParameters, MeshParameters
from hearsay.sim.scenario.network import LatencyKind, TopologyKind
from hearsay.sim.scenario.scenario import Scenario
from hearsay.sim.scenario.scenario_error import ScenarioError
from hearsay.sim.scenario.workload import TimedKind

EngineName: TypeAlias = Literal["reference", "array"]

WITH_KERNELS = ("floodsub", "randomsub", "episub", "meshsub", "gossipsub")
CHECKED_NODES = 64
"""Number of nodes of a checked run on the array engine whose calls the router objects of the core repeat."""
WORTH_COMPILING = 2_000_000
"""Number of events of a run from which the array engine is faster even if it has to be compiled first."""
COPIES_PER_DELIVERY = 7
"""Estimated copies of a message that a node in a mesh receives."""
OVERLAY_EVENTS_PER_SECOND = 10
"""Estimated events per second of a node whose router has a managed overlay, with default parameters."""


LARGE_MESSAGE_BYTES = 16_384
"""Message size from which uplinks matter: eight copies leave an uplink of 50 Mbit/s in 20 ms, a short latency."""


class CapacityExceeded(Exception):
    """A table of the array engine has no room left; the message names the table."""


def unsupported(scenario: Scenario) -> list[str]:
    """Return a reason for each key that the array engine cannot run; none if it can run the scenario."""
    return [
        f"{key}.kind = {choice.kind!r}: only {', '.join(WITH_KERNELS)}"
        for key, choice in scenario.routers.items()
        if choice.kind not in WITH_KERNELS
    ]


def chooses_neighbours(scenario: Scenario) -> bool:
    """Return whether some router has a managed overlay (episub with an `overlay` other than `connections`)."""
    return any(
        isinstance(choice.parameters, EpisubParameters) and choice.parameters.overlay is not Overlay.CONNECTIONS
        for choice in scenario.routers.values()
    )


def routers_dial(scenario: Scenario) -> bool:
    """Return whether some router dials direct peers, or peers that a received PRUNE names."""
    if direct_pairs(scenario):
        return True
    meshes = [
        choice.parameters for choice in scenario.routers.values() if isinstance(choice.parameters, MeshParameters)
    ]
    named = any(max(mesh.prune_backoff_ms, mesh.unsubscribe_backoff_ms) * mesh.exchange_peers > 0 for mesh in meshes)
    return named and any(mesh.dials_per_prune > 0 for mesh in meshes)


def exchanges_features(scenario: Scenario) -> bool:
    """Return whether some router has an extension of gossipsub 1.3."""
    routers = [choice.parameters for choice in scenario.routers.values()]
    return any(
        isinstance(router, GossipsubParameters) and (router.partial_messages or router.test_extension)
        for router in routers
    )


def part_words(scenario: Scenario) -> int:
    """Return how many 64-bit words hold a bitmap of a message's parts; 0 if no message is sent in parts."""
    groups = [group.partial.parts for group in scenario.topics if group.partial is not None and group.goes_in_parts]
    return -(-max(groups, default=0) // 64)


def choose_engine(scenario: Scenario, wanted: str = "auto") -> tuple[EngineName, str]:
    """Return the engine for a run and the reason; raise `ScenarioError` if the wanted engine cannot run it.

    `wanted` is `auto`, `reference` or `array`.
    """
    if wanted == "reference":
        return "reference", "requested"
    missing = unsupported(scenario)
    if wanted == "array" and missing:
        raise ScenarioError([f"engine array: {problem}" for problem in missing])
    if wanted == "array":
        return "array", "requested"
    if missing:
        return "reference", missing[0]
    events = estimated_events(scenario)
    if events < WORTH_COMPILING:
        return "reference", f"about {events:,} events, a small run"
    return "array", f"about {events:,} events"


def direct_pairs(scenario: Scenario) -> list[tuple[int, int]]:
    """Return the pairs of nodes that are direct peers, ascending."""
    pairs: set[tuple[int, int]] = set()
    for choice in scenario.routers.values():
        if isinstance(choice.parameters, GossipsubParameters):
            pairs.update(choice.parameters.direct_peers)
    return sorted(pairs)


def array_entry(scenario: Scenario) -> str:
    """Return the name of the array engine's entry function that has all features of a run, and few others."""
    choices = [choice.parameters for choice in scenario.routers.values()]
    has_episub = any(isinstance(parameters, EpisubParameters) for parameters in choices)
    if (
        exchanges_features(scenario)
        or routers_dial(scenario)
        or any(isinstance(parameters, MeshParameters) and _uses_more_than_10(parameters) for parameters in choices)
    ):
        if exchanges_features(scenario):
            return "work" if has_episub else "work_of_features"
        return "work_of_mixes" if has_episub else "work_11"
    if has_episub:
        return "work_of_overlays" if chooses_neighbours(scenario) else "work_of_trees"
    return "work_10" if _links_need_memory(scenario) or scenario.service.time_us else "work_of_slots"


def checked_entry(scenario: Scenario) -> str:
    """Return the name of the array engine's entry function for a run that checks all nodes."""
    return "work_10_checked" if array_entry(scenario) in ("work_10", "work_of_slots") else "work_checked"


def _uses_more_than_10(parameters: MeshParameters) -> bool:
    if not isinstance(parameters, GossipsubParameters):
        return parameters.places_per_address > 0
    return bool(
        parameters.uses_11 or parameters.ask_again_heartbeats or parameters.places_per_address
        or parameters.idontwant_threshold_bytes or parameters.skip_senders
    )  # fmt: skip


def estimated_events(scenario: Scenario) -> int:
    """Return a rough estimate of the events that routers handle."""
    degree = mean_degree(scenario)
    copies = degree if scenario.router.kind == "floodsub" else COPIES_PER_DELIVERY
    last_us = scenario.warmup_us + scenario.workload.messages * scenario.workload.interval_us
    run_s = (max(last_us, *(timed.at_us for timed in scenario.timed), 0) + scenario.linger_us) / 1e6
    if chooses_neighbours(scenario):
        run_s *= OVERLAY_EVENTS_PER_SECOND
    return int(scenario.network.nodes * (degree * 2 + publications(scenario) * copies + run_s))


def publications(scenario: Scenario) -> int:
    """Return the number of messages of a run: the workload's and those of [[timed]]."""
    timed = sum(timed.action is TimedKind.PUBLISH for timed in scenario.timed)
    return scenario.workload.messages + timed


def mean_degree(scenario: Scenario) -> int:
    """Return about how many connections a node has."""
    network = scenario.network
    return network.nodes - 1 if network.topology is TopologyKind.COMPLETE else 2 * network.degree


def warnings(scenario: Scenario) -> Iterator[str]:
    """Yield a warning for each setting that makes the figures of a scenario misleading."""
    peers = min(scenario.network.nodes - 1, mean_degree(scenario))
    least: int = getattr(scenario.router.parameters, "degree_low", 0)
    if peers < least and scenario.network.topology is not TopologyKind.EDGE_LIST:
        yield f"a node has about {peers} peers, and router.degree_low is {least}: meshes stay too small"
    largest = max(group.size_bytes or scenario.workload.size_bytes for group in scenario.topics)
    if largest >= LARGE_MESSAGE_BYTES and not scenario.links.uplink_bits_per_s:
        yield f"messages of {largest:,} bytes take no time to send, because links.uplink_mbit is not set"


BYTES_PER_NODE = 12_000
BYTES_PER_LINK_END = 900
BYTES_PER_DELIVERY = 500
EVENTS_PER_SECOND = 120_000
ARRAY_BYTES_PER_NODE = 250
ARRAY_BYTES_PER_NEIGHBOUR = 6
ARRAY_BYTES_PER_HELLO = 17
ARRAY_BYTES_PER_LINK_END = 160
ARRAY_BYTES_PER_DELIVERY = 10
ARRAY_BYTES_PER_SCORE = 32
ARRAY_BYTES_PER_SCORE_IN_TOPIC = 56
ARRAY_BYTES_PER_SCORED_DELIVERY = 24
ARRAY_BYTES_PER_UNWANTED = 8
ARRAY_BYTES_PER_GATED = 40
ARRAY_BYTES_PER_PEER_IN_GROUP = 88
ARRAY_BYTES_PER_PART_WORD = 64
ARRAY_EVENTS_PER_SECOND = 11_000_000
ARRAY_EVENTS_PER_SECOND_WITH_SCORES = 5_000_000
ARRAY_EVENTS_PER_SECOND_WITH_LINKS = 2_000_000
ARRAY_EVENTS_PER_SECOND_IN_ORDER = 500_000
ARRAY_BYTES_PER_OVERLAY_NODE = 5_000
MEMORY_SHARE = 0.75
LONG_SECONDS = 20
LARGE_BYTES = 2 << 30
MAX_SECONDS = 3600


@dataclass(frozen=True, slots=True)
class Estimate:
    """Memory and time of a run on an engine, and the free memory."""

    engine: EngineName
    memory_bytes: int
    seconds: float
    available_bytes: int

    @property
    def is_large(self) -> bool:
        """True if a user should know the time and the memory before the run starts."""
        return self.seconds > LONG_SECONDS or self.memory_bytes > LARGE_BYTES

    @property
    def needs(self) -> str:
        """A clause for messages, with memory and time."""
        memory = f"{self.memory_bytes / 2**30:.1f} GiB"
        return f"it needs about {memory} and {time_span(self.seconds)} on the {self.engine} engine"

    @property
    def too_large(self) -> str | None:
        """A reason not to start the run; None if it leaves some memory to other programs."""
        if self.memory_bytes <= MEMORY_SHARE * self.available_bytes:
            return None
        return f"this run is too large here: {self.needs}, and {self.available_bytes / 2**30:.1f} GiB are free"

    def refusal(self) -> str | None:
        """Return a reason not to start the run; None when it fits and is not too long."""
        return self.too_large or (f"this run is long: {self.needs}" if self.seconds > MAX_SECONDS else None)


def require_memory(scenario: Scenario, engine: EngineName) -> None:
    """Raise `ScenarioError` if a run needs more than `MEMORY_SHARE` of the free memory."""
    problem = estimate(scenario, engine).too_large
    if problem is not None:
        raise ScenarioError([problem])


def estimate(scenario: Scenario, engine: EngineName = "reference") -> Estimate:
    """Return the estimate of a run."""
    nodes = scenario.network.nodes
    degree = mean_degree(scenario)
    messages = publications(scenario)
    events = estimated_events(scenario)
    if engine == "reference":
        memory = nodes * (BYTES_PER_NODE + degree * BYTES_PER_LINK_END + messages * BYTES_PER_DELIVERY)
        return Estimate(engine, memory, events / EVENTS_PER_SECOND, available_bytes())
    topics = sum(group.count for group in scenario.topics)
    per_neighbour = ARRAY_BYTES_PER_NEIGHBOUR + topics
    pace = ARRAY_EVENTS_PER_SECOND
    if any(router.parameters.hello for router in scenario.routers.values()):
        per_neighbour += ARRAY_BYTES_PER_HELLO
    if _links_need_memory(scenario):
        per_neighbour += ARRAY_BYTES_PER_LINK_END
        pace = ARRAY_EVENTS_PER_SECOND_WITH_LINKS
    per_delivery = ARRAY_BYTES_PER_DELIVERY
    if any(getattr(router.parameters, "score", None) is not None for router in scenario.routers.values()):
        per_neighbour += ARRAY_BYTES_PER_SCORE + topics * ARRAY_BYTES_PER_SCORE_IN_TOPIC
        per_delivery += ARRAY_BYTES_PER_SCORED_DELIVERY
        pace = min(pace, ARRAY_EVENTS_PER_SECOND_WITH_SCORES)
    if any(getattr(router.parameters, "gater", None) is not None for router in scenario.routers.values()):
        per_neighbour += ARRAY_BYTES_PER_GATED
    if any(getattr(router.parameters, "idontwant_threshold_bytes", 0) for router in scenario.routers.values()):
        per_neighbour += ARRAY_BYTES_PER_UNWANTED
        per_delivery += ARRAY_BYTES_PER_UNWANTED
    words = part_words(scenario)
    if words:
        per_delivery += COPIES_PER_DELIVERY * (ARRAY_BYTES_PER_PEER_IN_GROUP + words * ARRAY_BYTES_PER_PART_WORD)
        pace = ARRAY_EVENTS_PER_SECOND_IN_ORDER
    per_node = ARRAY_BYTES_PER_NODE + degree * per_neighbour
    if chooses_neighbours(scenario):
        per_node += ARRAY_BYTES_PER_OVERLAY_NODE
        pace = ARRAY_EVENTS_PER_SECOND_IN_ORDER
    memory = nodes * (per_node + messages * per_delivery)
    return Estimate(engine, memory, events / pace, available_bytes())


def _links_need_memory(scenario: Scenario) -> bool:
    """Return whether the array engine keeps state of each link."""
    faults, links = scenario.faults, scenario.links
    return bool(
        faults.churn or faults.crash or faults.partition or faults.cut or scenario.loss.rate_millionths
        or links.jitter_us or links.uplink_bits_per_s or links.latency is LatencyKind.REGIONS
        or routers_dial(scenario) or chooses_neighbours(scenario)
    )  # fmt: skip


def available_bytes() -> int:
    """Return the free memory of the machine, or all of its memory if `/proc` is missing."""
    try:
        with open("/proc/meminfo", encoding="ascii") as table:
            for line in table:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def time_span(seconds: float) -> str:
    """Return a time in words, rounded to its unit."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
