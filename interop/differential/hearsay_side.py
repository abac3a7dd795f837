"""Play sequences on Hearsay's router, with the order of names instead of random choices, like the other routers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from hearsay.core.mesh import meshsub
from hearsay.core.rules import randomness
from hearsay.vectors.router_run import RouterRun, StepResult


@contextmanager
def in_order() -> Iterator[None]:
    """Within the context, draws return 0, samples the first elements, and shuffles the order of names."""

    def first(_state: int, _size: int, count: int) -> list[int]:
        return list(range(count))

    def by_name(_state: int, peers: Sequence[Any]) -> list[Any]:
        return sorted(peers)

    def zero(*_words: object) -> int:
        return 0

    with (
        patch.object(randomness, "sample_indices", first),
        patch.object(meshsub, "shuffled", by_name),
        patch.object(randomness.Randomness, "draw", zero),
    ):
        yield


def play(sequence: dict[str, Any], implementation: str) -> list[dict[str, Any]]:
    """Return the actions of the router in each step, and its state after the step."""
    run = RouterRun(sequence, implementation)
    found: list[dict[str, Any]] = []
    waiting: set[str] = set()
    last = StepResult()
    for number, step in enumerate(sequence["steps"]):
        parts: list[StepResult] = []
        while (due := run.deadline()) is not None and due <= step["at"]:
            parts.append(run.perform({"event": "heartbeat", "at": due}, "timer"))
        if step["event"] != "heartbeat" and not (step["event"] == "verdict" and step["message"] not in waiting):
            parts.append(run.perform(step, f"steps[{number}]"))
            waiting.discard(step.get("message", ""))
        if not parts:
            parts.append(replace(last, rpcs={}, delivers=[], validates=[], dials=[]))
        last = parts[-1]
        waiting.update(*(part.validates for part in parts))
        found.append(_merged(parts))
    return found


def _merged(parts: list[StepResult]) -> dict[str, Any]:
    rpcs: dict[str, dict[str, Any]] = {}
    for part in parts:
        for peer, form in part.rpcs.items():
            into = rpcs.setdefault(peer, {})
            for kind, said in form.items():
                into[kind] = _added(into.get(kind), said)
    last = parts[-1]
    return {
        "rpcs": rpcs, **{kind: sorted(name for part in parts for name in getattr(part, kind))
                         for kind in ("delivers", "validates", "dials")},
        "mesh": last.mesh, "fanout": last.fanout, "backoffs": last.backoffs, "scores": last.scores,
    }  # fmt: skip


def _added(before: Any, said: Any) -> Any:
    if before is None:
        return said
    if isinstance(said, list):
        return sorted({*before, *said})
    return {name: _added(before.get(name), said[name]) if name in said and isinstance(said[name], list)
            else said.get(name, before.get(name)) for name in {*before, *said}}  # fmt: skip
