"""Measure episub in large networks on the array engine: time, memory, the overlay at the end, and message delivery.

    python bench/episub_scale.py [--nodes 100000] [--presets episub hyparview-plumtree-10k]

All nodes start at the same time. After 30 s, ten messages follow, one a second, each from another node.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from engines_agree import plan_of
from hearsay.sim.array.engine import ArrayEngine
from hearsay.sim.array.world import layout as at

SCENARIO = """
warmup_s = 30
linger_s = 8
[network]
nodes = {nodes}
[router]
kind = "episub"
preset = "{preset}"
[workload]
messages = 10
interval_s = 1
publishers = "any"
"""


def active_links(engine: ArrayEngine) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return two arrays with the sources and the targets of all active links. Each direction is one link."""
    counts = engine.arrays["overlays"][:, 0, at.ACTIVE_COUNT]
    places = np.arange(engine.arrays["view_peers"].shape[2])
    is_used = places < counts[:, None]
    return np.nonzero(is_used)[0], engine.arrays["view_peers"][:, 0][is_used].astype(np.int64)


def report(nodes: int, preset: str) -> None:
    began = time.perf_counter()
    engine = ArrayEngine(plan_of(SCENARIO.format(nodes=nodes, preset=preset)), None)
    engine.run()
    took_s = time.perf_counter() - began
    figures = engine.figures()
    sources, targets = active_links(engine)
    degrees = np.bincount(targets, minlength=nodes)
    size = int(engine.arrays["overlays"][0, 0, at.SIZE_ACTIVE])
    one_sided = np.count_nonzero(~np.isin(targets * nodes + sources, sources * nodes + targets))
    graph = coo_matrix((np.ones(len(sources), np.int8), (sources, targets)), shape=(nodes, nodes))
    components = connected_components(graph, directed=False)[0]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    within = np.mean(abs(degrees - size) <= 1)
    print(f"{preset}, {nodes:,} nodes: {took_s:.0f} s, {figures.events:,} events, {memory:,.0f} MB")
    print(f"  in-degree {degrees.min()} / {degrees.mean():.2f} / {degrees.max()}, deviation {degrees.std():.2f}")
    print(f"  within A ± 1: {within:.1%}, {one_sided} one-sided links, {components} components")
    away = figures.delivered - figures.publishes
    print(f"  delivered {figures.reached / figures.eligible:.4%}, hops {figures.hops_sum / away:.1f},", end="")
    print(f" most {figures.hops_max}, extra copies per delivery {figures.duplicates / away:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--presets", nargs="+", default=["episub", "hyparview-plumtree-10k"])
    options = parser.parse_args()
    for preset in options.presets:
        report(options.nodes, preset)


if __name__ == "__main__":
    main()
