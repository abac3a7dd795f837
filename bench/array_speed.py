"""Measure the speed of the array engine, next to the reference engine and the memory of this machine.

    python bench/array_speed.py [--nodes 1000 100000 1000000] [--threads 1 2] [--reference-up-to 10000]
                                [--peersim PATH/peersim-1.0.5.jar]

The network and the rules are simsub's. The trace hash is on, and no trace is written. Each run has its own process,
in which kernels are compiled or loaded before the run.

`random accesses` is the rate of 8-byte read-modify-writes at addresses all over an array of 1 GiB, one after the
other. `accesses` is the number of such accesses in the time of one event; an event needs a few of them, so a greater
number shows how far the engine is from the limit of the memory. `of limit` is the rate of events as a share of one
event per 34 ns, which is about the time to move an event through memory. Sure duplicates, which are not queued
(`transport.py`), count as events, too. `ratio` is the reference engine's wall time divided by that of the run.

If SimPy is installed (`pip install simpy`), a similar model with its processes runs in addition. With `--peersim`,
the same model runs in the event-driven mode of PeerSim 1.0.5. This needs the jar with jep and djep next to it, as in
PeerSim's release, and a JDK on the PATH, because a Java runtime has no compiler. Neither model writes or hashes a
trace.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np

from hearsay.core.rules.randomness import GOLDEN
from hearsay.sim.array.compiling import entry

LEAST_S = 34e-9
"""Estimated time to move an event through memory, in seconds."""
WORDS = 1 << 27
ACCESSES = 20_000_000
WORKLOADS = {1000: ("1000", "0.1"), 10_000_000: ("1", "1")}
"""Number of messages and seconds between them, by number of nodes; ten messages, one a second, for other numbers."""
WARM_UP_S, LINGER_S, SECOND_US = 5, 10, 1_000_000


@entry
def touch_all_over(words: np.ndarray, accesses: int) -> None:
    """Add 1 to words at addresses of a multiplicative hash, which a hardware prefetcher cannot predict."""
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
        "from hearsay.sim.scenario.scenario_file import load_scenario; from hearsay.sim.simulate import Simulation\n"
        "engine, nodes, messages, interval, threads = sys.argv[1:]\n"
        "keys = [('network.nodes', nodes), ('workload.messages', messages), ('workload.interval_s', interval)]\n"
        "Simulation(load_scenario(None, 'simsub', ()), engine=engine).engine.run()\n"
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


class PeerSim:
    """The model `peers/peersim/Gossip.java`, compiled with a jar of PeerSim into a folder."""

    def __init__(self, jar: Path, folder: Path) -> None:
        compiler = shutil.which("javac")
        if compiler is None:
            raise SystemExit("--peersim: there is no javac on the PATH; install a JDK")
        if not jar.is_file():
            raise SystemExit(f"--peersim {jar}: no such file")
        self._java = Path(compiler).resolve().parent / "java"
        self._class_path = os.pathsep.join((str(folder), str(jar), str(jar.resolve().parent / "*")))
        model = Path(__file__).parent / "peers" / "peersim" / "Gossip.java"
        compiling = [compiler, "-cp", self._class_path, "-d", str(folder), str(model)]
        done = subprocess.run(compiling, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"--peersim {jar}: {model.name} does not compile with this jar:\n{done.stderr}")

    def run(self, nodes: int) -> dict[str, float]:
        messages, interval = WORKLOADS.get(nodes, ("10", "1"))
        interval_us = round(float(interval) * SECOND_US)
        settings = {
            "random.seed": 1,
            "network.size": nodes,
            "simulation.endtime": (WARM_UP_S + LINGER_S) * SECOND_US + int(messages) * interval_us,
            "protocol.gossip": "Gossip",
            "init.start": "Gossip$Start",
            "init.start.protocol": "gossip",
            "init.start.messages": messages,
            "init.start.warm_up": WARM_UP_S * SECOND_US,
            "init.start.interval": interval_us,
            "control.end": "Gossip$End",
            "control.end.at": -1,
            "control.end.FINAL": "",
        }
        arguments = [f"{name}={value}" for name, value in settings.items()]
        done = subprocess.run(
            [str(self._java), "-cp", self._class_path, "peersim.Simulator", *arguments],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode or not done.stdout.strip():
            raise SystemExit(f"PeerSim failed on {nodes} nodes:\n{done.stderr}")
        return json.loads(done.stdout) | {"build": 0.0, "peak": 0.0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=[1000, 100_000, 1_000_000])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--reference-up-to", type=int, default=10_000)
    parser.add_argument("--peersim", type=Path, metavar="JAR", help="also run the model on PeerSim, from this jar")
    options = parser.parse_args()
    with TemporaryDirectory() as classes:
        peersim = None if options.peersim is None else PeerSim(options.peersim, Path(classes))
        compare(options.nodes, options.threads, options.reference_up_to, peersim)


def compare(sizes: list[int], all_threads: list[int], reference_up_to: int, peersim: PeerSim | None) -> None:
    rate = accesses_per_second()
    print(f"random accesses: {rate / 1e6:.0f} M/s")
    for threads in all_threads:
        run("array", 100, threads)
    print(f"{'engine':>10} {'threads':>7} {'nodes':>9} {'build s':>8} {'run s':>7} {'M events/s':>10} {'of limit':>8}"
          f" {'accesses':>9} {'bytes/node':>10} {'ratio':>6}")  # fmt: skip
    for nodes in sizes:
        reference = run("reference", nodes, 1) if nodes <= reference_up_to else None
        fastest = float("inf")
        for threads in all_threads:
            got = run("array", nodes, threads)
            if reference is not None and got["hash"] != reference["hash"]:
                raise SystemExit(f"{nodes} nodes: array engine and reference engine have different traces")
            show("array", threads, nodes, got, rate, reference)
            fastest = min(fastest, got["wall"])
        peers: dict[str, dict[str, float]] = {}
        if reference is not None:
            show("reference", 1, nodes, reference, rate, reference)
            if find_spec("simpy") is not None:
                peers["SimPy"] = simpy(nodes)
        if peersim is not None:
            peers["PeerSim"] = peersim.run(nodes)
        for name, got in peers.items():
            show(name, 1, nodes, got, rate, reference)
            print(f"{'':>10} the array engine is {got['wall'] / fastest:.1f} times as fast as {name}", flush=True)


def show(
    engine: str, threads: int, nodes: int, got: dict[str, float], rate: float, reference: dict[str, float] | None
) -> None:  # fmt: skip
    ratio = f"{reference['wall'] / got['wall']:.1f}" if reference is not None else ""
    print(
        f"{engine:>10} {threads:>7} {nodes:>9,} {got['build']:>8.2f} {got['wall']:>7.2f} "
        f"{got['events'] / got['wall'] / 1e6:>10.2f} {got['events'] * LEAST_S / got['wall']:>8.0%} "
        f"{rate * got['wall'] / got['events']:>9.1f} "
        f"{got['peak'] / nodes:>10,.0f} {ratio:>6}",
        flush=True,
    )


if __name__ == "__main__":
    main()
