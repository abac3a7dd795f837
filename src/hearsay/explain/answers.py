"""Explanations of a message: of one node, of the slowest deliveries, of missing deliveries.

An explanation has a summary and sections. The terminal, pages, notebooks and reports show the same sections.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hearsay.explain import answer_json, words
from hearsay.explain.fastest import FastPath, Shortcut, shortcut_of
from hearsay.explain.message import Message
from hearsay.explain.missing import explain_absence, explain_missing
from hearsay.explain.node import NodeAnswer, Sent, explain_node
from hearsay.explain.path import Path
from hearsay.explain.slowest import explain_slowest
from hearsay.explain.words import Table
from hearsay.text.numbers import plain, plural
from hearsay.text.tables import prose, table_text

MAX_ROWS = 40
"""Rows of a table on the terminal."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of an explanation: sentences, a table, a picture of a path, or several of these."""

    id: str
    title: str
    sentences: Sequence[str] = ()
    items: Sequence[str] = ()
    table: Table | None = None
    path: Path | FastPath | None = None
    until_us: int = 0
    """End of the picture, after the publication."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The answer to a question about a message."""

    message: Message
    summary: str
    sections: Sequence[Section]
    figures: dict[str, Any]
    """The answer as JSON, without what is known of the message."""
    table: Table | None
    """The main table, for a notebook."""
    paths: Sequence[int] = ()
    """Nodes whose paths a picture of the whole message emphasizes."""

    def text(self) -> str:
        parts = [prose(words.heading(self.message)), prose(self.summary)]
        for section in self.sections:
            if section.table is not None or section.items:
                parts += ["", f"{section.title}:"]
            if section.table is not None:
                parts.append(_table_text(section.table))
            parts += [f"  {item}" for item in section.items]
            for sentence in section.sentences:
                parts += ["", prose(sentence)]
        unknown = self.message.unknowns()
        return plain("\n".join([*parts, *(["", *map(prose, unknown)] if unknown else [])]))

    def to_json(self) -> dict[str, Any]:
        return {**answer_json.head(self.message), **self.figures}


def explain(message: Message, node: int | None, missing: bool) -> Explanation:
    """Explain a node, or without one the missing or the slowest deliveries."""
    if node is None:
        return _missing(message) if missing else _slowest(message)
    answer = explain_node(message, node)
    return _absence(message, node) if answer is None else _delivery(message, answer)


def _delivery(message: Message, answer: NodeAnswer) -> Explanation:
    path, shortcut = answer.path, shortcut_of(message, answer.path)
    until_us = message.us_after(path.delivered_us)
    timeline, cost = words.timeline(message, answer), words.costs(path)
    fast = shortcut.path if isinstance(shortcut, Shortcut) and shortcut.sooner_us else None
    others = [each for each in answer.copies if not each.is_first]
    named = f"{plural(len(others), 'other copy', 'other copies')} to {message.node(answer.node)}"
    sections = [
        Section("path", "The path of the first copy", [f"Time by step: {cost}."] if cost else [], table=timeline,
                path=path if path.hops else None, until_us=until_us),
        Section("fastest", "The fastest path", [words.shortcut_summary(message, shortcut)], path=fast,
                until_us=until_us),
        *_copies(named, message, others),
    ]  # fmt: skip
    summary, figures = words.node_summary(message, answer), answer_json.node_json(message, answer, shortcut)
    return Explanation(message, summary, sections, figures, timeline, path.nodes)


def _absence(message: Message, node: int) -> Explanation:
    missing, not_due = explain_absence(message, node)
    sections = _copies("Copies to it", message, missing.copies)
    summary = words.absence_summary(message, missing, not_due)
    figures = answer_json.absence_json(message, missing, not_due)
    return Explanation(message, summary, sections, figures, sections[0].table if sections else None)


def _copies(title: str, message: Message, copies: Sequence[Sent]) -> list[Section]:
    return [Section("copies", title, table=words.copy_table(message, copies))] if copies else []


def _slowest(message: Message) -> Explanation:
    answer = explain_slowest(message)
    sections: list[Section] = []
    table = None
    if answer.slow:
        table, last = words.slow_table(message, answer), answer.slow[0]
        traits = [words.trait_words(trait) for trait in answer.traits]
        nothing = [] if traits else ["They have nothing in common that others lack."]
        sections.append(Section("slowest", "The slowest deliveries", table=table))
        sections.append(Section("common", "What they have in common", nothing, traits))
        if last.hops:
            title = f"The path to {message.node(last.node)}, the last"
            until_us = message.us_after(last.delivered_us)
            sections.append(Section("path", title, [f"{title}: {words.costs(last)}."], path=last, until_us=until_us))
    summary, figures = words.slow_summary(message, answer), answer_json.slow_json(message, answer)
    return Explanation(message, summary, sections, figures, table, [path.node for path in answer.slow])


def _missing(message: Message) -> Explanation:
    answer = explain_missing(message)
    sections: list[Section] = []
    table = None
    if answer.missing:
        table = words.missing_table(message, answer.missing)
        sections.append(Section("reasons", "Reasons", table=words.reason_table(answer.missing)))
        sections.append(Section("nodes", "Nodes that never got it", table=table))
    figures = answer_json.missing_json(message, answer)
    return Explanation(message, words.missing_summary(answer), sections, figures, table)


def _table_text(table: Table) -> str:
    rows = table.rows[:MAX_ROWS]
    more = len(table.rows) - MAX_ROWS
    text = table_text(table.head, rows, left=table.left) if table.left else _timeline_text(table)
    return f"{text}\n… {more} more are in the output of --json" if more > 0 else text


def _timeline_text(table: Table) -> str:
    """Return a table with numbers first, whose last column may be wider than the terminal."""
    rows = (table.head, *table.rows)
    widths = [max(len(row[place]) for row in rows) for place in range(2)]
    return "\n".join(f"{row[0]:>{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]}".rstrip() for row in rows)
