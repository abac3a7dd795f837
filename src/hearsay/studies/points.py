"""A study's points and runs: every combination of its axes, resolved, with names that stay.

Rules:

* A point's name is a hash of its resolved scenario without the seed, of the content of the files that this names, and
  of the code that runs it; a run's name adds the seed. So a study that is edited keeps the runs it still needs, and
  edited code repeats its runs.
* Points come in the order of the axes, the last one fastest; runs of a point in the order of the seeds.
* A scenario is sent as text with its files, and runs wherever this program is installed.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from itertools import product
from pathlib import Path

from hearsay.sim.plan.engines import estimate
from hearsay.sim.scenario.scenario import Scenario
from hearsay.sim.scenario.scenario_file import dump_scenario
from hearsay.sim.scenario.tables import MAX_TABLE_BYTES, read_text
from hearsay.studies.checked_file import StudyError
from hearsay.studies.code import code_digest
from hearsay.studies.study_file import MOST_RUNS, Study

_NAME_DIGITS = 12


@dataclass(frozen=True, slots=True)
class Point:
    """One combination of the steps of all axes."""

    name: str
    steps: tuple[int, ...]
    seeds: tuple[int, ...]
    scenario: str
    """The resolved scenario as TOML; its seed is not this study's."""
    files: tuple[tuple[str, str], ...]
    """Files that the scenario names, and what is in them."""
    estimated_s: float

    def run(self, seed: int) -> str:
        return f"{self.name}-{seed}"

    @property
    def runs(self) -> list[str]:
        return [self.run(seed) for seed in self.seeds]


def points_of(study: Study) -> list[Point]:
    """All points; raises `StudyError` with every value that no scenario can have."""
    if study.runs > MOST_RUNS:
        raise StudyError([f"{study.name}: {study.runs:,} runs; must be at most {MOST_RUNS:,}"])
    found: list[Point] = []
    problems: dict[str, None] = {}
    for steps in product(*(range(len(axis.steps)) for axis in study.axes)):
        base = study.base
        for axis, step in zip(study.axes, steps, strict=True):
            settings = axis.settings(step)
            base = base.with_settings(settings, {key: axis.places[step] for key, _ in settings})
        try:
            found.append(point_of(base.scenario(), study.seeds, steps))
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
    """Take a file along under a name of its content: two of one name in two folders must not meet."""
    content = read_text(Path(path), MAX_TABLE_BYTES)
    name = f"{sha256(content.encode()).hexdigest()[:8]}-{Path(path).name}"
    files[name] = content
    return name
