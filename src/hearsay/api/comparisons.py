"""`compare`: run two scenarios on the same seeds. B is better, worse, or not measurably different."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hearsay.api.simulations import Engine
from hearsay.api.sweeps import FOLDER, Progresses, errors_by_run, make_runs, table_of, texts_of
from hearsay.api.table import Table
from hearsay.pipeline.spark.place import Where
from hearsay.studies import comparison
from hearsay.studies.checked_file import StudyError
from hearsay.studies.comparison import (
    ComparisonRequest,
    FigureComparison,
    figure_named,
    overall_words,
    verdict_words,
)
from hearsay.studies.factorial import Effect, effects, planned
from hearsay.studies.folder import StudyFolder
from hearsay.studies.packs import Row
from hearsay.studies.study_text import compared_cells, comparison_text
from hearsay.studies.tables import TABLES
from hearsay.text.numbers import plain
from hearsay.text.tables import html_table


@dataclass(frozen=True, slots=True)
class Comparison:
    """The differences between B and A in all metrics. Runs and tables are in `folder`."""

    asked: ComparisonRequest
    figures: Sequence[FigureComparison]
    failed_runs: Sequence[Row]
    folder: Path
    changed: Sequence[str] = ()
    """The settings that B changes."""
    effects: Sequence[Effect] = ()
    """Each metric's main effects and interactions, if the comparison is factorial."""

    @property
    def words(self) -> str:
        """Return the result of all figures in a few sentences."""
        return plain(overall_words(self.figures, self.asked.names))

    @property
    def failures(self) -> dict[str, str]:
        """Return the errors of failed runs, by run. Failed runs count on neither side."""
        return errors_by_run(self.failed_runs)

    def __getitem__(self, figure: str) -> FigureComparison:
        """Return the difference in a figure: `delivery_ratio`, `latency_p99_ms`, …"""
        return figure_named(self.figures, figure)

    def table(self, name: str) -> Table:
        """Return a table of both sides: `runs`, `points`, `sent`, `latency` or `resources`."""
        return table_of(self.folder, name, TABLES)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON of `hearsay compare --json`, without its report."""
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
                {"effect": each.kind, "settings": [self.changed[place] for place in each.of], **_line_json(each.line)}
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
    """Compare two scenarios, each a file or a preset; without `b`, compare `a` with `a` changed by `changes`.

    Runs are made on Spark, or in local processes if Spark is not installed. `changes` are keys of B, `both` are keys
    of both sides. Seeds begin with `first_seed`; unpaired sides have seeds of their own. `factorial` runs each of two
    or three changed settings alone, too. Runs and tables are in `out` (default: `sweeps/compare-A-B`).
    """
    if not 2 <= seeds <= comparison.MOST_SEEDS:
        raise StudyError([f"seeds = {seeds}: must be in 2…{comparison.MOST_SEEDS}"])
    if not 0 <= first_seed <= comparison.LAST_FIRST_SEED:
        raise StudyError([f"first_seed = {first_seed}: must be in 0…{comparison.LAST_FIRST_SEED}"])
    of_b, of_both = (tuple(f"{key}={value}" for key, value in texts_of(given)) for given in (changes, both))
    asked = ComparisonRequest(
        str(a), None if b is None else str(b), of_b, of_both, seeds, not paired, engine, first_seed, factorial
    )
    plan = planned(asked)
    folder = StudyFolder.open(FOLDER / asked.folder_name if out is None else Path(out))
    try:
        swept = make_runs(plan.study, plan.points, folder, Where(master, remote), progress)
    finally:
        folder.release()
    lines = comparison.compare(plan.points, swept.results)
    found = effects(plan.points, swept.results, lines) if factorial else []
    return Comparison(asked, lines, swept.failures, folder.path, plan.changed, found)
