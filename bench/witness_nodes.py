"""Check a large run on the array engine: routers of the core repeat the calls of some nodes, and must do the same.

python bench/witness_nodes.py [--nodes 100000] [--messages 10] [--witnesses 100] [--preset r1] [--threads 1]
"""

from __future__ import annotations

import argparse
import sys
from time import perf_counter

from hearsay.core.rules.randomness import Purpose, Randomness, sample
from hearsay.sim.array.engine import ArrayEngine
from hearsay.sim.plan.plan import make_plan
from hearsay.sim.scenario.scenario_file import load_scenario
from hearsay.sim.witnesses import Witnesses


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--messages", type=int, default=10)
    parser.add_argument("--witnesses", type=int, default=100)
    parser.add_argument("--preset", default="r1")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    changes = {"network.nodes": options.nodes, "workload.messages": options.messages, "seed": options.seed}
    plan = make_plan(load_scenario(None, options.preset, tuple((key, str(value)) for key, value in changes.items())))
    chosen = sample(Randomness(options.seed).draw(Purpose.GOSSIP), range(options.nodes), options.witnesses)
    start = perf_counter()
    witnesses = Witnesses(plan, chosen)
    ArrayEngine(plan, None, options.threads, witnesses).run()
    replay = witnesses.repeat()
    print(
        f"{options.witnesses} witnesses of {options.nodes} nodes, preset {options.preset}: {replay.calls} calls, "
        f"{replay.rows} rows, {perf_counter() - start:.1f} s"
    )
    print("\n".join(replay.problems))
    return 1 if replay.problems else 0


if __name__ == "__main__":
    sys.exit(main())
