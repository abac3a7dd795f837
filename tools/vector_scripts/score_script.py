"""Scripts for vectors of scores: a script has the events; the expected scores are those of our scorer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hearsay.vectors.score_run import IMPLEMENTATIONS, SPECIFICATION, Step, new_scorer, parts_by_path, perform

MS = 1_000
SECOND = 1_000_000
OTHERS = tuple(name for name in IMPLEMENTATIONS if name != SPECIFICATION)
NO_DECAY = {
    "TopicWeight": 1,
    "TimeInMeshQuantum": SECOND,
    "FirstMessageDeliveriesDecay": 1,
    "MeshMessageDeliveriesDecay": 1,
    "InvalidMessageDeliveriesDecay": 1,
}
"""Topic parameters with which nothing counts and nothing decays, as in go's tests; scripts add weights."""
TOPIC = "news"


class ScoreScript:
    """A vector under construction. Each method adds events, at the time `at` (µs)."""

    def __init__(
        self,
        name: str,
        description: str,
        peers: str | Sequence[str],
        topic: Mapping[str, Any] | None = None,
        topics: Mapping[str, Any] | None = None,
        specification: str = "gossipsub v1.1, Peer Scoring",
        with_parts: bool = True,
        **peer: Any,
    ) -> None:
        self.about = {"name": name, "description": description, "specification": specification}
        own = {"DecayInterval": SECOND, "DecayToZero": 0.01, "SeenMsgTTL": 120 * SECOND, **peer}
        named = {TOPIC: {**NO_DECAY, **(topic or {})}} if topics is None else topics
        self.parameters = {**own, "Topics": named}
        self.peers = list(peers)
        self.steps: list[dict[str, Any]] = []
        self.at = 0
        self._with_parts = with_parts

    def add_step(self, event: str, **more: Any) -> None:
        self.steps.append({"at": self.at, "event": event, **more})

    def connect(self, *peers: str, addresses: Sequence[str] = ()) -> None:
        for peer in peers:
            self.add_step("connect", peer=peer, addresses=list(addresses))

    def graft(self, *peers: str, topic: str = TOPIC) -> None:
        for peer in peers:
            self.add_step("graft", peer=peer, topic=topic)

    def prune(self, *peers: str, topic: str = TOPIC) -> None:
        for peer in peers:
            self.add_step("prune", peer=peer, topic=topic)

    def validate(self, message: str, topic: str = TOPIC) -> None:
        self.add_step("validate", topic=topic, message=message)

    def deliver(self, peer: str, message: str, topic: str = TOPIC) -> None:
        self.add_step("deliver", peer=peer, topic=topic, message=message)

    def duplicate(self, peer: str, message: str, topic: str = TOPIC) -> None:
        self.add_step("duplicate", peer=peer, topic=topic, message=message)

    def reject(self, peer: str, message: str, reason: str, topic: str = TOPIC) -> None:
        self.add_step("reject", peer=peer, topic=topic, message=message, reason=reason)

    def deliver_first(self, peer: str, count: int, prefix: str = "m") -> None:
        """Let a peer be the first to deliver some messages, which are accepted at once."""
        for number in range(count):
            self.validate(f"{prefix}{number}")
            self.deliver(peer, f"{prefix}{number}")

    def refresh(self, times: int = 1) -> None:
        for _ in range(times):
            self.add_step("refresh")

    def vector(self, of_others: Mapping[str, Sequence[Mapping[str, float]]] | None = None) -> dict[str, Any]:
        """Return the vector, with the scores that change after each step. `of_others` has recorded scores of other
        implementations after each step.
        """
        played = {name: self._played(name) for name in IMPLEMENTATIONS}
        played |= {name: [_scores(each) for each in steps] for name, steps in (of_others or {}).items()}
        nothing = {"score": 0.0, "parts": {}} if self._with_parts else {"score": 0.0}
        states = {name: dict.fromkeys(self.peers, nothing) for name in played}
        steps: list[dict[str, Any]] = []
        for number, step in enumerate(self.steps):
            before = states[SPECIFICATION]
            now = {**before, **played[SPECIFICATION][number]}
            expect = {peer: now[peer] for peer in self.peers if now[peer] != before[peer]}
            differs: dict[str, Any] = {}
            for name in OTHERS:
                theirs = {**states[name], **played[name][number]}
                would_be = {**states[name], **expect}
                other = {peer: theirs[peer] for peer in self.peers if theirs[peer] != would_be[peer]}
                states[name] = {**would_be, **other}
                if other:
                    differs[name] = other
            states[SPECIFICATION] = now
            steps.append(step | ({"expect": expect} if expect else {}) | ({"differs": differs} if differs else {}))
        return {**self.about, "parameters": self.parameters, "peers": self.peers, "steps": steps}

    def _played(self, implementation: str) -> list[dict[str, Any]]:
        scorer = new_scorer(self.parameters, implementation)
        found: list[dict[str, Any]] = []
        for step in self.steps:
            perform(scorer, step)
            found.append({peer: self._score_and_parts(scorer, peer, step) for peer in self.peers})
        return found

    def _score_and_parts(self, scorer: Any, peer: str, step: Step) -> dict[str, Any]:
        own: dict[str, Any] = {"score": scorer.score(peer, step["at"])}
        if self._with_parts:
            own["parts"] = _nested(parts_by_path(scorer.parts(peer, step["at"])))
        return own


def _nested(parts: Mapping[str, float]) -> dict[str, Any]:
    """Return the parts that are not 0 in the form of vectors: those of a topic are in an object of the topic."""
    found: dict[str, Any] = {path: part for path, part in parts.items() if part and not path.startswith("topics.")}
    for path, part in parts.items():
        if part and path.startswith("topics."):
            topic, _, name = path.removeprefix("topics.").rpartition(".")
            found.setdefault("topics", {}).setdefault(topic, {})[name] = part
    return found


def _scores(scores: Mapping[str, float]) -> dict[str, Any]:
    return {peer: {"score": score} for peer, score in scores.items()}
