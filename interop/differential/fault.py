"""A known difference of another implementation, shown in a few steps, and functions for such steps."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from hearsay_side import play
from replay import Comparison
from sequence_parts import SECOND

Step = dict[str, Any]
HEARTBEAT: Step = {"event": "heartbeat"}


class Fault(NamedTuple):
    """A known difference: the steps that show it, and the results of the last step on both sides."""

    name: str
    steps: list[Step]
    expected: dict[str, Any]
    """The other implementation's results, by kind."""
    ours: dict[str, Any]
    """Hearsay's results."""
    parameters: dict[str, Any] = {}  # noqa: RUF012
    error: str = ""
    """The error of the other implementation, if it raises one."""

    def sequence(
        self, parameters: Mapping[str, Any], messages: Mapping[str, Any], first: int = 1_000
    ) -> dict[str, Any]:
        """Return the steps as a sequence with times.

        Heartbeats are at half seconds. The other steps are 1 ms apart, from `first` microseconds after a whole second
        on.
        """
        second, steps = 0, list[Step]()
        for number, step in enumerate(self.steps):
            at = second * SECOND + (SECOND // 2 if step is HEARTBEAT else first + 1_000 * number)
            steps.append({"at": at, **step})
            second += step is HEARTBEAT
        own = {**parameters, **self.parameters}
        return {"name": self.name, "parameters": own, "messages": messages, "steps": steps}


def connect(*peers: str, version: str = "1.2") -> list[Step]:
    protocol = "/floodsub/1.0.0" if version == "floodsub" else f"/meshsub/{version}.0"
    return [{"event": "connect", "peer": peer, "protocol": protocol} for peer in peers]


def join(*topics: str) -> list[Step]:
    return [{"event": "join", "topic": topic} for topic in topics]


def rpc(peer: str, **parts: Any) -> Step:
    return {"event": "rpc", "peer": peer, "rpc": parts}


def publish(name: str) -> Step:
    return {"event": "publish", "message": name}


def rate(peer: str, score: float) -> Step:
    return {"event": "application_score", "peer": peer, "score": score}


def show(comparison: Comparison, faults: Iterable[Fault], to_sequence: Callable[[Fault], dict[str, Any]]) -> None:
    """Play the differences on both sides, and print the results of the last steps."""
    with comparison.driver() as driver, comparison.like():
        for fault in faults:
            given = to_sequence(fault)
            theirs, ours = driver.play(given), play(given, comparison.implementation)[-1]
            seen = theirs.get("error") or {kind: theirs["steps"][-1][kind] for kind in fault.expected}
            print(f"{fault.name}\n  {json.dumps(given)}")
            print(f"  {driver.name}: {json.dumps(seen)}")
            print(f"  Hearsay: {json.dumps({kind: ours[kind] for kind in fault.ours})}")
