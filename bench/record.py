"""Run benches, and write their output into docs/benchmarks, with machine, date and commit: `make bench`.

    python bench/record.py [--quick] [BENCH…]

Each bench has a page. The text above its heading `Last run` is written by hand and stays; the rest is replaced. The
index `docs/benchmarks/index.md` lists the last runs of all pages. `--quick` uses small sizes. Then a bench shows that
it works, but not the speed.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "benchmarks"
LAST_RUN = "## Last run\n"
BUSY = "Other programs kept all cores busy, so the times say little.\n\n"
LISTED = "## Written by `make bench`\n"
_RUN = re.compile(r"\| date \| (?P<date>.*) \|\n\| commit \| (?P<commit>.*) \|\n\| command \| (?P<command>.*) \|")


@dataclass(frozen=True)
class Bench:
    """A script of this folder, with the arguments of a full and of a quick run."""

    script: str
    full: str
    quick: str

    @property
    def page(self) -> Path:
        return PAGES / f"{self.script.replace('_', '-')}.md"


BENCHES = (
    Bench("simsub_tables", "--engine array 400", "--engine array 20 1 4"),
    Bench("compare_routers", "", "200 10"),
    Bench("idontwant_series", "", "100 1000 500000"),
    Bench("engine_speed", "", "1"),
    Bench("array_speed", "--nodes 1000 100000 1000000", "--nodes 1000 100000 --reference-up-to 0"),
    Bench("trace_speed", "", "--pairs 1"),
    Bench("pipeline_speed", "", "1000000 1"),
    Bench("ingest_speed", "", "--events 200000"),
    Bench("many_nodes", "", "30"),
)


def machine() -> str:
    """Return the processor, the number of cores that this process may use, memory, system and version of Python."""
    processor = re.search(r"^model name\s*: (.*)$", _text("/proc/cpuinfo"), re.MULTILINE)
    memory = re.search(r"^MemTotal: +(\d+) kB$", _text("/proc/meminfo"), re.MULTILINE)
    parts = [
        processor[1] if processor else platform.processor() or platform.machine(),
        f"{len(os.sched_getaffinity(0))} cores",
        f"{int(memory[1]) / 2**20:.0f} GiB" if memory else "",
        f"{platform.system()} {platform.machine()}",
        f"Python {platform.python_version()}",
    ]
    return ", ".join(part for part in parts if part)


def _text(path: str) -> str:
    return Path(path).read_text(encoding="utf-8") if Path(path).is_file() else ""


def commit() -> str:
    """Return the measured commit, with a note if `src` or `bench` has changes."""
    changed = _git("status", "--porcelain", "--", "src", "bench")
    return f"`{_git('rev-parse', '--short=10', 'HEAD')}`" + (", with changes" if changed else "")


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def run(bench: Bench, arguments: str) -> str:
    """Run a bench; return the section for its page: command, time, machine and printed text."""
    measured, busy = commit(), os.getloadavg()[0]
    started = perf_counter()
    command = [sys.executable, str(ROOT / "bench" / f"{bench.script}.py"), *arguments.split()]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip("\n")
    printed = printed.replace(str(Path.home()), "~")
    facts = {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "commit": measured,
        "command": f"`python bench/{bench.script}.py {arguments}".rstrip() + "`",
        "took": f"{perf_counter() - started:.0f} s",
        "machine": machine(),
        "load average before": f"{busy:.1f}",
    }
    table = "\n".join(f"| {name} | {value} |" for name, value in facts.items())
    warning = BUSY if busy > len(os.sched_getaffinity(0)) else ""
    shown = printed if re.search(r"^\| ?--- ", printed, re.MULTILINE) else f"```text\n{printed}\n```"
    return f"{LAST_RUN}\n| | |\n| --- | --- |\n{table}\n\n{warning}{shown}\n"


def replace_last_run(page: Path, section: str) -> None:
    by_hand = page.read_text(encoding="utf-8").partition(LAST_RUN)[0]
    page.write_text(f"{by_hand.rstrip()}\n\n{section}", encoding="utf-8")


def updated_index(index: str) -> str:
    """Return the index with a table of the last runs: date, commit and command of each bench."""
    lines = ["| bench | date | commit | command |", "| --- | --- | --- | --- |"]
    for bench in BENCHES:
        text = bench.page.read_text(encoding="utf-8")
        title = text.partition("\n")[0].removeprefix("# ")
        last = _RUN.search(text.partition(LAST_RUN)[2])
        facts = [last["date"], last["commit"], last["command"]] if last else ["not yet", "", ""]
        lines.append(f"| [{title}]({bench.page.name}) | {' | '.join(facts)} |")
    by_hand = index.partition(LISTED)[0]
    table = "\n".join(lines)
    return f"{by_hand.rstrip()}\n\n{LISTED}\n{table}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [bench.script for bench in BENCHES]
    parser.add_argument("benches", nargs="*", metavar="BENCH", help=f"one of {', '.join(names)} [default: all]")
    parser.add_argument("--quick", action="store_true", help="small sizes")
    options = parser.parse_args()
    if unknown := set(options.benches) - set(names):
        parser.error(f"no such bench: {', '.join(sorted(unknown))}")
    for bench in BENCHES:
        if not options.benches or bench.script in options.benches:
            print(f"{bench.script} …", file=sys.stderr, flush=True)
            replace_last_run(bench.page, run(bench, bench.quick if options.quick else bench.full))
            index = PAGES / "index.md"
            index.write_text(updated_index(index.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
