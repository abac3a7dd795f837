"""A study's points and runs: every combination of its axes, resolved, with stable names.

Rules:

* A point's name is a hash of its resolved scenario without the seed, of the files that the scenario names, and
  of the code that runs it; a run's name adds the seed. So an edited study keeps the runs that it still needs, and
  after a change of the code its runs are repeated.
* Points come in the order of the axes, the last one fastest; runs of a point in the order of the seeds.
* A scenario is sent as text with its files, and runs wherever this program is installed.

The code that runs a scenario is this program and the scenario's external routers, which are sent to the tasks: a
module as its file, a package as a zip. Routers that are entry points belong to an installed package, which the tasks'
Python must have; the hash contains the version of that package.
"""

from __future__ import annotations

import shlex
import tomllib
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from importlib.metadata import entry_points
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

from hearsay.core.registry import ENTRY_POINT_GROUP, ROUTERS
from hearsay.sim.plan.engines import estimate
from hearsay.sim.scenario.scenario import Scenario
from hearsay.sim.scenario.scenario_error import ScenarioError
from hearsay.sim.scenario.scenario_file import dump_scenario, load_scenario, preset_names
from hearsay.sim.scenario.tables import MAX_TABLE_BYTES, read_text
from hearsay.studies.checked_file import StudyError
from hearsay.studies.settings import (
    SEED,
    Settings,
    settings_of,
)
from hearsay.studies.study_file import MOST_RUNS, Study
from hearsay.text.escape import value_text
from hearsay.version import __version__

_PACKAGE = Path(__file__).parents[1]
_SUBPACKAGES = ("core", "trace", "sim")
_FIGURES = "studies/packs.py"


def code_digest(scenario: str) -> str:
    """Return a hash of this program's packages that make a run, and of the scenario's external routers."""
    digest = sha256(_own_digest().encode())
    for kind in sorted(set(_routers(scenario)) - set(ROUTERS)):
        digest.update(f"\0{kind}".encode())
        if ":" in kind:
            for name, file in _module_files(_root_of(kind)):
                digest.update(f"\0{name}\0".encode() + file.read_bytes())
        else:
            digest.update("".join(str(point.dist and point.dist.version) for point in _points(kind)).encode())
    return digest.hexdigest()


def carried_modules(scenarios: Iterable[str], work: Path) -> list[Path]:
    """Return the files that tasks need for the routers of these scenarios; zips are written to `work`."""
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
    """Yield the files of a module or package, with their names for imports."""
    spec = find_spec(root)
    if spec is None:
        return
    if spec.submodule_search_locations:
        for location in map(Path, spec.submodule_search_locations):
            for file in sorted(location.rglob("*.py")):
                yield f"{root}/{file.relative_to(location).as_posix()}", file
    elif spec.origin is not None:
        yield Path(spec.origin).name, Path(spec.origin)


def _points(kind: str) -> list[Any]:
    return [point for point in entry_points(group=ENTRY_POINT_GROUP) if point.name == kind]


_NAME_DIGITS = 12


@dataclass(frozen=True, slots=True)
class Point:
    """One combination of the steps of all axes."""

    name: str
    steps: tuple[int, ...]
    seeds: tuple[int, ...]
    scenario: str
    """The resolved scenario as TOML. Runs replace its seed."""
    files: tuple[tuple[str, str], ...]
    """Names and contents of the files that the scenario names."""
    estimated_s: float
    """Estimated seconds of one run."""

    def run(self, seed: int) -> str:
        return f"{self.name}-{seed}"

    @property
    def runs(self) -> list[str]:
        return [self.run(seed) for seed in self.seeds]


def points_of(study: Study) -> list[Point]:
    """Return all points. Raise `StudyError` with every invalid value."""
    if study.runs > MOST_RUNS:
        raise StudyError([f"{study.name}: {study.runs:,} runs; must be at most {MOST_RUNS:,}"])
    found: list[Point] = []
    problems: dict[str, None] = {}
    for steps in product(*(range(len(axis.steps)) for axis in study.axes)):
        try:
            found.append(point_of(study.base.at(study.axes, steps).scenario(), study.seeds, steps))
        except StudyError as error:
            problems |= dict.fromkeys(error.problems)
    if problems:
        raise StudyError(problems)
    return found


def point_of(scenario: Scenario, seeds: tuple[int, ...], steps: tuple[int, ...]) -> Point:
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
    """Add the content of a file to `files` under a name that contains its hash, since files of two folders may have
    the same name; return that name.
    """
    content = read_text(Path(path), MAX_TABLE_BYTES)
    name = f"{sha256(content.encode()).hexdigest()[:8]}-{Path(path).name}"
    files[name] = content
    return name


_KIND, _PRESET = "router.kind", "router.preset"
_FLAGS = {"network.nodes": "--nodes", "workload.messages": "--messages"}
_MAX_LENGTH = 2000


def simulate_command(wanted: Settings, seed: int | None = None) -> str | None:
    """Return the shortest `hearsay simulate` for a resolved scenario; None if only its file describes it."""
    try:
        found = [
            command
            for preset in preset_names()
            if (command := _from_preset(preset, wanted)) is not None
        ]  # fmt: skip
    except ScenarioError:
        return None
    if not found:
        return None
    shown_seed = wanted.get(SEED) if seed is None else seed
    words = [*min(found, key=lambda words: (len(words), sum(map(len, words)))), "--seed", str(shown_seed)]
    command = shlex.join(words)
    return command if len(command) <= _MAX_LENGTH else None


def _from_preset(preset: str, wanted: Settings) -> list[str] | None:
    """Return the words of a command that starts from a preset; None if no command gives the same scenario."""
    router: str | None = None
    overrides: list[tuple[str, object]] = []
    base = load_scenario(None, preset)
    if _settings(base).get(_KIND) != wanted.get(_KIND):
        router = str(wanted.get(_KIND))
        base = load_scenario(None, preset, router=router)
    if _settings(base).get(_PRESET) != wanted.get(_PRESET) and _PRESET in wanted:
        overrides.append((_PRESET, wanted[_PRESET]))
        base = load_scenario(None, preset, overrides, router=router)
    start = _settings(base)
    if set(start) - set(wanted):
        return None
    overrides += [
        (key, value)
        for key, value in wanted.items()
        if key not in (SEED, _KIND, _PRESET) and start.get(key) != value
    ]  # fmt: skip
    made = _settings(load_scenario(None, preset, overrides, router=router))
    if {**made, SEED: 0} != {**wanted, SEED: 0}:
        return None
    words = ["hearsay", "simulate", "--preset", preset]
    if router is not None:
        words += ["--router", router]
    for key, value in sorted(overrides, key=lambda setting: setting[0] not in _FLAGS):
        flag = _FLAGS.get(key)
        words += [flag, str(value)] if flag is not None else ["--set", f"{key}={value_text(value)}"]
    return words


def _settings(scenario: Scenario) -> Settings:
    return settings_of(dump_scenario(scenario))
