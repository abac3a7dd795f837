"""What an answer leaves: tables, and for other commands scenarios of base and best, and budgets.

answer/best.toml      what does best; best-1.toml … with conditions
answer/start.toml     the base as it is
answer/budgets.toml   for `hearsay check`: the bounds, and that the aim stays within what it came to
tables/               `answer`, `front` and `importance`
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from pathlib import PurePath

import tomli_w

from hearsay.studies.budgets import Budget
from hearsay.studies.folder import StudyFolder
from hearsay.studies.points import Point
from hearsay.studies.statistics import Mean, mean_of
from hearsay.studies.tables import values_at
from hearsay.studies.tuning.answer import FOLDER, Answer
from hearsay.studies.tuning.answer_tables import answer_tables
from hearsay.studies.tuning.tune_file import Tuning

BUDGETS = f"{FOLDER}/budgets.toml"
_DIGITS = 4


def write_answers(folder: StudyFolder, tuning: Tuning, answers: Sequence[Answer]) -> None:
    """Tables of all; scenarios and budgets of those that there are."""
    folder.write_tables(answer_tables(tuning, answers))
    found = [answer for answer in answers if answer.best is not None]
    if not found:
        return
    (folder.path / FOLDER).mkdir(exist_ok=True)
    for answer in found:
        assert answer.searched.confirmed is not None
        for what, point in zip(("start", "best"), answer.searched.confirmed, strict=True):
            _write_scenario(folder, answer.file(what), point)
    folder.write_text(BUDGETS, _budgets(tuning, found))


def _write_scenario(folder: StudyFolder, name: str, point: Point) -> None:
    for file, text in (*point.files, (name, point.scenario)):
        folder.write_text(f"{FOLDER}/{PurePath(file).name}", text)


def _budgets(tuning: Tuning, answers: Sequence[Answer]) -> str:
    document: dict[str, object] = {"title": tuning.title, "seeds": list(tuning.fresh_seeds)}
    if tuning.engine != "auto":
        document["engine"] = tuning.engine
    document["cases"] = [
        {
            "name": _case(tuning, answer),
            "base": {"file": answer.file("best")},
            "budgets": {**_aim_budget(tuning, answer), **{each.figure.name: _table(each) for each in tuning.bounds}},
        }
        for answer in answers
    ]
    return tomli_w.dumps(document)


def _case(tuning: Tuning, answer: Answer) -> str:
    if tuning.conditions is None:
        return tuning.title
    return f"{tuning.conditions.name} {answer.searched.label}"


def _aim_budget(tuning: Tuning, answer: Answer) -> dict[str, object]:
    """As far as the interval on fresh seeds reaches."""
    assert answer.searched.confirmed is not None
    mean = mean_of(values_at(answer.searched.confirmed[1], answer.searched.results, tuning.aim.name))
    assert mean is not None
    return {tuning.aim.name: _reach(mean, more=tuning.aim.better == "more")}


def _reach(mean: Mean, *, more: bool) -> dict[str, object]:
    end, rounding = (mean.low, ROUND_FLOOR) if more else (mean.high, ROUND_CEILING)
    context = Context(prec=_DIGITS, rounding=rounding)
    rounded = float(context.create_decimal_from_float(mean.mean if end is None else end))
    return {"at_least" if more else "at_most": rounded}


def _table(bound: Budget) -> dict[str, object]:
    ends = {"at_least": bound.at_least, "at_most": bound.at_most}
    judge = {} if bound.judge == "mean" else {"judge": bound.judge}
    return {**{name: end for name, end in ends.items() if end is not None}, **judge}
