"""`sweep`: run every combination of a study's axes with every seed. Finished runs are kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hearsay.api.simulations import Engine
from hearsay.api.table import Table
from hearsay.pipeline.spark.place import Where
from hearsay.sim.scenario.tables import read_text
from hearsay.studies.folder import StudyFolder, read_table
from hearsay.studies.points import Point, points_of
from hearsay.studies.processes import choose_pack_maker
from hearsay.studies.runner import Progress, Sweep, Swept
from hearsay.studies.study_file import Study, load_study
from hearsay.studies.study_text import points_cells, points_text
from hearsay.studies.tables import TABLES
from hearsay.text.escape import value_text
from hearsay.text.tables import html_table

FOLDER = Path("sweeps")
"""Folder of studies without `out`, as for the commands."""

Progresses = Callable[[Progress], None]


def texts_of(changes: Mapping[str, object] | None) -> list[tuple[str, str]]:
    """Return changed keys with their values as text, in the form of `--set`."""
    return [(key, value if isinstance(value, str) else value_text(value)) for key, value in (changes or {}).items()]


def make_runs(
    study: Study,
    points: Sequence[Point],
    folder: StudyFolder,
    where: Where,
    progress: Progresses | None,
    *,
    again: bool = False,
) -> Swept:
    """Make the missing runs. Raises `StudyError`, `StudyFolderError` or `SparkUnavailable` with the reason."""
    sweep = Sweep(study, points, folder, again=again)
    return sweep.run(choose_pack_maker(study, where, say_nothing), progress or say_nothing)


def table_of(folder: Path, name: str, names: Sequence[str]) -> Table:
    """Return a table of a study's folder; `names` are the tables that exist."""
    if name not in names:
        raise KeyError(f"no table {name!r}; there are {', '.join(names)}")
    return Table(read_table(folder, name))


def errors_by_run(failures: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    return {row["run"]: row["error"] for row in failures}


def say_nothing(_: object) -> None: ...


@dataclass(frozen=True, slots=True)
class SweepResult:
    """The result of a study; its tables are in `folder`."""

    folder: Path
    swept: Swept

    @property
    def runs(self) -> int:
        """Return the number of runs with results."""
        return len(self.swept.results)

    @property
    def made(self) -> int:
        """Return the number of these runs that this call has made."""
        return self.swept.made

    @property
    def failures(self) -> dict[str, str]:
        """Return the errors of failed runs, by run."""
        return errors_by_run(self.swept.failures)

    def table(self, name: str) -> Table:
        """Return a table: `runs`, `points`, `sent`, `latency` or `resources`."""
        return table_of(self.folder, name, TABLES)

    def to_json(self) -> dict[str, Any]:
        """Return what `hearsay sweep --json` prints, except the path of the report."""
        return {
            "study": self.swept.study.name,
            "folder": str(self.folder),
            "runs": self.runs,
            "made": self.made,
            "failed": len(self.failures),
        }

    def __str__(self) -> str:
        return points_text(self.swept)

    def _repr_html_(self) -> str:
        return html_table(*points_cells(self.swept), self.swept.study.title, left=len(self.swept.study.axes))


def sweep(
    study: str | Path,
    overrides: Mapping[str, object] | None = None,
    *,
    axes: Mapping[str, Sequence[object]] | None = None,
    seeds: int | Sequence[int] | None = None,
    engine: Engine | None = None,
    out: str | Path | None = None,
    retry: bool = False,
    master: str | None = None,
    remote: str | None = None,
    progress: Progresses | None = None,
) -> SweepResult:
    """Make the runs of a study file that do not exist yet, on Spark, or in local processes if Spark is not installed.

    Spark is embedded, or runs on the cluster of `master` or the server `remote`. `overrides` changes keys of the base
    scenario, `axes` the values on an axis; `seeds` is a count, or the seeds themselves. `retry` repeats failed runs.
    Runs and tables are in `out` (default: `sweeps/STUDY`).
    """
    own_axes = [(key, value_text(list(values))) for key, values in (axes or {}).items()]
    own_seeds = None if seeds is None else tuple(range(1, seeds + 1) if isinstance(seeds, int) else seeds)
    wanted = load_study(Path(study)).changed(own_axes, texts_of(overrides), own_seeds, engine)
    points = points_of(wanted)
    folder = StudyFolder.open(FOLDER / wanted.name if out is None else Path(out))
    try:
        folder.write_text("study.toml", read_text(Path(study)))
        swept = make_runs(wanted, points, folder, Where(master, remote), progress, again=retry)
    finally:
        folder.release()
    return SweepResult(folder.path, swept)
