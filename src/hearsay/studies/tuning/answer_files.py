"""The files of a tuning's answers: tables, scenarios, budgets and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from pathlib import Path, PurePath
from typing import Any

import tomli_w

from hearsay.studies.budgets import Budget
from hearsay.studies.folder import StudyFolder
from hearsay.studies.packs import Row
from hearsay.studies.points import Point
from hearsay.studies.statistics import Mean
from hearsay.studies.tables import MEAN, axis_columns, fields
from hearsay.studies.tuning.answer import FOLDER, Answer, fronts
from hearsay.studies.tuning.tune import Tuned
from hearsay.studies.tuning.tune_file import Tuning
from hearsay.studies.tuning.tune_text import best_words, interplay
from hearsay.text.numbers import plain
from hearsay.trace.folder.arrow import pa

ANSWER_TABLES = ("answer", "front", "importance")


def answer_tables(tuning: Tuning, answers: Sequence[Answer]) -> dict[str, Any]:
    """Return all tables by name. A condition without an answer has no row in `answer`."""
    keys, at = axis_columns(tuning.study)
    condition = fields("condition string")
    schemas = {
        "answer": [
            *condition, *keys, *fields("figure string, seeds int64"), *MEAN,
            *fields("base_mean double, difference double, difference_low double, difference_high double"),
            *fields("verdict string"),
        ],
        "front": [
            *condition, *fields("point string"), *keys,
            *fields("bounded string, bounded_mean double, bounded_low double, bounded_high double"),
            *fields("aim_mean double, aim_low double, aim_high double, eligible bool, on_front bool"),
        ],
        "importance": [*condition, *fields("figure string, axis string, share double")],
    }  # fmt: skip
    rows: dict[str, list[Row]] = {
        "answer": [{**at(point), **row} for answer in answers for point, row in _answer_rows(answer)],
        "front": [{**at(point), **row} for answer in answers for point, row in _front_rows(answer)],
        "importance": [row for answer in answers for row in _importance_rows(answer)],
    }
    return {name: pa.Table.from_pylist(rows[name], schema=pa.schema(schemas[name])) for name in ANSWER_TABLES}


def _answer_rows(answer: Answer) -> Iterator[tuple[Any, Row]]:
    if answer.best is None:
        return
    for line, mean in zip(answer.lines, answer.means(), strict=True):
        row: Row = {"condition": answer.condition, "figure": line.figure.name, "verdict": str(line.verdict)}
        difference = line.difference
        if difference is not None:
            row |= {
                "base_mean": difference.mean_a,
                "difference": difference.estimate,
                "difference_low": difference.low,
                "difference_high": difference.high,
            }
        yield answer.best.point, {**row, "seeds": mean.seeds, "mean": mean.mean, "low": mean.low, "high": mean.high}


def _front_rows(answer: Answer) -> Iterator[tuple[Any, Row]]:
    for bound, spots in fronts(answer.searched):
        for spot in spots:
            row: Row = {
                "condition": answer.condition,
                "point": spot.tried.point.name,
                "bounded": bound.figure.name,
                "eligible": spot.eligible,
                "on_front": spot.on_front,
            }
            yield spot.tried.point, {**row, **_prefixed("bounded", spot.bounded), **_prefixed("aim", spot.aim)}


def _prefixed(name: str, mean: Mean) -> Row:
    return {f"{name}_mean": mean.mean, f"{name}_low": mean.low, f"{name}_high": mean.high}


def _importance_rows(answer: Answer) -> Iterator[Row]:
    for figure, shares in answer.matters.items():
        for axis, share in (*shares.items(), (None, interplay(shares))):
            yield {"condition": answer.condition, "figure": figure, "axis": axis, "share": share}


BUDGETS = f"{FOLDER}/budgets.toml"
_DIGITS = 4


def write_answers(folder: StudyFolder, tuning: Tuning, answers: Sequence[Answer]) -> None:
    """Write the tables of all conditions, and scenarios and budgets of those with an answer."""
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
            "name": answer.searched.title or tuning.title,
            "base": {"file": answer.file("best")},
            "budgets": {
                tuning.aim.name: _reach(answer.means()[0], more=tuning.aim.better == "more"),
                **{each.figure.name: _table(each) for each in tuning.bounds},
            },
        }
        for answer in answers
    ]
    return tomli_w.dumps(document)


def _reach(mean: Mean, *, more: bool) -> dict[str, object]:
    """Return a budget for the aim, bounded by the end of its interval on fresh seeds."""
    end, rounding = (mean.low, ROUND_FLOOR) if more else (mean.high, ROUND_CEILING)
    context = Context(prec=_DIGITS, rounding=rounding)
    rounded = float(context.create_decimal_from_float(mean.mean if end is None else end))
    return {"at_least" if more else "at_most": rounded}


def _table(bound: Budget) -> dict[str, object]:
    ends = {"at_least": bound.at_least, "at_most": bound.at_most}
    judge = {} if bound.judge == "mean" else {"judge": bound.judge}
    return {**{name: end for name, end in ends.items() if end is not None}, **judge}


def tuned_json(tuned: Tuned, answers: Sequence[Answer], folder: Path) -> dict[str, Any]:
    found = any(answer.best is not None for answer in answers)
    return {
        "tuning": tuned.tuning.name,
        "folder": str(folder),
        "runs": sum(found.runs + found.final_runs for found in tuned.searches),
        "made": tuned.made,
        "failed": len(tuned.failures),
        "budgets": str(folder / BUDGETS) if found else None,
        "answers": [_answer_json(answer, folder) for answer in answers],
    }


def _answer_json(answer: Answer, folder: Path) -> dict[str, Any]:
    searched, best = answer.searched, answer.best
    said: dict[str, Any] = {
        "condition": answer.condition,
        "points": len(searched.tried),
        "runs": searched.runs,
        "final_runs": searched.final_runs,
        "words": plain(best_words(answer)),
        "matters": answer.matters,
        "best": None,
    }
    if best is None:
        return said
    said["best"] = searched.settings(best)
    said["scenario"] = str(folder / FOLDER / answer.file("best"))
    said["compare"] = answer.compare_command(folder)
    said["as_good"] = [searched.settings(each) for each in answer.as_good]
    said["figures"] = [
        {
            "figure": line.figure.name,
            "verdict": str(line.verdict),
            **asdict(mean),
            "difference": None if line.difference is None else asdict(line.difference),
        }
        for line, mean in zip(answer.lines, answer.means(), strict=True)
    ]
    return said
