"""Measure the speed of the reference engine, next to a plain Python model of the same protocol.

An event is a `handle` call of a router, or a handled event of the plain model. Seconds are CPU time of the run,
without the time to build the network. The engine computes the trace hash. Engine and model run in turn, each in its
own process. Each ratio is of two successive runs, because the speed of a machine changes with time. Printed are the
median, the smallest and the largest ratio, and the memory of 10,000 nodes.

    python bench/engine_speed.py [PAIRS]
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from statistics import median

HERE = Path(__file__).parent
CASES = ((1000, 10, 1.0), (1000, 100, 0.1), (100, 100, 0.1))

ENGINE = """
import resource, sys, time
from hearsay.sim.scenario.scenario_file import load_scenario
from hearsay.sim.simulate import Simulation
nodes, messages, delay = sys.argv[1:]
overrides = [("network.nodes", nodes), ("workload.messages", messages), ("workload.interval_s", delay),
             ("trace.state_interval_s", "0")]
simulation = Simulation(load_scenario(None, "simsub", overrides))
start = time.process_time()
simulation.engine.run()
seconds = time.process_time() - start
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(simulation.recorder.events, seconds, simulation.recorder.delivered, peak)
"""


def measure(command: list[str]) -> tuple[float, list[str]]:
    """Run a program; return its events per second of CPU time, and the words that it printed."""
    printed = subprocess.run([sys.executable, *command], check=True, capture_output=True, text=True).stdout.split()
    return int(printed[0]) / float(printed[1]), printed


def main() -> None:
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    print("| nodes x messages, interval | engine events/s | model events/s | engine / model, median | least | most |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for nodes, messages, delay in CASES:
        arguments = [str(nodes), str(messages), str(delay)]
        engine, plain = [], []
        for _ in range(pairs):
            engine.append(measure(["-c", ENGINE, *arguments])[0])
            plain.append(measure([str(HERE / "peers" / "plain_simsub.py"), *arguments])[0])
        ratios = sorted(ours / theirs for ours, theirs in zip(engine, plain, strict=True))
        print(
            f"| {nodes} x {messages}, {delay:g} s | {median(engine):,.0f} | {median(plain):,.0f} | "
            f"{median(ratios):.2f} | {ratios[0]:.2f} | {ratios[-1]:.2f} |",
            flush=True,
        )
    rate, printed = measure(["-c", ENGINE, "10000", "10", "1"])
    print(f"\n10,000 nodes x 10 messages: {rate:,.0f} events/s, {int(printed[3]) / 1e6:.2f} GB at the peak")


if __name__ == "__main__":
    main()
