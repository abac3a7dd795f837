"""Checks on sets of parameters that some implementations refuse, though others start with them.

What go refuses in any mode is an error when the parameters are read. rust (gossipsub 0.50.1,
`peer_score/params.rs:89, 188, 330`) and js (17.1.1, `score/peer-score-params.ts:200, 247`) validate the whole set, as
go does unless it is told to skip what is not given (v0.19.0, `score_params.go:173, 236`). nim (12f25f0af,
`pubsub/gossipsub.nim:182, 232`) and jvm (3d3d3d90, `gossip/GossipParams.kt:327, 424, 549`) have rules of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from hearsay.core.scores.declarations import Validation
from hearsay.core.scores.score_parameters import PeerScoreParameters as Peer
from hearsay.core.scores.score_parameters import ScoreThresholds as Thresholds
from hearsay.core.scores.score_parameters import TopicScoreParameters as Topic
from hearsay.core.shell.parameters import ParameterError
from hearsay.score_check.findings import Told
from hearsay.score_check.worth import Worth

_RULES: dict[str, tuple[tuple[type, str, str, Callable[[Any], bool]], ...]] = {
    "nim": (
        (Peer, "decay_to_zero", "above 0 and at most 0.5", lambda own: 0 < own.decay_to_zero <= 0.5),
        (Peer, "shared_address_threshold", "at least 1", lambda own: own.shared_address_threshold >= 1),
        (Peer, "slow_peer_decay", "above 0", lambda own: own.slow_peer_decay > 0 or not own.slow_peer_threshold),
        (Peer, "misbehaviour_weight", "below 0", lambda own: own.misbehaviour_weight < 0),
        (Thresholds, "gossip", "below 0", lambda own: own.gossip < 0),
        (Thresholds, "publish", "below gossip", lambda own: own.publish < own.gossip),
        (Thresholds, "graylist", "below publish", lambda own: own.graylist < own.publish),
        (Topic, "time_in_mesh_weight", "above 0 and at most 1", lambda own: 0 < own.time_in_mesh_weight <= 1),
        (Topic, "time_in_mesh_cap", "above 0", lambda own: own.time_in_mesh_cap > 0),
        (Topic, "first_deliveries_weight", "above 0", lambda own: own.first_deliveries_weight > 0),
        (Topic, "mesh_deliveries_weight", "below 0", lambda own: own.mesh_deliveries_weight < 0),
        (Topic, "mesh_deliveries_threshold", "above 0", lambda own: own.mesh_deliveries_threshold > 0),
        (Topic, "mesh_failure_weight", "below 0", lambda own: own.mesh_failure_weight < 0),
        (Topic, "invalid_messages_weight", "below 0", lambda own: own.invalid_messages_weight < 0),
    ),
    "jvm": (
        (Peer, "misbehaviour_decay", "above 0", lambda own: own.misbehaviour_decay > 0),
        (Thresholds, "graylist", "below publish, or both must be 0",
         lambda own: own.graylist < own.publish or own.graylist == own.publish == 0),
    ),
}  # fmt: skip


def incomplete(worth: Worth) -> Iterator[Told]:
    for group, own in ((None, worth.subject.score.peer), *worth.subject.scored):
        try:
            replace(own, validation=Validation.ATOMIC)
        except ParameterError as error:
            for each in error.violations:
                words = f"rust, js and, in atomic mode, go refuse it: {each.field} {each.rule}"
                yield Told(words, each.field, group)


def refused(implementation: str, worth: Worth) -> Iterator[Told]:
    score = worth.subject.score
    for group, own in ((None, score.peer), (None, score.thresholds), *worth.subject.scored):
        for kind, name, words, holds in _RULES[implementation]:
            if isinstance(own, kind) and not holds(own):
                place = f"thresholds.{name}" if kind is Thresholds else name
                yield Told(f"{implementation} refuses it: {place} must be {words}", place, group)
