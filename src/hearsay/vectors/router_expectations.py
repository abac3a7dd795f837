"""The expectations of a vector for each step of a router, compared with what it did.

Actions and changes that a step does not name must not happen. Where a router draws, a number of certain peers is
expected, whichever they are; backoffs are not compared in such a step.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from hearsay.text.escape import escape
from hearsay.vectors.router_run import ByTopic, RouterRun, Seen, sorted_form
from hearsay.vectors.score_run import TOLERANCE, are_close

LONGEST_SHOWN = 400
Expected = Mapping[str, Any]


def changes(before: Seen, now: Seen) -> dict[str, Any]:
    """Return the actions and changes of a step in the form of vectors, without empty ones."""
    found: dict[str, Any] = {
        "rpcs": now.rpcs,
        "delivers": sorted(now.delivers),
        "validates": sorted(now.validates),
        "dials": sorted(now.dials),
        "mesh": _changed(before.mesh, now.mesh),
        "fanout": _changed(before.fanout, now.fanout),
        "backoffs": _prolonged(before.backoffs, now.backoffs),
        "scores": {peer: score for peer, score in now.scores.items() if score != before.scores.get(peer, 0.0)},
    }
    return {name: value for name, value in found.items() if value}


def _changed(before: ByTopic, now: ByTopic) -> ByTopic:
    topics = sorted({*before, *now})
    return {
        topic: sorted(now.get(topic, []))
        for topic in topics
        if sorted(before.get(topic, [])) != sorted(now.get(topic, []))
    }


def _prolonged(before: dict[str, dict[str, int]], now: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    """Backoffs that began or end later. When one that is over is forgotten is a router's own matter."""
    found = {
        topic: {peer: end for peer, end in sorted(ends.items()) if before.get(topic, {}).get(peer) != end}
        for topic, ends in sorted(now.items())
    }
    return {topic: ends for topic, ends in found.items() if ends}


def run_router(vector: Mapping[str, Any], implementation: str) -> str | None:
    """Return the first difference from what a vector expects; None if there is none."""
    run, before = RouterRun(vector, implementation), Seen()
    for number, step in enumerate(vector["steps"]):
        now = run.perform(step, f"steps[{number}]")
        expected = step.get("differs", {}).get(implementation, step.get("expect", {}))
        for fault in faults(changes(before, now), expected):
            return f"step {number}, {step['event']} at {step['at']} us: {fault}"
        before = now
    return None


def faults(found: Expected, expected: Expected) -> Iterator[str]:
    yield from _rpc_faults(found.get("rpcs", {}), expected)
    for name in ("delivers", "validates", "dials"):
        yield from _unequal(name, found.get(name, []), sorted(expected.get(name, [])))
    for name in ("mesh", "fanout"):
        drawn = expected.get(f"{name}_some", {})
        changed = {topic: peers for topic, peers in found.get(name, {}).items() if topic not in drawn}
        wanted = {topic: sorted(peers) for topic, peers in expected.get(name, {}).items()}
        yield from _unequal(name, changed, wanted)
        for topic, rule in drawn.items():
            peers = found.get(name, {}).get(topic, [])
            if len(peers) != rule["size"] or not set(rule["with"]) <= set(peers) <= set(rule["of"]):
                yield f"{name} of {topic} is {_shown(peers)}, not {_shown(rule)}"
    if not expected.get("some"):
        yield from _unequal("backoffs", found.get("backoffs", {}), expected.get("backoffs", {}))
    scores, wanted_scores = found.get("scores", {}), expected.get("scores", {})
    for peer in sorted({*scores, *wanted_scores}):
        if peer not in scores or peer not in wanted_scores:
            yield f"scores that change are {_shown(scores)}, not {_shown(wanted_scores)}"
        elif not are_close(scores[peer], wanted_scores[peer], TOLERANCE):
            yield f"the score of {peer} is {scores[peer]:.12g}, not {wanted_scores[peer]:.12g}"


def _rpc_faults(found: Mapping[str, Any], expected: Expected) -> Iterator[str]:
    """Yield the faults of RPCs: named ones go to their peers, and those that are drawn cover the rest."""
    certain = {peer: sorted_form(rpc) for peer, rpc in expected.get("rpcs", {}).items()}
    for peer in sorted(certain):
        yield from _unequal(f"what {peer} is sent", found.get(peer, {}), certain[peer])
    rest = {peer: rpc for peer, rpc in found.items() if peer not in certain}
    for group in expected.get("some", []):
        form = sorted_form(group["rpc"])
        members = [peer for peer in group["among"] if rest.get(peer) == form]
        if len(members) != group["count"]:
            yield f"{len(members)} of {_shown(group['among'])} are sent {_shown(form)}, not {group['count']}"
        rest = {peer: rpc for peer, rpc in rest.items() if peer not in members}
    for peer, rpc in rest.items():
        yield f"{peer} is sent {_shown(rpc)}, and should not"


def _unequal(what: str, found: object, wanted: object) -> Iterator[str]:
    if found != wanted:
        yield f"{what}: {_shown(found)}, not {_shown(wanted)}"


def _shown(value: object) -> str:
    text = escape(json.dumps(value, ensure_ascii=False))
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"
