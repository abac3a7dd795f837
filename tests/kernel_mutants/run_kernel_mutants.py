"""Tries each planted fault of a kernel against random scenarios: which does the comparison of the engines not see?

    python tests/kernel_mutants/run_kernel_mutants.py [--scenarios 150] [--seed 1] [--only NAME ...]

The scenarios are run by the reference engine once, then by the array engine with each fault in turn, until one gives
another trace, raises, or does not come to an end. Prints how many scenarios each fault took, and the survivors; exit
1 if there is one that mutants.toml does not explain. All of it is one compilation and a few minutes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from planted_kernels import SOURCE, plant

BENCH = Path(__file__).parents[2] / "bench"
MOST_EVENTS = 40_000
LONGEST_S = 20
IN_COPY = "--in-copy"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenarios", type=int, default=150)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    parser.add_argument(IN_COPY, action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.in_copy:
        from tried_mutants import try_all  # noqa: PLC0415  it loads the kernels, which must be those of the copy

        return try_all(options.scenarios, options.seed, options.only, MOST_EVENTS, LONGEST_S)
    with TemporaryDirectory(prefix="hearsay-kernel-mutants-") as folder:
        package = Path(folder, "hearsay")
        shutil.copytree(SOURCE, package, ignore=shutil.ignore_patterns("__pycache__"))
        plant(package)
        path = os.pathsep.join([folder, str(BENCH)])
        environment = os.environ | {"PYTHONPATH": path, "XDG_CACHE_HOME": str(Path(folder, "cache"))}
        return subprocess.run([sys.executable, __file__, *sys.argv[1:], IN_COPY], env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
