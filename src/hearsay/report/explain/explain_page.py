"""An explained message as one HTML file: words, the path as a timeline, the message as a tree, tables."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path as FilePath
from typing import assert_never

from hearsay.explain.explained import Absence, Answer, Delivery
from hearsay.explain.missing import Missing, MissingAnswer
from hearsay.explain.missing_words import (
    MISSING_HEAD,
    REASON_HEAD,
    absence_summary,
    missing_rows,
    missing_summary,
    reason_rows,
)
from hearsay.explain.node_words import COPY_HEAD, copy_rows, costs, heading_words, shortcut_words, summary
from hearsay.explain.one_node import NodeAnswer, Sent
from hearsay.explain.path import Path
from hearsay.explain.shortcut import Shortcut
from hearsay.explain.slow_words import SLOW_HEAD, slow_rows, slow_summary, trait_words
from hearsay.explain.slowest import SlowAnswer
from hearsay.explain.story import Story
from hearsay.report.document import asset, document, footer, labelled_table, scrolling
from hearsay.report.explain.timeline import fast_timeline, legend, timeline
from hearsay.report.explain.tree import message_tree
from hearsay.report.markup import Html, tag
from hearsay.report.report_file import write_report_file
from hearsay.text.numbers import count

_MOST_ROWS = 400


def write_explained_page(out: FilePath, story: Story, answer: Answer) -> None:
    match answer:
        case Delivery(node, shortcut):
            _write_node_page(out, story, node, shortcut)
        case Absence(missing, not_due):
            _write_absence_page(out, story, missing, not_due)
        case SlowAnswer():
            _write_slow_page(out, story, answer)
        case MissingAnswer():
            _write_missing_page(out, story, answer)
        case _:
            assert_never(answer)


def _write_node_page(out: FilePath, story: Story, answer: NodeAnswer, shortcut: Shortcut | str) -> None:
    """Why one node got it when it did."""
    path = answer.path
    sections = [*_path_section("The path of the first copy", story, path, costs(path))]
    sections.append(_section("The fastest path", "fastest", *_fastest(story, path, shortcut)))
    others = [each for each in answer.copies if not each.is_first]
    if others:
        sections.append(_section("Who else sent it", "copies", _copies(story, others)))
    _write(out, story, summary(story, answer), [*sections, *_tree(story, path.nodes)])


def _write_slow_page(out: FilePath, story: Story, answer: SlowAnswer) -> None:
    """The slowest deliveries, and what they have in common."""
    sections: list[Html] = []
    if answer.slow:
        rows = list(slow_rows(story, answer))
        sections.append(
            _section("The slowest", "slowest", labelled_table(SLOW_HEAD, rows, "The slowest", (0, 3, 4, 5)))
        )
        traits = [tag("li", trait_words(trait)) for trait in answer.traits]
        common = tag("ul", *traits, class_="card words") if traits else tag("p", "Nothing that others lack.")
        sections.append(_section("What they have in common", "common", common))
        sections += _path_section("The path to the last", story, answer.slow[0], costs(answer.slow[0]))
    shown = [path.node for path in answer.slow]
    _write(out, story, slow_summary(story, answer), [*sections, *_tree(story, shown)])


def _write_missing_page(out: FilePath, story: Story, answer: MissingAnswer) -> None:
    """Who never got it, and why."""
    sections: list[Html] = []
    if answer.missing:
        reasons = [(why, rule, count(nodes)) for nodes, why, rule in reason_rows(answer)]
        head = (REASON_HEAD[1], REASON_HEAD[2], REASON_HEAD[0])
        sections.append(_section("Why", "reasons", labelled_table(head, reasons, "Why they never got it", (0, 1))))
        rows = list(missing_rows(story, answer.missing[:_MOST_ROWS]))
        table = labelled_table(MISSING_HEAD, rows, "Who never got it", (0, 1, 2))
        sections.append(_section("Who", "nodes", table, _more(len(answer.missing))))
    _write(out, story, missing_summary(answer), [*sections, *_tree(story, ())])


def _write_absence_page(out: FilePath, story: Story, missing: Missing, not_due: str | None) -> None:
    """Why one node never got it."""
    sections = (
        [_section("What was sent to it", "copies", _copies(story, list(missing.copies)))] if missing.copies else []
    )
    _write(out, story, absence_summary(story, missing, not_due), [*sections, *_tree(story, ())])


def _write(out: FilePath, story: Story, words: str, sections: list[Html]) -> None:
    body = [
        tag(
            "header",
            tag("h1", f"Message {story.name.number}"),
            tag("p", tag("span", heading_words(story), class_="name"), class_="subject"),
            tag("p", _capital(words), class_="verdict card"),
            *(tag("p", line, class_="faint") for line in story.unknowns()),
        ),
        tag("main", *sections),
        footer(),
    ]
    style = asset("page.css") + asset("study.css") + asset("explain.css")
    write_report_file(out, document(f"Message {story.name.number} – {story.run.name}", body, style=style))


def _path_section(title: str, story: Story, path: Path, took: str) -> Iterator[Html]:
    if path.hops:
        picture = scrolling(tag("div", timeline(story, path), class_="chart lanes"), title)
        words = tag("p", f"What it took: {took}.", class_="faint")
        yield _section(title, "path", tag("div", legend(path), picture, words, class_="card"))


def _fastest(story: Story, path: Path, shortcut: Shortcut | str) -> Iterator[Html]:
    words = tag("p", shortcut_words(story, shortcut))
    if isinstance(shortcut, str) or not shortcut.sooner_us:
        yield tag("div", words, class_="card")
        return
    end_us = path.delivered_us - story.books.start_us()
    picture = tag("div", fast_timeline(story, shortcut.path, end_us), class_="chart lanes")
    yield tag("div", words, scrolling(picture, "The fastest path"), class_="card")


def _copies(story: Story, copies: list[Sent]) -> Html:
    rows = list(copy_rows(story, copies[:_MOST_ROWS]))
    table = labelled_table(COPY_HEAD, rows, "Copies to the node", (0, 3, 4))
    return tag("div", table, _more(len(copies)))


def _tree(story: Story, shown: Collection[int]) -> Iterator[Html]:
    tree = message_tree(story, shown)
    if tree is None:
        return
    all_drawn = tree.drawn >= tree.of
    caption = "Rings are hops away from the publisher." + (
        "" if all_drawn else f" {count(tree.drawn)} of {count(tree.of)} nodes are drawn."
    )
    picture = tag("div", tree.picture, class_="chart tree")
    words = tag("p", caption, class_="faint")
    yield _section("Who got it from whom", "tree", tag("div", tree.legend, picture, words, class_="card"))


def _section(title: str, id_: str, *content: Html) -> Html:
    return tag("section", tag("h2", title), *content, id=id_)


def _more(number: int) -> Html:
    if number <= _MOST_ROWS:
        return Html("")
    return tag("p", f"{count(number - _MOST_ROWS)} more are in the output of --json.", class_="faint")


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]
