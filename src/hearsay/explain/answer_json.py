"""Answers as JSON: times in microseconds after the publication, nodes by number with their names beside them."""

from __future__ import annotations

from typing import Any

from hearsay.core.language.actions import Via
from hearsay.explain.books import Copy
from hearsay.explain.missing import RULES, Missing, MissingAnswer, counted
from hearsay.explain.one_node import NodeAnswer, Sent
from hearsay.explain.path import Hop, Path
from hearsay.explain.reasons import Cause
from hearsay.explain.shortcut import Shortcut
from hearsay.explain.slowest import SlowAnswer
from hearsay.explain.story import Story
from hearsay.trace.language.schema import NONE, wire_name


def node_json(story: Story, answer: NodeAnswer, shortcut: Shortcut | str) -> dict[str, Any]:
    return {
        **_head(story),
        "node": answer.node,
        "name": story.names.peer(answer.node),
        "delivered_us": answer.path.delivered_us - story.books.start_us(),
        "deliveries": answer.deliveries,
        "path": _path(story, answer.path),
        "fastest": _fastest(story, shortcut),
        "copies": [_sent(story, each) for each in answer.copies],
    }


def slow_json(story: Story, answer: SlowAnswer) -> dict[str, Any]:
    start = story.books.start_us()
    return {
        **_head(story),
        "deliveries": answer.deliveries,
        "latecomers": answer.latecomers,
        "median_us": answer.median_us,
        "slowest": [
            {"node": path.node, "delivered_us": path.delivered_us - start, "path": _path(story, path)}
            for path in answer.slow
        ],
        "in_common": [
            {"words": trait.words, "slow": trait.slow, "slow_of": trait.slow_of, "others": trait.others,
             "others_of": trait.others_of}
            for trait in answer.traits
        ],
    }  # fmt: skip


def missing_json(story: Story, answer: MissingAnswer) -> dict[str, Any]:
    return {
        **_head(story),
        "due": answer.due,
        "got": answer.got,
        "publisher_is_due": answer.publisher_is_due,
        "got_undue": answer.got_undue,
        "refused_by_all": answer.refused_by_all,
        "why_due_is_unknown": answer.unknown or None,
        "reasons": [{"why": str(why), "nodes": len(nodes)} for why, nodes in counted(answer.missing)],
        "missing": [_missing(story, each) for each in answer.missing],
    }


def absence_json(story: Story, missing: Missing, not_due: str | None) -> dict[str, Any]:
    return {**_head(story), "name": story.names.peer(missing.node), "delivered_us": None, "not_due": not_due,
            **_missing(story, missing)}  # fmt: skip


def _missing(story: Story, missing: Missing) -> dict[str, Any]:
    return {
        "node": missing.node,
        "why": str(missing.why),
        "rule": RULES.get(missing.why),
        "detail": missing.detail,
        "copies": [_sent(story, each) for each in missing.copies],
    }


def _head(story: Story) -> dict[str, Any]:
    books = story.books
    return {
        "run": story.run.name,
        "message": story.name.number,
        "id": story.name.identifier,
        "topic": story.names.topic(books.topic) if books.topic != NONE else None,
        "publisher": _known(books.publisher),
        "published_us": books.published_us if books.published else None,
        "bytes": _known(books.bytes),
        "unknown": story.unknowns(),
    }


def _path(story: Story, path: Path) -> dict[str, Any]:
    return {"whole": path.whole, "nodes": list(path.nodes), "hops": [_hop(story, hop) for hop in path.hops]}


def _hop(story: Story, hop: Hop) -> dict[str, Any]:
    start = story.books.start_us()
    return {
        "from": hop.sender,
        "to": hop.receiver,
        "had_us": hop.held_us - start,
        "delivered_us": hop.delivered_us - start,
        "copy": None if hop.copy is None else _copy(story, hop.copy),
        "steps": [
            {"step": str(spell.step), "from_us": spell.from_us - start, "took_us": spell.took_us}
            for spell in hop.spells
        ],
    }


def _copy(story: Story, copy: Copy) -> dict[str, Any]:
    start = story.books.start_us()
    return {
        "from": copy.sender,
        "to": copy.receiver,
        "sent_us": None if copy.sent_us is None else copy.sent_us - start,
        "arrived_us": None if copy.arrived_us is None else copy.arrived_us - start,
        "via": wire_name(Via(copy.via)) if 0 <= copy.via < len(Via) else None,
        "fate": wire_name(copy.fate),
    }


def _sent(story: Story, sent: Sent) -> dict[str, Any]:
    outcome = {"outcome": sent.outcome.words, "rule": sent.outcome.rule, "failed": sent.failed}
    return {**_copy(story, sent.copy), **outcome}


def _fastest(story: Story, shortcut: Shortcut | str) -> dict[str, Any]:
    if isinstance(shortcut, str):
        return {"unknown": shortcut}
    start = story.books.start_us()
    return {
        "arrived_us": shortcut.path.arrived_us - start,
        "sooner_us": shortcut.sooner_us,
        "nodes": list(shortcut.path.nodes),
        "hops": [
            {"from": hop.sender, "to": hop.receiver, "sent_us": hop.sent_us - start,
             "arrived_us": hop.arrived_us - start, "had_us": hop.had_us - start, "really_sent": hop.is_real}
            for hop in shortcut.path.hops
        ],
        "parts_at": None if shortcut.parts_at is None else [shortcut.parts_at.sender, shortcut.parts_at.receiver],
        **_cause(shortcut.why),
    }  # fmt: skip


def _cause(cause: Cause | None) -> dict[str, Any]:
    return {"why": None if cause is None else cause.words, "rule": None if cause is None else cause.rule}


def _known(number: int) -> int | None:
    return None if number == NONE else number
