"""Finds the changes of the source that the test vectors find by themselves, for each named file of mutants.

python tests/mutants/vectors_and_mutants.py [scores judging …]
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from forked_tests import SOUND, copy_with_changes, environment
from planted import SOURCE, Mutant, mutants_of

VECTORS = SOURCE.parents[1] / "vectors"
USUAL = ("scores", "judging", "vectors")
FOUND = 1


def found_by_vectors(mutants: Sequence[Mutant]) -> Iterator[tuple[Mutant, bool]]:
    """Yield each mutant, and whether a vector fails with it.

    Raise `RuntimeError` if a vector fails without a change.
    """
    with TemporaryDirectory(prefix="hearsay-vectors-") as folder:
        sound = Path(folder, SOUND)
        shutil.copytree(SOURCE, sound / "hearsay", ignore=shutil.ignore_patterns("__pycache__"))
        if run_vectors(sound):
            raise RuntimeError("vectors fail before anything is changed")
        for mutant in mutants:
            package = Path(folder, mutant.name)
            copy_with_changes(mutant.plant(SOURCE), package / "hearsay", sound / "hearsay")
            yield mutant, run_vectors(package) == FOUND


def run_vectors(package: Path) -> int:
    """Run the vectors on a copy of the package; return the exit code. Python must not write bytecode files:
    it would use them also after a change within the same second.
    """
    return subprocess.run(
        [sys.executable, "-B", "-m", "hearsay", "vectors", VECTORS],
        env=environment(package), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120,
    ).returncode  # fmt: skip


def main() -> None:
    for file in sys.argv[1:] or USUAL:
        results = list(found_by_vectors(mutants_of(file)))
        print(f"{file}: {sum(found for _, found in results)} of {len(results)}")
        for mutant, found in results:
            print(f"  {'found ' if found else 'missed'} {mutant.name}", flush=True)


if __name__ == "__main__":
    main()
