"""Compile all entries of the array engine, each in a process of its own: `python tests/sim/compile_entries.py`.

The tests need all entries, and most of these tests run one after the other on one worker. Without this step, one core
compiles for ten minutes while the other workers are idle.
"""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from numba import types

from hearsay.sim.array.run import loop

ENTRIES = sorted((name for name in vars(loop) if name.startswith("work")), key=len)
"""Names of entries, the largest entry first: entries with fewer features have longer names."""


def compile_entry(name: str) -> str:
    entry: Any = getattr(loop, name)
    entry.compile((types.int64[::1], types.int64, types.int64))
    return name


if __name__ == "__main__":
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as processes:
        for done in processes.map(compile_entry, ENTRIES):
            print(f"compiled: {done}", flush=True)
