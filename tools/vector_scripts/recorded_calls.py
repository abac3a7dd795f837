"""Vectors of random calls whose scores interop/go_scores/record.py has recorded from go's scorer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vector_scripts.score_script import SECOND, ScoreScript

from hearsay.vectors.score_run import NAMES, REASONS, is_time

FILE = Path(__file__).parents[2] / "tests" / "core" / "scores" / "scores_of_go.json"
_EVENTS = {
    "penalise": ("behaviour_penalty", "count"),
    "set_application_score": ("application_score", "score"),
}
_REASONS = {reason.name: name for name, reason in REASONS.items()}


def source() -> str:
    return json.loads(FILE.read_text(encoding="utf-8"))["source"]


def vectors() -> Iterator[dict[str, Any]]:
    for number, recorded in enumerate(json.loads(FILE.read_text(encoding="utf-8"))["scripts"]):
        yield vector(number, recorded)


def vector(number: int, recorded: dict[str, Any]) -> dict[str, Any]:
    names = {ours: name for name, ours in NAMES["peer"].items()}
    own = {names[ours]: value * (1_000 if is_time(ours) else 1) for ours, value in recorded["parameters"].items()}
    topics = {
        name: dict(zip(NAMES["topic"], numbers.values(), strict=True)) for name, numbers in recorded["topics"].items()
    }
    script = ScoreScript(
        f"recorded-{number:02}",
        "Random calls, with the scores of go's scorer.",
        "ABCDE",
        topics=topics,
        with_parts=False,
        **{"DecayInterval": SECOND, **own},
    )
    scores = dict.fromkeys("ABCDE", 0.0)
    of_go: list[dict[str, float]] = []
    for call in recorded["calls"]:
        script.at = call["now"]
        event, value = _EVENTS.get(call["call"], (call["call"], "value"))
        more = {name: call[name] for name in ("peer", "topic", "message", "addresses") if name in call}
        if "value" in call:
            more[value] = call["value"]
        if "reason" in call:
            more["reason"] = _REASONS[call["reason"]]
        script.add_step(event, **more)
        scores = scores | call["scores"]
        of_go.append(scores)
    return script.vector({"go": of_go})
