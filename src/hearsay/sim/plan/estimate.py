"""The estimated memory and time of a run.

The constants were measured with `bench/engine_speed.py` and `bench/array_speed.py` on one core (see their output).
They distinguish minutes from days; they are not exact.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from hearsay.sim.plan.engines import EngineName, estimated_events, mean_degree, publications
from hearsay.sim.scenario.network import LatencyKind
from hearsay.sim.scenario.scenario import Scenario
from hearsay.sim.scenario.scenario_error import ScenarioError

BYTES_PER_NODE = 12_000
BYTES_PER_LINK_END = 900
BYTES_PER_DELIVERY = 500
EVENTS_PER_SECOND = 120_000
ARRAY_BYTES_PER_NODE = 250
ARRAY_BYTES_PER_NEIGHBOUR = 6
ARRAY_BYTES_PER_HELLO = 17
ARRAY_BYTES_PER_LINK_END = 160
ARRAY_BYTES_PER_DELIVERY = 10
ARRAY_EVENTS_PER_SECOND = 11_000_000
ARRAY_EVENTS_PER_SECOND_WITH_LINKS = 2_000_000
MEMORY_SHARE = 0.75
LONG_SECONDS = 20
MAX_SECONDS = 3600


@dataclass(frozen=True, slots=True)
class Estimate:
    """Memory and time of a run on an engine, and the free memory."""

    engine: EngineName
    memory_bytes: int
    seconds: float
    available_bytes: int

    @property
    def is_long(self) -> bool:
        """True if a user should know the time before."""
        return self.seconds > LONG_SECONDS

    @property
    def span(self) -> str:
        """The time in words."""
        return f"about {_span(self.seconds)}"

    @property
    def fits_memory(self) -> bool:
        """True if the run leaves some memory to other programs."""
        return self.memory_bytes <= MEMORY_SHARE * self.available_bytes

    def refusal(self) -> str | None:
        """Return a reason not to start the run; None when it fits."""
        memory, free = f"{self.memory_bytes / 2**30:.1f} GiB", f"{self.available_bytes / 2**30:.1f} GiB"
        needs = f"it needs about {memory} and {_span(self.seconds)} on the {self.engine} engine"
        if not self.fits_memory:
            return f"this run is too large here: {needs}, and {free} are free"
        if self.seconds > MAX_SECONDS:
            return f"this run is long: {needs}"
        return None


def require_memory(scenario: Scenario, engine: EngineName) -> None:
    """Raise `ScenarioError` before a run takes the memory of all other programs."""
    needs = estimate(scenario, engine)
    if not needs.fits_memory:
        wanted, free = needs.memory_bytes / 2**30, needs.available_bytes / 2**30
        raise ScenarioError(
            [f"too large here: needs about {wanted:.1f} GiB on the {engine} engine, {free:.1f} are free"]
        )


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
    memory = nodes * (ARRAY_BYTES_PER_NODE + degree * per_neighbour + messages * ARRAY_BYTES_PER_DELIVERY)
    return Estimate(engine, memory, events / pace, available_bytes())


def _links_need_memory(scenario: Scenario) -> bool:
    """Return whether the array engine keeps state of each link."""
    faults, links = scenario.faults, scenario.links
    return bool(
        faults.churn or faults.crash or faults.partition or faults.cut or scenario.loss.rate_millionths
        or links.jitter_us or links.uplink_bits_per_s or links.latency is LatencyKind.REGIONS
    )  # fmt: skip


def available_bytes() -> int:
    """Return the free memory of the machine."""
    try:
        with open("/proc/meminfo", encoding="ascii") as table:
            for line in table:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _span(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
