"""What episub must show, beside the published figures: overlay, tree, proximity, optimisation.

    python bench/episub_tables.py [NODES] [SEEDS] [overlay|tree|proximity|optimisation …]

NODES (default 1000; the papers have 10,000) is for the overlay's part; the others have sizes of their own, as their
sources have. A warmed-up network is copied with `fork` for each share of crashed nodes, so that all shares start from
the same overlay.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import fmean, pstdev
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from hearsay.core.episub.router import Episub
from hearsay.core.randomness import Purpose, Randomness
from hearsay.core.rpc import PartKind
from hearsay.sim.plan import NodeDown, make_plan
from hearsay.sim.recorder import Recorder
from hearsay.sim.reference import GLOBAL, ReferenceEngine
from hearsay.sim.scenario_file import load_scenario
from hearsay.trace.rows import Rows
from hearsay.trace.schema import Column, TraceEvent

SHARES = (0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95)
PUBLISHED_AFTER_CRASH = {0.1: "100", 0.3: "100", 0.5: "100", 0.7: "100", 0.8: "~100", 0.9: ">95", 0.95: "~90"}
WARMUP_S = 40
CYCLE_S = 10
"""HyParView counts in cycles, and a node shuffles once per cycle; here that is every ten seconds."""


class CountingRecorder(Recorder):
    """Counts the copies of each message, and changes of the trees, as rows go by."""

    def __init__(self) -> None:
        super().__init__()
        self.copies: dict[int, int] = {}
        self.link_changes: list[int] = []

    def _take_rows(self) -> Rows:
        rows = super()._take_rows()
        events = rows[:, Column.EVENT]
        sent = (events == TraceEvent.SEND_RPC) & (rows[:, Column.KIND] == PartKind.PUBLISH)
        for message, count in zip(*np.unique(rows[sent, Column.MESSAGE], return_counts=True), strict=True):
            self.copies[int(message)] = self.copies.get(int(message), 0) + int(count)
        changed = (events == TraceEvent.EAGER) | (events == TraceEvent.LAZY)
        self.link_changes += rows[changed, Column.TIME_US].tolist()
        return rows


class Run:
    """One simulated network."""

    def __init__(self, nodes: int, seed: int, file: Path | None = None, **keys: object) -> None:
        settings = {
            "network.nodes": nodes,
            "seed": seed,
            "trace.state_interval_s": 0,
            "workload.publishers": "subscribers",
            "workload.publisher_count": 1,
            **{key.replace("__", "."): value for key, value in keys.items()},
        }
        overrides = [(key, str(value)) for key, value in settings.items()]
        self.plan = make_plan(load_scenario(file, "r1", overrides, router="episub"))
        self.recorder = CountingRecorder()
        self.engine = ReferenceEngine(self.plan, self.recorder)

    def until(self, time_s: float) -> None:
        def stop(now: int) -> None:
            self.engine.stop_requested = now >= time_s * 1_000_000

        self.engine.run(stop)
        self.engine.stop_requested = False

    def finish(self) -> Run:
        self.engine.run()
        return self

    def neighbours(self) -> dict[int, set[Any]]:
        return {
            node.id: set(node.router.strategy.memberships[self.plan.topics[0]].active())
            for node in self.engine.nodes
            if node.router is not None and isinstance(node.router.strategy, Episub)
        }

    def by_message(self) -> dict[int, tuple[int, float, int]]:
        """For each message: deliveries away from the publisher, their mean hops, the last one's hops."""
        rows = self.recorder.deliveries
        away = rows[rows[:, Column.HOPS] > 0]
        found: dict[int, tuple[int, float, int]] = {}
        for message in np.unique(away[:, Column.MESSAGE]):
            hops = away[away[:, Column.MESSAGE] == message, Column.HOPS]
            found[int(message)] = (len(hops), float(hops.mean()), int(hops.max()))
        return found

    def redundancy(self, message: int, receivers: int) -> float:
        """Plumtree's RMR: copies over receivers, minus one."""
        return self.recorder.copies.get(message, 0) / receivers - 1

    def mean_latency_ms(self, first_message: int) -> float:
        rows = self.recorder.deliveries
        published = {number: info.published_us for number, info in self.recorder.messages.items()}
        late = rows[(rows[:, Column.MESSAGE] >= first_message) & (rows[:, Column.HOPS] > 0)]
        return fmean(int(row[Column.TIME_US]) - published[int(row[Column.MESSAGE])] for row in late) / 1000


def components(graph: dict[int, set[Any]]) -> list[int]:
    """Sizes, the largest first."""
    seen: set[int] = set()
    sizes: list[int] = []
    for start in graph:
        if start in seen:
            continue
        seen.add(start)
        waiting, size = [start], 0
        while waiting:
            node = waiting.pop()
            size += 1
            for other in graph[node]:
                if other in graph and other not in seen:
                    seen.add(other)
                    waiting.append(other)
        sizes.append(size)
    return sorted(sizes, reverse=True)


def in_child(work: Callable[[], Any]) -> Any:
    """The answer of `work`, done in a copy of this process."""
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


def spread(values: Iterable[float], form: str = "{:.2f}") -> str:
    values = list(values)
    return form.format(fmean(values)) + (f" ± {form.format(pstdev(values))}" if len(values) > 1 else "")


def crash(run: Run, share: float, messages: int) -> dict[str, float]:
    """Crash a share of the nodes now and see what the messages that follow reach."""
    engine = run.engine
    publishers = {publication.publisher for publication in run.plan.publications}
    others = [node.id for node in engine.nodes if node.id not in publishers]
    randomness = Randomness(run.plan.scenario.seed)
    others.sort(key=lambda node: randomness.draw(Purpose.CRASH, node))
    victims = others[: round(share * len(engine.nodes))]
    now = engine.now + engine.queue.width_us  # the bucket that is open is done

    def strike() -> None:
        for victim in sorted(victims):
            engine.faults.apply(NodeDown(now, victim, goodbye=False))

    engine.queue.add(now, GLOBAL, 0, 0, 1_000_000, strike)
    healed_s = 0.0
    for second in range(1, 61):
        run.until(now / 1e6 + second)
        live = components(run.neighbours())
        if len(live) == 1:
            healed_s = second
            break
    survivors = len(engine.nodes) - len(victims)
    run.finish()
    reached = run.by_message()
    ratios = [reached.get(number, (0, 0, 0))[0] / max(1, survivors - 1) for number in range(messages)]
    return {
        "first": 100 * fmean(ratios[:5]),
        "mean": 100 * fmean(ratios),
        "last": 100 * fmean(ratios[-5:]),
        "healed_s": healed_s or float("nan"),
    }


def overlay(nodes: int, seeds: int) -> None:
    print(f"\n## 1. The overlay, {nodes:,} nodes, {seeds} seed(s)\n")
    messages = 30
    for preset in ("episub", "hyparview-plumtree-10k"):
        print(f"\n{preset}, after {WARMUP_S} s\n")
        print("| NAT | degree min / mean / max | standard deviation | one-sided links when quiet | components |")
        print("| ---: | --- | ---: | ---: | ---: |")
        found: dict[float, list[dict[str, float]]] = {share: [] for share in SHARES}
        for nat in (0, 0.3) if preset == "episub" else (0,):
            for seed in range(1, seeds + 1):
                run = Run(
                    nodes,
                    seed,
                    router__preset=preset,
                    network__nat_share=nat,
                    workload__publisher_count=0,
                    warmup_s=WARMUP_S,
                    workload__messages=messages,
                    workload__interval_s=1,
                )
                run.until(WARMUP_S - 1)
                graph = run.neighbours()
                degrees = [len(peers) for peers in graph.values()]
                quiet = run.engine.episub_under_way().isdisjoint
                one_sided = sum(
                    node not in graph.get(peer, ()) and quiet({(node, peer), (peer, node)})
                    for node, peers in graph.items()
                    for peer in peers
                )
                print(
                    f"| {nat:.0%} | {min(degrees)} / {fmean(degrees):.2f} / {max(degrees)} | {pstdev(degrees):.2f} | "
                    f"{one_sided} | {len(components(graph))} |",
                    flush=True,
                )
                if not nat:
                    for share in SHARES:
                        found[share].append(in_child(lambda run=run, share=share: crash(run, share, messages)))
        print(f"\n{preset}, messages after a crash, one per second (% of the survivors reached)\n")
        print("| crashed | first 5 | all 30 | last 5 | one component after s | cycles | published (HyParView) |")
        print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
        for share, runs in found.items():
            healed = [one["healed_s"] for one in runs]
            columns = " | ".join(spread(one[key] for one in runs) for key in ("first", "mean", "last"))
            print(
                f"| {share:.0%} | {columns} | {spread(healed, '{:.0f}')} | "
                f"{spread((time / CYCLE_S for time in healed), '{:.1f}')} | {PUBLISHED_AFTER_CRASH[share]} |",
                flush=True,
            )


def tree(_nodes: int, seeds: int) -> None:
    print("\n## 2. Plumtree\n")
    print("One source, steady state (messages 11 to 30), 1000 nodes, a fixed overlay of 3 dials each\n")
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
    print("\n100 peers, 30 rounds; iroh's bounds for HyParView 5/30 with Plumtree\n")
    print("| preset | senders | last hop (mean, most) | bound | RMR (mean; after the first) | bound | delivered |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    cases = (
        ("one", {"workload__publisher_count": 1}, 15, 0.2),
        ("many", {"workload__publisher_count": 0}, 18, 1.0),
        ("bursts of 5", {"workload__publisher_count": 0, "workload__interval_s": 0.01}, 30, 3.0),
    )
    for preset in ("hyparview-plumtree-10k", "episub"):
        for name, keys, hops_bound, rmr_bound in cases:
            last: list[int] = []
            rmr: list[float] = []
            rmr_later: list[float] = []
            delivered: list[float] = []
            for seed in range(1, seeds + 1):
                if name.startswith("bursts"):
                    run = bursts(preset, seed)
                else:
                    run = Run(100, seed, router__preset=preset, warmup_s=30, workload__messages=30, **keys).finish()
                for count, _, furthest in run.by_message().values():
                    delivered.append(count / 99)
                    last.append(furthest)
                rmr += [run.redundancy(number, 99) for number in run.recorder.messages]
                rmr_later += [run.redundancy(number, 99) for number in run.recorder.messages if number]
            print(
                f"| {preset} | {name} | {fmean(last):.1f}, {max(last)} | < {hops_bound} | "
                f"{fmean(rmr):.3f}; {fmean(rmr_later):.3f} | < {rmr_bound} | {fmean(delivered):.2%} |",
                flush=True,
            )
    print("\nA lost eager link: when does the next message reach everyone?\n")
    print(
        "| seed | nodes cut off from the tree | all reached after ms | two touches of the timer and the trips, ms |"
    )
    print("| ---: | ---: | ---: | ---: |")
    for seed in range(1, seeds + 1):
        lost_link(seed)


def published_by(run_nodes: int, seed: int, at: Iterable[tuple[int, int]], **keys: object) -> Run:
    """A run in which given nodes publish at given seconds."""
    lines = ["[workload]", "messages = 0"]
    for second, node in at:
        lines += ["[[timed]]", f"at_s = {second}", f"node = {node}", 'action = "publish"']
    with TemporaryDirectory() as folder:
        file = Path(folder) / "published.toml"
        file.write_text("\n".join(lines), encoding="utf-8")
        return Run(run_nodes, seed, file, **keys).finish()


def bursts(preset: str, seed: int) -> Run:
    """Thirty rounds, in each of which five nodes publish at once."""
    draw = Randomness(seed)
    at = [(30 + number // 5, draw.below(100, Purpose.PUBLISHER, number)) for number in range(150)]
    return published_by(100, seed, at, router__preset=preset)


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
    run.until(12.1)  # eleven messages have made the tree
    topic = run.plan.topics[0]
    source = run.engine.nodes[run.plan.publications[0].publisher]
    child: Any = source.router.strategy.trees[topic].eager.ordered[0]  # type: ignore[union-attr]
    link = source.links[child]
    for end in (link, link.twin):
        end.cut_line()
        run.engine.notice_loss(end, run.engine.now + run.engine.queue.width_us)
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


def proximity(_nodes: int, seeds: int) -> None:
    print(f"\n## 3. Proximity: {CLUSTERS} clusters, 5 ms inside, 55 to 100 ms between; 500 nodes\n")
    print("| links | mean latency ms | hops | components |")
    print("| --- | ---: | ---: | ---: |")
    kinds = {
        "random only, 6 + 0": {"router__random_links": 6, "router__near_links": 0},
        "episub, 4 + 3": {"router__random_links": 4, "router__near_links": 3},
        "GoCast, 1 + 5": {"router__preset": "gocast"},
    }
    base = 0.0
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
                    500,
                    seed,
                    links__latency="regions",
                    links__regions_file=str(regions),
                    warmup_s=60,
                    workload__messages=20,
                    **settings,
                ).finish()
                latencies.append(run.mean_latency_ms(10))
                hops += [mean for number, (_, mean, _) in run.by_message().items() if number >= 10]
                parts.append(len(components(run.neighbours())))
            base = base or fmean(latencies)
            change = f" ({fmean(latencies) / base - 1:+.0%})" if fmean(latencies) != base else ""
            print(f"| {name} | {spread(latencies, '{:.0f}')}{change} | {spread(hops)} | {max(parts)} |", flush=True)


def optimisation(_nodes: int, seeds: int) -> None:
    print("\n## 4. Optimisation: the source moves after 20 messages (500 nodes, fixed overlay of 3 dials each)\n")
    print(
        "| threshold | hops before | hops after 5 more | hops after 40 more "
        "| tree changes per message | two sources |"
    )
    print("| ---: | ---: | ---: | ---: | ---: | ---: |")
    for threshold in (0, 1, 2, 3, 5, 7):
        before: list[float] = []
        soon: list[float] = []
        later: list[float] = []
        changes: list[float] = []
        flutter: list[float] = []
        for seed in range(1, seeds + 1):
            run = moving_source(seed, threshold, alternate=False)
            hops = run.by_message()
            before.append(fmean(hops[number][1] for number in range(10, 20)))
            soon.append(fmean(hops[number][1] for number in range(20, 25)))
            later.append(fmean(hops[number][1] for number in range(50, 60)))
            changes.append(sum(time > 24_000_000 for time in run.recorder.link_changes) / 38)
            two = moving_source(seed, threshold, alternate=True)
            flutter.append(sum(time > 24_000_000 for time in two.recorder.link_changes) / 38)
        columns = " | ".join(spread(values) for values in (before, soon, later))
        shown = "off" if not threshold else str(threshold)
        print(f"| {shown} | {columns} | {spread(changes, '{:.1f}')} | {spread(flutter, '{:.1f}')} |", flush=True)


def moving_source(seed: int, threshold: int, alternate: bool) -> Run:
    """Sixty messages, one a second; of node 0, then of node 1, or of both in turn."""
    at = [(2 + number, number % 2 if alternate else int(number >= 20)) for number in range(60)]
    keys = {"router__overlay": "connections", "router__optimisation_threshold": threshold, "network__degree": 3}
    return published_by(500, seed, at, warmup_s=2, **keys)


PARTS = {"overlay": overlay, "tree": tree, "proximity": proximity, "optimisation": optimisation}


def main() -> None:
    numbers = [int(word) for word in sys.argv[1:] if word.isdigit()]
    nodes, seeds = [*numbers, *(1000, 3)[len(numbers) :]]
    for name in [word for word in sys.argv[1:] if word in PARTS] or PARTS:
        PARTS[name](nodes, seeds)


if __name__ == "__main__":
    main()
