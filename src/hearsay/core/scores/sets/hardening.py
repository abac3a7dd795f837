"""The parameters of the evaluation of gossipsub v1.1 under attack: libp2p/gossipsub-hardening, 2020."""

from __future__ import annotations

from dataclasses import replace

from hearsay.core.scores.score_set import ANY_TOPIC, ScoreSet
from hearsay.core.scores.sets.implementations import GO
from hearsay.core.scores.thresholds import ScoreThresholds
from hearsay.core.scores.topic_parameters import TopicScoreParameters

HARDENING = ScoreSet(
    peer=replace(GO.peer, retain_ms=30_000),
    thresholds=ScoreThresholds(gossip=-4_000, publish=-5_000, graylist=-10_000),
    topics={
        ANY_TOPIC: TopicScoreParameters(
            topic_weight=0.25,
            time_in_mesh_weight=0.0027,
            time_in_mesh_quantum_ms=1_000,
            time_in_mesh_cap=3600,
            first_deliveries_weight=0.664,
            first_deliveries_decay=0.9916,
            first_deliveries_cap=1500,
            mesh_deliveries_weight=-0.25,
            mesh_deliveries_decay=0.997,
            mesh_deliveries_cap=400,
            mesh_deliveries_threshold=10,
            mesh_deliveries_window_ms=5,
            mesh_deliveries_activation_ms=60_000,
            mesh_failure_weight=-0.25,
            mesh_failure_decay=0.997,
            invalid_messages_weight=-99,
            invalid_messages_decay=0.9994,
        )
    },
)
