"""Constants and score parameters that the random sequences for several implementations share."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

SECOND = 1_000_000
STEPS = 50
PEERS = "ABCDEFGH"
TOPICS = ("news", "sport")


def score_parameters(chance: random.Random, retain_score: Callable[[], int]) -> dict[str, Any]:
    """Choose random parameters of scores; `retain_score` returns the value of `RetainScore`."""
    one = chance.choice
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
        "RetainScore": retain_score(),
        "SeenMsgTTL": 120 * SECOND,
        "Thresholds": {
            "GossipThreshold": -10, "PublishThreshold": -20, "GraylistThreshold": -40,
            "AcceptPXThreshold": one([0, 5]),
            "OpportunisticGraftThreshold": one([0, 3]),
        },
        "Topics": {topic: _topic_score(chance) for topic in TOPICS[: one([1, 2])]},
    }  # fmt: skip


def _topic_score(chance: random.Random) -> dict[str, Any]:
    one = chance.choice
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
