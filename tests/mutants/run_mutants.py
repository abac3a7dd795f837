"""`make mutants`: removes each defence of the node, one at a time, and checks that its tests fail.

    python tests/mutants/run_mutants.py [--only NAME …] [--jobs N] [--seconds N]

The package is copied, and the tests of the mutants run against the copy: first unchanged, then with one change each.
A mutant is killed if all its tests fail. A mutant that survives shows a defence that no test checks. The exit code is
1 if a mutant survives, if a test does not end by itself, or if a mutant is not a valid program.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

from forked_tests import SOUND, Forks, Report, Task, is_part, prepare
from planted import SOURCE, Mutant, mutants, node_id

INVALID_PROGRAM = re.compile(r"\b(NameError|UnboundLocalError|SyntaxError|ImportError)\b")
KILLED = "killed"


def main() -> int:
    known = mutants()
    parser = argparse.ArgumentParser(description="Remove each defence of the node, and check that its tests fail.")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="mutants whose names contain one of these")
    parser.add_argument(
        "--jobs", type=int, default=2 * (os.cpu_count() or 1), metavar="N", help="mutants at a time [two per core]"
    )
    parser.add_argument(
        "--seconds",
        type=int,
        default=60,
        metavar="N",
        help="limit of a test; it is at least five times the test's time without mutants [60]",
    )
    flags = parser.parse_args()
    chosen = [each for each in known if not flags.only or any(word in each.name for word in flags.only)]
    if not chosen:
        parser.error(f"--only: no mutant has such a name; there are {', '.join(each.name for each in known)}")
    began = monotonic()
    prepare()
    with TemporaryDirectory(prefix="hearsay-mutants-") as folder:
        shutil.copytree(SOURCE, Path(folder, SOUND, "hearsay"), ignore=shutil.ignore_patterns("__pycache__"))
        forks = Forks(Path(folder), flags.jobs)
        try:
            needed_s = sound_tests(forks, sorted({test for each in chosen for test in each.tests}))
        except Unsound as error:
            print(error, file=sys.stderr)
            return 1
        print(f"{len(needed_s)} tests pass before anything is changed", flush=True)
        bad = sorted(survivors(forks, chosen, lambda test: max(flags.seconds, 5 * needed_s[test])))
    killed = f"{len(chosen) - len(bad)} of {len(chosen)} killed, {monotonic() - began:.0f} s"
    print(killed + (f"; not: {', '.join(bad)}" if bad else ""))
    return bool(bad)


class Unsound(Exception):
    """The tests fail before anything is changed."""


def sound_tests(forks: Forks, tests: Sequence[str]) -> dict[str, float]:
    """Return the seconds that each test needs in the unchanged package."""
    files: defaultdict[str, list[str]] = defaultdict(list)
    for test in tests:
        files[node_id(test).partition("::")[0]].append(test)
    tasks = [
        Task(f"sound {Path(file).stem}", tuple(map(node_id, inside)), 60 + 20 * len(inside))
        for file, inside in files.items()
    ]
    needed_s: dict[str, float] = {}
    for task, report in forks.run(tasks):
        for test in tests:
            parts = [name for name in report.passed if is_part(name, node_id(test))]
            if parts:
                needed_s[test] = sum(report.seconds[name] for name in parts)
        if report.code != 0:
            ending = "do not end" if report.code is None else "fail"
            raise Unsound(f"tests {ending} before anything is changed: {task.name}\n{report.said}")
        if report.copy != SOUND:
            raise Unsound(f"{task.name}: the tests imported the package from {report.copy!r}, not from the copy")
    if missing := [test for test in tests if test not in needed_s]:
        raise Unsound(f"tests do not run here: {', '.join(missing)}")
    return needed_s


def survivors(forks: Forks, chosen: Sequence[Mutant], limit_s: Callable[[str], float]) -> Iterator[str]:
    """Print the verdict on each mutant, and yield the names of those that are not killed."""
    width = max(len(each.name) for each in chosen)
    by_name = {each.name: each for each in chosen}
    for task, report in forks.run(tasks_of(chosen, limit_s)):
        verdict = verdict_of(report, by_name[task.name])
        print(f"{task.name:{width}}  {report.took_s:5.1f} s  {verdict}", flush=True)
        if not verdict.startswith(KILLED):
            yield task.name


def tasks_of(chosen: Iterable[Mutant], limit_s: Callable[[str], float]) -> Iterator[Task]:
    for each in chosen:
        tests = tuple(map(node_id, each.tests))
        yield Task(each.name, tests, sum(map(limit_s, each.tests)), each.plant(SOURCE))


def verdict_of(report: Report, mutant: Mutant) -> str:
    if report.code not in (None, 0, 1) or INVALID_PROGRAM.search(report.said):
        return f"INVALID PROGRAM\n{report.said}"
    if report.code is not None and report.copy != mutant.name:
        return f"NOT TESTED: the tests imported the package from {report.copy!r}"
    held = [test for test in mutant.tests if not any(is_part(name, node_id(test)) for name in report.failed)]
    if held and report.code is None:
        return f"DOES NOT END: {', '.join(held)}"
    if held:
        return f"SURVIVED {', '.join(held)}"
    return KILLED if report.failed - report.timed_out else f"{KILLED}: all its tests timed out"


if __name__ == "__main__":
    sys.exit(main())
