"""A study's points and runs. A point is a combination of one step of each axis: a scenario with a stable name.

Rules:

* A point's name is a hash of its resolved scenario without the seed, of the files that the scenario names, and of the
  code that runs the scenario. A run's name is its point's name and its seed. So the runs of an edited study that have
  not changed are found again, and after a change of the code all runs are repeated.
* Points are in the order of the axes and of their steps; the step of the last axis changes fastest. Runs of a point
  are in the order of the seeds.
* A task receives its scenario as text, with the files of the scenario, and runs wherever this program is installed.

The code that runs a scenario is this program (the files of `_SUBPACKAGES` and `packs.py`, and its version) and the
scenario's external routers. An external router MODULE:NAME is sent to the tasks: a module as its file, a package as a
zip. A router that is an entry point belongs to an installed package, which the tasks' Python must have; the hash
contains only the version of that package.
"""

from __future__ import annotations

import tomllib
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from hashlib import sha256
from importlib.metadata import entry_points
from importlib.util import find_spec
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from hearsay.core.registry import ENTRY_POINT_GROUP, ROUTERS
from hearsay.sim.plan.engines import estimate
from hearsay.sim.scenario.reading import MAX_TABLE_BYTES, read_text
from hearsay.sim.scenario.scenario_file import dump_scenario
from hearsay.studies.axes import Base
from hearsay.studies.checked_file import StudyError, all_of
from hearsay.studies.study_file import MOST_RUNS, Study
from hearsay.version import __version__

_PACKAGE = Path(__file__).parents[1]
_SUBPACKAGES = ("core", "trace", "sim")
_FIGURES = "studies/packs.py"


def code_digest(scenario: str) -> str:
    """Return a hash of the code that runs a scenario, which is given as TOML."""
    digest = sha256(_own_digest().encode())
    for kind in sorted(set(_routers(scenario)) - set(ROUTERS)):
        digest.update(f"\0{kind}".encode())
        if ":" in kind:
            for name, file in _module_files(_root_of(kind)):
                digest.update(f"\0{name}\0".encode() + file.read_bytes())
        else:
            found: Iterable[Any] = entry_points(group=ENTRY_POINT_GROUP, name=kind)
            digest.update("".join(str(point.dist and point.dist.version) for point in found).encode())
    return digest.hexdigest()


def carried_modules(scenarios: Iterable[str], work: Path) -> list[Path]:
    """Return the paths of modules and zips with the external routers of these scenarios (as TOML). Write the zips to
    the folder `work`.
    """
    roots = sorted({_root_of(kind) for text in set(scenarios) for kind in _routers(text) if ":" in kind})
    carried: list[Path] = []
    for root in roots:
        files = list(_module_files(root))
        if root == "hearsay" or not files:
            continue
        if len(files) == 1 and "/" not in files[0][0]:
            carried.append(files[0][1])
            continue
        carried.append(work / f"{root}.zip")
        with zipfile.ZipFile(carried[-1], "w", zipfile.ZIP_DEFLATED) as archive:
            for name, file in files:
                archive.write(file, name)
    return carried


@lru_cache(maxsize=1)
def _own_digest() -> str:
    digest = sha256(__version__.encode())
    files = [file for name in _SUBPACKAGES for file in sorted((_PACKAGE / name).rglob("*.py"))]
    for file in (*files, _PACKAGE / _FIGURES):
        digest.update(f"\0{file.relative_to(_PACKAGE).as_posix()}\0".encode() + file.read_bytes())
    return digest.hexdigest()


def _routers(scenario: str) -> Iterator[str]:
    document: dict[str, Any] = tomllib.loads(scenario)
    yield document["router"]["kind"]
    for population in document.get("population", ()):
        yield population["router"]["kind"]


def _root_of(kind: str) -> str:
    return kind.partition(":")[0].partition(".")[0]


def _module_files(root: str) -> Iterator[tuple[str, Path]]:
    """Yield for each Python file of a module or package its path relative to the entry of `sys.path`, and its full
    path. Yield nothing if there is no such module.
    """
    spec = find_spec(root)
    if spec is None:
        return
    if spec.submodule_search_locations:
        for location in map(Path, spec.submodule_search_locations):
            for file in sorted(location.rglob("*.py")):
                yield f"{root}/{file.relative_to(location).as_posix()}", file
    elif spec.origin is not None:
        yield Path(spec.origin).name, Path(spec.origin)


_NAME_DIGITS = 12


@dataclass(frozen=True, slots=True)
class Point:
    """A combination of one step of each axis, with the seeds of its runs."""

    name: str
    steps: tuple[int, ...]
    """Index of the step on each axis."""
    seeds: tuple[int, ...]
    scenario: str
    """The resolved scenario as TOML. Runs replace its seed."""
    files: tuple[tuple[str, str], ...]
    """Names and contents of the files that the scenario names."""
    estimated_s: float
    """Estimated seconds of one run."""

    def run_name(self, seed: int) -> str:
        """Return the name of the run with this seed."""
        return f"{self.name}-{seed}"

    @property
    def run_names(self) -> list[str]:
        """Return the names of all runs, in the order of the seeds."""
        return [self.run_name(seed) for seed in self.seeds]


def points_of(study: Study) -> list[Point]:
    """Return all points of a study. Raise `StudyError` with every invalid value, or if there are too many runs."""
    runs = prod((len(axis.steps) for axis in study.axes), start=len(study.seeds))
    if runs > MOST_RUNS:
        raise StudyError([f"{study.name}: {runs:,} runs; must be at most {MOST_RUNS:,}"])
    combinations = product(*(range(len(axis.steps)) for axis in study.axes))
    return all_of(partial(point_of, study.base.at(study.axes, steps), study.seeds, steps) for steps in combinations)


def point_of(base: Base, seeds: tuple[int, ...], steps: tuple[int, ...]) -> Point:
    """Return the point with the scenario of `base`. `steps` has the index of the step on each axis of the study.
    Raise `StudyError` if a value of the scenario is invalid.
    """
    scenario = base.scenario()
    files: dict[str, str] = {}
    network, links = scenario.network, scenario.links
    if network.edges_file is not None:
        network = network.model_copy(update={"edges_file": _carry(network.edges_file, files)})
    if links.regions_file is not None:
        links = links.model_copy(update={"regions_file": _carry(links.regions_file, files)})
    text = dump_scenario(scenario.model_copy(update={"seed": 0, "network": network, "links": links}))
    digest = sha256(f"{code_digest(text)}\0{text}".encode())
    for name, content in sorted(files.items()):
        digest.update(f"\0{name}\0{content}".encode())
    name = digest.hexdigest()[:_NAME_DIGITS]
    seconds = max(1e-3, estimate(scenario).seconds)
    return Point(name, steps, seeds, text, tuple(sorted(files.items())), seconds)


def _carry(path: str, files: dict[str, str]) -> str:
    """Add the content of a file to `files`, and return the key in `files`. The key is the name of the file after a
    hash of the content, since files of two folders may have the same name.
    """
    content = read_text(Path(path), MAX_TABLE_BYTES)
    name = f"{sha256(content.encode()).hexdigest()[:8]}-{Path(path).name}"
    files[name] = content
    return name
