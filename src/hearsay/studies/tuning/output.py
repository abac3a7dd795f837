"""The output of a tuning, in this order: words and text for terminals and reports; the tables of `tables/`; the
scenario files and the budget file of `answer/`; the JSON of `hearsay tune --json`. `search.py` defines the terms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from pathlib import Path, PurePath
from typing import Any

import tomli_w

from hearsay.number_text import count, plain, plural, relative, text_of
from hearsay.studies.budgets import Budget, allowed_words, judged
from hearsay.studies.comparison import Verdict, by_itself_words
from hearsay.studies.packs import BY_NAME, Row
from hearsay.studies.points import Point
from hearsay.studies.results import MEAN, StudyFolder, axis_columns, fields
from hearsay.studies.statistics import Mean
from hearsay.studies.study_text import Cells, compared_text, mean_words
from hearsay.studies.tuning.optimiser import Ended
from hearsay.studies.tuning.search import Searched
from hearsay.studies.tuning.tune import FOLDER, Answer, Tuned, fronts, steps_words
from hearsay.studies.tuning.tune_file import Tuning
from hearsay.text import table_text
from hearsay.trace.folder.arrow import pa

MOST_AS_GOOD = 5
"""Maximum number of points that `as_good_words` names."""
_LEAST_SHARE = 0.005
"""Smallest share of the variance that `matters_words` names."""
_AGAINST_BEST = {
    Verdict.WORSE: "does better than the best of what was tried",
    Verdict.EQUAL: "does as well as the best",
    Verdict.UNDETECTED: "does not do significantly worse than the best",
}
"""Words that compare the base with the best point, by the verdict on the aim of the best point."""


def asked_words(tuning: Tuning) -> str:
    """Return the request, such as "least p99 latency with copies per delivery at most 6"."""
    way = "most" if tuning.aim.better == "more" else "least"
    bounds = " and ".join(f"{bound.figure.title} {allowed_words(bound)}" for bound in tuning.bounds)
    return f"{way} {tuning.aim.title}{f' with {bounds}' if bounds else ''}"


def searched_words(searched: Searched) -> str:
    """Return the extent of a search, such as "61 of 91 combinations tried in 240 runs; ended early: breaks a bound
    (12)".
    """
    counts = Counter(each.ended for each in searched.tried)
    stops = (Ended.BREAKS, Ended.BEATEN, Ended.FAILED, Ended.UNMEASURED, Ended.OUT_OF_RUNS)
    parts = [f"{ended} ({count(counts[ended])})" for ended in stops if counts[ended]]
    early = f"; ended early: {', '.join(parts)}" if parts else ""
    combinations = count(searched.tuning.combinations)
    tried = f"{count(len(searched.tried))} of {combinations} combinations tried in {plural(searched.runs, 'run')}"
    finals = (
        f"; {searched.finalists} in finals of {plural(searched.final_runs, 'run')}" if searched.final_runs else ""
    )
    return f"{tried}{early}{finals}"


def best_words(answer: Answer) -> str:
    """Return the best settings and the resulting aim or, without a best point, the result of `none_words`."""
    searched = answer.searched
    if answer.best is None:
        return none_words(searched)
    figure = searched.tuning.aim
    return f"{steps_words(searched, answer.best)}: {figure.title} {mean_words(answer.means()[0], figure.form)}"


def start_words(answer: Answer) -> str:
    """Return the result of the base on fresh seeds if the base breaks bounds, or if its aim is not significantly
    worse than the aim of the best point. Otherwise return the empty string.
    """
    searched = answer.searched
    if searched.confirmed is None:
        return ""
    parts = _broken_words(searched, searched.confirmed[0])
    if parts:
        return f"as it is it breaks bounds, which the best keeps: {parts}"
    begin = "as it is it keeps the bounds and" if searched.tuning.bounds else "as it is it"
    return f"{begin} {_AGAINST_BEST[verdict]}" if (verdict := answer.lines[0].verdict) in _AGAINST_BEST else ""


def none_words(searched: Searched) -> str:
    """Return a line with the reason why a search has no best point: bounds that hold only on the seeds of the search,
    no measured point, or broken bounds, with the nearest combination.
    """
    label = searched.label_words
    if searched.keeping:
        return (
            f"{label}{steps_words(searched, searched.keeping[0])} keeps the bounds on the seeds of the search "
            "but not on fresh seeds; try more seeds or wider bounds"
        )
    nearest = searched.nearest
    if nearest is None:
        return f"{label}nothing that was tried could be measured"
    parts = _broken_words(searched, nearest.point) or "keeps them on the seeds that it got"
    short = sum(each.ended is Ended.OUT_OF_RUNS for each in searched.tried)
    more = f"; {count(short)} more had no runs left (--runs)" if short else ""
    words = f"the nearest is {steps_words(searched, nearest)}: {parts}{more}"
    return f"{label}none of {plural(len(searched.tried), 'point')} tried meets the bounds; {words}"


def _broken_words(searched: Searched, point: Point) -> str:
    """Return the bounds that a point breaks, such as "copies per delivery 6.23, allowed at most 6", or the empty
    string.
    """
    found = [judged(bound, point, searched.results) for bound in searched.tuning.bounds]
    return "; ".join(
        f"{each.budget.figure.title} "
        + ("not measured" if each.value is None else text_of(each.value, each.budget.figure.form))
        + f", allowed {allowed_words(each.budget)}"
        for each in found
        if not each.held
    )


def as_good_words(answer: Answer) -> str:
    """Return words about `Answer.as_good`; the empty string if there are no such points."""
    if not answer.as_good:
        return ""
    searched = answer.searched
    named = "; ".join(steps_words(searched, each) for each in answer.as_good[:MOST_AS_GOOD])
    more = len(answer.as_good) - MOST_AS_GOOD
    rest = f"; and {more} more" if more > 0 else ""
    assert answer.best is not None
    seeds = len(answer.best.point.seeds)
    fewest = min(min(len(each.point.seeds), seeds) for each in answer.as_good)
    parts = plural(seeds, "seed") if fewest == seeds else f"{fewest} to {plural(seeds, 'seed')}"
    return f"as good, within the precision of {parts}: {named}{rest}"


def matters_words(answer: Answer) -> str:
    """Return the axes on which the aim depends, with the share of the aim's variance that each explains; the empty
    string if the shares are unknown.
    """
    aim = answer.searched.tuning.aim
    matters = answer.matters.get(aim.name)
    if matters is None:
        return ""
    parts = [f"{name} {relative(share)}" for name, share in matters.items() if share >= _LEAST_SHARE]
    rest = interplay(matters)
    if len(matters) > 1 and rest >= _LEAST_SHARE:
        parts.append(f"interactions {relative(rest)}")
    return f"sources of the variance of {aim.title}: {', '.join(parts)}"


def interplay(matters: Mapping[str, float]) -> float:
    """Return the share of the variance that no axis explains alone."""
    return max(0.0, 1 - sum(matters.values()))


def answers_text(tuning: Tuning, answers: Sequence[Answer], sentence: Callable[[str], str] = plain) -> str:
    """Return the searches and answers of all conditions as text. `sentence` formats the parts that are not tables."""
    parts = [part for answer in answers for part in (*_answer_parts(tuning, answer, sentence), "")]
    if tuning.conditions is not None:
        head, rows = conditions_cells(tuning, answers)
        parts += [table_text(head, rows, left=1 + len(tuning.axes)), ""]
    return "\n".join(parts[:-1])


def _answer_parts(tuning: Tuning, answer: Answer, sentence: Callable[[str], str]) -> Iterator[str]:
    yield sentence(f"{answer.searched.label_words}{searched_words(answer.searched)}")
    if answer.best is not None:
        yield sentence(f"best: {best_words(answer)}")
    yield from (sentence(words) for words in (as_good_words(answer), matters_words(answer)) if words)
    if answer.best is not None:
        yield ""
        yield sentence(f"on {len(tuning.fresh_seeds)} seeds that the search has not seen; A: as it is, B: best")
        yield compared_text(answer.lines)
        yield from (sentence(words) for words in (by_itself_words(answer.lines), start_words(answer)) if words)


def conditions_cells(tuning: Tuning, answers: Sequence[Answer]) -> Cells:
    """Return a table with the best settings in each condition."""
    assert tuning.conditions is not None
    titles = [BY_NAME[name].title for name in tuning.figures]
    head = [tuning.conditions.name, *(axis.name for axis in tuning.axes), *titles]
    rows: list[list[str]] = []
    for answer in answers:
        label = answer.searched.label
        if answer.best is None:
            rows.append([label, *("none" for _ in tuning.axes), *("–" for _ in titles)])
            continue
        steps = [axis.labels[step] for axis, step in zip(tuning.axes, answer.best.steps, strict=True)]
        figures = [
            text_of(mean.mean, BY_NAME[name].form) for name, mean in zip(tuning.figures, answer.means(), strict=True)
        ]
        rows.append([label, *steps, *figures])
    return head, rows


ANSWER_TABLES = ("answer", "front", "importance")


def answer_tables(tuning: Tuning, answers: Sequence[Answer]) -> dict[str, Any]:
    """Return the tables `answer`, `front` and `importance`. A condition without a best point has no row in
    `answer`.
    """
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
"""Significant digits of the bound of the aim in the budget file."""


def write_answers(folder: StudyFolder, tuning: Tuning, answers: Sequence[Answer]) -> None:
    """Write the tables of all conditions. Write scenario files of the base and the best point, and budgets, only for
    conditions with a best point.
    """
    folder.write_tables(answer_tables(tuning, answers))
    found = [answer for answer in answers if answer.best is not None]
    if not found:
        return
    (folder.path / FOLDER).mkdir(exist_ok=True)
    for answer in found:
        assert answer.searched.confirmed is not None
        for what, point in zip(("start", "best"), answer.searched.confirmed, strict=True):
            for file, text in (*point.files, (answer.file(what), point.scenario)):
                folder.write_text(f"{FOLDER}/{PurePath(file).name}", text)
    folder.write_text(BUDGETS, _budgets(tuning, found))


def _budgets(tuning: Tuning, answers: Sequence[Answer]) -> str:
    document: dict[str, object] = {"title": tuning.title, "seeds": list(tuning.fresh_seeds)}
    if tuning.engine != "auto":
        document["engine"] = tuning.engine
    document["cases"] = [
        {
            "name": answer.searched.title or tuning.title,
            "base": {"file": answer.file("best")},
            "budgets": {
                tuning.aim.name: _aim_bound(answer.means()[0], more=tuning.aim.better == "more"),
                **{each.figure.name: _bounds_table(each) for each in tuning.bounds},
            },
        }
        for answer in answers
    ]
    return tomli_w.dumps(document)


def _aim_bound(mean: Mean, *, more: bool) -> dict[str, object]:
    """Return the bound of a budget for the aim: the worse end of the aim's interval on fresh seeds, rounded away from
    the interval. `more` is True if more is better.
    """
    end, rounding = (mean.low, ROUND_FLOOR) if more else (mean.high, ROUND_CEILING)
    context = Context(prec=_DIGITS, rounding=rounding)
    rounded = float(context.create_decimal_from_float(mean.mean if end is None else end))
    return {"at_least" if more else "at_most": rounded}


def _bounds_table(bound: Budget) -> dict[str, object]:
    return {**bound.bounds, **({} if bound.judge == "mean" else {"judge": bound.judge})}


def tuned_json(tuned: Tuned, answers: Sequence[Answer], folder: Path) -> dict[str, Any]:
    """Return the object that `hearsay tune --json` prints, without the path of the report."""
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
