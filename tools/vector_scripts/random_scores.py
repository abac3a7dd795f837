"""Vectors of scores after random calls: up to three topics, random parameters that change, addresses of all kinds."""

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
"""Relative frequencies of the calls."""
ADDRESSES = ("1.2.3.4", "1.2.3.5", "10.1.2.3", "127.0.0.1", "2001:db8::1", "2001:db8::2", "2001:db8:0:1::1")


def scripts(count: int) -> Iterator[ScoreScript]:
    for seed in range(count):
        yield script(seed)


def random_parameters(chance: random.Random) -> dict[str, Any]:
    choose = chance.choice
    return {
        "TopicWeight": choose([0.25, 0.5, 1]),
        "TimeInMeshWeight": choose([0, 0.01, 0.0027, 1]),
        "TimeInMeshQuantum": choose([MS, 700 * MS, SECOND]),
        "TimeInMeshCap": choose([3, 10, 3600]),
        "FirstMessageDeliveriesWeight": choose([0.3, 0.664, 1]),
        "FirstMessageDeliveriesDecay": choose([0.5, 0.9, 0.9916]),
        "FirstMessageDeliveriesCap": choose([2, 5, 100]),
        "MeshMessageDeliveriesWeight": choose([0, -0.25, -1]),
        "MeshMessageDeliveriesDecay": choose([0.5, 0.9, 0.997]),
        "MeshMessageDeliveriesCap": choose([4, 9, 400]),
        "MeshMessageDeliveriesThreshold": choose([2, 3.7, 10]),
        "MeshMessageDeliveriesWindow": choose([0, 5 * MS, 100 * MS]),
        "MeshMessageDeliveriesActivation": choose([0, SECOND, 2 * SECOND]),
        "MeshFailurePenaltyWeight": choose([0, -0.25, -1]),
        "MeshFailurePenaltyDecay": choose([0.5, 0.9, 0.997]),
        "InvalidMessageDeliveriesWeight": choose([-1, -99]),
        "InvalidMessageDeliveriesDecay": choose([0.5, 0.9, 0.9994]),
    }


def script(seed: int) -> ScoreScript:
    chance = random.Random(seed)
    choose = chance.choice
    made = ScoreScript(
        f"random-{seed:02}",
        "Random calls.",
        PEERS,
        topics={name: random_parameters(chance) for name in TOPICS[: 1 + seed % 3]},
        TopicScoreCap=choose([0, 3, 20]),
        AppSpecificWeight=choose([0, 0.5, 1]),
        IPColocationFactorWeight=choose([-1, -5.5]),
        IPColocationFactorThreshold=choose([1, 2]),
        IPColocationFactorWhitelist=choose([[], ["10.0.0.0/8", "2001:db8:0:1::/64"]]),
        BehaviourPenaltyWeight=choose([-1, -10]),
        BehaviourPenaltyThreshold=choose([0, 1, 2.5]),
        BehaviourPenaltyDecay=choose([0.2, 0.9, 0.99]),
        DecayToZero=choose([0.01, 0.1]),
        RetainScore=choose([SECOND, 5 * SECOND, 30 * SECOND]),
        SeenMsgTTL=3 * SECOND,
    )
    connected = set(PEERS[:-1])
    for peer in sorted(connected):
        made.connect(peer, addresses=addresses(chance))
    for number in range(CALLS):
        made.at += choose([0, 0, 0, 1, 3 * MS, 5_001, 50 * MS, 400 * MS])
        event = chance.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        more = arguments(event, chance, made, number)
        if event == "connect":
            connected.add(more["peer"])
        elif event == "disconnect":
            connected.discard(more["peer"])
        elif event == "addresses" and more["peer"] not in connected:
            continue
        made.add_step(event, **more)
    return made


def arguments(event: str, chance: random.Random, made: ScoreScript, number: int) -> dict[str, Any]:
    topic_name = "other" if chance.random() < 0.05 else chance.choice(list(made.parameters["Topics"]))
    message = f"{topic_name}-{chance.randint(max(0, number // 12 - 3), number // 12)}"
    more: dict[str, Any] = {}
    if event not in ("validate", "deliver_own", "topic_parameters", "refresh"):
        more["peer"] = chance.choice("AABBCDEF")
    if event in ("graft", "prune"):
        more["topic"] = topic_name
    if event in ("validate", "deliver", "deliver_own", "duplicate", "reject"):
        more |= {"topic": topic_name, "message": message}
    match event:
        case "connect" | "addresses":
            more["addresses"] = addresses(chance)
        case "reject":
            more["reason"] = chance.choice(list(REASONS))
        case "behaviour_penalty":
            more["count"] = chance.randint(1, 3)
        case "application_score":
            more["score"] = chance.choice([-10, -1.5, 0, 2, 7.25])
        case "topic_parameters":
            more |= {"topic": chance.choice(list(made.parameters["Topics"])), "parameters": random_parameters(chance)}
        case _:
            pass
    return more


def addresses(chance: random.Random) -> list[str]:
    """Return up to two random addresses; never two of one /64, because go counts their prefix twice."""
    found: list[str] = chance.sample(ADDRESSES, chance.randint(0, 2))
    return found[:1] if found and all(text.startswith("2001:db8::") for text in found) else found
