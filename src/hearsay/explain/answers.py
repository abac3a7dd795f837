"""Explanations of a message: the delivery at one node, the slowest deliveries, or the missing deliveries.

An explanation has a summary and sections. The terminal, pages, notebooks and reports show the same sections.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hearsay.core.language.actions import Via
from hearsay.explain import words
from hearsay.explain.copies import Copy
from hearsay.explain.deliveries import NodeAnswer, Sent, explain_node, explain_slowest
from hearsay.explain.fastest import FastPath, Shortcut, shortcut_of
from hearsay.explain.message import Message
from hearsay.explain.missing import RULES, Missing, MissingAnswer, by_reason, explain_absence, explain_missing
from hearsay.explain.path import Path
from hearsay.explain.words import Table
from hearsay.number_text import plain, plural
from hearsay.text import prose, table_text
from hearsay.trace.language.schema import NONE, wire_name

MAX_ROWS = 40
"""Maximum rows of a table on the terminal."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of an explanation. It has sentences, a list, a table, a picture of a path, or several of these."""

    id: str
    title: str
    sentences: Sequence[str] = ()
    items: Sequence[str] = ()
    """The entries of a list."""
    table: Table | None = None
    path: Path | FastPath | None = None
    """The path in the picture; None if the section has no picture."""
    until_us: int = 0
    """The end of the picture's time axis, in microseconds after the publication."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The answer to a question about a message."""

    message: Message
    summary: str
    sections: Sequence[Section]
    figures: dict[str, Any]
    """The answer as JSON, without the keys that describe the message."""
    table: Table | None
    """The table that a notebook shows; None if the explanation has no table."""
    paths: Sequence[int] = ()
    """The nodes whose paths are emphasized in a picture of all deliveries of the message."""

    def text(self) -> str:
        """Return the explanation as text for a terminal."""
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
        return {**_head(self.message), **self.figures}


def explain(message: Message, node: int | None, missing: bool) -> Explanation:
    """Explain the delivery at a node, or why the node never got the message. If `node` is None, explain the missing
    deliveries (if `missing` is True) or the slowest deliveries.
    """
    if node is None:
        return _missing(message) if missing else _slowest(message)
    answer = explain_node(message, node)
    return _absence(message, node) if answer is None else _delivery(message, answer)


def _delivery(message: Message, answer: NodeAnswer) -> Explanation:
    path, shortcut = answer.path, shortcut_of(message, answer.path)
    until_us = message.us_after(path.delivered_us)
    timeline, steps = words.timeline(message, answer), words.step_words(path)
    fast = shortcut.path if isinstance(shortcut, Shortcut) and shortcut.sooner_us else None
    others = [each for each in answer.copies if not each.is_first]
    named = f"{plural(len(others), 'other copy', 'other copies')} to {message.node(answer.node)}"
    sections = [
        Section("path", "The path of the first copy", [f"Time by step: {steps}."] if steps else [], table=timeline,
                path=path if path.hops else None, until_us=until_us),
        Section("fastest", "The fastest path", [words.shortcut_summary(message, shortcut)], path=fast,
                until_us=until_us),
        *_copies(named, message, others),
    ]  # fmt: skip
    summary, figures = words.node_summary(message, answer), _node_json(message, answer, shortcut)
    return Explanation(message, summary, sections, figures, timeline, path.nodes)


def _absence(message: Message, node: int) -> Explanation:
    missing, not_due = explain_absence(message, node)
    sections = _copies("Copies to it", message, missing.copies)
    summary = words.absence_summary(message, missing, not_due)
    figures = {"name": message.names.peer(node), "delivered_us": None, "not_due": not_due}
    figures |= _missing_node(message, missing)
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
            sections.append(
                Section("path", title, [f"{title}: {words.step_words(last)}."], path=last, until_us=until_us)
            )
    slowest = [
        {"node": path.node, "delivered_us": message.us_after(path.delivered_us), "path": _path(message, path)}
        for path in answer.slow
    ]
    figures = {
        "deliveries": answer.deliveries,
        "latecomers": answer.latecomers,
        "median_us": answer.median_us,
        "slowest": slowest,
        "in_common": [asdict(trait) for trait in answer.traits],
    }
    summary = words.slow_summary(message, answer)
    return Explanation(message, summary, sections, figures, table, [path.node for path in answer.slow])


def _missing(message: Message) -> Explanation:
    answer = explain_missing(message)
    sections: list[Section] = []
    table = None
    if answer.missing:
        table = words.missing_table(message, answer.missing)
        sections.append(Section("reasons", "Reasons", table=words.reason_table(answer.missing)))
        sections.append(Section("nodes", "Nodes that never got it", table=table))
    summary, figures = words.missing_summary(answer), _missing_json(message, answer)
    return Explanation(message, summary, sections, figures, table)


def _table_text(table: Table) -> str:
    rows = table.rows[:MAX_ROWS]
    more = len(table.rows) - MAX_ROWS
    text = table_text(table.head, rows, left=table.left) if table.left else _timeline_text(table)
    return f"{text}\n… {more} more are in the output of --json" if more > 0 else text


def _timeline_text(table: Table) -> str:
    """Return a timeline as text: two right-aligned columns of times, and a column of words that is not wrapped."""
    rows = (table.head, *table.rows)
    widths = [max(len(row[place]) for row in rows) for place in range(2)]
    return "\n".join(f"{row[0]:>{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]}".rstrip() for row in rows)


def _node_json(message: Message, answer: NodeAnswer, shortcut: Shortcut | str) -> dict[str, Any]:
    return {
        "node": answer.node,
        "name": message.names.peer(answer.node),
        "delivered_us": message.us_after(answer.path.delivered_us),
        "deliveries": answer.deliveries,
        "path": _path(message, answer.path),
        "fastest": _fastest(message, shortcut),
        "copies": [_sent(message, each) for each in answer.copies],
    }


def _missing_json(message: Message, answer: MissingAnswer) -> dict[str, Any]:
    return {
        "due": answer.due,
        "got": answer.got,
        "publisher_is_due": answer.publisher_is_due,
        "got_undue": answer.got_undue,
        "refused_by_all": answer.refused_by_all,
        "why_due_is_unknown": answer.unknown or None,
        "reasons": [{"why": str(why), "nodes": len(nodes)} for why, nodes in by_reason(answer.missing)],
        "missing": [_missing_node(message, each) for each in answer.missing],
    }


def _missing_node(message: Message, missing: Missing) -> dict[str, Any]:
    return {
        "node": missing.node,
        "why": str(missing.why),
        "rule": RULES.get(missing.why),
        "detail": missing.detail,
        "copies": [_sent(message, each) for each in missing.copies],
    }


def _head(message: Message) -> dict[str, Any]:
    """Return the keys of the JSON output that describe the message."""
    history = message.history
    return {
        "run": message.run.name,
        "message": message.name.number,
        "id": message.name.identifier,
        "topic": message.names.topic(history.topic) if history.topic != NONE else None,
        "publisher": None if history.publisher == NONE else history.publisher,
        "published_us": history.published_us if history.published else None,
        "bytes": None if history.bytes == NONE else history.bytes,
        "unknown": message.unknowns(),
    }


def _path(message: Message, path: Path) -> dict[str, Any]:
    after = message.us_after
    hops = [
        {
            "from": hop.sender,
            "to": hop.receiver,
            "had_us": after(hop.held_us),
            "delivered_us": after(hop.delivered_us),
            "copy": None if hop.copy is None else _copy(message, hop.copy),
            "steps": [
                {"step": str(each.step), "from_us": after(each.from_us), "took_us": each.took_us}
                for each in hop.times
            ],
        }
        for hop in path.hops
    ]
    return {"whole": path.complete, "nodes": list(path.nodes), "hops": hops}


def _copy(message: Message, copy: Copy) -> dict[str, Any]:
    return {
        "from": copy.sender,
        "to": copy.receiver,
        "sent_us": None if copy.sent_us is None else message.us_after(copy.sent_us),
        "arrived_us": None if copy.arrived_us is None else message.us_after(copy.arrived_us),
        "via": wire_name(Via(copy.via)) if 0 <= copy.via < len(Via) else None,
        "fate": wire_name(copy.fate),
    }


def _sent(message: Message, sent: Sent) -> dict[str, Any]:
    copy = _copy(message, sent.copy)
    return {**copy, "outcome": sent.outcome.words, "rule": sent.outcome.rule, "failed": sent.failed}


def _fastest(message: Message, shortcut: Shortcut | str) -> dict[str, Any]:
    if isinstance(shortcut, str):
        return {"unknown": shortcut}
    after, missed, why = message.us_after, shortcut.missed, shortcut.why
    return {
        "arrived_us": after(shortcut.path.arrived_us),
        "sooner_us": shortcut.sooner_us,
        "nodes": list(shortcut.path.nodes),
        "hops": [
            {"from": hop.sender, "to": hop.receiver, "sent_us": after(hop.sent_us),
             "arrived_us": after(hop.arrived_us), "had_us": after(hop.had_us), "really_sent": hop.is_real}
            for hop in shortcut.path.hops
        ],
        "parts_at": None if missed is None else [missed.sender, missed.receiver],
        "why": None if why is None else why.words,
        "rule": None if why is None else why.rule,
    }  # fmt: skip
