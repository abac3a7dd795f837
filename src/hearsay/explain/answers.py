"""Explanations of a message: of one node, of the slowest deliveries, of missing deliveries.

An explanation has a summary and sections. The terminal, pages, notebooks and reports show the same sections.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, assert_never

from hearsay.explain import answer_json, words
from hearsay.explain.fastest import FastPath, Shortcut, shortcut_of
from hearsay.explain.message import Message
from hearsay.explain.missing import RULES, Missing, MissingAnswer, by_reason, explain_absence, explain_missing
from hearsay.explain.node import NodeAnswer, Sent, explain_node
from hearsay.explain.path import Path
from hearsay.explain.slowest import SlowAnswer, explain_slowest
from hearsay.text.numbers import count, plain, plural
from hearsay.text.tables import prose, table_text

MAX_ROWS = 40
"""Rows of a table on the terminal."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table of words and numbers."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int
    """Number of first columns that name a row."""
    words: tuple[int, ...]
    """Columns of words; the others have numbers."""


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
class Delivery:
    """Why a node got the message when it did."""

    node: NodeAnswer
    shortcut: Shortcut | str


@dataclass(frozen=True, slots=True)
class Absence:
    """Why a node never got the message."""

    missing: Missing
    not_due: str | None


Answer: TypeAlias = Delivery | Absence | SlowAnswer | MissingAnswer


@dataclass(frozen=True, slots=True)
class Explanation:
    """The answer to a question about a message."""

    message: Message
    answer: Answer

    @property
    def summary(self) -> str:
        match self.answer:
            case Delivery(node, _):
                return words.node_summary(self.message, node)
            case Absence(missing, not_due):
                return words.absence_summary(self.message, missing, not_due)
            case SlowAnswer():
                return words.slow_summary(self.message, self.answer)
            case MissingAnswer():
                return words.missing_summary(self.answer)
        assert_never(self.answer)

    @property
    def sections(self) -> list[Section]:
        match self.answer:
            case Delivery(node, shortcut):
                return list(_delivery(self.message, node, shortcut))
            case Absence(missing, _):
                return list(_copies("Copies to it", self.message, missing.copies))
            case SlowAnswer():
                return list(_slow(self.message, self.answer))
            case MissingAnswer():
                return list(_missing(self.message, self.answer))
        assert_never(self.answer)

    @property
    def paths(self) -> list[int]:
        """Return the nodes whose paths a picture of the whole message emphasizes."""
        if isinstance(self.answer, Delivery):
            return list(self.answer.node.path.nodes)
        return [path.node for path in self.answer.slow] if isinstance(self.answer, SlowAnswer) else []

    @property
    def table(self) -> Table | None:
        """Return the main table, for a notebook."""
        tables = [section.table for section in self.sections if section.table is not None]
        return tables[-1 if isinstance(self.answer, MissingAnswer) else 0] if tables else None

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
        match self.answer:
            case Delivery(node, shortcut):
                return answer_json.node_json(self.message, node, shortcut)
            case Absence(missing, not_due):
                return answer_json.absence_json(self.message, missing, not_due)
            case SlowAnswer():
                return answer_json.slow_json(self.message, self.answer)
            case MissingAnswer():
                return answer_json.missing_json(self.message, self.answer)
        assert_never(self.answer)


def explain(message: Message, node: int | None, missing: bool) -> Explanation:
    """Explain a node, or without one the missing or the slowest deliveries."""
    if node is not None:
        found = explain_node(message, node)
        if found is None:
            return Explanation(message, Absence(*explain_absence(message, node)))
        return Explanation(message, Delivery(found, shortcut_of(message, found.path)))
    return Explanation(message, explain_missing(message) if missing else explain_slowest(message))


def _delivery(message: Message, answer: NodeAnswer, shortcut: Shortcut | str) -> Iterator[Section]:
    path = answer.path
    until_us = message.us_after(path.delivered_us)
    timeline = Table(words.TIMELINE_HEAD, list(words.timeline_rows(message, answer)), 0, (2,))
    cost = words.costs(path)
    yield Section("path", "The path of the first copy", [f"Time by step: {cost}."] if cost else [], table=timeline,
                  path=path if path.hops else None, until_us=until_us)  # fmt: skip
    fast = shortcut.path if isinstance(shortcut, Shortcut) and shortcut.sooner_us else None
    yield Section("fastest", "The fastest path", [words.shortcut_summary(message, shortcut)], path=fast,
                  until_us=until_us)  # fmt: skip
    others = [each for each in answer.copies if not each.is_first]
    named = f"{plural(len(others), 'other copy', 'other copies')} to {message.node(answer.node)}"
    yield from _copies(named, message, others)


def _copies(title: str, message: Message, copies: Sequence[Sent]) -> Iterator[Section]:
    if copies:
        table = Table(words.COPY_HEAD, list(words.copy_rows(message, copies)), 5, (0, 3, 4))
        yield Section("copies", title, table=table)


def _slow(message: Message, answer: SlowAnswer) -> Iterator[Section]:
    if not answer.slow:
        return
    rows = list(words.slow_rows(message, answer))
    yield Section("slowest", "The slowest deliveries", table=Table(words.SLOW_HEAD, rows, 1, (0, 3, 4, 5)))
    traits = [words.trait_words(trait) for trait in answer.traits]
    nothing = [] if traits else ["They have nothing in common that others lack."]
    yield Section("common", "What they have in common", nothing, traits)
    last = answer.slow[0]
    if last.hops:
        title = f"The path to {message.node(last.node)}, the last"
        yield Section("path", title, [f"{title}: {words.costs(last)}."], path=last,
                      until_us=message.us_after(last.delivered_us))  # fmt: skip


def _missing(message: Message, answer: MissingAnswer) -> Iterator[Section]:
    if not answer.missing:
        return
    reasons = [(why, RULES.get(why, ""), count(len(nodes))) for why, nodes in by_reason(answer.missing)]
    yield Section("reasons", "Reasons", table=Table(words.REASON_HEAD, reasons, 2, (0, 1)))
    rows = list(words.missing_rows(message, answer.missing))
    yield Section("nodes", "Nodes that never got it", table=Table(words.MISSING_HEAD, rows, 3, (0, 1, 2)))


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
