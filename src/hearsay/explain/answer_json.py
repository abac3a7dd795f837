"""Answers as JSON: times in microseconds after the publication, nodes by number."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from hearsay.core.language.actions import Via
from hearsay.explain.copies import Copy
from hearsay.explain.fastest import Shortcut
from hearsay.explain.message import Message
from hearsay.explain.missing import RULES, Missing, MissingAnswer, by_reason
from hearsay.explain.node import NodeAnswer, Sent
from hearsay.explain.path import Hop, Path
from hearsay.explain.slowest import SlowAnswer
from hearsay.trace.language.schema import NONE, wire_name


def node_json(message: Message, answer: NodeAnswer, shortcut: Shortcut | str) -> dict[str, Any]:
    return {
        "node": answer.node,
        "name": message.names.peer(answer.node),
        "delivered_us": answer.path.delivered_us - message.history.start_us(),
        "deliveries": answer.deliveries,
        "path": _path(message, answer.path),
        "fastest": _fastest(message, shortcut),
        "copies": [_sent(message, each) for each in answer.copies],
    }


def slow_json(message: Message, answer: SlowAnswer) -> dict[str, Any]:
    start = message.history.start_us()
    return {
        "deliveries": answer.deliveries,
        "latecomers": answer.latecomers,
        "median_us": answer.median_us,
        "slowest": [
            {"node": path.node, "delivered_us": path.delivered_us - start, "path": _path(message, path)}
            for path in answer.slow
        ],
        "in_common": [asdict(trait) for trait in answer.traits],
    }


def missing_json(message: Message, answer: MissingAnswer) -> dict[str, Any]:
    return {
        "due": answer.due,
        "got": answer.got,
        "publisher_is_due": answer.publisher_is_due,
        "got_undue": answer.got_undue,
        "refused_by_all": answer.refused_by_all,
        "why_due_is_unknown": answer.unknown or None,
        "reasons": [{"why": str(why), "nodes": len(nodes)} for why, nodes in by_reason(answer.missing)],
        "missing": [_missing(message, each) for each in answer.missing],
    }


def absence_json(message: Message, missing: Missing, not_due: str | None) -> dict[str, Any]:
    return {"name": message.names.peer(missing.node), "delivered_us": None, "not_due": not_due,
            **_missing(message, missing)}  # fmt: skip


def _missing(message: Message, missing: Missing) -> dict[str, Any]:
    return {
        "node": missing.node,
        "why": str(missing.why),
        "rule": RULES.get(missing.why),
        "detail": missing.detail,
        "copies": [_sent(message, each) for each in missing.copies],
    }


def head(message: Message) -> dict[str, Any]:
    history = message.history
    return {
        "run": message.run.name,
        "message": message.name.number,
        "id": message.name.identifier,
        "topic": message.names.topic(history.topic) if history.topic != NONE else None,
        "publisher": _known(history.publisher),
        "published_us": history.published_us if history.published else None,
        "bytes": _known(history.bytes),
        "unknown": message.unknowns(),
    }


def _path(message: Message, path: Path) -> dict[str, Any]:
    return {"whole": path.complete, "nodes": list(path.nodes), "hops": [_hop(message, hop) for hop in path.hops]}


def _hop(message: Message, hop: Hop) -> dict[str, Any]:
    start = message.history.start_us()
    return {
        "from": hop.sender,
        "to": hop.receiver,
        "had_us": hop.held_us - start,
        "delivered_us": hop.delivered_us - start,
        "copy": None if hop.copy is None else _copy(message, hop.copy),
        "steps": [
            {"step": str(each.step), "from_us": each.from_us - start, "took_us": each.took_us} for each in hop.times
        ],
    }


def _copy(message: Message, copy: Copy) -> dict[str, Any]:
    start = message.history.start_us()
    return {
        "from": copy.sender,
        "to": copy.receiver,
        "sent_us": None if copy.sent_us is None else copy.sent_us - start,
        "arrived_us": None if copy.arrived_us is None else copy.arrived_us - start,
        "via": wire_name(Via(copy.via)) if 0 <= copy.via < len(Via) else None,
        "fate": wire_name(copy.fate),
    }


def _sent(message: Message, sent: Sent) -> dict[str, Any]:
    outcome = {"outcome": sent.outcome.words, "rule": sent.outcome.rule, "failed": sent.failed}
    return {**_copy(message, sent.copy), **outcome}


def _fastest(message: Message, shortcut: Shortcut | str) -> dict[str, Any]:
    if isinstance(shortcut, str):
        return {"unknown": shortcut}
    start, missed, why = message.history.start_us(), shortcut.missed, shortcut.why
    return {
        "arrived_us": shortcut.path.arrived_us - start,
        "sooner_us": shortcut.sooner_us,
        "nodes": list(shortcut.path.nodes),
        "hops": [
            {"from": hop.sender, "to": hop.receiver, "sent_us": hop.sent_us - start,
             "arrived_us": hop.arrived_us - start, "had_us": hop.had_us - start, "really_sent": hop.is_real}
            for hop in shortcut.path.hops
        ],
        "parts_at": None if missed is None else [missed.sender, missed.receiver],
        "why": None if why is None else why.words,
        "rule": None if why is None else why.rule,
    }  # fmt: skip


def _known(number: int) -> int | None:
    return None if number == NONE else number
