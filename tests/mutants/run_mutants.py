"""`make mutants`: takes each defence of the node away, one at a time, and shows that its tests fail.

    python tests/mutants/run_mutants.py [--only NAME …] [--jobs N] [--seconds N]

The package is copied, and the tests that are named run against the copy: first as it is, then with one change. A
mutant is killed when every one of its tests fails, or does not end in time. One that survives is a defence that no
test holds; then, and when a mutant is no program any more, the exit code is 1.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

from planted import SOURCE, Mutant, mutants, node_id

ROOT = SOURCE.parents[1]
NO_PROGRAM = re.compile(r"\b(NameError|UnboundLocalError|SyntaxError|ImportError)\b")


def main() -> int:
    known = mutants()
    parser = argparse.ArgumentParser(description="Take each defence of the node away and see its tests fail.")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="mutants whose names contain one of these")
    parser.add_argument(
        "--jobs",
        type=int,
        default=2 * (os.cpu_count() or 1),
        metavar="N",
        help="at a time [two per core]",
    )
    parser.add_argument(
        "--seconds", type=int, default=15, metavar="N", help="for a test, or five times what it needs unbroken [15]"
    )
    flags = parser.parse_args()
    chosen = [each for each in known if not flags.only or any(word in each.name for word in flags.only)]
    if not chosen:
        parser.error(f"there are {', '.join(each.name for each in known)}")
    with TemporaryDirectory(prefix="hearsay-mutants-") as folder:
        sound = Path(folder) / "sound"
        shutil.copytree(SOURCE, sound / "hearsay", ignore=shutil.ignore_patterns("__pycache__"))
        try:
            needed_s = sound_tests(sound, sorted({test for each in chosen for test in each.tests}))
        except Unsound as error:
            print(error, file=sys.stderr)
            return 1
        bad = sorted(survivors(chosen, sound, flags.jobs, lambda test: max(flags.seconds, 5 * needed_s[test])))
    print(f"{len(chosen) - len(bad)} of {len(chosen)} killed" + (f"; not: {', '.join(bad)}" if bad else ""))
    return bool(bad)


def survivors(chosen: list[Mutant], sound: Path, jobs: int, limit_s: Callable[[str], float]) -> Iterator[str]:
    """The names of mutants that are not killed; what becomes of each is printed."""
    width = max(len(each.name) for each in chosen)
    pool = ThreadPoolExecutor(jobs)
    try:
        running = {pool.submit(result, each, sound, limit_s): each for each in chosen}
        for done in as_completed(running):
            mutant, (verdict, took_s) = running[done], done.result()
            print(f"{mutant.name:{width}}  {took_s:5.1f} s  {verdict}", flush=True)
            if not verdict.startswith("killed"):
                yield mutant.name
    finally:
        pool.shutdown(cancel_futures=True)


class Unsound(Exception):
    """The tests fail before anything is changed."""


def sound_tests(sound: Path, tests: Sequence[str]) -> dict[str, float]:
    """How long each test needs when all is well."""
    where = subprocess.run(
        [sys.executable, "-c", "import hearsay; print(hearsay.__file__)"],
        capture_output=True, text=True, check=True, env=environment(sound),
    )  # fmt: skip
    if not Path(where.stdout.strip()).is_relative_to(sound):
        raise Unsound(f"the copy is not what would be tested, but {where.stdout.strip()}")
    done = pytest(sound, tests, 60 + 20 * len(tests), "-vv", "--durations=0")
    if done is None or done.returncode:
        raise Unsound(
            "the tests fail, or do not end, before anything is changed" + (f":\n{done.stdout}" if done else "")
        )
    phases = re.findall(r"^([\d.]+)s \w+ +(\S+)", done.stdout, re.MULTILINE)
    return {test: sum(float(took_s) for took_s, name in phases if is_part(name, test)) for test in tests}


def result(mutant: Mutant, sound: Path, limit_s: Callable[[str], float]) -> tuple[str, float]:
    """What became of a mutant, and how long that took."""
    began = monotonic()
    folder = sound.with_name(mutant.name)
    shutil.copytree(sound, folder)
    try:
        for file, text in mutant.plant(folder / "hearsay").items():
            (folder / "hearsay" / file).write_text(text, encoding="utf-8")
        verdict = verdict_on(mutant, folder, limit_s)
    except ValueError as error:
        verdict = str(error)
    finally:
        shutil.rmtree(folder)
    return verdict, monotonic() - began


def verdict_on(mutant: Mutant, package: Path, limit_s: Callable[[str], float]) -> str:
    done = pytest(package, mutant.tests, sum(map(limit_s, mutant.tests)))
    if done is not None:
        return verdict_of(done, mutant.tests)
    if len(mutant.tests) == 1:
        return "killed: the test does not end"
    alone = [(pytest(package, [test], limit_s(test)), test) for test in mutant.tests]
    verdicts = [verdict_of(done, [test]) for done, test in alone if done is not None]
    return next((verdict for verdict in verdicts if verdict != "killed"), "killed: not all of the tests end")


def verdict_of(done: subprocess.CompletedProcess[str], tests: Sequence[str]) -> str:
    if done.returncode not in (0, 1) or NO_PROGRAM.search(done.stdout):
        return f"NO PROGRAM\n{done.stdout}"
    failed = [line.split(" ")[1] for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    held = [test for test in tests if not any(is_part(name, test) for name in failed)]
    return f"SURVIVED {', '.join(held)}" if held else "killed"


def is_part(name: str, test: str) -> bool:
    """Whether this is the test, with some parameters, or a method of it."""
    whole = node_id(test)
    return name == whole or name.startswith((f"{whole}[", f"{whole}::"))


def pytest(
    package: Path, tests: Sequence[str], seconds: float, *more: str
) -> subprocess.CompletedProcess[str] | None:
    """The tests against a copy of the package; None if they, or programs that they start, do not end in time."""
    options = ["-q", "-rfE", "--tb=line", "-p", "no:cacheprovider", "--hypothesis-profile=mutants", *more]
    with subprocess.Popen(
        [sys.executable, "-m", "pytest", *options, *map(node_id, tests)],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment(package),
        start_new_session=True,
    ) as process:  # fmt: skip
        try:
            said, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return None
    return subprocess.CompletedProcess(process.args, process.returncode, said)


def environment(package: Path) -> dict[str, str]:
    path = os.pathsep.join((str(package), str(Path(__file__).parent)))
    return {**os.environ, "PYTHONPATH": path, "COLUMNS": "160", "HYPOTHESIS_STORAGE_DIRECTORY": str(package)}


if __name__ == "__main__":
    sys.exit(main())
