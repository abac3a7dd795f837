"""Scores of random calls: three topics, all parameters, changes of them, addresses of all kinds."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from vector_scripts.score_script import MS, SECOND, ScoreScript

from hearsay.vectors.score_run import REASONS

PEERS = "ABCDEF"
TOPICS = ("blocks", "news", "sport")
CALLS = 120
WEIGHTS = {
    "connect": 3,
    "addresses": 2,
    "disconnect": 2,
    "graft": 7,
    "prune": 3,
    "validate": 8,
    "deliver": 14,
    "deliver_own": 2,
    "duplicate": 22,
    "reject": 8,
    "behaviour_penalty": 3,
    "application_score": 2,
    "topic_parameters": 1,
    "refresh": 8,
}
"""How often each is made, relative to the others."""
ADDRESSES = ("1.2.3.4", "1.2.3.5", "10.1.2.3", "127.0.0.1", "2001:db8::1", "2001:db8::2", "2001:db8:0:1::1")


def scripts(count: int) -> Iterator[ScoreScript]:
    for seed in range(count):
        yield script(seed)


def topic(chance: random.Random) -> dict[str, Any]:
    one = chance.choice
    return {
        "TopicWeight": one([0.25, 0.5, 1]),
        "TimeInMeshWeight": one([0, 0.01, 0.0027, 1]),
        "TimeInMeshQuantum": one([MS, 700 * MS, SECOND]),
        "TimeInMeshCap": one([3, 10, 3600]),
        "FirstMessageDeliveriesWeight": one([0.3, 0.664, 1]),
        "FirstMessageDeliveriesDecay": one([0.5, 0.9, 0.9916]),
        "FirstMessageDeliveriesCap": one([2, 5, 100]),
        "MeshMessageDeliveriesWeight": one([0, -0.25, -1]),
        "MeshMessageDeliveriesDecay": one([0.5, 0.9, 0.997]),
        "MeshMessageDeliveriesCap": one([4, 9, 400]),
        "MeshMessageDeliveriesThreshold": one([2, 3.7, 10]),
        "MeshMessageDeliveriesWindow": one([0, 5 * MS, 100 * MS]),
        "MeshMessageDeliveriesActivation": one([0, SECOND, 2 * SECOND]),
        "MeshFailurePenaltyWeight": one([0, -0.25, -1]),
        "MeshFailurePenaltyDecay": one([0.5, 0.9, 0.997]),
        "InvalidMessageDeliveriesWeight": one([-1, -99]),
        "InvalidMessageDeliveriesDecay": one([0.5, 0.9, 0.9994]),
    }


def script(seed: int) -> ScoreScript:
    chance = random.Random(seed)
    one = chance.choice
    made = ScoreScript(
        f"random-{seed:02}",
        "Calls by chance.",
        PEERS,
        topics={name: topic(chance) for name in TOPICS[: 1 + seed % 3]},
        TopicScoreCap=one([0, 3, 20]),
        AppSpecificWeight=one([0, 0.5, 1]),
        IPColocationFactorWeight=one([-1, -5.5]),
        IPColocationFactorThreshold=one([1, 2]),
        IPColocationFactorWhitelist=one([[], ["10.0.0.0/8", "2001:db8:0:1::/64"]]),
        BehaviourPenaltyWeight=one([-1, -10]),
        BehaviourPenaltyThreshold=one([0, 1, 2.5]),
        BehaviourPenaltyDecay=one([0.2, 0.9, 0.99]),
        DecayToZero=one([0.01, 0.1]),
        RetainScore=one([SECOND, 5 * SECOND, 30 * SECOND]),
        SeenMsgTTL=3 * SECOND,
    )
    connected = set(PEERS[:-1])
    for peer in sorted(connected):
        made.connect(peer, addresses=addresses(chance))
    for number in range(CALLS):
        made.at += one([0, 0, 0, 1, 3 * MS, 5_001, 50 * MS, 400 * MS])
        event = chance.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        found = arguments(event, chance, made, number)
        if event == "connect":
            connected.add(found["peer"])
        elif event == "disconnect":
            connected.discard(found["peer"])
        elif event == "addresses" and found["peer"] not in connected:
            continue
        made.do(event, **found)
    return made


def arguments(event: str, chance: random.Random, made: ScoreScript, number: int) -> dict[str, Any]:
    topic_name = "other" if chance.random() < 0.05 else chance.choice(list(made.parameters["Topics"]))
    message = f"{topic_name}-{chance.randint(max(0, number // 12 - 3), number // 12)}"
    found: dict[str, Any] = {}
    if event not in ("validate", "deliver_own", "topic_parameters", "refresh"):
        found["peer"] = chance.choice("AABBCDEF")
    if event in ("graft", "prune"):
        found["topic"] = topic_name
    if event in ("validate", "deliver", "deliver_own", "duplicate", "reject"):
        found |= {"topic": topic_name, "message": message}
    match event:
        case "connect" | "addresses":
            found["addresses"] = addresses(chance)
        case "reject":
            found["reason"] = chance.choice(list(REASONS))
        case "behaviour_penalty":
            found["count"] = chance.randint(1, 3)
        case "application_score":
            found["score"] = chance.choice([-10, -1.5, 0, 2, 7.25])
        case "topic_parameters":
            found |= {"topic": chance.choice(list(made.parameters["Topics"])), "parameters": topic(chance)}
        case _:
            pass
    return found


def addresses(chance: random.Random) -> list[str]:
    """Two of one /64 are left out: go counts their prefix twice."""
    found: list[str] = chance.sample(ADDRESSES, chance.randint(0, 2))
    return found[:1] if found and all(text.startswith("2001:db8::") for text in found) else found
