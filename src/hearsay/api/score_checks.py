"""`check_scores`: check score parameters, as `hearsay score` does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hearsay.core.scores.named_sets import NAMES
from hearsay.core.shell.parameters import ParameterError
from hearsay.score_check.check import (
    FINDING_HEAD,
    IDS,
    Checked,
    check,
    check_text,
    chosen,
    finding_cells,
    summary,
)
from hearsay.score_check.findings import ScoreFinding
from hearsay.score_check.subject import Subject
from hearsay.score_check.subjects import read_subject, subject_of_scenario, subject_of_set
from hearsay.sim.scenario.scenario import Scenario
from hearsay.sim.scenario.scenario_error import ScenarioError
from hearsay.text.tables import html_table


class ScoreCheck:
    """The findings about score parameters, the most severe first."""

    def __init__(self, checked: Checked) -> None:
        self._checked = checked

    @property
    def findings(self) -> Sequence[ScoreFinding]:
        return self._checked.findings

    def at_least(self, severity: str) -> list[ScoreFinding]:
        """Return the findings with at least this severity: `note`, `warning` or `error`."""
        return self._checked.at_least(severity)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON of `hearsay score --json`."""
        return self._checked.to_json()

    def __str__(self) -> str:
        return check_text(self._checked)

    def _repr_html_(self) -> str:
        return html_table(FINDING_HEAD, finding_cells(self._checked), summary(self._checked), left=4)


def check_scores(
    what: Scenario | str | Path,
    *,
    validators: int | None = None,
    only: Sequence[str] = (),
    ignore: Sequence[str] = (),
) -> ScoreCheck:
    """Check the score parameters of a scenario, of a file, or of a named set such as `lighthouse`.

    `validators` is the number of validators for Ethereum's sets (default: a million); other sets do not accept it.
    `only` and `ignore` are the names of checks to run or to skip. Raises `ScenarioError`, whose `problems` has a line
    for each mistake.
    """
    unknown = [name for name in (*only, *ignore) if name not in IDS]
    if unknown:
        raise ScenarioError([f"{name}: no such check; there are {', '.join(IDS)}" for name in unknown])
    return ScoreCheck(check(_subject(what, validators), chosen(only, ignore)))


def _subject(what: Scenario | str | Path, validators: int | None) -> Subject:
    if isinstance(what, Scenario):
        return subject_of_scenario(what, "scenario", {})
    if str(what) not in NAMES or Path(what).is_file():
        return read_subject(Path(what))
    try:
        return subject_of_set(str(what), validators)
    except ParameterError as error:
        raise ScenarioError([str(each) for each in error.violations]) from None
