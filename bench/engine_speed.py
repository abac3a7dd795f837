"""The reference engine's speed, next to a plain Python model of the same protocol, measured in turn in one run.

An event is one `handle` call of a router (one handled event of the plain model); seconds are of CPU, of the run
alone, without building the network, with the trace hash on. Both run in processes of their own, one after the
other, and the ratio is taken pair by pair, because machines drift. In addition to the wall of noise it prints the
memory of 10,000 nodes.

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
    """Events per second of CPU, and all that was printed."""
    printed = subprocess.run([sys.executable, *command], check=True, capture_output=True, text=True).stdout.split()
    return int(printed[0]) / float(printed[1]), printed


def main() -> None:
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    print("| nodes x messages, delay | engine events/s | plain model events/s | ratio (median) | min | max |")
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
