"""Compare simsub's published tables with the distribution of Hearsay's runs over many seeds.

Printed for each counter are the published figure, mean, standard deviation and range of the runs, and the two-sided
empirical tail probability p of the published figure: 2 (1 + number of runs at least as extreme) / (1 + number of
runs). A counter fails if p is below 5 % divided by the number of counters (Bonferroni). It also fails if the figure
is more than four standard deviations from the mean, because p cannot be small with few seeds. This second rule does
not hold for PRUNE, which occurs in clusters. In each run, connect must be 10 N and deliver N M.

Some cells result from the lag of simsub's real-time simulator and are not compared: ihave of table 3, iwant of table
5, and iwant, ihave and publish of table 6. They are printed with a dash.

With `--lag` the workload has this lag, too: a message is published at its planned time, but not before the previous
message is delivered, which takes `LAG_MS` for each node. Then ihave of tables 3 and 6 is compared, too.

    python bench/simsub_tables.py [--engine array] [--lag] [SEEDS [TABLE…]]
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from statistics import fmean, stdev

from hearsay.api.scenarios import simulate
from hearsay.sim.scenario.scenario_file import load_scenario

TABLES = {
    1: ((100, 10, 1.0), {"graft": 380, "prune": 7, "iwant": 31, "publish": 6473, "ihave": 4402}),
    2: ((100, 100, 0.1), {"graft": 374, "prune": 8, "iwant": 163, "publish": 63351, "ihave": 4844}),
    3: ((100, 1000, 0.01), {"graft": 376, "prune": 0, "iwant": 1037, "publish": 646973, "ihave": 8413}),
    4: ((1000, 10, 1.0), {"graft": 3651, "prune": 15, "iwant": 155, "publish": 61957, "ihave": 45456}),
    5: ((1000, 100, 0.5), {"graft": 3661, "prune": 21, "iwant": 1146, "publish": 621559, "ihave": 198372}),
    6: ((1000, 100, 0.1), {"graft": 3740, "prune": 53, "iwant": 20749, "publish": 653634, "ihave": 84297}),
}
FROM_LAG = {(3, "ihave"), (5, "iwant"), (6, "iwant"), (6, "ihave"), (6, "publish")}
FROM_LAG_OF_THE_SCRIPT = {(3, "ihave"), (6, "ihave")}
LAG_MS = 0.195
SIGNIFICANCE = 0.05
MAX_DEVIATIONS = 4


def run(engine: str, case: tuple[int, int, float, int]) -> dict[str, int]:
    nodes, messages, delay, seed = case
    overrides = [
        ("network.nodes", str(nodes)),
        ("workload.messages", str(messages)),
        ("workload.interval_s", str(delay)),
        ("trace.state_interval_s", "0"),
        ("seed", str(seed)),
    ]
    summary = simulate(load_scenario(None, "simsub", overrides), engine=engine)
    assert summary.sent["connect"] == 10 * nodes, summary
    assert summary.deliver == nodes * messages, summary
    return summary.sent


def tail_probability(runs: list[int], published: int) -> float:
    below = sum(value <= published for value in runs)
    above = sum(value >= published for value in runs)
    return min(1.0, 2 * (1 + min(below, above)) / (1 + len(runs)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seeds", type=int, nargs="?", default=40)
    parser.add_argument("tables", type=int, nargs="*", metavar="table")
    parser.add_argument("--lag", action="store_true", help="publish with the lag of simsub's simulator")
    parser.add_argument("--engine", choices=("reference", "array"), default="reference")
    options = parser.parse_args()
    seeds, chosen = options.seeds, options.tables or list(TABLES)
    left_out = FROM_LAG - FROM_LAG_OF_THE_SCRIPT if options.lag else FROM_LAG
    counters = sum((table, kind) not in left_out for table in chosen for kind in TABLES[table][1])
    threshold = SIGNIFICANCE / counters
    print(f"{seeds} seeds; connect = 10 N and deliver = N M in every run; p must not be below {threshold:.4f}\n")
    print("| table | counter | published | mean | sd | min | max | z | p |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    failed = 0
    with ProcessPoolExecutor(2) as pool:
        for table in chosen:
            (nodes, messages, delay), published = TABLES[table]
            delay = max(delay, nodes * LAG_MS / 1000) if options.lag else delay
            cases = [(nodes, messages, delay, seed) for seed in range(1, seeds + 1)]
            sent = list(pool.map(partial(run, options.engine), cases))
            for kind, figure in published.items():
                runs = [counts[kind] for counts in sent]
                compared = (table, kind) not in left_out
                probability = tail_probability(runs, figure)
                spread = stdev(runs)
                deviations = (figure - fmean(runs)) / spread if spread else 0.0
                far = abs(deviations) > MAX_DEVIATIONS and kind != "prune"
                failed += compared and (far or probability < threshold)
                shown = f"{deviations:+.2f} | {probability:.3f}" if compared else "– | –"
                print(
                    f"| {table} | {kind} | {figure:,} | {fmean(runs):,.1f} | {spread:,.1f} | "
                    f"{min(runs):,} | {max(runs):,} | {shown} |",
                    flush=True,
                )
    print(f"\n{failed} of {counters} compared counters lie outside")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
