"""Figures on the page, each with what is to be noted, and the first rows of its data."""

from __future__ import annotations

from collections.abc import Sequence

from hearsay.pipeline.output.tables import MetricTable
from hearsay.report.document import scrolling
from hearsay.report.figure import Figure
from hearsay.report.markup import Html, join, tag
from hearsay.report.run import Selection
from hearsay.report.run_names import name_shown, named, run_key, topic_words
from hearsay.text.numbers import count, figure, plural

PREVIEW_ROWS = 12
PREVIEW_DIGITS = 6


def figure_cards(selection: Selection, figures: Sequence[Figure]) -> Html:
    shown = [
        tag(
            "figure",
            tag(
                "figcaption",
                tag("h3", each.title),
                tag("p", each.question, class_="question"),
                tag("p", each.remark, class_="question") if each.remark else "",
            ),
            tag("div", tag("p", "The charts need JavaScript.", class_="faint"), class_="chart"),
            _notes(selection, each),
            tag("p", tag("a", "definition", href=f"#definition-{each.source.name}"), class_="links"),
            preview(selection, each.source, f"table-{each.id}"),
            class_="card wide" if each.wide else "card",
            id=each.id,
        )
        for each in figures
    ]
    return tag("section", tag("h2", "Figures"), tag("div", *shown, class_="figures"), id="figures")


def _notes(selection: Selection, shown: Figure) -> Html:
    notes = [
        tag(
            "li",
            join([named(selection, view.run), ": "]) if len(selection.runs) > 1 else "",
            tag("span", topic_words(selection, view.place), class_="topic"),
            note,
            data_topic=view.place,
            data_run=view.run,
        )
        for view, note in shown.notes
    ]
    return tag("ul", *notes, class_="notes") if notes else Html("")


def preview(selection: Selection, table: MetricTable, id_: str) -> Html:
    parts: list[Html] = []
    total = 0
    for index, run in enumerate(selection.runs):
        first, rows = run.preview(table, PREVIEW_ROWS)
        total += rows
        said = f"{count(len(first))} of {plural(rows, 'row')} of metrics/{table.name}"
        parts.append(tag("p", run_key(index), " ", name_shown(run.label), f": {said}"))
        if rows:
            columns = [name for name in table.names if name != "run"]
            head = tag("tr", *(tag("th", name, scope="col") for name in columns))
            body = [tag("tr", *(_cell(row[name]) for name in columns)) for row in first.to_pylist()]
            parts.append(
                scrolling(tag("table", tag("thead", head), tag("tbody", *body)), f"First rows of {table.name}")
            )
    summary = tag("summary", f"Data: {table.name} ({plural(total, 'row')})")
    return tag(
        "details", summary, tag("p", f"{table.title[0].upper()}{table.title[1:]}."), *parts, id=id_, class_="data"
    )


def _cell(value: object) -> Html:
    if value is None or value != value:
        return tag("td", "–", class_="faint number")
    if isinstance(value, float):
        return tag("td", figure(value, PREVIEW_DIGITS), class_="number")
    if isinstance(value, int) and not isinstance(value, bool):
        return tag("td", str(value), class_="number")
    return tag("td", name_shown(str(value)))
