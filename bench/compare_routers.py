"""Compare the five routers on the same network with the same messages (docs/benchmarks/compare-routers.md).

The first tables have metrics of whole runs. The last table shows how stable routes are. For each node and each two
successive messages of one publisher, it counts how often the first copies come from different peers, and how often
the messages arrive in the other order. The time between the two messages is shorter than a latency.

    python bench/compare_routers.py [NODES] [MESSAGES]
"""

from __future__ import annotations

import sys
from collections import defaultdict

from hearsay.sim.scenario.scenario_file import load_scenario
from hearsay.sim.simulate import Simulation
from hearsay.sim.summary import Summary
from hearsay.studies.packs import BY_NAME, metrics_of
from hearsay.trace.language.schema import TraceEvent, TraceRow

ROUTERS = ("floodsub", "randomsub", "meshsub", "gossipsub", "episub")
FORMATS = {
    "delivery_ratio": "{:.3%}",
    "copies_per_delivery": "{:.2f}",
    "latency_p50_ms": "{:.0f} ms",
    "latency_p99_ms": "{:.0f} ms",
    "hops_mean": "{:.2f}",
}
"""Metrics of the table, each with its format, which has more digits than in a report."""
CONTROL_KINDS = ("graft", "prune", "ihave", "iwant")


def overrides(nodes: int, messages: int, **more: object) -> list[tuple[str, str]]:
    settings = {"network.nodes": nodes, "workload.messages": messages, "trace.state_interval_s": 0, **more}
    return [(key.replace("__", "."), str(value)) for key, value in settings.items()]


def prepared(router: str, settings: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the settings with more time before the first message for episub, which makes its connections itself."""
    return [*settings, ("warmup_s", "30")] if router == "episub" else settings


def compare(title: str, settings: list[tuple[str, str]], degrees: dict[str, int] | None = None) -> None:
    print(f"\n{title}\n")
    rows = [["router", *(BY_NAME[name].title for name in FORMATS), "control messages"]]
    for router in ROUTERS:
        own = [
            (f"router.{key}", str(value))
            for key, value in (degrees or {}).items()
            if router in ("meshsub", "gossipsub") or (router == "randomsub" and key == "degree")
        ]
        scenario = load_scenario(None, "r1", [*prepared(router, settings), *own], router=router)
        rows.append(row_of(Simulation(scenario).run().summary))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    divider = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    for row in (rows[0], divider, *rows[1:]):
        first, *others = zip(row, widths, strict=True)
        cells = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]
        print(f"| {' | '.join(cells)} |", flush=True)


def row_of(summary: Summary) -> list[str]:
    values = metrics_of(summary)
    shown = ["–" if values[name] is None else form.format(values[name]) for name, form in FORMATS.items()]
    return [summary.router, *shown, f"{sum(summary.sent.get(kind, 0) for kind in CONTROL_KINDS):,}"]


def stability(nodes: int, messages: int) -> None:
    """Print how often routes change for one publisher with a message every 20 ms."""
    print("\nHow stable routes are: one publisher, a message every 20 ms\n")
    print("| router | first sender changes | order changes |")
    print("| --- | ---: | ---: |")
    settings = overrides(
        nodes, messages, workload__publishers="subscribers", workload__publisher_count=1, workload__interval_s=0.02
    )
    for router in ROUTERS:
        arrivals: dict[int, dict[int, tuple[int, int]]] = defaultdict(dict)

        def note(row: TraceRow, arrivals: dict[int, dict[int, tuple[int, int]]] = arrivals) -> None:
            if row.event is TraceEvent.DELIVER and row.remote is not None:
                assert row.peer is not None
                assert row.message is not None
                arrivals[row.peer][row.message] = (row.time_us, row.remote)

        Simulation(load_scenario(None, "r1", prepared(router, settings), router=router), listener=note).run()
        pairs = changes = reordered = 0
        for by_message in arrivals.values():
            for message, (time_us, sender) in by_message.items():
                if message + 1 in by_message:
                    next_us, next_sender = by_message[message + 1]
                    pairs += 1
                    changes += sender != next_sender
                    reordered += next_us < time_us
        print(f"| {router} | {changes / pairs:.1%} | {reordered / pairs:.2%} |", flush=True)


def main() -> None:
    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    messages = int(sys.argv[2]) if len(sys.argv) > 2 else 50
    compare(f"{nodes} nodes, {messages} messages, no loss", overrides(nodes, messages))
    compare("The same with 5 % of the messages and gossip lost", overrides(nodes, messages, loss__rate=0.05))
    sparse = {"degree": 2, "degree_low": 2, "degree_high": 3}
    compare("5 % loss and a sparse mesh, D = 2", overrides(nodes, messages, loss__rate=0.05), sparse)
    stability(nodes, messages)


if __name__ == "__main__":
    main()
