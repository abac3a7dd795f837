"""Measure the cost of a trace for a run of the array engine: the command without and with a trace, in turn.

    python bench/trace_speed.py [--nodes 50000] [--messages 10] [--pairs 5] [--out DIR]

The network and the rules are simsub's. Times include the start of the command. The engine has one thread, and the
writer of the trace has another. So the wall time depends on a free second core, and the CPU time of both threads is
printed, too, in user mode and in system mode. System time grows when the process uses new memory.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter


def run(nodes: int, messages: int, trace: str, folder: Path) -> tuple[float, float, float, int]:
    """Run the command; return wall, user and system seconds, and the number of written rows."""
    command = [sys.executable, "-m", "hearsay", "simulate", "--preset", "simsub", "--engine", "array", "--json"]
    command += ["--nodes", str(nodes), "--messages", str(messages), "--trace", trace, "--out", str(folder)]
    before, started = os.times(), perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    wall, after = perf_counter() - started, os.times()
    rows = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["trace_rows"]
    return wall, after.children_user - before.children_user, after.children_system - before.children_system, rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=50_000)
    parser.add_argument("--messages", type=int, default=10)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--out", type=Path, help="folder for the runs, which are deleted at the end")
    options = parser.parse_args()
    with TemporaryDirectory(dir=options.out) as directory:
        run(100, 1, "full", Path(directory) / "compiled")
        print(f"{'trace':>6} {'wall s':>7} {'user s':>7} {'system s':>8} {'rows':>11}")
        for pair in range(options.pairs):
            for trace in ("none", "full"):
                folder = Path(directory) / f"{trace}-{pair}"
                wall, user, system, rows = run(options.nodes, options.messages, trace, folder)
                print(f"{trace:>6} {wall:>7.2f} {user:>7.2f} {system:>8.2f} {rows:>11,}", flush=True)


if __name__ == "__main__":
    main()
