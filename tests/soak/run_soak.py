"""`make soak SECONDS=n`: searches at random, for a given time, for failures that no test has found.

    python tests/soak/run_soak.py [--seconds 600] [--seed N] [--only NAME …]
    python tests/soak/run_soak.py --only NAME --seed N --once

Subjects take turns: the one that has had least time is next, with the next seed, in a process of its own. Turns are
short, and the shortest come first, so that five minutes are enough for all of them. A failure is printed with the
command that repeats it; a turn that does not end is a failure. At the end, also after Ctrl-C, a table shows the turns
and what they saw. The exit code is 1 when a turn failed.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from importlib import import_module
from pathlib import Path
from time import monotonic, time

ROOT = Path(__file__).parents[2]
SUBJECTS = (
    "parsers",
    "intake",
    "scenarios",
    "judging_scenarios",
    "defences",
    "engines",
    "kill_points",
    "kernel_faults",
)
LONGEST_S = 1200
"""For a turn, which takes half a minute at most; but kernels with faults are compiled once, on any machine."""
PATHS = (
    "src", "bench", "tests/soak", "tests/cli", "tests/fuzz", "tests/kernel_mutants", "tests/mutants", "tests/node",
    "tests/pipeline", "tests/strategies", "tests/studies", "tests/wire",
)  # fmt: skip
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
        self.spent_s = dict.fromkeys(subjects, 0.0)
        self._turns: Counter[str] = Counter()
        self._seen: Counter[str] = Counter()
        self._first_seed = seed
        self._seed = seed
        self.failed: list[str] = []
        """The commands that repeat the failures."""

    def run(self, seconds: float) -> None:
        """The last turn may take longer."""
        end = monotonic() + seconds
        while monotonic() < end:
            self._turn(self.next(), self._seed)
            self._seed += 1

    def next(self) -> str:
        """Return the one that has had least time; of several, the one that is named first."""
        return min(self.spent_s, key=self.spent_s.__getitem__)

    def _turn(self, subject: str, seed: int) -> None:
        began = monotonic()
        arguments = ["tests/soak/run_soak.py", "--only", subject, "--seed", str(seed), "--once"]
        order = {"PYTHONHASHSEED": str(seed % (1 << 32))}
        code, output = outcome_of([sys.executable, *arguments], {**os.environ, **order})
        took_s = monotonic() - began
        self.spent_s[subject] += took_s
        self._turns[subject] += 1
        print(f"{subject} {seed}: {took_s:.0f} s, {'failed' if code else 'ok'}", flush=True)
        if code:
            self.failed.append(f"PYTHONHASHSEED={order['PYTHONHASHSEED']} python {' '.join(arguments)}")
            print(f"{output}\nagain: {self.failed[-1]}", flush=True)
        for line in output.splitlines():
            if line.startswith(SEEN):
                self._seen.update(json.loads(line.removeprefix(SEEN)))

    def print_table(self) -> None:
        print(f"\nseeds {self._first_seed} to {self._seed - 1}")
        for subject, spent_s in self.spent_s.items():
            print(f"{subject:17} {self._turns[subject]:5} turns {spent_s:7.0f} s")
        print("\nseen")
        for what, count in sorted(self._seen.items(), key=lambda pair: (pair[1] > 0, pair[0])):
            print(f"{count:9}  {what}" if count else f"    NEVER  {what}")
        print(f"\n{len(self.failed)} failed")
        for line in self.failed:
            print(line)


def outcome_of(command: list[str], environment: dict[str, str]) -> tuple[int, str]:
    """Return the exit code and the output; every process that a turn has started ends with it."""
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    ) as process:  # fmt: skip
        try:
            output, _ = process.communicate(timeout=LONGEST_S)
            return process.returncode, output
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return 1, f"{process.communicate()[0]}it does not end"
        except KeyboardInterrupt:
            os.killpg(process.pid, signal.SIGKILL)
            raise


def find_modules() -> None:
    """Modules of tests and benches are found by name, as pytest finds them; by the processes that are started too."""
    paths = [str(ROOT / path) for path in PATHS]
    sys.path[:0] = paths
    os.environ["PYTHONPATH"] = os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")])


if __name__ == "__main__":
    sys.exit(main())
