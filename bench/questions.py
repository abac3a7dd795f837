"""Run the commands of docs/questions.md, and print the lines of the page that the commands do not print.

    python bench/questions.py [NUMBER…]

On the page, a block `text` below a command has lines of the command's output. The commands of a question run in a new
folder that has only a copy of `studies/`, so they make all their runs. The exit code is 1 if a line is missing.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "questions.md"
COLUMNS = 112
_SECTION = re.compile(r"^## (?P<number>\d+)\. .*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_RUN = re.compile(r"^```sh\n(?P<command>.*?)\n```\n\n```text\n(?P<printed>.*?)\n```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Run:
    """A command of the page, and lines that it prints."""

    command: str
    lines: tuple[str, ...]

    @property
    def words(self) -> list[str]:
        """The command's arguments for `hearsay`."""
        program, *words = shlex.split(self.command.replace("\\\n", " "))
        if program != "hearsay":
            raise ValueError(f"{program}: a command of the page begins with hearsay")
        return words


def questions(page: str) -> dict[int, list[Run]]:
    """Return the runs of each question by its number; a question without an answer has none."""
    return {
        int(section["number"]): [
            Run(run["command"], tuple(run["printed"].splitlines())) for run in _RUN.finditer(section[0])
        ]
        for section in _SECTION.finditer(page)
    }


def missing(runs: Sequence[Run]) -> list[str]:
    """Run the commands of a question and return the lines of the page that they do not print."""
    lines: list[str] = []
    with TemporaryDirectory(prefix="hearsay-questions-") as folder:
        shutil.copytree(ROOT / "studies", Path(folder) / "studies")
        for run in runs:
            printed = subprocess.run(
                [sys.executable, "-m", "hearsay", *run.words],
                cwd=folder,
                env={**os.environ, "COLUMNS": str(COLUMNS)},
                check=True,
                stdout=subprocess.PIPE,
                text=True,
            ).stdout
            there = {line.rstrip() for line in printed.splitlines()}
            lines += [line for line in run.lines if line not in there]
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("numbers", nargs="*", type=int, metavar="NUMBER", help="number of a question [default: all]")
    answered = {number: runs for number, runs in questions(PAGE.read_text(encoding="utf-8")).items() if runs}
    numbers = parser.parse_args().numbers or list(answered)
    if unknown := set(numbers) - set(answered):
        parser.error(f"no such question with commands: {', '.join(map(str, sorted(unknown)))}")
    changed = 0
    for number in numbers:
        started = perf_counter()
        lines = missing(answered[number])
        print(f"question {number}: {perf_counter() - started:.0f} s, {len(lines)} lines differ", flush=True)
        print("".join(f"  {line}\n" for line in lines), end="", flush=True)
        changed += len(lines)
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
