"""The result of a tuning as text and tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from hearsay.studies.budgets import allowed_words, judged
from hearsay.studies.comparison import Verdict, by_itself_words
from hearsay.studies.packs import BY_NAME
from hearsay.studies.points import Point
from hearsay.studies.study_text import Cells, compared_text
from hearsay.studies.tuning.answer import Answer, steps_words
from hearsay.studies.tuning.optimiser import Ended
from hearsay.studies.tuning.search import Searched
from hearsay.studies.tuning.tune_file import Tuning
from hearsay.text.numbers import between, count, plain, plural, relative, shown
from hearsay.text.tables import table_text

MOST_AS_GOOD = 5
_LEAST_SHARE = 0.005
_AGAINST_BEST = {
    Verdict.WORSE: "does better than the best of what was tried",
    Verdict.EQUAL: "does as well as the best",
    Verdict.UNDETECTED: "does not do significantly worse than the best",
}
"""The words for the base compared with the best point, by the verdict on the best point's aim."""


def searched_words(searched: Searched) -> str:
    """Return what was searched: "61 of 91 combinations tried in 240 runs; ended early: breaks a bound (12), …"."""
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
    """Return the best settings and their result, or the reason for none."""
    searched = answer.searched
    if answer.best is None:
        return none_words(searched)
    mean = answer.means()[0]
    figure = searched.tuning.aim
    reach = (
        ""
        if mean.low is None or mean.high is None or mean.low == mean.high
        else f" ({between(mean.low, mean.high, figure.form)})"
    )
    return f"{steps_words(searched, answer.best)}: {figure.title} {shown(mean.mean, figure.form)}{reach}"


def none_words(searched: Searched) -> str:
    """Return a line that says that no combination meets the bounds, and names the nearest one."""
    label = searched.label_words
    if searched.keeping:
        return (
            f"{label}{steps_words(searched, searched.keeping[0])} keeps the bounds on the seeds of the search "
            "and not on fresh ones; give it more seeds, or the bounds more room"
        )
    nearest = searched.nearest
    if nearest is None:
        return f"{label}nothing that was tried could be measured"
    parts = _broken_words(searched, nearest.point) or "keeps them on the seeds that it got"
    short = sum(each.ended is Ended.OUT_OF_RUNS for each in searched.tried)
    more = f"; {count(short)} more had no runs left (--runs)" if short else ""
    words = f"the nearest is {steps_words(searched, nearest)}: {parts}{more}"
    return f"{label}none of {plural(len(searched.tried), 'point')} tried meets the bounds; {words}"


def start_words(answer: Answer) -> str:
    """Return the result of the unchanged base on fresh seeds: broken bounds, or its value if none is better."""
    searched = answer.searched
    if searched.confirmed is None:
        return ""
    parts = _broken_words(searched, searched.confirmed[0])
    if parts:
        return f"as it is it breaks bounds, which the best keeps: {parts}"
    begin = "as it is it keeps the bounds and" if searched.tuning.bounds else "as it is it"
    return f"{begin} {_AGAINST_BEST[verdict]}" if (verdict := answer.lines[0].verdict) in _AGAINST_BEST else ""


def _broken_words(searched: Searched, point: Point) -> str:
    """Return the broken bounds of a point: "copies per delivery 6.23, allowed at most 6"."""
    found = [judged(bound, point, searched.results) for bound in searched.tuning.bounds]
    return "; ".join(
        f"{each.budget.figure.title} "
        + ("not measured" if each.value is None else shown(each.value, each.budget.figure.form))
        + f", allowed {allowed_words(each.budget)}"
        for each in found
        if not each.held
    )


def as_good_words(answer: Answer) -> str:
    """Return the points that do not differ significantly from the best; empty if all differ."""
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
    """Return the axes on which the aim depends; empty if too few points were tried."""
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
    """Return all answers with their search and their results. `sentence` formats the parts that are not tables."""
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


def asked_words(tuning: Tuning) -> str:
    """Return the request: "least p99 latency with copies per delivery at most 6"."""
    way = "most" if tuning.aim.better == "more" else "least"
    bounds = " and ".join(f"{bound.figure.title} {allowed_words(bound)}" for bound in tuning.bounds)
    return f"{way} {tuning.aim.title}{f' with {bounds}' if bounds else ''}"


def conditions_cells(tuning: Tuning, answers: Sequence[Answer]) -> Cells:
    """Return a table with the best settings in each condition: "for your churn, use these degrees"."""
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
            shown(mean.mean, BY_NAME[name].form) for name, mean in zip(tuning.figures, answer.means(), strict=True)
        ]
        rows.append([label, *steps, *figures])
    return head, rows
