"""A question about a message, answered: one node, the slowest, or who never got it; as text, JSON and a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, assert_never

from hearsay.explain.answer_json import absence_json, missing_json, node_json, slow_json
from hearsay.explain.missing import Missing, MissingAnswer, explain_absence, explain_missing
from hearsay.explain.missing_words import (
    MISSING_HEAD,
    absence_summary,
    absence_text,
    missing_rows,
    missing_summary,
    missing_text,
)
from hearsay.explain.node_words import (
    COPY_HEAD,
    TIMELINE_HEAD,
    copy_rows,
    heading_words,
    node_text,
    summary,
    timeline_rows,
)
from hearsay.explain.one_node import NodeAnswer, explain_node
from hearsay.explain.shortcut import Shortcut, shortcut_of
from hearsay.explain.slow_words import SLOW_HEAD, slow_rows, slow_summary, slow_text
from hearsay.explain.slowest import SlowAnswer, explain_slowest
from hearsay.explain.story import Story
from hearsay.text.numbers import plain


@dataclass(frozen=True, slots=True)
class Delivery:
    """Why a node got it when it did."""

    node: NodeAnswer
    shortcut: Shortcut | str


@dataclass(frozen=True, slots=True)
class Absence:
    """Why a node never got it."""

    missing: Missing
    not_due: str | None


Answer: TypeAlias = Delivery | Absence | SlowAnswer | MissingAnswer


@dataclass(frozen=True, slots=True)
class AnswerTable:
    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int
    """So many columns are words."""


def explain(story: Story, node: int | None, missing: bool) -> Answer:
    """About the node if there is one; else who never got it, or the slowest deliveries."""
    if node is not None:
        found = explain_node(story, node)
        if found is None:
            return Absence(*explain_absence(story, node))
        return Delivery(found, shortcut_of(story, found.path))
    return explain_missing(story) if missing else explain_slowest(story)


def text_of(story: Story, answer: Answer) -> str:
    match answer:
        case Delivery(node, shortcut):
            text = node_text(story, node, shortcut)
        case Absence(missing, not_due):
            text = absence_text(story, missing, not_due)
        case SlowAnswer():
            text = slow_text(story, answer)
        case MissingAnswer():
            text = missing_text(story, answer)
        case _:
            assert_never(answer)
    return plain(text)


def json_of(story: Story, answer: Answer) -> dict[str, Any]:
    match answer:
        case Delivery(node, shortcut):
            return node_json(story, node, shortcut)
        case Absence(missing, not_due):
            return absence_json(story, missing, not_due)
        case SlowAnswer():
            return slow_json(story, answer)
        case MissingAnswer():
            return missing_json(story, answer)
    assert_never(answer)


def table_of(story: Story, answer: Answer) -> AnswerTable:
    match answer:
        case Delivery(node, _):
            return _table(story, summary(story, node), TIMELINE_HEAD, timeline_rows(story, node), 0)
        case Absence(missing, not_due):
            rows = list(copy_rows(story, list(missing.copies)))
            return _table(story, absence_summary(story, missing, not_due), COPY_HEAD, rows, 1)
        case SlowAnswer():
            return _table(story, slow_summary(story, answer), SLOW_HEAD, list(slow_rows(story, answer)), 1)
        case MissingAnswer():
            rows = list(missing_rows(story, answer.missing))
            return _table(story, missing_summary(answer), MISSING_HEAD, rows, len(MISSING_HEAD))
    assert_never(answer)


def _table(story: Story, words: str, head: Sequence[str], rows: Sequence[Sequence[str]], left: int) -> AnswerTable:
    return AnswerTable(f"{heading_words(story)}: {words}", head if rows else (), rows, left)
