"""Compile entries of the array engine, each in its own process: `python tests/sim/compile_entries.py quick|all`.

`quick` has the entries that tests without the mark `thorough` use. Most of these tests run one after the other on one
worker. Without this step, one core compiles for minutes while the other workers are idle.
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from numba import types

from hearsay.sim.array.run import loop

ENTRIES = sorted((name for name in vars(loop) if name.startswith("work")), key=len)
"""Names of entries, the largest entry first: entries with fewer features have longer names."""
THOROUGH = ("work", "work_of_mixes")
"""Entries that only thorough tests use."""


def compile_entry(name: str) -> str:
    entry: Any = getattr(loop, name)
    entry.compile((types.int64[::1], types.int64, types.int64))
    return name


if __name__ == "__main__":
    wanted = [name for name in ENTRIES if sys.argv[1] == "all" or name not in THOROUGH]
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as processes:
        for done in processes.map(compile_entry, wanted):
            print(f"compiled: {done}", flush=True)
