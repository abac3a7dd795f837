"""Measure episub's tree and its near links, and print the published figures next to them.

    python bench/episub_tables.py [SEEDS] [tree|bounds|settling|repair|proximity …]

See also `episub_overlay.py` (crashes, 10,000 nodes) and `episub_threshold.py` (tree optimisation).
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

from episub_network import Run, component_sizes, mean_sd, run_publications
from hearsay.core.rules.randomness import Purpose, Randomness
from hearsay.trace.language.schema import Column


def tree(seeds: int) -> None:
    print("\nOne source, steady state (messages 11 to 30), 1000 nodes, a fixed overlay of 3 dials each\n")
    print("| seed | RMR, tree | RMR, flooding | last hop, tree | last hop, flooding |")
    print("| ---: | ---: | ---: | ---: | ---: |")
    for seed in range(1, seeds + 1):
        figures: list[tuple[float, float]] = []
        for broadcast in ("tree", "flood"):
            run = Run(
                1000,
                seed,
                router__overlay="connections",
                router__broadcast=broadcast,
                network__degree=3,
                links__latency="constant",
                warmup_s=2,
                workload__messages=30,
            ).finish()
            hops = run.by_message()
            steady = range(10, 30)
            figures.append(
                (fmean(run.redundancy(number, 999) for number in steady), fmean(hops[number][2] for number in steady))
            )
        (rmr, last), (flood_rmr, flood_last) = figures
        print(f"| {seed} | {rmr:.4f} | {flood_rmr:.2f} | {last:.1f} | {flood_last:.1f} |", flush=True)
    print("| published | near 0 | fanout − 1 | within 1–2 of flooding | |")


BOUNDS = (
    ("one", {"workload__publisher_count": 1}, 15, 0.2),
    ("many", {"workload__publisher_count": 0}, 18, 1.0),
    ("bursts of 5", {}, 30, 3.0),
)
"""Senders, scenario keys, and iroh's bounds for the mean last hop and for the relative message redundancy (RMR)."""


def bounds(seeds: int) -> None:
    print("\n100 peers, 30 rounds; iroh's bounds for HyParView 5/30 with Plumtree\n")
    print("| preset | senders | last hop, mean and most | bound | RMR, first message | after it | all, by seed "
          "| bound | delivered |")  # fmt: skip
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for preset in ("hyparview-plumtree-10k", "episub"):
        for name, keys, hops_bound, rmr_bound in BOUNDS:
            last: list[int] = []
            delivered: list[float] = []
            rmr: list[list[float]] = []
            for seed in range(1, seeds + 1):
                if keys:
                    run = Run(100, seed, router__preset=preset, warmup_s=30, workload__messages=30, **keys).finish()
                else:
                    run = bursts(preset, seed)
                for count, _, furthest in run.by_message().values():
                    delivered.append(count / 99)
                    last.append(furthest)
                rmr.append([run.redundancy(number, 99) for number in run.recorder.messages])
            print(
                f"| {preset} | {name} | {fmean(last):.1f}, {max(last)} | < {hops_bound} | "
                f"{fmean(one[0] for one in rmr):.2f} | {mean_sd((fmean(one[1:]) for one in rmr), '{:.3f}')} | "
                f"{mean_sd((fmean(one) for one in rmr), '{:.3f}')} | < {rmr_bound} | {fmean(delivered):.2%} |",
                flush=True,
            )


def bursts(preset: str, seed: int) -> Run:
    """Return a run of thirty rounds; in each round five nodes publish at the same time."""
    draw = Randomness(seed)
    at = [(30 + number // 5, draw.below(100, Purpose.PUBLISHER, number)) for number in range(150)]
    return run_publications(100, seed, at, router__preset=preset)


def settling(seeds: int) -> None:
    print("\n100 peers, 30 rounds, one sender: what new links cost the tree, and when they get fewer\n")
    print("| links | warm-up s | RMR after the first message | new links meanwhile | copies too many for each |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name, keys in (
        ("episub, 4 + 3", {}),
        ("random only, 7 + 0", {"router__random_links": 7, "router__near_links": 0}),
    ):
        for warmup_s in (30, 120, 300):
            rmr: list[float] = []
            new: list[float] = []
            for seed in range(1, seeds + 1):
                run = Run(100, seed, warmup_s=warmup_s, workload__messages=30, **keys).finish()
                rmr.append(fmean(run.redundancy(number, 99) for number in run.recorder.messages if number))
                since, until = (
                    info.published_us for number, info in run.recorder.messages.items() if number in (0, 29)
                )
                new.append(sum(since < time <= until for time in run.recorder.new_neighbours) / 2)
            each = fmean(rmr) * 29 * 99 / max(1, fmean(new))
            print(
                f"| {name} | {warmup_s} | {mean_sd(rmr, '{:.3f}')} | {mean_sd(new, '{:.0f}')} | {each:.1f} |",
                flush=True,
            )


def repair(seeds: int) -> None:
    print("\nA lost eager link: when does the next message reach everyone?\n")
    print(
        "| seed | nodes cut off from the tree | all reached after ms | two touches of the timer and the trips, ms |"
    )
    print("| ---: | ---: | ---: | ---: |")
    for seed in range(1, seeds + 1):
        lost_link(seed)


def lost_link(seed: int) -> None:
    run = Run(
        100,
        seed,
        router__overlay="connections",
        router__repair="lazy",
        network__degree=3,
        warmup_s=2,
        workload__messages=12,
        faults__detection_s=0,
        links__latency="constant",
        links__value_ms=20,
    )
    run.run_until(12.1)  # eleven messages have made the tree
    topic = run.plan.topics[0]
    source = run.engine.nodes[run.plan.publications[0].publisher]
    child: Any = source.router.strategy.trees[topic].eager.ordered[0]  # type: ignore[union-attr]
    link = source.links[child]
    for end in (link, link.twin):
        end.cut_line()
        run.engine.connections.notice_loss(end, run.engine.now + run.engine.queue.width_us)
    run.finish()
    next_message = 11
    rows = run.recorder.deliveries
    arrived = rows[rows[:, Column.MESSAGE] == next_message]
    late = int(arrived[:, Column.TIME_US].max()) - run.recorder.messages[next_message].published_us
    waited = rows[rows[:, Column.MESSAGE] == next_message - 1]
    before = int(waited[:, Column.TIME_US].max()) - run.recorder.messages[next_message - 1].published_us
    cut_off = int((arrived[:, Column.TIME_US] - run.recorder.messages[next_message].published_us > before).sum())
    bound = before / 1000 + 100 + 2 * 300 + 3 * 20
    assert len(arrived) == 100
    print(f"| {seed} | {cut_off} | {late / 1000:.0f} | {bound:.0f} |", flush=True)


CLUSTERS = 5
CLUSTERS_CSV = "from,to,latency_ms,jitter_ms\n" + "\n".join(
    f"c{a},c{b},{5 if a == b else 40 + 15 * abs(a - b)},0" for a in range(CLUSTERS) for b in range(a, CLUSTERS)
)


def proximity(seeds: int) -> None:
    print(f"\nProximity: {CLUSTERS} clusters, 5 ms inside, 55 to 100 ms between; 200 nodes\n")
    print("| links | mean latency ms | against as many random ones | hops | components |")
    print("| --- | ---: | ---: | ---: | ---: |")
    kinds = {
        "random only, 7 + 0": {"router__random_links": 7, "router__near_links": 0},
        "episub, 4 + 3": {"router__random_links": 4, "router__near_links": 3},
        "random only, 6 + 0": {"router__random_links": 6, "router__near_links": 0},
        "GoCast, 1 + 5": {"router__preset": "gocast"},
    }
    base: list[float] = []
    with TemporaryDirectory() as folder:
        regions = Path(folder) / "clusters.csv"
        regions.write_text(CLUSTERS_CSV, encoding="utf-8")
        for name, keys in kinds.items():
            latencies: list[float] = []
            hops: list[float] = []
            parts: list[int] = []
            for seed in range(1, seeds + 1):
                settings = {
                    "router__stabilise_max_ms": 3000,
                    "router__probe_interval_ms": 2000,
                    "router__probe_count": 4,
                    **keys,
                }
                run = Run(
                    200,
                    seed,
                    links__latency="regions",
                    links__regions_file=str(regions),
                    warmup_s=60,
                    workload__messages=20,
                    **settings,
                ).finish()
                latencies.append(run.mean_latency_ms(10))
                hops += [mean for number, (_, mean, _) in run.by_message().items() if number >= 10]
                parts.append(len(component_sizes(run.neighbours())))
            if name.startswith("random only"):
                base = latencies
            changes = [100 * (latency / before - 1) for latency, before in zip(latencies, base, strict=True)]
            print(
                f"| {name} | {mean_sd(latencies, '{:.0f}')} | {mean_sd(changes, '{:.0f}')} % | {mean_sd(hops)} | "
                f"{max(parts)} |",
                flush=True,
            )


PARTS = {"tree": tree, "bounds": bounds, "settling": settling, "repair": repair, "proximity": proximity}


def main() -> None:
    seeds = next((int(word) for word in sys.argv[1:] if word.isdigit()), 3)
    for name in [word for word in sys.argv[1:] if word in PARTS] or PARTS:
        PARTS[name](seeds)


if __name__ == "__main__":
    main()
