"""Runs each planted fault of a kernel with scenarios, and reports the faults that no comparison of the engines sees.

    python tests/kernel_mutants/run_kernel_mutants.py [--scenarios 300] [--seed 1] [--only NAME …] [--json FILE]

The scenarios are corner cases and random ones. The reference engine runs each scenario once. The array engine runs
them with each fault in turn, until a run gives another trace, raises, or does not end. The scenario that showed a
fault is the first for the next fault. The program prints how many scenarios each fault needed, and the survivors. The
exit code is 1 if mutants.toml does not explain a survivor, and 2 if the engines differ without a fault, or if a fault
is seen that mutants.toml explains as unseen.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from planted_kernels import planted_copy

BENCH = Path(__file__).parents[2] / "bench"
MOST_EVENTS = 15_000
IN_COPY = "--in-copy"


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Run planted faults of kernels, and report those that no comparison of the engines sees."
    )
    parser.add_argument("--scenarios", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="NAME", help="mutants whose names contain one of these"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write how many scenarios each mutant needed")
    parser.add_argument(IN_COPY, action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.in_copy:
        from tried_mutants import try_all  # noqa: PLC0415  it loads the kernels, which must be those of the copy

        return try_all(options.scenarios, options.seed, options.only, MOST_EVENTS, options.json)
    folder = planted_copy()
    path = os.pathsep.join([str(folder), str(BENCH)])
    environment = os.environ | {"PYTHONPATH": path, "XDG_CACHE_HOME": str(folder / "cache")}
    return subprocess.run([sys.executable, __file__, *sys.argv[1:], IN_COPY], env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
