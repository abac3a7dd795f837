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
from collections.abc import Sequence
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
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="at a time [all cores]")
    parser.add_argument("--seconds", type=int, default=30, metavar="N", help="for the tests of one mutant [30]")
    flags = parser.parse_args()
    chosen = [each for each in known if not flags.only or any(word in each.name for word in flags.only)]
    if not chosen:
        parser.error(f"there are {', '.join(each.name for each in known)}")
    with TemporaryDirectory(prefix="hearsay-mutants-") as folder:
        sound = Path(folder) / "sound"
        shutil.copytree(SOURCE, sound / "hearsay", ignore=shutil.ignore_patterns("__pycache__"))
        failure = failure_of_the_sound(sound, chosen)
        if failure:
            print(failure, file=sys.stderr)
            return 1
        width = max(len(each.name) for each in chosen)
        bad = []
        with ThreadPoolExecutor(flags.jobs) as pool:
            running = {pool.submit(result, each, sound, flags.seconds): each for each in chosen}
            for done in as_completed(running):
                mutant, (verdict, took_s) = running[done], done.result()
                print(f"{mutant.name:{width}}  {took_s:5.1f} s  {verdict}", flush=True)
                if not verdict.startswith("killed"):
                    bad.append(mutant.name)
    print(f"{len(chosen) - len(bad)} of {len(chosen)} killed" + (f"; not: {', '.join(sorted(bad))}" if bad else ""))
    return bool(bad)


def failure_of_the_sound(sound: Path, chosen: list[Mutant]) -> str:
    """What is wrong before anything is changed; nothing, if all is well."""
    where = subprocess.run(
        [sys.executable, "-c", "import hearsay; print(hearsay.__file__)"],
        capture_output=True, text=True, check=True, env=environment(sound),
    )  # fmt: skip
    if not Path(where.stdout.strip()).is_relative_to(sound):
        return f"the copy is not what would be tested, but {where.stdout.strip()}"
    names = sorted({test for each in chosen for test in each.tests})
    done = pytest(sound, names, 60 + 20 * len(names))
    if done is None or done.returncode:
        return "the tests fail before anything is changed" + (f":\n{done.stdout}" if done else "")
    return ""


def result(mutant: Mutant, sound: Path, seconds: int) -> tuple[str, float]:
    """What became of a mutant, and how long that took."""
    began = monotonic()
    folder = sound.with_name(mutant.name)
    shutil.copytree(sound, folder)
    try:
        for file, text in mutant.plant(folder / "hearsay").items():
            (folder / "hearsay" / file).write_text(text, encoding="utf-8")
        verdict = verdict_on(mutant, folder, seconds)
    except ValueError as error:
        verdict = str(error)
    finally:
        shutil.rmtree(folder)
    return verdict, monotonic() - began


def verdict_on(mutant: Mutant, package: Path, seconds: int) -> str:
    done = pytest(package, mutant.tests, seconds)
    if done is not None:
        return verdict_of(done, mutant.tests)
    if len(mutant.tests) == 1:
        return "killed: the test does not end"
    alone = [(pytest(package, [test], seconds), test) for test in mutant.tests]
    verdicts = [verdict_of(done, [test]) for done, test in alone if done is not None]
    return next((verdict for verdict in verdicts if verdict != "killed"), "killed: not all of the tests end")


def verdict_of(done: subprocess.CompletedProcess[str], tests: Sequence[str]) -> str:
    if done.returncode not in (0, 1) or NO_PROGRAM.search(done.stdout):
        return f"NO PROGRAM\n{done.stdout}"
    failed = [line.split(" ")[1] for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    held = [test for test in tests if not any(name.startswith(node_id(test)) for name in failed)]
    return f"SURVIVED {', '.join(held)}" if held else "killed"


def pytest(package: Path, tests: Sequence[str], seconds: int) -> subprocess.CompletedProcess[str] | None:
    """The tests against a copy of the package; None if they, or programs that they start, do not end in time."""
    options = ["-q", "-rfE", "--tb=line", "-p", "no:cacheprovider", "-p", "same_examples"]
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
