"""What a vector of scores looks like, and which of our parameters its names stand for.

The names are those of the specification of v1.1 and of go-libp2p-pubsub. Times are microseconds.
"""

from __future__ import annotations

from dataclasses import dataclass

from hearsay.core.language.actions import Reason
from hearsay.core.shell.parameters import MAX_COUNT, MAX_TIME_MS
from hearsay.vectors.shapes import Address, Cases, Listing, Named, Number, Shape, Shared, Table, Text, Whole, Word

MILLISECOND = 1_000
LATEST_US = MAX_TIME_MS * MILLISECOND
MOST_STEPS = 20_000
MOST_PEERS = 1_000
MOST_TOPICS = 100
MOST_ADDRESSES = 16
LARGEST = 1e300
"""Of a score: squares and weights at their limits stay far below it."""

REASONS = {
    "invalid_signature": Reason.BAD_SIGNATURE,
    "self_origin": Reason.SELF_ORIGIN,
    "validation_failed": Reason.REJECTED,
    "validation_ignored": Reason.IGNORED,
    "validation_throttled": Reason.THROTTLED,
    "queue_full": Reason.QUEUE_FULL,
}
KNOWN = ("go", "rust", "js", "nim", "jvm", "py")
"""Implementations that may differ."""
TOPIC_PARTS = ("P1", "P2", "P3", "P3b", "P4")
PEER_PARTS = ("P5", "P6", "P7")


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter's name here, what a file may give it, and whether it is a time."""

    ours: str
    shape: Shape
    is_time: bool = False

    def value(self, given: float) -> float:
        """As our parameters have it: times in milliseconds."""
        return int(given) // MILLISECOND if self.is_time else given


def _reward(ours: str) -> Parameter:
    return Parameter(ours, Number(0, MAX_COUNT))


def _penalty(ours: str) -> Parameter:
    return Parameter(ours, Number(-MAX_COUNT, 0))


def _decay(ours: str, high: float = 1) -> Parameter:
    return Parameter(ours, Number(0, high))


def time(ours: str, low: int = 0) -> Parameter:
    return Parameter(ours, Whole(low, LATEST_US, "microseconds", MILLISECOND), True)


TOPIC = {
    "TopicWeight": _reward("topic_weight"),
    "TimeInMeshWeight": _reward("time_in_mesh_weight"),
    "TimeInMeshQuantum": time("time_in_mesh_quantum_ms", MILLISECOND),
    "TimeInMeshCap": _reward("time_in_mesh_cap"),
    "FirstMessageDeliveriesWeight": _reward("first_deliveries_weight"),
    "FirstMessageDeliveriesDecay": _decay("first_deliveries_decay"),
    "FirstMessageDeliveriesCap": _reward("first_deliveries_cap"),
    "MeshMessageDeliveriesWeight": _penalty("mesh_deliveries_weight"),
    "MeshMessageDeliveriesDecay": _decay("mesh_deliveries_decay"),
    "MeshMessageDeliveriesCap": _reward("mesh_deliveries_cap"),
    "MeshMessageDeliveriesThreshold": _reward("mesh_deliveries_threshold"),
    "MeshMessageDeliveriesWindow": time("mesh_deliveries_window_ms"),
    "MeshMessageDeliveriesActivation": time("mesh_deliveries_activation_ms"),
    "MeshFailurePenaltyWeight": _penalty("mesh_failure_weight"),
    "MeshFailurePenaltyDecay": _decay("mesh_failure_decay"),
    "InvalidMessageDeliveriesWeight": _penalty("invalid_messages_weight"),
    "InvalidMessageDeliveriesDecay": _decay("invalid_messages_decay"),
}
_BELOW_ONE = 1 - 2.0**-53
PEER = {
    "TopicScoreCap": _reward("topic_cap"),
    "AppSpecificWeight": _reward("application_weight"),
    "IPColocationFactorWeight": _penalty("shared_address_weight"),
    "IPColocationFactorThreshold": Parameter("shared_address_threshold", Whole(0, MAX_COUNT)),
    "IPColocationFactorWhitelist": Parameter("shared_address_allowed", Listing(Text("a network: 10.0.0.0/8"), 100)),
    "BehaviourPenaltyWeight": _penalty("misbehaviour_weight"),
    "BehaviourPenaltyThreshold": _reward("misbehaviour_threshold"),
    "BehaviourPenaltyDecay": _decay("misbehaviour_decay", _BELOW_ONE),
    "DecayInterval": time("decay_interval_ms", 1_000 * MILLISECOND),
    "DecayToZero": Parameter("decay_to_zero", Number(2.0**-40, _BELOW_ONE)),
    "RetainScore": time("retain_ms"),
    "SeenMsgTTL": time("delivery_ttl_ms"),
}

TOPIC_SHAPE = Shared(
    "topic", Table({name: each.shape for name, each in TOPIC.items()}, ("TopicWeight", "TimeInMeshQuantum"))
)
PARAMETERS = Table(
    {**{name: each.shape for name, each in PEER.items()}, "Topics": Named(TOPIC_SHAPE, MOST_TOPICS)},
    ("DecayInterval", "DecayToZero", "SeenMsgTTL"),
    "what is left out is 0, and off",
)

_worth = Number(-LARGEST, LARGEST)
_OF_TOPIC = Table(dict.fromkeys(TOPIC_PARTS, _worth), (), "of a topic, times their weights, not yet the topic's")
_PARTS = Table(
    {**dict.fromkeys(PEER_PARTS, _worth), "topics": Named(_OF_TOPIC, MOST_TOPICS)},
    (),
    "parts that are not 0, times their weights; those that are not here are 0",
)
SCORES = Shared("scores", Named(Table({"score": _worth, "parts": _PARTS}, ("score",)), MOST_PEERS))
_DIFFERS = Shared(
    "scores_differ",
    Table(
        dict.fromkeys(KNOWN, SCORES),
        (),
        "by implementation: what is expected of it in place of that, peer by peer",
    ),
)
STEP = {
    "at": Whole(0, LATEST_US, "microseconds; never before the step before"),
    "expect": SCORES,
    "differs": _DIFFERS,
}


def _step(**more: Shape) -> Table:
    return Table({**STEP, **more}, ("at", *more))


_peer = Text("a peer")
_topic = Text("a topic")
_message = Text("a message's id")
_of_message: dict[str, Shape] = {"peer": _peer, "topic": _topic, "message": _message}
_addresses = Listing(Address("an IP address"), MOST_ADDRESSES)
EVENTS = Cases(
    "event",
    {
        "connect": _step(peer=_peer, addresses=_addresses),
        "addresses": _step(peer=_peer, addresses=_addresses),
        "disconnect": _step(peer=_peer),
        "graft": _step(peer=_peer, topic=_topic),
        "prune": _step(peer=_peer, topic=_topic),
        "validate": _step(topic=_topic, message=_message),
        "deliver": _step(**_of_message),
        "deliver_own": _step(topic=_topic, message=_message),
        "duplicate": _step(**_of_message),
        "reject": _step(**_of_message, reason=Word(tuple(REASONS))),
        "behaviour_penalty": _step(peer=_peer, count=Whole(0, MAX_COUNT)),
        "application_score": _step(peer=_peer, score=Number(-MAX_COUNT, MAX_COUNT)),
        "topic_parameters": _step(topic=_topic, parameters=TOPIC_SHAPE),
        "refresh": _step(),
    },
)
VECTOR = {
    "parameters": PARAMETERS,
    "peers": Listing(_peer, MOST_PEERS, "whose scores are looked at after every step", 1),
    "steps": Listing(EVENTS, MOST_STEPS, least=1),
}
