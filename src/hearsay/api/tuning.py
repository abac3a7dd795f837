"""`tune`: search for the parameters with the best value of a metric within bounds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from hearsay.api.scenarios import Engine
from hearsay.api.studies import FOLDER, Progresses, errors_by_run, say_nothing, table_of, texts_of
from hearsay.api.table import Table
from hearsay.number_text import plain
from hearsay.pipeline.spark.settings import Where
from hearsay.sim.scenario.reading import Document
from hearsay.studies.checked_file import StudyError
from hearsay.studies.comparison import FigureComparison, figure_named
from hearsay.studies.processes import choose_pack_maker
from hearsay.studies.results import TABLES, StudyFolder
from hearsay.studies.study_text import compared_cells
from hearsay.studies.tuning.output import (
    ANSWER_TABLES,
    answers_text,
    best_words,
    conditions_cells,
    tuned_json,
    write_answers,
)
from hearsay.studies.tuning.space import spaces
from hearsay.studies.tuning.tune import FOLDER as ANSWER
from hearsay.studies.tuning.tune import Answer, Tune, Tuned, answer_of
from hearsay.studies.tuning.tune_file import asked_tuning
from hearsay.text import html_table
from hearsay.user_errors import require_extra

_TABLES = (*TABLES, "tried", *ANSWER_TABLES)


@dataclass(frozen=True, slots=True)
class TuneAnswer:
    """The answer of a tuning in one condition. `best` are the best settings; None if no settings that were tried meet
    the bounds both on the seeds of the search and on fresh seeds.
    """

    answer: Answer
    folder: Path

    @property
    def condition(self) -> str | None:
        """Return the name of the condition; None if the tuning has no conditions."""
        return self.answer.condition

    @property
    def best(self) -> dict[str, object] | None:
        """Return the best settings as values by key; None without best settings."""
        best = self.answer.best
        return None if best is None else self.answer.searched.settings(best)

    @property
    def as_good(self) -> list[dict[str, object]]:
        """Return the other settings that meet the bounds on the seeds of the search, and are not significantly worse
        than the best settings. Some of them may have broken a bound on fresh seeds. Empty without best settings.
        """
        return [self.answer.searched.settings(each) for each in self.answer.as_good]

    @property
    def words(self) -> str:
        """Return a line with the best settings and their aim or, without best settings, with the reason."""
        return plain(best_words(self.answer))

    @property
    def figures(self) -> Sequence[FigureComparison]:
        """Return the comparisons of the base (A) with the best settings (B), on seeds that the search has not used.

        The first comparison is of the aim, the others are of the bounded metrics. Empty without best settings.
        """
        return self.answer.lines

    @property
    def importance(self) -> Mapping[str, Mapping[str, float]]:
        """Return the share of a metric's variance that each axis alone explains, by metric and axis.

        A metric is missing if too few points were tried, or if all points have the same value.
        """
        return self.answer.matters

    @property
    def start(self) -> Path | None:
        """Return the path of the file with the base scenario; None without best settings."""
        return self._file("start")

    @property
    def scenario(self) -> Path | None:
        """Return the path of the file with the best scenario; None without best settings."""
        return self._file("best")

    @property
    def unseen_seed(self) -> int:
        """Return the number after the largest seed that the tuning uses, for a comparison with unused seeds."""
        return self.answer.searched.tuning.never_seen_seed

    def __getitem__(self, figure: str) -> FigureComparison:
        """Return the comparison of a metric, from `figures`, by the metric's name. Raise `KeyError` for
        other names.
        """
        return figure_named(self.figures, figure)

    def _file(self, what: str) -> Path | None:
        return None if self.answer.best is None else self.folder / ANSWER / self.answer.file(what)

    def _repr_html_(self) -> str:
        return _shown(self)


@dataclass(frozen=True, slots=True)
class TuneResult:
    """The result of `tune`. The runs and tables are in `folder`."""

    folder: Path
    tuned: Tuned
    answers: Sequence[TuneAnswer]
    """The answers, one for each condition; one answer without conditions."""

    @property
    def runs(self) -> int:
        """Return the number of runs of the search, with the runs of `final_seeds`.

        Runs of the base, and runs with fresh seeds, are not counted.
        """
        return sum(found.runs + found.final_runs for found in self.tuned.searches)

    @property
    def made(self) -> int:
        """Return the number of runs of any kind that this call has executed."""
        return self.tuned.made

    @property
    def failures(self) -> dict[str, str]:
        """Return the errors of failed runs, by the name of the run."""
        return errors_by_run(self.tuned.failures)

    def table(self, name: str) -> Table:
        """Return a table: `answer`, `front`, `importance`, `tried`, or a table that `SweepResult.table` can
        return.
        """
        return table_of(self.folder, name, _TABLES)

    def to_json(self) -> dict[str, Any]:
        """Return the object that `hearsay tune --json` prints, without the path of the report."""
        return tuned_json(self.tuned, self._answers, self.folder)

    @property
    def _answers(self) -> list[Answer]:
        return [each.answer for each in self.answers]

    def __str__(self) -> str:
        return answers_text(self.tuned.tuning, self._answers)

    def _repr_html_(self) -> str:
        tuning = self.tuned.tuning
        shown = list(map(_shown, self.answers))
        if tuning.conditions is not None:
            head, rows = conditions_cells(tuning, self._answers)
            shown.append(html_table(head, rows, "The best for each condition", left=1 + len(tuning.axes)))
        return "".join(shown)


def _shown(found: TuneAnswer) -> str:
    caption = found.words if found.best is None else f"{plain(found.answer.searched.label_words)}{found.words}"
    return html_table(*compared_cells(found.figures), caption)


def tune(
    what: str | Path,
    overrides: Mapping[str, object] | None = None,
    *,
    vary: Mapping[str, str | Sequence[object]] | None = None,
    aim: str | None = None,
    bounds: str | Sequence[str] = (),
    condition: Mapping[str, str | Sequence[object]] | None = None,
    seeds: int | Sequence[int] | None = None,
    fresh_seeds: int | None = None,
    final_seeds: int | None = None,
    runs: int | None = None,
    search_seed: int | None = None,
    engine: Engine | None = None,
    out: str | Path | None = None,
    retry: bool = False,
    master: str | None = None,
    remote: str | None = None,
    progress: Progresses | None = None,
) -> TuneResult:
    """Find the parameters with the best value of a metric within bounds.

    `what` is a tune file or, with `vary`, a scenario file or preset. `vary` has for each key the values to search, or
    a range such as `"4..12"`. `aim` is the metric to optimise, and `bounds` limit metrics
    (`"copies_per_delivery<=6"`, `"delivery_ratio>=0.999 worst"`). `condition` has values of one key that you cannot
    choose, such as the loss; the search finds an answer for each value. `vary`, `aim`, `bounds` and `condition` are
    not allowed with a tune file.

    `overrides` has other values for keys of the base scenario. The parameters from `seeds` to `engine` replace keys
    of the tune file. Runs are executed as by `sweep`, and finished runs are not repeated. All files are in `out`
    (default: `sweeps/tune-NAME`).

    Raise `StudyError`, whose `problems` has a line for each mistake. It is not an error if no settings meet the
    bounds: then `best` of the answer is None, and `words` of the answer says why.
    """
    require_extra("tune")
    given = {
        "seeds": seeds if seeds is None or isinstance(seeds, int) else list(seeds),
        "fresh_seeds": fresh_seeds,
        "final_seeds": final_seeds,
        "runs": runs,
        "search_seed": search_seed,
        "engine": engine,
    }
    _require_forms({"vary": vary, "condition": condition}, bounds)
    changes: Document = {key: value for key, value in given.items() if value is not None}
    bounds = (bounds,) if isinstance(bounds, str) else bounds
    asked = _axes_of(vary), aim, bounds, _axes_of(condition), changes, texts_of(overrides)
    tuning, text = asked_tuning(str(what), *asked, prefix="")
    found = spaces(tuning)
    open_maker = choose_pack_maker(tuning.study, Where(master, remote), say_nothing)
    with closing(StudyFolder.open(FOLDER / f"tune-{tuning.name}" if out is None else Path(out))) as folder:
        folder.write_text("tune.toml", text)
        tuned = Tune(found, folder, open_maker, progress or say_nothing, again=retry).run()
        answers = [answer_of(searched) for searched in tuned.searches]
        write_answers(folder, tuning, answers)
    return TuneResult(folder.path, tuned, [TuneAnswer(answer, folder.path) for answer in answers])


def _require_forms(mappings: Mapping[str, object], bounds: object) -> None:
    problems: list[str] = []
    for name, given in mappings.items():
        if given is None:
            continue
        if not isinstance(given, Mapping):
            problems.append(f'{name}: must be a mapping of keys to values, such as {{"router.degree": "4..6"}}')
            continue
        for key, values in cast("Mapping[object, object]", given).items():
            if not isinstance(values, Iterable):
                problems.append(f'{name} {key}: must be a list of values, or a range such as "4..6"')
    each = cast("Sequence[object]", bounds if isinstance(bounds, Sequence) else [bounds])
    if not all(isinstance(bound, str) for bound in each):
        problems.append('bounds: each must be text, such as "copies_per_delivery<=6"')
    if problems:
        raise StudyError(problems)


def _axes_of(values: Mapping[str, str | Sequence[object]] | None) -> list[tuple[str, str]]:
    return texts_of({key: each if isinstance(each, str) else list(each) for key, each in (values or {}).items()})
