"""Measure episub's overlay without faults, with nodes that accept no connection, and after crashes.

    python bench/episub_overlay.py [NODES] [SEEDS] [FILE]

The tables also have the published figures of HyParView. NODES is 1000 by default. The papers have 10,000 nodes, which
take about 10 minutes per seed. Results are appended to FILE, a line of JSON for each measurement. Networks that are
already in FILE are not measured again. A warmed-up network is copied with `fork` for each share of crashed nodes, so
that all shares start from the same overlay.

HyParView's evaluation differs in two ways. There, a failure is noticed when a message is sent; here,
`faults.detection_s` (1 s) after the crash. There, nodes only react to failures between messages, without shuffles and
discovery. A node that has lost all known peers then stays isolated, so only ~90 % are reached after a crash of 95 %.
Here, time goes on between messages, so the last messages reach all survivors. In the tables "without discovery" the
rendezvous is closed at the crash. If at most half of the nodes crashed, only six messages are sent, because the
overlay is connected again before them.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

from episub_network import Run, component_sizes, mean_sd
from hearsay.core.rules.randomness import Purpose, Randomness
from hearsay.sim.checks.overlay_checker import episub_in_flight
from hearsay.sim.plan.events import NodeDown
from hearsay.sim.reference.nodes import EVERYWHERE

PRESETS = ("hyparview-plumtree-10k", "episub")
SHARES = (0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95)
WITHOUT_DISCOVERY = (0.95,)
PUBLISHED = {0.1: "100", 0.3: "100", 0.5: "100", 0.7: "100", 0.8: "~100", 0.9: ">95", 0.95: "~90"}
WARMUP_S = 30
CYCLE_S = 10
"""Seconds of one cycle of HyParView's papers, in which a node shuffles once."""
MESSAGES = 30
FEW_MESSAGES = 6
"""Number of messages after a crash of at most half of the nodes, else `MESSAGES`. A random survivor sends one a
second."""


def run_in_copy(work: Callable[[], Any]) -> Any:
    """Do `work` in a copy of this process, and return its result."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if not child:
        os.close(read_end)
        with os.fdopen(write_end, "w") as out:
            json.dump(work(), out)
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return json.loads(text)


def warmed_up(nodes: int, preset: str, nat: float, seed: int) -> Run:
    run = Run(
        nodes,
        seed,
        router__preset=preset,
        network__nat_share=nat,
        workload__publisher_count=0,
        warmup_s=WARMUP_S,
        workload__messages=MESSAGES,
        workload__interval_s=1,
        linger_s=5,
    )
    run.run_until(WARMUP_S - 1)
    return run


def measure_overlay(run: Run) -> dict[str, Any]:
    graph = run.neighbours()
    inward = Counter(peer for peers in graph.values() for peer in peers)
    degrees = [inward[node] for node in graph]
    changing = episub_in_flight(run.engine)
    one_sided = sum(
        node not in graph.get(peer, ()) and changing.isdisjoint({(node, peer), (peer, node)})
        for node, peers in graph.items()
        for peer in peers
    )
    size = run.plan.routers[0][1].active_size
    return {
        "least": min(degrees),
        "mean": fmean(degrees),
        "most": max(degrees),
        "deviation": pstdev(degrees),
        "within_one": sum(abs(degree - size) <= 1 for degree in degrees) / len(degrees),
        "one_sided": one_sided,
        "components": len(component_sizes(graph)),
    }


def measure_crash(run: Run, share: float, discovery: bool) -> dict[str, Any]:
    """Crash a share of the nodes now, and return the delivery of later messages and the recovery of the overlay.

    `ratios` has the percentage of survivors that each message reaches. `whole_s` is the number of seconds until the
    overlay is connected, or None.
    """
    engine = run.engine
    publishers = {publication.publisher for publication in run.plan.publications}
    others = [node.id for node in engine.nodes if node.id not in publishers]
    randomness = Randomness(run.plan.scenario.seed)
    others.sort(key=lambda node: randomness.draw(Purpose.CRASH, node))
    victims = others[: round(share * len(engine.nodes))]
    now = engine.now + engine.queue.width_us  # the current bucket is already run

    def crash() -> None:
        if not discovery:
            engine.connections.rendezvous_open = False
        for victim in sorted(victims):
            engine.faults.apply(NodeDown(now, victim, goodbye=False))

    engine.queue.add(now, EVERYWHERE, 0, 0, 1_000_000, crash)
    messages = MESSAGES if share > 0.5 else FEW_MESSAGES
    connected_after_s: int | None = None
    for second in range(1, messages + 3):
        run.run_until(now / 1e6 + second)
        if connected_after_s is None and len(component_sizes(run.neighbours())) == 1:
            connected_after_s = second
    survivors = len(engine.nodes) - len(victims)
    reached = run.by_message()
    ratios = [100 * reached.get(number, (0, 0, 0))[0] / (survivors - 1) for number in range(messages)]
    return {"ratios": ratios, "whole_s": connected_after_s}


def measurements(nodes: int, preset: str, nat: float, seed: int) -> Iterator[dict[str, Any]]:
    run = warmed_up(nodes, preset, nat, seed)
    about = {"nodes": nodes, "preset": preset, "nat": nat, "seed": seed}
    yield {**about, "quiet": measure_overlay(run)}
    if nat:
        return
    cases = [(share, True) for share in reversed(SHARES)] + [(share, False) for share in WITHOUT_DISCOVERY]
    for share, discovery in cases:
        crashed = run_in_copy(lambda share=share, discovery=discovery: measure_crash(run, share, discovery))
        yield {**about, "share": share, "discovery": discovery, **crashed}


def networks(seeds: int) -> Iterator[tuple[str, float, int]]:
    for seed in range(1, seeds + 1):
        for preset in PRESETS:
            yield preset, 0.0, seed
        yield "episub", 0.3, seed


def print_tables(found: list[dict[str, Any]]) -> None:
    print(f"\nAfter {WARMUP_S} s, all nodes started at once\n")
    print("| preset | NAT | seeds | in-degree, least / mean / most | deviation | within A ± 1 "
          "| one-sided links | components |")  # fmt: skip
    print("| --- | ---: | ---: | --- | ---: | ---: | ---: | ---: |")
    for preset, nat in (("hyparview-plumtree-10k", 0.0), ("episub", 0.0), ("episub", 0.3)):
        quiet = [one["quiet"] for one in found if "quiet" in one and (one["preset"], one["nat"]) == (preset, nat)]
        if quiet:
            least, most = min(one["least"] for one in quiet), max(one["most"] for one in quiet)
            print(
                f"| {preset} | {nat:.0%} | {len(quiet)} | "
                f"{least} / {mean_sd(one['mean'] for one in quiet)} / {most} | "
                f"{mean_sd(one['deviation'] for one in quiet)} | "
                f"{mean_sd((100 * one['within_one'] for one in quiet), '{:.1f}')} % | "
                f"{max(one['one_sided'] for one in quiet)} | {max(one['components'] for one in quiet)} |"
            )
    for preset in PRESETS:
        for discovery in (True, False):
            crashed = [
                one for one in found if "share" in one and (one["preset"], one["discovery"]) == (preset, discovery)
            ]
            if crashed:
                print_crashes(preset, discovery, crashed)


def print_crashes(preset: str, discovery: bool, crashed: list[dict[str, Any]]) -> None:
    how = "" if discovery else ", without discovery from then on"
    print(f"\n{preset}, messages after a crash{how}: % of the survivors reached\n")
    print("| crashed | seeds | message 1 | 1 to 5 | all | the last 5 | published: mean of 1000 "
          "| one component after s | cycles until all reach all |")  # fmt: skip
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for share in SHARES:
        runs = [one for one in crashed if one["share"] == share]
        if not runs:
            continue
        parts = (slice(0, 1), slice(0, 5), slice(None), slice(-5, None))
        columns = " | ".join(mean_sd(fmean(one["ratios"][part]) for one in runs) for part in parts)
        whole = [one["whole_s"] for one in runs]
        component = "never" if None in whole else mean_sd(whole, "{:.1f}")
        print(
            f"| {share:.0%} | {len(runs)} | {columns} | {PUBLISHED[share]} | {component} | "
            f"{cycles_until_reliable([one['ratios'] for one in runs])} |"
        )


def cycles_until_reliable(series: list[list[float]]) -> str:
    """Return the cycles from the crash until the last message that does not reach all survivors, as text.

    `series` has the percentages of reached survivors of each run, one for each second after the crash.
    """
    missing = [max((number + 1 for number, ratio in enumerate(one) if ratio < 100), default=0) for one in series]
    if max(missing) == len(series[0]):
        return f"more than {len(series[0]) / CYCLE_S:.0f}"
    return mean_sd((seconds / CYCLE_S for seconds in missing), "{:.1f}")


def main() -> None:
    numbers = [int(word) for word in sys.argv[1:] if word.isdigit()]
    nodes, seeds = [*numbers, *(1000, 3)[len(numbers) :]]
    kept = next((Path(word) for word in sys.argv[1:] if not word.isdigit()), None)
    found: list[dict[str, Any]] = []
    if kept is not None and kept.exists():
        found = [json.loads(line) for line in kept.read_text(encoding="utf-8").splitlines()]
        found = [one for one in found if one["nodes"] == nodes]
    known = {(one["preset"], one["nat"], one["seed"]) for one in found}
    for network in networks(seeds):
        if network in known:
            continue
        for line in measurements(nodes, *network):
            found.append(line)
            if kept is not None:
                with kept.open("a", encoding="utf-8") as out:
                    out.write(json.dumps(line) + "\n")
    print(f"{nodes:,} nodes, seeds 1 to {seeds}")
    print_tables([one for one in found if one["seed"] <= seeds])


if __name__ == "__main__":
    main()
