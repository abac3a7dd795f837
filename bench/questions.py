"""Runs the commands of docs/questions.md and writes below each what it printed, and how long it took.

    python bench/questions.py [--only NUMBER…]

The page is written by hand, but for what the commands printed and how long they took, between `<!-- run -->` and
`<!-- end -->`. The commands of a question run in an empty folder with a copy of `studies/`, so they make all their
runs. The output is left as it is, but for the lines that say where files are and repeat the command.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from record import BUSY, ROOT, commit, machine

PAGE = ROOT / "docs" / "questions.md"
COLUMNS = 112
CUT = ("A: ", "B: ", "both: ", "again: ", "tables: ", "report: ")
"""How lines begin that are left out."""
SECTION = re.compile(r"^## (?P<number>\d+)\. .*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_RUN = re.compile(
    r"(?<=<!-- run -->\n)```\n(?P<command>.*?)\n(?:\n.*?)?```\n(?:\n.*?\n\n)?(?=<!-- end -->)", re.DOTALL
)
_WHERE = re.compile(r"(?<=<!-- where -->\n).*?(?=<!-- end -->)", re.DOTALL)


@dataclass(frozen=True)
class Question:
    """A section of the page: its number, and the commands in it as they are written."""

    number: int
    commands: tuple[str, ...]


def questions(page: str) -> list[Question]:
    """The questions that have commands."""
    found: list[Question] = []
    for section in SECTION.finditer(page):
        commands = tuple(run["command"] for run in _RUN.finditer(section[0]))
        if commands:
            found.append(Question(int(section["number"]), commands))
    return found


def words_of(command: str) -> list[str]:
    """The arguments of hearsay, as a shell would give them."""
    program, *words = shlex.split(command.replace("\\\n", " "))
    if program != "hearsay":
        raise ValueError(f"{program}: a command of the page begins with hearsay")
    return words


def answers(question: Question) -> Iterator[tuple[str, str, float]]:
    """Each command with what it printed and the seconds it took."""
    with TemporaryDirectory(prefix="hearsay-questions-") as folder:
        shutil.copytree(ROOT / "studies", Path(folder) / "studies")
        for command in question.commands:
            started = perf_counter()
            printed = subprocess.run(
                [sys.executable, "-m", "hearsay", *words_of(command)],
                cwd=folder,
                env={**os.environ, "COLUMNS": str(COLUMNS)},
                check=True,
                stdout=subprocess.PIPE,
                text=True,
            ).stdout
            yield command, printed, perf_counter() - started


def shown(printed: str) -> str:
    """Without the lines that are cut and without empty ones next to each other; long ones in several."""
    lines = [line.rstrip() for line in printed.splitlines() if not line.startswith(CUT)]
    lines = [textwrap.fill(line, COLUMNS) if len(line) > COLUMNS else line for line in lines]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n")


def with_answer(page: str, command: str, printed: str, took: str) -> str:
    """The page with what a command printed, and the time it took, below it."""

    def answered(run: re.Match[str]) -> str:
        return f"```\n{command}\n\n{shown(printed)}\n```\n\n{took}\n\n" if run["command"] == command else run[0]

    return _RUN.sub(answered, page)


def with_place(page: str, taken_s: float, busy: float) -> str:
    """The page with the machine, date and commit of a run of all its commands."""
    facts = {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "commit": commit(),
        "all commands together": f"{taken_s / 60:.0f} min",
        "machine": machine(),
        "load average before": f"{busy:.1f}",
    }
    rows = "\n".join(f"| {name} | {value} |" for name, value in facts.items())
    warning = BUSY if busy > len(os.sched_getaffinity(0)) else ""
    return _WHERE.sub(lambda _: f"\n| | |\n| --- | --- |\n{rows}\n\n{warning}", page, count=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    all_of_them = questions(PAGE.read_text(encoding="utf-8"))
    parser.add_argument(
        "--only", nargs="+", type=int, metavar="NUMBER", help="these questions; the table of the page stays"
    )
    only = parser.parse_args().only
    if unknown := set(only or ()) - {question.number for question in all_of_them}:
        parser.error(f"no such question with commands: {', '.join(map(str, sorted(unknown)))}")
    alone = f", by itself on {datetime.now(UTC):%Y-%m-%d} at {commit()}" if only else ""
    busy, taken_s = os.getloadavg()[0], 0.0
    for question in all_of_them:
        if only and question.number not in only:
            continue
        print(f"question {question.number} …", file=sys.stderr, flush=True)
        for command, printed, took_s in answers(question):
            taken_s += took_s
            page = PAGE.read_text(encoding="utf-8")
            PAGE.write_text(with_answer(page, command, printed, f"Took {took_s:.0f} s{alone}."), encoding="utf-8")
    if not only:
        PAGE.write_text(with_place(PAGE.read_text(encoding="utf-8"), taken_s, busy), encoding="utf-8")


if __name__ == "__main__":
    main()
