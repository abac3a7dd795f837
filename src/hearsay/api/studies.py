"""`sweep` and `compare`: run a study, or compare two scenarios.

`sweep` runs every combination of the values of a study's axes with every seed. `compare` runs two scenarios A and B
with several seeds, and tests if B is better or worse than A. `tune` shares functions with both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hearsay.api.scenarios import Engine
from hearsay.api.table import Table
from hearsay.number_text import plain
from hearsay.pipeline.spark.settings import Where
from hearsay.sim.scenario.reading import read_text
from hearsay.studies import LAST_FIRST_SEED, comparison
from hearsay.studies.checked_file import StudyError
from hearsay.studies.comparison import ComparisonRequest, FigureComparison, figure_named, overall_words, verdict_words
from hearsay.studies.factorial import Effect, effects, planned
from hearsay.studies.packs import Row
from hearsay.studies.points import Point, points_of
from hearsay.studies.processes import choose_pack_maker
from hearsay.studies.results import TABLES, StudyFolder, read_table
from hearsay.studies.runner import Progress, Sweep, Swept
from hearsay.studies.study_file import Study, load_study
from hearsay.studies.study_text import compared_cells, comparison_text, points_cells, points_text
from hearsay.text import html_table, value_text

FOLDER = Path("sweeps")
"""The folder that contains the folders of studies without `out`, relative to the working directory."""
Progresses = Callable[[Progress], None]
"""A function that is called with the progress, at least twice a second while runs are executed."""


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
    """Execute the runs of a study file that are not in the folder `out` yet (default: `sweeps/STUDY`).

    Runs are executed by Spark: embedded, on the cluster `master`, or on the Spark Connect server `remote`. If Spark
    is not installed, local processes execute them. `overrides` has other values for keys of the base scenario, and
    `axes` has other values for axes, by key. `seeds` is a number N for the seeds 1 to N, or the seeds themselves.
    `retry` repeats failed runs. `progress` is called with the progress. The runs and tables are in `out`.

    Raise `StudyError`, whose `problems` has a line for each mistake. A run that fails is not an error of the study:
    `failures` of the result has these runs.
    """
    own_axes = [(key, value_text(list(values))) for key, values in (axes or {}).items()]
    own_seeds = None if seeds is None else tuple(range(1, seeds + 1) if isinstance(seeds, int) else seeds)
    wanted = load_study(Path(study)).changed(own_axes, texts_of(overrides), own_seeds, engine, ("axes", "overrides"))
    points = points_of(wanted)
    with closing(StudyFolder.open(FOLDER / wanted.name if out is None else Path(out))) as folder:
        folder.write_text("study.toml", read_text(Path(study)))
        swept = make_runs(wanted, points, folder, Where(master, remote), progress, again=retry)
    return SweepResult(folder.path, swept)


@dataclass(frozen=True, slots=True)
class SweepResult:
    """The result of `sweep`. The runs and tables are in `folder`."""

    folder: Path
    swept: Swept

    @property
    def runs(self) -> int:
        """Return the number of runs that have finished, including failed runs."""
        return len(self.swept.results)

    @property
    def made(self) -> int:
        """Return the number of runs that this call has executed. Other runs were in the folder before."""
        return self.swept.made

    @property
    def failures(self) -> dict[str, str]:
        """Return the errors of failed runs, by the name of the run."""
        return errors_by_run(self.swept.failures)

    def table(self, name: str) -> Table:
        """Return a table: `runs`, `points`, `sent`, `latency` or `resources`."""
        return table_of(self.folder, name, TABLES)

    def to_json(self) -> dict[str, Any]:
        """Return the object that `hearsay sweep --json` prints, without the path of the report."""
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


def compare(
    a: str | Path,
    b: str | Path | None = None,
    *,
    changes: Mapping[str, object] | None = None,
    both: Mapping[str, object] | None = None,
    seeds: int = 20,
    paired: bool = True,
    engine: Engine = "auto",
    out: str | Path | None = None,
    master: str | None = None,
    remote: str | None = None,
    progress: Progresses | None = None,
    first_seed: int = 1,
    factorial: bool = False,
) -> Comparison:
    """Compare two scenarios, A (`a`) and B (`b`). Each is a file or a preset; without `b`, B is `a` with `changes`.

    `changes` has values for keys of B, and `both` has values for keys of A and B. Each side runs with `seeds` seeds,
    from `first_seed` on. If the sides are not `paired`, B has the seeds after those of A. `factorial` also runs every
    combination of the two or three settings that B changes. Runs are executed as by `sweep`; runs in the folder `out`
    (default: `sweeps/compare-A-B`) are not repeated. The runs and tables are in `out`. Raises `StudyError`, whose
    `problems` has a line for each mistake.
    """
    if not 2 <= seeds <= comparison.MOST_SEEDS:
        raise StudyError([f"seeds = {seeds}: must be in 2…{comparison.MOST_SEEDS}"])
    if not 0 <= first_seed <= LAST_FIRST_SEED:
        raise StudyError([f"first_seed = {first_seed}: must be in 0…{LAST_FIRST_SEED}"])
    of_b, of_both = (tuple(f"{key}={value}" for key, value in texts_of(given)) for given in (changes, both))
    asked = ComparisonRequest(
        str(a), None if b is None else str(b), of_b, of_both, seeds, not paired, engine, first_seed, factorial
    )
    plan = planned(asked, ("both", "changes"))
    with closing(StudyFolder.open(FOLDER / asked.folder_name if out is None else Path(out))) as folder:
        swept = make_runs(plan.study, plan.points, folder, Where(master, remote), progress)
    lines = comparison.compare(plan.points, swept.results)
    found = effects(plan.points, swept.results, lines) if factorial else []
    return Comparison(asked, lines, swept.failures, folder.path, plan.changed, found)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of `compare`: the difference of scenario B from scenario A in each metric. The runs and tables are
    in `folder`.
    """

    asked: ComparisonRequest
    figures: Sequence[FigureComparison]
    failed_runs: Sequence[Row]
    folder: Path
    changed: Sequence[str] = ()
    """The settings in which B differs from A, as KEY=VALUE."""
    effects: Sequence[Effect] = ()
    """The effects of the changed settings on each metric: changes, main effects and interactions. Empty if the
    comparison is not factorial.
    """

    @property
    def words(self) -> str:
        """Return the result of the comparison for all metrics, as a sentence."""
        return plain(overall_words(self.figures, self.asked.names))

    @property
    def failures(self) -> dict[str, str]:
        """Return the errors of failed runs, by the name of the run. A comparison leaves out failed runs."""
        return errors_by_run(self.failed_runs)

    def __getitem__(self, figure: str) -> FigureComparison:
        """Return the comparison of a metric by the metric's name, such as `latency_p99_ms`. Raise `KeyError` for
        others.
        """
        return figure_named(self.figures, figure)

    def table(self, name: str) -> Table:
        """Return a table about all sides: `runs`, `points`, `sent`, `latency` or `resources`."""
        return table_of(self.folder, name, TABLES)

    def to_json(self) -> dict[str, Any]:
        """Return the object that `hearsay compare --json` prints, without the path of the report."""
        a, b = self.asked.names
        return {
            "a": a,
            "b": b,
            "both": list(self.asked.both),
            "seeds": self.asked.seeds,
            "paired": not self.asked.unpaired,
            "command": self.asked.command,
            "words": self.words,
            "figures": [_line_json(line) for line in self.figures],
            "changed": list(self.changed),
            "factorial": [
                {"effect": each.kind, "settings": [self.changed[at] for at in each.settings], **_line_json(each.line)}
                for each in self.effects
            ],
        }

    def __str__(self) -> str:
        return comparison_text(self.asked, self.figures, self.changed, self.effects)

    def _repr_html_(self) -> str:
        a, b = self.asked.names
        head, rows = compared_cells(self.figures)
        return html_table(head, rows, f"A: {a} · B: {b} · {', '.join(self.asked.conditions)}")


def _line_json(line: FigureComparison) -> dict[str, Any]:
    return {
        "figure": line.figure.name,
        "verdict": str(line.verdict),
        "words": plain(verdict_words(line)),
        "detectable": line.detectable,
        **({} if line.difference is None else asdict(line.difference)),
    }


def make_runs(
    study: Study,
    points: Sequence[Point],
    folder: StudyFolder,
    where: Where,
    progress: Progresses | None,
    *,
    again: bool = False,
) -> Swept:
    """Execute the missing runs of a study and, with `again`, the failed runs.

    Raise `StudyError`, `StudyFolderError` or `SparkUnavailable` with the reason.
    """
    sweep = Sweep(study, points, folder, again=again)
    return sweep.run(choose_pack_maker(study, where, say_nothing), progress or say_nothing)


def texts_of(changes: Mapping[str, object] | None) -> list[tuple[str, str]]:
    """Return pairs of a key and the text of its value: a string itself, other values as TOML. None has no pairs."""
    return [(key, value if isinstance(value, str) else value_text(value)) for key, value in (changes or {}).items()]


def table_of(folder: Path, name: str, names: Sequence[str]) -> Table:
    """Return the table `name` of a study's folder. Raise `KeyError` if the name is not in `names`."""
    if name not in names:
        raise KeyError(f"no table {name!r}; there are {', '.join(names)}")
    return Table(read_table(folder, name))


def errors_by_run(failures: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    return {row["run"]: row["error"] for row in failures}


def say_nothing(_: object) -> None: ...
