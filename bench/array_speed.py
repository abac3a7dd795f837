"""How fast the array engine is, beside the reference engine and the memory of this machine.

    python bench/array_speed.py [--nodes 1000 100000 1000000] [--threads 1 2] [--reference-up-to 10000]

simsub's network and rules, trace hash on, no trace written. Every run is a process of its own, so that memory is its
own too; compiling is done before. The random-access rate is that of 8-byte read-modify-writes all over an array of
1 GiB, one after the other: an event needs a handful of such accesses, so events per access say how far the engine is
from what the memory allows. With SimPy installed (`pip install simpy`) its processes run the same network beside.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter

import numpy as np

from hearsay.core.randomness import GOLDEN
from hearsay.sim.array.compiling import entry

WORDS = 1 << 27
ACCESSES = 20_000_000
WORKLOADS = {1000: ("1000", "0.1")}
"""Nodes: messages and seconds between them, where it is not ten, one a second."""


@entry
def touch_all_over(words: np.ndarray, accesses: int) -> None:
    """Addresses by a multiplicative hash, which no prefetcher foresees."""
    for number in range(accesses):
        place = (np.uint64(number) * np.uint64(GOLDEN)) >> np.uint64(37)
        words[np.int64(place)] += 1


def accesses_per_second() -> float:
    words = np.zeros(WORDS, dtype=np.int64)
    touch_all_over(words, 1000)
    words += 1
    started = perf_counter()
    touch_all_over(words, ACCESSES)
    return ACCESSES / (perf_counter() - started)


def run(engine: str, nodes: int, threads: int) -> dict[str, float]:
    messages, interval = WORKLOADS.get(nodes, ("10", "1"))
    code = (
        "import json, re, sys; from pathlib import Path; from time import perf_counter, process_time\n"
        "from hearsay.sim.scenario_file import load_scenario; from hearsay.sim.simulate import Simulation\n"
        "engine, nodes, messages, interval, threads = sys.argv[1:]\n"
        "keys = [('network.nodes', nodes), ('workload.messages', messages), ('workload.interval_s', interval)]\n"
        "at = perf_counter(); made = Simulation(load_scenario(None, 'simsub', keys), engine=engine,"
        " threads=int(threads))\n"
        "built = perf_counter(); cpu = process_time(); made.engine.run(); ran = perf_counter()\n"
        "figures = made.engine.figures()\n"
        "peak = int(re.search(r'VmHWM:\\s+(\\d+)', Path('/proc/self/status').read_text())[1])\n"
        "print(json.dumps(dict(build=built - at, wall=ran - built, cpu=process_time() - cpu, events=figures.events,"
        " hash=figures.trace_hash, peak=peak * 1024)))\n"
    )
    arguments = [sys.executable, "-c", code, engine, str(nodes), messages, interval, str(threads)]
    return json.loads(subprocess.run(arguments, check=True, capture_output=True, text=True).stdout)


def simpy(nodes: int) -> dict[str, float]:
    messages, interval = WORKLOADS.get(nodes, ("10", "1"))
    model = Path(__file__).parent / "peers" / "simpy_gossip.py"
    done = subprocess.run(
        [sys.executable, model, str(nodes), messages, interval], check=True, capture_output=True, text=True
    )
    return json.loads(done.stdout) | {"build": 0.0, "peak": 0.0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=[1000, 100_000, 1_000_000])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--reference-up-to", type=int, default=10_000)
    options = parser.parse_args()
    rate = accesses_per_second()
    print(f"random accesses: {rate / 1e6:.0f} M/s")
    for threads in options.threads:
        run("array", 100, threads)
    print(f"{'engine':>10} {'threads':>7} {'nodes':>9} {'build s':>8} {'run s':>7} {'M events/s':>10} {'accesses':>9}"
          f" {'bytes/node':>10} {'ratio':>6}")  # fmt: skip
    for nodes in options.nodes:
        reference = run("reference", nodes, 1) if nodes <= options.reference_up_to else None
        for threads in options.threads:
            got = run("array", nodes, threads)
            if reference is not None and got["hash"] != reference["hash"]:
                raise SystemExit(f"{nodes} nodes: the traces differ")
            show("array", threads, nodes, got, rate, reference)
        if reference is not None:
            show("reference", 1, nodes, reference, rate, None)
            if find_spec("simpy") is not None:
                show("SimPy", 1, nodes, simpy(nodes), rate, None)


def show(
    engine: str, threads: int, nodes: int, got: dict[str, float], rate: float, reference: dict[str, float] | None
) -> None:  # fmt: skip
    ratio = f"{reference['wall'] / got['wall']:.1f}" if reference is not None else ""
    print(
        f"{engine:>10} {threads:>7} {nodes:>9,} {got['build']:>8.2f} {got['wall']:>7.2f} "
        f"{got['events'] / got['wall'] / 1e6:>10.2f} {rate * got['wall'] / got['events']:>9.1f} "
        f"{got['peak'] / nodes:>10,.0f} {ratio:>6}",
        flush=True,
    )


if __name__ == "__main__":
    main()
