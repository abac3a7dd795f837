"""Random sequences of steps for libp2p-gossipsub (Rust) and Hearsay, in the same format as for other routers.

Heartbeats are at half seconds and scores decay at whole seconds, so that no two timers expire together; other steps
are between them. A sequence leaves out steps that libp2p-gossipsub is known to handle differently, except those of
one known difference: `more`. `rust_differences.py` describes its effects.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from sequence_parts import PEERS, SECOND, STEPS, TOPICS, score_parameters

PROTOCOLS = (
    "/meshsub/1.3.0", "/meshsub/1.2.0", "/meshsub/1.2.0", "/meshsub/1.1.0", "/meshsub/1.0.0", "/floodsub/1.0.0",
)  # fmt: skip
OLD, FLOODSUB = PROTOCOLS[-2:]
MORE = (
    "old_peers", "other_topics", "floodsub_control", "slow_verdict", "ihave_limit", "short_fanout", "own_promised",
    "retained_address", "promises_without_scores", "lonely_publish", "subscribes_again", "no_retention",
    "zero_backoff", "long_pause",
)  # fmt: skip
CONTROL = ("ihave", "iwant", "graft", "prune", "idontwant")
OF_SCORES = ("own_promised", "retained_address", "no_retention")
EVENTS = {
    "heartbeat": 16, "rpc": 60, "publish": 6, "connect": 6, "disconnect": 3, "join": 3, "leave": 2, "verdict": 8,
    "application_score": 3,
}  # fmt: skip
PARTS = {
    "subscribe": 6, "unsubscribe": 2, "messages": 14, "ihave": 7, "iwant": 8, "graft": 12, "prune": 3, "idontwant": 6,
}  # fmt: skip
"""Parts of RPCs with their weights in the random choice."""
OFTEN = {
    "subscribes_again": "subscribe", "own_promised": "ihave", "promises_without_scores": "ihave",
    "ihave_limit": "ihave", "short_fanout": "publish", "lonely_publish": "publish", "no_retention": "disconnect",
}  # fmt: skip
"""Events and parts whose weight is five times as large, by `more`."""

Step = dict[str, Any]


def sequence(seed: int, more: str | None = None) -> dict[str, Any]:
    """Return the sequence of a seed. `more` is the known difference that it may show; by default, a fifth of the
    sequences have a random one.
    """
    chance = random.Random(seed)
    drawn = chance.choice(MORE) if MORE and chance.random() < 0.2 else ""
    return _SequenceMaker(chance, drawn if more is None else more).make(f"seed-{seed}")


class _SequenceMaker:
    def __init__(self, chance: random.Random, more: str) -> None:
        self.chance = chance
        self.more = more
        self.now = 21_000
        self.connected: dict[str, str] = {}
        self.subscribed: set[tuple[str, str]] = set()
        self.joined: set[str] = set()
        self.published: set[str] = set()
        self.waiting: list[str] = []
        self.fanout_topics: set[str] = set()
        """Topics that may have a fan-out."""
        self.changed = False
        """True if subscribers may have changed since the heartbeat."""
        self.beats = 0
        self.announced: dict[str, int] = {}
        """Number of heartbeats before the first IHAVE for a message, by message."""
        self.asked: Counter[str] = Counter()
        """Number of ids that a peer has requested since the heartbeat, by peer."""
        self.steps: list[Step] = []
        self.parameters = self._parameters()
        self.messages = {f"m{number:02}": self._message() for number in range(40)}

    def make(self, name: str) -> dict[str, Any]:
        if self.chance.random() < 0.2:
            self._add("direct", peer=self.chance.choice(PEERS), direct=True)
        for peer in PEERS[: self.chance.randint(3, 8)]:
            self._connect(peer)
        for topic in TOPICS[: self.chance.randint(1, 2)]:
            self._join(topic)
        for peer in sorted(self.connected):
            if self.chance.random() < 0.8:
                self._add("rpc", peer=peer, rpc={"subscribe": self._subscriptions(peer)})
        while len(self.steps) < STEPS:
            self._step()
        return {
            "name": name, "more": self.more, "parameters": self.parameters, "messages": self.messages,
            "steps": self.steps[:STEPS],
        }  # fmt: skip

    def _parameters(self) -> dict[str, Any]:
        one = self.chance.choice
        degree = one([2, 3, 4])
        found: dict[str, Any] = {
            "D": degree,
            "Dlo": one([1, degree]),
            "Dhi": one([degree + 1, degree + 2, 20]),
            "Dscore": one([1, degree]),
            "Dout": 0,
            "Dlazy": one([1, 2, 6]),
            "GossipFactor": 0.25,
            "HeartbeatInitialDelay": SECOND // 2,
            "HeartbeatInterval": SECOND,
            "HistoryLength": 5,
            "HistoryGossip": one([1, 3]),
            "GossipRetransmission": one([1, 3]),
            "MaxIHaveLength": one([2, 4] if self.more == "ihave_limit" else [4, 5_000]),
            "MaxIHaveMessages": one([1, 2, 10]),
            "IWantFollowupTime": 3 * SECOND,
            "FanoutTTL": one([2, 60]) * SECOND,
            "PruneBackoff": one([4, 60]) * SECOND,
            "UnsubscribeBackoff": one([3, 10]) * SECOND,
            "GraftFloodThreshold": one([1, 3]) * SECOND,
            "PrunePeers": one([0, 16]),
            "OpportunisticGraftTicks": one([2, 60]),
            "FloodPublish": one([False, True]),
            "IDontWantMessageThreshold": one([100, 1_000]),
            "IDontWantMessageTTL": 4,
            "MaxIDontWantLength": 10_000,
            "MaxIDontWantMessages": 1_000_000,
            "Validate": one([False, True]),
        }
        if found["Dlo"] > 1:
            found["Dout"] = one([0, 1])
        if self.more != "promises_without_scores" and (self.chance.random() < 0.7 or self.more in OF_SCORES):
            found["Score"] = score_parameters(self.chance, self._retain_score)
        return found

    def _retain_score(self) -> int:
        return 0 if self.more == "no_retention" else self.chance.choice([3, 60]) * SECOND

    def _message(self) -> dict[str, Any]:
        found: dict[str, Any] = {"topic": self.chance.choice(TOPICS), "size": self.chance.choice([10, 200, 2000])}
        author = self.chance.choice([None, None, "author", "A", "self"])
        return found if author is None else {**found, "from": author}

    def _add(self, event: str, **more: Any) -> None:
        self.steps.append({"at": self.now, "event": event, **more})
        self._pass_time()

    def _pass_time(self) -> None:
        now = self.now + self.chance.choice([1_000, 2_000, 15_000])
        if now % (SECOND // 2) < 20_000:
            now += 20_000
        if (now - SECOND // 2) // SECOND > (self.now - SECOND // 2) // SECOND:
            self._beat()
        else:
            self.now = now

    def _beat(self) -> None:
        for _ in range(self.chance.choice([1, 1, 1, 1, 2, 4])):
            self.now = (self.now + SECOND // 2) // SECOND * SECOND + SECOND // 2
            self.steps.append({"at": self.now, "event": "heartbeat"})
            self.beats += 1
        if self.chance.random() < (0.1 if self.more == "long_pause" else 0.02):
            self.now += (65 if self.more == "long_pause" else 30) * SECOND
            self.steps.append({"at": self.now, "event": "heartbeat"})
        self.now += 21_000
        self.asked.clear()
        self.changed = False
        if self.more != "slow_verdict":
            self.waiting.clear()

    def _step(self) -> None:
        event = self._draw(EVENTS)
        one = self.chance.choice
        connected = sorted(self.connected)
        topic = one(TOPICS)
        match event:
            case "heartbeat":
                self._beat()
            case "connect":
                absent = sorted({*PEERS} - {*connected})
                if absent:
                    self._connect(one(absent))
            case "disconnect" if len(connected) > 2 and not self._remembers_addresses:
                self._disconnect(one(connected))
            case "join" if topic not in self.joined:
                self._join(topic)
            case "leave" if topic in self.joined:
                self._leave(topic)
            case "publish":
                self._publish()
            case "application_score" if connected and "Score" in self.parameters:
                self._add("application_score", peer=one(connected), score=one([-50, -30, -15, -1, 0, 0, 2, 8]))
            case "verdict" if self.waiting:
                name = self.waiting.pop(self.chance.randrange(len(self.waiting)))
                self._add("verdict", message=name, verdict=one(["accept", "accept", "accept", "reject", "ignore"]))
            case "rpc" if connected:
                peer = one(connected)
                rpc = self._rpc(peer)
                if rpc:
                    self._add("rpc", peer=peer, rpc=rpc)
            case _:
                pass

    def _draw(self, weights: dict[str, int]) -> str:
        often = OFTEN.get(self.more)
        return self.chance.choices(
            list(weights), [weight * 5 if name == often else weight for name, weight in weights.items()]
        )[0]

    def _connect(self, peer: str) -> None:
        old = self.more == "old_peers"
        self.connected[peer] = self.chance.choice([each for each in PROTOCOLS if old or each != OLD])
        outbound, address = self.chance.random() < 0.4, f"10.0.0.{self.chance.randint(1, 6)}"
        self._add("connect", peer=peer, protocol=self.connected[peer], outbound=outbound, address=address)

    def _disconnect(self, peer: str) -> None:
        del self.connected[peer]
        self.changed = True
        self.subscribed = {each for each in self.subscribed if each[0] != peer}
        self._add("disconnect", peer=peer)

    def _join(self, topic: str) -> None:
        self.joined.add(topic)
        self._add("join", topic=topic)

    def _leave(self, topic: str) -> None:
        if self.more != "slow_verdict":
            self.waiting = [name for name in self.waiting if self.messages[name]["topic"] != topic]
        self.joined.discard(topic)
        self._add("leave", topic=topic)

    @property
    def _remembers_addresses(self) -> bool:
        """Return whether a score depends on the addresses of disconnected peers, which the Rust router forgets."""
        weight = self.parameters.get("Score", {}).get("IPColocationFactorWeight")
        return bool(weight) and self.more != "retained_address"

    def _publish(self) -> None:
        names = [name for name in self.messages if name not in self.published]
        if not names:
            return
        name = self.chance.choice(names)
        topic = self.messages[name]["topic"]
        members = [peer for peer, of in self.subscribed if of == topic]
        if not members and self.more != "lonely_publish":
            return
        if topic not in self.joined and not self.parameters["FloodPublish"]:
            routed = [peer for peer in members if self.connected[peer] != FLOODSUB]
            short = self.changed or len(routed) < self.parameters["D"]
            if topic in self.fanout_topics and short and self.more != "short_fanout":
                return
            self.fanout_topics.add(topic)
        self.published.add(name)
        self.messages[name]["from"] = "self"
        self._add("publish", message=name)

    def _subscriptions(self, peer: str) -> list[str]:
        topics: list[str] = [*self.chance.sample(TOPICS, self.chance.randint(1, 2))]
        if self.more != "subscribes_again":
            topics = [topic for topic in topics if (peer, topic) not in self.subscribed]
        self.subscribed.update((peer, topic) for topic in topics)
        self.changed = True
        return topics

    def _rpc(self, peer: str) -> dict[str, Any]:
        rpc: dict[str, Any] = {}
        for _ in range(self.chance.choice([1, 1, 1, 2, 3])):
            part = self._draw(PARTS)
            if part in rpc or {part, *rpc} >= {"subscribe", "unsubscribe"}:
                continue
            said = self._part(peer, part)
            if said:
                rpc[part] = said
        if "iwant" in rpc and "idontwant" in rpc:
            rpc["idontwant"] = [name for name in rpc["idontwant"] if name not in rpc["iwant"]]
        return rpc

    def _part(self, peer: str, part: str) -> Any:
        topics = self.chance.sample(TOPICS, self.chance.randint(1, 2))
        names = self.chance.sample(sorted(self.messages), self.chance.randint(1, 4))
        match part:
            case _ if part in CONTROL and self.connected[peer] == FLOODSUB and self.more != "floodsub_control":
                return None
            case "messages":
                names = [name for name in names if name not in self.published or self.chance.random() < 0.3]
                if self.more != "other_topics":
                    names = [name for name in names if self.messages[name]["topic"] in self.joined]
                self.waiting += [name for name in names if name not in self.published]
                self.published.update(names)
                return names
            case "subscribe":
                return self._subscriptions(peer)
            case "unsubscribe":
                self.subscribed -= {(peer, topic) for topic in topics}
                self.changed = True
                return topics
            case "ihave":
                return dict.fromkeys(topics, self._names_to_announce(names))
            case "iwant":
                here = sorted(self.published)
                names = self.chance.sample(here, min(3, len(here))) or names
                self.asked[peer] += len(names)
                return names if self.asked[peer] <= self.parameters["MaxIHaveLength"] else None
            case "idontwant":
                return names
            case "prune":
                return {topic: self._prune() for topic in topics}
            case _:
                return topics

    def _names_to_announce(self, names: list[str]) -> list[str]:
        """Return the messages that an IHAVE may announce.

        These are no messages with the router as author. Without scores, they are no messages that were first
        announced three or more heartbeats ago.
        """
        if self.more != "own_promised":
            names = [name for name in names if self.messages[name].get("from") != "self"]
        if "Score" not in self.parameters and self.more != "promises_without_scores":
            names = [name for name in names if self.beats - self.announced.get(name, self.beats) < 3]
        for name in names:
            self.announced.setdefault(name, self.beats)
        return sorted(names)

    def _prune(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self.chance.random() < 0.7:
            found["backoff"] = self.chance.choice([0] if self.more == "zero_backoff" else [1, 5, 60, 100_000])
        if self.chance.random() < 0.4:
            found["peers"] = self.chance.sample("ABXYZ", self.chance.randint(1, 3))
        return found
