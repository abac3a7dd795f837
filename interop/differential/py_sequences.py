"""Random sequences of steps for py-libp2p's router and Hearsay's, in the same format as for other routers.

py-libp2p counts backoffs and the life of a fan-out in whole seconds, rounded down. So a step is later within its
second than all steps of earlier seconds within theirs, and in the first half. Then whole seconds and exact times lead
to the same decisions.

A sequence leaves out steps that py-libp2p is known to handle differently, except those of one known difference:
`more`. `py_differences.py` describes its effects.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from sequence_parts import PEERS, SECOND, STEPS, TOPICS

PROTOCOLS = (
    "/meshsub/1.3.0",
    "/meshsub/1.2.0",
    "/meshsub/1.1.0",
    "/meshsub/1.1.0",
    "/meshsub/1.0.0",
    "/floodsub/1.0.0",
)
FLOODSUB = PROTOCOLS[-1]
CONTROL = {"ihave", "iwant", "graft", "prune", "idontwant"}
MORE = (
    "flood_threshold", "small_mesh", "scorer", "bare_unsubscribe", "stranger_grafts", "floodsub_grafts",
    "any_publish", "any_order", "repeated_while_asked",
)  # fmt: skip
EVENTS = {
    "heartbeat": 12,
    "rpc": 60,
    "publish": 7,
    "connect": 6,
    "disconnect": 3,
    "join": 3,
    "leave": 2,
    "verdict": 6,
}
PARTS = {
    "subscribe": 6,
    "unsubscribe": 2,
    "messages": 14,
    "ihave": 7,
    "iwant": 8,
    "graft": 12,
    "prune": 3,
    "idontwant": 6,
}

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
        self.second = self.within = 0
        self.connected: dict[str, str] = {}
        self.subscribed: set[tuple[str, str]] = set()
        self.joined: set[str] = set()
        self.fanout_topics: set[str] = set()
        """Topics that may have a fan-out."""
        self.changed = False
        """True if subscribers may have changed since the heartbeat, so that a fan-out may have too few peers."""
        self.backoff_topics: set[str] = set()
        """Topics in which there may be backoffs."""
        self.published: set[str] = set()
        self.waiting: list[str] = []
        self.steps: list[Step] = []
        self.parameters = self._parameters()
        self.messages = {f"m{number:02}": self._message() for number in range(40)}

    def make(self, name: str) -> dict[str, Any]:
        for peer in PEERS[: self.chance.randint(3, 8)]:
            self._connect(peer)
        for topic in TOPICS[: self.chance.randint(1, 2)]:
            self._join(topic)
        for peer in sorted(self.connected):
            if self.chance.random() < 0.8:
                self._subscribe(peer)
        while len(self.steps) < STEPS:
            self._step()
        return {
            "name": name, "more": self.more, "parameters": self.parameters, "messages": self.messages,
            "steps": self.steps[:STEPS],
        }  # fmt: skip

    def _parameters(self) -> dict[str, Any]:
        one = self.chance.choice
        degree = 2 if self.more == "small_mesh" else one([2, 3, 4])
        return {
            "D": degree,
            "Dlo": one([1, degree]),
            "Dhi": one([2, 3]) if self.more == "small_mesh" else 20,
            "Dscore": 0,
            "Dout": 0,
            "Dlazy": 6,
            "GossipFactor": 0.25,
            "HeartbeatInitialDelay": SECOND // 2,
            "HeartbeatInterval": SECOND,
            "HistoryLength": 5,
            "HistoryGossip": one([1, 3]),
            "GossipRetransmission": 1_000_000,
            "MaxIHaveLength": 5_000,
            "MaxIHaveMessages": 0,
            "FanoutTTL": one([2_900_000, 60_900_000]),
            "PruneBackoff": one([4, 60]) * SECOND,
            "UnsubscribeBackoff": one([3, 10]) * SECOND,
            "GraftFloodThreshold": 10 * SECOND if self.more == "flood_threshold" else 0,
            "PrunePeers": 0 if self.more == "stranger_grafts" else one([0, 16]),
            "OpportunisticGraftTicks": 1 if self.more == "scorer" else 0,
            "FloodPublish": False,
            "IDontWantMessageThreshold": 1,
            "IDontWantMessageTTL": 1,
            "MaxIDontWantLength": 1_000,
            "MaxIDontWantMessages": 1_000,
            "Validate": self.more == "repeated_while_asked" or one([False, True]),
        }

    def _message(self) -> dict[str, Any]:
        found: dict[str, Any] = {"topic": self.chance.choice(TOPICS), "size": self.chance.choice([10, 200, 2000])}
        author = self.chance.choice([None, None, "author", "A", "self"])
        return found if author is None else {**found, "from": author}

    def _add(self, event: str, **more: Any) -> None:
        if self.within == 39:
            self._beat()
        self.within += 1
        at = self.second * (SECOND + 4_000) + self.within * 100
        self.steps.append({"at": at, "event": event, **more})

    def _beat(self) -> None:
        for _ in range(self.chance.choice([1, 1, 1, 1, 1, 2, 5])):
            self.steps.append({"at": self.second * SECOND + SECOND // 2, "event": "heartbeat"})
            self.second += 1
        self.within = 0
        self.changed = False

    def _step(self) -> None:
        event = self.chance.choices(list(EVENTS), list(EVENTS.values()))[0]
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
            case "disconnect" if len(connected) > 2:
                self._disconnect(one(connected))
            case "join" if topic not in self.joined:
                self._join(topic)
            case "leave" if topic in self.joined:
                self._leave(topic)
            case "publish":
                self._publish()
            case "verdict" if self.waiting:
                name = self.waiting.pop(self.chance.randrange(len(self.waiting)))
                self._add("verdict", message=name, verdict=one(["accept", "accept", "reject"]))
            case "rpc" if connected:
                last = self.steps[-1].get("peer")
                self._rpc(last if last in connected and self.chance.random() < 0.3 else one(connected))
            case _:
                pass

    def _connect(self, peer: str) -> None:
        self.connected[peer] = self.chance.choice(PROTOCOLS)
        outbound, address = self.chance.random() < 0.4, f"10.0.0.{self.chance.randint(1, 6)}"
        self._add("connect", peer=peer, protocol=self.connected[peer], outbound=outbound, address=address)

    def _disconnect(self, peer: str) -> None:
        del self.connected[peer]
        self.subscribed = {each for each in self.subscribed if each[0] != peer}
        self.changed = True
        self._add("disconnect", peer=peer)

    def _join(self, topic: str) -> None:
        self.joined.add(topic)
        self.fanout_topics.discard(topic)
        self._add("join", topic=topic)

    def _leave(self, topic: str) -> None:
        if any(self.messages[name]["topic"] == topic for name in self.waiting):
            return
        self.joined.discard(topic)
        self.backoff_topics.add(topic)
        self._add("leave", topic=topic)

    def _publish(self) -> None:
        names = [name for name in self.messages if name not in self.published]
        if not names:
            return
        name = self.chance.choice(names)
        topic = self.messages[name]["topic"]
        if topic not in self.joined and self.more != "any_publish":
            able = [peer for peer, of in self.subscribed if of == topic and self.connected[peer] != FLOODSUB]
            if not able or topic in self.backoff_topics:
                return
            if self.changed and topic in self.fanout_topics:
                self._beat()
        self.published.add(name)
        self.messages[name]["from"] = "self"
        if topic not in self.joined:
            self.fanout_topics.add(topic)
        self._add("publish", message=name)

    def _subscribe(self, peer: str) -> None:
        topics = self.chance.sample(TOPICS, self.chance.randint(1, 2))
        self.subscribed.update((peer, topic) for topic in topics)
        self.changed = True
        self._add_rpc(peer, subscribe=topics)

    def _add_rpc(self, peer: str, **rpc: Any) -> None:
        """Add an RPC.

        If the RPC has only control parts, and the previous step is an RPC of the same peer with other control parts,
        the parts are added to that step.
        """
        last = self.steps[-1]
        before = last.get("rpc", {})
        if before and last["peer"] == peer and {*before, *rpc} <= CONTROL and not {*before} & {*rpc}:
            before.update(rpc)
        else:
            self._add("rpc", peer=peer, rpc=rpc)

    def _rpc(self, peer: str) -> None:
        if self.more == "any_order" and self.chance.random() < 0.5:
            names = self._names_to_send()
            if names and self.connected[peer] != FLOODSUB:
                self._send(peer, names, ihave=dict.fromkeys(sorted(self.joined), names), iwant=names)
            return
        part = self.chance.choices(list(PARTS), list(PARTS.values()))[0]
        topics = self.chance.sample(TOPICS, self.chance.randint(1, 2))
        names = self.chance.sample(sorted(self.messages), self.chance.randint(1, 4))
        match part:
            case "messages":
                self._send(peer, self._names_to_send())
            case "subscribe":
                self._subscribe(peer)
            case "unsubscribe":
                self._unsubscribe(peer, topics)
            case _ if self.connected[peer] == FLOODSUB and (part, self.more) != ("graft", "floodsub_grafts"):
                pass
            case "graft":
                grafts = self._topics_to_graft(peer)
                if grafts:
                    self._add_rpc(peer, graft=grafts)
            case "prune":
                topics = [topic for topic in topics if topic not in self.fanout_topics or self.more == "any_publish"]
                if topics:
                    self.backoff_topics.update(topics)
                    self._add_rpc(peer, prune={topic: self._prune(topic) for topic in topics})
            case "ihave":
                known = [topic for topic in topics if topic in self.joined or self.chance.random() < 0.1]
                if known:
                    self._add_rpc(peer, ihave=dict.fromkeys(known, names))
            case "iwant":
                here = sorted(self.published)
                self._add_rpc(peer, iwant=self.chance.sample(here, min(3, len(here))) or names)
            case _ if self.connected[peer] in PROTOCOLS[:2]:
                self._idontwant(peer)
            case _:
                pass

    def _idontwant(self, peer: str) -> None:
        """Send IDONTWANT for messages that may be forwarded later; often another peer sends one of them at once."""
        names = [name for name in self.messages if name not in self.published or name in self.waiting]
        if not names:
            return
        names = self.chance.sample(names, min(3, len(names)))
        self._add_rpc(peer, idontwant=names)
        others = sorted({*self.connected} - {peer})
        if others and names[0] not in self.waiting and self.chance.random() < 0.5:
            self._send(self.chance.choice(others), names[:1])

    def _send(self, peer: str, names: list[str], **more: Any) -> None:
        if not names:
            return
        self.published.update(names)
        if self.parameters["Validate"]:
            known = [name for name in names if self.messages[name]["topic"] in self.joined]
            self.waiting += [name for name in known if name not in self.waiting]
        self._add_rpc(peer, messages=names, **more)

    def _names_to_send(self) -> list[str]:
        """Return random messages, few that were published before, and none that waits for a verdict."""
        names = self.chance.sample(sorted(self.messages), self.chance.randint(1, 4))
        again = self.more == "repeated_while_asked"
        return [name for name in names if (name not in self.published or self.chance.random() < 0.3)
                and (again or name not in self.waiting)]  # fmt: skip

    def _unsubscribe(self, peer: str, topics: Sequence[str]) -> None:
        """Unsubscribe a peer from topics; it sends PRUNE first. A peer of a fan-out does not unsubscribe."""
        topics = [topic for topic in topics if (peer, topic) in self.subscribed and topic not in self.fanout_topics]
        if not topics:
            return
        self.backoff_topics.update(topics)
        if self.more != "bare_unsubscribe" and self.connected[peer] != FLOODSUB:
            self._add_rpc(peer, prune={topic: {"backoff": 5} for topic in topics})
        self.subscribed -= {(peer, topic) for topic in topics}
        self._add_rpc(peer, unsubscribe=topics)

    def _topics_to_graft(self, peer: str) -> list[str]:
        topics = self.chance.sample(TOPICS, self.chance.randint(1, 2))
        return [topic for topic in topics
                if (topic in self.joined or self.chance.random() < 0.1)
                and ((peer, topic) in self.subscribed or self.more == "stranger_grafts")]  # fmt: skip

    def _prune(self, topic: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self.chance.random() < 0.7:
            found["backoff"] = self.chance.choice([1, 5, 60])
        if self.chance.random() < 0.4 and self.parameters["PrunePeers"] and topic in self.joined:
            found["peers"] = self.chance.sample("ABXYZ", self.chance.randint(1, 3))
        return found
