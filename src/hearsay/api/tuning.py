"""`tune`: search for the parameters that do best within bounds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from hearsay.api.simulations import Engine
from hearsay.api.sweeps import FOLDER, Progresses, errors_by_run, say_nothing, table_of, texts_of
from hearsay.api.table import Table
from hearsay.extras import require_extra
from hearsay.pipeline.spark.place import Where
from hearsay.sim.scenario.toml_text import Document
from hearsay.studies.checked_file import StudyError
from hearsay.studies.comparison import FigureComparison, figure_named
from hearsay.studies.folder import StudyFolder
from hearsay.studies.processes import choose_pack_maker
from hearsay.studies.study_text import compared_cells
from hearsay.studies.tables import TABLES
from hearsay.studies.tuning.answer import FOLDER as ANSWER
from hearsay.studies.tuning.answer import Answer, answer_of
from hearsay.studies.tuning.answer_files import ANSWER_TABLES, tuned_json, write_answers
from hearsay.studies.tuning.space import spaces
from hearsay.studies.tuning.tune import Tune, Tuned
from hearsay.studies.tuning.tune_file import DeclarationNames, asked_tuning
from hearsay.studies.tuning.tune_text import answers_text, best_words, conditions_cells
from hearsay.text.numbers import plain
from hearsay.text.tables import html_table

_DECLARATION_NAMES = DeclarationNames("vary", "aim", "bounds", "condition")
_TABLES = (*TABLES, "tried", *ANSWER_TABLES)


@dataclass(frozen=True, slots=True)
class TuneAnswer:
    """The best settings in one condition, if any meet the bounds."""

    answer: Answer
    folder: Path

    @property
    def condition(self) -> str | None:
        """Return the name of the condition; None without conditions."""
        return self.answer.condition

    @property
    def best(self) -> dict[str, object] | None:
        """Return the keys to set, with their values; None if no settings meet the bounds."""
        best = self.answer.best
        return None if best is None else self.answer.searched.settings(best)

    @property
    def as_good(self) -> list[dict[str, object]]:
        """Return other settings that meet the bounds and do not differ significantly from the best."""
        return [self.answer.searched.settings(each) for each in self.answer.as_good]

    @property
    def words(self) -> str:
        """Return the best settings and their result in a line, or why there are none."""
        return plain(best_words(self.answer))

    @property
    def figures(self) -> Sequence[FigureComparison]:
        """Compare base and best on seeds that the search has not used: the aim first, then the bounded figures."""
        return self.answer.lines

    @property
    def importance(self) -> Mapping[str, Mapping[str, float]]:
        """Return by figure the share of its variance that each axis explains alone; empty after too few runs."""
        return self.answer.matters

    @property
    def start(self) -> Path | None:
        """Return the file of the base scenario; None if no settings meet the bounds."""
        return self._file("start")

    @property
    def scenario(self) -> Path | None:
        """Return the file of the best scenario; None if no settings meet the bounds."""
        return self._file("best")

    @property
    def unseen_seed(self) -> int:
        """Return the first seed that neither the search nor its confirmation has used."""
        return self.answer.searched.tuning.never_seen_seed

    def __getitem__(self, figure: str) -> FigureComparison:
        """Return the difference between base and best in a figure, by its name."""
        return figure_named(self.figures, figure)

    def _file(self, what: str) -> Path | None:
        return None if self.answer.best is None else self.folder / ANSWER / self.answer.file(what)

    def _repr_html_(self) -> str:
        return _shown(self)


@dataclass(frozen=True, slots=True)
class TuneResult:
    """The result of a tuning; its runs and tables are in `folder`."""

    folder: Path
    tuned: Tuned
    answers: Sequence[TuneAnswer]
    """One answer; if there are conditions, one answer for each."""

    @property
    def runs(self) -> int:
        """Return the number of runs of search and finals, without those of base and best on fresh seeds."""
        return sum(found.runs + found.final_runs for found in self.tuned.searches)

    @property
    def made(self) -> int:
        """Return the number of runs that this call has made, of any kind."""
        return self.tuned.made

    @property
    def failures(self) -> dict[str, str]:
        """Return the errors of failed runs, by run."""
        return errors_by_run(self.tuned.failures)

    def table(self, name: str) -> Table:
        """Return a table: `answer`, `front`, `importance`, `tried`, or one of those of `SweepResult.table`."""
        return table_of(self.folder, name, _TABLES)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON of `hearsay tune --json`, without its report."""
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
    """Find the parameters that do best within bounds: by a tune file, or by a scenario and the keys to `vary`.

    `vary` has the values of each key to search, or a range such as `"4..12"`. `aim` names the figure to optimise, and
    `bounds` limit others (`"copies_per_delivery<=6"`, `"delivery_ratio>=0.999 worst"`). `condition` is a key that you
    cannot choose: each of its values gets an answer. `overrides` changes keys of the base scenario. `seeds` to
    `engine` replace keys of the file. Runs are made as by `sweep`, and finished runs are kept. All files are in `out`
    (default: `sweeps/tune-NAME`).

    Raises `StudyError`, whose `problems` has a line for each mistake. It is not an error if no settings meet the
    bounds: then `best` of the answer is None, and its `words` name the nearest settings.
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
    tuning, text = asked_tuning(str(what), *asked, _DECLARATION_NAMES)
    found = spaces(tuning)
    open_maker = choose_pack_maker(tuning.study, Where(master, remote), say_nothing)
    folder = StudyFolder.open(FOLDER / f"tune-{tuning.name}" if out is None else Path(out))
    try:
        folder.write_text("tune.toml", text)
        tuned = Tune(found, folder, open_maker, progress or say_nothing, again=retry).run()
        answers = [answer_of(searched) for searched in tuned.searches]
        write_answers(folder, tuning, answers)
    finally:
        folder.release()
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
