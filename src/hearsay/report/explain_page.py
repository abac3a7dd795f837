"""An explanation as HTML: a page of its own, and parts of a report."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from hearsay.explain.answers import Explanation, Section, Table
from hearsay.explain.words import heading
from hearsay.report.files import write_report_file
from hearsay.report.html import Html, asset, document, footer, labelled_table, scrolling, section, tag
from hearsay.report.message_tree import message_tree
from hearsay.report.path_picture import legend, path_picture
from hearsay.text.numbers import count

MAX_ROWS = 400


def write_explained_page(out: Path, explanation: Explanation) -> None:
    """Write an explanation as one HTML file."""
    message = explanation.message
    parts = [section(each.title, each.id, *section_parts(explanation, each)) for each in explanation.sections]
    tree = message_tree(message, explanation.paths)
    if tree is not None:
        caption = "Rings are hops away from the publisher."
        if tree.drawn < tree.total:
            caption += f" {count(tree.drawn)} of {count(tree.total)} nodes are drawn."
        picture = tag("div", tree.picture, class_="chart tree")
        card = tag("div", tree.legend, picture, tag("p", caption, class_="faint"), class_="card")
        parts.append(section("Senders and receivers", "tree", card))
    summary = explanation.summary
    header = tag(
        "header",
        tag("h1", f"Message {message.name.number}"),
        tag("p", tag("span", heading(message), class_="name"), class_="subject"),
        tag("p", summary[:1].upper() + summary[1:], class_="verdict card"),
        *(tag("p", line, class_="faint") for line in message.unknowns()),
    )
    style = asset("page.css") + asset("study.css") + asset("explain.css")
    title = f"Message {message.name.number} – {message.run.name}"
    write_report_file(out, document(title, [header, tag("main", *parts), footer()], style=style))


def section_parts(explanation: Explanation, shown: Section, max_rows: int = MAX_ROWS) -> Iterator[Html]:
    """Yield picture, table, list and sentences of a section."""
    words = [tag("p", sentence) for sentence in shown.sentences]
    if shown.path is not None:
        picture = tag("div", path_picture(explanation.message, shown.path, shown.until_us), class_="chart lanes")
        yield tag("div", legend(shown.path), scrolling(picture, shown.title), *words, class_="card")
        return
    if shown.table is not None:
        yield from _table(shown.title, shown.table, max_rows)
    if shown.items:
        yield tag("ul", *(tag("li", item) for item in shown.items), class_="card words")
    if words:
        yield tag("div", *words, class_="card")


def _table(title: str, table: Table, max_rows: int) -> Iterator[Html]:
    yield labelled_table(table.head, table.rows[:max_rows], title, table.words)
    more = len(table.rows) - max_rows
    if more > 0:
        yield tag("p", f"{count(more)} more are in the output of --json.", class_="faint")
