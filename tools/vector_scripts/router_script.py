"""Scripts for vectors of routers: a script has the events; the expected results are those of our router.

Each script is played with 32 seeds. A result that all seeds share is expected as it is. Where a draw chooses peers,
the vector expects their number and names the candidates. A script that depends on the seed in another way is refused.
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
APPLICATION_SCORE = {
    "DecayInterval": 3_600 * SECOND,
    "DecayToZero": 0.01,
    "SeenMsgTTL": 120 * SECOND,
    "AppSpecificWeight": 1,
    "Thresholds": {"GossipThreshold": -10, "PublishThreshold": -100, "GraylistThreshold": -1000},
}
"""Parameters with which a score is the application score, and nothing decays while a vector lasts."""
MISBEHAVIOUR = {**APPLICATION_SCORE, "BehaviourPenaltyWeight": -1, "BehaviourPenaltyDecay": 0.9}
"""`APPLICATION_SCORE`, less the square of a peer's misbehaviour."""


class RouterScript:
    """A vector under construction. Each method adds events, at the time `at` (µs)."""

    def __init__(self, name: str, specification: str, description: str, **parameters: Any) -> None:
        self.about = {"name": name, "description": description, "specification": specification}
        self.parameters = parameters
        self.messages: dict[str, dict[str, Any]] = {}
        self.steps: list[dict[str, Any]] = []
        self.at = 0

    def add_step(self, event: str, **more: Any) -> None:
        self.steps.append({"at": self.at, "event": event, **more})

    def connect(self, peers: str, protocol: str = MESHSUB_11, topic: str | None = TOPIC, **more: Any) -> None:
        """Connect peers, each named by a letter; each subscribes to the topic, unless it is None."""
        for peer in peers:
            self.add_step("connect", peer=peer, protocol=protocol, **more)
            if topic is not None:
                self.rpc(peer, subscribe=[topic])

    def message(self, name: str, size: int = 10, topic: str = TOPIC, author: str | None = None) -> str:
        self.messages[name] = {"topic": topic, "size": size} | ({"from": author} if author else {})
        return name

    def join(self, topic: str = TOPIC) -> None:
        self.add_step("join", topic=topic)

    def publish(self, name: str, size: int = 10, topic: str = TOPIC) -> None:
        self.add_step("publish", message=self.message(name, size, topic, NODE))

    def rpc(self, peer: str, **parts: Any) -> None:
        self.add_step("rpc", peer=peer, rpc=parts)

    def receive(self, peer: str, *names: str, size: int = 10) -> None:
        """Let the router receive messages of another author from a peer, in one RPC."""
        self.rpc(peer, messages=[self.message(name, size, author="author") for name in names])

    def graft(self, peers: str, topic: str = TOPIC) -> None:
        for peer in peers:
            self.rpc(peer, graft=[topic])

    def rate(self, **scores: float) -> None:
        for peer, score in scores.items():
            self.add_step("application_score", peer=peer, score=score)

    def heartbeat(self, times: int = 1, every: int = SECOND) -> None:
        for _ in range(times):
            self.at += every
            self.add_step("heartbeat")

    def vector(self) -> dict[str, Any]:
        """Return the vector, with the changes that are expected after each step."""
        made = {**self.about, "parameters": self.parameters, "messages": self.messages, "steps": self.steps}
        played = {name: self._played(made, name) for name in IMPLEMENTATIONS}
        steps: list[dict[str, Any]] = []
        for number, step in enumerate(self.steps):
            expect = played[SPECIFICATION][number]
            differs = {name: own[number] for name, own in played.items() if own[number] != expect}
            steps.append(step | ({"expect": expect} if expect else {}) | ({"differs": differs} if differs else {}))
        return {**made, "steps": steps}

    def _played(self, made: Mapping[str, Any], implementation: str) -> list[dict[str, Any]]:
        runs = [_recorded_changes(made, implementation, seed) for seed in SEEDS]
        return [
            _common_changes([run[number] for run in runs], f"{self.about['name']}, step {number}")
            for number in range(len(self.steps))
        ]


def _recorded_changes(made: Mapping[str, Any], implementation: str, seed: int) -> list[dict[str, Any]]:
    run, before = RouterRun(made, implementation, seed), StepResult()
    found: list[dict[str, Any]] = []
    for number, step in enumerate(made["steps"]):
        now = run.perform(step, f"steps[{number}]")
        found.append(changes(before, now))
        before = now
    return found


def _common_changes(runs: Sequence[dict[str, Any]], place: str) -> dict[str, Any]:
    """Return the changes that all runs of a step have in common, and the number of drawn peers."""
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
            raise ValueError(f"{place}: {name} depends on the seed")
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
            raise ValueError(f"{place}: the number of peers that get {rpc} depends on the seed: {sorted(counts)}")
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
                raise ValueError(f"{place}: the size of {name} of {topic} depends on the seed: {sorted(sizes)}")
            of, shared = sorted(set.union(*sets)), sorted(set.intersection(*sets))
            drawn[topic] = {"size": sizes.pop(), "of": of, "with": shared}
    return ({name: certain} if certain else {}) | {f"{name}_some": drawn}
