"""Vectors of scores at limits: ends of times and windows, repeated events, peers outside the mesh."""

from __future__ import annotations

from collections.abc import Iterator

from vector_scripts.score_script import MS, NO_DECAY, SECOND, TOPIC, ScoreScript

MEMBER = {"TimeInMeshWeight": 1, "TimeInMeshCap": 100}
EXPECTED = {
    "MeshMessageDeliveriesWeight": -1,
    "MeshMessageDeliveriesCap": 20,
    "MeshMessageDeliveriesThreshold": 10,
    "MeshMessageDeliveriesWindow": 10 * MS,
}
STICKY = {**EXPECTED, "MeshFailurePenaltyWeight": -1, "MeshFailurePenaltyDecay": 0.5}
BLAMED = {"InvalidMessageDeliveriesWeight": -1}


def scripts() -> Iterator[ScoreScript]:
    yield whole_quanta()
    yield grafted_again()
    yield activation()
    yield deficit_after_prune()
    yield second_prune()
    yield window()
    yield copies_count_once()
    yield outside_the_mesh()
    yield one_verdict()
    yield blame_for_copies()
    yield bad_signatures()
    yield records_end()
    yield own_messages()
    yield other_topics()
    yield topic_cap()
    yield decay_to_zero()
    yield misbehaviour_threshold()
    yield unknown_peers()


def connected_script(name: str, description: str, peers: str, section: str, topic=None, **own) -> ScoreScript:
    """Return a script whose peers are connected."""
    script = ScoreScript(name, description, peers, topic, specification=f"v1.1, {section}", **own)
    script.connect(*peers)
    return script


def whole_quanta() -> ScoreScript:
    script = connected_script(
        "whole-quanta", "Only complete quanta count, as of the last refresh.", "A", "P₁", MEMBER
    )
    script.graft("A")
    for script.at in (SECOND - 1, SECOND, 2_750 * MS):
        script.refresh()
    script.at = 9 * SECOND
    script.prune("A")
    return script


def grafted_again() -> ScoreScript:
    script = connected_script(
        "grafted-again", "The time in the mesh begins again with each GRAFT.", "A", "P₁", MEMBER
    )
    script.graft("A")
    script.at = 3 * SECOND
    script.refresh()
    script.prune("A")
    script.graft("A")
    script.at = 4 * SECOND
    script.refresh()
    return script


def activation() -> ScoreScript:
    own = {**EXPECTED, "MeshMessageDeliveriesActivation": SECOND}
    script = connected_script(
        "activation", "Deliveries are expected after the activation, not yet at its end.", "A", "P₃", own
    )
    script.graft("A")
    for script.at in (SECOND, SECOND + 1):
        script.refresh()
    script.deliver_first("A", 4)
    script.deliver_first("A", 8, "n")
    return script


def deficit_after_prune() -> ScoreScript:
    script = connected_script(
        "deficit-after-prune",
        "A peer that has left the mesh has no deficit; with go the deficit stays until the next GRAFT, and grows as "
        "deliveries decay.",
        "A",
        "P₃",
        {**EXPECTED, "MeshMessageDeliveriesDecay": 0.5},
    )
    script.graft("A")
    script.deliver_first("A", 4)
    script.at = SECOND
    script.refresh()
    script.prune("A")
    for script.at in (2 * SECOND, 3 * SECOND):
        script.refresh()
    script.graft("A")
    return script


def second_prune() -> ScoreScript:
    script = connected_script(
        "second-prune", "A PRUNE of a peer outside the mesh adds no P₃ᵦ; with go it does.", "A", "P₃ᵦ", STICKY
    )
    script.graft("A")
    script.at = SECOND
    script.refresh()
    script.prune("A")
    script.prune("A")
    script.refresh()
    return script


def window() -> ScoreScript:
    script = connected_script(
        "window",
        "A copy counts up to the end of the window after the verdict.",
        "ABC",
        "P₃",
        EXPECTED,
    )
    script.graft(*"ABC")
    script.at = SECOND
    script.refresh()
    script.validate("m")
    script.at += 5 * SECOND
    script.deliver("A", "m")
    script.at += 10 * MS
    script.duplicate("B", "m")
    script.at += 1
    script.duplicate("C", "m")
    return script


def copies_count_once() -> ScoreScript:
    script = connected_script(
        "copies-count-once",
        "Only the first copy from each peer counts, before and after the verdict.",
        "ABC",
        "P₃",
        EXPECTED,
    )
    script.graft(*"ABC")
    script.at = MS
    script.refresh()
    script.validate("m")
    for _ in range(2):
        script.duplicate("B", "m")
        script.duplicate("A", "m")
    script.deliver("A", "m")
    for peer in "BCCA":
        script.duplicate(peer, "m")
    return script


def outside_the_mesh() -> ScoreScript:
    own = {**EXPECTED, "FirstMessageDeliveriesWeight": 1, "FirstMessageDeliveriesCap": 2}
    script = connected_script(
        "outside-the-mesh",
        "A peer outside the mesh gets credit for first deliveries only.",
        "AB",
        "P₂",
        own,
    )
    script.deliver_first("A", 3)
    script.graft("A")
    script.at = MS
    script.refresh()
    script.deliver_first("A", 3, "n")
    return script


def one_verdict() -> ScoreScript:
    script = connected_script(
        "one-verdict",
        "The first verdict of a message holds: later ones blame no peer and credit no copies.",
        "ABC",
        "P₄",
        {**BLAMED, **EXPECTED},
    )
    script.graft(*"ABC")
    script.at = MS
    script.refresh()
    script.validate("good")
    script.deliver("A", "good")
    script.reject("B", "good", "validation_failed")
    script.duplicate("C", "good")
    script.validate("bad")
    script.reject("A", "bad", "validation_failed")
    script.reject("B", "bad", "validation_failed")
    script.duplicate("C", "bad")
    for reason in ("validation_ignored", "validation_throttled"):
        script.validate(reason)
        script.duplicate("C", reason)
        script.reject("A", reason, reason)
        script.reject("A", reason, "validation_failed")
        script.duplicate("B", reason)
    return script


def blame_for_copies() -> ScoreScript:
    script = connected_script(
        "blame-for-copies", "Each copy of an invalid message counts, also by peers in no mesh.", "ABC", "P₄", BLAMED
    )
    script.graft("B")
    script.validate("m")
    script.duplicate("B", "m")
    script.duplicate("C", "m")
    script.reject("A", "m", "validation_failed")
    for peer in "ABCC":
        script.duplicate(peer, "m")
    return script


def bad_signatures() -> ScoreScript:
    script = connected_script(
        "bad-signatures",
        "An invalid signature or the node's own message is blamed at once, and is no verdict about the message.",
        "AB",
        "P₄",
        {**BLAMED, "FirstMessageDeliveriesWeight": 1, "FirstMessageDeliveriesCap": 9},
    )
    script.reject("A", "m", "invalid_signature")
    script.reject("A", "m", "self_origin")
    script.validate("m")
    script.deliver("B", "m")
    script.reject("A", "m", "invalid_signature")
    return script


def records_end() -> ScoreScript:
    script = connected_script(
        "records-end",
        "After SeenMsgTTL the record of an invalid message is removed, and a copy is not blamed.",
        "AB",
        "P₄",
        BLAMED,
        SeenMsgTTL=3 * SECOND,
    )
    script.validate("m")
    script.reject("A", "m", "validation_failed")
    for script.at in (3 * SECOND, 3 * SECOND + 1):
        script.refresh()
        script.duplicate("B", "m")
    return script


def own_messages() -> ScoreScript:
    script = connected_script(
        "own-messages",
        "Copies of the node's own message count as deliveries within the window; no peer is first.",
        "AB",
        "P₃",
        EXPECTED,
    )
    script.graft(*"AB")
    script.at = MS
    script.refresh()
    script.add_step("deliver_own", topic=TOPIC, message="m")
    script.duplicate("A", "m")
    script.at += 20 * MS
    script.duplicate("B", "m")
    return script


def other_topics() -> ScoreScript:
    script = connected_script(
        "other-topics", "Nothing is counted in a topic without parameters.", "A", "Topic Parameters", BLAMED
    )
    script.graft("A", topic="other")
    script.validate("m", "other")
    script.deliver("A", "m", "other")
    script.reject("A", "n", "invalid_signature", "other")
    script.prune("A", topic="other")
    return script


def topic_cap() -> ScoreScript:
    good = {**NO_DECAY, "FirstMessageDeliveriesWeight": 1, "FirstMessageDeliveriesCap": 100, **BLAMED}
    script = ScoreScript(
        "topic-cap",
        "The cap bounds the sum of all topics above, not below, and without the other parts of a score.",
        "A",
        topics={TOPIC: {**good, "TopicWeight": 0.5}, "sport": {**good, "TopicWeight": 2}},
        specification="v1.1, TopicScoreCap",
        TopicScoreCap=5,
        AppSpecificWeight=1,
    )
    script.connect("A")
    for number in range(4):
        for topic in (TOPIC, "sport"):
            script.validate(f"{topic}{number}", topic)
            script.deliver("A", f"{topic}{number}", topic)
    script.add_step("application_score", peer="A", score=3)
    for number in range(3):
        script.reject("A", f"bad{number}", "invalid_signature", "sport")
    return script


def decay_to_zero() -> ScoreScript:
    own = {"FirstMessageDeliveriesWeight": 1, "FirstMessageDeliveriesCap": 9, "FirstMessageDeliveriesDecay": 0.5}
    script = connected_script(
        "decay-to-zero", "A counter below DecayToZero becomes 0; an equal counter stays.", "A", "Parameter Decay",
        own, DecayToZero=0.25, BehaviourPenaltyWeight=-1, BehaviourPenaltyDecay=0.4,
    )  # fmt: skip
    script.deliver_first("A", 1)
    script.add_step("behaviour_penalty", peer="A", count=1)
    script.refresh(4)
    return script


def misbehaviour_threshold() -> ScoreScript:
    script = connected_script(
        "behaviour-threshold",
        "The excess over the threshold is squared; the specification has no threshold, and 0 is used.",
        "A",
        "P₇",
        BehaviourPenaltyWeight=-2,
        BehaviourPenaltyDecay=0.9,
        BehaviourPenaltyThreshold=2,
    )
    for count in (2, 1, 3):
        script.add_step("behaviour_penalty", peer="A", count=count)
    script.refresh()
    return script


def unknown_peers() -> ScoreScript:
    script = connected_script(
        "unknown-peers", "Nothing is counted for peers that never connected.", "A", "Peer Scoring", BLAMED
    )
    script.peers.append("X")
    script.graft("X")
    script.validate("m")
    script.duplicate("X", "m")
    script.reject("X", "m", "validation_failed")
    script.add_step("behaviour_penalty", peer="X", count=3)
    script.prune("X")
    script.add_step("disconnect", peer="X")
    script.connect("X")
    return script
