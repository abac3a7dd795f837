"""Random sequences of steps for go's router and Hearsay's: vectors without expected results, made from a seed.

docs/reference/vectors.md has the format; in addition, an RPC may have `extensions`. Heartbeats are at half seconds
and scores decay at whole seconds, so that no two timers expire together; other steps are between them. The name of a
message begins with the first letter of its topic. So the first of all ids in an RPC by name, which go chooses, is
also the first id of the RPC's first topic.

A sequence leaves out steps that go is known to handle differently, except those of one known difference: `more`.
`go_differences.py` describes its effects.
"""

from __future__ import annotations

import random
from typing import Any

from sequence_parts import PEERS, SECOND, STEPS, TOPICS, score_parameters

PROTOCOLS = (
    "/meshsub/1.3.0", "/meshsub/1.2.0", "/meshsub/1.2.0", "/meshsub/1.1.0", "/meshsub/1.0.0", "/floodsub/1.0.0",
)  # fmt: skip
NEWEST, FLOODSUB = PROTOCOLS[0], PROTOCOLS[-1]
CONTROL = {"ihave", "iwant", "graft", "prune", "idontwant", "extensions"}
MORE = (
    "floodsub_grafts", "bare_unsubscribe", "stranger_grafts", "fanout_unsubscribe", "leave_while_asked",
    "empty_fanout", "foreign_ids", "old_extensions", "member_becomes_direct", "ihave_limit",
    "forget_at_once",
)  # fmt: skip
EVENTS = {
    "heartbeat": 24, "rpc": 60, "publish": 6, "connect": 10, "disconnect": 2, "join": 3, "leave": 1,
    "application_score": 3, "verdict": 10, "direct": 1,
}  # fmt: skip
"""Events with their weights in the random choice."""
PARTS = {
    "subscribe": 4, "unsubscribe": 1, "messages": 8, "ihave": 5, "iwant": 5, "graft": 8, "prune": 2, "idontwant": 3,
    "extensions": 1,
}  # fmt: skip

Step = dict[str, Any]


def sequence(seed: int, more: str | None = None) -> dict[str, Any]:
    """Return the sequence of a seed. `more` is the known difference that it may show; by default, a fifth of the
    sequences have a random one.
    """
    chance = random.Random(seed)
    drawn = chance.choice(MORE) if chance.random() < 0.2 else ""
    return _SequenceMaker(chance, drawn if more is None else more).make(f"seed-{seed}")


class _SequenceMaker:
    def __init__(self, chance: random.Random, more: str) -> None:
        self.chance = chance
        self.more = more
        self.now = 0
        self.steps: list[Step] = []
        self.connected: dict[str, str] = {}
        self.direct: set[str] = set()
        self.subscribed: set[tuple[str, str]] = set()
        self.joined: set[str] = set()
        self.fanout_topics: set[str] = set()
        """Topics that may have a fan-out."""
        self.announced: set[str] = set()
        self.published: set[str] = set()
        self.waiting: list[str] = []
        self.parameters = self._parameters()
        made = [self._message() for _ in range(24)]
        self.messages = {f"{own['topic'][0]}{number:02}": own for number, own in enumerate(made)}

    def make(self, name: str) -> dict[str, Any]:
        for peer in PEERS[: self.chance.randint(2, 8)]:
            self._connect(peer)
        for topic in TOPICS[: 1 if self.more == "fanout_unsubscribe" else self.chance.randint(1, 2)]:
            self._join(topic)
        for peer in sorted(self.connected):
            if self.chance.random() < 0.6:
                self._add_rpc(peer, subscribe=self.chance.sample(TOPICS, self.chance.randint(1, 2)))
        while len(self.steps) < STEPS:
            self._step()
        return {
            "name": name, "more": self.more, "parameters": self.parameters, "messages": self.messages,
            "steps": self.steps,
        }  # fmt: skip

    def _parameters(self) -> dict[str, Any]:
        one = self.chance.choice
        degrees = {"D": 8, "Dlo": 7, "Dhi": 16, "Dscore": 4, "Dout": 2, "Dlazy": 16}
        if self.chance.random() < 0.7:
            degree = one([2, 3, 4])
            degrees = {
                "D": degree, "Dlo": one([2, degree]), "Dhi": degree + one([1, 2]), "Dscore": one([1, degree]),
                "Dout": int(degree == 4), "Dlazy": one([1, 2, 6]),
            }  # fmt: skip
        found: dict[str, Any] = {
            **degrees,
            "HeartbeatInitialDelay": SECOND // 2,
            "HeartbeatInterval": SECOND,
            "HistoryLength": 5,
            "HistoryGossip": one([1, 3]),
            "GossipRetransmission": one([1, 3]),
            "MaxIHaveLength": one([2, 4, 5000]),
            "MaxIHaveMessages": one([2, 10]),
            "IWantFollowupTime": one([1, 3]) * SECOND,
            "FanoutTTL": one([2, 60]) * SECOND,
            "PruneBackoff": one([4, 60]) * SECOND,
            "UnsubscribeBackoff": one([3, 10]) * SECOND,
            "GraftFloodThreshold": one([1, 3]) * SECOND,
            "PrunePeers": one([2, 16]),
            "OpportunisticGraftTicks": one([2, 60]),
            "DirectConnectTicks": one([3, 300]),
            "FloodPublish": one([False, True]),
            "IDontWantMessageThreshold": one([100, 1024]),
            "IDontWantMessageTTL": one([1, 3]),
            "MaxIDontWantLength": one([2, 10]),
            "MaxIDontWantMessages": one([1, 1000]),
            "Validate": one([False, True]),
        }
        if self.chance.random() < 0.8 or self.more in ("old_extensions", "forget_at_once"):
            found["Score"] = score_parameters(self.chance, self._retain_score)
        return found

    def _retain_score(self) -> int:
        return 0 if self.more == "forget_at_once" else self.chance.choice([1, 3, 60]) * SECOND

    def _message(self) -> dict[str, Any]:
        found: dict[str, Any] = {"topic": self.chance.choice(TOPICS), "size": self.chance.choice([10, 200, 2000])}
        author = self.chance.choice([None, None, "author", "A", "self"])
        return found if author is None else {**found, "from": author}

    def _add(self, event: str, **more: Any) -> None:
        self.now += self.chance.choice([1_000, 2_000, 15_000])
        if self.now % (SECOND // 2) < 20_000:
            self.now += 20_000
        self.steps.append({"at": self.now, "event": event, **more})

    def _step(self) -> None:
        event = self.chance.choices(list(EVENTS), list(EVENTS.values()))[0]
        one = self.chance.choice
        connected, absent = sorted(self.connected), sorted({*PEERS} - {*self.connected})
        topic = one(TOPICS)
        match event:
            case "heartbeat":
                self.now = (self.now + SECOND // 2) // SECOND * SECOND + SECOND // 2
                self.steps.append({"at": self.now, "event": "heartbeat"})
            case "connect" if absent:
                self._connect(one(absent))
            case "disconnect" if connected:
                peer = one(connected)
                del self.connected[peer]
                self.subscribed = {each for each in self.subscribed if each[0] != peer}
                self._add("disconnect", peer=peer)
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
            case "direct":
                self._choose_direct(one(PEERS))
            case "rpc" if connected:
                self._rpc(one(connected))
            case _:
                pass

    def _connect(self, peer: str) -> None:
        self.connected[peer] = self.chance.choice(PROTOCOLS)
        outbound, address = self.chance.random() < 0.4, f"10.0.0.{self.chance.randint(1, 6)}"
        self._add("connect", peer=peer, protocol=self.connected[peer], outbound=outbound, address=address)

    def _join(self, topic: str) -> None:
        self.joined.add(topic)
        self.fanout_topics.discard(topic)
        self._add("join", topic=topic)

    def _leave(self, topic: str) -> None:
        asked = any(self.messages[name]["topic"] == topic for name in self.waiting)
        if asked and self.more != "leave_while_asked":
            return
        self.joined.remove(topic)
        self._add("leave", topic=topic)

    def _choose_direct(self, peer: str) -> None:
        """Make a peer direct, or no longer direct, if it is not connected and so in no mesh and no fan-out."""
        free = peer not in self.connected or self.more == "member_becomes_direct"
        if free:
            self.direct ^= {peer}
            self._add("direct", peer=peer, direct=peer in self.direct)

    def _publish(self) -> None:
        """Publish a message that no peer announced; in a topic that is not joined, only if a peer may get it."""
        names = [name for name in self.messages if name not in self.published | self.announced]
        if not names:
            return
        name = self.chance.choice(names)
        topic = self.messages[name]["topic"]
        if topic not in self.joined:
            able = [peer for peer, of in self.subscribed if of == topic and self.connected[peer] != FLOODSUB]
            if not able and self.more != "empty_fanout":
                return
            self.fanout_topics.add(topic)
        self.published.add(name)
        self.messages[name]["from"] = "self"
        self._add("publish", message=name)

    def _rpc(self, peer: str) -> None:
        rpc: dict[str, Any] = {}
        for _ in range(self.chance.choice([1, 1, 2, 3])):
            often = {**PARTS, "unsubscribe": 15} if self.more == "fanout_unsubscribe" else PARTS
            part = self.chance.choices(list(often), list(often.values()))[0]
            found = self._part(part, peer)
            if found is not None and part not in rpc:
                rpc[part] = found
        self._add_rpc(peer, **rpc)

    def _add_rpc(self, peer: str, **rpc: Any) -> None:
        """Add an RPC, without the parts that go is known to handle differently."""
        self.subscribed.update((peer, topic) for topic in rpc.get("subscribe", ()))
        if "unsubscribe" in rpc:
            self._unsubscribe(peer, rpc)
        if "graft" in rpc and self.more != "stranger_grafts":
            rpc["graft"] = [topic for topic in rpc["graft"] if (peer, topic) in self.subscribed]
        counts = self.parameters["MaxIHaveMessages"] == 2 and self.more != "ihave_limit"
        if counts and {*rpc} & CONTROL and "ihave" not in rpc:
            rpc["ihave"] = self._ihave()
        self._remember(rpc)
        said = {part: found for part, found in rpc.items() if found or part == "extensions"}
        if said:
            self._add("rpc", peer=peer, rpc=said)

    def _unsubscribe(self, peer: str, rpc: dict[str, Any]) -> None:
        """Add a PRUNE to the RPC of a subscriber that unsubscribes, as a member sends it.

        Remove parts that are handled before the PRUNE, and topics with a fan-out, because peers of a fan-out do not
        unsubscribe here.
        """
        for part in ("messages", "graft"):
            rpc.pop(part, None)
        topics = [topic for topic in rpc["unsubscribe"]
                  if topic not in self.fanout_topics or self.more == "fanout_unsubscribe"]  # fmt: skip
        rpc["unsubscribe"] = topics
        gone = [topic for topic in topics if (peer, topic) in self.subscribed]
        if gone and self.more != "bare_unsubscribe":
            rpc["prune"] = {**rpc.get("prune", {}), **{topic: {"backoff": 5} for topic in gone}}
        self.subscribed.difference_update((peer, topic) for topic in topics)

    def _remember(self, rpc: dict[str, Any]) -> None:
        sent = rpc.get("messages", ())
        if "ihave" in rpc:
            own = {*sent} if self.parameters["Validate"] else set[str]()
            rpc["ihave"] = {topic: [name for name in ids if name not in own] for topic, ids in rpc["ihave"].items()}
            self.announced.update(*rpc["ihave"].values())
        self.published.update(sent)
        self.waiting += [name for name in sent if name not in self.waiting]

    def _part(self, part: str, peer: str) -> Any:
        topics = self.chance.sample(TOPICS, self.chance.randint(1, 2))
        names = self.chance.sample(sorted(self.messages), self.chance.randint(1, 4))
        match part:
            case "messages":
                again = [name for name in names if name not in self.published or self.chance.random() < 0.3]
                return [name for name in again if self._may_be_sent(name)]
            case "ihave":
                return self._ihave()
            case "iwant" | "idontwant":
                return names
            case "prune":
                return {topic: self._prune() for topic in topics}
            case "graft" if self.connected[peer] == FLOODSUB and self.more != "floodsub_grafts":
                return None
            case "extensions":
                known = self.connected[peer] == NEWEST or self.more == "old_extensions"
                return self.chance.choice([[], ["partial_messages"]]) if known else None
            case _:
                return topics

    def _ihave(self) -> dict[str, list[str]]:
        topics = sorted(self.chance.sample(TOPICS, self.chance.randint(1, 2)))
        found: dict[str, list[str]] = {}
        for topic in topics:
            names = [name for name, own in self.messages.items()
                     if own["topic"] == topic or self.more == "foreign_ids"]  # fmt: skip
            found[topic] = sorted(self.chance.sample(names, min(len(names), self.chance.randint(1, 4))))
        return found

    def _may_be_sent(self, name: str) -> bool:
        """Return whether a message may be sent: in a topic that is not joined, only if no peer knows it."""
        own = self.messages[name]
        new = name not in self.announced | self.published and own.get("from") != "self"
        return own["topic"] in self.joined or new or self.more == "foreign_ids"

    def _prune(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self.chance.random() < 0.7:
            found["backoff"] = self.chance.choice([1, 5, 60])
        if self.chance.random() < 0.4:
            found["peers"] = self.chance.sample("ABXYZ", self.chance.randint(1, 3))
        return found
