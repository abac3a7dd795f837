"""Random sequences for routers: vectors without expectations, made from a seed.

docs/reference/vectors.md has the form. Heartbeats come at half seconds and scores decay at whole ones, so that no two
timers fall together; the other steps lie in between.
"""

from __future__ import annotations

import random
from typing import Any

SECOND = 1_000_000
PEERS = "ABCDEFGH"
TOPICS = ("news", "sport")
STEPS = 50
PROTOCOLS = (
    "/meshsub/1.3.0",
    "/meshsub/1.2.0",
    "/meshsub/1.2.0",
    "/meshsub/1.1.0",
    "/meshsub/1.0.0",
    "/floodsub/1.0.0",
)
EVENTS = {
    "heartbeat": 24, "rpc": 60, "publish": 6, "connect": 10, "disconnect": 2, "join": 3, "leave": 1,
    "application_score": 3, "verdict": 10,
}  # fmt: skip
"""How often each comes, relative to the others."""
PARTS = {
    "subscribe": 4, "unsubscribe": 1, "messages": 8, "ihave": 5, "iwant": 5, "graft": 5, "prune": 2, "idontwant": 3,
}  # fmt: skip

Sequence = dict[str, Any]


def sequence(seed: int, forced: bool = False) -> Sequence:
    """The sequence of a seed; with `forced` the parameters leave a router nothing to draw."""
    return _Maker(random.Random(seed), forced).made(f"seed-{seed}")


class _Maker:
    def __init__(self, chance: random.Random, forced: bool) -> None:
        self.chance = chance
        self.forced = forced
        self.now = 0
        self.connected: set[str] = set()
        self.joined: set[str] = set()
        self.published: set[str] = set()
        self.waiting: list[str] = []
        self.parameters = self._parameters()
        self.messages = {f"m{number:02}": self._message() for number in range(24)}

    def made(self, name: str) -> Sequence:
        steps = [self._connect(peer) for peer in PEERS[: self.chance.randint(2, 5)]]
        steps += [self._join(topic) for topic in TOPICS[: self.chance.randint(1, 2)]]
        while len(steps) < STEPS:
            step = self._step()
            if step is not None:
                steps.append(step)
        return {"name": name, "parameters": self.parameters, "messages": self.messages, "steps": steps}

    def _parameters(self) -> dict[str, Any]:
        one = self.chance.choice
        degrees = {"D": 8, "Dlo": 7, "Dhi": 16, "Dscore": 4, "Dout": 2, "Dlazy": 16}
        if not self.forced and self.chance.random() < 0.7:
            degree = one([2, 3, 4])
            degrees = {
                "D": degree,
                "Dlo": one([2, degree]),
                "Dhi": degree + one([1, 2]),
                "Dscore": one([1, degree]),
                "Dout": 0,
                "Dlazy": one([1, 2, 6]),
            }
            if degree == 4:
                degrees["Dout"] = 1
        found: dict[str, Any] = {
            **degrees,
            "HeartbeatInitialDelay": SECOND // 2,
            "HeartbeatInterval": SECOND,
            "HistoryLength": 5,
            "HistoryGossip": one([1, 3]),
            "GossipRetransmission": one([1, 3]),
            "MaxIHaveLength": 5000 if self.forced else one([2, 4, 5000]),
            "MaxIHaveMessages": one([2, 10]),
            "IWantFollowupTime": one([1, 3]) * SECOND,
            "FanoutTTL": one([2, 60]) * SECOND,
            "PruneBackoff": one([4, 60]) * SECOND,
            "UnsubscribeBackoff": one([3, 10]) * SECOND,
            "GraftFloodThreshold": one([1, 3]) * SECOND,
            "PrunePeers": 16,
            "OpportunisticGraftTicks": one([2, 60]),
            "FloodPublish": one([False, True]),
            "IDontWantMessageThreshold": one([100, 1024]),
            "IDontWantMessageTTL": one([1, 3]),
            "MaxIDontWantLength": one([2, 10]),
            "MaxIDontWantMessages": one([1, 1000]),
            "Validate": one([False, True]),
        }
        if self.chance.random() < 0.8:
            found["Score"] = self._score()
        return found

    def _score(self) -> dict[str, Any]:
        one = self.chance.choice
        return {
            "TopicScoreCap": one([0, 10]),
            "AppSpecificWeight": 1,
            "IPColocationFactorWeight": one([0, -5]),
            "IPColocationFactorThreshold": 1,
            "BehaviourPenaltyWeight": one([-1, -10]),
            "BehaviourPenaltyThreshold": one([0, 2]),
            "BehaviourPenaltyDecay": one([0.5, 0.9]),
            "DecayInterval": SECOND,
            "DecayToZero": 0.01,
            "RetainScore": one([0, 3, 60]) * SECOND,
            "SeenMsgTTL": 120 * SECOND,
            "Thresholds": {
                "GossipThreshold": -10, "PublishThreshold": -20, "GraylistThreshold": -40,
                "AcceptPXThreshold": one([0, 5]),
                "OpportunisticGraftThreshold": one([0, 3]),
            },
            "Topics": {topic: self._topic_score() for topic in TOPICS[: one([1, 2])]},
        }  # fmt: skip

    def _topic_score(self) -> dict[str, Any]:
        one = self.chance.choice
        return {
            "TopicWeight": one([0.5, 1]),
            "TimeInMeshWeight": one([0, 0.5]),
            "TimeInMeshQuantum": SECOND,
            "TimeInMeshCap": 10,
            "FirstMessageDeliveriesWeight": 1,
            "FirstMessageDeliveriesDecay": 0.5,
            "FirstMessageDeliveriesCap": 5,
            "MeshMessageDeliveriesWeight": one([0, -1]),
            "MeshMessageDeliveriesDecay": 0.5,
            "MeshMessageDeliveriesCap": 10,
            "MeshMessageDeliveriesThreshold": 2,
            "MeshMessageDeliveriesWindow": 10_000,
            "MeshMessageDeliveriesActivation": 2 * SECOND,
            "MeshFailurePenaltyWeight": one([0, -1]),
            "MeshFailurePenaltyDecay": 0.5,
            "InvalidMessageDeliveriesWeight": -3,
            "InvalidMessageDeliveriesDecay": 0.5,
        }

    def _message(self) -> dict[str, Any]:
        found: dict[str, Any] = {"topic": self.chance.choice(TOPICS), "size": self.chance.choice([10, 200, 2000])}
        author = self.chance.choice([None, None, "author", "A", "self"])
        return found if author is None else {**found, "from": author}

    def _at(self) -> int:
        self.now += self.chance.choice([1_000, 2_000, 15_000])
        if self.now % (SECOND // 2) < 20_000:
            self.now += 20_000
        return self.now

    def _step(self) -> dict[str, Any] | None:
        event = self.chance.choices(list(EVENTS), list(EVENTS.values()))[0]
        connected = sorted(self.connected)
        match event:
            case "heartbeat":
                self.now = (self.now + SECOND // 2) // SECOND * SECOND + SECOND // 2
                return {"at": self.now, "event": "heartbeat"}
            case "connect":
                absent = sorted({*PEERS} - self.connected)
                return self._connect(self.chance.choice(absent)) if absent else None
            case "disconnect" if connected:
                peer = self.chance.choice(connected)
                self.connected.remove(peer)
                return {"at": self._at(), "event": "disconnect", "peer": peer}
            case "join" | "leave":
                topic = self.chance.choice(TOPICS)
                if (topic in self.joined) == (event == "join"):
                    return None
                if event == "join":
                    return self._join(topic)
                self.joined.remove(topic)
                return {"at": self._at(), "event": "leave", "topic": topic}
            case "publish":
                names = [name for name in self.messages if name not in self.published]
                return self._publish(self.chance.choice(names)) if names else None
            case "application_score" if connected and "Score" in self.parameters:
                score = self.chance.choice([-50, -30, -15, -1, 0, 0, 2, 8])
                return {
                    "at": self._at(),
                    "event": "application_score",
                    "peer": self.chance.choice(connected),
                    "score": score,
                }
            case "verdict" if self.waiting:
                name = self.waiting.pop(self.chance.randrange(len(self.waiting)))
                verdict = self.chance.choice(["accept", "accept", "accept", "reject", "ignore"])
                return {"at": self._at(), "event": "verdict", "message": name, "verdict": verdict}
            case "rpc" if connected:
                peer = self.chance.choice(connected)
                return {"at": self._at(), "event": "rpc", "peer": peer, "rpc": self._rpc()}
            case _:
                return None

    def _connect(self, peer: str) -> dict[str, Any]:
        self.connected.add(peer)
        return {
            "at": self._at(), "event": "connect", "peer": peer, "protocol": self.chance.choice(PROTOCOLS),
            "outbound": self.chance.random() < 0.4, "address": f"10.0.0.{self.chance.randint(1, 6)}",
        }  # fmt: skip

    def _join(self, topic: str) -> dict[str, Any]:
        self.joined.add(topic)
        return {"at": self._at(), "event": "join", "topic": topic}

    def _publish(self, name: str) -> dict[str, Any]:
        self.published.add(name)
        self.messages[name]["from"] = "self"
        return {"at": self._at(), "event": "publish", "message": name}

    def _rpc(self) -> dict[str, Any]:
        rpc: dict[str, Any] = {}
        for _ in range(self.chance.choice([1, 1, 2, 3])):
            part = self.chance.choices(list(PARTS), list(PARTS.values()))[0]
            rpc[part] = self._part(part)
        return rpc

    def _part(self, part: str) -> Any:
        topics = self.chance.sample(TOPICS, self.chance.randint(1, 2))
        names = self.chance.sample(sorted(self.messages), self.chance.randint(1, 4))
        match part:
            case "messages":
                names = [name for name in names if name not in self.published or self.chance.random() < 0.3]
                self.published.update(names)
                self.waiting += names
                return names
            case "ihave":
                return dict.fromkeys(topics, names)
            case "iwant" | "idontwant":
                return names
            case "prune":
                return {topic: self._prune() for topic in topics}
            case _:
                return topics

    def _prune(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self.chance.random() < 0.7:
            found["backoff"] = self.chance.choice([1, 5, 60])
        if self.chance.random() < 0.4:
            found["peers"] = self.chance.sample("ABXYZ", self.chance.randint(1, 3))
        return found
