"""Scores at their edges: where a moment, a sender or a state decides."""

from __future__ import annotations

from collections.abc import Iterator

from vector_scripts.score_script import MS, SECOND, STILL, TOPIC, ScoreScript

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
    yield after_the_mesh()
    yield second_prune()
    yield window()
    yield copies_count_once()
    yield copies_of_strangers()
    yield verdicts_are_final()
    yield blame_for_copies()
    yield signatures_leave_no_record()
    yield records_end()
    yield own_messages()
    yield unscored_topics()
    yield topic_cap()
    yield zero()
    yield misbehaviour_threshold()
    yield unknown_peers()


def script_of(name: str, description: str, peers: str, section: str, topic=None, **own) -> ScoreScript:
    """With these peers connected."""
    script = ScoreScript(name, description, peers, topic, specification=f"v1.1, {section}", **own)
    script.connect(*peers)
    return script


def whole_quanta() -> ScoreScript:
    script = script_of("whole-quanta", "Quanta that are over count, as of the last refresh.", "A", "P₁", MEMBER)
    script.graft("A")
    for script.at in (SECOND - 1, SECOND, 2_750 * MS):
        script.refresh()
    script.at = 9 * SECOND
    script.prune("A")
    return script


def grafted_again() -> ScoreScript:
    script = script_of("grafted-again", "The time in the mesh begins again with each GRAFT.", "A", "P₁", MEMBER)
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
    script = script_of("activation", "Deliveries are expected when more than the activation is over.", "A", "P₃", own)
    script.graft("A")
    for script.at in (SECOND, SECOND + 1):
        script.refresh()
    script.bring("A", 4)
    script.bring("A", 8, "n")
    return script


def after_the_mesh() -> ScoreScript:
    script = script_of(
        "deficit-after-prune",
        "Who has left the mesh lacks nothing there; with go the deficit goes on until the next GRAFT, and grows as "
        "deliveries decay.",
        "A",
        "P₃",
        {**EXPECTED, "MeshMessageDeliveriesDecay": 0.5},
    )
    script.graft("A")
    script.bring("A", 4)
    script.at = SECOND
    script.refresh()
    script.prune("A")
    for script.at in (2 * SECOND, 3 * SECOND):
        script.refresh()
    script.graft("A")
    return script


def second_prune() -> ScoreScript:
    script = script_of(
        "second-prune", "A PRUNE of a peer that has left counts nothing; with go it counts again.", "A", "P₃ᵦ", STICKY
    )
    script.graft("A")
    script.at = SECOND
    script.refresh()
    script.prune("A")
    script.prune("A")
    script.refresh()
    return script


def window() -> ScoreScript:
    script = script_of(
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
    script = script_of(
        "copies-count-once",
        "Of copies by one peer the first counts, before and after the verdict.",
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


def copies_of_strangers() -> ScoreScript:
    own = {**EXPECTED, "FirstMessageDeliveriesWeight": 1, "FirstMessageDeliveriesCap": 2}
    script = script_of(
        "outside-the-mesh",
        "Who is in no mesh gets credit for being first alone.",
        "AB",
        "P₂",
        own,
    )
    script.bring("A", 3)
    script.graft("A")
    script.at = MS
    script.refresh()
    script.bring("A", 3, "n")
    return script


def verdicts_are_final() -> ScoreScript:
    script = script_of(
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
    script = script_of(
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


def signatures_leave_no_record() -> ScoreScript:
    script = script_of(
        "bad-signatures",
        "A bad signature or one's own message is blamed at once, and says nothing about the message.",
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
    script = script_of(
        "records-end",
        "After SeenMsgTTL nothing is known of a message: a copy is no copy of it, and a verdict counts again.",
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
    script = script_of(
        "own-messages",
        "Copies of a message of one's own count as deliveries; no peer is first.",
        "AB",
        "P₃",
        EXPECTED,
    )
    script.graft(*"AB")
    script.at = MS
    script.refresh()
    script.do("deliver_own", topic=TOPIC, message="m")
    script.duplicate("A", "m")
    script.at += 20 * MS
    script.duplicate("B", "m")
    return script


def unscored_topics() -> ScoreScript:
    script = script_of("other-topics", "A topic without parameters counts nothing.", "A", "Topic Parameters", BLAMED)
    script.graft("A", topic="other")
    script.validate("m", "other")
    script.deliver("A", "m", "other")
    script.reject("A", "n", "invalid_signature", "other")
    script.prune("A", topic="other")
    return script


def topic_cap() -> ScoreScript:
    good = {**STILL, "FirstMessageDeliveriesWeight": 1, "FirstMessageDeliveriesCap": 100, **BLAMED}
    script = ScoreScript(
        "topic-cap",
        "The cap bounds what all topics together give, and no loss; in addition other parts count.",
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
    script.do("application_score", peer="A", score=3)
    for number in range(3):
        script.reject("A", f"bad{number}", "invalid_signature", "sport")
    return script


def zero() -> ScoreScript:
    own = {"FirstMessageDeliveriesWeight": 1, "FirstMessageDeliveriesCap": 9, "FirstMessageDeliveriesDecay": 0.5}
    script = script_of("decay-to-zero", "Below DecayToZero a counter is 0; at it, it is not.", "A", "Parameter Decay",
                     own, DecayToZero=0.25, BehaviourPenaltyWeight=-1, BehaviourPenaltyDecay=0.4)  # fmt: skip
    script.bring("A", 1)
    script.do("behaviour_penalty", peer="A", count=1)
    script.refresh(4)
    return script


def misbehaviour_threshold() -> ScoreScript:
    script = script_of(
        "behaviour-threshold",
        "What is beyond the threshold is squared; the specification has none, so it is 0 there.",
        "A",
        "P₇",
        BehaviourPenaltyWeight=-2,
        BehaviourPenaltyDecay=0.9,
        BehaviourPenaltyThreshold=2,
    )
    for count in (2, 1, 3):
        script.do("behaviour_penalty", peer="A", count=count)
    script.refresh()
    return script


def unknown_peers() -> ScoreScript:
    script = script_of(
        "unknown-peers", "Of peers that never connected nothing is counted.", "A", "Peer Scoring", BLAMED
    )
    script.peers.append("X")
    script.graft("X")
    script.validate("m")
    script.duplicate("X", "m")
    script.reject("X", "m", "validation_failed")
    script.do("behaviour_penalty", peer="X", count=3)
    script.prune("X")
    script.do("disconnect", peer="X")
    script.connect("X")
    return script
