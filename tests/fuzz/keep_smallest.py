"""`keep_smallest.py TARGET FOLDER`: store the inputs of a corpus and a folder that reach new code, smallest first.

An input reaches new code if it makes a step, from one line of Hearsay to the next, that no smaller input makes.
Python's tracing records the steps, because libFuzzer's merge cannot start atheris again.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

from fuzz_targets import TARGETS, Target
from kept_corpus import store_inputs, stored_inputs

PACKAGE_FOLDER = f"{Path('hearsay')}/"
MAX_BYTES, MAX_INPUTS = 600, 100

Step = tuple[str, int, int]


def steps_of(target: Target, data: bytes) -> set[Step]:
    """Return the steps of a target with an input: file, previous line, line."""
    steps: set[Step] = set()

    def trace_call(frame: FrameType, event: str, argument: Any) -> Any:
        file = frame.f_code.co_filename
        if PACKAGE_FOLDER not in file:
            return None
        before = 0

        def trace_line(frame: FrameType, event: str, argument: Any) -> Any:
            nonlocal before
            steps.add((file, before, frame.f_lineno))
            before = frame.f_lineno
            return trace_line

        return trace_line

    sys.settrace(trace_call)
    try:
        target(data)
    finally:
        sys.settrace(None)
    return steps


def main() -> None:
    name, folder = sys.argv[1], Path(sys.argv[2])
    target = TARGETS[name]
    found = {path.read_bytes() for path in folder.iterdir()}
    reached: set[Step] = set()
    chosen: list[bytes] = []
    for data in sorted({*stored_inputs(name), *found}, key=lambda data: (len(data), data)):
        if len(data) <= MAX_BYTES and not (steps := steps_of(target, data)) <= reached:
            reached |= steps
            chosen.append(data)
    store_inputs(name, chosen[:MAX_INPUTS])


main()
