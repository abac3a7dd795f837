"""`make soak SECONDS=n`: searches at random, for a given time, for failures that no test has found.

    python tests/soak/run_soak.py [--seconds 600] [--seed N] [--only NAME …]
    python tests/soak/run_soak.py --only NAME --seed N --once

The subject that has run for the shortest time is the next, with the next seed, in a process of its own: this is a
turn. Turns are short, and the shortest come first, so that five minutes are enough for all subjects. A failure is
printed with the command that repeats it; a turn that does not end is a failure. At the end, also after Ctrl-C, a
table shows the turns and the counts that they returned. The exit code is 1 if a turn failed.
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
"""Maximum seconds of a turn. Turns usually take half a minute at most, but kernels with faults are compiled once."""
PATHS = (
    "src", "bench", "tests/soak", "tests/cli", "tests/fuzz", "tests/kernel_mutants", "tests/mutants", "tests/node",
    "tests/pipeline", "tests/strategies", "tests/studies", "tests/wire",
)  # fmt: skip
SEEN = "seen: "


def main() -> int:
    parser = argparse.ArgumentParser(description="Search at random for failures that no test has found.")
    parser.add_argument("--seconds", type=float, default=600, help="total time [600]")
    parser.add_argument("--seed", type=int, default=int(time()), help="first seed [the current time]")
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
    """Runs turns of the subjects, and collects their times, counts and failures."""

    def __init__(self, subjects: tuple[str, ...], seed: int) -> None:
        self.spent_s = dict.fromkeys(subjects, 0.0)
        self._turns: Counter[str] = Counter()
        self._seen: Counter[str] = Counter()
        self._first_seed = seed
        self._seed = seed
        self.failed: list[str] = []
        """The commands that repeat the failures."""

    def run(self, seconds: float) -> None:
        """Run turns until these seconds have passed; the last turn may end later."""
        end = monotonic() + seconds
        while monotonic() < end:
            self._turn(self.next(), self._seed)
            self._seed += 1

    def next(self) -> str:
        """Return the subject that has run for the shortest time; of several, the first in order."""
        return min(self.spent_s, key=self.spent_s.__getitem__)

    def _turn(self, subject: str, seed: int) -> None:
        began = monotonic()
        arguments = ["tests/soak/run_soak.py", "--only", subject, "--seed", str(seed), "--once"]
        order = {"PYTHONHASHSEED": str(seed % (1 << 32))}
        code, output = run_turn([sys.executable, *arguments], {**os.environ, **order})
        took_s = monotonic() - began
        self.spent_s[subject] += took_s
        self._turns[subject] += 1
        print(f"{subject} {seed}: {took_s:.0f} s, {'failed' if code else 'ok'}", flush=True)
        if code:
            self.failed.append(f"PYTHONHASHSEED={order['PYTHONHASHSEED']} python {' '.join(arguments)}")
            print(f"{output}\nrepeat with: {self.failed[-1]}", flush=True)
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


def run_turn(command: list[str], environment: dict[str, str]) -> tuple[int, str]:
    """Run a turn; return its exit code and output. If it takes too long, kill it and the processes it started."""
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    ) as process:  # fmt: skip
        try:
            output, _ = process.communicate(timeout=LONGEST_S)
            return process.returncode, output
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return 1, f"{process.communicate()[0]}the turn did not end in {LONGEST_S} s"
        except KeyboardInterrupt:
            os.killpg(process.pid, signal.SIGKILL)
            raise


def find_modules() -> None:
    """Let this process and its children import modules of tests and benches by name, as pytest does."""
    paths = [str(ROOT / path) for path in PATHS]
    sys.path[:0] = paths
    os.environ["PYTHONPATH"] = os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")])


if __name__ == "__main__":
    sys.exit(main())
