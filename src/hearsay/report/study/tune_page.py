"""The report of a tuning: what to set, what it is worth, what each step of a bound costs, and what matters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from hearsay.report.document import asset, document, footer, labelled_table
from hearsay.report.markup import Html, join, tag
from hearsay.report.report_file import make_folder, write_report_file, write_whole
from hearsay.report.study import drawing
from hearsay.report.study.multiples import mean_words
from hearsay.report.study.tune_drawing import (
    ENDED_ENTRIES,
    FRONT_ENTRIES,
    front_picture,
    search_picture,
)
from hearsay.report.what_ran import Ran, command_line, what_ran
from hearsay.studies.comparison_text import by_itself_words
from hearsay.studies.figures import BY_NAME
from hearsay.studies.settings import settings_of
from hearsay.studies.statistics import mean_of
from hearsay.studies.study_text import compared_cells
from hearsay.studies.tables import values_at
from hearsay.studies.tuning.answer import Answer
from hearsay.studies.tuning.front import fronts
from hearsay.studies.tuning.search import Tried
from hearsay.studies.tuning.tune import Tuned
from hearsay.studies.tuning.tune_text import (
    as_good_words,
    asked_words,
    best_words,
    conditions_cells,
    interplay,
    matters_words,
    searched_words,
    start_words,
)
from hearsay.text.numbers import plural, relative, shown

MOST_ROWS = 400


def write_tune_report(
    tuned: Tuned, answers: Sequence[Answer], out: Path, pictures: Path, commands: Mapping[str, str]
) -> None:
    """Write the report, and beside it the pictures as SVG files. `commands` are said in the end, by what they do."""
    tuning = tuned.tuning
    body = [
        tag(
            "header",
            tag("h1", tuning.title),
            tag("p", f"{_capital(asked_words(tuning))}.", class_="subject"),
            *(tag("p", _named(answer, best_words(answer)), class_="card verdict") for answer in answers),
        ),
        tag("main", *_sections(tuned, answers, commands)),
        footer(),
    ]
    write_report_file(
        out, document(f"{tuning.title} – Hearsay tuning", body, style=asset("page.css") + asset("study.css"))
    )
    for name, (drawn, entries) in _standing_alone(answers).items():
        make_folder(pictures)
        write_whole(pictures / f"{name}.svg", drawing.standalone(drawn, 2, _from_zero(entries)))


def _standing_alone(answers: Sequence[Answer]) -> dict[str, tuple[list[Html], Mapping[int, str]]]:
    found = {
        "fronts": ([picture for answer in answers for picture in _fronts(answer)], FRONT_ENTRIES),
        "search": ([picture for answer in answers for picture in _search(answer)], ENDED_ENTRIES),
    }
    return {name: (drawn, entries) for name, (drawn, entries) in found.items() if drawn}


def _sections(tuned: Tuned, answers: Sequence[Answer], commands: Mapping[str, str]) -> Iterator[Html]:
    tuning = tuned.tuning
    if tuning.conditions is not None:
        heads, rows = conditions_cells(tuning, answers)
        table = labelled_table(heads, rows, "The best for each condition", range(1 + len(tuning.axes)))
        yield tag("section", tag("h2", f"For your {tuning.conditions.name}, use these"), table, id="conditions")
    yield tag("section", tag("h2", "What it is worth"), *(_worth(answer) for answer in answers), id="worth")
    drawn = [_card(answer, _fronts(answer)) for answer in answers]
    if any(drawn):
        note = (
            "Dashed: nothing that keeps the other bounds beats it in one and equals it in the other. Dotted: bounds."
        )
        yield _pictures("What each step of a bound costs", "fronts", drawn, FRONT_ENTRIES, note)
    if any(answer.matters for answer in answers):
        yield _matters(answers)
    drawn = [_card(answer, _search(answer)) for answer in answers]
    if any(drawn):
        note = "Hollow: not an answer. Dashed: the best so far of those that had all seeds and keep the bounds."
        yield _pictures("How the search went", "search", drawn, ENDED_ENTRIES, note)
    yield tag("section", tag("h2", "All points"), *(_points(answer) for answer in answers), id="points")
    yield _what_ran(answers, commands)


def _worth(answer: Answer) -> Html:
    searched = answer.searched
    words = [searched_words(searched), start_words(answer), as_good_words(answer), matters_words(answer)]
    told = tag("ul", *(tag("li", f"{_capital(each)}.") for each in words if each), class_="words")
    parts: list[Html] = [_title(answer)]
    if answer.lines:
        heads, rows = compared_cells(answer.lines)
        seeds = plural(len(searched.tuning.fresh_seeds), "seed")
        note = (
            f"On {seeds} that the search has not seen. A: as it is, B: best. {by_itself_words(answer.lines)}".rstrip()
        )
        parts += [labelled_table(heads, rows, "Base and best", (0, 4)), tag("p", note, class_="faint")]
    return tag("div", *parts, told, class_="card")


def _fronts(answer: Answer) -> list[Html]:
    return [front_picture(answer.searched, bound, spots) for bound, spots in fronts(answer.searched)]


def _search(answer: Answer) -> list[Html]:
    picture = search_picture(answer.searched)
    return [] if picture is None else [picture]


def _card(answer: Answer, pictures: Sequence[Html]) -> Html:
    if not pictures:
        return Html("")
    drawn = [tag("div", picture, class_="chart") for picture in pictures]
    return tag("figure", _title(answer), tag("div", *drawn, class_="multiples"), class_="card wide")


def _pictures(title: str, id_: str, drawn: Sequence[Html], entries: Mapping[int, str], note: str) -> Html:
    keys = tag("p", *(drawing.key(number, words) for number, words in entries.items()), class_="tools")
    return tag(
        "section",
        tag("h2", title),
        keys,
        tag("p", note, class_="faint"),
        *drawn,
        id=id_,
    )


def _matters(answers: Sequence[Answer]) -> Html:
    """For each figure the share of its variance that each axis explains."""
    tuning = answers[0].searched.tuning
    names = [axis.name for axis in tuning.axes]
    heads = [*(_conditions_head(answers)), "figure", *names, "their interplay"]
    rows: list[list[object]] = []
    for answer in answers:
        for figure, shares in answer.matters.items():
            cells = [*(relative(shares[name]) for name in names), relative(interplay(shares))]
            rows.append([*_conditions_cell(answer), BY_NAME[figure].title, *cells])
    note = (
        "Shares of the variance over the whole space, by a functional analysis of variance on a random forest "
        "over all points tried, with the seeds that all of them had."
    )
    text = range(len(heads) - len(names) - 1)
    table = labelled_table(heads, rows, "What matters", text)
    return tag("section", tag("h2", "What matters"), table, tag("p", note, class_="faint"), id="matters")


def _conditions_head(answers: Sequence[Answer]) -> list[str]:
    conditions = answers[0].searched.tuning.conditions
    return [] if conditions is None else [conditions.name]


def _conditions_cell(answer: Answer) -> list[str]:
    return [] if answer.searched.tuning.conditions is None else [answer.searched.label]


def _points(answer: Answer) -> Html:
    searched = answer.searched
    tuning = searched.tuning
    figures = [BY_NAME[name] for name in tuning.figures]
    heads = ["point", *(axis.name for axis in tuning.axes), *(figure.title for figure in figures), "seeds", "ended"]
    rows: list[list[object]] = []
    for number, each in enumerate(searched.tried[:MOST_ROWS], 1):
        cells: list[object] = [axis.labels[step] for axis, step in zip(tuning.axes, each.steps, strict=True)]
        for figure in figures:
            mean = mean_of(values_at(each.point, searched.results, figure.name))
            words = "n/m" if mean is None else shown(mean.mean, figure.form)
            cells.append(tag("span", words, title="not measured" if mean is None else mean_words(mean, figure)))
        rows.append([str(number), *cells, str(len(each.point.seeds)), _ending(answer, each)])
    table = labelled_table(heads, rows, "All points", (*range(1 + len(tuning.axes)), len(heads) - 1))
    more = len(searched.tried) - len(rows)
    note = "Figures are means over the seeds that a point had; point at one for its interval."
    rest = f" {more} more are in tables/tried.parquet." if more > 0 else ""
    return join([_title(answer), table, tag("p", f"{note}{rest}", class_="faint")])


def _ending(answer: Answer, tried: Tried) -> str:
    if tried is answer.best:
        return "best"
    return f"{tried.ended}: {tried.broken.figure.title}" if tried.broken is not None else str(tried.ended)


def _what_ran(answers: Sequence[Answer], commands: Mapping[str, str]) -> Html:
    ran: list[Ran] = []
    for answer in answers:
        label = f" ({answer.searched.label})" if answer.searched.label else ""
        seeds = answer.searched.tuning.seeds
        facts = {"seeds": f"{seeds[0]}…{seeds[-1]}"}
        ran.append(Ran(tag("b", f"as it is{label}"), settings_of(answer.searched.start.scenario), facts))
        if answer.best is not None:
            ran.append(Ran(tag("b", f"best{label}"), settings_of(answer.best.point.scenario), facts))
    told = [part for words, command in commands.items() for part in (tag("p", f"{words}:"), command_line(command))]
    return what_ran(ran, told)


def _title(answer: Answer) -> Html:
    conditions = answer.searched.tuning.conditions
    return Html("") if conditions is None else tag("h3", f"{conditions.name} {answer.searched.label}")


def _named(answer: Answer, words: str) -> str:
    conditions = answer.searched.tuning.conditions
    if conditions is None or answer.best is None:
        return words
    return f"{conditions.name} {answer.searched.label}: {words}"


def _from_zero(entries: Mapping[int, str]) -> list[str]:
    """The words of a legend by their colours; those between have none."""
    return [entries.get(number, "") for number in range(max(entries) + 1)]


def _capital(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}"
