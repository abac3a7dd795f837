"""Measure how much IDONTWANT saves, by message size: the experiments of vac.dev (nim-libp2p, 2024) in the simulator.

    python bench/idontwant_series.py [NODES] [SIZE…]

Parameters are those of vac.dev: D 8, D_low 6, D_high 12, a gossip factor of 0.05, ten publishers with one message
each, four seconds apart, and latencies of 40 to 130 ms. Links differ: each node has an uplink of 100 Mbit/s (there 50
to 150 Mbit/s), and its downlink is not limited.
"""

from __future__ import annotations

import sys

from hearsay.sim.scenario.scenario_file import load_scenario
from hearsay.sim.simulate import Simulation
from hearsay.sim.summary import Summary

SIZES = (1_000, 50_000, 500_000, 1_000_000)
WAYS = {
    "without": {"idontwant_threshold_bytes": 0, "idontwant_on_publish": False},
    "IDONTWANT": {},
    "… and queued copies withdrawn": {"withdraw_unwanted": True},
}
NETWORK = {
    "network.degree": 10,
    "links.min_ms": 40,
    "links.max_ms": 130,
    "links.uplink_mbit": 100,
    "links.uplink_queue_bytes": 0,
    "workload.messages": 10,
    "workload.interval_s": 4,
    "workload.publishers": "subscribers",
    "router.kind": "gossipsub",
    "router.preset": "go",
    "router.degree": 8,
    "router.degree_low": 6,
    "router.degree_high": 12,
    "router.degree_lazy": 6,
    "router.gossip_factor": 0.05,
    "linger_s": 20,
}


def run(nodes: int, size: int, way: dict[str, object]) -> Summary:
    own = {f"router.{key}": value for key, value in way.items()}
    settings = {**NETWORK, "network.nodes": nodes, "workload.size_bytes": size, **own}
    given = [(key, str(value).lower() if isinstance(value, bool) else str(value)) for key, value in settings.items()]
    return Simulation(load_scenario(None, "r1", given), write_trace=False).run().summary


def main() -> None:
    nodes, *sizes = map(int, sys.argv[1:] or ["2000", *map(str, SIZES)])
    print("| message | rules | GB sent | of without | copies per delivery | p50 ms | p99 ms | IWANT | delivered |")
    print("| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for size in sizes:
        plain = 0.0
        for name, way in WAYS.items():
            found = run(nodes, size, dict(way))
            sent = found.bytes_out["mean"] * nodes / 1e9
            plain = plain or sent
            copies = 1 + found.duplicates / found.deliver
            latency = found.latency_ms
            print(
                f"| {size:,} B | {name} | {sent:.2f} | {sent / plain:.3f} | {copies:.2f} | {latency['p50']:.0f} |"
                f" {latency['p99']:.0f} | {found.sent.get('iwant', 0):,} | {found.delivery_ratio:.4f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
