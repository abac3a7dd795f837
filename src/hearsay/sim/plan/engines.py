"""The choice of an engine for a scenario, and the estimated memory and time of a run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Literal, TypeAlias

from hearsay.core.episub.parameters import EpisubParameters, Overlay
from hearsay.core.mesh.parameters import GossipsubParameters, MeshParameters
from hearsay.core.shell.parameters import RouterParameters
from hearsay.sim.scenario.network import LatencyKind, TopologyKind
from hearsay.sim.scenario.reading import ScenarioError
from hearsay.sim.scenario.scenario import Scenario
from hearsay.sim.scenario.workload import TimedKind

EngineName: TypeAlias = Literal["reference", "array"]

WITH_KERNELS = ("floodsub", "randomsub", "episub", "meshsub", "gossipsub")
REFERENCE_ONLY: dict[str, tuple[str, ...]] = {}
"""The parameters that no kernel follows, by router. The array engine refuses a router in which one of them differs
from its default."""
CHECKED_NODES = 64
"""Number of witnesses in a checked run on the array engine. Routers of the core repeat the calls of these nodes."""
WORTH_COMPILING = 2_000_000
"""Number of events from which on the array engine is faster than the reference engine, compilation included."""
COPIES_PER_DELIVERY = 7
"""Estimated number of copies of each message that a node in a mesh receives."""
_OVERLAY_EVENTS_PER_S = 10
"""Estimated events per second of a node whose router has a managed overlay, with default parameters."""
_LARGE_MESSAGE_BYTES = 16_384
"""Size from which on the uplink matters for a message: eight copies of this size take 20 ms on an uplink of 50
Mbit/s, as long as a short latency."""
_MEMORY_SHARE = 0.75
"""Maximum share of the free memory that a run may need."""
_LONG_S = 20
_LARGE_BYTES = 2 << 30
_LONGEST_S = 3600


class CapacityExceeded(Exception):
    """The error that the array engine has no room: a table is full, which the message names, or memory is lacking."""


def unsupported(scenario: Scenario) -> list[str]:
    """Return the reasons why the array engine cannot run a scenario: routers and parameters without kernels."""
    without_kernels = [
        f"{key}.kind = {choice.kind!r}: only {', '.join(WITH_KERNELS)} run on the array engine"
        for key, choice in scenario.routers.items()
        if choice.kind not in WITH_KERNELS
    ]
    return without_kernels + [
        f"{key}.{field.name}: only the reference engine follows this parameter"
        for key, choice in scenario.routers.items()
        for field in fields(choice.parameters)
        if field.name in REFERENCE_ONLY.get(choice.kind, ())
        and getattr(choice.parameters, field.name) != field.default
    ]


def chooses_neighbours(scenario: Scenario) -> bool:
    """Return whether some router has a managed overlay (episub with an `overlay` other than `connections`)."""
    overlays = [each.overlay for each in _parameters(scenario) if isinstance(each, EpisubParameters)]
    return any(overlay is not Overlay.CONNECTIONS for overlay in overlays)


def routers_dial(scenario: Scenario) -> bool:
    """Return whether some router dials peers itself: its direct peers, or peers that a received PRUNE names."""
    meshes = [each for each in _parameters(scenario) if isinstance(each, MeshParameters)]
    named = any(max(mesh.prune_backoff_ms, mesh.unsubscribe_backoff_ms) * mesh.exchange_peers > 0 for mesh in meshes)
    return bool(direct_pairs(scenario)) or (named and any(mesh.dials_per_prune > 0 for mesh in meshes))


def exchanges_features(scenario: Scenario) -> bool:
    """Return whether some router has an extension of gossipsub 1.3."""
    return _any_has(scenario, "partial_messages") or _any_has(scenario, "test_extension")


def part_words(scenario: Scenario) -> int:
    """Return the number of 64-bit words in a bitmap of the parts of a message; 0 if no message is sent in parts."""
    groups = [group.partial.parts for group in scenario.topics if group.partial is not None and group.goes_in_parts]
    return -(-max(groups, default=0) // 64)


def choose_engine(scenario: Scenario, wanted: str = "auto") -> tuple[EngineName, str]:
    """Return the engine for a run, and the reason for the choice as text.

    `wanted` is `reference`, `array`, or `auto` for the engine that is likely to be faster. Raise `ScenarioError` if
    the array engine is wanted and cannot run the scenario.
    """
    if wanted == "reference":
        return "reference", "requested"
    missing = unsupported(scenario)
    if wanted == "array":
        if missing:
            raise ScenarioError([f"engine array: {problem}" for problem in missing])
        return "array", "requested"
    if missing:
        return "reference", missing[0]
    events = estimated_events(scenario)
    if events < WORTH_COMPILING:
        return "reference", f"about {events:,} events, a small run"
    return "array", f"about {events:,} events"


def direct_pairs(scenario: Scenario) -> list[tuple[int, int]]:
    """Return the pairs of nodes that are direct peers, ascending."""
    gossipsubs = [each for each in _parameters(scenario) if isinstance(each, GossipsubParameters)]
    return sorted({pair for each in gossipsubs for pair in each.direct_peers})


def array_entry(scenario: Scenario) -> str:
    """Return the name of the array engine's entry function for a run.

    Entry functions differ in the features with which they are compiled. The function with the fewest features is
    chosen among those that have all features of the run.
    """
    has_episub = any(isinstance(each, EpisubParameters) for each in _parameters(scenario))
    if exchanges_features(scenario):
        return "work" if has_episub else "work_of_features"
    if routers_dial(scenario) or any(_any_has(scenario, feature) for feature in _BEYOND_10):
        return "work_of_mixes" if has_episub else "work_11"
    if has_episub:
        return "work_of_overlays" if chooses_neighbours(scenario) else "work_of_trees"
    return "work_10" if _links_need_memory(scenario) or scenario.service.time_us else "work_of_slots"


_BEYOND_10 = ("uses_11", "ask_again_heartbeats", "places_per_address", "idontwant_threshold_bytes", "skip_senders")
"""Parameters of gossipsub routers that need more than the kernels of gossipsub 1.0."""


def checked_entry(scenario: Scenario) -> str:
    """Return the name of the array engine's entry function for a run whose kernels also check invariants."""
    return "work_10_checked" if array_entry(scenario) in ("work_10", "work_of_slots") else "work_checked"


def _parameters(scenario: Scenario) -> list[RouterParameters]:
    """Return the parameters of all routers of a scenario."""
    return [choice.parameters for choice in scenario.routers.values()]


def _any_has(scenario: Scenario, parameter: str) -> bool:
    """Return whether some router has this parameter with a value other than 0, False and None."""
    return any(getattr(each, parameter, None) for each in _parameters(scenario))


def estimated_events(scenario: Scenario) -> int:
    """Return a rough estimate of the number of events that routers handle in a run."""
    degree = mean_degree(scenario)
    copies = degree if scenario.router.kind == "floodsub" else COPIES_PER_DELIVERY
    last_us = scenario.warmup_us + scenario.workload.messages * scenario.workload.interval_us
    run_s = (max(last_us, *(timed.at_us for timed in scenario.timed), 0) + scenario.linger_us) / 1e6
    if chooses_neighbours(scenario):
        run_s *= _OVERLAY_EVENTS_PER_S
    return int(scenario.network.nodes * (degree * 2 + publications(scenario) * copies + run_s))


def publications(scenario: Scenario) -> int:
    """Return the number of messages that a scenario plans, in the workload and in [[timed]]."""
    return scenario.workload.messages + sum(timed.action is TimedKind.PUBLISH for timed in scenario.timed)


def mean_degree(scenario: Scenario) -> int:
    """Return an estimate of the number of connections of a node."""
    network = scenario.network
    return network.nodes - 1 if network.topology is TopologyKind.COMPLETE else 2 * network.degree


def warnings(scenario: Scenario) -> Iterator[str]:
    """Yield a warning for each setting of a scenario that makes figures of its run misleading."""
    peers = min(scenario.network.nodes - 1, mean_degree(scenario))
    least: int = getattr(scenario.router.parameters, "degree_low", 0)
    if peers < least and scenario.network.topology is not TopologyKind.EDGE_LIST:
        yield f"a node has about {peers} peers, and router.degree_low is {least}: meshes stay too small"
    largest = max(group.size_bytes or scenario.workload.size_bytes for group in scenario.topics)
    if largest >= _LARGE_MESSAGE_BYTES and not scenario.links.uplink_bits_per_s:
        yield f"messages of {largest:,} bytes take no time to send, because links.uplink_mbit is not set"


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimated memory and time of a run on an engine, and the free memory of this machine."""

    engine: EngineName
    memory_bytes: int
    seconds: float
    available_bytes: int

    @property
    def is_large(self) -> bool:
        """True if the run takes longer than 20 s or needs more than 2 GiB, so that the user is informed before."""
        return self.seconds > _LONG_S or self.memory_bytes > _LARGE_BYTES

    @property
    def needs(self) -> str:
        """The memory and the time that the run needs, as a part of a sentence for messages."""
        memory = f"{self.memory_bytes / 2**30:.1f} GiB"
        return f"it needs about {memory} and {time_span(self.seconds)} on the {self.engine} engine"

    @property
    def too_large(self) -> str | None:
        """A message that the run needs more than three quarters of the free memory; None if it needs less."""
        if self.memory_bytes <= _MEMORY_SHARE * self.available_bytes:
            return None
        return f"this run is too large here: {self.needs}, and {self.available_bytes / 2**30:.1f} GiB are free"

    def refusal(self) -> str | None:
        """Return a reason not to start the run; None if the run has enough memory and takes at most an hour."""
        return self.too_large or (f"this run is long: {self.needs}" if self.seconds > _LONGEST_S else None)


def require_memory(scenario: Scenario, engine: EngineName) -> None:
    """Raise `ScenarioError` if a run needs more than three quarters of the free memory."""
    problem = estimate(scenario, engine).too_large
    if problem is not None:
        raise ScenarioError([problem])


def estimate(scenario: Scenario, engine: EngineName = "reference") -> Estimate:
    """Return the estimate of a run on an engine. Its constants, in bytes and events per second, were measured."""
    nodes = scenario.network.nodes
    degree = mean_degree(scenario)
    messages = publications(scenario)
    events = estimated_events(scenario)
    if engine == "reference":
        memory = nodes * (12_000 + degree * 900 + messages * 500)
        return Estimate(engine, memory, events / 120_000, available_bytes())
    topics = sum(group.count for group in scenario.topics)
    per_node, per_neighbour, per_delivery, events_per_s = 250, 6 + topics, 10, 11_000_000
    if _any_has(scenario, "hello"):
        per_neighbour += 17
    if _links_need_memory(scenario):
        per_neighbour += 160
        events_per_s = 2_000_000
    if _any_has(scenario, "score"):
        per_neighbour += 32 + topics * 56
        per_delivery += 24
        events_per_s = min(events_per_s, 5_000_000)
    if _any_has(scenario, "gater"):
        per_neighbour += 40
    if _any_has(scenario, "idontwant_threshold_bytes"):
        per_neighbour += 8
        per_delivery += 8
    words = part_words(scenario)
    if words:
        per_delivery += COPIES_PER_DELIVERY * (88 + words * 64)
    if chooses_neighbours(scenario):
        per_node += 5_000
    if words or chooses_neighbours(scenario):
        events_per_s = 500_000
    memory = nodes * (per_node + degree * per_neighbour + messages * per_delivery)
    return Estimate(engine, memory, events / events_per_s, available_bytes())


def _links_need_memory(scenario: Scenario) -> bool:
    """Return whether the array engine stores state of each link for a scenario."""
    faults, links = scenario.faults, scenario.links
    return bool(
        faults.churn or faults.crash or faults.partition or faults.cut or scenario.loss.rate_millionths
        or links.jitter_us or links.uplink_bits_per_s or links.latency is LatencyKind.REGIONS
        or routers_dial(scenario) or chooses_neighbours(scenario)
    )  # fmt: skip


def available_bytes() -> int:
    """Return the free memory of this machine. If the system does not report it, return the whole memory."""
    with suppress(OSError), open("/proc/meminfo", encoding="ascii") as table:
        for line in table:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def time_span(seconds: float) -> str:
    """Return a time as text with the unit s, min or h."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
