"""Scripts for vectors of routers: what happens is written down, and what comes of it recorded from our router.

Each script is played with many seeds. A result common to all of them is expected as it is; where a draw decides,
a number of those that were drawn is expected, and a script in which that is not all there is to say is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hearsay.core.language.rpc import MESHSUB_11
from hearsay.vectors.router_run import NODE, RouterRun, StepResult, changes
from hearsay.vectors.score_run import IMPLEMENTATIONS, SPECIFICATION

SECOND = 1_000_000
SEEDS = range(1, 33)
TOPIC = "news"
RATED = {
    "DecayInterval": 3_600 * SECOND,
    "DecayToZero": 0.01,
    "SeenMsgTTL": 120 * SECOND,
    "AppSpecificWeight": 1,
    "Thresholds": {"GossipThreshold": -10, "PublishThreshold": -100, "GraylistThreshold": -1000},
}
"""Scores that are what the application says, and never decay while a vector lasts."""
WATCHED = {**RATED, "BehaviourPenaltyWeight": -1, "BehaviourPenaltyDecay": 0.9}
"""… and misbehaviour."""


class RouterScript:
    """A vector in the making. Events are methods; `at` is the time of the next one."""

    def __init__(self, name: str, specification: str, description: str, **parameters: Any) -> None:
        self.about = {"name": name, "description": description, "specification": specification}
        self.parameters = parameters
        self.messages: dict[str, dict[str, Any]] = {}
        self.steps: list[dict[str, Any]] = []
        self.at = 0

    def do(self, event: str, **more: Any) -> None:
        self.steps.append({"at": self.at, "event": event, **more})

    def connect(self, peers: str, protocol: str = MESHSUB_11, topic: str | None = TOPIC, **more: Any) -> None:
        """They say hello, too."""
        for peer in peers:
            self.do("connect", peer=peer, protocol=protocol, **more)
            if topic is not None:
                self.rpc(peer, subscribe=[topic])

    def message(self, name: str, size: int = 10, topic: str = TOPIC, author: str | None = None) -> str:
        self.messages[name] = {"topic": topic, "size": size} | ({"from": author} if author else {})
        return name

    def join(self, topic: str = TOPIC) -> None:
        self.do("join", topic=topic)

    def publish(self, name: str, size: int = 10, topic: str = TOPIC) -> None:
        self.do("publish", message=self.message(name, size, topic, NODE))

    def rpc(self, peer: str, **parts: Any) -> None:
        self.do("rpc", peer=peer, rpc=parts)

    def bring(self, peer: str, *names: str, size: int = 10) -> None:
        """The peer sends messages."""
        self.rpc(peer, messages=[self.message(name, size, author="author") for name in names])

    def graft(self, peers: str, topic: str = TOPIC) -> None:
        for peer in peers:
            self.rpc(peer, graft=[topic])

    def rate(self, **scores: float) -> None:
        for peer, score in scores.items():
            self.do("application_score", peer=peer, score=score)

    def heartbeat(self, times: int = 1, every: int = SECOND) -> None:
        for _ in range(times):
            self.at += every
            self.do("heartbeat")

    def vector(self) -> dict[str, Any]:
        """With what is expected after each step."""
        made = {**self.about, "parameters": self.parameters, "messages": self.messages, "steps": self.steps}
        played = {name: self._played(made, name) for name in IMPLEMENTATIONS}
        steps: list[dict[str, Any]] = []
        for number, step in enumerate(self.steps):
            expect = played[SPECIFICATION][number]
            differs = {name: own[number] for name, own in played.items() if own[number] != expect}
            steps.append(step | ({"expect": expect} if expect else {}) | ({"differs": differs} if differs else {}))
        return {**made, "steps": steps}

    def _played(self, made: Mapping[str, Any], implementation: str) -> list[dict[str, Any]]:
        runs = [_changes(made, implementation, seed) for seed in SEEDS]
        return [
            _agreed([run[number] for run in runs], f"{self.about['name']}, step {number}")
            for number in range(len(self.steps))
        ]


def _changes(made: Mapping[str, Any], implementation: str, seed: int) -> list[dict[str, Any]]:
    run, before = RouterRun(made, implementation, seed), StepResult()
    found: list[dict[str, Any]] = []
    for number, step in enumerate(made["steps"]):
        now = run.perform(step, f"steps[{number}]")
        found.append(changes(before, now))
        before = now
    return found


def _agreed(runs: Sequence[dict[str, Any]], place: str) -> dict[str, Any]:
    """Return what holds in all runs of a step."""
    first = runs[0]
    if all(run == first for run in runs):
        return first
    found: dict[str, Any] = {}
    for name in dict.fromkeys(name for run in runs for name in run):
        values = [run.get(name, {}) for run in runs]
        if all(value == values[0] for value in values):
            found[name] = values[0]
        elif name == "rpcs":
            found |= _drawn_rpcs(values, place)
        elif name in ("mesh", "fanout"):
            found |= _drawn_peers(name, values, place)
        elif name != "backoffs":
            raise ValueError(f"{place}: {name} depends on chance")
    if "some" in found:
        found.pop("backoffs", None)
    return found


def _drawn_rpcs(runs: Sequence[dict[str, Any]], place: str) -> dict[str, Any]:
    peers = sorted({peer for run in runs for peer in run})
    certain = {peer: runs[0][peer] for peer in peers if all(run.get(peer) == runs[0].get(peer) for run in runs)}
    groups: list[dict[str, Any]] = []
    for rpc in _distinct([run[peer] for run in runs for peer in peers if peer in run and peer not in certain]):
        among = [peer for peer in peers if peer not in certain and any(run.get(peer) == rpc for run in runs)]
        counts = {sum(run.get(peer) == rpc for peer in among) for run in runs}
        if len(counts) > 1:
            raise ValueError(f"{place}: {sorted(counts)} peers are sent {rpc}")
        groups.append({"count": counts.pop(), "among": among, "rpc": rpc})
    return ({"rpcs": certain} if certain else {}) | {"some": groups}


def _distinct(values: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for value in values:
        if value not in found:
            found.append(value)
    return found


def _drawn_peers(name: str, runs: Sequence[dict[str, list[str]]], place: str) -> dict[str, Any]:
    topics = sorted({topic for run in runs for topic in run})
    certain = {topic: runs[0][topic] for topic in topics if all(run.get(topic) == runs[0].get(topic) for run in runs)}
    drawn: dict[str, Any] = {}
    for topic in topics:
        if topic not in certain:
            sets = [set(run.get(topic, [])) for run in runs]
            sizes = {len(each) for each in sets}
            if len(sizes) > 1:
                raise ValueError(f"{place}: {name} of {topic} has {sorted(sizes)} peers")
            of, shared = sorted(set.union(*sets)), sorted(set.intersection(*sets))
            drawn[topic] = {"size": sizes.pop(), "of": of, "with": shared}
    return ({name: certain} if certain else {}) | {f"{name}_some": drawn}
