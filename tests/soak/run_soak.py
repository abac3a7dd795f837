"""`make soak SECONDS=n`: looks as long as one likes for what no test has met yet.

    python tests/soak/run_soak.py [--seconds 600] [--seed N] [--only NAME …]
    python tests/soak/run_soak.py --only NAME --seed N --once

Subjects take turns: the one that has had least time is next, with the next seed, in a process of its own. A failure
is printed with the line that brings it back. At the end, after Ctrl-C too, a table says what was done, and what was
seen at least once. The exit code is 1 when anything failed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from importlib import import_module
from pathlib import Path
from time import monotonic, time

ROOT = Path(__file__).parents[2]
SUBJECTS = ("scenarios", "judging_scenarios", "engines", "kernel_faults", "parsers", "defences", "kill_points")
PATHS = ("src", "bench", "tests/soak", "tests/fuzz", "tests/mutants", "tests/pipeline", "tests/studies")
SEEN = "seen: "


def main() -> int:
    parser = argparse.ArgumentParser(description="Look as long as one likes for what no test has met yet.")
    parser.add_argument("--seconds", type=float, default=600, help="in all [600]")
    parser.add_argument("--seed", type=int, default=int(time()), help="the first one [the time]")
    parser.add_argument(
        "--only", nargs="+", default=SUBJECTS, choices=SUBJECTS, metavar="NAME", help=", ".join(SUBJECTS)
    )
    parser.add_argument("--once", action="store_true", help="one turn of the first subject, in this process")
    flags = parser.parse_args()
    find_modules()
    if flags.once:
        seen = import_module(flags.only[0]).soak(flags.seed)
        print(SEEN + json.dumps(seen))
        return 0
    soak = Soak(flags.only, flags.seed)
    try:
        soak.run(flags.seconds)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    soak.print_table()
    return bool(soak.failed)


class Soak:
    def __init__(self, subjects: tuple[str, ...], seed: int) -> None:
        self._spent_s = dict.fromkeys(subjects, 0.0)
        self._turns: Counter[str] = Counter()
        self._seen: Counter[str] = Counter()
        self._first_seed = seed
        self._seed = seed
        self.failed: list[str] = []
        """The lines that bring the failures back."""

    def run(self, seconds: float) -> None:
        """The last turn may take longer."""
        end = monotonic() + seconds
        while monotonic() < end:
            self._turn(min(self._spent_s, key=self._spent_s.__getitem__), self._seed)
            self._seed += 1

    def _turn(self, subject: str, seed: int) -> None:
        began = monotonic()
        arguments = ["tests/soak/run_soak.py", "--only", subject, "--seed", str(seed), "--once"]
        done = subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True)
        took_s = monotonic() - began
        self._spent_s[subject] += took_s
        self._turns[subject] += 1
        said = done.stdout.splitlines()
        print(f"{subject} {seed}: {took_s:.0f} s, {'failed' if done.returncode else 'ok'}", flush=True)
        if done.returncode:
            self.failed.append(f"python {' '.join(arguments)}")
            print(f"{done.stdout}{done.stderr}\nagain: {self.failed[-1]}", flush=True)
        elif said and said[-1].startswith(SEEN):
            self._seen.update(json.loads(said[-1].removeprefix(SEEN)))

    def print_table(self) -> None:
        print(f"\nseeds {self._first_seed} to {self._seed - 1}")
        for subject, spent_s in self._spent_s.items():
            print(f"{subject:17} {self._turns[subject]:5} turns {spent_s:7.0f} s")
        print("\nseen")
        for what, count in sorted(self._seen.items(), key=lambda pair: (pair[1] > 0, pair[0])):
            print(f"{count:9}  {what}" if count else f"    NEVER  {what}")
        print(f"\n{len(self.failed)} failed")
        for line in self.failed:
            print(line)


def find_modules() -> None:
    """Modules of tests and benches are found by name, as pytest finds them; by the processes that are started too."""
    paths = [str(ROOT / path) for path in PATHS]
    sys.path[:0] = paths
    os.environ["PYTHONPATH"] = os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")])


if __name__ == "__main__":
    sys.exit(main())
