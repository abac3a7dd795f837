"""Score parameters of implementations, of Filecoin, and of the evaluation of gossipsub v1.1 under attack.

go v0.19.0 gives none but the times of a refresh; libp2p-gossipsub 0.50.1, @libp2p/gossipsub 17.1.1, nim-libp2p
12f25f0af, jvm-libp2p 3d3d3d90. Defaults of a topic are the role `any`; no implementation applies them to topics
unasked. Filecoin: Lotus, August 2026, on go; mesh deliveries are not scored anywhere, and only bootstrap and drand
peers, whom the application trusts (P5), can reach `accept_exchange`. The evaluation is that of
libp2p/gossipsub-hardening, 2020."""

from __future__ import annotations

from dataclasses import replace

from hearsay.core.scores.declarations import (
    InvalidCopies,
    Ipv6Counting,
    MeshTimes,
    QuantumRounding,
    RetainedScores,
    Validation,
    decay_over,
)
from hearsay.core.scores.score_parameters import PeerScoreParameters, ScoreThresholds, TopicScoreParameters
from hearsay.core.scores.score_set import ANY_TOPIC, ScoreSet

GO = ScoreSet(
    peer=PeerScoreParameters(
        validation=Validation.SELECTIVE,
        decay_interval_ms=1_000,
        decay_to_zero=0.01,
        deficit_after_prune=True,
        second_prune_counts=True,
    ),
)

_COMMON_THRESHOLDS = ScoreThresholds(
    gossip=-10, publish=-50, graylist=-80, accept_exchange=10, opportunistic_graft=20
)
_COMMON_TOPIC = TopicScoreParameters(
    topic_weight=0.5,
    time_in_mesh_weight=1,
    time_in_mesh_quantum_ms=1,
    time_in_mesh_cap=3600,
    first_deliveries_weight=1,
    first_deliveries_decay=0.5,
    first_deliveries_cap=2000,
    mesh_deliveries_weight=-1,
    mesh_deliveries_decay=0.5,
    mesh_deliveries_cap=100,
    mesh_deliveries_threshold=20,
    mesh_deliveries_window_ms=10,
    mesh_deliveries_activation_ms=5_000,
    mesh_failure_weight=-1,
    mesh_failure_decay=0.5,
    invalid_messages_weight=-1,
    invalid_messages_decay=0.3,
)
"""rust's and js's."""

RUST = ScoreSet(
    peer=PeerScoreParameters(
        topic_cap=3600,
        application_weight=10,
        shared_address_weight=-5,
        shared_address_threshold=10,
        ipv6_addresses=Ipv6Counting.WHOLE,
        misbehaviour_weight=-10,
        misbehaviour_decay=0.2,
        slow_peer_weight=-0.2,
        slow_peer_decay=0.2,
        decay_interval_ms=1_000,
        decay_to_zero=0.1,
        retain_ms=3_600_000,
        time_in_mesh_quanta=QuantumRounding.FRACTION,
    ),
    thresholds=_COMMON_THRESHOLDS,
    topics={ANY_TOPIC: _COMMON_TOPIC},
)

JS = ScoreSet(
    peer=PeerScoreParameters(
        topic_cap=10,
        application_weight=10,
        shared_address_weight=-5,
        shared_address_threshold=10,
        misbehaviour_weight=-10,
        misbehaviour_decay=0.2,
        decay_interval_ms=1_000,
        decay_to_zero=0.1,
        retain_ms=3_600_000,
        time_in_mesh_quanta=QuantumRounding.FRACTION,
        retained_scores=RetainedScores.UNTIL_RETURN,
    ),
    thresholds=_COMMON_THRESHOLDS,
    topics={ANY_TOPIC: _COMMON_TOPIC},
)

NIM = ScoreSet(
    peer=PeerScoreParameters(
        validation=Validation.SELECTIVE,
        shared_address_threshold=1,
        slow_peer_threshold=2,
        slow_peer_decay=0.2,
        misbehaviour_weight=-1,
        misbehaviour_decay=0.999,
        decay_interval_ms=1_000,
        decay_to_zero=0.01,
        retain_ms=120_000,
        time_in_mesh_quanta=QuantumRounding.FRACTION,
        retained_scores=RetainedScores.ALL,
    ),
    thresholds=ScoreThresholds(gossip=-100, publish=-1_000, graylist=-10_000),
    topics={
        ANY_TOPIC: TopicScoreParameters(
            time_in_mesh_weight=0.01,
            time_in_mesh_quantum_ms=1_000,
            time_in_mesh_cap=10,
            first_deliveries_weight=1,
            first_deliveries_decay=0.5,
            first_deliveries_cap=10,
            mesh_deliveries_weight=-1,
            mesh_deliveries_decay=0.5,
            mesh_deliveries_cap=10,
            mesh_deliveries_threshold=1,
            mesh_deliveries_window_ms=5,
            mesh_deliveries_activation_ms=10_000,
            mesh_failure_weight=-1,
            mesh_failure_decay=0.5,
            invalid_messages_weight=-1,
            invalid_messages_decay=0.5,
        )
    },
)

_NEVER_ZERO = 5e-324
"""The smallest number above 0: below it there is only 0, which is jvm's default."""

JVM = ScoreSet(
    peer=PeerScoreParameters(
        validation=Validation.SELECTIVE,
        ipv6_addresses=Ipv6Counting.NOT,
        misbehaviour_threshold=1,
        misbehaviour_decay=0.9,
        decay_interval_ms=60_000,
        decay_to_zero=_NEVER_ZERO,
        retain_ms=600_000,
        time_in_mesh_quanta=QuantumRounding.FRACTION,
        mesh_times=MeshTimes.NOW,
        invalid_copies=InvalidCopies.MEMBERS,
        retained_scores=RetainedScores.ALL,
        decay_while_away=True,
    ),
)


_HOUR = decay_over(3600, 0.01)
_TEN_MINUTES = decay_over(600, 0.01)


def _filecoin_topic(
    weight: float, in_mesh: float, first: float, decay: float, cap: float, gater_weight: float
) -> TopicScoreParameters:
    return TopicScoreParameters(
        validation=Validation.SELECTIVE,
        topic_weight=weight,
        time_in_mesh_weight=in_mesh,
        time_in_mesh_quantum_ms=1_000,
        time_in_mesh_cap=1,
        first_deliveries_weight=first,
        first_deliveries_decay=decay,
        first_deliveries_cap=cap,
        invalid_messages_weight=-1000,
        invalid_messages_decay=_HOUR,
        gater_weight=gater_weight,
    )


_MESSAGES = _filecoin_topic(0.1, 0.0002778, 0.5, _TEN_MINUTES, 100, 1)


FILECOIN = ScoreSet(
    peer=replace(
        GO.peer,
        application_weight=1,
        shared_address_weight=-100,
        shared_address_threshold=5,
        misbehaviour_weight=-10,
        misbehaviour_threshold=6,
        misbehaviour_decay=_HOUR,
        retain_ms=6 * 3_600_000,
    ),
    thresholds=ScoreThresholds(
        gossip=-500, publish=-1_000, graylist=-2_500, accept_exchange=1_000, opportunistic_graft=3.5
    ),
    topics={
        "blocks": _filecoin_topic(0.1, 0.00027, 5, _HOUR, 100, 10),
        "messages": _MESSAGES,
        "msgs": _MESSAGES,
        "drand": _filecoin_topic(0.5, 0.00027, 5, _HOUR, 25, 5),
    },
)
"""`msgs` is what Lotus calls the messages: `/fil/msgs/testnetnet`."""


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
