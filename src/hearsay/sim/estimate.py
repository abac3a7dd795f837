"""What a run will take on the reference engine, before it starts: memory and time.

The constants were measured with `bench/engine_speed.py` on one core (see its output); they are meant to tell minutes
from days, not to be exact.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from hearsay.sim.scenario import Scenario, TopologyKind

BYTES_PER_NODE = 12_000
BYTES_PER_LINK_END = 900
BYTES_PER_DELIVERY = 500
EVENTS_PER_SECOND = 120_000
COPIES_PER_DELIVERY = 7
MEMORY_SHARE = 0.75
MAX_SECONDS = 3600


@dataclass(frozen=True, slots=True)
class Estimate:
    memory_bytes: int
    seconds: float
    available_bytes: int

    def refusal(self) -> str | None:
        """Why the run should not be started; None when it fits."""
        needs = (
            f"it needs about {self.memory_bytes / 2**30:.1f} GiB and {_span(self.seconds)} on the reference engine"
        )
        if self.memory_bytes > MEMORY_SHARE * self.available_bytes:
            return f"this run is too large here: {needs}, and {self.available_bytes / 2**30:.1f} GiB are free"
        if self.seconds > MAX_SECONDS:
            return f"this run is long: {needs}"
        return None


def estimate(scenario: Scenario) -> Estimate:
    nodes = scenario.network.nodes
    degree = nodes - 1 if scenario.network.topology is TopologyKind.COMPLETE else 2 * scenario.network.degree
    messages = scenario.workload.messages
    run_s = float(scenario.warmup_us + scenario.linger_us + messages * scenario.workload.interval_us) / 1e6
    copies = degree if scenario.router.kind == "floodsub" else COPIES_PER_DELIVERY
    events = nodes * (degree * 2 + messages * copies + run_s)
    memory = nodes * (BYTES_PER_NODE + degree * BYTES_PER_LINK_END + messages * BYTES_PER_DELIVERY)
    return Estimate(memory, events / EVENTS_PER_SECOND, _available_bytes())


def _available_bytes() -> int:
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
