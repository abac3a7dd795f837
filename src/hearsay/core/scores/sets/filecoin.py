"""What Filecoin runs (Lotus, August 2026; go underneath).

Mesh deliveries are not scored anywhere. Only bootstrap and drand peers, whom the application trusts (P5), can reach
`accept_exchange`.
"""

from __future__ import annotations

from dataclasses import replace

from hearsay.core.scores.choices import Validation
from hearsay.core.scores.decays import decay_over
from hearsay.core.scores.score_set import ScoreSet
from hearsay.core.scores.sets.implementations import GO
from hearsay.core.scores.thresholds import ScoreThresholds
from hearsay.core.scores.topic_parameters import TopicScoreParameters

_HOUR = decay_over(3600, 0.01)
_TEN_MINUTES = decay_over(600, 0.01)


def _topic(
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


_MESSAGES = _topic(0.1, 0.0002778, 0.5, _TEN_MINUTES, 100, 1)


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
        "blocks": _topic(0.1, 0.00027, 5, _HOUR, 100, 10),
        "messages": _MESSAGES,
        "msgs": _MESSAGES,
        "drand": _topic(0.5, 0.00027, 5, _HOUR, 25, 5),
    },
)
"""`msgs` is what Lotus calls the messages: `/fil/msgs/testnetnet`."""
